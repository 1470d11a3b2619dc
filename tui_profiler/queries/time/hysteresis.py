"""Values that do not flicker: what is shown changes only when the new value has lasted."""

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Hysteresis(Generic[Value]):
    """Remembers what is shown under each key; time is always given, never asked for."""

    def __init__(self, hold_seconds: float) -> None:
        self._hold = hold_seconds
        self._shown: dict[int, tuple[Value, float | None, float]] = {}

    def show(self, key: int, wanted: Value, at: float) -> Value:
        """Return what to show now: the former value until another one was wanted long enough.

        Args:
            key: what the value belongs to.
            wanted: the value that would be right now.
            at: seconds on a clock that never goes back.
        """
        before = self._shown.get(key)
        # Not asked for a while: nobody has looked, so nothing jumps when it changes at once.
        if before is None or at - before[2] > self._hold or at < before[2]:
            self._shown[key] = (wanted, None, at)
            return wanted
        shown, since, _ = before
        if wanted == shown:
            since = None
        elif since is None:
            since = at
        elif at - since >= self._hold:
            shown, since = wanted, None
        self._shown[key] = (shown, since, at)
        return shown

    def clear(self) -> None:
        """Forget everything, so that the next values are shown at once."""
        self._shown.clear()
