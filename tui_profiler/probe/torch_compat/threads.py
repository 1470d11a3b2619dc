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
| ``torch._C._current_graph_task_id`` | telling a pass inside of another, on any thread | what is \
run again by reentrant checkpointing has no backward |
| ``torch._C._is_torch_function_mode_enabled`` | reading attributes of tensors past a mode | each \
is read past one |
| ``torch.cuda._initialized`` | whether a CUDA graph may be captured | the same |
| ``torch.nn.Module._call_impl``, ``_wrapped_call_impl`` | which modules' calls a thread is in | \
``run`` stays with the first model that it met |
"""

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


has_function_mode: Callable[[], bool] = getattr(
    torch._C, "_is_torch_function_mode_enabled", lambda: True
)
"""Tells whether a mode of this thread, a default device for example, is told of every attribute of
tensors that is read."""


def is_graph_kept() -> bool:
    """Tell whether operators of this thread make nodes of a graph that outlives them.

    Those of ``torch.func`` (``vmap``, ``grad``) make nodes of its own.
    """
    return torch.is_grad_enabled() and _interpreters() is None


_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)


def is_in_backward() -> bool:
    """Tell whether autograd's engine runs on this thread."""
    return _graph_task() != -1


_interpreters: Callable[[], object] = getattr(
    getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None
)


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


def called_module(frame: FrameType) -> torch.nn.Module | None:
    """Return the module whose call a frame of torch's is; None for other frames."""
    # Only of these: reading the variables of a user's frame may keep them alive.
    if frame.f_code not in _CALLS:
        return None
    module = frame.f_locals.get("self")
    return module if isinstance(module, torch.nn.Module) else None


def modules_called(frame: FrameType | None) -> Iterator[torch.nn.Module]:
    """Yield the modules in whose calls a thread's innermost frame is, some of them twice."""
    while frame is not None:
        module = called_module(frame)
        if module is not None:
            yield module
        frame = frame.f_back


def is_compiled_module(module: torch.nn.Module) -> bool:
    """Tell whether calls of a module run what ``torch.compile`` made of it."""
    # OptimizedModule keeps the module that it compiled under this name.
    if "_orig_mod" in getattr(module, "_modules", {}):
        return True
    return getattr(module, "_compiled_call_impl", None) is not None
