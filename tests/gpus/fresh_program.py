"""Programs in fresh processes over compiled libraries in place of a driver's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(source: Path, library: Path, *options: str) -> Path:
    """Compile a library and return its folder."""
    if COMPILER is None:
        pytest.skip("no C compiler to build the fake driver with")
    flags = ("-shared", "-fPIC", "-pthread", "-I", str(Path(__file__).parent), *options)
    subprocess.run([COMPILER, *flags, str(source), "-o", str(library)], check=True)
    return library.parent


def run(folder: Path, program: str, **variables: str) -> list[bytes]:
    """Run a program that finds libraries in a folder first; return what it printed."""
    paths = {"LD_LIBRARY_PATH": str(folder), "FAKE_FOLDER": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | paths | variables,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return done.stdout.splitlines()
