"""Requests of a language model: why none were seen, and the cache by layer."""

from tui_profiler.messages import TokenCache, Unknown
from tui_profiler.queries.cost.totals import was_run, why_no_times
from tui_profiler.session import Session

NO_REQUEST = "no request of a language model was seen: no forward was passed token ids and a cache"


def why_no_generation(session: Session) -> str:
    """Return why no request was seen; empty where one was."""
    if session.generation is not None:
        return ""
    return NO_REQUEST if was_run(session) else why_no_times(session, NO_REQUEST)


def layer_bytes(cache: TokenCache) -> tuple[int, ...]:
    """Return the bytes of the cache in each layer, all rows together."""
    return tuple(memoryview(cache.layers).cast("q"))


def cache_bytes(cache: TokenCache) -> int:
    """Return the bytes of the cache, all layers and rows together."""
    return sum(layer_bytes(cache))


def accepted_share(checked: int, accepted: int) -> float | Unknown:
    """Return the share of candidates of an assistant that were accepted."""
    return accepted / checked if checked else Unknown("no assistant proposed candidates")
