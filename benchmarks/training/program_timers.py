"""Timers of the parts of a program, independent of the profiler, for ``public_programs.py``.

That script copies this file as ``sitecustomize.py`` into a folder on ``PYTHONPATH``, so that the
program is not edited. Nothing of the profiler is imported. The timers start at the first forward.
The environment selects what happens:

- ``PROGRAM_SEED``: seeds torch, NumPy and ``random`` once torch is imported, so that two runs print
  the same.
- ``PROGRAM_STEPS``: the program exits after this number of optimizer steps.
- ``PROGRAM_TIMES``: file for the intervals (``PID.json`` is appended), written when the process
  exits. An interval is ``[kind, began, ended, name, rows, mode, thread]`` in seconds of
  ``time.perf_counter``. ``mode`` of a forward is 1 with gradients, plus 2 in training mode, plus 4
  if the module has parameters.
- ``PROGRAM_LINES``: folder of the program. The lines of its files are traced (``sys.settrace``):
  seconds per line outside of the timed parts, with the second at which each stay ended.
"""

import atexit
import builtins
import functools
import importlib.util
import itertools
import json
import os
import sys
import threading
import types
from time import perf_counter

TIMES = os.environ.get("PROGRAM_TIMES", "")
LINES = os.environ.get("PROGRAM_LINES", "")
STEPS = int(os.environ.get("PROGRAM_STEPS", "0"))
MOST = 3_000_000
RAISED = "raised"
"""Name of a part that raised, as a data loader at the end of an epoch."""
intervals: list = []
stays: list = []
"""``(ended, seconds, line)`` of traced lines outside of parts; ``line`` is an index."""
lines: dict = {}
_local = threading.local()
_import = builtins.__import__
_steps = itertools.count(1)


def importing(*arguments, **named):
    """Import; once torch is there, begin."""
    module = _import(*arguments, **named)
    torch = sys.modules.get("torch")
    is_there = torch is not None and not getattr(torch.__spec__, "_initializing", False)
    if is_there and builtins.__import__ is importing:
        builtins.__import__ = _import
        begin(torch)
    return module


def begin(torch):
    """Seed, and wrap what is timed."""
    if importlib.util.find_spec("torch._six") is None:  # Programs older than torch 2 import it.
        sys.modules["torch._six"] = torch._six = types.ModuleType("torch._six")
        torch._six.string_classes = (str, bytes)
    if "PROGRAM_SEED" in os.environ:
        import random

        import numpy

        seed = int(os.environ["PROGRAM_SEED"])
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        random.seed(seed)
    if STEPS or TIMES:
        wrap_optimizers(torch)
    if TIMES:
        wrap(torch)
        atexit.register(write)
        os.register_at_fork(after_in_child=intervals.clear)
    if LINES:
        trace_lines()


def enter():
    """Begin a part; parts may be inside of each other."""
    now = perf_counter()
    depth = getattr(_local, "depth", 0)
    if depth == 0:
        _local.began = now
    _local.depth = depth + 1
    return now


def leave():
    """End the innermost part."""
    now = perf_counter()
    _local.depth -= 1
    if _local.depth == 0:
        _local.parts = getattr(_local, "parts", 0.0) + now - _local.began
    return now


def part(kind, run, name="", rows=0, mode=0):
    """Run and keep the interval."""
    began = enter()
    try:
        return run()
    except BaseException:
        name = RAISED
        raise
    finally:
        ended = leave()
        if len(intervals) < MOST:
            intervals.append((kind, began, ended, name, rows, mode, threading.get_ident()))


def wrap_optimizers(torch):
    """Time steps of optimizers; exit after the last."""
    optimizer = sys.modules["torch.optim.optimizer"]
    begun = {}

    def before(stepped, args, kwargs):
        begun[id(stepped)] = enter()

    def after(stepped, args, kwargs):
        ended = leave()
        began = begun.pop(id(stepped), ended)
        if TIMES and len(intervals) < MOST:
            name = f"{type(stepped).__name__}#{id(stepped)}"
            intervals.append(("optimizer", began, ended, name, 0, 0, threading.get_ident()))
        if STEPS and next(_steps) >= STEPS:
            raise SystemExit(0)

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)


def wrap(torch):
    """Time data loaders, backward passes, clipping, and outermost forwards."""
    from torch.nn.utils import clip_grad
    from torch.utils.data import dataloader

    def timed(owner, name, kind):
        before = getattr(owner, name)

        @functools.wraps(before)
        def call(*args, **kwargs):
            return part(kind, lambda: before(*args, **kwargs))

        setattr(owner, name, call)

    timed(dataloader._BaseDataLoaderIter, "__next__", "data")
    timed(torch.autograd, "backward", "backward")
    timed(torch.autograd, "grad", "backward")
    clip = clip_grad.clip_grad_norm_
    # What its wrapper calls: other profilers look for the wrapper.
    cell = clip.__closure__[clip.__code__.co_freevars.index("func")]
    clipping = cell.cell_contents
    cell.cell_contents = functools.wraps(clipping)(
        lambda *args, **kwargs: part("clip", lambda: clipping(*args, **kwargs))
    )
    number = itertools.count(1)

    def first_rows(args, kwargs):
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor):
                return value.shape[0] if value.ndim else 1
            if isinstance(value, (list, tuple)) and value:
                return len(value)
        return 0

    def wrap_forward(cls):
        before = cls.__dict__.get("forward")
        if cls.__module__.startswith(("torchvision.transforms", "tui_profiler")):
            return  # Called once per sample; the profiler's own.
        if before is None or not hasattr(before, "__code__"):
            return

        def call(self, *args, **kwargs):
            if getattr(_local, "inside", False):
                return before(self, *args, **kwargs)
            _local.inside = True
            try:
                has_parameters = next(self.parameters(), None) is not None
                mode = torch.is_grad_enabled() + 2 * (self.training is True) + 4 * has_parameters
                if not isinstance(self.training, bool):
                    mode += 2
                name = f"{type(self).__name__}#{id(self)}"
                rows = first_rows(args, kwargs)
                return part("forward", lambda: before(self, *args, **kwargs), name, rows, mode)
            finally:
                _local.inside = False

        # A code object for each class: profilers tell functions apart by it.
        call.__code__ = call.__code__.replace(co_firstlineno=10_000 + next(number))
        cls.forward = functools.wraps(before)(call)

    def subclassed(cls, **named):
        super(torch.nn.Module, cls).__init_subclass__(**named)
        wrap_forward(cls)

    torch.nn.Module.__init_subclass__ = classmethod(subclassed)
    for cls in (torch.nn.Sequential, torch.nn.parallel.DistributedDataParallel):
        wrap_forward(cls)


def parts_clock(now):
    """Return the seconds that this thread spent in timed parts until now."""
    inside = now - _local.began if getattr(_local, "depth", 0) else 0.0
    return getattr(_local, "parts", 0.0) + inside


def trace_lines():
    """Trace the lines of the program's files on this thread."""
    stack = []
    last = [perf_counter(), 0.0]

    def stay(now):
        parts = parts_clock(now)
        seconds = now - last[0] - (parts - last[1])
        if stack and seconds > 0 and len(stays) < MOST:
            stays.append((now, seconds, stack[-1]))
        last[0], last[1] = now, parts

    def index(frame):
        code = frame.f_code
        key = (code.co_qualname, code.co_filename, frame.f_lineno)
        return lines.setdefault(key, len(lines))

    def local(frame, event, argument):
        now = perf_counter()
        stay(now)
        if event == "line":
            stack[-1] = index(frame)
        elif event == "return":
            stack.pop()
        last[0] = perf_counter()
        last[1] = parts_clock(last[0])
        return local

    def called(frame, event, argument):
        file = frame.f_code.co_filename
        if not file.startswith(LINES) or "site-packages" in file:
            return None
        now = perf_counter()
        stay(now)
        stack.append(index(frame))
        last[0] = perf_counter()
        last[1] = parts_clock(last[0])
        return local

    frame, frames = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename.startswith(LINES):
            frames.append(frame)
            frame.f_trace = local
        frame = frame.f_back
    stack.extend(index(frame) for frame in reversed(frames))
    sys.settrace(called)


def write():
    """Write what was timed."""
    sys.settrace(None)
    kept = {
        "pid": os.getpid(),
        "command": sys.argv,
        "intervals": intervals,
        "stays": stays,
        "lines": [key for key, _ in sorted(lines.items(), key=lambda pair: pair[1])],
    }
    with open(f"{TIMES}{os.getpid()}.json", "w", encoding="utf-8") as file:
        json.dump(kept, file)


if TIMES or STEPS or "PROGRAM_SEED" in os.environ:
    builtins.__import__ = importing
