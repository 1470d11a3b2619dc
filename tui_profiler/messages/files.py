"""Files: the contents of one before it is loaded, an exported ONNX file, a recording.

``Playback`` is sent by the source of a recording, not by a probe.
"""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Moment, OnWire, Part

Splice: TypeAlias = Literal["", "another recording", "repeated", "cut out"]

NO_FORWARD = "parameters only: no forward pass"
"""Why a tree of the method ``parameters`` has no figure of a forward pass."""


class FileProblem(Part, frozen=True):
    """Something in a file that is wrong, missing, or not understood."""

    file: str
    where: str
    """The place in it: ``data.pkl, byte 1042``; empty for the whole file."""
    what: str
    """One sentence, without a point."""


class FileFacts(OnWire, frozen=True):
    """What the file of a model, or of its weights, is; sent again when its checksum is known."""

    kind: str
    """By its bytes: ``safetensors``, ``torchscript``, ``exported-program``, ..."""
    content: str
    """``parameters``, ``module``, ``program``, ``other`` or ``nothing``."""
    bytes: int
    """Of all storages in use, each counted once."""
    tensors: int
    checksum: str
    """``verified``, ``failed``, ``none in this format`` or ``not checked``."""
    globals: tuple[str, ...] = ()
    """What loading it would import, at most 100."""
    untrusted_globals: tuple[str, ...] = ()
    """Those of them that run code, the dangerous ones first."""
    problems: tuple[FileProblem, ...] = ()
    """At most 100."""
    problem_count: int = 0
    hint: str = ""
    """The command that runs these parameters; empty for a file with a program."""
    is_trusted: bool = False
    """The user said that code in it may run: it is loaded after this was sent."""
    dangerous_globals: tuple[str, ...] = ()
    """Those of them that can run commands, open files or import: no model needs them."""


class Exported(OnWire, frozen=True):
    """An ONNX file was written, and passed its check."""

    path: str
    """Where to, absolute."""
    files: tuple[str, ...]
    """Names of the files: the model and, where they are many, the values beside it."""
    bytes: int
    """Of these files."""
    opset: int
    """Version of ONNX's own operators."""
    exporter: str
    """What wrote it: ``torch 2.15.0, onnx 1.23.2``."""
    operators: int
    """Nodes of the graph, functions that it calls not looked into."""
    inputs: tuple[str, ...]
    """Name, type and shape of each."""
    parameters: int
    """Of the model, shared ones once."""
    parameters_in_file: int
    """Of them, those in the graph before the exporter's own folding."""
    missing: tuple[str, ...]
    """Parameters of the model that are not there: no output depends on them."""
    values_in_file: int
    """Elements of all constants in the file as it is: parameters, buffers, and what was folded."""


class Skipped(Part, frozen=True):
    """A damaged place of a recording."""

    at: Moment
    """Of the last whole frame before it, in seconds since the command was started."""
    frames: int
    """How many frames are missing."""
    splice: Splice = ""
    """How it differs from damage: frames of another recording lie there, frames that were repeated
    or moved, or frames were cut out; empty for damage."""


class Playback(OnWire, frozen=True):
    """Origin of a recording, and its playback state."""

    speed: float
    """1 is as fast as it was recorded."""
    is_playing: bool
    begins: float
    """When its first message came, in seconds since the command that recorded it was started."""
    ends: float
    """When its last one came."""
    recorded_at: float | None = None
    """Unix time; None where the header is damaged."""
    host: str = ""
    """Name of the machine it was recorded on; empty where the header is damaged."""
    is_whole: bool = True
    """False: it was cut off."""
    skipped: tuple[Skipped, ...] = ()
    """Damage, in order; at most the first 1,000 places."""
    frames_skipped: int = 0
    """Frames that are missing in all places."""
    frames_unreadable: int = 0
    """Whole frames met so far that hold nothing this version knows."""
    dropped: int = 0
    """Messages that were never written, because the disk was slower than they came."""
