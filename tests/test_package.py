"""What is shipped, and what imports what."""

from __future__ import annotations

import ast
import functools
import importlib
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lightning_bleu
import lightning_bleu.compare
import lightning_bleu.hugging_face
import lightning_bleu.tasks
from lightning_bleu.compare.known_metrics import find_class
from lightning_bleu.core.corpus_metric import CorpusMetric
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from tests.helpers.metrics import BOTH, KINDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lightning_bleu"

FLOW = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1]
LAYERS = [name for name in re.findall(r"^  (\w+)", FLOW, re.MULTILINE) if [*PACKAGE.glob(f"{name}*")]] + ["__init__"]
"""Data flows down the picture in ARCHITECTURE.md, and imports point up."""


@functools.cache
def modules() -> dict[str, Path]:
    """The modules of the package by their names, ``counting.ngrams`` for example."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in paths}


def imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """The modules that a file imports, but for types; with `only_at_import`, when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if "TYPE_CHECKING" not in ast.dump(getattr(node, "test", ast.Pass()))]
    for node in tree.body if only_at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports."""
    names = modules()
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        found = {imported.removeprefix("lightning_bleu.") for imported in imports(path)}
        graph[name] = {other for other in found if other in names} | {
            f"{other}.__init__" for other in found if f"{other}.__init__" in names
        }
        graph[name].discard(name)
    return graph


def test_imports_point_one_way() -> None:
    graph = own_imports()
    assert {name.split(".")[0] for name in graph} == set(LAYERS)
    for name, others in graph.items():
        for other in others:
            layer, below = name.split(".")[0], other.split(".")[0]
            assert LAYERS.index(below) <= LAYERS.index(layer), f"{name} imports {other}"


def test_there_is_no_circle_of_imports() -> None:
    order = list(TopologicalSorter(own_imports()).static_order())  # raises an error for a circle
    assert order.index("core.forms") < order.index("metrics") < order.index("callback")


def test_what_scores_and_shows_a_validation_knows_no_other_processes() -> None:
    """It runs in process 0. Only the number of processes is known, because it decides if sentences need positions."""
    for name, path in modules().items():
        if name.startswith(("evaluation.", "observers.", "views.")):
            found = {other for other in imports(path) if other.startswith("lightning_bleu.core.processes.")}
            assert found <= {"lightning_bleu.core.processes.process_count"}, name


def test_only_the_callback_needs_lightning_and_nothing_needs_scipy_or_matplotlib_when_imported() -> None:
    for name, path in modules().items():
        packages = {imported.split(".")[0] for imported in imports(path, only_at_import=True)}
        allowed = {"pytorch_lightning"} if name == "callback" else set()
        assert packages & {"pytorch_lightning", "lightning", "scipy", "matplotlib"} == allowed, name


def test_the_stub_dir_and_all_have_the_same_names() -> None:
    """Type checkers read the stub, and a name is imported from the module that the stub says."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    assert len(set(listed)) == len(listed)
    assert sorted(listed) == sorted(lightning_bleu.__all__) == sorted(dir(lightning_bleu))
    imported: dict[str, object] = {}
    exec("from lightning_bleu import *", imported)
    for name in listed:
        value = getattr(lightning_bleu, name)
        assert imported[name] is value
        if callable(value):
            assert pickle.loads(pickle.dumps(value)) is value
    with pytest.raises(AttributeError, match="lightning_bleu attribute BLEUCallbak"):
        getattr(lightning_bleu, "BLEUCallbak")  # noqa: B009  # type checkers reject it as an attribute


@pytest.mark.parametrize(
    "leaf_name",
    [
        *[f"tasks.{name}" for name in ("CER", "ROUGE", "TER", "WER", "ExactMatch")],
        *[f"hugging_face.{name}" for name in ("EvaluatorMixin", "Prompts")],
        *[f"compare.{name}" for name in ("Comparison", "RecordedRun", "compare_systems", "read_run")],
    ],
)
def test_a_name_of_a_leaf_says_where_it_is(leaf_name: str) -> None:
    module, _, name = f"lightning_bleu.{leaf_name}".rpartition(".")
    right_import = f"from {module} import {name}"
    exec(right_import)
    with pytest.raises(ImportError, match=f"^{name} is in another module: {right_import}$"):
        exec(f"from lightning_bleu import {name}")
    with pytest.raises(AttributeError):
        getattr(lightning_bleu, f"{name}s")


def test_a_leaf_has_its_public_names_only_once() -> None:
    """What looks for a name, as jsonargparse does, goes on to where it is."""
    for leaf in (lightning_bleu.tasks, lightning_bleu.hugging_face, lightning_bleu.compare):
        for name in leaf.__all__:
            assert getattr(leaf, name).__name__ == name
            assert not hasattr(lightning_bleu, name)


def test_every_metric_and_what_it_returns_is_public_and_under_the_contract_of_metrics() -> None:
    for name in modules():
        importlib.import_module(f"lightning_bleu.{name}".removesuffix(".__init__"))
    ours = {one for one in CorpusMetric.__subclasses__() if one.__module__.startswith("lightning_bleu.")}
    assert all(find_class(metric.__name__) is type(metric().scorer) for metric in ours)  # type: ignore[call-arg]
    kinds = {kind.metric: kind for kind in KINDS.values()}
    assert ours <= kinds.keys()
    for metric, kind in kinds.items():
        report = kind.score(*BOTH)
        assert [*read_metrics(metric())] == [metric.short_name]  # it can stand alone
        assert next(iter(vars(report).values())) == float(report) == report.score  # the first field is the number
        if metric in ours:
            public = {metric, kind.score, kind.score_sentences, type(report)}
            assert {one.__name__ for one in public} <= {*lightning_bleu.__all__}


def top_level_names(path: Path) -> set[str]:
    """The classes, functions, and constants of a module."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def private_names(path: Path) -> tuple[set[str], set[str]]:
    """The private names that a module defines, and those that it takes from something other than `self`."""
    defined: set[str] = set()
    taken: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            taken.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if isinstance(node.ctx, ast.Store) and is_own:
                defined.add(node.attr)
            elif not is_own:
                taken.add(node.attr)
    is_private = re.compile("_(?!_)").match
    return {name for name in defined if is_private(name)}, {name for name in taken if is_private(name)}


def test_no_module_touches_a_private_name_of_another() -> None:
    names = {module: private_names(path) for module, path in modules().items()}
    for module, (defined, taken) in names.items():
        defined_elsewhere = set[str]().union(*(others for other, (others, _) in names.items() if other != module))
        others = (taken - defined) & defined_elsewhere
        assert not others, (module, others)


def test_no_two_things_have_one_name() -> None:
    """Neither modules nor their classes, functions, and constants, but for private ones."""
    owners: dict[str, set[str]] = {}
    for module, path in modules().items():
        *_, stem = module.split(".")
        if not stem.startswith("__"):
            owners.setdefault(stem, set()).add(f"module {module}")
        for name in top_level_names(path):
            if not name.startswith("_"):
                owners.setdefault(name, set()).add(module)
    own = {f"module {module}" for module in modules() if module.split(".")[-1] in top_level_names(modules()[module])}
    assert not {name: where for name, where in owners.items() if len(where - own) > 1}


def test_examples_import_what_is_public() -> None:
    for path in ROOT.glob("examples/*.py"):
        from_inside = re.compile(r"lightning_bleu\.(?!(tasks|hugging_face|compare)\.\w+$)\w+\.")
        assert not [name for name in imports(path) if from_inside.match(name)], path


IMPORTS = """
import importlib
import sys

import lightning_bleu


def packages():
    return {name.split(".")[0] for name in sys.modules}


assert not {"torch", "torchmetrics", "numpy", "sacrebleu"} & packages()
assert "BLEUCallback" in dir(lightning_bleu)

# Torchmetrics itself imports some of the packages that only some of our features need.
import torchmetrics

packages_of_torchmetrics = packages()
lightning_bleu.CorpusBLEU()
features = {"jinja2", "lightning", "matplotlib", "pandas", "pytorch_lightning", "scipy", "tensorboard", "transformers"}
assert not features & (packages() - packages_of_torchmetrics)

for name in sys.argv[1:]:
    importlib.import_module(name)
assert not {"pytorch_lightning", "lightning"} & packages()
lightning_bleu.BLEUCallback()
assert "pytorch_lightning" in packages()
"""


@pytest.mark.slow
@pytest.mark.long
def test_what_a_feature_needs_is_imported_when_it_is_used() -> None:
    others = [f"lightning_bleu.{name}" for name in modules() if name != "callback" and not name.endswith("__init__")]
    subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORTS, *others], check=True, cwd=ROOT)
