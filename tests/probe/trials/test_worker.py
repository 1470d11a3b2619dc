"""Trials through a real worker: a process of its own, its limits, and nothing left of it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import torch

from tests.worker import Conversation, spec
from tui_profiler.messages import (
    WHOLE_MODEL,
    Pause,
    ProlongTrial,
    StopTrial,
    TrialKind,
    TrialResult,
    Try,
    TryAlone,
    Wish,
)
from tui_profiler.messages.trials import TrialProgress
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trials.experiment import subject_of, try_alone
from tui_profiler.probe.trials.supervisor import remove_stale
from tui_profiler.session import Session


def result_of(session: Session, kind: TrialKind, node: int = WHOLE_MODEL) -> TrialResult | None:
    return next((one for one in session.trials if (one.kind, one.node) == (kind, node)), None)


async def tried(talk: Conversation, wish: Wish) -> TrialResult:
    talk.source.send(Try(wish))
    session = await talk.until(lambda now: result_of(now, wish.kind, wish.node) is not None)
    found = result_of(session, wish.kind, wish.node)
    assert found is not None
    return found


def folders(owner: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"tui-profiler-trial-{owner}-*"))


async def test_a_worker_tries_in_another_process_within_its_limits() -> None:
    talk = Conversation(spec("demo:shared"))
    try:
        session = await talk.until(lambda now: now.tick is not None)
        worker = psutil.Process(talk.source.pid)
        assert session.tree is not None
        forwards = session.tick.forwards if session.tick else 0

        refused = await tried(talk, Wish("fold-conv-bn"))
        assert refused.why == "it has no batch norms after convolutions"
        refused = await tried(talk, Wish("inference-mode", node=10_000))
        assert (refused.outcome, refused.why) == ("impossible", "the tree has no node 10000")

        memory = await tried(talk, Wish("larger-batch", most_bytes=40 << 20))
        assert memory.outcome == "memory"
        assert memory.why.endswith("the limit is 0.04 GiB")
        talk.source.send(Try(Wish("bf16-autocast", most_seconds=0.2)))
        await talk.until(lambda now: now.trial is not None)
        talk.source.send(ProlongTrial(0.3))
        await talk.until(lambda now: now.trial is None)
        late = talk.session.trials[-1]
        assert late.outcome == "time"
        # Starting a process and importing torch take longer, and do not count.
        assert late.seconds > 1
        assert " after 0.5 s of measuring" in late.why
        assert (late.speedup is None) == (late.pairs == 0) == late.why.startswith("no pair")

        # One is under way and one waits: both get a result.
        talk.source.send(Try(Wish("int8-dynamic")))
        talk.source.send(Try(Wish("channels-last", node=0)))
        await talk.until(lambda now: now.trial is not None)
        assert worker.children()
        talk.source.send(StopTrial())
        session = await talk.until(lambda now: result_of(now, "channels-last", 0) is not None)
        stopped = result_of(session, "int8-dynamic")
        assert stopped is not None
        assert (stopped.outcome, stopped.why) == ("stopped", "stopped")
        assert session.trial is None
        assert not worker.children()
        assert not folders(worker.pid)

        module = next(i for i, one in enumerate(session.tree.nodes) if one.kind == "module" and i)
        measured = await tried(talk, Wish("inference-mode", node=module, seconds=0.05))
        assert measured.outcome == "measured", measured.why
        assert measured.error is not None
        assert measured.error.largest == 0
        steps = [one.step for one in talk.heard if isinstance(one, TrialProgress)]
        assert {"start", "measure"} <= set(steps)

        # The live model runs on, and what was asked meanwhile is done after a trial.
        session = await talk.until(lambda now: bool(now.tick and now.tick.forwards > forwards))
        talk.source.send(Try(Wish("inference-mode")))
        talk.source.send(Pause())
        session = await talk.until(lambda now: now.trial is not None)
        children = worker.children(recursive=True)
        assert any("tui_profiler.probe" in child.cmdline() for child in children)
        assert folders(worker.pid)
    finally:
        await talk.close()
    _, alive = psutil.wait_procs(children, timeout=240)
    assert not alive
    assert not folders(worker.pid)


def test_a_trial_has_the_weights_and_inputs_of_the_live_model() -> None:
    asked = TryAlone(spec("squeezenet1_1", batch=2), Wish("threads"))
    live = load(asked.spec)
    assert live.initialise is not None
    model, candidate = live.initialise(), live.candidates[0]
    of = subject_of(asked)
    for name, value in model.state_dict().items():
        assert torch.equal(value, of.module.state_dict()[name]), name
    assert torch.equal(of.inputs.args[0], candidate.args[0])  # type: ignore[arg-type] # both are
    assert of.inputs.batch == 2


def test_a_node_is_tried_on_what_a_forward_passes_to_it() -> None:
    told: list[TrialProgress] = []
    asked = TryAlone(
        spec("demo:cnn"), Wish("remove-dropout-identity", node=1, seconds=0.02), "no.such"
    )
    result = try_alone(asked, told.append, lambda: None)
    assert (result.outcome, result.node) == ("impossible", 1)
    assert result.why == "the model has no module of this name any more"
    assert [one.step for one in told] == ["load"]


def test_folders_of_owners_that_are_gone_are_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = Path(tempfile.mkdtemp(prefix=f"tui-profiler-trial-{gone.pid}-"))
    (left / "kernel.so").write_bytes(b"x")
    remove_stale()
    assert not left.exists()
