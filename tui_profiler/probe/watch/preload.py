"""What a viewer needs for the first time, done when the program calls ``watch``.

A program that serves or trains must not wait later: an import or a compilation is one call that
keeps the interpreter for up to 50 ms, longer where no ``.pyc`` file can be written. So one visit is
rehearsed on a model of two layers without parameters: it is recorded, made into a tree, timed and
encoded, and the machine's counters are read once. What that imports, compiles or looks up stays in
the process.

1. Nothing of the program is touched: ``nn.Module.__call__`` is not replaced, no random number is
   drawn, no device is opened.
2. Python's garbage is collected once: recording a tree makes objects by the ten thousand, which
   would set off the full collection (0.1 to 0.4 s) that importing torch has brought near.
3. It runs on a thread of its own: modes of the calling thread (fake tensors, a default device) are
   not seen there. Where another thread would wait for the lock of an import that is under way, as
   in ``script_models.py``, ``rehearse`` is called instead.
"""

import gc
import struct
import sys
import threading
import warnings

import torch

from tui_profiler.connection.sockets import remove_stale
from tui_profiler.connection.wire import encode, request_decoder
from tui_profiler.gpus import amd, intel, nvml
from tui_profiler.messages import Message, Sample
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.measure.clock.overhead_budget import EstimatedCost
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder
from tui_profiler.probe.measure.clock.warm_up import WARMUP_FORWARDS
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.trace.record_program_forward import ProgramForwardRecorder
from tui_profiler.probe.trace.trace import messages
from tui_profiler.probe.watch.model_facts import facts_of, greeting
from tui_profiler.system import real_time as time

MOST_SECONDS = 30.0
"""How long ``watch`` waits for the warm-up; the rest is done later."""
MOST_BLOCKS = 4_000_000
"""Of memory that Python has allocated (torch alone: 0.6 million). In a larger heap a collection
takes seconds, and more than our objects sets it off."""


def warm_up() -> None:
    """Rehearse a visit on a thread, and wait for it."""
    thread = threading.Thread(target=rehearse, name="tui-profiler", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return  # There are too many threads: the one that serves cannot start, and that is said.
    thread.join(MOST_SECONDS)


def rehearse() -> None:
    """Rehearse a visit on this thread."""
    try:
        visit()
        if gc.isenabled() and sys.getallocatedblocks() < MOST_BLOCKS:
            gc.collect()
    except (
        Exception
    ) as error:  # Whatever fails here, the program continues, and a viewer may still work.
        warnings.warn(f"tui-profiler: {type(error).__name__}: {error}", stacklevel=1)


def visit() -> None:
    """Do what a first viewer has done, on this thread.

    Raises:
        Exception: whatever fails; the program may continue.
    """
    request_decoder()
    for maker in (nvml, amd, intel):
        maker.import_library()
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten())
    told: list[Message] = [*greeting(0.0), _sample()]
    hearing = ProgramForwardRecorder(model, "")
    with torch.no_grad():
        given = torch.zeros((1, 2), device="cpu", dtype=torch.float32)
        hearing.run(torch.nn.Module.__call__, (given,), {})
    trace = hearing.trace()
    if trace is None:
        raise RuntimeError(hearing.trouble)
    told += [facts_of(model, trace, "", ""), *messages(trace)]
    clock = ModuleClock(model)  # It is not put on (rule 1).
    times = TimeRecorder(clock, trace.nodes, model, EstimatedCost(), budget=1.0)
    operators = OperatorClock(trace.nodes, model)
    times.add([_forward(model)] * (WARMUP_FORWARDS + 2))
    operators.add(_forward(model), [])
    told += [*times.figures(0.0, 0), operators.message(0.0, 0.0)]
    for message in told:
        encode(message)
    remove_stale()


def _sample() -> Sample:
    # Of no GPU: opening a driver takes seconds, and waits on a thread of its own when it is wanted.
    sampler = Sampler(time.time(), device_indices=(), energy=EnergyWatch())
    try:
        return sampler.sample()
    finally:
        sampler.close()


def _forward(model: torch.nn.Sequential) -> Forward:
    """Return a forward as the clock records it: two layers, one after the other, then the root."""
    return Forward([*model, model], struct.pack("6d", 0.1, 0.2, 0.0, 0.2, 0.3, 0.4), 0.0)
