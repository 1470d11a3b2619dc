"""When a program waits for data, clips gradients, and steps its optimizers.

Told on the thread that does so, where torch is entered anyway. Backward passes are told by
``clock/backward.py``, waits for collectives by ``ranks/collectives.py``, forwards by the clock.

1. While someone listens, two attributes are replaced, what three functions wrap, and two global
   hooks are added. They are taken away when the last listener leaves, if they are still ours; below
   another replacement ours passes through for ever.
2. Nothing of ours raises in the program or waits: two readings of the timer and one call of each
   listener.
3. Where ``torch.compile`` traces, ours passes through. Global hooks are part of what a compiled
   ``optimizer.step`` is guarded by: where one is compiled already they are not added, and where one
   was compiled since they are not removed, so that nothing is compiled again because of us.
4. Of steps that are not recorded nobody is told: one thread's times are kept as they are
   (``BriefMarks``). What else happens there has all told as usual.

| what | tells | when it is gone |
|---|---|---|
| ``torch.utils.data.dataloader._BaseDataLoaderIter.__next__`` | waiting for data, and which \
loader it came from; of iterators that run already as well | ``data`` is unknown |
| its ``__init__`` | when an iterator was made: with it an evaluation begins | it begins with its \
first batch |
| ``torch.optim.optimizer.register_optimizer_step_pre_hook``, ``…post_hook`` (public) | steps of \
optimizers | – |
| what ``clip_grad_norm_``, ``_get_total_norm`` and ``_clip_grads_with_norm_`` of \
``torch.nn.utils.clip_grad`` wrap, a cell of each | clipping by norm, under whichever name it was \
imported; by value it is not seen | ``clip`` is unknown |
"""

import functools
import math
import sys
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from threading import get_ident
from types import CellType, FrameType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

from torch import Tensor, is_grad_enabled, strided
from torch.compiler import is_dynamo_compiling
from torch.nn.utils import clip_grad
from torch.optim import optimizer
from torch.utils.data import dataloader
from torch.utils.hooks import RemovableHandle

from tui_profiler.messages import LoaderSettings, OptimizerSettings
from tui_profiler.probe.measure.clock.backward import (
    CALIBRATED,
    LONGEST_TOLD,
    MOST_BRIEF,
    here,
    present_thread,
)
from tui_profiler.probe.measure.step.loader_iterators import (
    UNKNOWN_FETCHER,
    Fetch,
    Fetcher,
    LoaderIterators,
)
from tui_profiler.probe.torch_compat.internals import is_compiled
from tui_profiler.probe.torch_compat.threads import without_torch_function
from tui_profiler.system.real_time import perf_counter

Kind: TypeAlias = Literal["data", "clip", "optimizer"]
Call: TypeAlias = Callable[..., Any]

CLIPPING = ("clip_grad_norm_", "_get_total_norm", "_clip_grads_with_norm_")
MOST_OPTIMIZERS = 64
"""That are kept in mind, weakly: the newest."""
MOST_FRAMES = 16
"""Between the step of an optimizer and that of its base class."""
COMPILED = "the program's optimizer step is compiled"


class Mark(NamedTuple):
    """A time in which a thread did one thing; seconds of ``time.perf_counter``."""

    kind: Kind
    thread: int
    began: float
    ended: float
    subject: int = 0
    """``id`` of the optimizer."""
    settings: LoaderSettings | OptimizerSettings | None = None
    """Of the loader or the optimizer; None where they cannot be told."""
    fetch: Fetch | None = None
    """Which loader was waited for; None of what is not data."""


BriefTime: TypeAlias = tuple[float, float, Fetch | None]
"""When something began and ended that nobody was told of; of data, which loader it was."""


class Listener(Protocol):
    """Whom marks are told to, on the thread of the program."""

    def before_update(self, stepped: optimizer.Optimizer, *, has_closure: bool) -> None:
        """Take note that an optimizer is about to step; must not raise."""
        ...

    def take_mark(self, mark: Mark) -> None:
        """Keep it; must not raise."""
        ...


class BriefMarks:
    """Steps in a row that are not recorded, of one thread and one optimizer.

    Made on the thread that trains.

    Args:
        subject: ``id`` of the optimizer whose steps end a step.
        steps: how many end before one is told as usual.
        end: takes the second at which each ended.
    """

    def __init__(self, subject: int, steps: int, end: Callable[[float], object]) -> None:
        self.thread = get_ident()
        self.here = present_thread()
        """What identifies that thread (``present_thread``)."""
        self.subject = subject
        self.stepped: Callable[[], object] = _nothing
        """Returns the optimizer."""
        self.end = end
        self.began = 0.0
        """When the step of the optimizer began that has not ended; 0 where none has."""
        self.ended = 0.0
        """When the last one did; 0 where none did."""
        self.steps = repeat(None, steps)
        """One is taken for each that ends; where there is none, it is told as usual."""
        self._unused = 0

    def stop(self) -> None:
        """Have the next one told as usual; on any thread."""
        self._unused = self.left
        self.steps = repeat(None, 0)

    @property
    def left(self) -> int:
        """How many of the steps have not ended."""
        return self._unused + length_hint(self.steps)


def _nothing() -> None:
    return None


@dataclass
class _Step:
    """A step of an optimizer that has begun and not ended, or raised."""

    began: float
    frame: int
    """``id`` of the frame that called the hook."""
    inside: int = 0
    """Steps of the same optimizer inside of it."""


class StepMarks:
    """What is replaced in one process, for all models that are looked at in it."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._replaced: list[tuple[object, str, Call, Call]] = []
        self._wrapped: list[tuple[CellType, Call, Call]] = []
        self._hooks: list[RemovableHandle] = []
        self._under_way: dict[tuple[int, int], _Step] = {}
        """When the step of an optimizer began on a thread."""
        self._stepped: dict[int, tuple[weakref.ref[optimizer.Optimizer], OptimizerSettings]] = {}
        """By ``id``, with how they step: as they were made."""
        self.why_not: dict[str, str] = {}
        """Why a kind of mark is not told."""
        self.spent = 0.0
        """Seconds that telling of optimizers took."""
        self._iterators = LoaderIterators()
        self.brief: dict[Kind, deque[BriefTime]] = {
            kind: deque(maxlen=MOST_BRIEF) for kind in get_args(Kind)
        }
        """When what nobody was told of began and ended, of each kind."""
        self._brief_steps = self.brief["optimizer"]
        self._brief: BriefMarks | None = None
        self._not_brief: set[int] = set()
        """Optimizers that others step beside, or that step inside of their own steps."""

    def can_be_brief(self, subject: int) -> bool:
        """Tell whether it is enough for all to have times of steps that an optimizer ends."""
        is_for_one = len(self._listeners) == 1 and subject not in self._not_brief
        return is_for_one and bool(self._hooks) and subject in self._stepped

    def be_brief(self, brief: BriefMarks) -> None:
        """Keep times only, until the last of some steps; on the thread that trains."""
        if (kept := self._stepped.get(brief.subject)) is not None:
            brief.stepped = kept[0]
            self._brief = brief

    def tell_all(self) -> None:
        """Tell of everything from now on; on any thread."""
        self._leave_brief(lambda brief: _Step(brief.began, 0))

    def _leave_brief(self, begun: Callable[[BriefMarks], _Step | None]) -> None:
        brief = self._brief
        if brief is not None:
            # First: it may end on another thread as soon as all is told.
            step = begun(brief) if brief.began else None
            if step is not None:
                self._under_way[brief.thread, brief.subject] = step
            self._brief = None

    def _meet(self, stepped: optimizer.Optimizer, caller: FrameType, brief: BriefMarks) -> None:
        """Tell of everything, because a step begins that is not the next one of those in a row."""
        is_other = (brief.subject, brief.thread) != (id(stepped), get_ident())
        outer = None if is_other else _outer_step(caller, stepped)
        if is_other or outer is not None:
            if len(self._not_brief) < MOST_OPTIMIZERS:
                self._not_brief.add(brief.subject)
            self._leave_brief(lambda one: _Step(one.began, id(outer)))
        else:
            self._leave_brief(lambda one: None)  # It raised.

    def listen(self, listener: Listener) -> None:
        """Begin to tell; the first listener has everything put in place."""
        if not self._listeners:
            self._install()
        self._listeners = (*self._listeners, listener)
        self.tell_all()

    def leave(self, listener: Listener) -> None:
        """Tell no more; the last one to leave has everything taken away."""
        before = self._listeners
        self._listeners = tuple(one for one in before if one is not listener)
        if before and not self._listeners:
            self._uninstall()

    @property
    def is_updating(self) -> bool:
        """Whether a step of an optimizer has begun and not ended: a closure may take long."""
        return bool(self._under_way)

    def optimizers(self) -> list[optimizer.Optimizer]:
        """Return those that have stepped while someone listened, and are there yet."""
        found = (one() for one, _ in [*self._stepped.values()])
        return [one for one in found if one is not None]

    def _install(self) -> None:
        self.why_not = {}
        iterators = getattr(dataloader, "_BaseDataLoaderIter", None)
        if self._replace(iterators, "__next__", self._fetching):
            self._replace(iterators, "__init__", self._making)
        else:
            self.why_not["data"] = "this version of torch has no __next__ of a loader's iterators"
        for name in CLIPPING:
            self._replace_wrapped(vars(clip_grad).get(name))
        if not self._wrapped:
            self.why_not["clip"] = f"this version of torch has another {CLIPPING[0]}"
        if self._hooks:
            return  # Left in place when the last listener left.
        if is_step_compiled():
            self.why_not["optimizer"] = COMPILED
            return
        self._hooks = [
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        ]

    def _uninstall(self) -> None:
        for owner, name, before, ours in reversed(self._replaced):
            if vars(owner).get(name) is ours:
                setattr(owner, name, before)
        self._replaced = []
        for cell, before, ours in self._wrapped:
            if cell.cell_contents is ours:
                cell.cell_contents = before
        self._wrapped = []
        if not is_step_compiled():
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
        self._brief = None
        self._not_brief.clear()
        for times in self.brief.values():
            times.clear()
        self._under_way.clear()

    def _replace(self, owner: object, name: str, timed: Callable[[Call], Call]) -> bool:
        """Replace an attribute; returns False where there is none."""
        before = None if owner is None else vars(owner).get(name)
        if owner is None or not callable(before):
            return False
        ours = functools.wraps(before)(timed(before))
        setattr(owner, name, ours)
        self._replaced.append((owner, name, before, ours))
        return True

    def _replace_wrapped(self, wrapper: object) -> None:
        """Replace the function that a decorated one calls, unless it is not decorated as torch's.

        Someone else may have replaced ``clip_grad_norm_``: the functions that it calls are seen.
        """
        cells = dict(
            zip(
                getattr(getattr(wrapper, "__code__", None), "co_freevars", ()),
                getattr(wrapper, "__closure__", None) or (),
                strict=False,
            )
        )
        cell = cells.get("func")
        if cell is None:
            return
        before = cell.cell_contents
        ours = functools.wraps(before)(self._clipping(before))
        cell.cell_contents = ours
        self._wrapped.append((cell, before, ours))

    def _clipping(self, before: Call) -> Call:
        times = self.brief["clip"]

        def timed(*args: object, **kwargs: object) -> object:
            if is_dynamo_compiling() or not self._listeners:
                return before(*args, **kwargs)
            brief = self._brief
            began = perf_counter()
            if brief is not None and here() is brief.here:
                try:
                    return before(*args, **kwargs)
                finally:
                    times.append((began, perf_counter(), None))
            try:
                return before(*args, **kwargs)
            finally:
                self._tell(Mark("clip", get_ident(), began, perf_counter()))

        return timed

    def _fetching(self, before: Call) -> Call:
        times, known = self.brief["data"], self._iterators.get

        def timed(*args: object, **kwargs: object) -> object:
            if is_dynamo_compiling() or not self._listeners:
                return before(*args, **kwargs)
            is_over, began = False, perf_counter()
            try:
                return before(*args, **kwargs)
            except StopIteration:
                is_over = True
                raise
            finally:
                ended, brief = perf_counter(), self._brief
                iterator = args[0] if args else None
                try:
                    fetcher = known(iterator) or self._new_fetcher(iterator)
                except TypeError:  # Its class cannot be hashed, or be referred to weakly.
                    fetcher = UNKNOWN_FETCHER
                fetch = Fetch(fetcher, is_grad_enabled(), is_over)
                if brief is not None and here() is brief.here:
                    times.append((began, ended, fetch))
                else:
                    settings = loader_settings(iterator)
                    self._tell(Mark("data", get_ident(), began, ended, 0, settings, fetch))

        return timed

    def _making(self, before: Call) -> Call:
        def made(*args: object, **kwargs: object) -> object:
            if is_dynamo_compiling() or not self._listeners:
                return before(*args, **kwargs)
            began = perf_counter()
            result = before(*args, **kwargs)
            if args:
                self._new_fetcher(args[0], began)
            return result

        return made

    def _new_fetcher(self, iterator: object, made: float = 0.0) -> Fetcher:
        sampler = _attributes(iterator).get("_index_sampler")
        try:
            return self._iterators.add(iterator, sampler, made)
        except TypeError:  # As above.
            return UNKNOWN_FETCHER

    def _before_step(self, stepped: optimizer.Optimizer, args: object, kwargs: object) -> None:
        if is_dynamo_compiling():
            return
        # Objects are compared: comparing numbers takes 2 us each with cold caches.
        if (brief := self._brief) is not None:
            if brief.stepped() is stepped and not brief.began and here() is brief.here:
                brief.began = perf_counter()
                return
            self._meet(stepped, sys._getframe(1), brief)
        if not self._listeners:
            return
        asked = perf_counter()
        caller, key = sys._getframe(1), (get_ident(), id(stepped))
        outer = self._under_way.get(key)
        if outer is not None and _is_inside(caller, outer.frame):
            outer.inside += 1  # The step of its base class, which has hooks as well.
            return
        given = args if isinstance(args, tuple) else ()
        closure = kwargs.get("closure") if isinstance(kwargs, dict) else None
        for one in self._listeners:
            one.before_update(stepped, has_closure=closure is not None or any(given[1:]))
        if id(stepped) not in self._stepped:
            self._keep(stepped)
        began = perf_counter()
        self.spent += min(began - asked, LONGEST_TOLD)
        self._under_way[key] = _Step(began, id(caller))

    def _keep(self, stepped: optimizer.Optimizer) -> None:
        kept, key = self._stepped, id(stepped)
        if len(kept) >= MOST_OPTIMIZERS:
            kept.pop(next(iter(kept), 0), None)
        kept[key] = (
            weakref.ref(stepped, lambda _: kept.pop(key, None)),
            optimizer_settings(stepped),
        )

    def _after_step(self, stepped: optimizer.Optimizer, args: object, kwargs: object) -> None:
        if is_dynamo_compiling():
            return
        ended, brief = perf_counter(), self._brief
        if brief is not None and brief.stepped() is stepped and here() is brief.here:
            began, brief.began = brief.began, 0.0
            if began and next(brief.steps, brief) is None:
                self._brief_steps.append((began, ended, None))
                brief.ended = ended
                brief.end(ended)
                return
            self._brief = None
            if began:
                self._under_way[brief.thread, brief.subject] = _Step(began, 0)
        if not self._listeners:
            return
        thread = get_ident()
        step = self._under_way.get((thread, id(stepped)))
        if step is None:
            return
        if step.inside:
            step.inside -= 1
            return
        del self._under_way[thread, id(stepped)]
        settings = self._settings_of(stepped)
        self._tell(Mark("optimizer", thread, step.began, ended, id(stepped), settings))
        self.spent += min(perf_counter() - ended, LONGEST_TOLD)

    def _settings_of(self, stepped: optimizer.Optimizer) -> OptimizerSettings:
        kept = self._stepped.get(id(stepped))
        return optimizer_settings(stepped) if kept is None else kept[1]

    def _tell(self, mark: Mark) -> None:
        for one in self._listeners:
            one.take_mark(mark)


def brief_mark_seconds() -> float:
    """Measure what it takes to keep only times of one step of an optimizer; less than 1 ms."""
    marks = StepMarks()
    stepped: Any = marks  # Nothing is asked of it, and nobody is told.
    marks._listeners = (stepped,)
    ends: deque[float] = deque(maxlen=CALIBRATED)
    marks._stepped[id(stepped)] = weakref.ref(stepped), OptimizerSettings("", None, None)
    marks.be_brief(BriefMarks(id(stepped), CALIBRATED, ends.append))
    least = math.inf
    # Not shared with ``brief_pass_seconds``: the timed part would have one call more.
    for _ in range(CALIBRATED):
        began = perf_counter()
        marks._before_step(stepped, (), {})
        marks._after_step(stepped, (), {})
        least = min(least, perf_counter() - began)
    return least


def _outer_step(frame: FrameType, stepped: object) -> FrameType | None:
    """Return the frame of a step of an optimizer in which another one of it is called."""
    code, outer = frame.f_code, frame.f_back
    for _ in range(MOST_FRAMES):
        if outer is None or (outer.f_code is code and outer.f_locals.get("self") is stepped):
            return outer
        outer = outer.f_back
    return None


def _is_inside(frame: FrameType | None, outer: int) -> bool:
    """Tell whether a frame was called, over a few others, by one with an ``id``."""
    for _ in range(MOST_FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return False
        if id(frame) == outer:
            return True
    return False


def loader_settings(iterator: object) -> LoaderSettings | None:
    """Return how a loader's iterator loads; nothing of the program's runs for it."""
    kept = _attributes(iterator)
    workers, prefetch = kept.get("_num_workers"), kept.get("_prefetch_factor")
    if not isinstance(workers, int):
        return None
    ahead = prefetch if isinstance(prefetch, int) else 0
    batch = _attributes(kept.get("_index_sampler")).get("batch_size")
    return LoaderSettings(
        workers,
        kept.get("_pin_memory") is True,
        ahead if workers else 0,
        batch if isinstance(batch, int) and batch > 0 else None,
    )


def optimizer_settings(stepped: object) -> OptimizerSettings:
    """Return how an optimizer steps, as it was made; nothing of the program's runs for it."""
    defaults = _attributes(stepped).get("defaults")
    ways = defaults if type(defaults) is dict else {}
    foreach, fused = ways.get("foreach"), ways.get("fused")
    return OptimizerSettings(
        type(stepped).__name__,
        foreach if isinstance(foreach, bool) else None,
        fused if isinstance(fused, bool) else None,
        _why_not_fused(stepped, ways),
    )


def _why_not_fused(stepped: object, ways: Mapping[str, object]) -> str:
    """Return why ``fused=True`` would raise; empty where it is not known to.

    Source: what ``__init__`` of Adam, SGD and Adagrad and ``_device_dtype_check_for_fused`` refuse,
    and ``_fused_sgd`` and ``_fused_adagrad`` of gradients (torch 2.14).
    """
    if ways.get("differentiable") is True:
        return "it is differentiable"
    groups = _attributes(stepped).get("param_groups")
    with without_torch_function():
        for group in groups if type(groups) is list else ():
            given = group.get("params") if type(group) is dict else None
            for one in given if type(given) is list else ():
                if not isinstance(one, Tensor):
                    continue
                if not one.dtype.is_floating_point:
                    return "parameters are not real"
                gradient = one.grad
                if gradient is not None and gradient.layout is not strided:
                    return "gradients are sparse"
    return ""


def _attributes(of: object) -> dict[str, object]:
    """Return an object's own attributes, past whatever its class does where one is asked for."""
    try:
        found = object.__getattribute__(of, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def is_step_compiled() -> bool:
    """Tell whether ``torch.compile`` keeps a compiled step of an optimizer."""
    return any(
        is_compiled(code)
        for one in optimizer.Optimizer.__subclasses__()
        if (code := getattr(getattr(one, "step", None), "__code__", None)) is not None
    )


MARKS = StepMarks()
"""Of this process: what is replaced is replaced once, however many models are looked at."""
