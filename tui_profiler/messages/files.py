"""Files: the contents of one before it is loaded, and an exported ONNX file."""

from tui_profiler.messages.base import OnWire, Part

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
