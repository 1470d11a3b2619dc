"""What Dynamo compiled: breaks and recompilations that are known, against its own metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace
from torch import nn

from tests.small_model import TRACED, folded
from tui_profiler.findings import CHECKS
from tui_profiler.messages import Compilations, CompiledAgain, Unknown
from tui_profiler.probe.torch_compat.compilations import Compiled, Methods
from tui_profiler.session import apply

PROGRAM = Path(__file__).with_name("compiled_program.py")
BLOCKS = PROGRAM.with_name("compiled_blocks.py")
LINES = PROGRAM.read_text().split("\n")
BREAK = 1 + next(at for at, line in enumerate(LINES) if line.endswith("# The break."))
SCALED = 1 + LINES.index("def scaled(x: torch.Tensor) -> torch.Tensor:")


@pytest.fixture(scope="module", name="said")
def _said() -> dict[str, Any]:
    return _run(PROGRAM)


@pytest.fixture(scope="module", name="blocks")
def _blocks() -> dict[str, Any]:
    return _run(BLOCKS, "eager")


def _run(program: Path, *arguments: str) -> dict[str, Any]:
    root = program.parents[3]
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_is_imported_for_it_and_a_poll_without_news_reads_three_numbers(
    said: dict[str, Any],
) -> None:
    assert said["before"] == [None, False]
    assert said["has_first"]
    assert said["news"] == 0
    assert said["poll_seconds"] < 20e-6


def test_breaks_and_recompilations_are_known_with_line_and_reason(said: dict[str, Any]) -> None:
    found = said["report"]["compilation"]
    (at_break,) = found["breaks"]
    assert (at_break["file"], at_break["line"]) == (str(PROGRAM), BREAK)
    assert "Tensor.item()" in at_break["reason"]
    assert at_break["count"] == 1
    of_scaled = [one for one in found["recompiles"] if one["function"] == "scaled"]
    assert [(one["file"], one["line"], one["count"]) for one in of_scaled] == [
        (str(PROGRAM), SCALED, 1)
    ] * 2
    assert [one["reason"] for one in of_scaled] == [
        "tensor 'x' dtype mismatch. expected Float, actual Double",
        "tensor 'x' dtype mismatch. expected Double, actual Half",
    ]
    # Dynamo's own metrics: a line for each compilation, with a reason if it is a recompilation.
    metrics = said["metrics"]
    assert found["frames"] == len(metrics)
    assert sum(one["count"] for one in found["recompiles"]) == sum(
        reason is not None for _, reason, _ in metrics
    )
    assert found["seconds"] == pytest.approx(sum(seconds for *_, seconds in metrics), rel=0.01)


def test_both_are_findings_of_the_report(said: dict[str, Any]) -> None:
    advice = {one["kind"]: one for one in said["report"]["findings"]["found"]}
    assert advice["graph-breaks"]["title"] == "avoid 1 graph break of torch.compile"
    assert f":{BREAK}, in " in advice["graph-breaks"]["evidence"][1]["what"]
    assert advice["graph-breaks"]["paths"] == ["_orig_mod"]
    assert advice["recompiles"]["title"] == "avoid 2 recompilations of torch.compile"


def _check_blocks(found: dict[str, Any]) -> None:
    lines = BLOCKS.read_text().split("\n")
    at = 1 + next(at for at, line in enumerate(lines) if line.endswith("# The break."))
    (at_break,) = found["breaks"]
    assert (at_break["function"], at_break["line"]) == ("guarded", at)
    assert at_break["modules"] == ["_orig_mod.first", "_orig_mod.second"]
    again = [(one["reason"], one["modules"]) for one in found["recompiles"]]
    assert again == [("self.factor == 1", ["_orig_mod"]), ("self.factor == 2", ["_orig_mod"])]


def test_a_break_in_a_function_belongs_to_the_modules_that_call_it(blocks: dict[str, Any]) -> None:
    _check_blocks(blocks["report"]["compilation"])


def test_the_same_is_known_of_what_inductor_compiled() -> None:
    _check_blocks(_run(BLOCKS, "inductor")["report"]["compilation"])


def test_the_report_for_reading_names_line_module_and_guard(blocks: dict[str, Any]) -> None:
    words = " ".join(blocks["text"].split())
    assert "5× _orig_mod.first (Block) or 1 other, guarded at " in words
    assert "1× _orig_mod (Net), forward, resumed at line " in words
    assert "self.factor == 2" in words
    assert "torch.compile" in blocks["markdown"]
    assert "self.factor == 2" in blocks["markdown"].replace("\\", "")


def test_one_recompilation_and_no_break_are_nothing_to_advise_against() -> None:
    one = CompiledAgain("a.py", 3, "f", "size mismatch", 1)
    session = folded(TRACED)
    assert CHECKS["graph-breaks"].find(session) is CHECKS["recompiles"].find(session) is None
    seen = Compilations(1.0, 2, 2, Unknown("gone"), (), (one,))
    assert CHECKS["graph-breaks"].find(apply(session, seen)) is None
    assert CHECKS["recompiles"].find(apply(session, seen)) is None
    twice = replace(seen, recompiles=(one, replace(one, reason="dtype mismatch")))
    assert CHECKS["recompiles"].find(apply(session, twice)) is not None


class _Reason:
    user_stack = ()
    reason = "why\nmore"


def test_names_that_are_gone_and_places_that_are_not_known_are_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = ModuleType("torch._dynamo.utils")
    vars(older).update(
        counters={"frames": {"total": 1}}, graph_break_reasons=[_Reason(), _Reason()]
    )
    monkeypatch.setitem(sys.modules, older.__name__, older)
    found = Compiled().new(2.0)
    assert found is not None
    assert (found.frames, found.graphs, found.recompiles) == (1, 0, ())
    assert found.breaks == (CompiledAgain("", 0, "", "why", 2),)
    assert isinstance(found.seconds, Unknown)


def test_a_wrapper_that_wraps_itself_ends_nothing() -> None:
    class Circular(nn.Module):
        def forward(self) -> None: ...

    code = Circular.forward.__code__
    vars(Circular)["forward"].__wrapped__ = Circular.forward
    found = Methods([Circular()]).forwards(((code.co_filename, code.co_firstlineno),))
    assert found == (f"{code.co_filename}:{code.co_firstlineno}",)
