"""Reads what forwards of a language model are given and keep, and tells where a request goes on."""

from threading import get_ident
from typing import NamedTuple

from torch import nn

from tui_profiler.probe.torch_compat.forward_tokens import (
    ForwardTokens,
    encoder_of,
    tokens_of,
    with_cache,
)
from tui_profiler.probe.torch_compat.module_caches import Marks, ModuleCaches, position_in
from tui_profiler.system.real_time import perf_counter

MOST_HELD_SECONDS = 5.0
"""Of forwards that are recorded beyond what was asked for, so that a request is recorded whole."""
MOST_THREADS = 1_000
"""On which an encoder ran and no forward after it."""
LONGEST_GAP_SECONDS = 1.0
"""Between two forwards of a request, where it is not known to be over."""


class GivenTokens(NamedTuple):
    """The tokens that a forward is given, as far as is known before it."""

    tokens: ForwardTokens
    uncached: ForwardTokens | None = None
    """These where its modules turn out to keep no cache; None: it was passed one."""
    kept: ForwardTokens | None = None
    """These where its modules turn out to keep one."""
    marks: Marks | None = None
    """State of the modules before it; None: no cache is looked for there."""


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
        self._caches = ModuleCaches()
        self.spent = 0.0
        """Seconds that reading took so far."""

    def before(
        self, root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> GivenTokens | None:
        """Return the tokens that a forward is given; None where it is of no language model."""
        if not self._is_on or root.training:
            return None
        began = perf_counter()
        try:
            encoded = self._encoded.pop(get_ident(), None)
            found = tokens_of(args, kwargs)
            if found is None:
                return None
            if not found.is_given_cache and not found.is_encoded:
                return self._in_modules(root, args, kwargs, found)
            if encoded is None or not found.is_encoded or not found.begins:
                return GivenTokens(found)
            is_recent = began - encoded[1] <= LONGEST_GAP_SECONDS  # Else it was another's.
            return GivenTokens(found._replace(encoder=encoded) if is_recent else found)
        except Exception:  # A program's own classes, in the midst of the program: what they raise
            return None  # stays here.
        finally:
            self.spent += perf_counter() - began

    def _in_modules(
        self,
        root: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        found: ForwardTokens,
    ) -> GivenTokens:
        """Return the tokens of a forward that is passed no cache: its modules may keep one."""
        marks = self._caches.before(root, found)
        if marks is None:
            return GivenTokens(found)
        kept = found._replace(
            before=position_in(root, args, kwargs),
            is_given_cache=True,
            cache_id=self._caches.id,
            is_kept=True,
        )
        # While caches are searched it is not known whether there are any.
        return GivenTokens(found if marks.is_search else kept, found, kept, marks)

    def after(
        self, given: GivenTokens | None, kwargs: dict[str, object], output: object
    ) -> ForwardTokens | None:
        """Return the tokens with the size of the cache after the forward, where it is read."""
        began = perf_counter()
        tokens = None if given is None else given.tokens
        try:
            if given is not None and given.marks is not None:
                tokens = self._kept(given)
            elif tokens is not None and tokens.is_cache_read:
                tokens = with_cache(tokens, kwargs, output)
        except Exception:  # A program's own classes.
            pass
        finally:
            self.spent += perf_counter() - began
        self.is_generating = tokens is not None and (tokens.is_given_cache or not tokens.begins)
        return tokens

    def _kept(self, given: GivenTokens) -> ForwardTokens | None:
        """Return the tokens of a forward of which it is known now whether modules keep a cache."""
        kept = given.kept
        assert given.marks is not None
        if kept is None or not self._caches.are_written(given.marks, kept.tokens):
            return given.uncached
        kept = kept._replace(cache_id=self._caches.id)
        return kept._replace(cache=self._caches.size()) if kept.is_cache_read else kept

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

    def is_over_with(self, given: GivenTokens | None) -> bool:
        """Tell whether the request of the last forward is over, because another one begins."""
        if given is None or not self.is_generating:
            return False
        tokens = given.tokens
        return tokens.begins or (tokens.before is None and tokens.tokens > 1)

    def goes_on(self, ended: float | None, *, is_busy: bool) -> bool:
        """Tell whether a request may be under way.

        Args:
            ended: second at which the last forward ended; None: not known.
            is_busy: whether a forward runs.
        """
        is_recent = ended is not None and perf_counter() - ended <= LONGEST_GAP_SECONDS
        return self.is_generating and (is_busy or is_recent)
