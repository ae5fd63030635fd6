"""The command ``lightning-bleu``: compare systems, and show runs.

Arguments and files are checked before anything that needs torch is imported, so that an error comes at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lightning_bleu.compare.texts import read_systems
from lightning_bleu.core.clean import clean
from lightning_bleu.observers.recorded import find_run
from lightning_bleu.version import __version__

if TYPE_CHECKING:
    from lightning_bleu.core.scoring import EvaluatorMetric
    from lightning_bleu.views.viewable import Viewable


METRICS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "bleu": ("CorpusBLEU", {}),
    "chrf": ("CorpusCHRF", {}),
    "chrf++": ("CorpusCHRF", {"word_order": 2}),
    "ter": ("TER", {}),
    "wer": ("WER", {}),
    "cer": ("CER", {}),
    "rouge1": ("ROUGE", {"keys": ["rouge1"]}),
    "rouge2": ("ROUGE", {"keys": ["rouge2"]}),
    "rougeL": ("ROUGE", {"keys": ["rougeL"]}),
    "rougeLsum": ("ROUGE", {"keys": ["rougeLsum"]}),
    "exact_match": ("ExactMatch", {}),
}
"""What ``-m`` takes: the class of each metric, and its settings."""
_DEFAULT_METRICS = ("bleu", "chrf")
_BEGINNING = b"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="lightning_bleu">
"""
"""How a page of the command begins."""
_EXAMPLES = """\
examples:
  lightning-bleu compare old.txt new.txt -r ref.txt
  lightning-bleu compare small=a.txt big=b.txt -b base=c.txt -r ref1.txt -r ref2.txt --html report.html
  lightning-bleu compare new.txt -r ref.txt        (one system: its scores and its worst sentences)
  lightning-bleu compare run/val/step-0000500 run/val/step-0000900
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {clean(message)} (see {self.prog} --help)\n")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of the command. Exits with code 2 after an error, and with 0 after help."""
    parser = _Parser("lightning-bleu", description="Compare systems, and show the record of a run.")
    parser.add_argument("--version", action="version", version=f"lightning-bleu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {"compare": _add_compare(commands), "show": _add_show(commands)}
    if arguments and arguments[0] in parsers:
        # Files may also follow options, as in "compare a.txt -r ref.txt b.txt".
        return parsers[arguments[0]].parse_intermixed_args(arguments[1:])
    return parser.parse_args(arguments)


def _add_compare(commands: Any) -> argparse.ArgumentParser:
    about = "compare systems with a baseline, by their translations of the same sentences"
    parser: argparse.ArgumentParser = commands.add_parser(
        "compare",
        help=about,
        description=about,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("systems", nargs="+", metavar="[NAME=]PATH", help="files of lines, or folders of a record")
    parser.add_argument(
        "-b", "--baseline", metavar="[NAME=]PATH", help="what the others are compared with; the first system if not set"
    )
    parser.add_argument(
        "-r",
        "--reference",
        action="append",
        metavar="REF",
        help="references; repeat it for several. If not set: those in folders; ref.txt, ref-1.txt, ... beside files",
    )
    parser.add_argument(
        "-s", "--source", metavar="FILE", help="sources; if not set: those of the folders; src.txt beside files"
    )
    parser.add_argument(
        "-m",
        "--metric",
        action="append",
        choices=METRICS,
        metavar="METRIC",
        help=f"one of {', '.join(METRICS)}; repeat it for several. If not set: those of the folders, else bleu "
        "and chrf",
    )
    parser.add_argument("-t", "--tokenize", metavar="NAME", help="tokenizer of BLEU: 13a, intl, zh, ja-mecab, ...")
    parser.add_argument("--lowercase", action="store_true", help="BLEU and chrF ignore case")
    parser.add_argument("--confidence", type=float, default=0.95, metavar="C", help="of the intervals (0.95)")
    parser.add_argument("--resamples", type=int, metavar="N", help="bootstrap resamples (1000, or more if needed)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the resamples (0)")
    _add_output(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(command="compare", run=_compare)
    return parser


def _add_show(commands: Any) -> argparse.ArgumentParser:
    about = "show the record of a run: its validations, the best of them, and its worst sentences"
    parser: argparse.ArgumentParser = commands.add_parser("show", help=about, description=about)
    parser.add_argument("folder", metavar="FOLDER", help="what 'translations' was set to")
    _add_output(parser)
    parser.set_defaults(command="show", run=_show, json=False)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--examples",
        type=_read_count,
        metavar="N",
        help="how many sentences of each kind to show (3; 20 in HTML)",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page, which is a single file without scripts")


def _read_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {text}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code: 0, or 2 after an error."""
    options = parse_arguments(sys.argv[1:] if arguments is None else list(arguments))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # sentences may have characters that a terminal lacks
    warnings.showwarning = _show_warning
    try:
        options.run(options)
        print(end="", flush=True)  # unlike sys.stdout, which is None if it was closed
    except BrokenPipeError:  # as in "| head"
        # Python flushes the stream again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, TypeError, ImportError, RuntimeError) as error:  # RuntimeError: "~nobody/a.txt"
        _print_to_stderr(f"lightning-bleu {options.command}: error: {_describe_error(error)}")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _show_warning(message: Warning | str, *details: Any, **more: Any) -> None:
    _print_to_stderr(f"lightning-bleu: warning: {_clean_message(message)}")


def _print_to_stderr(line: str) -> None:
    """Print a line for the user. If nobody can read it, the exit code still says what happened."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _describe_error(error: Exception) -> str:
    """An error on one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return _clean_message(f"{error.strerror}: {str(error.filename)!r}")
    return _clean_message(error)


def _clean_message(message: object) -> str:
    """A message on one line, without control characters."""
    return " ".join(clean(str(message)).split())


def _compare(options: argparse.Namespace) -> None:
    """``lightning-bleu compare``."""
    files = _name_systems(options.systems, options.baseline)
    _check_output(options)
    metrics = options.metric or _DEFAULT_METRICS
    if options.tokenize is not None and "bleu" not in metrics:
        raise ValueError(f"-t is the tokenizer of BLEU, but the metrics are {', '.join(metrics)}: add -m bleu")
    if options.lowercase and not any(name.startswith(("bleu", "chrf")) for name in metrics):
        raise ValueError(f"--lowercase is an option of BLEU and chrF, but the metrics are {', '.join(metrics)}")
    references = None if options.reference is None else [*map(Path, options.reference)]
    texts = read_systems(files, references, options.source)
    from lightning_bleu.compare.systems import compare_texts

    comparison = compare_texts(
        texts, _make_metrics(options), confidence=options.confidence, resamples=options.resamples, seed=options.seed
    )
    _show_view(comparison, options)
    if options.json:
        _print_json(comparison.to_dict())


def _name_systems(systems: Sequence[str], baseline: str | None) -> dict[str, str]:
    """The files by name, that of the baseline first, which may be the name of one of the others."""
    if not systems:
        raise ValueError("there are no systems: pass files of translations")
    files = name_files(systems)
    for name, file in files.items():
        if baseline == file or (baseline == name and not Path(name).exists()):
            return {name: file} | files
    return name_files([*filter(None, [baseline]), *systems])


def _make_metrics(options: argparse.Namespace) -> dict[str, EvaluatorMetric] | None:
    """The metrics by name; None if no option says which."""
    if options.metric is None and options.tokenize is None and not options.lowercase:
        return None
    from lightning_bleu.bleu import BLEUScorer, BLEUSettings
    from lightning_bleu.chrf import CHRFScorer, CHRFSettings
    from lightning_bleu.compare.known_metrics import make_metric

    metrics: dict[str, EvaluatorMetric] = {}
    for name in options.metric or _DEFAULT_METRICS:
        class_name, settings = METRICS[name]
        if class_name == "CorpusBLEU":
            of_bleu = BLEUSettings.from_options(tokenizer=options.tokenize, lowercase=options.lowercase, percent=True)
            metrics[name] = BLEUScorer(of_bleu)
        elif class_name == "CorpusCHRF":
            metrics[name] = CHRFScorer(CHRFSettings.from_options(**settings, lowercase=options.lowercase, percent=True))
        else:
            metrics[name] = make_metric(class_name, settings, percent=True)
    return metrics


def _show(options: argparse.Namespace) -> None:
    """``lightning-bleu show``."""
    _check_output(options)
    folder = find_run(Path(options.folder).expanduser())
    from lightning_bleu.compare.recorded_run import read_run

    _show_view(read_run(folder), options)


def _check_output(options: argparse.Namespace) -> None:
    """Raise an error if a file cannot be written, or must not be, before anything is counted."""
    if options.html is None:
        return
    file = Path(options.html).expanduser()
    if file.is_dir():
        raise IsADirectoryError(None, "Is a directory", options.html)
    if not file.parent.is_dir():
        raise NotADirectoryError(None, "there is no such folder", file.parent)
    if not file.is_file():
        return
    with file.open("rb") as stream:  # the file may be large
        beginning = stream.read(2 * len(_BEGINNING)).replace(b"\r\n", b"\n")
    if beginning and not beginning.startswith(_BEGINNING):
        raise FileExistsError(None, "this file is no page that the command wrote, so it is not replaced", options.html)


def _print_json(values: dict[str, Any]) -> None:
    """Print values as JSON, which has neither NaN nor infinity: they become null."""
    finite = json.loads(json.dumps(values), parse_constant=lambda name: None)
    print(json.dumps(finite, indent=2))


def _show_view(shown: Viewable, options: argparse.Namespace) -> None:
    """Write the page; first, because a reader such as ``head`` may close the pipe before all is printed."""
    if options.html is not None:
        shown.to_html(options.html, examples=20 if options.examples is None else options.examples)
        print(f"lightning-bleu: wrote {options.html}", file=sys.stderr)
    if not options.json:
        print(shown.to_text(examples=3 if options.examples is None else options.examples))


def name_files(arguments: Sequence[str]) -> dict[str, str]:
    """Files by name: what is before ``=``, or what differs in their paths. An existing file is a file.

    Raises:
        ValueError: if two have the same name.

    Example:
        >>> name_files(["wmt.en-de.hyp.Online-A.de", "wmt.en-de.hyp.PROMT.de"])
        {'Online-A': 'wmt.en-de.hyp.Online-A.de', 'PROMT': 'wmt.en-de.hyp.PROMT.de'}
        >>> name_files(["runs/a/val/step-500.txt", "runs/b/val/step-500.txt", "old=c.txt"])
        {'a': 'runs/a/val/step-500.txt', 'b': 'runs/b/val/step-500.txt', 'old': 'c.txt'}
    """
    unnamed = [argument for argument in arguments if "=" not in argument or Path(argument).exists()]
    files: dict[str, str] = {}
    for argument in arguments:
        name, _, file = argument.partition("=")
        if argument in unnamed:
            name, file = _shorten_path(argument, unnamed), argument
        if name in files:
            raise ValueError(f"several systems would be called {name!r}: name them, as in NAME=FILE")
        files[name] = file
    return files


def _shorten_path(path: str, paths: Sequence[str]) -> str:
    """A path without the words at its beginning and its end that all paths share.

    Example:
        >>> _shorten_path("a/x.txt", ["a/x.txt", "a/y.txt"]), _shorten_path("runs/a/out.txt", ["runs/a/out.txt"])
        ('x', 'out')
    """
    if len(paths) == 1:
        return Path(path).stem or path
    start = _find_shared_words(paths)
    end = _find_shared_words([path[len(start) :][::-1] for path in paths])
    return path[len(start) : len(path) - len(end)] or path


def _find_shared_words(names: Sequence[str]) -> str:
    """The beginning that all names share, up to the last mark between words.

    Example:
        >>> _find_shared_words(["wmt.en-de.hyp.Online-A", "wmt.en-de.hyp.OpenNMT"])
        'wmt.en-de.hyp.'
    """
    beginning = os.path.commonprefix([*names])  # noqa: RUF071
    return beginning[: max(beginning.rfind(mark) for mark in "./_") + 1]
