"""A model file that has the broker start trials, and asks them for what no trial is for.

``build`` is called in a confined worker, and ``build_in_trial`` in the process that it had started.
Where the deeds may leave traces the environment says.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import torch

from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import ExportOnnx, Failed, LoadSpec, Start, TryAlone, Wish
from tui_profiler.probe.sandbox.confinement import confinement

HOME = Path(os.environ.get("DEEDS_HOME", ""))
IN_TRIAL = LoadSpec(f"{__file__}:build_in_trial", folder=str(HOME), trust=True, device="cpu")


def build() -> torch.nn.Module:
    # Where the file was asked for comes from a request that this code writes.
    onnx = asked(ExportOnnx(IN_TRIAL, str(HOME / "bashrc")))
    start = asked(Start(IN_TRIAL))
    trial = asked(TryAlone(IN_TRIAL, Wish("inference-mode", seconds=0.1)))
    print(json.dumps({"onnx": onnx, "start": start, "trial": trial}), flush=True)
    return torch.nn.Linear(8, 8)


def asked(request: object) -> str:
    """Return what the code in the trial said, or that it was not reached."""
    confined = confinement()
    assert confined is not None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        confined.start_trial(theirs)
        theirs.close()
        ours.sendall(encode(request))  # type: ignore[arg-type] # each is a request
        decoder = message_decoder()
        while data := ours.recv(65536):
            for message in decoder.feed(data):
                if found := re.search(r"deeds: (\d+), done: \[(.*?)\]", repr(message)):
                    return found[0]
                if isinstance(message, Failed):
                    return "refused"
    return "ended"


def build_in_trial() -> torch.nn.Module:
    came = {name: outcome(deed) for name, deed in DEEDS.items()}
    done = " ".join(name for name, what in came.items() if what == "done")
    raise RuntimeError(f"deeds: {len(came)}, done: [{done}]")


def outcome(deed: Callable[[], object]) -> str:
    try:
        deed()
    except Exception as error:
        return f"refused: {type(error).__name__}"
    return "done"


def deliver() -> None:
    confined = confinement()
    assert confined is not None
    delivery = confined.delivery
    assert delivery is not None
    (delivery.folder / "bashrc").write_text("not yours")
    confined.deliver()


def start_trial() -> None:
    confined = confinement()
    assert confined is not None
    _, theirs = socket.socketpair()
    confined.start_trial(theirs).kill()


def leave_group() -> None:
    os.setpgid(0, os.getpgid(os.getppid()))


def write_shared_memory() -> None:
    place = Path("/dev/shm", f"tui-profiler-deed-{os.getpid()}")
    place.write_text("x")
    place.unlink()


DEEDS: dict[str, Callable[[], object]] = {
    "deliver a file": deliver,
    "start a trial": start_trial,
    "calibrate": lambda: confinement()._ask(b"calibrate cpu 1"),  # type: ignore[union-attr]
    "leave the process group": leave_group,
    "write shared memory": write_shared_memory,
}
