"""A model run by a method other than ``forward``, such as Lightning's ``training_step``.

Such a method calls the model's parts, and ``nn.Module.__call__`` never sees the model itself. It is
found on the stack of a part's call, and then stands for the model's forward.

1. Locals are read only of functions that cannot ask for their own ``locals()``: before Python 3.13
   reading fills a dictionary that keeps every local alive; it is emptied again.
2. The method is replaced on the class that defines it while someone looks, and put back afterwards
   if it has not been replaced since.
3. Only a method that is called again is an entry: one that loops over batches is not, and neither
   is one whose model is called as well, such as ``generate``.
"""

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType

from torch import nn
from torch.compiler import is_dynamo_compiling

from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.torch_compat.threads import modules_called

Method = Callable[..., object]
Runs = Callable[[Method, nn.Module, tuple[object, ...], dict[str, object]], object]
"""Runs a method on the model with its arguments."""

MOST_FRAMES = 64
"""Between the call of a part and the method: a trainer's own frames lie further out."""
_ASKS_FOR_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir"})


class EntryMethod:
    """A method of one model that its program calls instead of the model.

    Args:
        model: whose method it is; it is not kept alive.
        owner: the class that defines the method.
        name: of the method.
    """

    def __init__(self, model: nn.Module, owner: type, name: str) -> None:
        self.model = weakref.ref(model)
        self.name = name
        self._owner = owner
        self._original: Method = vars(owner)[name]
        self._put: Method | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Identifies the method among other methods and models."""
        return id(self.model()), self.name

    def put(self, runs: Runs) -> None:
        """Route calls on this model through ``runs``; calls on others pass."""
        original, model = self._original, self.model

        @functools.wraps(original)
        def called(self: nn.Module, /, *args: object, **kwargs: object) -> object:
            if is_dynamo_compiling() or self is not model():
                return original(self, *args, **kwargs)
            return runs(original, self, args, kwargs)

        if vars(self._owner).get(self.name) is original:
            type.__setattr__(self._owner, self.name, called)
            self._put = called

    def take_off(self) -> None:
        """Restore the method; do nothing if someone else has replaced it since."""
        put, self._put = self._put, None
        if put is not None and vars(self._owner).get(self.name) is put:
            type.__setattr__(self._owner, self.name, self._original)


def holds(model: nn.Module, part: nn.Module) -> bool:
    """Tell whether ``part`` is registered somewhere in a model."""
    return any(one is part for one in each_module(model))


def entry_above(part: nn.Module, of: nn.Module | None = None) -> EntryMethod | None:
    """Return the method that calls ``part``, its caller where that is one of the model too, and on.

    Args:
        part: whose call begins.
        of: the model whose method it must be; None: of whichever has ``part``.
    """
    found: EntryMethod | None = None
    called = [part, *modules_called(sys._getframe(1))]
    for frame in _frames(sys._getframe(1)):
        model = _self_of(frame)
        if of is not None and model is not of:
            model = None
        # One that is in a call has been passed over: it is a loop around models.
        if model is None or any(one is model for one in called) or not holds(model, part):
            if found is not None:
                break  # Lightning's optimizer_step, further out, has the backward pass in it.
            continue
        owner = _owner(model, frame.f_code)
        if owner is not None:
            found = EntryMethod(model, owner, frame.f_code.co_name)
    return found


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _self_of(frame: FrameType) -> nn.Module | None:
    code = frame.f_code
    is_method = code.co_argcount > 0 and code.co_varnames[0] == "self"
    found = locals_of(frame).get("self") if is_method else None
    return found if isinstance(found, nn.Module) else None


def locals_of(frame: FrameType) -> dict[str, object]:
    """Return the local variables of a function; none of one that may ask for its ``locals()``."""
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_flags & inspect.CO_NEWLOCALS
    if not is_function or _ASKS_FOR_LOCALS.intersection(code.co_names):
        return {}
    seen = frame.f_locals
    found = dict(seen)
    if sys.version_info < (3, 13):
        seen.clear()  # Rule 1.
    return found


def _owner(model: nn.Module, code: CodeType) -> type | None:
    """Return the class whose plain method of that name runs this code; None where there is none."""
    name = code.co_name
    if name in vars(model) or not name.isidentifier():
        return None
    owner = next((kind for kind in type(model).__mro__ if name in vars(kind)), None)
    if owner is None or owner is nn.Module:
        return None
    method = vars(owner)[name]
    if not isinstance(method, FunctionType):
        return None
    return owner if getattr(inspect.unwrap(method), "__code__", None) is code else None
