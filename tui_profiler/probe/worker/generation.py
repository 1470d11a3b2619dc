"""Requests to a language model that our own loop makes: a prompt, and so many tokens.

1. A request is a call of the model's own ``generate``, greedy, on the inputs that its tree was made
   of; an end of the text before so many tokens is not allowed. So each is like the others.
2. The first one is not timed: it counts the tokens of each expert, by hooks on routers, which are
   taken off. Those of the others are the same.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch.utils.hooks import RemovableHandle

from tui_profiler.messages import ExpertTokens, Failed, LayerExperts, Message, Remedy
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.generation.requests import Requests
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.worker.failures import StageError
from tui_profiler.system.real_time import perf_counter

MOST_LAYERS = 1_000
MOST_EXPERTS = 4_096
_NOT_OF_A_PROMPT = ("decoder_", "labels", "use_cache")
"""Beginnings of the names of inputs that a request does not take."""
_INDEX_AXES = 2
"""Of what a router returns as the chosen experts: (tokens, chosen)."""


class OwnGeneration:
    """Requests to one model.

    Args:
        model: with its values.
        inputs: of its forward.
        tokens: that each request generates per row.
        is_on_device: whether the model runs on a device.
    """

    def __init__(
        self, model: torch.nn.Module, inputs: Inputs, tokens: int, *, is_on_device: bool
    ) -> None:
        self._model = model
        self._given = {
            name: value
            for name, value in inputs.kwargs.items()
            if isinstance(value, torch.Tensor) and not name.startswith(_NOT_OF_A_PROMPT)
        }
        self._settings: dict[str, object] = {
            "max_new_tokens": tokens,
            "min_new_tokens": tokens,
            "do_sample": False,
        }
        self._requests = Requests(is_on_device=is_on_device)
        self._experts: tuple[LayerExperts, ...] = ()
        self._are_told = False
        if why := _why_not(model, self._given):
            remedies = (Remedy("leave out --generate", "runs forwards"),)
            raise StageError(Failed("first run", f"cannot generate: {why}", remedies=remedies))

    def request(self) -> None:
        """Make a request."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model.generate(**self._given, **self._settings)  # type: ignore[operator]

    def first_request(self) -> None:
        """Make one that is not timed, and count the tokens of each expert."""
        with _counted(self._model) as counts:
            self.request()
        self._experts = tuple(
            LayerExperts(path, [int(one) for one in count.tolist()])
            for path, count in counts.items()
        )

    def add_up(self, forwards: Iterable[Forward]) -> None:
        """Add up the forwards that were recorded, none of a request that is under way."""
        self._requests.add([*forwards], (), perf_counter())
        self._requests.finish()

    def messages(self, at: float) -> Iterator[Message]:
        """Yield what is new, ``at`` seconds since the beginning."""
        if self._experts and not self._are_told:
            self._are_told = True
            yield ExpertTokens(at, self._experts)
        yield from self._requests.messages(at)


def _why_not(model: torch.nn.Module, given: Mapping[str, torch.Tensor]) -> str:
    can = getattr(model, "can_generate", None)
    if not callable(can) or not can() or not callable(getattr(model, "generate", None)):
        return "the model has no transformers generate()"
    return "" if given else "none of its inputs is a prompt"


@contextmanager
def _counted(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Count the tokens that routers give to each expert while the block runs."""
    counts: dict[str, torch.Tensor] = {}
    hooks: list[RemovableHandle] = []
    for path, module in model.named_modules():
        experts = _experts_of(module)
        if 0 < experts <= MOST_EXPERTS and len(hooks) < MOST_LAYERS:
            hooks.append(module.register_forward_hook(_counting(path, experts, counts)))
    try:
        yield counts
    finally:
        for hook in hooks:
            hook.remove()


def _experts_of(module: torch.nn.Module) -> int:
    """Return how many experts a module routes tokens to; 0 where it is no router."""
    if "router" not in type(module).__name__.lower():
        return 0
    found = getattr(module, "num_experts", None)
    if not isinstance(found, int):
        weight = getattr(module, "weight", None)
        found = int(weight.shape[0]) if isinstance(weight, torch.Tensor) else 0
    return found


def _counting(path: str, experts: int, counts: dict[str, torch.Tensor]):  # type: ignore[no-untyped-def]  # a hook
    def count(module: torch.nn.Module, args: object, output: object) -> None:
        parts = output if isinstance(output, tuple | list) else (output,)
        for part in parts:
            is_chosen = isinstance(part, torch.Tensor) and part.dtype in (torch.int64, torch.int32)
            if is_chosen and part.dim() >= _INDEX_AXES:
                found = torch.bincount(part.reshape(-1), minlength=experts).cpu()
                counts[path] = counts[path] + found if path in counts else found
                return

    return count
