"""Every kind of finding in every mode of a program, as real loops of real models show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.nn import functional

from tests.findings.made import (
    BF16,
    CEILINGS,
    ENVIRONMENT,
    IMAGE,
    ROW,
    Normed,
    all_times,
    on_device,
    on_paper,
    timed,
    with_host,
)
from tests.findings.test_all_findings import looked_at
from tests.findings.test_findings import ByHand, Remembers, with_faults
from tests.findings.test_step_findings import ADVISED
from tests.findings.test_without_trial import Extra, Widens
from tests.machine_session import measured as with_energy_counted
from tests.probe.watch.watched_model import assert_nothing_is_left
from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.queries.training.trained import memory
from tests.recording.files import timed as with_times
from tests.recording.files import write
from tests.small_values import model_values
from tests.viewer import Viewer, place_of
from tui_profiler import watch
from tui_profiler.findings import CHECKS, findings, withheld
from tui_profiler.findings.evidence.finding import Kind
from tui_profiler.messages import (
    Checkpointing,
    Compilations,
    CompiledAgain,
    Hello,
    Overhead,
    Program,
)
from tui_profiler.queries.cost.energy import WITH_BACKWARD, ForwardEnergy, forward_energy
from tui_profiler.queries.panel.phrases import device_text
from tui_profiler.queries.time.modes import is_program, mode
from tui_profiler.recording.reader import open_recording
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session, apply
from tui_profiler.source.recorded import SeekIndex

SITUATIONS = ("no_grad", "grad", "training", "generate", "attached", "recorded")
TRAINS = ("training", "recorded")
_AGAIN = (CompiledAgain("a.py", 3, "f", "a reason", 2),)
COMPILED = Compilations(1.0, 3, 3, 0.5, _AGAIN, _AGAIN)
UNDER_INFERENCE_MODE = ("generate", "attached")
HOLDS_IN: dict[Kind, str] = {
    "fold-conv-bn": "inference",
    "channels-last": "both",
    "bf16-autocast": "both",
    "fp16-autocast": "both",
    "int8-dynamic": "inference",
    "compile": "both",
    "sdpa": "both",
    "larger-batch": "inference",
    "inference-mode": "inference",
    "threads": "inference",
    "static-kv-cache": "inference",
    "remove-dropout-identity": "inference",
    "synchronise": "both",
    "graph-breaks": "both",
    "recompiles": "both",
    "host-overhead": "both",
    "input-idle": "inference",
    "loader-workers": "training",
    "pin-memory": "training",
    "optimizer-loop": "training",
    "zero-grad": "training",
    "checkpoint": "training",
    "slow-line": "training",
    "recompute": "training",
    "accumulate": "training",
    "first-nan": "both",
    "unused-parameters": "both",
    "fuse-activation": "both",
    "peak-activations": "inference",
    "upcast": "both",
    "slow-dtype": "both",
    "reuse-memory": "both",
    "alignment": "both",
    "pruning": "inference",
    "quantise-weights": "inference",
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))


class Decoder(nn.Module):
    """A language model of one layer, which appends to what it has read."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 32)

    def forward(self, token: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new = self.embed(token).reshape(1, 1, -1, 16)
        past = torch.cat((past, new), dim=2)
        out = functional.scaled_dot_product_attention(new, past, past)
        return self.head(out[0, 0]), past

    @torch.inference_mode()
    def generate(self, tokens: int) -> list[int]:
        past, token, said = torch.zeros(1, 1, 0, 16), torch.zeros(1, dtype=torch.long), []
        for _ in range(tokens):
            logits, past = self(token, past)
            token = logits[-1:].argmax(-1)
            said.append(int(token))
        return said


def infers() -> tuple[nn.Module, Callable[[], object]]:
    net, x = Net().eval(), torch.zeros(4, 8)
    return net, torch.no_grad()(lambda: [net(x) for _ in range(20)])


def follows() -> tuple[nn.Module, Callable[[], object]]:
    net, x = Net().eval(), torch.zeros(4, 8)
    return net, lambda: [net(x) for _ in range(20)]


def trains() -> tuple[nn.Module, Callable[[], object]]:
    net, x = Net(), torch.randn(4, 8)
    steps = torch.optim.AdamW(net.parameters())

    def run() -> None:
        for _ in range(20):
            steps.zero_grad()
            net(x).square().mean().backward()
            steps.step()

    return net, run


def generates() -> tuple[nn.Module, Callable[[], object]]:
    net = Decoder().eval()
    return net, lambda: net.generate(20)


def is_known(session: Session) -> bool:
    return session.timings is not None and mode(session).name is not None


def observed(name: str, program: tuple[nn.Module, Callable[[], object]]) -> Viewer:
    model, run = program
    with watch(model, name, grace_seconds=0.0), Viewer(place_of(name)) as viewer:
        viewer.until(is_known, run)
    assert_nothing_is_left()
    return viewer


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    """Sessions of real loops: what each of the situations looks like to a viewer."""
    found: dict[str, Session] = {}
    with pytest.MonkeyPatch.context() as patch, sockets_folder() as folder:
        patch.setenv("TUI_PROFILER_DIR", str(folder))
        for name, made in (
            ("no_grad", infers),
            ("grad", follows),
            ("generate", generates),
        ):
            found[name] = observed(made.__name__, made()).session
        training = observed("trains", trains())
        found["training"] = training.session
        recorded = write(tmp_path_factory.mktemp("r") / "r.tprof", with_times(training.heard))
        recording = open_recording(recorded)
        found["recorded"] = SeekIndex(recording).session(len(recording.entries))
        recording.close()
    with sockets_folder() as folder:
        found["attached"] = of_another_process(folder)
    return found


SERVES = """
net, x = Net().eval(), torch.zeros(4, 8)
with tui_profiler.watch(net, "net"):
    say("ready")
    while True:
        with torch.inference_mode():
            net(x)
"""


def of_another_process(folder: Path) -> Session:
    """Of a program that has called ``torch.set_num_threads(1)`` where two is the default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUI_PROFILER_DIR", str(folder))
        with WatchedProgram(SERVES, folder, OMP_NUM_THREADS="2") as child:
            assert child.said() == ["ready"]
            with Viewer(place_of("net")) as viewer:
                return viewer.until(is_known)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_a_program_does_is_observed(sessions: dict[str, Session], situation: str) -> None:
    session = sessions[situation]
    assert mode(session).name == ("training" if situation in TRAINS else "inference")
    assert is_program(session), "so is a recording of one"


def test_threads_are_those_of_the_thread_that_runs_the_forwards(
    sessions: dict[str, Session],
) -> None:
    machine = sessions["attached"].environment
    assert machine is not None
    assert machine.threads == 1


def test_every_kind_is_in_the_table() -> None:
    assert {kind: check.holds_in for kind, check in CHECKS.items()} == HOLDS_IN


class Masks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


def applies() -> dict[Kind, Session]:
    """For each kind a session of a real trace in which it applies, times given by hand."""
    linear = nn.Sequential(nn.Linear(1024, 1024, bias=False))
    wide = timed(on_paper(linear, torch.zeros(512, 1024)), {"": 1e-2, "0": 8e-3})
    halves = replace(
        CEILINGS,
        compute=tuple(
            replace(one, flops_per_second=BF16) if one.dtype == "float16" else one
            for one in CEILINGS.compute
        ),
    )
    small = nn.Sequential(nn.Linear(16, 16, bias=False))
    hosted = with_host(timed(on_paper(small, ROW), {"": 1e-3, "0": 5e-4}), 4e-4, 1e-3)
    normed = timed(on_paper(Normed(), IMAGE), {"": 1e-3, "conv": 7e-4, "norm": 2e-4})
    empty = nn.Sequential(nn.Linear(16, 16), nn.Identity())
    gelu = nn.Sequential(nn.Linear(16, 16), nn.GELU())
    convolution = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1))
    rows = torch.zeros(32, 64, dtype=torch.bfloat16)
    odd_layer = nn.Sequential(nn.Linear(64, 1001, bias=False)).bfloat16()
    odd = on_paper(odd_layer, torch.zeros(4, 64, dtype=torch.bfloat16))
    odd = timed(odd, {"": 1e-3, "0": 9e-4}, {"0/0": 8e-4})
    double = torch.zeros(64, 256, dtype=torch.double)
    precise = on_paper(nn.Sequential(nn.Linear(256, 256).double()), double)
    q, mask = torch.zeros(2, 4, 32, 16), torch.zeros(32, 32)
    new, past = torch.zeros(1, 2, 1, 8), torch.zeros(1, 2, 63, 8)
    values = looked_at(timed(on_paper(small, ROW), {"": 1e-3, "0": 8e-4}), is_random=False)
    return {
        "fold-conv-bn": normed,
        "channels-last": timed(
            on_paper(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1)), torch.zeros(1, 8, 64, 64)),
            {"": 1e-3, "0": 9e-4},
        ),
        "bf16-autocast": wide,
        "fp16-autocast": apply(wide, halves),
        "int8-dynamic": wide,
        "compile": hosted,
        "sdpa": timed(all_times(on_paper(ByHand(), q, mask), 1e-4), {"": 2e-3}),
        "larger-batch": hosted,
        "inference-mode": timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 5e-5, "0": 2e-5}),
        "threads": wide,
        "static-kv-cache": timed(all_times(on_paper(Remembers(), new, past), 1e-4), {"": 1e-3}),
        "remove-dropout-identity": timed(on_paper(empty, ROW), {"": 1e-4, "0": 9e-5, "1": 2e-6}),
        "synchronise": on_paper(Masks(), ROW),
        "graph-breaks": apply(on_paper(small, ROW), COMPILED),
        "recompiles": apply(on_paper(small, ROW), COMPILED),
        "host-overhead": hosted,
        "input-idle": apply(
            timed(on_paper(nn.Sequential(nn.ReLU()), ROW), {"": 1e-2, "0": 1e-2}),
            Overhead(0.01, 0.0, 0.02, pairs=0, share=1.0),
        ),
        **{kind: apply(on_paper(small, ROW), step) for kind, step in ADVISED.items()},
        "pin-memory": apply(on_device(on_paper(small, ROW), "cuda:0"), ADVISED["pin-memory"]),
        "checkpoint": apply(
            on_paper(small, ROW),
            replace(memory(), checkpointing=(Checkpointing((1,), 1024, 12_000, 13_824),)),
        ),
        "first-nan": apply(on_paper(small, ROW), model_values(nan_node=1)),
        "unused-parameters": on_paper(Extra(extra=True), ROW),
        "fuse-activation": timed(all_times(on_paper(gelu, ROW), 2e-5), {"": 1e-3, "0": 1e-4}),
        "peak-activations": on_paper(convolution, torch.zeros(2, 3, 64, 64)),
        "slow-dtype": apply(
            timed(precise, {"": 1e-2, "0": 9e-3}),
            replace(
                CEILINGS,
                compute=(
                    *CEILINGS.compute,
                    replace(CEILINGS.compute[0], dtype="float64", flops_per_second=5e9),
                ),
            ),
        ),
        "reuse-memory": with_faults(
            timed(
                all_times(on_paper(nn.Sequential(nn.ReLU()), torch.zeros(512, 1024)), 1e-3),
                {"": 1e-2},
            ),
            1000.0,
        ),
        "upcast": timed(all_times(on_paper(Widens(torch.float32), rows), 1e-4), {"": 1e-3}),
        "alignment": on_device(odd, "cuda:0"),
        "pruning": values,
        "quantise-weights": values,
    }


@pytest.fixture(scope="module", name="applying")
def _applying() -> dict[Kind, Session]:
    return applies()


@pytest.mark.parametrize("situation", [*SITUATIONS, "unknown"])
def test_no_kind_is_found_outside_the_modes_that_it_holds_in(
    sessions: dict[str, Session], applying: dict[Kind, Session], situation: str
) -> None:
    assert set(applying) == set(CHECKS)
    wrong = []
    for kind, session in applying.items():
        asked = apply(session, replace(ENVIRONMENT, cores=64))
        asked = apply(asked, Hello(1, 1, (), program=Program("net", 1, "python x.py", 0.0, 0.0)))
        if situation != "unknown":
            seen = sessions[situation].mode
            assert seen is not None
            asked = apply(asked, seen)
        expected = HOLDS_IN[kind] == "both" or situation not in (*TRAINS, "unknown")
        if HOLDS_IN[kind] == "training":
            expected = situation in TRAINS
        if kind == "inference-mode" and situation in UNDER_INFERENCE_MODE:
            expected = False  # It is so already.
        if (kind in {one.kind for one in findings(asked)}) != expected:
            wrong.append((kind, situation))
        assert (kind in withheld(asked)) == (not CHECKS[kind].holds(asked))
    assert not wrong


def test_reports_say_what_runs_between_the_forwards_of_a_training_loop(
    sessions: dict[str, Session],
) -> None:
    for name in TRAINS:
        lines = "\n".join(table(sessions[name], columns=100))
        assert "training: backward passes reach its parameters" in lines
        assert "per backward pass (p50), between forwards" in lines
        assert "idle" not in lines
        report = as_json(sessions[name], advises=True)
        assert report["mode"]["name"] == "training"
        assert report["mode"]["backward_passes"] >= report["mode"]["backward_passes_reached"] > 0
        assert report["mode"]["backward_pass_s"] > 0
        assert set(report["findings"]["withheld"]) == {
            kind for kind, holds_in in HOLDS_IN.items() if holds_in == "inference"
        }
        assert device_text(sessions[name]).endswith(", training")
    lines = "\n".join(table(sessions["grad"], columns=100))
    assert "inference: eval mode with autograd, no backward pass" in lines
    assert as_json(sessions["grad"])["mode"]["name"] == "inference"


def test_the_energy_of_a_training_loop_is_not_that_of_its_forwards(
    sessions: dict[str, Session],
) -> None:
    counted = with_energy_counted()
    assert isinstance(forward_energy(counted), ForwardEnergy)
    seen = sessions["training"].mode
    assert seen is not None
    assert forward_energy(apply(counted, seen)) == WITH_BACKWARD
