"""Generation: what a language model takes to answer, token by token, and what it keeps."""

from tui_profiler.messages.base import Figure, Moment, OnWire, Part


class GenerationPhase(Part, frozen=True):
    """One phase of the requests, all of them together."""

    forwards: int
    tokens: int
    """Of all rows: those of the prompt in prefill, those generated in decode."""
    seconds: float
    """In forwards of the model."""


class TokenCache(Part, frozen=True):
    """What the model keeps of the tokens before (KV cache, state of a recurrence)."""

    name: str
    """Its class."""
    layers: bytes
    """int64: bytes of each layer, all rows together, at the last reading."""
    length: Figure
    """Tokens of each row that it held then."""
    rows: int
    growth: Figure
    """Bytes per token of each row, all layers and rows together; over one request."""
    peak: int
    """Bytes of all layers, the most that was seen."""
    is_preallocated: bool
    """Whether it has room for all tokens from the beginning."""


class Generation(OnWire, frozen=True):
    """Requests of a language model: each begins with a forward whose cache is empty.

    Percentiles and rates are of the last requests, the counts of all so far.
    """

    at: Moment
    requests: int
    """Finished, and recorded from the beginning."""
    cut: int
    """Of which the beginning was not recorded: they have no time to the first token."""
    under_way: int
    """Requests that have not ended, as far as is known."""
    rows: Figure
    """Sequences per request, beams included: mean."""
    prompt_tokens: Figure
    """Per row, padding included: mean."""
    new_tokens: Figure
    """Per row: mean. Rows that have ended count until the request has."""
    is_at_least: bool
    """Whether more tokens may have been generated: those of an assistant that the last forward of
    a request accepted are not seen."""
    first_p50: Figure
    """Seconds from the first forward of a request to its first token."""
    first_p95: Figure
    gap_p50: Figure
    """Seconds between two tokens of a row."""
    gap_p95: Figure
    gaps: int
    """That the percentiles are of."""
    per_second: Figure
    """Generated tokens of all rows, over the duration of their requests."""
    prefill_per_second: Figure
    """Tokens of prompts, over the seconds of prefill."""
    decode_per_second: Figure
    """Tokens of decode, over the time between the first token and the last."""
    prefill: GenerationPhase
    """Of all requests so far."""
    decode: GenerationPhase
    between: Figure
    """Share of the duration of requests that passes between forwards: sampling, streaming."""
    cache: TokenCache | None
    why_no_cache: str
    """Empty where there is one."""
    checked: int = 0
    """Candidates of assistants that were checked, beyond one token per forward."""
    accepted: int = 0
    """Of these, where it is known how many were accepted."""
    is_on_device: bool = False
    """Whether the first token is there when the next forward begins, not when its own returns: a
    GPU may not have finished by then."""


class LayerExperts(Part, frozen=True):
    """The experts of one layer of a mixture."""

    path: str
    """Of the router."""
    tokens: list[int]
    """That the router gave to each expert."""


class ExpertTokens(OnWire, frozen=True):
    """Tokens per expert in one request, prefill and decode, all rows."""

    at: Moment
    layers: tuple[LayerExperts, ...]
