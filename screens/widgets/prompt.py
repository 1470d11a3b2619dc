"""One line in place of the footer: to type into (search, batch size), or to choose from.

It is no widget: a widget gets keys only once it is mounted and focused, and what was typed until
then would press other keys. The screen hands every key to the prompt from the moment it opens.
"""

from collections.abc import Callable
from typing import TypeAlias

from textual import events

from tui_profiler.formatting.text import safe, width

from .key_bar import key_spans
from .lines import EMPTY, Line, cut, line_width

MAX_LENGTH = 200
Answer: TypeAlias = "str | Prompt | Choice | None"
"""What the function of a key, or of a prompt, returns: what is to be said, or to be asked."""


class Choice:
    """Takes one key of a few; escape chooses nothing."""

    def __init__(
        self,
        label: str,
        options: tuple[tuple[str, str, Callable[[], Answer]], ...],
        stay: str = "stay",
    ) -> None:
        """Ask.

        Args:
            label: the question.
            options: (key, what it does in a few words, what is called); without words it is
                another key for one that has some.
            stay: what escape does, in a word.
        """
        self._stay = stay
        self._label = label
        self._options = options
        self.is_open = True

    def key(self, name: str, character: str | None) -> Answer:
        """Do what the key stands for; any other key but escape is let by."""
        for key, _, chosen in self._options:
            if name == key:
                self.is_open = False
                return chosen()
        if name == "escape":
            self.is_open = False
        return None

    def paste(self, text: str) -> None:
        """Let pasted text by."""

    def line(self, cells: int = MAX_LENGTH * 2) -> Line:
        """Return the row, at most so wide."""
        options: list[tuple[str, str]] = []
        for key, does, _ in self._options:
            if does:
                options += [("  ", "ink"), *key_spans(key), (f" {does}", "muted")]
        escape: Line = (("  ", "ink"), *key_spans("esc"), (f" {self._stay}", "muted"))
        return cut(((f" {self._label}", "ink"), *options, *escape), cells)


class Prompt:
    """Takes text until enter or escape."""

    def __init__(
        self,
        label: str,
        text: str = "",
        *,
        changed: Callable[[str], None] = lambda text: None,
        done: Callable[[str], Answer] = lambda text: None,
        hint: str | Callable[[str], str] = "",
    ) -> None:
        """Ask.

        Args:
            label: before what is typed.
            text: what is there at first; escape restores it.
            changed: is given the text after every key.
            done: is given the text at the end, an empty one where it was left with escape.
            hint: what is said beside the text, or gives that for the text as it is.
        """
        self._hint = hint
        self._label = label
        self._before = self._text = text
        self._changed = changed
        self._done = done
        self.is_open = True

    def key(self, name: str, character: str | None) -> Answer:
        """Edit; enter keeps what was typed, escape restores what was there."""
        if name == "enter":
            return self._close(self._text, self._text)
        if name == "escape":
            return self._close(self._before, "")
        if name == "backspace":
            self._set(self._text[:-1])
        elif name == "ctrl+u":
            self._set("")
        elif character is not None and character.isprintable():
            self._set(self._text + character)
        return None

    def paste(self, text: str) -> None:
        """Add pasted text, its first line."""
        self._set(self._text + "".join(filter(str.isprintable, text.split("\n", maxsplit=1)[0])))

    def line(self, cells: int = MAX_LENGTH * 2) -> Line:
        """Return the row, at most so wide: the end of what is typed is what is seen."""
        hint = safe(self._hint if isinstance(self._hint, str) else self._hint(self._text))
        keys: Line = (
            *(("  ", "faint"), *key_spans("enter", role="faint"), (" keeps", "faint")),
            *(("  ", "faint"), *key_spans("esc", role="faint"), (" cancels", "faint")),
        )
        ends: tuple[tuple[str, Line], ...] = (
            ((f"  {hint}", keys), (f"  {hint}", EMPTY), ("", keys), ("", EMPTY))
            if hint
            else (("", keys), ("", EMPTY))
        )
        label, typed = f" {self._label}", safe(self._text)
        room = cells - width(label) - 1
        fitting = (e for e in ends if width(typed + e[0]) + line_width(e[1]) <= room)
        said, keys = next(fitting, ends[-1])
        while width(typed) > room > 0:
            typed = typed[1:]
        return (
            (label, "strong accent"),
            (typed, "ink"),
            ("▏", "accent"),
            (said, "muted"),
            *keys,
        )

    def _set(self, text: str) -> None:
        self._text = text[:MAX_LENGTH]
        self._changed(self._text)

    def _close(self, text: str, result: str) -> Answer:
        self.is_open = False
        self._changed(text)
        return self._done(result)


class PromptRow:
    """The last row of a screen while it asks: at most one prompt, which gets what is typed.

    Args:
        draw: draws the row, and what its text changes.
        say: tells the user.
    """

    def __init__(self, draw: Callable[[], None], say: Callable[[str], None]) -> None:
        self._draw = draw
        self._say = say
        self._prompt: Prompt | Choice | None = None

    @property
    def open_one(self) -> Prompt | Choice | None:
        """The prompt that is open."""
        is_open = self._prompt is not None and self._prompt.is_open
        return self._prompt if is_open else None

    def take(self, answer: Answer) -> None:
        """Say, or ask until it is answered."""
        if isinstance(answer, str):
            if answer:
                self._say(answer)
        elif answer is not None:
            self._prompt = answer
            self._draw()

    def key(self, event: events.Key) -> bool:
        """Hand a key to the prompt that is open, and to nothing else; False where none is."""
        if (open_one := self.open_one) is None:
            return False
        answer = open_one.key(event.key, event.character)
        event.stop()
        event.prevent_default()
        self._draw()
        self.take(answer)
        return True

    def paste(self, event: events.Paste) -> None:
        """Hand pasted text to the prompt that is open."""
        if (open_one := self.open_one) is not None:
            open_one.paste(event.text)
            self._draw()
