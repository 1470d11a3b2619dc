"""The same verbs for Python: profile a model in this process, open a recording, compare.

What needs torch is imported when it is asked for: opening a recording never does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tui_profiler.messages import TrainSpec
from tui_profiler.queries.compare.comparison import Comparison, comparison
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.recording.kind import RecordingError
from tui_profiler.reports.csv import csv_model
from tui_profiler.reports.json.compare import compare_json
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.html import html_comparison, html_profile
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.recorded import last_session

if TYPE_CHECKING:
    import torch  # noqa: TID251 # for the signature alone

__all__ = ["Compared", "Profile", "ProfileError", "open_recording", "profile"]

COLUMNS = 100
"""Width of a table where none is said."""
SECONDS = 2.0


class ProfileError(Exception):
    """A model that could not be profiled, or a recording that could not be read."""


class Profile:
    """A session, with what can be made of it."""

    def __init__(self, session: Session, label: str = "") -> None:
        """Hold a session.

        Args:
            session: with a whole tree.
            label: what it is called in a comparison; the model's name where empty.
        """
        self.session = session
        model = session.model
        self.label = label or (model.name if model is not None else "a model")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, as ``docs/report.schema.json`` describes them."""
        found: dict[str, Any] = json.loads(json_report(self.session))
        return found

    def report(
        self,
        format: str = "table",
        *,
        top: int | None = None,
        depth: int | None = None,
        columns: int = COLUMNS,
    ) -> str:
        """Return the report as text.

        Args:
            format: ``table``, ``text``, ``json``, ``csv`` or ``markdown``, as of ``tui-profiler
                report``.
            top: only so many layers, those that cost most by themselves.
            depth: only layers at most so deep; the root is at depth 0. Not with ``top``.
            columns: cells of the widest line of a table or a text.

        Raises:
            ValueError: there is no such format, or both ``top`` and ``depth`` are given.
        """
        if top is not None and depth is not None:
            raise ValueError("give top or depth, not both")
        session = self.session
        written: dict[str, Callable[[], str]] = {
            "table": lambda: (
                "\n".join(table(session, columns=columns, top=top, depth=depth)) + "\n"
            ),
            "text": lambda: full_text(session, columns=columns, top=top, depth=depth),
            "json": lambda: json_report(session, top=top, depth=depth) + "\n",
            "csv": lambda: csv_model(session, with_titles=True, top=top, depth=depth),
            "markdown": lambda: full_markdown(session, top=top, depth=depth),
        }
        return _chosen(written, format)()

    def perfetto(self) -> bytes:
        """Return a trace for ui.perfetto.dev, to be written to a file."""
        return perfetto_trace(self.session, 1)

    def compare(self, other: Profile) -> Compared:
        """Hold another one against this one: this is A, the other B."""
        return Compared(
            comparison(side_of(self.label, self.session), side_of(other.label, other.session))
        )

    def __repr__(self) -> str:
        return f"<Profile of {self.label!r}>"

    def __str__(self) -> str:
        return self.report().rstrip("\n")

    def _repr_html_(self) -> str:
        return html_profile(self.session)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


class Compared:
    """A comparison of two profiles; a difference is B - A."""

    def __init__(self, found: Comparison) -> None:
        self.comparison = found

    @property
    def a(self) -> Side:
        """The first."""
        return self.comparison.a

    @property
    def b(self) -> Side:
        """The second."""
        return self.comparison.b

    def to_dict(self, *, top: int | None = None) -> dict[str, Any]:
        """Return it as plain values, as ``docs/compare.schema.json`` describes them."""
        found: dict[str, Any] = json.loads(compare_json(self.comparison, top=top))
        return found

    def report(
        self, format: str = "table", *, top: int | None = None, columns: int = COLUMNS
    ) -> str:
        """Return it as text: ``table`` or ``json``, as of ``tui-profiler compare``.

        Raises:
            ValueError: there is no such format.
        """
        of_table = partial(compare_table, self.comparison, columns=columns, top=top)
        written: dict[str, Callable[[], str]] = {
            "table": lambda: "\n".join(of_table()) + "\n",
            "json": lambda: compare_json(self.comparison, top=top) + "\n",
        }
        return _chosen(written, format)()

    def __repr__(self) -> str:
        return f"<Compared {self.a.label!r} and {self.b.label!r}>"

    def __str__(self) -> str:
        return self.report().rstrip("\n")

    def _repr_html_(self) -> str:
        return html_comparison(self.comparison)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def profile(  # noqa: PLR0913 # keywords, as the command line has options
    model: torch.nn.Module,
    *inputs: object,
    kwargs: Mapping[str, object] | None = None,
    seconds: float | None = None,
    forwards: int | None = None,
    name: str = "",
    tracer: str = "auto",
    train: bool = False,
    optimizer: str | type[torch.optim.Optimizer] | torch.optim.Optimizer = "adamw",
    checkpoint: str = "",
    accumulate: int = 1,
    autocast: Literal["", "bf16", "fp16"] = "",
    update: bool = False,
) -> Profile:
    """Trace a model, run it for a while, and leave it as it was.

    It runs as it is: on its device, in its mode (``eval`` or ``train``), without gradients; or,
    with ``train``, in training steps: forward, loss, backward, optimizer.

    Args:
        model: any module. One with lazy layers is copied, and keeps them lazy.
        inputs: what is passed to ``forward``, in order. Where neither these nor ``kwargs`` are
            given they are guessed, as on the command line.
        kwargs: what is passed to ``forward`` by name.
        seconds: How long to run it once it is warm: 2 by default, no limit where ``forwards`` is
            given. 0 never runs it.
        forwards: Run it exactly this many times after a first run (fewer where ``seconds`` is
            given and ends first). Forwards that measure overhead or operators count.
        name: what it is called; its class where empty.
        tracer: ``auto``, ``dispatch``, ``fx`` or ``export``.
        train: Run training steps, in train mode; ``forwards`` then counts them. The loss is the
            model's own, or made of its outputs.
        optimizer: With ``train``: a class of ``torch.optim`` or its name with settings, such as
            ``"sgd,momentum=0.9"``, or an optimizer of this model, whose class and settings are
            taken; it is not stepped itself. The learning rate is 0.
        checkpoint: With ``train``: which modules' activations are recomputed in the backward:
            ``blocks``, or a pattern of their paths.
        accumulate: With ``train``: forward and backward passes per step.
        autocast: With ``train``: the dtype of ``torch.autocast``; empty: none.
        update: With ``train``: steps move the weights, which are not put back; an optimizer that is
            passed is stepped itself.

    Raises:
        TypeError: ``model`` is not a ``torch.nn.Module``.
        ValueError: ``seconds`` or ``forwards`` is below 0, or an option needs ``train``.
        ProfileError: it could not be traced or run; the cause is what it raised.
    """
    from tui_profiler.probe.worker.failures import failure  # noqa: PLC0415
    from tui_profiler.probe.worker.in_process import ProfileOptions, profiled, require_module  # noqa: PLC0415

    require_module(model)
    if not ((seconds or 0) >= 0 and (forwards or 0) >= 0):  # Also where it is nan.
        raise ValueError("seconds and forwards are 0 or more")
    if seconds is None and forwards is None:
        seconds = SECONDS
    runs = seconds != 0 and forwards != 0
    wanted = ProfileOptions(name, seconds if runs else None, forwards if runs else None, tracer)
    if train:
        named = optimizer if isinstance(optimizer, str) else ""
        spec = TrainSpec(named, checkpoint, accumulate, autocast, update)
        wanted = dataclasses.replace(wanted, train=spec, optimizer=optimizer)
    elif checkpoint or accumulate != 1 or autocast or update:
        raise ValueError("checkpoint, accumulate, autocast and update need train=True")
    try:
        said = profiled(model, inputs, kwargs or {}, wanted)
    except Exception as error:
        failed = failure(error, "run", model)
        place = f" in {failed.where}" if failed.where else ""
        raise ProfileError(f"{failed.stage}: {failed.what}{place}") from error
    session = EMPTY
    for message in said:
        session = apply(session, message)
    return Profile(session, name)


def open_recording(path: str | Path) -> Profile:
    """Return the last figures of a recording that ``tui-profiler record`` wrote.

    Raises:
        ProfileError: it cannot be read, is none, or ends before its tree.
    """
    try:
        session, _ = last_session(path)
    except RecordingError as error:
        raise ProfileError(f"{path}: {error}; try {error.remedy}") from error
    if session.tree is None:
        raise ProfileError(f"{path} ends before its tree")
    return Profile(session, str(path))


def _chosen(written: Mapping[str, Callable[[], str]], name: str) -> Callable[[], str]:
    if name not in written:
        raise ValueError(f"there is no format {name!r}; there are {', '.join(written)}")
    return written[name]
