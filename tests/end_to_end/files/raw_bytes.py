"""What a program may write to a terminal, told by its bytes: no name may add a sequence to it."""

from __future__ import annotations

import base64
import re

_SEQUENCE = re.compile(
    rb"\x1b\[\?\d+(?:;\d+)*(?:[hl]|\$p)"  # modes, and questions about them
    rb"|\x1b\[(?:\d+(?:;\d+)?)?H|\x1b\[\d*[ABCDG]"  # where to write
    rb"|\x1b\[6n"  # where that is
    rb"|\x1b\[[<>]\d*u"  # the keyboard's protocol
    rb"|\x1b\[(?!7;5;9)[\d;]*m"  # colours; these three together are a hostile name's
)


_COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


def not_ours(raw: bytes) -> list[str]:
    """Return what is neither a sequence of our own nor printable text, with what follows."""
    # What was copied goes through the terminal in base64, and out of the clipboard as it was.
    raw = _COPIED.sub(lambda found: base64.b64decode(found[1]), raw)
    text = _SEQUENCE.sub(b"", raw).decode(errors="backslashreplace")
    found = [match.start() for match in re.finditer(r"[^\n\r -~]", text)]
    return [repr(text[place : place + 40]) for place in found if not text[place].isprintable()]
