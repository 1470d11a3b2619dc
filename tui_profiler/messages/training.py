"""Training: where the time of a step goes, by part and by module, forward and backward."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part, Unknown
from tui_profiler.messages.live import CalledOperators, ThreadTime
from tui_profiler.messages.requests import TrainSpec

StepEnd: TypeAlias = Literal["optimizer", "backward"]
"""What ends a step: the optimizer's step, or, where none was seen, the backward pass."""

NOT_SEEN = Unknown("not seen in this program")


class StepParts(Part, frozen=True):
    """Seconds of each part of a step on the thread that trains; all parts add up to the step.

    A part that runs inside another is taken out of it: a forward in an optimizer's closure is
    forward, a wait for a collective in the backward is communication.
    """

    data: Figure
    """In ``next()`` of a ``DataLoader``'s iterator."""
    transfer: Figure
    """Copies from the host to a GPU."""
    forward: Figure
    """In calls of the watched model, with and without gradients."""
    backward: Figure
    """In autograd's engine; what checkpointing computes again is in it."""
    clip: Figure
    """In ``clip_grad_norm_``, ``get_total_norm`` and ``clip_grads_with_norm_``."""
    optimizer: Figure
    """In ``step()`` of optimizers."""
    communication: Figure
    """Waiting for collectives."""
    other: Figure
    """The rest: the loss, ``zero_grad``, logging, Python."""


class SourceLine(Part, frozen=True):
    """A line of the program's own code, and how much of ``other`` was spent in it."""

    function: str
    file: str
    """Path as Python knows it."""
    line: int
    share: float
    """Share of ``other``, 0 to 1, by samples of the stack."""
    text: str = ""
    """What stands in that line of the file now, at most ``LONGEST_LINE`` characters; empty where
    that cannot be read, and of several lines."""
    first_line: int = 0
    """Number of the first line, where the time is known to lie in one of the lines from it to
    ``line``, but not in which; 0: it is that of ``line``."""


LONGEST_LINE = 200


class BackwardLine(Part, frozen=True):
    """A line of the program that begins backward passes, and where their time goes.

    Seconds per step, without waits for collectives.
    """

    function: str
    file: str
    """Path as Python knows it."""
    line: int
    text: str
    """As of ``SourceLine``."""
    passes: float
    """Per step."""
    modules: float
    """In modules of the watched model, with what checkpointing runs again."""
    others: float
    """In the backward of other models."""
    outside: float
    """In the backward of what no model made: the loss, and whatever else the program computes."""


class OtherModel(Part, frozen=True):
    """Another model that the program calls in a step."""

    name: str
    """Its class, with ``#2`` for the second one of a class."""
    calls: float
    """Per step, outside of other models' calls."""
    forward: Figure
    """Seconds per step, without the watched model's where that is called inside."""
    backward: Figure
    """Likewise."""


class LoaderSettings(Part, frozen=True):
    """How a ``DataLoader`` of the program loads."""

    workers: int
    """Processes; 0: the thread that iterates does."""
    pin_memory: bool
    prefetch: int
    """Batches that each worker loads ahead; 0 without workers."""
    batch: int | None = None
    """Items in a whole batch; None where the loader does not form batches, or it is not known."""


class OptimizerSettings(Part, frozen=True):
    """How an optimizer of the program steps; None: it was left to torch, or it has no such way."""

    name: str
    """Its class."""
    foreach: bool | None
    fused: bool | None
    why_not_fused: str = ""
    """Why ``fused=True`` would raise; empty where it is not known to."""


class KeptGradients(Part, frozen=True):
    """Gradients that are set to zero between steps, as ``zero_grad(set_to_none=False)`` does.

    They are then alive in the forward, and the backward adds to them.
    """

    steps: int
    """Recorded steps in which a few gradients were told apart, before and after."""
    zeroed: int
    """In which those were the same tensors, written to in between."""
    read: int
    """Of these, in which the values of one were read, and were zero."""
    bytes: int
    """Of the gradients of all parameters."""


BetweenKind: TypeAlias = Literal["evaluation", "inference"]
"""What a program does between two steps: evaluation, with batches of a loader that does not feed
steps or with the model in eval mode; inference, other forwards without gradients (rollouts,
sampling)."""


class Between(Part, frozen=True):
    """What a program did between steps; it is part of no step. Since counting of steps began."""

    kind: BetweenKind
    count: int
    every: float
    """Mean number of steps from one to the next; 0: there was only one."""
    seconds: float
    """Mean per evaluation."""
    share: float
    """Of all time, steps included, 0 to 1."""
    forwards: Figure
    """Of the watched model, mean per evaluation."""
    forward_seconds: Figure
    """In those forwards, mean per evaluation."""
    data_seconds: float
    """Waiting for batches of a ``DataLoader``, mean per evaluation."""
    lines: tuple[SourceLine, ...] = ()
    """Where its time outside of forwards and loaders was spent, most first."""
    samples: int = 0
    """Of the stack, that ``lines`` are from."""


class TrainingStep(OnWire, frozen=True):
    """Where the time of a training step goes: means over one set of steps, and running totals.

    A step lasts from the end of one ``ended_by`` to the end of the next. The columns are packed
    native arrays, one entry for each node that was called in the set, in the order of ``nodes``;
    their figures are seconds per step, and a node's own seconds and its children's make its
    seconds, forward, backward and recomputed each.
    """

    at: Moment
    steps: int
    """Finished so far."""
    ended_by: StepEnd
    seconds: Figure
    """Mean of the set: the recorded steps among the last, without outliers."""
    p50: Figure
    """Seconds, of the last steps, recorded or not."""
    p95: Figure
    per_second: Figure
    """Steps per second over the last of them, pauses included; without what lies ``between``."""
    recorded: int
    """Steps in the set."""
    outliers: int
    """Recorded steps that were left out of the set, because they took far longer: one in which the
    program saved, for example."""
    parts: StepParts
    """Means of the set."""
    forwards: float
    """Per step, with and without gradients."""
    passes: float
    """Backward passes per step."""
    updates: float
    """Steps of optimizers per step."""
    items: Figure
    """Per step: size of the batch axis of the model's inputs, all forwards together, but not more
    than the items of the batches that a ``DataLoader`` gave: a batch that is run several times
    counts once."""
    tokens: Figure
    """Per step: elements of token ids, where the model is given them."""
    optimizers: tuple[str, ...]
    """Classes of the optimizers that step, most frequent first."""
    recompute: Figure
    """Seconds of ``parts.backward`` in which checkpointing ran modules again."""
    lines: tuple[SourceLine, ...]
    """Where ``other`` was spent, most time first."""
    samples: int
    """Number of samples of the stack in ``other`` that ``lines`` are from."""
    why_no_lines: str
    """Why samples are not among them; empty where all are."""
    why_no_backward: str
    """Why the columns have no backward; empty where they have."""
    dropped: int
    """Steps of which something was dropped, because a bounded queue was full."""
    nodes: bytes
    """uint32: index of the node."""
    forward: bytes
    """float32: seconds in the node, all its calls together."""
    own_forward: bytes
    """float32: the same without modules called inside."""
    backward: bytes
    """float32: seconds of its backward, without what was recomputed in it."""
    own_backward: bytes
    """float32."""
    recomputed: bytes
    """float32: seconds of its calls inside of the backward."""
    own_recomputed: bytes
    """float32."""
    thread: ThreadTime | None = None
    """What the thread that trains used in a step: means of ``thread_steps``; None where it is not
    known."""
    on_device: bool = False
    """Whether the columns are times on the GPU; the parts are those of the thread that trains."""
    recorded_so_far: int = 0
    """Steps, outliers among them."""
    seconds_so_far: tuple[float, ...] = ()
    """Of those steps, in each part, in the order of ``StepParts``; they add up to all seconds."""
    loader: LoaderSettings | None = None
    """Of the loader that gave most of the last batches; None where no loader was seen."""
    optimizer_settings: tuple[OptimizerSettings, ...] = ()
    """Of those that step, most frequent first."""
    kept_gradients: KeptGradients | None = None
    """None: not known, as where a step ends with a backward pass."""
    backward_lines: tuple[BackwardLine, ...] = ()
    """Where backward passes begin, most seconds first; none where no backward was timed."""
    other_models: tuple[OtherModel, ...] = ()
    """Most seconds first."""
    last: int = 0
    """Steps, recorded or not, that ``p50``, ``p95`` and ``per_second`` are of."""
    longer: int = 0
    """Of these, those that took far longer, and not because they waited for a batch: one in which
    the program saved, for example."""
    longer_share: float = 0.0
    """Of the time of all of these, that those took, 0 to 1."""
    items_error: float = 0.0
    """Of ``items``, as a share of it, half a 95 % interval: inputs change, and those of recorded
    steps are taken for all. 0: each recorded step had as many."""
    tokens_error: float = 0.0
    """Likewise of ``tokens``."""
    fetches: float = 0.0
    """Batches of a ``DataLoader`` per step."""
    between: tuple[Between, ...] = ()
    """Evaluations and inference between steps, most time first: in no other figure of a step."""
    calls_per_second: Figure = NOT_SEEN
    """Forwards of the watched model per second of all time, those between steps included."""
    lines_rest: float = 0.0
    """Share of ``other``, 0 to 1, in further lines, those with less time than ``lines``."""
    lines_unsampled: float = 0.0
    """Share of ``other``, 0 to 1, between parts of the step where no sample fell."""
    thread_steps: int = 0
    """Steps of the set in which ``thread`` was read. 0: in all, of recordings of older versions."""


class BackwardOperators(OnWire, frozen=True):
    """Operators of the backward, from windows of one step now and then in which all were seen.

    ``per_forward`` of the columns is per step here. What autograd's nodes take outside of operators
    stands under their own names (``AddmmBackward0``); own seconds of all rows, recomputed ones
    included, add up to what the engine ran. A step in a window is slower; no other figure has it.
    """

    at: Moment
    windows: int
    """So far; the columns are means of the last ``OPERATOR_WINDOWS`` of them."""
    step_seconds: float
    """From the first forward of the last step in a window to its end, or to the end of the first
    backward pass that reached the model, where a step has several."""
    pass_seconds: float
    """Of its backward passes."""
    numbered: float
    """Mean seconds of nodes that have a number: all but ``AccumulateGrad``."""
    outside: float
    """Of them, those that no call of a model made: the loss, for example."""
    operators: CalledOperators
    """By node of the module and name; of node ``OUTSIDE`` what no model made, of node
    ``OTHER_MODELS`` what other models did."""
    recomputed: CalledOperators
    """Likewise, what checkpointing ran again inside of the backward."""


OUTSIDE, OTHER_MODELS = 0xFFFFFFFF, 0xFFFFFFFE
"""Instead of a node."""


class SlowStep(OnWire, frozen=True):
    """One step that was slower than 99 of 100, or than all before it."""

    at: Moment
    """Seconds since the command was started, when it was told."""
    step: int
    """Which, counted from the first."""
    seconds: float
    parts: StepParts
    """``forward`` and ``other`` are unknown where the step was not recorded."""
    thread: ThreadTime | None
    """What the thread that trains used in it; None where that is not known."""
    lines: tuple[SourceLine, ...]
    """Where ``other`` was spent, by samples of this step."""
    began: Moment | None = None
    """Seconds since the command was started."""


StepPhase: TypeAlias = Literal["forward", "backward", "optimizer"]
TensorUse: TypeAlias = Literal["gradient", "saved", "recomputed", "temporary"]
"""What a tensor of a training step is for: the gradient of a parameter; saved for the backward;
computed again by checkpointing; anything else, gradients of activations too."""
TENSOR_USES: tuple[TensorUse, ...] = ("gradient", "saved", "recomputed", "temporary")
"""In the order of ``TrainingMemory.uses``."""


class PassCost(Part, frozen=True):
    """What some operators cost in one pass."""

    macs: int
    flops: int
    """2 x macs plus the arithmetic of everything else that has a formula."""
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    ops: int
    uncosted: int
    """Of ``ops``, how many have no formula: above 0, ``flops`` is a lower bound."""


class TrainingCost(OnWire, frozen=True):
    """What a training step costs beside the forward that the tree was made of; sent after it.

    The columns are packed native arrays, one entry for each node with a backward or a parameter
    that has a gradient, in the order of ``nodes``; their figures are of one pass and include
    everything below the node.
    """

    spec: TrainSpec | None
    """How the profiler trains the model; None: a program trains its own."""
    optimizer: str
    """Class and settings of the optimizer; empty where it was not recorded."""
    loss: str
    """What the loss is; empty where the program computes it."""
    why: str
    """Why the columns are empty; empty where they are not."""
    backward: PassCost
    """Of the whole model: without what is computed again."""
    recomputed: PassCost
    """What the backward computes again: by checkpointing, and the scores of fused attention."""
    loss_forward: PassCost
    """Of what computes the loss outside of the model."""
    loss_backward: PassCost
    """Its backward."""
    elsewhere: PassCost
    """Of operators in the backward that belong to no recorded call."""
    optimizer_step: PassCost | None
    """Of the optimizer's step; None where it was not recorded."""
    uncosted: tuple[str, ...]
    """Names of operators of backward and optimizer without a formula."""
    nodes: bytes
    """uint32: index of the node."""
    macs: bytes
    """uint64: of the backward, without what is computed again."""
    flops: bytes
    """uint64."""
    input_bytes: bytes
    """uint64."""
    weight_bytes: bytes
    """uint64."""
    output_bytes: bytes
    """uint64."""
    ops: bytes
    """uint64."""
    uncosted_ops: bytes
    """uint64."""
    again_macs: bytes
    """uint64: computed again in the backward."""
    again_flops: bytes
    """uint64."""
    again_bytes: bytes
    """uint64: inputs, weights and outputs together."""
    gradients: bytes
    """uint64: bytes of the gradients of its parameters, shared ones once."""
    saved: bytes
    """uint64: bytes of what was made in it and is alive when the backward begins."""


class AliveAtPeak(Part, frozen=True):
    """A tensor alive at the peak of a training step."""

    node: int
    """Of the operator or module that made it, -1 for what is made outside of the model."""
    use: TensorUse
    bytes: int


class Checkpointing(Part, frozen=True):
    """What it is predicted to do to compute the activations of modules again in the backward."""

    nodes: tuple[int, ...]
    """The modules: one, or all blocks of one class beside each other."""
    saved_bytes: int
    """Saved activations that go."""
    peak: int
    """Bytes of tensors and workspace at the peak of the step, then."""
    flops: int
    """Computed again in each pass, at most."""


class TrainingMemory(OnWire, frozen=True):
    """Who is alive over a training step, on paper; bytes. Sent after the tree.

    A point is one operator call: those of the forward, of the loss, of the backward, then of the
    optimizer. Of a step with more than 4,000, several neighbours are one point, which keeps the one
    with the most alive.
    """

    parameters: int
    """In distinct storages; alive all along, as the next three are."""
    buffers: int
    """And other tensors that the model keeps."""
    inputs: int
    optimizer_state: int
    gradients: int
    """When the backward has ended."""
    gradients_before: int
    """Of these, there before the forward, where gradients are accumulated."""
    saved: int
    """Activations saved for the backward, when it begins."""
    peak: int
    """The most alive at once, all of the above included, without ``workspace``."""
    workspace: Figure
    """What scratch memory inside operators adds to the peak."""
    at: int
    """Index of the node that runs at the peak, -1 for the loss or the optimizer."""
    phase: StepPhase
    """In which the peak is."""
    phase_peaks: tuple[int, int, int]
    """The most alive in forward, backward and optimizer, as ``peak`` counts it."""
    uses: tuple[int, int, int, int]
    """Alive at the peak, by ``TENSOR_USES``; gradients from before included."""
    alive: tuple[AliveAtPeak, ...]
    """The largest tensors alive at the peak, at most 20, largest first."""
    checkpointing: tuple[Checkpointing, ...]
    """The modules for which it saves most, most first."""
    calls: int
    """Operator calls of the step."""
    each: int
    """Neighbouring calls in one point."""
    backward_at: int
    """The first call of the backward."""
    optimizer_at: int
    """The first call of the optimizer."""
    nodes: bytes
    """int32, one for each point: what runs, -1 for the loss or the optimizer."""
    ordinals: bytes
    """uint32, one for each point: which call that was, from 0."""
    gradient: bytes
    """uint64, one for each point: bytes alive after it by use."""
    saved_bytes: bytes
    """uint64."""
    recomputed: bytes
    """uint64."""
    temporary: bytes
    """uint64."""
    scratch: bytes
    """int64, one for each point: allocated inside of the operator; -1 where that is not known."""
    makers: bytes
    """int32, one for each tensor, at most 20,000, the largest: the node that made it, or -1."""
    sizes: bytes
    """uint64."""
    first: bytes
    """uint32: the first call after which it is alive."""
    last: bytes
    """uint32: the last one."""
    kinds: bytes
    """uint8: its use, as a position in ``TENSOR_USES``."""
    left_out: int = 0
    """Tensors that have no entry of their own."""


ValueKind: TypeAlias = Literal["input", "activation", "gradient", "parameter gradient"]
"""What the model is given, what a module returns, the gradient of that, the gradient of one of its
parameters."""


class FoundNan(Part, frozen=True):
    """The first NaN that was seen."""

    step: int
    """Counted from the first one that was seen to end."""
    node: int
    """Index of the module: the innermost that returned it, or whose output or parameter has it as
    its gradient."""
    kind: ValueKind
    name: str
    """Path of the parameter; empty for other kinds."""
    share: float
    """Of its elements, 0 to 1."""
    clean_step: int
    """The last step before that whose values were read, and had none; 0: there was none."""
    is_in_weights: bool = False
    """Whether the module's own weights had a NaN already in that step: it is older."""


class ModelValues(OnWire, frozen=True):
    """What values are like in one step of training now and then: the last one that was read.

    The columns are packed native arrays, one entry for each module in the order of ``nodes``, a NaN
    where it is not known. Of a module that is called several times in the step they are of all its
    calls. Absolute maximum and root mean square are of finite elements, shares of all.
    """

    at: Moment
    steps: int
    """Read so far."""
    step: int
    """The last of them, counted as ``TrainingStep.steps``."""
    seconds: float
    """What reading it took on the threads of the program."""
    gradient_norm: Figure
    """Euclidean norm of the gradients of all parameters, when the optimizer stepped."""
    norm_steps: bytes
    """uint32: the last steps that were read, rising, at most ``LAST_NORMS``."""
    norms: bytes
    """float32: gradient norm of each; NaN where it is not finite or not known."""
    first_nan: FoundNan | None
    """None: none was seen so far."""
    why_not_all: str
    """Why not all values were read; empty where they were."""
    why_no_parameters: str
    """Why there are no gradients of parameters and no updates; empty where there are."""
    nodes: bytes
    """uint32: index of the node."""
    largest: bytes
    """float32: absolute maximum of what the module returns."""
    rms: bytes
    """float32."""
    zeros: bytes
    """float32: share of elements, 0 to 1, as the next two."""
    nans: bytes
    infs: bytes
    gradient_largest: bytes
    """float32: of the gradient of what it returns, as the next four."""
    gradient_rms: bytes
    gradient_zeros: bytes
    gradient_nans: bytes
    gradient_infs: bytes
    parameter_largest: bytes
    """float32: of the gradients of its own parameters, when the optimizer stepped, as the next."""
    parameter_rms: bytes
    parameter_zeros: bytes
    parameter_nans: bytes
    parameter_infs: bytes
    weight_rms: bytes
    """float32: of its own parameters before the update, by at most 4,096 elements of each."""
    update_ratio: bytes
    """float32: norm of what the optimizer added, over that of the weights, by the same elements."""


LAST_NORMS = 256
