"""The preferences of a user: the configuration, and the saved view of one model."""

from __future__ import annotations

import os
from copy import copy

import msgspec
from msgspec.structs import replace

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.cost.flat import By, Column
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.queries.tree.focus import Focus
from tui_profiler.session import Tree

from .appearance import AppearanceOptions, ThemeName, glyphs_for, holds_escape_back, theme_for
from .config import USUAL, Config, config_path, read_config
from .saved_view import NOTHING, SavedView, SavedViews, folds, saved_views, with_folds


class Preferences:
    """The initial settings of the explorer; saves the final ones.

    Args:
        config: with what was typed.
        kept: the saved views; None reads and saves none.
        model: as typed.
    """

    def __init__(
        self, config: Config = USUAL, kept: SavedViews | None = None, model: str = ""
    ) -> None:
        self.config = config
        self._kept = kept
        self._model = model
        self._saved, problem = kept.read(model) if kept is not None else (NOTHING, "")
        self._problems: tuple[str, ...] = (*config.sentences(), *((problem,) if problem else ()))
        self.columns: tuple[ColumnName, ...] = config.settings.columns
        """Empty: those that the width has room for."""
        if self._saved.columns is not None:
            self.columns = self._saved.columns
        self.flat_columns: dict[By, tuple[Column, ...]] = dict(self._saved.flat_columns or {})
        """Of flat tables, likewise."""
        self.unkept = ""
        """Why the view could not be saved, if so."""
        self._theme = None if "theme" in config.typed else self._saved.theme

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

    def fingerprint(self) -> bytes:
        """Return all that makes the first frame look as it does, but for the terminal."""
        return msgspec.msgpack.encode((self.config.settings, self._saved, self._problems))

    def unwritten(self) -> Preferences:
        """Return the same, with nothing saved."""
        same = copy(self)
        same._kept = None
        return same

    def choose_theme(self, name: ThemeName) -> None:
        """Save a theme that the user chose."""
        self._theme = name

    def begin(self, view: Focus, tree: Tree) -> Focus:
        """Return the initial view of a tree."""
        saved, sort = self._saved, self.config.settings.sort
        view = replace(view, sort=sort, descending=sort not in ("order", "name"))
        if saved.kind != tree.nodes[0].type:
            return view
        view = replace(view, show_operators=saved.operators)
        if saved.sort is not None:
            view = replace(view, sort=saved.sort, descending=saved.descending)
        if saved.unfolded is not None:
            view = with_folds(view, tree, saved.unfolded)
        return view

    def end(self, view: Focus, tree: Tree) -> None:
        """Save the last view of a tree; ``unkept`` says what went wrong, if anything."""
        settings = self.config.settings
        is_usual = view.sort == settings.sort and view.descending == (
            view.sort not in ("order", "name")
        )
        self._saved = SavedView(
            kind=tree.nodes[0].type,
            unfolded=folds(view, tree),
            operators=view.show_operators,
            sort=None if is_usual else view.sort,
            descending=view.descending and not is_usual,
            columns=None if self.columns == settings.columns else self.columns,
            flat_columns={by: names for by, names in self.flat_columns.items() if names} or None,
            theme=self._theme if self._theme != settings.theme else None,
        )
        if self._kept is not None:
            self.unkept = self._kept.write(self._model, self._saved)


def read_preferences(appearance: AppearanceOptions, model: str = "") -> Preferences:
    """Return the preferences for a model; what was typed comes before everything else."""
    config = read_config(config_path())
    typed = {
        name: value
        for name, value in (("theme", appearance.theme), ("glyphs", appearance.glyphs))
        if value is not None
    }
    settings = replace(config.settings, **typed)
    config = replace(config, settings=settings, typed=frozenset(typed))
    return Preferences(config, saved_views(), model)
