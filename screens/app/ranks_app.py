"""The app on a run of several ranks: their screen, and the explorer of the one that is opened."""

from collections.abc import Callable

from msgspec.structs import replace
from textual.screen import Screen

from tui_profiler.messages import LoadSpec, Program
from tui_profiler.serving.address import Address
from tui_profiler.session import Session
from tui_profiler.source.attached import Found
from tui_profiler.source.ranks import Ranks, is_whole_run
from tui_profiler.source.serving import with_serving

from ..common.base_app import BaseApp
from ..settings.appearance import AppearanceOptions
from ..settings.preferences import Preferences, read_preferences
from ..views.ranks.screen import RanksScreen
from .explorer_app import ProfilerApp, run_and_keep


class RanksApp(ProfilerApp):
    """Follows all ranks, and shows one of them at a time in the explorer."""

    def __init__(
        self,
        ranks: Ranks,
        spec: LoadSpec,
        *,
        begins_with_all: bool,
        serving: Address | None = None,
        preferences: Preferences | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        shown, again = with_serving(ranks, serving), self._not_started_again
        super().__init__(shown, spec, again, preferences=preferences, clock=clock)
        self._ranks = ranks
        self._begins_with_all = begins_with_all

    def get_default_screen(self) -> Screen[None]:  # type: ignore[override]  # not the explorer
        """Start at the ranks."""
        screen = RanksScreen(self.glyphs, self.now, self.open_rank)
        return screen.data_bind(BaseApp.group)

    def on_mount(self) -> None:
        """Open the one rank that was asked for. Textual calls the handler above this one, too."""
        if not self._begins_with_all:
            self._explore()

    def open_rank(self, key: str) -> None:
        """Look into one rank."""
        rank = self._ranks.group.rank(key)
        if rank is not None:
            self._ranks.chosen = key
            # A server is beside all of them.
            self._newest = replace(rank.session, serving=self._newest.serving)
            self.session = self._newest
            self._explore()

    def show_ranks(self) -> bool:
        """Go back to all of them."""
        self._ranks.look_at_all()
        while len(self.screen_stack) > 1:
            self.pop_screen()
        return True

    def _explore(self) -> None:
        self.push_screen(self.explorer().data_bind(BaseApp.session))

    def restart(self, spec: LoadSpec | None = None) -> None:
        """Do nothing: a rank is not ours to start again."""

    def _show_as(self, session: Session, spent: float) -> None:
        super()._show_as(session, spent)
        self.group = self._ranks.group

    def _not_started_again(self, spec: LoadSpec) -> Ranks:
        raise AssertionError("an attached program is never restarted")


def run_ranks(
    chosen: Found,
    program: Program,
    *,
    appearance: AppearanceOptions,
    started_at: float,
    serving: Address | None = None,
) -> int:
    """Run the app on a run until it is left; return the exit code.

    Args:
        chosen: the entry of the whole run, or of one rank to begin with.
        program: who that is.
        appearance: theme and glyphs as typed.
        started_at: Unix time when the command was started.
        serving: where a server beside them exports its metrics.
    """
    is_whole = is_whole_run(chosen)
    ranks = Ranks(program, started_at, None if is_whole else chosen.place)
    spec = LoadSpec(program.name, started_at=started_at, observed="program")
    preferences = read_preferences(appearance, program.name)
    app = RanksApp(ranks, spec, begins_with_all=is_whole, serving=serving, preferences=preferences)
    return run_and_keep(app, preferences, program.name)
