"""The real program in a pty, through a session that touches every key of every screen.

``python benchmarks/terminal/walk.py [MODEL...] [--size 120x40]... [--limit SECONDS] [--log FILE]``.
Two models are made here: ``giant`` has 100,000 nodes, ``weights`` is a file of parameters alone.
The keys are those that the program's screens are bound to (``walk_session.py``), so that a new key
is walked by itself. After each key the program must run, be where the key leads to, and have
written nothing beyond the last column (``walk_program.py``); at the end it leaves with code 0, the
terminal restored, no worker and no report of a crash.

What is wrong is told, and the walk goes on after it in a new program. With ``--log`` each piece is
kept, and the same command goes on where the one before it stopped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.terminal.walk_program import Walk
from benchmarks.terminal.walk_session import EXPLORER_MARK, Step, session

MODELS = (
    *("resnet50", "vit_b_16", "demo:decoder", "ssdlite320_mobilenet_v3_large"),
    *("demo:transformer --train", "giant", "weights"),
)
SIZES = ("120x40", "80x24", "60x15")
GIANT = """
from torch import nn


def build():
    blocks = [nn.Sequential(*[nn.ReLU() for _ in range(99)]) for _ in range(500)]
    return nn.Sequential(nn.Linear(8, 8), *blocks)
"""
"""Each of its 49,500 activations is a module and an operator."""
WEIGHTS = "import sys, torch, torchvision; torch.save({}.state_dict(), sys.argv[1])"
READY_SECONDS = 150
LEAVING = ("q", "\x03", "\x11")
"""One after the other, from piece to piece."""


class Piece(Struct):
    """Some steps of one case, walked in one program."""

    model: str
    size: str
    begins: int
    """Steps walked before."""
    ends: int = 0
    of: int = 0
    keys: int = 0
    seconds: float = 0.0
    wrong: str = ""
    silent: list[str] = []
    slowest: tuple[float, str] = (0.0, "")
    """Seconds, and the key after which it took so long to be where it leads to."""


def walk_piece(
    arguments: Sequence[str],
    size: tuple[int, int],
    steps: Sequence[Step],
    piece: Piece,
    ends: float,
) -> None:
    """Walk from ``piece.begins`` until all is done, something is wrong, or it is ``ends``.

    Args:
        arguments: of ``tui-profiler``.
        size: columns and rows.
        steps: all of the session.
        piece: is filled in.
        ends: by the monotonic clock; looked at between two steps.
    """
    began = time.monotonic()
    piece.ends, piece.of = piece.begins, len(steps)
    with tempfile.TemporaryDirectory() as folder:
        one = Walk(arguments, size, folder)
        try:
            one.terminal.wait_for(is_ready, seconds=READY_SECONDS)
            for step in steps[piece.begins :]:
                if time.monotonic() > ends:
                    break
                piece.ends += 1
                one.step(step)
            one.suspend()
            one.leave(LEAVING[piece.begins % len(LEAVING)])
        except AssertionError as error:
            piece.wrong = str(error)
        finally:
            one.terminal.close()
    piece.keys, piece.silent, piece.slowest = one.pressed, one.silent, one.slowest
    piece.seconds = time.monotonic() - began


def is_ready(shown: str) -> bool:
    """Whether there is a tree, and not only the cached one."""
    return re.search(EXPLORER_MARK, shown, re.MULTILINE) is not None and "cached" not in shown


def walk_case(
    model: str, size: str, arguments: Sequence[str], before: list[Piece], limit: float
) -> Iterator[Piece]:
    """Walk what is left of one model at one size; yield each piece when it is done."""
    columns, rows = map(int, size.split("x"))
    steps, ends, done = tuple(session()), time.monotonic() + limit, list(before)
    while (part := first_left(done, len(steps))) and time.monotonic() < ends:
        piece = Piece(model, size, part.start)
        walk_piece(arguments, (columns, rows), steps[: part.stop], piece, ends)
        piece.of = len(steps)
        yield piece
        done.append(piece)
        if piece.ends == piece.begins:
            break  # It does not even come up: the next program would not either.


def first_left(done: Sequence[Piece], many: int) -> range:
    """Return the first steps that no piece has walked; a piece that is removed is walked again."""
    left = [n for n in range(many) if not any(one.begins <= n < one.ends for one in done)]
    if not left:
        return range(0)
    gap = next((after for before, after in pairwise(left) if after > before + 1), None)
    return range(left[0], left[left.index(gap) - 1] + 1 if gap is not None else left[-1] + 1)


def told(model: str, size: str, pieces: Sequence[Piece]) -> str:
    """Return the line of a case."""
    keys, seconds = sum(one.keys for one in pieces), sum(one.seconds for one in pieces)
    wrong = [one.wrong for one in pieces if one.wrong]
    done, of = sum(one.ends - one.begins for one in pieces), pieces[-1].of
    much = f"{keys} keys, {seconds:.0f} s"
    left = "" if done == of else f", {done} of {of} steps: run it again with --log to go on"
    slowest, key = max(one.slowest for one in pieces)
    end = f"slowest {slowest:.1f} s at {key}" if slowest > 1 else ""
    said = (
        "nothing wrong"
        if not wrong
        else f"{len(wrong)} WRONG: " + "\n".join(one.split("\n", 1)[0] for one in wrong)
    )
    return f"{model:<30} {size:>7}  {much}{left}; {end}{'; ' if end else ''}{said}"


def arguments(model: str, folder: Path) -> list[str]:
    """Return the argument for a model, creating it first if it is one of ours."""
    if model == "giant":
        (folder / "giant.py").write_text(GIANT, encoding="utf-8")
        return [f"{folder / 'giant.py'}:build"]
    if model == "weights":
        code = WEIGHTS.format("torchvision.models.resnet18()")
        subprocess.run([sys.executable, "-c", code, folder / "weights.pt"], check=True)
        return [str(folder / "weights.pt")]
    return model.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--size", action="append", help="COLUMNSxROWS; may be repeated")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds for each case")
    parser.add_argument("--log", type=Path, help="keeps what was walked; is gone on from")
    options = parser.parse_args()
    kept = options.log.read_text(encoding="utf-8").splitlines() if _is_file(options.log) else []
    pieces, failed = [msgspec.json.decode(line, type=Piece) for line in kept], 0
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            for size in options.size or SIZES:
                case = [one for one in pieces if (one.model, one.size) == (model, size)]
                typed = arguments(model, Path(folder))
                for piece in walk_case(model, size, typed, case, options.limit):
                    keep(piece, options.log)
                    case.append(piece)
                    failed += bool(piece.wrong)
                print(told(model, size, case), flush=True)
    return 1 if failed else 0


def keep(piece: Piece, log: Path | None) -> None:
    """Write down what was walked."""
    if log is not None:
        with log.open("ab") as file:
            file.write(msgspec.json.encode(piece) + b"\n")


def _is_file(file: Path | None) -> bool:
    return file is not None and file.is_file()


if __name__ == "__main__":
    sys.exit(main())
