"""What a model is on paper: its facts, its tree of nodes, what each costs."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, OnWire, Part, Positive
from tui_profiler.messages.hardware import Cache

Kind: TypeAlias = Literal["module", "op"]
Method: TypeAlias = Literal[
    "dispatch:fake", "dispatch:real", "dispatch:meta", "fx", "export", "parameters"
]
"""How a tree was made; ``parameters`` are those of a file, without a forward pass."""
Phase: TypeAlias = Literal["", "prefill", "decode"]


class Environment(OnWire, frozen=True):
    """The software and machine that the worker runs on."""

    python: str
    """Version, such as ``3.11.7``."""
    torch: str
    """Version with build, such as ``2.15.0+cu130``."""
    torchvision: str
    """Version, or an empty string where it was not needed."""
    cuda: str
    """CUDA version that torch was built for; an empty string for a CPU build."""
    cpu: str
    """Processor name."""
    cores: Positive
    """Logical cores that this process may use."""
    threads: Positive
    """Intra-operator threads of torch."""
    memory_bytes: int
    """Physical memory, or the control group's limit where that is lower."""
    caches: tuple[Cache, ...] = ()
    """Of the processor, nearest to a core first; none where the kernel does not describe them."""
    grid_grams_per_kwh: float | None = None
    """Grams of CO₂ for a kilowatt-hour, as the user named it; None where they did not."""
    grid_named: str = ""
    """Whose grid that is, and of which year; empty where the grams themselves were typed."""


class InputSpec(Part, frozen=True):
    """One input of ``forward``."""

    name: str
    """Parameter name in the signature of ``forward``."""
    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    dtype: str
    """torch's name without prefix: ``float32``, ``int64``."""
    why: str
    """Where the shape came from: ``its transforms``, ``first convolution``, ``--input``."""


class ModelFacts(OnWire, frozen=True):
    """Which model this is; sent once it is loaded, before it is traced."""

    name: str
    """As given on the command line."""
    type: str
    """Class name of the root module."""
    source: str
    """Where it came from: ``torchvision``, ``demo``, or the file or module of the user's code."""
    weights: str
    """``random``, or where the values came from."""
    inputs: tuple[InputSpec, ...]
    """In the order in which they are passed."""
    batch: int | None
    """Size of the batch axis, None where the inputs have none, or none was found."""
    device: str
    """``cpu`` or ``cuda:0``."""
    training: bool
    """The root's training flag, as it is run."""
    published_gmacs: float | None = None
    """Billions of multiply-accumulates that torchvision publishes; None where it does not."""
    published_parameters: int | None = None
    """Parameter count that torchvision publishes for it."""
    why_no_batch: str = ""
    """Why ``batch`` is None; empty where that is not told."""


class Tensor(Part, frozen=True, gc=False):
    """Shape and type of a tensor that went in or came out."""

    shape: tuple[int, ...]
    """Every axis, the batch axis included."""
    dtype: str
    """torch's name without prefix."""
    bytes: int
    """Elements times the size of one."""
    name: str = ""
    """Parameter name of ``forward``, where there is one."""
    layout: str = ""
    """``channels last``: an image or a volume whose channels lie innermost; else empty."""
    grad: bool = False
    """Autograd follows it."""


class Weight(Part, frozen=True, gc=False):
    """A parameter or buffer that a module owns itself."""

    name: str
    """Attribute name, as in the state dict."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    is_buffer: bool
    shared_with: str = ""
    """Full name under which the same storage was seen first; empty where it is only here."""
    requires_grad: bool | None = None
    """None where that is not known: in a file, and in recordings of earlier versions."""


class Caller(Part, frozen=True, gc=False):
    """A line that led to a call of a module."""

    file: str
    line: Positive
    function: str
    """Name of the function that the line is in."""
    library: str = ""
    """The installed package that the file belongs to, such as ``torchvision``; empty for the user's
    own code."""


class Node(Part, frozen=True, gc=False):
    """A module or an operator: one place in the tree."""

    parent: int
    """Index of the parent node; -1 for the root. A parent's index is always lower."""
    kind: Kind
    name: str
    """Name relative to the parent: ``conv2``, ``aten::convolution``. The root's is the model's."""
    path: str
    """Dotted module path as in the state dict; an operator's is ``path/ordinal``."""
    type: str
    """Class name of a module; overload of an operator, ``aten.convolution.default``."""
    calls: int
    """Calls in one forward of the model, from this parent."""
    inputs: tuple[Tensor, ...]
    """Of the first call."""
    outputs: tuple[Tensor, ...]
    """Of the first call."""
    weights: tuple[Weight, ...]
    """Owned by this module itself, empty for an operator."""
    detail: str
    """Its settings in few words: ``256→256, 3×3, pad 1, no bias``."""
    source: str
    """``file:line`` of a module's ``forward``; of an operator, the line that ran it."""
    called_from: str
    """``file:line`` of the first call of a module; empty for an operator."""
    note: str = ""
    """What the reader must know: ``not called in this trace``, ``also at decoder.embed``."""
    is_opaque: bool = False
    """Its parts are not called on their own (compiled, scripted): its time is theirs as well."""
    callers: tuple[Caller, ...] = ()
    """Of the first call of a module: the innermost line of the user's own code, if there is one,
    then that of a library in between, or of torch where there is nothing else. Empty for an
    operator, and in recordings of earlier versions."""


class Cost(Part, frozen=True, gc=False):
    """What one node and everything below it costs in one forward of the model."""

    parameters: int
    """Scalars; a parameter that is shared inside this node is counted once."""
    parameter_bytes: int
    macs: int
    """Multiply-accumulates of convolutions, matrix products and attention."""
    flops: int
    """2 x macs plus the arithmetic of everything else that has a formula."""
    input_bytes: int
    """Activations read, summed over the operators."""
    weight_bytes: int
    """Parameters and buffers read, summed over the operators."""
    output_bytes: int
    """Written, summed over the operators."""
    ops: int
    """Operators dispatched, repeated calls included."""
    uncosted: int
    """Of ``ops``, how many have no formula: above 0, ``flops`` is a lower bound."""
    trainable: int | None = None
    """Of ``parameters``, those with ``requires_grad``; the others are frozen. None where that is
    not known: in a file, and in recordings of earlier versions."""


class TraceStarted(OnWire, frozen=True):
    """A tree follows; it replaces the one before."""

    nodes: int
    """Number of nodes that follow."""
    method: Method
    phase: Phase = ""
    """A model that generates has two trees: one of all tokens, one of the next token. Each
    replaces the one before of its phase."""
    inputs: tuple[InputSpec, ...] = ()
    """Inputs of this phase; empty if they are those in ``ModelFacts``."""


class Nodes(OnWire, frozen=True):
    """The next part of the tree, in preorder; at most 2,000 nodes."""

    nodes: tuple[Node, ...]
    costs: tuple[Cost, ...]


class Edges(OnWire, frozen=True):
    """Which operator reads what another one wrote; at most 20,000 pairs a message."""

    pairs: tuple[tuple[int, int], ...]
    """(index of the writer, index of the reader), operators only."""


class Attempt(Part, frozen=True):
    """One way of tracing that was tried."""

    method: Method
    seconds: float
    error: str
    """Empty where it succeeded."""
    variant: str = ""
    """Variant of the method: ``non-strict``, ``strict``."""
    graphs: int | None = None
    """Graphs of the tracer, including those inside operators (branches); None for a tracer without
    graphs."""
    graph_breaks: int | None = None
    """Places between graphs where the model's own Python must run; None where not known."""


class PeakMemory(Part, frozen=True):
    """Peak memory of one forward, from tensor lifetimes; bytes."""

    parameters: Figure
    buffers: Figure
    activations: Figure
    """Live at the peak, inputs included."""
    workspace: Figure
    """What scratch memory inside operators adds to the peak."""
    at: int
    """Index of the operator node at the peak; -1 where unknown."""
    tensors: int
    """Tensor outputs seen."""
    sized: int
    """Of those, allocations with a known size."""
    kv_cache: Figure | None = None
    """What a language model keeps of the tokens so far, whole, as it is after the forward; the
    activations are without it. None where the model keeps none."""
    skipped: int = 0
    """Of the tensor outputs, those whose size is not known: they have no storage of their own, as
    sparse ones. The rest, neither sized nor skipped, are in storages that were there before."""
    alive: tuple[tuple[int, int], ...] = ()
    """The largest tensors alive at the peak of activations, at most 20: (index of the operator node
    that produced it, bytes), largest first. -1 is all inputs together."""


class TraceDone(OnWire, frozen=True):
    """The tree is whole."""

    attempts: tuple[Attempt, ...]
    """In the order tried; the last one gave the tree."""
    uncosted: tuple[str, ...]
    """Names of operators without a formula."""
    bounded: tuple[str, ...]
    """Names of data-dependent operators whose output is an bound: figures depend on it."""
    peak_memory: PeakMemory


class NoDecode(OnWire, frozen=True):
    """A model that generates has no tree of the next token; sent after its tree."""

    why: str
    """A clause: ``its forward returns no cache``."""


Progress: TypeAlias = Literal["finished", "entered", "raised", "not called"]


class PartialModule(Part, frozen=True, gc=False):
    """A module of a model whose forward raised."""

    depth: int
    """Modules around it; 0 for the root."""
    name: str
    type: str
    parameters: int
    """Scalars of it and of everything below it; what is shared inside is counted once."""
    progress: Progress
    """``raised``: the innermost one that the exception passed through; ``entered``: one around it,
    or a list that is never called itself."""
    inputs: tuple[tuple[int, ...], ...] = ()
    """Shapes of the first tensors that its first call was given; none where it was not called."""
    outputs: tuple[tuple[int, ...], ...] = ()
    """Likewise of what it returned."""


class PartialTree(OnWire, frozen=True):
    """How far a forward came that raised in the trace; sent before the failure."""

    modules_shown: tuple[PartialModule, ...]
    """In preorder: all of them, or those around the one that raised."""
    first: int
    """Position of the first of them among all modules."""
    modules: int
    """Of the model."""
    finished: int
    """Of those."""


class RealCost(OnWire, frozen=True):
    """What one real forward cost, where the tree's figures depend on the data; sent after it."""

    cost: Cost | None
    """Of the whole model, on the same inputs and with its values. None where it raised."""
    why: str = ""
    """What it raised."""


class Listed(OnWire, frozen=True):
    """Names of models that can be requested."""

    names: tuple[tuple[str, str], ...]
    """(source, name)."""
