"""Two sessions made by hand, of which one differs from the other in every way."""

from __future__ import annotations

from tests.queries.sessions import session_of, ticked
from tui_profiler.queries.compare.comparison import Comparison, comparison
from tui_profiler.queries.compare.side import side_of
from tui_profiler.session import Session

FORMER = """
net Net 1300 5000000
  stem Conv2d 100 1000000
    aten::convolution aten.convolution.default 0 1000000
    aten::relu aten.relu.default 0 0
  neck Sequential 600 2000000
    a Linear 300 1000000
    b Linear 300 1000000
  extra Linear 500 1000000
  head Linear 100 1000000
"""
LATTER = """
net Net 1600 7000000
  stem Conv2d 100 2000000
    aten::dropout aten.dropout.default 0 0
    aten::convolution aten.convolution.default 0 2000000
    aten::relu aten.relu.default 0 0
  body Block 900 3000000
    neck Sequential 600 2000000
      a Linear 300 1000000
      b Linear 300 1000000
    new Linear 300 1000000
  head Linear 100 1000000
  tail Linear 500 1000000
"""
FORMER_SECONDS = {"": 0.010, "stem": 0.004, "neck": 0.003, "neck.a": 0.001, "neck.b": 0.001}
LATTER_SECONDS = {
    "": 0.016,
    "stem": 0.008,
    "body": 0.004,
    "body.neck": 0.003,
    "body.neck.a": 0.001,
    "body.neck.b": 0.001,
    "head": 0.001,
}


def former(*, measured: bool = True) -> Session:
    session = session_of(FORMER)
    return ticked(session, {**FORMER_SECONDS, "head": 0.00101}) if measured else session


def latter(*, measured: bool = True) -> Session:
    session = session_of(LATTER)
    return ticked(session, LATTER_SECONDS) if measured else session


def pair(*, measured: bool = True) -> Comparison:
    return comparison(
        side_of("former", former(measured=measured)), side_of("latter", latter(measured=measured))
    )
