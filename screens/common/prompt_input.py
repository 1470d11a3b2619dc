"""What a screen asks in its last row: a prompt gets every key, from the one that opened it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual import events

from ..terminal.painting import PaintedScreen
from ..widgets.prompt import Choice, Prompt

_Result = TypeVar("_Result")


class AskingScreen(PaintedScreen[_Result]):
    """Holds at most one prompt, and hands it what is typed and pasted."""

    _prompt: Prompt | Choice | None = None

    def draw_prompt(self) -> None:
        """Draw the row of the prompt, and what its text changes."""
        raise NotImplementedError

    def prompt_of(self, key: str) -> Callable[[], None] | None:
        """Give what a key asks for at once, before it reaches its binding; None for nothing."""
        return None

    @property
    def asks(self) -> Prompt | Choice | None:
        """The prompt that is open."""
        is_open = self._prompt is not None and self._prompt.is_open
        return self._prompt if is_open else None

    def open_prompt(self, prompt: Prompt | Choice) -> None:
        """Ask, until it is answered."""
        self._prompt = prompt
        self.draw_prompt()

    def on_key(self, event: events.Key) -> None:
        """Open a prompt at once, and hand it what is typed."""
        if (open_one := self.asks) is not None:
            open_one.key(event.key, event.character)
        elif asks := self.prompt_of(event.key):
            asks()
        else:
            return
        event.stop()
        event.prevent_default()
        self.draw_prompt()

    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text to an open prompt."""
        if (open_one := self.asks) is not None:
            open_one.paste(event.text)
            self.draw_prompt()
