"""What one user is used to: the configuration, and how this model was looked at last."""

from __future__ import annotations

import os

from msgspec.structs import replace

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.queries.tree.focus import Focus
from tui_profiler.session import Tree

from .appearance import ThemeName, glyphs_for, holds_escape_back, theme_for
from .appearance_options import AppearanceOptions
from .config import USUAL, Config, config_path, read_config
from .saved_view import NOTHING, Memory, Remembered, folds, memory, with_folds


class Preferences:
    """Answers how to begin, and keeps how it ended."""

    def __init__(self, config: Config = USUAL, kept: Memory | None = None, model: str = "") -> None:
        """Read what is remembered.

        Args:
            config: with what was typed.
            kept: None remembers nothing.
            model: as typed.
        """
        self.config = config
        self._kept = kept
        self._model = model
        self._remembered, problem = kept.read(model) if kept is not None else (NOTHING, "")
        self._problems: tuple[str, ...] = (*config.sentences(), *((problem,) if problem else ()))
        self.columns: tuple[ColumnName, ...] = config.settings.columns
        """As chosen; none leaves it to us."""
        if self._remembered.columns is not None:
            self.columns = self._remembered.columns
        self.unkept = ""
        """Why the look could not be kept, if so."""
        self._theme = None if "theme" in config.typed else self._remembered.theme

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return glyphs_for(self.config.settings.glyphs, os.environ)

    @property
    def theme(self) -> ThemeName:
        """The theme to begin with."""
        return self._theme or theme_for(self.config.settings.theme, os.environ)

    @property
    def mouse(self) -> bool:
        """Whether to begin with the mouse."""
        return self.config.settings.mouse and not holds_escape_back(os.environ)

    def problems(self) -> str:
        """Return what is wrong in a few words, once."""
        problems, self._problems = self._problems, ()
        if not problems:
            return ""
        more = f"  and {len(problems) - 1} more: tui-profiler config" if len(problems) > 1 else ""
        return problems[0] + more

    def choose_theme(self, name: ThemeName) -> None:
        """Remember a theme that the user went to."""
        self._theme = name

    def begin(self, view: Focus, tree: Tree) -> Focus:
        """Look at a tree for the first time as one is used to."""
        remembered, sort = self._remembered, self.config.settings.sort
        view = replace(view, sort=sort, descending=sort not in ("order", "name"))
        if remembered.kind != tree.nodes[0].type:
            return view
        view = replace(view, show_operators=remembered.operators)
        if remembered.sort is not None:
            view = replace(view, sort=remembered.sort, descending=remembered.descending)
        if remembered.unfolded is not None:
            view = with_folds(view, tree, remembered.unfolded)
        return view

    def end(self, view: Focus, tree: Tree) -> None:
        """Keep how a tree was looked at last; ``unkept`` says what went wrong, if anything."""
        settings = self.config.settings
        is_usual = view.sort == settings.sort and view.descending == (
            view.sort not in ("order", "name")
        )
        self._remembered = Remembered(
            kind=tree.nodes[0].type,
            unfolded=folds(view, tree),
            operators=view.show_operators,
            sort=None if is_usual else view.sort,
            descending=view.descending and not is_usual,
            columns=None if self.columns == settings.columns else self.columns,
            theme=self._theme if self._theme != settings.theme else None,
        )
        if self._kept is not None:
            self.unkept = self._kept.write(self._model, self._remembered)


def habits_of(wish: AppearanceOptions, model: str = "") -> Preferences:
    """Read what this user is used to, with what was typed before everything else."""
    from .config_file import actions  # noqa: PLC0415 # needs Textual

    config = read_config(config_path(), actions())
    typed = {
        name: value
        for name, value in (("theme", wish.theme), ("glyphs", wish.glyphs))
        if value is not None
    }
    settings = replace(config.settings, **typed)
    config = replace(config, settings=settings, typed=frozenset(typed))
    return Preferences(config, memory(), model)
