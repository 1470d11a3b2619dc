"""Requests of a language model, put together from the forwards that the clock recorded.

1. A request is a sequence of forwards on one thread: the first finds its cache empty, each later
   one finds in it what the one before left. Several tokens after one begin a new request, on what
   the cache holds: the next turn of a conversation. One token that fits nowhere begins a request
   whose beginning was not seen: it is in no time to the first token, and in no mean of phases.
2. Prefill is every forward until the first of one token per row, decode every one after. A forward
   of several tokens of which several logits are kept checks the candidates of an assistant: decode.
3. A forward of decode generates a token per row, or as many as the cache has kept of it when the
   next one begins: what of the candidates was accepted.
4. Times are of the thread that runs the model. A gap is the time from the end of one forward to
   that of the next, over the tokens that the latter generated; none is told across forwards that
   were not recorded, or that something of ours slowed down.
5. Bounded: ``MOST_OPEN`` requests under way, the last ``LAST_REQUESTS`` and ``LAST_GAPS`` gaps.
"""

import math
from array import array
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

from tui_profiler.messages import Figure, Generation, GenerationPhase, TokenCache, Unknown
from tui_profiler.probe.measure.clock.aggregate import quantiles
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.torch_compat.forward_tokens import CacheSize, ForwardTokens

LAST_REQUESTS = 256
LAST_GAPS = 4_096
MOST_OPEN = 64
QUIET_SECONDS = 2.0
"""Without a forward, after which a request is over."""
MOST_ACCEPTED = 64
"""Tokens of one forward, each of which is a gap."""

NO_REQUEST = Unknown("no request was recorded from its beginning")
ENCODED = Unknown("the encoder ran before the first forward, and was not timed")
NO_GAP = Unknown("no two tokens of a request were recorded")
_NO_CACHE = "no cache is passed to its forwards or returned"
_OTHER_CACHE = "sizes of this kind of cache are not known"


class _Request:
    """Forwards of one request so far."""

    def __init__(self, first: Forward, tokens: ForwardTokens) -> None:
        self.thread = first.thread
        self.began = first.began if tokens.encoder is None else tokens.encoder[0]
        self.is_encoder_missed = tokens.is_encoded and tokens.encoder is None
        self.ended = first.ended
        self.is_whole = tokens.begins or _adds_prompt(tokens)
        self.is_slowed = False
        """Whether something of ours slowed one of its forwards down."""
        self.rows = tokens.rows
        self.last = tokens
        self.prompt = 0
        """Tokens per row."""
        self.generated = 0
        """Tokens per row that are known of."""
        self.first_token: float | None = None
        """Second at which it was there."""
        self.is_decoding = not self.is_whole
        self.prefill = _Phase()
        if tokens.encoder is not None:
            began, ended = tokens.encoder
            self.prefill.seconds += ended - began
        self.decode = _Phase()
        self.waits = False
        """Whether it is not known yet how many tokens the last forward generated."""
        self.gap: float | None = None
        """Of the last forward, to be divided by them."""
        self.first_cache: CacheSize | None = None

    @property
    def held(self) -> int | None:
        """Tokens of each row that the cache holds after the last forward; None: not known."""
        if self.last.before is None:
            return None
        return self.last.before + self.last.tokens

    @property
    def without_cache(self) -> bool:
        """Whether all tokens are given again each time."""
        return not self.last.is_given_cache and self.first_cache is None

    @property
    def seconds(self) -> float:
        """From its beginning to the end of its last forward."""
        return self.ended - self.began

    @property
    def first_seconds(self) -> float:
        """To the first token; not a number where that is not known."""
        if self.first_token is None or self.is_encoder_missed:
            return math.nan
        return self.first_token - self.began

    @property
    def decode_seconds(self) -> float:
        """From the first token to the last."""
        return max(self.ended - (self.first_token or self.ended), 0.0)


class _Phase:
    """Forwards of one phase."""

    def __init__(self) -> None:
        self.forwards = self.tokens = 0
        self.seconds = 0.0

    def add(self, other: "_Phase") -> None:
        """Add those of another."""
        self.forwards += other.forwards
        self.tokens += other.tokens
        self.seconds += other.seconds

    def told(self) -> GenerationPhase:
        """Return it as it is told."""
        return GenerationPhase(self.forwards, self.tokens, self.seconds)


class Requests:
    """The requests of one model.

    Args:
        is_on_device: whether it runs on a device, which may go on after a forward has returned.
    """

    def __init__(self, *, is_on_device: bool = False) -> None:
        self._is_on_device = is_on_device
        self._open: list[_Request] = []
        self._ended: deque[_Request] = deque(maxlen=LAST_REQUESTS)
        self._gaps: deque[float] = deque(maxlen=LAST_GAPS)
        self._prefill, self._decode = _Phase(), _Phase()
        self._count = self._cut = 0
        self._checked = self._accepted = 0
        self._cache: TokenCache | None = None
        self._growth: Figure = Unknown("no request of two lengths was recorded")
        self._peak = 0
        self._why_no_cache = _NO_CACHE
        self._is_new = False

    @property
    def are_seen(self) -> bool:
        """Whether the model generates: a request has ended or goes on."""
        return bool(self._count or self._cut or any(map(_is_request, self._open)))

    def add(self, forwards: Sequence[Forward], slowed: Collection[int], now: float) -> None:
        """Take forwards in the order in which they ended.

        Args:
            forwards: that the clock recorded.
            slowed: ``id`` of those that something of ours made slower.
            now: second of ``time.perf_counter``.
        """
        for one in forwards:
            if one.tokens is not None:
                self._add(one, one.tokens, is_slowed=id(one) in slowed or bool(one.used))
        for request in [one for one in self._open if now - one.ended > QUIET_SECONDS]:
            self._end(request)

    def finish(self) -> None:
        """End all requests: no forward follows."""
        for request in [*self._open]:
            self._end(request)

    def messages(self, at: float) -> Iterator[Generation]:
        """Yield what the requests add up to, where that is new.

        Args:
            at: seconds since the command was started.
        """
        if self._is_new and self.are_seen:
            self._is_new = False
            yield self._message(at)

    def _add(self, forward: Forward, tokens: ForwardTokens, *, is_slowed: bool) -> None:
        request = self._request_of(forward, tokens)
        is_first = request is None
        if request is None:
            self._begin(forward)
            request = _Request(forward, tokens)
            self._open.append(request)
        self._is_new = True
        ended = forward.ended
        gap = None if is_first or is_slowed else ended - request.ended
        request.is_slowed |= is_slowed
        if not is_first:
            self._settle(request, forward, tokens)
        is_decode = request.is_decoding or (
            not is_first and (request.without_cache or tokens.tokens == 1 or tokens.checked > 1)
        )
        if is_decode:
            if not request.is_decoding:
                self._first_token(request, forward)
            self._decode_one(request, forward, tokens, gap)
        else:
            request.prefill.forwards += 1
            request.prefill.seconds += forward.seconds
            request.prompt += tokens.tokens - max(tokens.checked - 1, 0)
            request.prefill.tokens = request.prompt * tokens.rows
            request.generated = 1
            request.waits = tokens.checked > 1
        if is_decode or not self._is_on_device:
            request.first_token = request.first_token or ended
        if not is_decode:
            request.first_token = None if self._is_on_device else ended
        request.ended = max(request.ended, ended)
        request.last = tokens
        self._note_cache(request, tokens)

    def _first_token(self, request: _Request, forward: Forward) -> None:
        request.is_decoding = True
        if self._is_on_device:
            request.first_token = forward.began

    def _decode_one(
        self, request: _Request, forward: Forward, tokens: ForwardTokens, gap: float | None
    ) -> None:
        request.decode.forwards += 1
        request.decode.seconds += forward.seconds
        if tokens.tokens > 1 and not request.without_cache:
            request.waits, request.gap = True, gap
            request.generated += 1
            request.decode.tokens += tokens.rows
        else:
            request.generated += 1
            request.decode.tokens += tokens.rows
            if gap is not None:
                self._gaps.append(gap)

    def _settle(self, request: _Request, forward: Forward, tokens: ForwardTokens) -> None:
        """Count the tokens of the last forward, of which it was not known how many it accepted."""
        if not request.waits:
            return
        request.waits = False
        before, last = tokens.before, request.last
        if before is None or last.before is None:
            return
        kept = before - last.before
        if not request.is_decoding:
            kept -= request.prompt - 1  # It has the prompt, too.
        accepted = min(max(kept - 1, 0), MOST_ACCEPTED)
        request.generated += accepted
        request.decode.tokens += accepted * request.rows
        self._checked += max(last.checked - 1, 0)
        self._accepted += accepted
        if request.gap is not None and request.is_decoding:
            self._gaps.extend([request.gap / (accepted + 1)] * (accepted + 1))
        request.gap = None

    def _request_of(self, forward: Forward, tokens: ForwardTokens) -> _Request | None:
        """Return the request that a forward goes on with; None where it begins one."""
        here = [
            one
            for one in reversed(self._open)
            if one.thread == forward.thread and one.rows == tokens.rows
        ]
        return next((one for one in here if _goes_on(one, tokens)), None)

    def _begin(self, forward: Forward) -> None:
        """End the requests on this thread that are over, and the oldest where there are many.

        A program may answer several in turn: one is over where a later one has decoded meanwhile.
        """
        here = [one for one in self._open if one.thread == forward.thread]
        newest = max(here, key=attrgetter("began"), default=None)
        for one in here:
            is_passed = newest is not None and newest.decode.forwards and one.ended < newest.began
            is_only_one = one.last.is_kept or not one.last.is_given_cache
            if is_passed or is_only_one:
                self._end(one)
        while len(self._open) >= MOST_OPEN:
            self._end(self._open[0])

    def _end(self, request: _Request) -> None:
        self._open.remove(request)
        if not _is_request(request):
            return
        self._is_new = True
        if not request.is_whole:
            self._cut += 1
            return
        self._count += 1
        self._prefill.add(request.prefill)
        self._decode.add(request.decode)
        self._ended.append(request)

    def _note_cache(self, request: _Request, tokens: ForwardTokens) -> None:
        size = tokens.cache
        if not tokens.is_cache_read:
            return
        if size is None:
            self._why_no_cache = _OTHER_CACHE if tokens.is_given_cache else _NO_CACHE
            self._cache = None
            return
        request.first_cache = request.first_cache or size
        layers = array("q", size.layers)
        self._peak = max(self._peak, sum(layers))
        growth = _growth(request.first_cache, size)
        if isinstance(growth, float) or not isinstance(self._growth, float):
            self._growth = growth
        length: Figure = Unknown("this cache does not say how many tokens it holds")
        if size.length is not None:
            length = float(size.length)
        self._cache = TokenCache(
            size.name,
            size.layers,
            length,
            tokens.rows,
            self._growth,
            self._peak,
            size.is_preallocated,
        )

    def _message(self, at: float) -> Generation:
        ended = [*self._ended]
        timed = [one for one in ended if not one.is_slowed]
        begun = [one for one in timed if not math.isnan(one.first_seconds)]
        first = sorted(one.first_seconds for one in begun)
        why = ENCODED if timed and all(one.is_encoder_missed for one in timed) else NO_REQUEST
        first_p50, first_p95 = _quantiles(first, why)
        gap_p50, gap_p95 = _quantiles(sorted(self._gaps), NO_GAP)
        seconds = sum(one.seconds for one in timed)
        inside = sum(one.prefill.seconds + one.decode.seconds for one in timed)
        return Generation(
            at=at,
            requests=self._count,
            cut=self._cut,
            under_way=sum(map(_is_request, self._open)),
            rows=_mean([one.rows for one in ended]),
            prompt_tokens=_mean([one.prompt for one in ended]),
            new_tokens=_mean([one.generated for one in ended]),
            is_at_least=any(one.waits for one in ended),
            first_p50=first_p50,
            first_p95=first_p95,
            gap_p50=gap_p50,
            gap_p95=gap_p95,
            gaps=len(self._gaps),
            per_second=_rate(sum(one.generated * one.rows for one in timed), seconds, NO_REQUEST),
            prefill_per_second=_rate(
                sum(one.prefill.tokens for one in begun),
                sum(first),
                why,
            ),
            decode_per_second=_rate(
                sum(one.decode.tokens for one in timed),
                sum(one.decode_seconds for one in timed),
                NO_GAP,
            ),
            prefill=self._prefill.told(),
            decode=self._decode.told(),
            between=1.0 - inside / seconds if seconds else NO_REQUEST,
            cache=self._cache,
            why_no_cache="" if self._cache is not None else self._why_no_cache,
            checked=self._checked,
            accepted=self._accepted,
            is_on_device=self._is_on_device,
        )


def _goes_on(request: _Request, tokens: ForwardTokens) -> bool:
    """Tell whether a forward finds what the last one of a request left."""
    last = request.last
    if request.without_cache:
        return not tokens.is_given_cache and tokens.tokens == last.tokens + 1
    if tokens.before == 0 or not (tokens.is_given_cache or last.is_given_cache):
        return False
    if request.is_decoding and _adds_prompt(tokens):
        return False  # The next turn of a conversation.
    if tokens.is_kept and tokens.before is None and tokens.tokens > 1:
        return False  # Another prompt: modules do not say what they hold.
    if tokens.before is not None and request.held is not None:
        # What was not accepted was cropped. The cache of the first forward may have been its own.
        least = request.held - max(last.checked - 1, 0)
        return least <= tokens.before <= request.held
    return last.cache_id in (0, tokens.cache_id)  # It does not say what it holds.


def _adds_prompt(tokens: ForwardTokens) -> bool:
    """Tell whether a forward is given several tokens, and not to check them."""
    return tokens.tokens > 1 and tokens.checked <= 1


def _is_request(request: _Request) -> bool:
    """Tell a request from a forward that merely returns a cache, as in an evaluation."""
    last = request.last
    return (last.is_given_cache and not last.is_kept) or bool(request.decode.forwards)


def _growth(first: CacheSize, last: CacheSize) -> Figure:
    if last.is_preallocated:
        return Unknown("it is allocated whole from the beginning")
    if first.length is None or last.length is None:
        return Unknown("this cache does not say how many tokens it holds")
    if first.length == last.length:
        return Unknown("no request of two lengths was recorded")
    grown = sum(array("q", last.layers)) - sum(array("q", first.layers))
    return grown / (last.length - first.length)


def _quantiles(values: Sequence[float], why: Unknown) -> tuple[Figure, Figure]:
    if not values:
        return why, why
    p50, p95 = quantiles(values, (0.5, 0.95))
    return p50, p95


def _mean(values: Sequence[int]) -> Figure:
    return sum(values) / len(values) if values else NO_REQUEST


def _rate(tokens: int, seconds: float, why: Unknown) -> Figure:
    return tokens / seconds if tokens and seconds > 0 else why
