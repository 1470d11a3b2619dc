"""The start screen and the tree of last time, in a real terminal with a real worker."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import Start

LIVE = "● live"


def test_a_model_opened_again_is_there_before_torch_is(start: Start) -> None:
    unwanted = start("demo:cnn", "--no-remembered", "--no-run")
    unwanted.wait_for("finished")
    unwanted.send("q")
    assert unwanted.wait_for_exit() == 0
    first = start("demo:cnn", forgets=False)
    first.wait_for(lambda text: "cached" in text or LIVE in text)
    assert LIVE in first.text(), "what was not to be kept was"
    first.send("q")
    assert first.wait_for_exit() == 0
    again = start("demo:cnn", forgets=False)
    # Both in one frame: the tree can be seen while the worker still imports torch.
    again.wait_for("on paper, cached")
    assert b"check versions" not in again.raw, "a frame without it"
    # The rows of one frame are written one after another.
    shown = again.wait_for(lambda text: "cached a moment ago" in text.split("\n")[0])
    header = shown.split("\n")[0]
    assert "import torch" in header or "loading" in header
    assert "MMAC" in header
    again.send("jj")
    again.wait_for(lambda text: " 3 of " in text)
    again.wait_for("the tree equals the cached one")
    shown = again.wait_for(LIVE)
    assert "cached a" not in shown
    assert " 3 of " in shown
    again.send("q")
    assert again.wait_for_exit() == 0


def test_without_a_model_one_is_chosen(start: Start, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\nbuild = nn.ReLU\n")
    terminal = start(folder=str(tmp_path))
    terminal.wait_for("files here")
    terminal.wait_for("net.py")
    terminal.send("cnn\r")
    terminal.wait_for(lambda text: "demo:cnn" in text.split("\n")[0] and "import torch" in text)
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()


def test_the_start_screen_is_left_with_ctrl_c_not_with_a_letter(start: Start) -> None:
    terminal = start()
    terminal.wait_for("demo:decoder")
    terminal.send("q")
    terminal.wait_for("open q")
    terminal.send("\x03")
    assert terminal.wait_for_exit() == 0
    assert terminal.modes_are_restored()
    assert terminal.workers() == []
