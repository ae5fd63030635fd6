"""What is shipped."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import lightning_bleu

ROOT = Path(__file__).parents[1]


def test_wheel_and_sdist_build_and_the_wheel_imports(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert "lightning_bleu/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lightning_bleu"}
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("tests/reference.py") for name in archive.getnames())
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import lightning_bleu as l; print(l.__file__, l.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == [str(target / "lightning_bleu" / "__init__.py"), lightning_bleu.__version__]


def test_all_names_are_there() -> None:
    assert len(set(lightning_bleu.__all__)) == len(lightning_bleu.__all__)
    for name in lightning_bleu.__all__:
        assert hasattr(lightning_bleu, name)
