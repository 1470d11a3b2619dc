"""Those who look at one model, and what one who comes later must be told."""

from collections.abc import Callable, Iterable

from tui_profiler.messages import Heartbeat, Message, Observe, Request
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.process.yielding import free
from tui_profiler.system import real_time as time

FLUSH_SECONDS = 0.3
"""How long all of them together may take to hear the last words."""
HEARTBEAT_SECONDS = 1.0
MOST_WAITING = 64
"""Messages that a viewer may be behind by, ticks apart, when a new tree is made."""


SILENT_SECONDS = 30.0
"""How long one may be connected and ask for nothing. A viewer asks once its screen is there."""


class Viewers:
    """Connections, and which of them asked to be told."""

    def __init__(self, silent_seconds: float = SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._links: list[Link] = []
        self._told: list[Link] = []
        self._silent: dict[Link, float] = {}
        """Those that have asked for nothing, with ``time.monotonic()`` when they came, in order."""
        self._said: dict[type[Message], tuple[Message, ...]] = {}
        """By kind, in the order in which it was said first."""
        self._next_beat = 0.0
        self._dropped_by_gone = 0
        self.left_at = 0.0
        """``time.monotonic()`` when the last one left."""

    def __bool__(self) -> bool:
        """Tell whether anyone wants to be told."""
        return bool(self._told)

    @property
    def connections(self) -> int:
        """How many have called, whether they look or not."""
        return len(self._links)

    @property
    def dropped(self) -> int:
        """Messages that viewers were too slow for since the first one came, also those who left."""
        return self._dropped_by_gone + sum(link.dropped for link in self._told)

    def admit(self, link: Link, hello: Message) -> None:
        """Take a new connection; it is told who this is, and nothing else before it asks."""
        link.send(hello)
        self._links.append(link)
        self._silent[link] = time.monotonic()

    def requests(self, others: Callable[[Request], None]) -> None:
        """Hear what they ask: to be told is done here, the rest is for ``others``."""
        for link in self._links:
            while (request := link.next_request(0.0)) is not None:
                self._silent.pop(link, None)
                if not isinstance(request, Observe):
                    others(request)
                elif link not in self._told:
                    self._told.append(link)
                    for message in self.said():
                        link.send(message)
        while self.seconds_to_silence() == 0.0 and self.hang_up_on_silent():
            pass
        before = bool(self._told)
        self._dropped_by_gone += sum(link.dropped for link in self._told if link.is_closed)
        self._links = [link for link in self._links if not link.is_closed]
        self._told = [link for link in self._told if not link.is_closed]
        if before and not self._told:
            self.left_at = time.monotonic()
            self._dropped_by_gone = 0

    def seconds_to_silence(self) -> float | None:
        """Return the seconds until one has been silent for too long; None: there is none."""
        for link in [one for one in self._silent if one.is_closed]:
            del self._silent[link]
        first = next(iter(self._silent.values()), None)
        return None if first is None else max(first + self._silent_seconds - time.monotonic(), 0.0)

    def hang_up_on_silent(self) -> bool:
        """Close the connection that has been idle for longest; False: there is none."""
        link = next((one for one in self._silent if not one.has_requests), None)
        if link is None:
            return False
        del self._silent[link]
        self._links.remove(link)
        link.close()
        return True

    def said(self) -> list[Message]:
        """Return what a later one must be told."""
        return [message for known in self._said.values() for message in known]

    def last(self, kind: type[Message]) -> Message | None:
        """Return what was said last of a kind."""
        return self._said.get(kind, (None,))[-1]

    def say(self, *said: Message, under: type[Message] | None = None) -> None:
        """Tell everyone, and keep it for later ones in place of what it replaces."""
        self._said[under or type(said[0])] = said
        for message in said:
            self.tell(message)

    def tell(self, message: Message) -> None:
        """Tell everyone, and no later one."""
        for link in self._told:
            link.send(message)

    def beat(self, at: float) -> None:
        """Tell everyone once per second that the program's probe is alive, ``at`` its seconds."""
        if not 0.0 < self._next_beat - time.monotonic() <= HEARTBEAT_SECONDS:
            self._next_beat = time.monotonic() + HEARTBEAT_SECONDS
            self.tell(Heartbeat(at, 0.0))

    def forget(self, kinds: Iterable[type[Message]] | None = None) -> None:
        """Tell later ones no more of some kinds; None: of any. A tree is freed in parts."""
        for kind in tuple(self._said) if kinds is None else kinds:
            free(list(self._said.pop(kind, ())))

    def drop_who_is_behind(self) -> None:
        """Hang up on those that have not taken what was said long ago: it would pile up."""
        for link in self._told:
            if link.waiting > MOST_WAITING:
                link.close()

    def close(self) -> None:
        """Return them a moment to hear the last words, and hang up."""
        deadline = time.monotonic() + FLUSH_SECONDS
        for link in self._links:
            link.flush(max(deadline - time.monotonic(), 0.0))
            link.close()
        self._links, self._told, self._silent = [], [], {}

    def abandon(self) -> None:
        """Drop everyone without a word: in a forked child they are the parent's."""
        for link in self._links:
            link.abandon()
        self._links, self._told, self._silent = [], [], {}
