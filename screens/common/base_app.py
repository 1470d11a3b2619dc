"""The base of all apps: theme, driver and output; and what screens ask of their app."""

import gc
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace
from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.reactive import var
from textual.screen import ModalScreen, Screen
from textual.timer import Timer

from tui_profiler import messages
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.session import EMPTY, Jump, Remembered, Session
from tui_profiler.session.session_group import NO_RANKS, SessionGroup

from ..actions.names import key_name, written
from ..actions.table import Key, remapped
from ..settings.appearance import ThemeName
from ..settings.preferences import Preferences
from ..settings.theme import PREFIX, THEMES, roles_for
from ..terminal.crash_report import CrashContext
from ..terminal.crashing import CrashingApp
from ..terminal.driver import QuietDriver
from ..terminal.guard import end_on_hang_up, end_on_signals
from ..terminal.painting import KeysFirstApp
from ..web.driver import is_served
from ..widgets.line_widgets import KeyBar

_Result = TypeVar("_Result")

AT_ONCE = (
    *(
        messages.TraceDone,
        messages.ModelFacts,
        messages.Failed,
        messages.Ended,
        messages.LoopState,
        messages.StageStarted,
        messages.StageDone,
    ),
    *(messages.Playback, Jump, Remembered),
)
"""What screens see as it comes, not at the rate: it changes them as a whole."""
_WRITTEN = {
    "esc": "escape",
    "↵": "enter",
    "←": "left",
    "↓": "down",
    "↑": "up",
    "→": "right",
}
"""Keys that a row of keys writes otherwise than a configuration does."""
LEFT_SECONDS = 2.0
"""From leaving a screen until its widgets are freed: keys come first."""


class ThemedApp(KeysFirstApp[_Result], CrashingApp[_Result]):
    """Has our themes, our terminal driver and output, and no palette of Textual's."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, theme: ThemeName = "dark") -> None:
        super().__init__(driver_class=None if is_served() else QuietDriver)
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = os.environ.get("TEXTUAL_THEME") or PREFIX + theme
        self._drawn_before: list[Any] = []
        self._freeing: Timer | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our roles where a theme does not name them."""
        return roles_for(self.current_theme)

    def on_mount(self) -> None:
        """End when a signal asks for it, and when the terminal is gone."""
        if not self.is_headless:
            end_on_signals(self._end)
            end_on_hang_up(0, self._end, self.last_resort)

    def _end(self, code: int) -> None:
        self.exit(None, return_code=code)

    def last_resort(self, code: int) -> None:
        """End the process when the app does not exit; on another thread."""
        os._exit(code)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's; where the terminal has its own colours, NO_COLOR leaves them alone.

        Textual chooses for the theme that it starts with, and would draw black on black.
        """
        filters = super().get_line_filters()
        if not (self.no_color and self.native_ansi_color):
            return filters
        return [NoColor() if isinstance(each, Monochrome) else each for each in filters]

    def pop_screen(self) -> AwaitComplete:
        """Leave a screen, and free it a moment later.

        Its widgets refer to each other, so only the collector frees them, which runs once in hours
        (``GARBAGE`` in ``explorer/screen.py``): 0.4 MB per screen. Textual 8 also keeps the lines
        of the last 1,024 screens, in the cache of ``StylesCache.get_inner_outer``.
        """
        widgets = self.screen.walk_children(with_self=True)
        self._drawn_before += [getattr(one, "_styles_cache", None) for one in widgets]
        if self._freeing is not None:
            self._freeing.stop()
        self._freeing = self.set_timer(LEFT_SECONDS, self._free_what_was_left)
        return super().pop_screen()

    def _free_what_was_left(self) -> None:
        drawn, self._drawn_before = self._drawn_before, []
        for one in drawn:
            if hasattr(one, "clear"):
                one.clear()
        # Bound to a session that no longer changes: Textual drops them only on a change.
        for watchers in getattr(self, "__watchers", {}).values():
            watchers[:] = [one for one in watchers if not one[0]._closing]
        gc.collect()

    async def on_event(self, event: events.Event) -> None:
        """Leave out a ctrl+Z that was typed before another one stopped the process."""
        driver = self._driver
        is_late = isinstance(driver, QuietDriver) and event.time < driver.continued_at
        if not (is_late and isinstance(event, events.Key) and event.key == "ctrl+z"):
            await super().on_event(event)

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """Press the key that was clicked, as if it had been typed."""
        try:
            name = key_name(_WRITTEN.get(event.key, event.key))
        except ValueError:
            return  # ``arrows`` are many keys.
        character = written(name)
        self.post_message(events.Key(name, character if len(character) == 1 else None))

    def _set_pointer_shape(self, shape: str) -> None:
        """Leave the pointer alone: Textual's sequence would come after the screen is given back."""


def unix_clock() -> Callable[[], float]:
    """Return a clock of Unix time that goes on steadily when the machine's clock is set."""
    offset = time.time() - time.monotonic()
    return lambda: time.monotonic() + offset


class BaseApp(ThemedApp[int]):
    """Has what screens are bound to, is as its user is used to, and can be left from anywhere.

    Args:
        preferences: what the user is used to; None: what everybody gets.
        clock: returns Unix time; None: ``unix_clock``.
    """

    CSS_PATH = Path(__file__).with_name("app.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
    ]

    session: var[Session] = var(EMPTY)
    before: var[Session] = var(EMPTY)
    """The session as it was before the last change of batch, input, device or dtype."""
    group: var[SessionGroup] = var(NO_RANKS)
    rate: float = 4.0
    """Redraws per second."""
    given_keys: Mapping[str, tuple[str, ...]] = {}
    """Name of an action to the keys that the user gave it."""

    def __init__(
        self, preferences: Preferences | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self.preferences = preferences or Preferences()
        super().__init__(self.preferences.theme)
        self._given_clock = clock
        self.set_clock()
        self.glyphs: Glyphs = self.preferences.glyphs
        self.rate = self.preferences.config.settings.rate
        self.given_keys = self.preferences.config.settings.keys
        self._redrawing: Timer | None = None
        self._on_top: Screen[object] | None = None

    def set_clock(self) -> None:
        """Count on from the machine's clock as it is now: what is started next reads it as well."""
        self._clock = self._given_clock or unix_clock()

    def on_mount(self) -> None:
        """Begin to redraw. Textual calls the handler of each class of ours, the last one first."""
        self.set_keymap({action: ",".join(keys) for action, keys in self.given_keys.items()})
        self.set_rate(self.rate)
        self.screen_change_signal.subscribe(self, self._leave, immediate=True)

    def _leave(self, now_on_top: Screen[object]) -> None:
        """Take away what lies over a screen: it would lie over the next one, and speak of that.

        At once, not when the screen hears of it: what is said in between is of the next one.
        """
        left, self._on_top = self._on_top, now_on_top
        if not isinstance(left, ModalScreen):  # These lie over a screen, and say nothing so.
            self.clear_notifications()

    def set_rate(self, rate: float) -> None:
        """Redraw so many times per second from now on."""
        self.rate = rate
        if self._redrawing is not None:
            self._redrawing.stop()
        self._redrawing = self.set_interval(1 / rate, self.redraw)

    def redraw(self) -> Awaitable[None] | None:
        """Show what is new, where the screens do not draw by themselves; called at the rate."""
        return None

    def action_leave(self) -> None:
        """Quit, whatever screen is on top."""
        self.exit(0)

    def _end(self, code: int) -> None:
        self.exit(code, return_code=code)

    def write_to_terminal(self, sequence: str) -> None:
        """Send a sequence, in order with what is drawn; as Textual does, through its driver."""
        if self._driver is not None:
            self._driver.write(sequence)

    def circumstances(self) -> CrashContext:
        """Add what is known of the session to the report of a crash."""
        session = self.session
        facts: list[tuple[str, str]] = []
        if session.environment is not None:
            facts.append(("torch", session.environment.torch))
        if session.tree is not None:
            facts.append(("tree", f"{len(session.tree)} nodes, by {session.tree.method}"))
        if session.loop is not None:
            facts.append(("model", session.loop.state))
        return replace(super().circumstances(), facts=tuple(facts), log=session.log.lines)

    def runs_script(self) -> bool:
        """Tell whether leaving would end a script of the user's."""
        return False

    def let_script_go(self) -> None:
        """Quit; a script runs on."""
        self.exit(0)

    def show_ranks(self) -> bool:
        """Go to all ranks of the run; return whether there are any."""
        return False


def own_keys(app: App[Any], keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return keys as the user of an app has them."""
    return remapped(keys, app.given_keys) if isinstance(app, BaseApp) else keys


def redraw_seconds(app: App[Any]) -> float:
    """Return the seconds between two redraws of what moves by the clock, as the user has them."""
    return 1 / (app.rate if isinstance(app, BaseApp) else BaseApp.rate)
