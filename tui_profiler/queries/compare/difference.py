"""Effect of another batch size, input, device or dtype on one model, in a sentence."""

from msgspec.structs import replace

from tui_profiler.figures.units import count, duration
from tui_profiler.queries.cost.bound import known_macs
from tui_profiler.queries.panel.phrases import device_text, input_text
from tui_profiler.session import Session
from tui_profiler.session.state import History, Log

SETTLED_FORWARDS = 10
"""With fewer, the median is of the first forwards only."""


def kept(session: Session) -> Session:
    """Return the parts of a session that a later comparison needs."""
    return replace(session, history=History(), log=Log(), arriving=None)


def difference(before: Session, after: Session) -> tuple[str, ...]:
    """Return the difference in a sentence, the longest form first; none until it is measured."""
    former, latter = before.tick, after.tick
    if former is None or latter is None or latter.forwards < SETTLED_FORWARDS:
        return ()
    if after.tree is None or before.tree is None or after.tree is before.tree:
        return ()
    time = f"p50 {_changed(former.latency_p50, latter.latency_p50)}"
    work = _work(known_macs(before.tree.costs[0]), known_macs(after.tree.costs[0]))
    what = _what(before, after)
    item = _item(before, after)
    long = ", ".join(part for part in (time, item, work) if part)
    short = f"{time}, {work}" if work else time
    forms = (f"{what}: {long}" if what else long, long, short, time)
    return tuple(dict.fromkeys(forms))


def _what(before: Session, after: Session) -> str:
    pairs = ((input_text(before), input_text(after)), (device_text(before), device_text(after)))
    return ", ".join(f"{old} → {new}" for old, new in pairs if old != new)


def _item(before: Session, after: Session) -> str:
    """Return the change of the time per item, where the batch sizes differ."""
    models, ticks = (before.model, after.model), (before.tick, after.tick)
    batches = [model.batch for model in models if model is not None and model.batch]
    times = [tick.latency_p50 for tick in ticks if tick is not None]
    if len(batches) < 2 or len(times) < 2 or batches[0] == batches[1]:
        return ""
    return f"per item {_changed(times[0] / batches[0], times[1] / batches[1])}"


def _changed(old: float, new: float) -> str:
    """Return two times and the change: ``36.5 → 21.2 ms (−42 %)``."""
    first, second = duration(old), duration(new)
    if first.split()[-1] == second.split()[-1]:
        first = first.rpartition(" ")[0]
    return f"{first} → {second} ({_percent(old, new)})"


def _percent(old: float, new: float) -> str:
    if not old:
        return "from 0"
    if new >= 10 * old:
        return f"×{new / old:.0f}"
    percent = round((new / old - 1) * 100)
    return f"{'+' if percent > 0 else '−' if percent < 0 else '±'}{abs(percent)} %"


def _work(old: int | None, new: int | None) -> str:
    if old is None or new is None:
        return ""
    if old == new:
        return "same MAC"
    return f"MAC {count(old)} → {count(new)}"
