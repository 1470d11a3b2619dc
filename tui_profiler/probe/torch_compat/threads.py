"""Private names of torch that say what is under way on this thread.

Tried on torch 2.15. A forward of a program that is not ours is recorded only where nothing else
looks at, or stands in for, its operators.

| name | what for | when it is gone |
|---|---|---|
| ``torch._C._len_torch_dispatch_stack`` | another dispatch mode (fake tensors, a FLOP counter) | \
no forward is recorded, and the reason says so |
| ``torch._C._get_tracing_state`` | ``torch.jit.trace`` | the same |
| ``torch._C._functorch.peek_interpreter_stack`` | ``vmap``, ``grad`` and the like | the same |
| ``torch._C._push_on_torch_dispatch_stack``, ``_pop_torch_dispatch_stack`` | a mode of one \
thread, without torch's flags for all threads | no forward is recorded, and the reason says so |
| ``torch._C._get_dispatch_stack_at`` | whether the mode is ours that would be taken off | \
a forward that never ends is recorded all along |
| ``torch.fx._symbolic_trace._is_fx_tracing_tls`` | ``torch.fx`` is tracing | its traces are not \
told from forwards |
| ``torch.autograd.profiler._is_profiler_enabled`` | the program profiles itself | its profiles \
hold one slow forward |
| ``torch._C.DisableTorchFunction`` | reading a shape without the code of a subclass or a mode | \
that code is run |
| ``torch.cuda._initialized`` | whether a CUDA graph may be captured | the same |
| ``torch.nn.Module._call_impl``, ``_wrapped_call_impl`` | which modules' calls a thread is in | \
``run`` stays with the first model that it met |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

import torch
from torch.autograd import profiler
from torch.fx import _symbolic_trace
from torch.utils._python_dispatch import TorchDispatchMode

_WITHOUT_TORCH_FUNCTION: Callable[[], AbstractContextManager[object]] = getattr(
    torch._C, "DisableTorchFunction", nullcontext
)


def push_mode(mode: TorchDispatchMode) -> None:
    """Have this thread's operators go through a dispatch mode.

    Raises:
        AttributeError: this version of torch does it otherwise.
    """
    torch._C._push_on_torch_dispatch_stack(mode)


def without_torch_function() -> AbstractContextManager[object]:
    """Read attributes of tensors without what a subclass or a mode does about it."""
    return _WITHOUT_TORCH_FUNCTION()


def pop_mode() -> None:
    """Take this thread's innermost mode off."""
    torch._C._pop_torch_dispatch_stack(None)


def innermost_mode() -> object:
    """Return dispatch mode that this thread's operators meet first; None where there is none."""
    depth = torch._C._len_torch_dispatch_stack()
    at = getattr(torch._C, "_get_dispatch_stack_at", None)
    return at(depth - 1) if at is not None and depth else None


def why_not_record() -> str:
    """Return why operators that run now on this thread are let alone; empty where they may be."""
    try:
        if torch.compiler.is_dynamo_compiling():
            return "torch.compile is compiling it"
        if torch._C._len_torch_dispatch_stack() > 0:
            return "it runs under another dispatch mode"
        if torch._C._get_tracing_state() is not None:
            return "torch.jit.trace is tracing it"
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return "it runs under a transform of torch.func"
        if _is_traced_by_fx():
            return "torch.fx is tracing it"
        if getattr(profiler, "_is_profiler_enabled", False):
            return "the program runs torch.profiler"
        # Before CUDA is set up there is no stream to ask; without CUDA the answer is no.
        if torch.cuda._initialized and torch.cuda.is_current_stream_capturing():
            return "it is being captured as a CUDA graph"
    except AttributeError as error:
        return f"this version of torch does not say what is under way: {error}"
    return ""


def _is_traced_by_fx() -> bool:
    return bool(getattr(getattr(_symbolic_trace, "_is_fx_tracing_tls", None), "flag", False))


_CALLS = frozenset(
    getattr(getattr(torch.nn.Module, name, None), "__code__", None)
    for name in ("_call_impl", "_wrapped_call_impl")
)


def modules_called(frame: FrameType | None) -> Iterator[torch.nn.Module]:
    """Yield the modules whose calls a thread is in, innermost first, some of them twice.

    Args:
        frame: innermost of the thread.
    """
    while frame is not None:
        # Only of these: reading the variables of a user's frame may keep them alive.
        if frame.f_code in _CALLS:
            module = frame.f_locals.get("self")
            if isinstance(module, torch.nn.Module):
                yield module
        frame = frame.f_back


def is_compiled_module(module: torch.nn.Module) -> bool:
    """Tell whether calls of a module run what ``torch.compile`` made of it."""
    # OptimizedModule keeps the module that it compiled under this name.
    if "_orig_mod" in getattr(module, "_modules", {}):
        return True
    return getattr(module, "_compiled_call_impl", None) is not None
