"""Invented requests of a language model, with figures that a test knows."""

from __future__ import annotations

from array import array

from tui_profiler.messages import Generation, GenerationPhase, TokenCache, Unknown

CACHE = TokenCache(
    name="DynamicCache",
    layers=array("q", (1_048_576, 1_048_576, 2_097_152)).tobytes(),
    length=512.0,
    rows=4,
    growth=8_192.0,
    peak=8_388_608,
    is_preallocated=False,
)
GENERATION = Generation(
    at=1.0,
    requests=12,
    cut=1,
    under_way=2,
    rows=4.0,
    prompt_tokens=128.0,
    new_tokens=64.0,
    is_at_least=False,
    first_p50=0.25,
    first_p95=0.5,
    gap_p50=0.02,
    gap_p95=0.04,
    gaps=756,
    per_second=170.0,
    prefill_per_second=2_048.0,
    decode_per_second=200.0,
    prefill=GenerationPhase(12, 6_144, 3.0),
    decode=GenerationPhase(756, 3_024, 12.0),
    between=0.125,
    cache=CACHE,
    why_no_cache="",
)
NO_REQUEST = Unknown("no request was recorded from its beginning")
