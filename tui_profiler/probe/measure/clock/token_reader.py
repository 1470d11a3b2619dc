"""Reads what forwards of a language model are given and keep, and tells where a request goes on."""

from threading import get_ident

from torch import nn

from tui_profiler.probe.torch_compat.forward_tokens import (
    ForwardTokens,
    encoder_of,
    tokens_of,
    with_cache,
)
from tui_profiler.system.real_time import perf_counter

MOST_HELD_SECONDS = 5.0
"""Of forwards that are recorded beyond what was asked for, so that a request is recorded whole."""
MOST_THREADS = 1_000
"""On which an encoder ran and no forward after it."""
LONGEST_GAP_SECONDS = 1.0
"""Between two forwards of a request, where it is not known to be over."""


class TokenReader:
    """Reads tokens and caches of the forwards of one model.

    Args:
        is_on: whether it does.
    """

    def __init__(self, *, is_on: bool = False) -> None:
        self._is_on = is_on
        self.is_generating = False
        """Whether the last forward was one of a request, which may go on."""
        self._encoder = 0
        """``id`` of the part that runs before the first forward of a request; 0: none was met."""
        self._encoded: dict[int, tuple[float, float]] = {}
        """When it began and ended, by thread, for the next forward there."""
        self.spent = 0.0
        """Seconds that reading took so far."""

    def before(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> ForwardTokens | None:
        """Return the tokens that a forward is given; None where it is of no language model."""
        if not self._is_on or root.training:
            return None
        began = perf_counter()
        try:
            encoded = self._encoded.pop(get_ident(), None)
            found = tokens_of(args, kwargs)
            is_first = found is not None and found.is_encoded and found.begins
            if found is None or encoded is None or not is_first:
                return found
            is_recent = began - encoded[1] <= LONGEST_GAP_SECONDS  # Else it was another's.
            return found._replace(encoder=encoded) if is_recent else found
        except Exception:  # A program's own classes, in the midst of the program: what they raise
            return None  # stays here.
        finally:
            self.spent += perf_counter() - began

    def after(
        self, tokens: ForwardTokens | None, kwargs: dict[str, object], output: object
    ) -> ForwardTokens | None:
        """Return the same with the size of the cache after the forward, where it is read."""
        self.is_generating = tokens is not None and (tokens.is_given_cache or not tokens.begins)
        if tokens is None or not tokens.is_cache_read:
            return tokens
        began = perf_counter()
        try:
            return with_cache(tokens, kwargs, output)
        except Exception:  # Likewise.
            return tokens
        finally:
            self.spent += perf_counter() - began

    def meet(self, root: nn.Module | None, module: nn.Module) -> bool:
        """Tell whether a module that is called outside of forwards is the model's encoder."""
        if not self._is_on or root is None or encoder_of(root) is not module:
            return False
        self._encoder = id(module)
        return True

    def note(self, module: nn.Module, began: float, ended: float) -> bool:
        """Note a call outside of forwards; tell whether it is one of the model's encoder."""
        if id(module) != self._encoder or not self._encoder:
            return False
        if len(self._encoded) < MOST_THREADS:
            self._encoded[get_ident()] = began, ended
        return True

    def holds(self, seconds_left: float) -> bool:
        """Tell whether the next forward is recorded as well, though enough were: of this request.

        Args:
            seconds_left: that forwards may take; negative where they took more.
        """
        return self.is_generating and seconds_left > -MOST_HELD_SECONDS

    def is_over_with(self, tokens: ForwardTokens | None) -> bool:
        """Tell whether the request of the last forward is over, because another one begins."""
        if tokens is None or not self.is_generating:
            return False
        return tokens.begins or (tokens.before is None and tokens.tokens > 1)

    def goes_on(self, ended: float | None, *, is_busy: bool) -> bool:
        """Tell whether a request may be under way.

        Args:
            ended: second at which the last forward ended; None: not known.
            is_busy: whether a forward runs.
        """
        is_recent = ended is not None and perf_counter() - ended <= LONGEST_GAP_SECONDS
        return self.is_generating and (is_busy or is_recent)
