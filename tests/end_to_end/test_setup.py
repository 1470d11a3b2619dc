"""Configuration, completion and terminals that can draw less, in the real program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND


def written(text: str) -> Path:
    """Put text where the program looks for its configuration."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "tui-profiler" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=240, check=False
    )


def test_the_settings_are_printed_with_their_place() -> None:
    path = written("rate = 2\n")
    done = run("config")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(path) in done.stdout
    assert tomllib.loads(done.stdout)["rate"] == 2


def test_what_is_wrong_is_told_on_standard_error() -> None:
    written("rate = 2\n\ncolour = 'red'\n")
    done = run("config")
    assert done.returncode == 2
    assert done.stderr.startswith("config.toml:3: there is no setting 'colour'")
    assert tomllib.loads(done.stdout)["rate"] == 2


@pytest.fixture(scope="module")
def bash_script() -> str:
    return run("completion", "bash").stdout


def completed(script: str, words: list[str], folder: Path) -> list[str]:
    """Let bash complete the last of the words as its user would, with our script."""
    binary = folder / "bin"
    binary.mkdir()
    (binary / "tui-profiler").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (binary / "tui-profiler").chmod(0o755)
    typed = " ".join(word or "''" for word in words)
    asks = (
        f"{script}\n"
        "compopt() { printf '%s\\n' compopt; }\n"  # Only Readline itself may be told.
        f"COMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}\n"
        "_tui_profiler_whole_words tui-profiler\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{binary}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", asks],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env=environment,
        cwd=folder,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["tui-profiler", "rep"], "report"),
        (["tui-profiler", "explore", "--th"], "--theme"),
        (["tui-profiler", "explore", "--theme", "colour"], "colour-blind"),
        (["tui-profiler", "resnet50", "--gly"], "--glyphs"),
        (["tui-profiler", "completion", "z"], "zsh"),
        (["tui-profiler", "demo"], "demo:cnn"),
        (["tui-profiler", "report", "demo"], "demo:decoder"),
        (["tui-profiler", "demo", ":", "cn"], "cnn"),
        (["tui-profiler", "report", "demo", ":"], "decoder"),
        (["tui-profiler", "report", "--output", "z"], "compopt"),
    ],
)
def test_bash_completes(bash_script: str, words: list[str], expected: str, tmp_path: Path) -> None:
    assert expected in completed(bash_script, words, tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert f"{shell}_complete" in done.stdout
    interpreter = shutil.which(shell)
    if interpreter is not None:
        checked = subprocess.run(
            [interpreter, "-n"], input=done.stdout, text=True, check=False, timeout=240
        )
        assert checked.returncode == 0


def test_the_configuration_holds_in_the_real_program(start: Start) -> None:
    written('theme = "light"\nmouse = false\nrate = 99\n[keys]\nlog = "f6"\n')
    terminal = start("demo:cnn", "--no-run")
    terminal.wait_for("config.toml:3: rate: refreshes per second")
    assert b"\x1b[?1000h" not in terminal.raw
    assert b"48;2;251;251;250" in terminal.raw  # The light background, #FBFBFA.
    terminal.send("\x1b[17~")
    terminal.wait_for("no output so far")
    terminal.send("qq")
    assert terminal.wait_for_exit() == 0


def test_in_the_locale_c_only_ascii_is_drawn(start: Start) -> None:
    terminal = start("demo:cnn", environment={"LANG": "C", "LC_ALL": "C", "TERM": "xterm-256color"})
    shown = terminal.wait_for("import torch")
    assert shown.isascii()
    terminal.send("q")
    assert terminal.wait_for_exit() == 0


def test_the_linux_console_gets_its_own_characters_and_sixteen_colours(start: Start) -> None:
    terminal = start("demo:cnn", environment={"TERM": "linux", "COLORTERM": ""})
    terminal.wait_for(lambda text: "import torch" in text and "│" in text)
    assert not re.search(rb"\x1b\[[0-9;]*[34]8;[25];", bytes(terminal.raw))
    terminal.send("q")
    assert terminal.wait_for_exit() == 0


def test_the_look_is_remembered_over_two_starts(start: Start, tmp_path: Path) -> None:
    header = b'{"a.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    for begins, keys in (("params", "ss"), ("by bytes", "")):
        terminal = start(str(weights))
        terminal.wait_for(begins)
        terminal.send(keys)
        terminal.wait_for("by bytes")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
    (kept,) = (Path(os.environ["XDG_STATE_HOME"]) / "tui-profiler" / "models").iterdir()
    assert "w.safetensors" in kept.name
