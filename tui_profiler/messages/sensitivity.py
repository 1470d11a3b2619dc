"""How much the model's output depends on the weights of one layer, measured by changing them.

1. A measurement begins with ``SensitivityStarted`` and ends with ``SensitivityDone``, also when it
   was refused, stopped or failed; between them one ``Sensitivity`` for each weight and the other
   for each figure that is predicted beforehand: a later one of the same weight replaces it.
2. One weight is changed at a time, all others are as they are; afterwards it is what it was.
3. A weight is a parameter with two axes or more: biases and the factors of norms are left alone.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Moment, OnWire, Part
from tui_profiler.messages.figures import Figure

Change: TypeAlias = Literal["int8", "int4", "float8_e4m3fn", "float8_e5m2", "values", "channels"]
"""To store the weight in that format and read it back; or to set to zero a share of its values,
the smallest magnitudes first, or of its output channels, those of the smallest L2 norm first."""
PerScale: TypeAlias = Literal["tensor", "channel"]


class Scheme(Part, frozen=True):
    """What is done to each weight in its turn."""

    change: Change
    per: PerScale = "channel"
    """What has a scale of its own, of a format: the tensor, or each output channel."""
    share: float = 0.5
    """Of values or channels that are set to zero; means nothing for a format."""


class MeasureSensitivity(OnWire, frozen=True):
    """Change one weight after another and measure what the model's output loses.

    The live loop stands still meanwhile. ``StopAnalysing`` ends it, and any other request but a
    look at the values, which waits.
    """

    scheme: Scheme
    under: str = ""
    """Only weights whose full name is this, or begins with this and a point; empty: all."""
    most_seconds: float = 120.0
    """After which it ends with what there is."""


class SensitivityStarted(OnWire, frozen=True):
    """A measurement begins; it replaces what was known of the same scheme and weights."""

    at: Moment
    """Seconds since the command was started."""
    scheme: Scheme
    weights: int
    """That will be measured."""
    is_random: bool
    """The weights are those of an initialisation, not of a training: a trained model's layers
    differ in other ways."""
    under: str = ""


class Sensitivity(OnWire, frozen=True):
    """What changing one weight does to the model's output, on the inputs of the live run."""

    owner: str
    """Dotted path of the module that owns it, as of its node; empty for the root."""
    name: str
    """Full name, as in the state dict."""
    scheme: Scheme
    weight_error: Figure
    """‖w′ − w‖₂ / ‖w‖₂."""
    predicted: Figure
    """Estimate of ``output_error`` by its first derivative, from random projections of the output
    carried backwards; nothing is changed for it."""
    output_error: Figure
    """‖y′ − y‖₂ / ‖y‖₂ over every floating-point number of the output."""
    largest: Figure
    """Largest |y′ − y|, in the output's own unit."""
    at: Moment = 0.0
    """Seconds since the command was started."""
    done: int = 0
    """Weights measured so far, this one included."""


class SensitivityDone(OnWire, frozen=True):
    """It is over."""

    at: Moment
    """Seconds since the command was started."""
    scheme: Scheme
    seconds: float
    """That it took."""
    measured: int
    """Weights."""
    noise: Figure
    """The same error between two forwards with nothing changed: less than that cannot be told."""
    output_largest: Figure
    """Largest |y|."""
    why: str = ""
    """Why it was refused, or ended before its time; empty where all is there."""
