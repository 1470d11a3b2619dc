"""Text to the user's clipboard, over SSH too: three ways, because none of them always works.

1. Inside tmux, tmux takes it as a buffer and tells the terminal around it.
2. OSC 52 goes to the terminal, wherever that is; screen, and a tmux that did not take it, are asked
   to pass it on. No terminal says whether it did what it was asked.
3. Therefore the text also goes into a file of the user's alone, and the file is named.

Nothing here waits on the event loop: tmux gets seconds, the file is written by a thread.
"""

import asyncio
import base64
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from platformdirs import user_cache_path

from tui_profiler.system.files import private_directory, write_private

MOST_BYTES = 2**20
"""Of the text; what is longer is cut."""
MOST_OSC_BYTES = 74_994
"""Longer texts are not sent to the terminal: 100,000 letters of base64 is the most that xterm and
others like it take."""
TMUX_SECONDS = 2.0
_SCREEN_LETTERS = 240
"""Of one sequence that screen passes on: its oldest buffers hold 256."""
_BY_TMUX = "tmux"
"""Which also told the terminal around it."""
_WITHOUT_OSC = ("", "linux", "dumb")
"""Values of ``TERM`` for what would show such a sequence as text."""


class Copied(Struct, frozen=True):
    """What became of a text."""

    ways: tuple[str, ...]
    """How it went to a clipboard, in words; none where it could not."""
    file: Path | None
    """Where it is as well, None where it could not be written."""
    trouble: str = ""
    """Why it could not."""
    is_cut: bool = False
    """It was too long, and its end is missing."""


async def copied(
    text: str,
    write: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    *,
    tmux_seconds: float = TMUX_SECONDS,
) -> Copied:
    r"""Copy a text by every way that there is, and give those that were gone.

    Args:
        text: printable; line ends are ``\n``.
        write: sends a sequence to the terminal, in order with what is drawn.
        environ: says what stands between here and the terminal.
        folder: for the file; the user's cache folder where it is left out.
        tmux_seconds: what tmux is given to take it.
    """
    whole = text.encode("utf-8", "replace")
    kept = whole[:MOST_BYTES].decode("utf-8", "ignore")
    ways: list[str] = []
    told_tmux = await _tmux(kept, environ, tmux_seconds) if environ.get("TMUX") else ""
    if told_tmux:
        ways.append(told_tmux)
    if told_tmux != _BY_TMUX and (sequence := osc52(kept, environ)):
        write(sequence)
        ways.append("OSC 52")
    try:
        file = await asyncio.to_thread(_written, kept, folder or user_cache_path("tui-profiler"))
    except OSError as error:
        why = error.strerror or type(error).__name__
        return Copied(tuple(ways), None, why, len(whole) > MOST_BYTES)
    return Copied(tuple(ways), file, "", len(whole) > MOST_BYTES)


def osc52(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that sets the clipboard; empty where none can be sent."""
    raw, term = text.encode("utf-8", "replace"), environ.get("TERM", "")
    if term in _WITHOUT_OSC or len(raw) > MOST_OSC_BYTES:
        return ""
    plain = f"\x1b]52;c;{base64.b64encode(raw).decode()}\x07"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("STY"):
        starts = range(0, len(plain), _SCREEN_LETTERS)
        return "".join(f"\x1bP{plain[at : at + _SCREEN_LETTERS]}\x1b\\" for at in starts)
    return plain


def said(what: str, done: Copied) -> str:
    """Return one sentence: what was copied, by which way, and where it is as well."""
    what = f"the first MiB of {what}" if done.is_cut else what
    file = _short(done.file) if done.file is not None else ""
    if done.ways:
        return f"copied {what}: {', '.join((*done.ways, file) if file else done.ways)}"
    if file:
        return f"copied {what} into {file}: no clipboard here"
    return f"not copied: no clipboard, and no file either ({done.trouble})"


def _short(file: Path) -> str:
    try:
        return f"~/{file.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # Not below it, or there is no home.
        return str(file)


async def _tmux(text: str, environ: Mapping[str, str], seconds: float) -> str:
    """Pass it to tmux; return the way in words, empty where tmux did not take it."""
    # ``-w`` passes it on to the terminal around tmux; before tmux 3.2 it is not known.
    for options, way in ((("-w",), _BY_TMUX), ((), "tmux's buffer")):
        try:
            tmux = await asyncio.create_subprocess_exec(
                *("tmux", "load-buffer", *options, "-"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(environ),
            )
        except OSError:
            return ""
        try:
            await asyncio.wait_for(tmux.communicate(text.encode("utf-8", "replace")), seconds)
        except TimeoutError:
            return ""
        finally:
            if tmux.returncode is None:
                tmux.kill()
                await tmux.wait()
        if tmux.returncode == 0:
            return way
    return ""


def _written(text: str, folder: Path) -> Path:
    """Put the text into the file of what was copied last, whole or not at all."""
    file = private_directory(folder) / "copied.txt"
    write_private(file, text.encode("utf-8", "replace"))
    return file
