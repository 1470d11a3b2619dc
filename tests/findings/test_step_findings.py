"""Findings from a measured training step: what each needs, and where it is not said."""

from math import prod

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from tests.findings.made import CEILINGS, figure, on_paper, timed, with_host
from tests.findings.test_findings import DOUBTED
from tests.queries.training import trained
from tests.small_model import CONV, TRACED, folded
from tests.training_session import column, step_parts, training_step
from tui_profiler.findings import CHECKS, conclusions, findings
from tui_profiler.findings.evidence.finding import Finding, Kind, Withheld
from tui_profiler.findings.execution.training import WORKER_BATCH_SECONDS
from tui_profiler.findings.trial_verdict import Measured, measured, trial_request, wish
from tui_profiler.messages import (
    Checkpointing,
    KeptGradients,
    LoaderSettings,
    ModeSeen,
    OptimizerSettings,
    Setting,
    SourceLine,
    ThreadTime,
    TrainingStep,
    TrialResult,
    Try,
    TryOptimizer,
    Unknown,
    Wish,
    known,
)
from tui_profiler.reports.text.sections.findings import trial_text
from tui_profiler.reports.text.table import findings_lines
from tui_profiler.session import Session, apply

LINE = SourceLine("log_metrics", "/me/train.py", 54, 0.5, "return loss.item()")
LOOP = OptimizerSettings("AdamW", None, None)
LOADER = LoaderSettings(workers=0, pin_memory=False, prefetch=0)
COPY = SourceLine("main", "/me/train.py", 20, 0.4, "x = x.to(device)")
KEPT = KeptGradients(steps=10, zeroed=10, read=9, bytes=50_000_000)
EVEN = training_step(
    step_parts(data=0.2, transfer=0.1, forward=0.1, backward=0.1, optimizer=0.3, other=0.2)
)
ADVISED: dict[Kind, TrainingStep] = {
    "loader-workers": replace(EVEN, loader=LOADER),
    "pin-memory": replace(
        EVEN,
        parts=step_parts(data=0.2, forward=0.2, backward=0.1, optimizer=0.3, other=0.2),
        loader=LOADER,
        lines=(COPY,),
        samples=50,
    ),
    "optimizer-loop": replace(EVEN, optimizer_settings=(LOOP,)),
    "zero-grad": replace(EVEN, kept_gradients=KEPT),
    "slow-line": replace(EVEN, lines=(replace(LINE, share=0.6),), samples=50),
    "recompute": replace(EVEN, recompute=0.125),
    "accumulate": EVEN,
}
"""A step for which a kind is found."""


ROOFED = apply(folded(TRACED), CEILINGS)
assert ROOFED.model is not None
ON_GPU = replace(ROOFED, model=replace(ROOFED.model, device="cuda:0"))
TRAINS = ModeSeen(1.0, (Setting(True, "grad", 1, True, 9),), 9, 9, reached=9)
SESSIONS: dict[Kind, Session] = {"pin-memory": ON_GPU}


def found(kind: Kind, step: TrainingStep) -> Finding | None:
    return concluded(kind, apply(SESSIONS.get(kind, ROOFED), step))


def concluded(kind: Kind, session: Session) -> Finding | None:
    """Return what follows in whichever mode."""
    answer = CHECKS[kind].conclude(session)
    return answer if isinstance(answer, Finding) else None


def test_each_kind_has_its_share_of_the_step() -> None:
    expected: dict[Kind, tuple[float, str]] = {
        # Written, read twice and written again: 200 MB at 20 GB/s.
        "zero-grad": (
            0.01,
            "191 MiB less memory traffic, at the memory roof: 10.0 ms of 1.00 s per step",
        ),
        "loader-workers": (
            0.2,
            "200 ms of 1.00 s per step are spent waiting for the data loader, without receiving"
            " batches",
        ),
        "optimizer-loop": (0.3, "300 ms of 1.00 s per step are spent in the optimizer"),
        "slow-line": (0.12, "120 ms of 1.00 s per step are spent in that line, by samples"),
        "recompute": (0.125, "125 ms of 1.00 s per step are spent on recomputation"),
        "accumulate": (
            0.15,
            "half of 300 ms of 1.00 s, per item, with twice the items per batch;"
            " forward and backward may gain too",
        ),
    }
    assert {*expected, "pin-memory"} == ADVISED.keys()
    for kind, (share, formula) in expected.items():
        one = found(kind, ADVISED[kind])
        assert one is not None
        assert one.gain.share == pytest.approx(share)
        assert one.gain.formula == formula


@pytest.mark.parametrize("kind", ADVISED)
def test_nothing_is_said_of_a_few_steps_or_of_a_thread_that_waits(kind: Kind) -> None:
    waits = ThreadTime(1.0, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0)
    assert found(kind, replace(ADVISED[kind], recorded=7)) is None
    assert found(kind, replace(ADVISED[kind], per_second=2.0)) is None
    contended = found(kind, replace(ADVISED[kind], thread=waits))
    # What the memory roof says of the bytes of gradients does not depend on the thread.
    assert (contended is not None) == (kind == "zero-grad")


def test_what_holds_even_if_all_of_the_waiting_were_in_it_is_not_withheld() -> None:
    """Of 1 s the thread waits 0.3 s: 0.38 s of data are then 0.08 of 0.7 s, 0.36 s only 0.06."""
    waits = ThreadTime(1.0, 0.4, 0.3, 0.0, 0.0, 0.0, 0.0)
    for data, holds in ((0.46, True), (0.38, True), (0.36, False)):
        parts = step_parts(data=data, forward=0.1, backward=0.1, other=0.8 - data)
        one = found("loader-workers", replace(EVEN, parts=parts, loader=LOADER, thread=waits))
        assert (one is not None) == holds
        if one is not None:
            assert one.contended == "host contended: steps wait for a core 30 % of the time"
            assert one.gain.share == pytest.approx(data)
    other = ADVISED["loader-workers"]
    answer = CHECKS["loader-workers"].conclude(apply(ROOFED, replace(other, thread=waits)))
    assert isinstance(answer, Withheld)
    assert answer.because == "contention"


def test_where_waiting_was_not_read_it_is_at_most_the_time_off_a_core() -> None:
    for on_core, holds in ((0.8, True), (0.7, False)):
        no_file = Unknown("no schedstat")
        used = ThreadTime(1.0, on_core, no_file, 0.0, 0.0, 0.0, 0.0)
        step = replace(ADVISED["optimizer-loop"], thread=used)
        assert (found("optimizer-loop", step) is not None) == holds
    for used in (None, ThreadTime(1.0, no_file, no_file, 0.0, 0.0, 0.0, 0.0)):
        answer = CHECKS["optimizer-loop"].conclude(apply(ROOFED, replace(step, thread=used)))
        assert isinstance(answer, Withheld)
        assert answer.reason.startswith("waiting of the training thread for a core: ")


def test_why_nothing_is_said_of_a_step_is_said_where_findings_are_listed() -> None:
    waits = ThreadTime(1.0, 0.5, 0.3, 0.0, 0.0, 0.0, 0.0)
    for step, why in (
        (EVEN, ""),
        (replace(EVEN, thread=waits), "host contended: steps wait for a core 30 % of the time"),
        (replace(EVEN, recorded=7), "7 of 8 steps recorded"),
        (
            replace(EVEN, per_second=2.0),
            "recorded steps took 100 % more time than all of the last 100",
        ),
    ):
        session = apply(ROOFED, step)
        held = conclusions(apply(session, TRAINS)).reasons
        kinds = {kind for reason, kinds in held.items() if why and why in reason for kind in kinds}
        assert ("accumulate" in kinds) == bool(why)
        lines = " ".join(" ".join(findings_lines(apply(session, TRAINS), 200)).split())
        assert all(why in lines for _ in kinds)
    assert "training step" not in " ".join(conclusions(ROOFED).words)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("loader-workers", {"parts": step_parts(data=0.09, forward=0.91)}),
        ("loader-workers", {"loader": None}),
        ("optimizer-loop", {"optimizer_settings": (replace(LOOP, fused=True),)}),
        ("optimizer-loop", {"optimizer_settings": (replace(LOOP, foreach=True),)}),
        ("optimizer-loop", {"optimizer_settings": (replace(LOOP, why_not_fused="sparse"),)}),
        # To receive as many batches from workers would take 150 of the 200 ms.
        ("loader-workers", {"fetches": 150e-3 / WORKER_BATCH_SECONDS}),
        ("optimizer-loop", {"optimizer_settings": (replace(LOOP, name="Shampoo"),)}),
        ("optimizer-loop", {"optimizer_settings": (LOOP, LOOP)}),
        ("pin-memory", {"loader": None}),
        ("pin-memory", {"loader": replace(LOADER, pin_memory=True)}),
        ("pin-memory", {"lines": (LINE,)}),
        ("pin-memory", {"lines": (replace(COPY, share=0.04),)}),
        ("zero-grad", {"kept_gradients": None}),
        ("zero-grad", {"kept_gradients": replace(KEPT, zeroed=8)}),
        ("zero-grad", {"kept_gradients": KeptGradients(7, 7, 7, 50_000_000)}),
        ("zero-grad", {"kept_gradients": replace(KEPT, bytes=4_000_000)}),
        ("slow-line", {"samples": 49}),
        ("slow-line", {"lines": (replace(LINE, share=0.4),)}),
        ("recompute", {"recompute": 0.09}),
        ("recompute", {"on_device": True}),
        ("accumulate", {"passes": 2.0}),
        ("accumulate", {"on_device": True}),
        ("optimizer-loop", {"on_device": True}),
        ("accumulate", {"ended_by": "backward"}),
    ],
)
def test_nothing_is_said_without_its_reason(kind: Kind, change: dict[str, object]) -> None:
    assert found(kind, replace(ADVISED[kind], **change)) is None


def test_workers_that_do_not_keep_up_are_not_called_missing() -> None:
    loader = replace(LOADER, workers=4)
    one = found("loader-workers", replace(EVEN, loader=loader))
    assert one is not None
    assert one.title == "load batches faster: 4 workers do not keep up"


def test_a_line_is_named_and_one_that_reads_a_value_says_what_waits() -> None:
    one = found("slow-line", ADVISED["slow-line"])
    assert one is not None
    assert one.title == "run less often: log_metrics, train.py:54"
    assert one.why.startswith("It reads a tensor's value")
    other = replace(ADVISED["slow-line"], lines=(replace(LINE, share=0.6, text="save()"),))
    found_other = found("slow-line", other)
    assert found_other is not None
    assert found_other.why.startswith("Neither the model nor the optimizer runs then")


def test_on_a_gpu_a_line_also_waits_for_queued_work_so_that_its_gain_is_not_known() -> None:
    one = found("slow-line", replace(ADVISED["slow-line"], on_device=True))
    assert one is not None
    assert isinstance(one.gain.share, Unknown)


def test_the_modules_that_are_computed_again_are_named() -> None:
    again = replace(
        ADVISED["recompute"],
        nodes=bytes((0, 0, 0, 0, CONV, 0, 0, 0)),
        own_recomputed=column(0.0, 0.125),
    )
    one = found("recompute", again)
    assert one is not None
    assert one.nodes == (CONV,)


def test_a_copy_from_pageable_memory_is_seen_by_its_line_and_on_a_gpu_only() -> None:
    step = ADVISED["pin-memory"]
    one = found("pin-memory", step)
    assert one is not None
    assert figure(one, "copying") == pytest.approx(0.4 * 0.2)
    assert figure(one, "inputs of a forward") == 4 * 3 * 8 * 8
    timed = found("pin-memory", replace(step, parts=EVEN.parts, lines=()))
    assert timed is not None
    assert figure(timed, "copying") == pytest.approx(0.1)
    assert isinstance(one.gain.share, Unknown)
    assert concluded("pin-memory", apply(ROOFED, step)) is None


def test_gradients_set_to_zero_are_said_with_the_time_of_the_line_where_it_was_sampled() -> None:
    line = replace(LINE, share=0.1, text="optimizer.zero_grad(set_to_none=False)")
    one = found("zero-grad", replace(ADVISED["zero-grad"], lines=(line, LINE), samples=50))
    assert one is not None
    assert figure(one, "in lines that set them to zero") == pytest.approx(0.1 * 0.2)
    assert [gain.of for gain in one.gains] == ["time", "memory"]
    unknown = concluded("zero-grad", apply(folded(TRACED), ADVISED["zero-grad"]))
    assert unknown is not None
    assert isinstance(unknown.gain.share, Unknown)


def test_modules_that_lower_the_peak_are_advised_with_what_their_forward_takes() -> None:
    session = apply(apply(ROOFED, trained.memory()), trained.cost())
    one = concluded("checkpoint", session)
    assert one is None, "it saves 4 % of the peak"
    best = Checkpointing((CONV,), 1024, 12_000, 13_824)
    memory = replace(trained.memory(), checkpointing=(best,))
    session = apply(apply(ROOFED, memory), trained.cost())
    one = concluded("checkpoint", session)
    assert one is not None
    whole = memory.peak + 100
    assert one.gain.of == "memory"
    assert one.gain.share == pytest.approx(1 - 12_000 / whole)
    assert (one.nodes, one.trial) == ((CONV,), "checkpoint")
    assert wish(one, session.tree, Wish("checkpoint")).paths == ("conv",)
    assert wish(one, session.tree, Wish("compile")).kind == "compile"
    step = replace(EVEN, nodes=bytes((0, 0, 0, 0, CONV, 0, 0, 0)))
    timed = concluded("checkpoint", apply(session, step))
    assert timed is not None
    assert figure(timed, "one more forward of these modules") == pytest.approx(0.125)
    of_program = apply(apply(ROOFED, memory), replace(trained.cost(), spec=None))
    seen = concluded("checkpoint", of_program)
    assert seen is not None
    assert seen.trial is None


def test_the_trial_of_an_optimizer_runs_where_the_steps_are_our_own() -> None:
    session = apply(apply(ROOFED, trained.cost()), ADVISED["optimizer-loop"])
    one = concluded("optimizer-loop", session)
    assert one is not None
    assert trial_request(one, session) == Try(Wish("optimizer-loop"))
    assert trial_text(one) == "tui-profiler try --train --kind optimizer-loop"


def test_the_optimizer_of_a_program_is_tried_beside_it_on_tensors_of_its_shapes() -> None:
    session = apply(ROOFED, ADVISED["optimizer-loop"])
    one = concluded("optimizer-loop", session)
    assert one is not None
    asked = trial_request(one, session)
    assert isinstance(asked, TryOptimizer)
    assert (asked.name, asked.of_step) == ("AdamW", pytest.approx(0.3))
    assert session.tree is not None
    count = sum(prod(shape) for shape, _ in asked.tensors)
    assert 4 * count == trained.memory().parameters, "by hand: a convolution and a linear layer"
    assert "explorer" in trial_text(one)
    result = TrialResult(
        *("optimizer-loop", -1, "measured", 9.0), speedup=2.0, low=1.6, high=2.5, of_step=0.3
    )
    assert measured(result) == Measured(
        pytest.approx(0.15), pytest.approx(0.3 * 0.375), pytest.approx(0.18)
    )


def wide_step(**change: object) -> Session:
    """Return a session of one float32 layer that trains: 100 ms forward, 300 ms backward."""
    layer = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    paper = apply(on_paper(layer, torch.zeros(512, 1024)), trained.cost())
    step = training_step(step_parts(forward=0.15, backward=0.35, optimizer=0.5))
    step = replace(
        step,
        nodes=bytes((0, 0, 0, 0, 1, 0, 0, 0)),
        forward=column(0.15, 0.1),
        backward=column(0.35, 0.3),
        **change,
    )
    return apply(paper, step)


def test_beside_those_of_a_step_gains_of_a_forward_are_its_share_of_the_step() -> None:
    layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Tanh())
    forward = with_host(timed(on_paper(layers, torch.zeros(4, 16)), {"": 1e-3}), 4e-4, 1e-3)
    alone = {one.kind: one.gain for one in findings(forward)}
    step = training_step(step_parts(forward=0.001, backward=0.003, optimizer=0.006), 0.01)
    times = {"nodes": bytes(4), "forward": column(0.001), "own_forward": column(0.001)}
    times |= {"backward": column(0.003), "own_backward": column(0.003)}
    times |= {"recomputed": column(0.0), "own_recomputed": column(0.0)}
    step = replace(step, **times, optimizer_settings=(LOOP,))
    beside = {one.kind: one.gain for one in findings(apply(apply(forward, TRAINS), step))}
    for kind in ("compile", "host-overhead"):
        assert known(beside[kind].share) == pytest.approx(0.1 * (known(alone[kind].share) or 0))
        assert "forwards are 10 % of the step" in beside[kind].formula
        assert (alone[kind].per, beside[kind].per) == ("forward", "step")
    assert beside["optimizer-loop"].share == pytest.approx(0.6)
    few = findings(apply(apply(forward, TRAINS), replace(step, recorded=7)))
    unknown = {one.kind: one.gain for one in few}
    assert isinstance(unknown["compile"].share, Unknown)
    assert "7 of 8 steps recorded" in unknown["compile"].share.reason
    assert (unknown["compile"].low, unknown["compile"].high) == (None, None)
    assert unknown["compile"].per == "step"
    assert "of the step" not in alone["compile"].formula
    # Before a step was recorded their share of it is not known.
    early = {one.kind: one.gain for one in findings(apply(forward, TRAINS))}
    assert early["compile"].share == Unknown(
        "its share of the step is not known: no training step was recorded"
    )


@pytest.mark.parametrize("passes", [10, 100])
def test_autocast_of_a_step_is_predicted_by_the_roofs_and_names_its_share(passes: int) -> None:
    one = CHECKS["bf16-autocast"](wide_step(passes=float(passes)))
    assert one is not None
    # 2 x 512 x 1024 x 1024 FLOPs at 0.4 TFLOP/s, twice of that in the backward, but no more than
    # was measured: a quarter of it at 1.6 TFLOP/s.
    forward = passes * 2**30 / 4e11
    explained = min(forward, 0.1) + min(2 * forward, 0.3)
    # Weights are read in 4 bytes and written in 2, at 20 GB/s; their gradients likewise.
    casts = passes * 2 * 2**20 * 6 / 2e10
    # At least: no neighbour is in 16 bits, and inputs and outputs are cast as well.
    activations = passes * 2 * (2 * 512 * 1024 * 4) * 1.5 / 2e10
    assert one.gain.low == pytest.approx(0.75 * explained - casts - activations)
    assert one.gain.high == pytest.approx(0.75 * 0.4 - casts)
    assert figure(one, "their share of the step") == pytest.approx(0.4)
    assert figure(one, "casting weights") == pytest.approx(casts)
    assert "of 400 ms in these layers, of 1.00 s per step" in one.gain.formula
    assert (one.is_of_step, one.trial) == (True, "bf16-autocast")


def test_nothing_is_said_of_autocast_where_it_has_no_reason() -> None:
    session = wide_step(passes=10.0)
    assert session.ceilings is not None
    doubted = replace(
        session.ceilings,
        compute=tuple(
            replace(one, quality=DOUBTED) if one.dtype == "bfloat16" else one
            for one in session.ceilings.compute
        ),
    )
    assert CHECKS["bf16-autocast"](apply(session, doubted)) is None, "a roof is not good enough"
    assert CHECKS["fp16-autocast"](session) is None, "float16 is no faster here"
    halves = on_paper(
        nn.Sequential(nn.Linear(1024, 1024, bias=False)).bfloat16(),
        torch.zeros(512, 1024, dtype=torch.bfloat16),
    )
    assert session.training is not None
    trains = apply(apply(halves, trained.cost()), session.training.step)
    assert CHECKS["bf16-autocast"](trains) is None, "it computes in bfloat16 already"
    few = wide_step(passes=10.0, recorded=7)
    assert CHECKS["bf16-autocast"](few) is None, "its trial is of a step, and few were recorded"
    tiny = wide_step(passes=10.0, seconds=100.0)
    assert CHECKS["bf16-autocast"](tiny) is None, "0.05 % of the step"
