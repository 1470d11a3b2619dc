"""The wheel holds every package and data file that the checkout holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
# Installed name to folder in the checkout, and back.
FOLDER_OF: dict[str, str] = SETUPTOOLS["package-dir"]
NAME_OF = {folder: name for name, folder in FOLDER_OF.items()}


def installed_name(folder: Path) -> str:
    """Return ``tui_profiler.screens.widgets`` for ``screens/widgets``."""
    first, *others = folder.relative_to(ROOT).parts
    return ".".join((NAME_OF[first], *others))


def in_tree(pattern: str) -> list[Path]:
    found = (file for folder in NAME_OF for file in (ROOT / folder).rglob(pattern))
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


def installed_path(file: Path) -> str:
    return f"{installed_name(file.parent).replace('.', '/')}/{file.name}"


def test_every_package_is_listed() -> None:
    found = {installed_name(file.parent) for file in in_tree("__init__.py")}
    assert found == set(SETUPTOOLS["packages"])


def test_every_folder_with_code_is_a_package() -> None:
    folders = {file.parent for file in in_tree("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_listed() -> None:
    patterns: dict[str, list[str]] = SETUPTOOLS["package-data"]
    missing = [
        str(file.relative_to(ROOT))
        for file in in_tree("*")
        if file.suffix not in {".py", ".pyc"}
        and not any(file.match(p) for p in patterns.get(installed_name(file.parent), []))
    ]
    assert missing == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in NAME_OF:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", PROJECT["project"]["readme"], "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
        else:
            (copy / name).write_text("not written yet\n")
    code = (
        "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(copy)],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(copy / done.stdout.split()[-1])


def test_the_wheel_holds_all_of_the_tree(wheel: zipfile.ZipFile) -> None:
    wanted = {installed_path(file) for file in in_tree("*") if file.suffix != ".pyc"}
    assert wanted - set(wheel.namelist()) == set()


def test_the_wheel_puts_one_name_into_site_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tui_profiler"}


def test_the_wheel_has_the_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"tui-profiler = tui_profiler.screens.cli.main:main" in wheel.read(name)


def test_the_installed_command_runs(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    # From the wheel alone: neither the checkout nor the editable install may be found.
    code = (
        "import sys, runpy; sys.path[:] = [sys.argv.pop(1), *(p for p in sys.path if p)];"
        "sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in repr(f)];"
        "sys.argv[0] = 'tui-profiler';"
        "runpy.run_module('tui_profiler', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "--version"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.stdout.strip(), done.returncode) == (
        f"tui-profiler, version {PROJECT['project']['version']}",
        0,
    )
