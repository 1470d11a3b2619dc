"""A key is carried out where it arrives, what it changed painted at once, and that alone composed.

1. Textual hands a key from widget to widget and back, and what it changed by two more messages and
   a timer to the screen: ten turns of the event loop, between which whatever else waits has its
   turn, and up to 17 ms of the timer. A key that a screen knows (``straight``) takes one turn. It
   keeps its place: where anything that came before it still waits, it goes Textual's way.
2. Textual composes a row that it paints from every widget on it, and has each of them draw all of
   its rows. Where one widget shows all of the row that changed, it alone is asked for it.
3. Neither is done where Textual draws by itself (rule 3 of ``output.py``).

Private names of Textual's that this stands on, beside those of ``output.py``. Where one is gone,
keys and rows go Textual's way, which is slower and no more than that:

- ``Screen._compositor_refresh``, which is overridden, ``_compositor``, ``_dirty_widgets`` and
  ``_on_timer_update``; ``_layout_required`` and ``_repaint_required`` of screens and widgets;
- ``_pending_message`` of screens, widgets and the app: what was taken from a queue, and waits;
- ``Compositor.visible_widgets``, from front to back, ``size`` and ``_dirty_regions``.
"""

from typing import Any, TypeVar

from textual import events
from textual._compositor import Compositor, LayoutUpdate
from textual.driver import Driver
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

from .output import SparingApp

_Result = TypeVar("_Result")
_OF_SCREENS = (
    *("_dirty_widgets", "_on_timer_update", "_layout_required", "_repaint_required"),
    "_pending_message",
)
_OF_COMPOSITORS = ("visible_widgets", "size", "_dirty_regions")


class PaintedScreen(Screen[_Result]):
    """Composes what changed alone, and knows of keys that need not go round."""

    def straight(self, key: str) -> str:
        """Return the action of a key that is carried out at once; empty where it goes its way."""
        return ""

    def paint(self) -> None:
        """Paint what changed, now; where the layout changes, all is painted in its turn."""
        visible = self._compositor.visible_widgets
        if not self._layout_required and not any(each._layout_required for each in visible):
            for widget in visible:
                if widget._repaint_required:
                    widget._repaint_required = False
                    self._dirty_widgets.add(widget)
            self._on_timer_update()

    @property
    def is_known(self) -> bool:
        """Whether Textual is as this expects it, and leaves the drawing to us."""
        app, compositor = self.app, getattr(self, "_compositor", None)
        return (
            isinstance(app, SparingApp)
            and not app.stock_because
            and all(hasattr(self, name) for name in _OF_SCREENS)
            and all(hasattr(compositor, name) for name in _OF_COMPOSITORS)
        )

    def _compositor_refresh(self) -> None:
        app = self.app
        if isinstance(app, SparingApp) and self is app.screen and self.is_known:
            found = patches(self._compositor)
            if found is not None:
                self._dirty_widgets.clear()
                app.show(self, found)
                return
        super()._compositor_refresh()


class KeysFirstApp(SparingApp[_Result]):
    """Carries out at once what a key asks of a screen that knows it.

    What is typed and clicked before the first frame acts after it, but for keys that leave.
    """

    def __init__(self, driver_class: type[Driver] | None) -> None:
        super().__init__(driver_class)
        self._kept: list[events.InputEvent] = []

    def begin(self) -> None:
        """Send what is drawn, and let what was typed act."""
        super().begin()
        self.call_later(self._act)

    async def on_event(self, event: events.Event) -> None:
        """Take the short way with a key, or Textual's."""
        if isinstance(event, events.InputEvent) and not event.is_forwarded:
            if self.is_waiting and not _leaves(event):
                self._kept.append(event)
                return
            await self._act()  # What came before.
        await self._pass_on(event)

    async def _act(self) -> None:
        kept, self._kept = self._kept, []
        for event in kept:
            await self._pass_on(event)

    async def _pass_on(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and (screen := self._goes_straight(event)) is not None:
            await screen.run_action(screen.straight(event.key))
            screen.paint()
        else:
            await super().on_event(event)

    def _goes_straight(self, event: events.Key) -> PaintedScreen[Any] | None:
        screen = self.screen_stack[-1] if self.screen_stack else None
        if event.is_forwarded or not self.app_focus or not isinstance(screen, PaintedScreen):
            return None
        if not (screen.is_known and screen.straight(event.key)):
            return None
        way = (screen.focused or screen).ancestors_with_self
        waits = (each.message_queue_size or each._pending_message is not None for each in way)
        return None if any(waits) else screen


def _leaves(event: events.InputEvent) -> bool:
    return isinstance(event, events.Key) and event.key in ("ctrl+c", "ctrl+q", "ctrl+z")


def patches(compositor: Compositor) -> list[LayoutUpdate] | None:
    """Compose what is dirty, and take it that it will be shown.

    Return None, with nothing done, where several widgets share a row of it.
    """
    rows: dict[Widget, set[int]] = {}
    for dirty in compositor._dirty_regions:
        region = dirty.intersection(compositor.size.region)
        widget = _alone_in(region, compositor) if region else None
        if widget is not None:
            rows.setdefault(widget, set()).update(region.line_range)
        elif region:
            return None
    compositor._dirty_regions.clear()
    return [_drawn(widget, run, compositor) for widget, own in rows.items() for run in runs(own)]


def runs(rows: set[int]) -> list[range]:
    """Return runs of neighbouring numbers."""
    starts = sorted(row for row in rows if row - 1 not in rows)
    ends = sorted(row + 1 for row in rows if row + 1 not in rows)
    return [range(start, end) for start, end in zip(starts, ends, strict=True)]


def _alone_in(region: Region, compositor: Compositor) -> Widget | None:
    """Return the widget that shows a region and, in its rows, has nothing before it."""
    others: list[Region] = []
    for widget, (place, clip) in compositor.visible_widgets.items():
        seen = place.intersection(clip)
        if seen.overlaps(region):
            row = Region(seen.x, region.y, seen.width, region.height)
            is_alone = seen.contains_region(region) and not any(row.overlaps(o) for o in others)
            # A screen may draw those below it, which are Textual's to prepare.
            return widget if is_alone and not isinstance(widget, Screen) else None
        others.append(seen)
    return None


def _drawn(widget: Widget, rows: range, compositor: Compositor) -> LayoutUpdate:
    place, clip = compositor.visible_widgets[widget]
    seen = place.intersection(clip)
    region = Region(seen.x, rows.start, seen.width, len(rows))
    strips = widget.render_lines(region.translate((-place.x, -place.y)))
    return LayoutUpdate([[strip] for strip in strips], region)
