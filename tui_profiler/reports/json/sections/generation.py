"""Requests of a language model, as JSON: tokens, phases and the cache."""

from typing import Annotated

from msgspec import field

from tui_profiler.messages import TokenCache, Unknown
from tui_profiler.queries.forward.generation import (
    accepted_share,
    cache_bytes,
    dead_experts,
    layer_bytes,
    why_no_experts,
    why_no_generation,
)
from tui_profiler.reports.json_values import EACH, Count, Known, Part, Share, Size, fill
from tui_profiler.session import Session


class Phase(Part, frozen=True):
    """A phase of the requests, all of them together."""

    forwards: Count
    tokens: Count
    """Of all rows: of the prompts in prefill, generated in decode."""
    seconds: Size
    """In forwards of the model."""


class Cache(Part, frozen=True):
    """What the model keeps of the tokens before: keys and values, or the state of a recurrence."""

    name: str = field(name="type")
    """Its class."""
    bytes: Count
    """At the last reading, all layers and rows together."""
    layers_bytes: Annotated[list[Count], EACH]
    """Of each layer."""
    rows: Count
    tokens: Known[Count]
    """In the cache of each row, at the last reading."""
    growth: Known[Size] = field(name="bytes_per_token")
    """Growth per token of each row, all layers and rows together; over one request."""
    peak: Count = field(name="peak_bytes")
    """The highest reading."""
    is_preallocated: bool = field(name="preallocated")
    """Whether it has room for all tokens from the beginning."""


class RoutedLayer(Part, frozen=True):
    """The experts of one layer of a mixture."""

    path: str
    """Of the router."""
    tokens: list[Count]
    """Tokens routed to each expert, in prefill and decode of one request, all rows."""
    dead: Count
    """Experts that were given none."""


class Generation(Part, frozen=True, kw_only=True):
    """Requests of a language model: each begins with a forward whose cache is empty.

    Percentiles and rates are of the last 256 requests and 4,096 gaps.
    """

    requests: Count
    """Finished, and recorded from the beginning."""
    cut: Count
    """Of which the beginning was not recorded; in no figure but the time between tokens."""
    under_way: Count
    rows: Known[Size]
    """Sequences per request, beams included: mean."""
    prompt_tokens: Known[Size]
    """Per row, padding included: mean."""
    new_tokens: Known[Size]
    """Per row: mean. Rows that have ended count until the request has."""
    is_at_least: bool = field(name="new_tokens_at_least")
    """Whether there may be more: candidates that the last forward of a request accepted."""
    first_p50: Known[Size] = field(name="first_token_p50_s")
    """From the first forward of a request to its first token."""
    first_p95: Known[Size] = field(name="first_token_p95_s")
    gap_p50: Known[Size] = field(name="between_tokens_p50_s")
    """Between two tokens of a row."""
    gap_p95: Known[Size] = field(name="between_tokens_p95_s")
    gaps: Count = field(name="between_tokens_count")
    per_second: Known[Size] = field(name="tokens_per_s")
    """Generated tokens of all rows, over the duration of their requests."""
    prefill_per_second: Known[Size] = field(name="prefill_tokens_per_s")
    """Tokens of prompts, until the first token."""
    decode_per_second: Known[Size] = field(name="decode_tokens_per_s")
    """Generated tokens of all rows after the first, over the time since that."""
    prefill: Phase
    decode: Phase
    between: Known[Share] = field(name="between_forwards_share")
    """Of the duration of requests: sampling, streaming, assistants."""
    checked: Count = field(name="candidates")
    """Of assistants, that were checked."""
    accepted_share: Known[Share]
    """Of the candidates."""
    cache: Known[Cache]
    experts: Known[Annotated[list[RoutedLayer], EACH]]
    """Tokens per expert, by layer."""


def generation_section(session: Session) -> Generation | Unknown:
    """Return the requests that were seen, or why there are none."""
    seen = session.generation
    if seen is None:
        return Unknown(why_no_generation(session))
    return fill(
        Generation,
        seen,
        accepted_share=accepted_share(seen.checked, seen.accepted),
        cache=Unknown(seen.why_no_cache) if seen.cache is None else _cache(seen.cache),
        experts=_experts(session),
    )


def _experts(session: Session) -> list[RoutedLayer] | Unknown:
    found = session.experts
    if found is None or not found.layers:
        return Unknown(why_no_experts(session))
    return [RoutedLayer(one.path, one.tokens, dead_experts(one)) for one in found.layers]


def _cache(cache: TokenCache) -> Cache:
    length = cache.length
    return fill(
        Cache,
        cache,
        bytes=cache_bytes(cache),
        layers_bytes=list(layer_bytes(cache)),
        tokens=length if isinstance(length, Unknown) else int(length),
    )
