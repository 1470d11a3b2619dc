"""One line to type into, over the status row: search and batch size."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from .widgets.lines import LinesWidget


class Prompt(LinesWidget, can_focus=True):
    """Takes text until enter or escape; ``changed`` hears every letter, ``done`` the end."""

    DEFAULT_CSS = """
    Prompt { dock: bottom; height: 1; layer: above; offset-y: -1; }
    """

    def __init__(
        self,
        label: str,
        text: str,
        changed: Callable[[str], None],
        done: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._label = label
        self._before = self._text = text
        self._changed = changed
        self._done = done

    def on_mount(self) -> None:
        """Take the keys."""
        self.focus()
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Edit; enter keeps, escape restores."""
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self._leave(self._text)
        elif event.key == "escape":
            self._changed(self._before)
            self._leave("")
        else:
            self._edit(event)

    def on_paste(self, event: events.Paste) -> None:
        """Add pasted text, its first line."""
        event.stop()
        self._set(self._text + "".join(filter(str.isprintable, event.text.split("\n")[0])))

    def _edit(self, event: events.Key) -> None:
        if event.key == "backspace":
            self._set(self._text[:-1])
        elif event.key in ("ctrl+u", "ctrl+w"):
            self._set("")
        elif event.character and event.character.isprintable():
            self._set(self._text + event.character)

    def _set(self, text: str) -> None:
        self._text = text[:200]
        self._changed(self._text)
        self._draw()

    def _leave(self, result: str) -> None:
        self._done(result)
        self.remove()

    def _draw(self) -> None:
        self.lines = (
            (
                (f" {self._label}", "strong accent"),
                (self._text, "ink"),
                ("▏", "accent"),
                ("  ↵ keeps  esc clears", "faint"),
            ),
        )
