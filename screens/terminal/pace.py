"""How fast the terminal takes what it is sent: when the next frame may go, and how long it may be.

1. A terminal that answers has at most one frame on its way to it: a frame ends in a question, and
   the next one waits for the answer. The first frames ask without waiting. One that does not
   answer is sent the next frame as soon as the writer has taken the last.
2. On a slow link frames are sent in parts of a quarter of a second, so that what a key changed
   waits for no more than the part before it. What a link takes for nothing at all (its latency)
   is not slowness: it is the shortest wait there was.
"""

import time
from collections.abc import Callable

SLOW_SECONDS = 0.1
"""A frame that took longer than this, latency apart, shows a slow link."""
PART_SECONDS = 0.25
LEAST_BYTES = 512
LOST_SECONDS = 5.0
"""An answer that took so long does not come any more."""
TRIES = 3
"""So many questions without an answer show a terminal that gives none."""


class Pace:
    """What is known of the link to the terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.answers = False
        """Whether the terminal answers questions."""
        self.most_bytes: int | None = None
        """How long the next frame may be; None where the link is fast."""
        self._clock = clock
        self._sent: tuple[float, int] | None = None
        """When the last frame went and how long it was, until it has arrived."""
        self._unanswered = 0
        self._was_late = False
        self._latency = float("inf")

    @property
    def asks(self) -> bool:
        """Whether the next frame ends in a question."""
        return self.answers or self._unanswered < TRIES

    def sent(self, size: int, *, asks: bool) -> None:
        """Note that a frame of ``size`` bytes has been given to the writer."""
        self._sent = (self._clock(), size)
        self._was_late = False
        self._unanswered += asks

    def answered(self) -> None:
        """Note an answer of the terminal."""
        self.answers = True
        self._unanswered = max(self._unanswered - 1, 0)
        if self._sent is not None and not self._unanswered:
            self._arrived(*self._sent)

    def forget(self) -> None:
        """Wait for no answer: the terminal was given away meanwhile."""
        self._sent, self._unanswered = None, 0

    def may_send(self, *, is_written: bool) -> bool:
        """Tell whether the next frame may go.

        Args:
            is_written: whether the writer has taken all that it was given.
        """
        if self._sent is None:
            return True
        if self.answers:
            if self._clock() - self._sent[0] < LOST_SECONDS:
                return False
            self.answers, self._unanswered = False, 0
        if not is_written:
            self._was_late = True
            return False
        sent_at, size = self._sent
        # Nobody told when the writer took it; only that it had not when it was asked before.
        self._arrived(sent_at if self._was_late else self._clock(), size)
        return True

    def _arrived(self, sent_at: float, size: int) -> None:
        self._sent = None
        waited = self._clock() - sent_at
        self._latency = min(self._latency, waited)
        busy = waited - self._latency
        if busy > SLOW_SECONDS:
            self.most_bytes = max(int(size / busy * PART_SECONDS), LEAST_BYTES)
        elif self.most_bytes is not None and size >= self.most_bytes:
            self.most_bytes = None  # As much as might have been slow was not.
