"""Requests of a language model: why none were seen, and the cache by layer."""

from tui_profiler.messages import Generation, LayerExperts, TokenCache, Unknown, known
from tui_profiler.queries.cost.totals import was_run, why_no_times
from tui_profiler.queries.time.modes import is_program
from tui_profiler.session import Session

NO_REQUEST = (
    "no request of a language model was seen: no forward was passed token ids and a cache, or kept"
    " one in its modules"
)

NOT_COUNTED = "experts are not counted in a running program: use report --generate"
NO_ROUTER = "no router returned the indices of its chosen experts"


def why_no_generation(session: Session) -> str:
    """Return why no request was seen; empty where one was."""
    if session.generation is not None:
        return ""
    return NO_REQUEST if was_run(session) else why_no_times(session, NO_REQUEST)


def why_no_experts(session: Session) -> str:
    """Return why tokens per expert are not known."""
    return NOT_COUNTED if is_program(session) else NO_ROUTER


def dead_experts(layer: LayerExperts) -> int:
    """Return how many experts of a layer were given no token."""
    return layer.tokens.count(0)


def layer_bytes(cache: TokenCache) -> tuple[int, ...]:
    """Return the bytes of the cache in each layer, all rows together."""
    return tuple(memoryview(cache.layers).cast("q"))


def cache_bytes(cache: TokenCache) -> int:
    """Return the bytes of the cache, all layers and rows together."""
    return sum(layer_bytes(cache))


def accepted_share(checked: int, accepted: int) -> float | Unknown:
    """Return the share of candidates of an assistant that were accepted."""
    return accepted / checked if checked else Unknown("no assistant proposed candidates")


def phase_shares(seen: Generation) -> tuple[tuple[str, float], ...]:
    """Return the shares of a request in prefill, in decode, and between forwards; none without."""
    inside = seen.prefill.seconds + seen.decode.seconds
    between = known(seen.between)
    if between is None or inside <= 0:
        return ()
    share = (1.0 - between) / inside
    return (
        ("prefill", seen.prefill.seconds * share),
        ("decode", seen.decode.seconds * share),
        ("between", between),
    )


def cache_name(cache: TokenCache | None) -> str:
    """Return what a cache is called: one that grows by tokens, or has room for them, or a state."""
    is_kept = cache is None or known(cache.length) is not None or cache.is_preallocated
    return "KV cache" if is_kept else "state"
