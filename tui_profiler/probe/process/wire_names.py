"""Names as the wire can carry them: a stranger's module may be called anything."""

_MOST_CHARACTERS = 1 << 14
"""Longer than any path of real modules; what is longer is cut."""


def writable(text: str) -> str:
    """Return text that is UTF-8 once encoded, and not too long; lone surrogates are spelled out."""
    if text.isascii() and len(text) <= _MOST_CHARACTERS:
        return text
    encodable = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(encodable) <= _MOST_CHARACTERS:
        return encodable
    return encodable[: _MOST_CHARACTERS - 1] + "…"
