"""The address of a server's metrics, as typed: checked before anything is started."""

from typing import NamedTuple
from urllib.parse import urlsplit

USUAL_PATH = "/metrics"
_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where metrics are read."""

    typed: str
    is_tls: bool
    host: str
    port: int
    target: str
    """Path and query, as the request line has them."""


def address(typed: str) -> Address:
    """Return the address that was typed; without a path it is that of ``/metrics``.

    Raises:
        ValueError: it is not valid; the message says why, with an example.
    """
    like = "http://127.0.0.1:8000/metrics"
    if not typed.isascii() or not typed.isprintable() or " " in typed:
        raise ValueError(f"must be ASCII without spaces, such as {like}")
    try:
        url = urlsplit(typed)
        port, host = url.port, url.hostname
    except ValueError as error:  # Of the port, or of an address in brackets.
        raise ValueError(f"{error}; expected a URL such as {like}") from None
    if url.scheme not in _PORTS or not host or port == 0:
        raise ValueError(f"not an http:// or https:// URL with a host, such as {like}")
    if url.username is not None or url.password is not None:
        raise ValueError("user and password are not allowed, because the URL is shown and recorded")
    path = url.path if url.path.strip("/") else USUAL_PATH
    target = f"{path}?{url.query}" if url.query else path
    return Address(typed, url.scheme == "https", host, port or _PORTS[url.scheme], target)
