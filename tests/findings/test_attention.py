"""Which attention kernel ran: real models, against the operators that torch's profiler names."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch.nn import functional

from tests.findings.made import on_paper
from tests.findings.test_findings import ByHand
from tests.small_model import FACTS, FC, MEASURED, TRACED, WITH_OWN, folded, operator_times
from tui_profiler.findings.evidence.attention import NO_WINDOW, Attention, attention
from tui_profiler.messages import CalledOperators
from tui_profiler.reports.json.report import as_json
from tui_profiler.session import apply

PROGRAM = Path(__file__).with_name("attention_program.py")
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


@pytest.fixture(scope="module", name="seen")
def _seen() -> dict[str, Any]:
    root = PROGRAM.parents[2]
    done = subprocess.run(
        [sys.executable, PROGRAM],
        cwd=root,
        # Without it no operator windows are opened in a program of the user's.
        env={**os.environ, "PYTHONPATH": str(root), "KINETO_LOG_LEVEL": "99"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = msgspec.json.decode(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("model", "backend", "operator", "why"),
    [
        ("sdpa", "flash", FLASH, None),
        ("eager", "eager", None, "the model computes the softmax itself"),
        ("math", "math", "aten::_scaled_dot_product_attention_math", "not known: a CPU's flash"),
        ("vit", "native", "aten::_native_multi_head_attention", "nn.MultiheadAttention runs as"),
    ],
)
def test_the_backend_is_the_one_that_ran(
    seen: dict[str, Any], model: str, backend: str, operator: str | None, why: str | None
) -> None:
    layers = seen[model]["layers"]
    assert len(layers) == 2
    for one in layers:
        assert (one["backend"], one["operator"]) == (backend, operator)
        assert (one["why_not_flash"] or "").startswith(why or "")
        assert (one["why_not_flash"] is None) == (why is None)
    # torch's own profiler, of a forward of its own.
    assert (FLASH in seen[model]["profiled"]) == (backend == "flash")
    assert backend not in ("math", "native") or operator in seen[model]["profiled"]
    assert f"{backend}" in " ".join(seen[model]["text"].split())


def test_without_an_operator_window_it_is_not_known() -> None:
    q = torch.zeros(2, 4, 32, 16)
    session = on_paper(ByHand(), q, torch.zeros(32, 32))
    (one,) = attention(session).values()
    assert one == Attention(NO_WINDOW, "", "")
    (layer,) = (one for one in as_json(session)["layers"] if "attention" in one)
    assert layer["attention"] == {"backend": None, "operator": None, "why_not_flash": None}


def test_a_model_without_attention_has_none() -> None:
    assert attention(folded(TRACED)) == {}


@pytest.mark.parametrize(
    ("operator", "backend", "why"),
    [
        (FLASH, "flash", ""),
        ("aten::_scaled_dot_product_cudnn_attention", "cudnn", "cuDNN comes before flash"),
        ("aten::_scaled_dot_product_efficient_attention", "efficient", "not known: its tensors"),
    ],
)
def test_on_a_gpu_the_reason_is_torchs_own(operator: str, backend: str, why: str) -> None:
    """Its order of backends, and what flash takes: aten/src/…/cuda/sdp_utils.cpp."""
    called = WITH_OWN.called
    assert called is not None
    names = tuple(operator if name == "aten::relu_" else name for name in called.names)
    ran = replace(WITH_OWN, called=replace(called, names=names))
    session = folded((*MEASURED, replace(FACTS, device="cuda:0"), ran))
    found = attention(session)[FC]
    assert (found.backend, found.operator) == (backend, operator)
    assert found.why_not_flash.startswith(why)
    assert bool(found.why_not_flash) == bool(why)


class Dropped(torch.nn.Module):
    """Attention with a dropout of its weights, and one behind the projection."""

    def __init__(self, inside: float, behind: float) -> None:
        super().__init__()
        self.inside, self.behind = inside, behind
        self.projection = torch.nn.Linear(16, 16)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        y = functional.dropout((q @ q.transpose(-1, -2)).softmax(-1), self.inside) @ q
        return functional.dropout(self.projection(y), self.behind)


@pytest.mark.parametrize(
    ("inside", "behind", "why"),
    [(0.1, 0.0, "dropout:"), (0.1, 0.1, "dropout:"), (0.0, 0.1, "not known:")],
)
def test_only_a_dropout_of_the_attention_is_a_reason(
    inside: float, behind: float, why: str
) -> None:
    session = on_paper(Dropped(inside, behind), torch.zeros(2, 4, 32, 16))
    assert session.tree is not None
    assert {node.name for node in session.tree.nodes} >= {"aten::bernoulli_"}
    one, narrow = array("I", [1]).tobytes(), array("f", [0.001]).tobytes()
    root = array("I", [0]).tobytes()
    math = ("aten::_scaled_dot_product_attention_math",)
    called = CalledOperators(math, root, root, one, narrow, narrow)
    session = apply(session, replace(operator_times({}), called=called))
    assert attention(session)[0].backend == "math"
    assert attention(session)[0].why_not_flash.startswith(why)
    assert attention(replace(session, heard_at=9.0)) is attention(session)
