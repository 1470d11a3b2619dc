"""What the values of parameters are like, and how much the output depends on each weight.

1. A ``TensorStatistics`` for each tensor, as soon as it is known: after the one pass, and again,
   replacing the first, with what was asked for beside it (``pending``). An analysis begins with
   ``ParametersStarted`` and ends with ``ParametersDone``, also when it was stopped or failed.
2. NaN and infinite values are counted, and are in no other figure.
3. A tensor under a second name has no figures of its own: ``shared_with`` says where they are.
4. What was looked at on a part of the values says on which (``Sampled``): it is an estimate.

Sensitivity:

1. A measurement begins with ``SensitivityStarted`` and ends with ``SensitivityDone``, also when it
   was refused, stopped or failed; between them one ``Sensitivity`` for each weight and the other
   for each figure that is predicted beforehand: a later one of the same weight replaces it.
2. One weight is changed at a time, all others are as they are; afterwards it is what it was.
3. A weight is a parameter with two axes or more: biases and the factors of norms are left alone.
"""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part

ParameterPart: TypeAlias = Literal["channels", "spectral", "quantisation", "compression"]
"""Parts that cost more than the one pass for moments, histogram and unstructured pruning."""
ALL_PARTS: tuple[ParameterPart, ...] = ("channels", "spectral", "quantisation", "compression")

Format: TypeAlias = Literal["int8", "int4", "float8_e4m3fn", "float8_e5m2"]
Granularity: TypeAlias = Literal["tensor", "channel", "group"]
"""What shares one scale: the tensor, each row of its first axis, or each run of ``group`` values of
a row."""
SpectralMethod: TypeAlias = Literal["vector", "svd", "lanczos"]
HISTOGRAM_BINS = 64
MOST_CHANNEL_NORMS = 256


class AnalyseParameters(OnWire, frozen=True):
    """Read every value of the parameters and buffers.

    A model that runs goes on: values are read between its forwards, within the profiling budget.
    """

    under: str = ""
    """Only tensors whose full name is this, or begins with this and a point; empty: all."""
    parts: tuple[ParameterPart, ...] = ALL_PARTS
    """What is wanted beside the one pass."""
    threads: int = 0
    """Tensors analysed in parallel; 0, or more than the cores of this process: one per core."""


class StopAnalysing(OnWire, frozen=True):
    """Stop analysing the values; figures so far are kept."""


class ParametersStarted(OnWire, frozen=True):
    """An analysis begins; it replaces what was known from the one before."""

    at: Moment
    tensors: int
    """Tensors to be analysed, without tied names."""
    bytes: int
    """Of their values, each storage once."""
    is_random: bool
    """The weights are randomly initialised: their figures do not apply to a trained model."""
    weights: str
    """``random``, or where the values came from."""
    under: str = ""
    parts: tuple[ParameterPart, ...] = ALL_PARTS
    left_out: int = 0
    """Tensors beyond the maximum number, the smallest ones."""


class ParametersProgress(OnWire, frozen=True):
    """How far it is; the newest replaces those before."""

    at: Moment
    seconds: float
    """Since the analysis began."""
    tensors: int
    """Looked at."""
    bytes: int
    """Read by the one pass."""
    now: str = ""
    """Full name of a tensor that is being analysed."""
    done: float | None = None
    """Share of all work that is done, about; None: not known."""
    left_seconds: float | None = None
    """Of reading that are left, about, if nothing else runs; None: not known."""
    share: float = 1.0
    """Of the time that reading takes at present: the model runs in the rest."""


class ParametersDone(OnWire, frozen=True):
    """It is over."""

    at: Moment
    seconds: float
    """That it took."""
    tensors: int
    """Looked at."""
    bytes: int
    """Read by the one pass."""
    was_stopped: bool = False
    why: str = ""
    """Why it ended before its time, or could not begin; empty where all is there."""


class Moments(Part, frozen=True):
    """Of the finite values of one tensor, each counted once; complex ones as two real ones."""

    count: int
    """Finite values."""
    nans: int
    infinities: int
    zeros: int
    """Exactly 0, of either sign."""
    near_zeros: int
    """Smaller than ``near_zero_below`` in magnitude, zeros among them."""
    near_zero_below: float
    """About a thousandth of the root mean square; where a bin of the magnitudes begins."""
    mean: float
    std: float
    """Of the population: divided by ``count``. Both NaN where no value is finite, as the next."""
    minimum: float
    maximum: float
    skewness: Figure
    """Third central moment over std³; unknown where all values are equal."""
    kurtosis: Figure
    """Fourth central moment over std⁴, less 3: 0 for a normal distribution."""
    l1: float
    """Sum of magnitudes."""
    l2: float
    """Root of the sum of squares: of a matrix its Frobenius norm."""


class Histogram(Part, frozen=True):
    """Counts of the finite values in bins about equally wide."""

    edges: bytes
    """float64, little-endian, one more than bins, rising: least value first, largest last. A value
    on an edge between two bins is in the one further from 0. Inner edges of large float32 and
    float64 tensors are numbers of 8 significant bits, so that counts are exact after one pass."""
    counts: bytes
    """uint64, little-endian, one for each bin; at most ``HISTOGRAM_BINS``."""
    entropy_bits: float
    """Shannon entropy of the shares of the bins; at most 6 for 64 bins."""


class Sampled(Part, frozen=True):
    """The part of a tensor that was sampled for a figure."""

    values: int
    of: int
    """Values there are; where ``values`` is as many, nothing is estimated."""


class Spectral(Part, frozen=True):
    """Largest singular value of a tensor as a matrix: its first axis by all others."""

    norm: Figure
    method: SpectralMethod
    """``svd``: exact. ``vector``: one row or column, its L2 norm."""
    rows: int
    columns: int
    iterations: int = 0
    tolerance: float = 0.0
    """Of Lanczos' iteration: relative residual at which it ended, which bounds the relative
    distance to a singular value; the norm is never too large."""


class Quantised(Part, frozen=True):
    """Signal over noise of values stored in a narrower type: round to nearest, symmetric."""

    format: Format
    granularity: Granularity
    sqnr_db: Figure
    """10·log₁₀ of the sum of squares over the sum of squared errors; unknown where nothing is
    lost (infinite) or there is no signal."""
    bits: float
    """For each value, its share of the scales (float32 each) included."""
    group: int = 0
    """Values of one scale; 0 but for groups."""


NOTHING_LOST = "nothing is lost"
ALL_ZERO = "all values are 0"
"""Why there is no SQNR: the format represents every value exactly."""


class Width(Part, frozen=True):
    """The narrowest storage that keeps the signal 30 dB above the noise, and what it costs."""

    format: str
    """One of ``Format``, or the dtype that the tensor has."""
    granularity: Granularity | Literal[""]
    bits: float
    """Per value, scales included."""
    error: float
    """Root of noise over signal: relative error of the tensor, L2; 0 where it stays as it is."""
    saved_bytes: int
    why: str
    """``31.2 dB``; or why it stays as it is."""


class Pruned(Part, frozen=True):
    """How many values could be 0 for a loss of norm."""

    loss: float
    """‖w − pruned‖₂ / ‖w‖₂, the smallest magnitudes going first."""
    sparsity: float
    """Share of the finite values, zeros that are there included; of large float32 and float64
    tensors right to a thousandth of it, else exact."""


class PrunedChannels(Part, frozen=True):
    """How many channels could go for a loss of norm."""

    loss: float
    """As of ``Pruned``."""
    channels: int


class Channels(Part, frozen=True):
    """Of the rows of the first axis: output channels of a convolution or linear layer."""

    count: int
    size: int
    """Values in each."""
    norms: bytes
    """float32, little-endian: L2 norm of each, rising. At most ``MOST_CHANNEL_NORMS``, evenly
    picked by rank, smallest and largest among them."""
    dead: int
    """Of nothing but zeros."""
    outliers: int
    """Whose largest magnitude is more than 6 times the median of those of all channels."""
    first_outliers: tuple[int, ...]
    """Their indices, the largest first, at most 8."""
    pruned: tuple[PrunedChannels, ...]
    """For the losses of the tensor's own ``pruned``."""
    near_duplicates: Figure
    """Rows with |cosine| above 0.999 to an earlier row."""
    compared: int
    """Rows that were compared with each other."""
    heads: int = 0
    """Of an attention's projection, those of query, key and value apart where they are in one; 0
    elsewhere or where not known. ``head_norms`` are theirs."""
    head_norms: tuple[float, ...] = ()


class Compression(Part, frozen=True):
    """How far the bytes could be pressed together, without loss."""

    entropy_bits: float
    """For each value: sum over its bytes of the entropy of bytes at that place. No code that looks
    at one byte at a time needs less."""
    bound: float
    """Of bits there are, the share that the entropy needs."""
    codec: str
    """``zlib 6``"""
    ratio: float
    """Compressed bytes over bytes, the sample as it lies there."""
    planes_ratio: float
    """Likewise, bytes of the same place in each value put side by side first."""
    sampled: Sampled


class TensorStatistics(OnWire, frozen=True):
    """All that is known of the values of one tensor."""

    owner: str
    """Dotted path of the module that owns it, as of its node; empty for the root."""
    name: str
    """Full name, as in the state dict; its last part is that of the node's weight."""
    shape: tuple[int, ...]
    """Every axis."""
    dtype: str
    """torch's name without prefix; of a quantised tensor its own: ``qint8``."""
    bytes: int
    """That its values take where they lie: those of an expanded tensor once."""
    storage_bytes: int
    """Of the storage that it lies in."""
    alignment: int
    """Largest power of two, up to 4096, that divides where it begins in memory or in its file; 0
    where that is not known."""
    is_buffer: bool
    is_contiguous: bool = True
    shared_with: str = ""
    """Full name under which the same values were seen first: figures are there. Empty elsewhere."""
    why_none: str = ""
    """Why there are no moments; empty where there are."""
    seconds: float = 0.0
    """That it took."""
    moments: Moments | None = None
    histogram: Histogram | None = None
    pruned: tuple[Pruned, ...] = ()
    channels: Channels | None = None
    spectral: Spectral | None = None
    quantised: tuple[Quantised, ...] = ()
    quantised_on: Sampled | None = None
    width: Width | None = None
    compression: Compression | None = None
    whys: tuple[tuple[ParameterPart, str], ...] = ()
    """Why a requested part is missing."""
    pending: tuple[ParameterPart, ...] = ()
    """Parts that follow in another message."""


Change: TypeAlias = Literal["int8", "int4", "float8_e4m3fn", "float8_e5m2", "values", "channels"]
"""To store the weight in that format and read it back; or to set to zero a share of its values,
the smallest magnitudes first, or of its output channels, those of the smallest L2 norm first."""
PerScale: TypeAlias = Literal["tensor", "channel"]


class Scheme(Part, frozen=True):
    """What is done to each weight in its turn."""

    change: Change
    per: PerScale = "channel"
    """What shares one scale: the tensor, or each output channel."""
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
    scheme: Scheme
    seconds: float
    """That it took."""
    measured: int
    """Weights."""
    noise: Figure
    """The error between two forwards without a change: smaller errors are noise."""
    output_largest: Figure
    """Largest |y|."""
    why: str = ""
    """Why it was refused, or ended before its time; empty where all is there."""
