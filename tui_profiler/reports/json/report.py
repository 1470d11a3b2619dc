"""A session as one JSON object on one line: the contract that other programs read.

1. Names and units never change within one ``schema``; ``docs/report.schema.json`` is made from the
   Structs of this folder.
2. Times are seconds, sizes bytes, shares 0 to 1. Every number is finite.
3. What is not known is null, and ``unavailable`` says why, by path. A path through ``layers[]``
   or ``layers[kind=op]`` speaks of every such layer in which that field is null.
4. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, TypedDict

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from tui_profiler import messages
from tui_profiler.findings.evidence.attention import Attention, Backend, attention
from tui_profiler.messages import Autograd, Kind, Method
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import OF_THREAD, BoundKind
from tui_profiler.queries.cost.breakdown import (
    Architecture,
    BoundShare,
    architecture_of,
    bound_shares,
    breakdown,
)
from tui_profiler.queries.cost.distribution import intensity_bands, layer_types
from tui_profiler.queries.cost.totals import (
    batch_axis,
    costliest_modules,
    frozen,
    trainable,
    was_run,
    why_no_times,
)
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.queries.panel.provenance import no_class
from tui_profiler.queries.time.cores import waiting_of_forward
from tui_profiler.queries.time.forward_kinds import other_models, run_models, why_times_do_not_fit
from tui_profiler.queries.time.modes import ModeName, mode, runs_own_steps, shown_settings
from tui_profiler.queries.training import backward_bound, step_costs
from tui_profiler.queries.tree.depth import to_depth
from tui_profiler.reports import json_values
from tui_profiler.reports.json.fit import OnDevice, on_device
from tui_profiler.reports.json.sections.compilation import Compilation, compilation_section
from tui_profiler.reports.json.sections.energy import Energy, LayerEnergy, energy, layer_energy
from tui_profiler.reports.json.sections.findings import Findings, findings_section
from tui_profiler.reports.json.sections.generation import Generation, generation_section
from tui_profiler.reports.json.sections.hardware import Hardware, hardware
from tui_profiler.reports.json.sections.measured import (
    Latency,
    LayerMemory,
    MeasuredMemory,
    Overhead,
    Throughput,
    Timing,
    Whole,
    latency_section,
    layer_memory,
    measured_memory,
    overhead_section,
    throughput_section,
    timing,
    whole_section,
)
from tui_profiler.reports.json.sections.out_of_memory import OutOfMemory, out_of_memory_section
from tui_profiler.reports.json.sections.parameters import (
    File,
    ParameterValues,
    file_section,
    parameters_section,
)
from tui_profiler.reports.json.sections.predicted import (
    IntensityBand,
    LayerType,
    OperatorType,
    PredictedPeak,
    peak_memory,
)
from tui_profiler.reports.json.sections.serving import Serving, serving_section
from tui_profiler.reports.json.sections.step import Step, ValuesRead, step_section, values_section
from tui_profiler.reports.json.sections.train import Train, train_section
from tui_profiler.session import Session, Tree
from tui_profiler.session.data_dependence import Bounded

SCHEMA: Literal["tui-profiler/report/1"] = "tui-profiler/report/1"
Nothing: TypeAlias = json_values.Known[None]
"""Null, with its reason."""

_NOTHING_MOVED = "no bytes are moved"
_OF_A_RUN = "not reproducible; --measure SECONDS reports it"
_IN_FORWARD = (
    *("total_macs", "total_flops", "total_memory", "arithmetic_intensity", "coverage"),
    *("real_run", "breakdown", "layer_types", "intensity_bands", "bottlenecks"),
)
_OF_LAYER_IN_FORWARD = (
    *("calls", "macs", "flops", "uncosted", "memory", "input_bytes", "weight_bytes"),
    *("output_bytes", "input_shape", "output_shape", "arithmetic_intensity", "bottleneck"),
    *("bottleneck_reason", "waiting_share"),
    "called_from",
)


class Machine(json_values.Part, frozen=True):
    """Versions and machine; null if torch was not needed (a file of parameters)."""

    python: str
    torch: str
    torchvision: str | None
    cuda: str | None
    cpu: str
    cores: json_values.Count
    threads: json_values.Count
    memory_bytes: json_values.Count


class Sandboxed(json_values.Part, frozen=True):
    """What the sandbox denies to the worker.

    null if no file was opened without --trust, or without a sandbox.
    """

    kind: str
    landlock_abi: json_values.Count
    denied: tuple[str, ...]
    lacks: tuple[str, ...]


class Input(json_values.Closed, frozen=True):
    """One input of a forward."""

    name: str
    shape: tuple[json_values.Count, ...]
    dtype: str
    why: str
    """Source of the shape."""


class Published(json_values.Part, frozen=True):
    """Figures published by torchvision; null if there are none."""

    gmacs: float | None
    parameters: json_values.Count | None


class Mode(json_values.Closed, frozen=True):
    """Training or inference, as observed in the program."""

    name: json_values.Known[ModeName]
    """null if not known."""
    why: str
    """The evidence, or why the mode is not known."""
    autograd: list[Autograd]
    """Of the timed forwards; empty if none was observed."""
    backward_passes: json_values.Known[json_values.Count]
    """Backward passes of any model of the program since it is watched."""
    backward_passes_reached: json_values.Count
    """Of those, passes that computed gradients of this model's parameters."""
    backward_pass_s: json_values.Known[json_values.Size]
    """Median seconds of the last passes."""


class ModelOfProgram(json_values.Closed, frozen=True):
    """A model that the program ran."""

    type: str | None
    index: json_values.Above0
    """Index among the models of its class, in the order of first calls."""
    path: str | None
    """The script's variable for it, such as trainer.model; null if none was found."""
    parameters: json_values.Count
    share: json_values.Known[json_values.Share]
    """Share of the time in all models' calls."""
    shown: bool
    """Whether it is the reported model."""
    deleted: bool
    """Whether the program has deleted it."""


class TraceAttempt(json_values.Part, frozen=True):
    """One attempt to trace the model."""

    method: str
    seconds: json_values.Known[json_values.Size]
    """Its duration."""
    error: str | None
    """null if it succeeded."""
    variant: str | None
    """Variant of the method: non-strict, strict."""
    graphs: json_values.Count | None
    """Graphs of the tracer, including those inside operators."""
    graph_breaks: json_values.Count | None
    """Places between graphs where the model's own Python must run."""


class Tracer(json_values.Part, frozen=True):
    """How the layers were found."""

    method: Method
    """`parameters`: of a file, without a forward pass; figures of a forward are null."""
    attempts: Annotated[list[TraceAttempt], json_values.EACH]
    """In order; the layers are from the last one."""


class StageTime(json_values.Part, frozen=True):
    """One stage of the worker."""

    stage: str
    seconds: json_values.Known[float]


class Totals(json_values.Part, frozen=True, kw_only=True):
    """The work of one forward."""

    total_parameters: json_values.Count
    total_parameter_bytes: json_values.Count
    total_trainable_parameters: json_values.Known[json_values.Count]
    """Of total_parameters, those with requires_grad."""
    total_frozen_parameters: json_values.Known[json_values.Count]
    """Of total_parameters, those without requires_grad."""
    total_macs: json_values.Known[json_values.Count]
    total_flops: json_values.Known[json_values.Count]
    total_memory: json_values.Known[json_values.Count]
    """Bytes moved by all operators: inputs, weights and outputs."""
    arithmetic_intensity: json_values.Known[json_values.Size]
    """total_flops / total_memory."""
    peak_memory: PredictedPeak


class PhaseCost(Totals, frozen=True):
    """One of the two forwards of a model that generates tokens."""

    phase: Literal["prefill", "decode"]
    """prefill: all tokens at once; decode: the next token, with their KV cache."""
    inputs: list[Input]


class Coverage(json_values.Part, frozen=True):
    """Coverage of the cost formulas."""

    ops: json_values.Count
    """Operators dispatched in one forward."""
    costed: json_values.Count
    uncosted: tuple[str, ...]
    """Names of operators without a formula."""
    bounded: tuple[str, ...]
    """Names of operators whose output size depends on the data: figures are upper bounds."""


class RealRun(json_values.Part, frozen=True):
    """One real forward on the same inputs, if the totals depend on the data.

    null if they do not, or if the model was not run.
    """

    total_macs: json_values.Count
    total_flops: json_values.Count
    total_memory: json_values.Count
    ops: json_values.Count


class Bottleneck(json_values.Part, frozen=True):
    """Operators, FLOPs and time of one class."""

    ops: json_values.Known[json_values.Count]
    """Operators in this class, by FLOPs per byte: at most 10 is memory, above it compute."""
    flops_share: json_values.Known[json_values.Size]
    """Share of all FLOPs, by the same rule."""
    time_share: json_values.Known[json_values.Size]
    """Share of a forward's time, of modules classified by this machine's measured roofs."""


class Bottlenecks(json_values.Part, frozen=True):
    """Operators, FLOPs and time by class.

    Shares of time are of the time without waiting for a core, and add up to 1. Overhead: operators
    whose minimum time is the largest of the three floors, and Python that calls operators and
    modules. Python: on a core outside of operators. Faults: page faults, by their number and the
    measured cost of one. Blocked: asleep, neither on a core nor waiting for one. Unexplained: no
    floor explains a tenth of the time. Waiting: no class but a state of the host: the share of a
    forward in which its thread waited for a core. Older reports have no python, faults and blocked,
    and count waiting as a class.
    """

    compute: Bottleneck
    memory: Bottleneck
    overhead: Bottleneck
    python: Bottleneck
    faults: Bottleneck
    blocked: Bottleneck
    unexplained: Bottleneck
    waiting: Bottleneck


class CalledFrom(json_values.Closed, frozen=True):
    """The innermost line of the user's code on the stack of a module's first call.

    If there is none, the nearest line of a library.
    """

    file: str
    line: json_values.Above0
    function: str
    library: str | None
    """The installed package of that line; null for the user's code."""


class LayerAttention(json_values.Part, frozen=True):
    """Which attention kernel ran in a module, as operator windows recorded it."""

    backend: json_values.Known[Backend]
    """flash, efficient, cudnn, math: of scaled_dot_product_attention; eager: matmuls and softmax of
    the model's own; native: the one operator of nn.MultiheadAttention in inference."""
    operator: str | None
    """That ran; null for eager, and where the backend is not known."""
    why_not_flash: str | None
    """Derived from the traced tensors; null for flash, and where the backend is not known."""


class Layer(json_values.Part, frozen=True):
    """A module or an operator, with everything inside it."""

    name: str
    """Name in its parent; the root has the model's name."""
    path: str
    """Dotted module path as in the state dict, empty for the root; the path of an operator ends in
    /ordinal."""
    kind: Kind
    type: str
    """Class name of a module, overload of an operator."""
    depth: json_values.Count
    """0 for the root; layers are in preorder."""
    calls: json_values.Known[json_values.Count]
    """Calls per forward, from this parent."""
    parameters: json_values.Count
    """Scalars in it and below it; shared ones count once."""
    trainable_parameters: json_values.Known[json_values.Count]
    """Of those, scalars with requires_grad."""
    frozen_parameters: json_values.Known[json_values.Count]
    """Of those, scalars without requires_grad."""
    macs: json_values.Known[json_values.Count]
    """Multiply-accumulates of convolutions, matrix products and attention, in it and below it."""
    flops: json_values.Known[json_values.Count]
    """2 x macs plus the arithmetic of other operators; a lower bound if uncosted is above 0."""
    uncosted: json_values.Known[json_values.Count]
    """Operators in it without a formula."""
    bounded: Bounded | None
    """How its work depends on the data: an upper bound, or computed with a constant in place of a
    value; null if it does not."""
    memory: json_values.Known[json_values.Count]
    """Bytes: input_bytes + weight_bytes + output_bytes."""
    input_bytes: json_values.Known[json_values.Count]
    weight_bytes: json_values.Known[json_values.Count]
    output_bytes: json_values.Known[json_values.Count]
    input_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Shape of its first input."""
    output_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Shape of its first output."""
    called_from: json_values.Known[CalledFrom]
    arithmetic_intensity: json_values.Known[json_values.Size]
    """FLOPs per byte."""
    bottleneck: json_values.Known[BoundKind]
    """Measured: the class of most of its time without waiting for a core (its own operators and all
    modules inside). On paper: by its intensity; at most 10 FLOPs per byte is memory, above it
    compute. Classes may be added. Reports of older versions also have ``waiting``."""
    bottleneck_reason: json_values.Known[str]
    """The figures that decided its class, in one sentence. Not in reports of older versions."""
    waiting_share: json_values.Known[json_values.Size]
    """Share of its time in which its thread waited for a core, of its mean wall time; in no class.
    0 where a forward waits for less than 5 %. Not in reports of older versions."""
    bottleneck_measured: bool
    """Whether its class is from measured time; if not, it is from its intensity alone."""
    bottleneck_on_paper: str | None
    """The roof that is not good enough or not known, so that the class of some of its time is
    undecided; null if there is none, and without times."""
    backward_macs: json_values.Known[json_values.Count] | UnsetType = UNSET
    """Of one pass of a training step, as flops and bytes: without what is computed again. No key
    where no step was recorded."""
    backward_flops: json_values.Known[json_values.Count] | UnsetType = UNSET
    backward_bytes: json_values.Known[json_values.Count] | UnsetType = UNSET
    gradient_bytes: json_values.Known[json_values.Count] | UnsetType = UNSET
    """Of the gradients of its parameters."""
    saved_bytes: json_values.Known[json_values.Count] | UnsetType = UNSET
    """Of what was made in it and is alive when the backward begins."""
    backward_bottleneck: json_values.Known[BoundKind] | UnsetType = UNSET
    """The class of most of the time of its backward, as ``bottleneck``, where it is measured."""
    timing: json_values.Known[Timing] | UnsetType = UNSET
    energy: json_values.Known[LayerEnergy] | UnsetType = UNSET
    measured_memory: json_values.Known[LayerMemory] | UnsetType = UNSET
    attention: LayerAttention | UnsetType = UNSET
    """Of a module that computes attention itself; no key in others."""


class Remedy(json_values.Part, frozen=True):
    """What to try."""

    command: str
    result: str


class Failure(json_values.Part, frozen=True):
    """Why it ended early; else null."""

    stage: str
    what: str
    where: str | None
    at: str | None
    """file:line."""
    why: str | None
    """The cause, if computed."""
    likely: str | None
    """The likely cause."""
    remedies: list[Remedy]
    """A command to try, and what it does."""
    bad_argument: bool
    """Whether the request is invalid (exit code 2), instead of the model (exit code 1)."""


class Report(json_values.Part, frozen=True, kw_only=True):
    """One model, as `tui-profiler report --format json` prints it on one line.

    Times are seconds, sizes bytes, shares 0 to 1. A figure that is not known is null, and
    `unavailable` has the reason.
    """

    schema: Literal["tui-profiler/report/1"]
    environment: json_values.Known[Machine]
    sandbox: json_values.Known[Sandboxed]
    model: str | None
    """As requested."""
    type: str | None
    """Class name of the root module."""
    source: str | None
    weights: str | None
    """`random`, or the source of the values."""
    device: str | None
    training: bool | None
    batch: json_values.Known[json_values.Count]
    """Size of the batch axis; null if the inputs have none, or none was found."""
    inputs: list[Input] | None
    published: Published | None
    mode: Mode
    base: Whole
    other_models: list[str]
    """Classes of the other models that the program ran."""
    torch_child_processes: list[int]
    """Process ids of a script's child processes that loaded torch (the first 64, without DataLoader
    workers). They were not profiled."""
    models: Annotated[list[ModelOfProgram], json_values.EACH]
    """Every model that the program ran, the reported one first, with its share of the time in all
    models' calls."""
    file: File | None
    """null if the model is not a file."""
    tracer: Tracer
    stages: Annotated[list[StageTime], json_values.EACH]
    """Seconds since the command started."""
    total_parameters: json_values.Count
    total_parameter_bytes: json_values.Count
    total_trainable_parameters: json_values.Known[json_values.Count]
    """Of total_parameters, those with requires_grad."""
    total_frozen_parameters: json_values.Known[json_values.Count]
    """Of total_parameters, those without requires_grad."""
    total_macs: json_values.Known[json_values.Count]
    total_flops: json_values.Known[json_values.Count]
    total_memory: json_values.Known[json_values.Count]
    """Bytes moved by all operators: inputs, weights and outputs."""
    arithmetic_intensity: json_values.Known[json_values.Size]
    """total_flops / total_memory."""
    peak_memory: PredictedPeak
    measured_memory: json_values.Known[MeasuredMemory]
    train: json_values.Known[Train]
    """A training step on paper."""
    phases: Annotated[list[PhaseCost], json_values.entries("phase={phase}")]
    """The two forwards of a model that generates tokens; empty for other models. The totals of the
    report are those of prefill."""
    coverage: json_values.Known[Coverage]
    real_run: json_values.Known[RealRun]
    architecture: Architecture
    breakdown: json_values.Known[list[OperatorType]]
    layer_types: json_values.Known[list[LayerType]]
    """Layers by class, largest FLOPs first."""
    intensity_bands: json_values.Known[list[IntensityBand]]
    """Operators by FLOPs per byte."""
    bottlenecks: json_values.Known[Bottlenecks]
    layers_to_depth: json_values.Count | None
    """--depth, if it omitted layers; else null."""
    layers: Annotated[list[Layer], json_values.EACH]
    """In preorder; with --top only the most expensive modules, most expensive first."""
    latency: json_values.Known[Latency]
    throughput: json_values.Known[Throughput]
    overhead: json_values.Known[Overhead]
    hardware: json_values.Known[Hardware]
    energy: json_values.Known[Energy]
    step: json_values.Known[Step]
    """A training step, as measured."""
    generation: json_values.Known[Generation]
    """Requests of a language model."""
    findings: Findings | UnsetType = UNSET
    values: ValuesRead | UnsetType = UNSET
    """Values of a training step; no key if none were requested."""
    compilation: Compilation | UnsetType = UNSET
    on: json_values.Known[OnDevice] | UnsetType = UNSET
    """The forward on a device by its data sheet; no key without --on."""
    serving: json_values.Known[Serving] | UnsetType = UNSET
    """The inference server beside the program; no key without --serving."""
    out_of_memory: OutOfMemory | UnsetType = UNSET
    """The state of a program when memory ran out; no key where it did not."""
    parameters: json_values.Known[ParameterValues]
    failure: Failure | None
    unavailable: dict[str, str]
    """Reasons by path, such as `energy`; `layers[].timing` applies to every layer in which it is
    null, `layers[kind=op].timing` to every operator."""


class FailedReport(json_values.Part, frozen=True):
    """A model that failed before its tree was complete: the same keys, every figure is null."""

    schema: Literal["tui-profiler/report/1"]
    environment: json_values.Known[Machine]
    sandbox: json_values.Known[Sandboxed]
    model: str
    """As requested."""
    type: json_values.Known[str]
    source: json_values.Known[str]
    weights: json_values.Known[str]
    device: json_values.Known[str]
    training: json_values.Known[bool]
    mode: Nothing
    batch: json_values.Known[json_values.Count]
    inputs: json_values.Known[list[Input]]
    published: json_values.Known[Published]
    file: File | None
    tracer: Nothing
    stages: Annotated[list[StageTime], json_values.EACH]
    total_parameters: Nothing
    total_parameter_bytes: Nothing
    total_trainable_parameters: Nothing
    total_frozen_parameters: Nothing
    total_macs: Nothing
    total_flops: Nothing
    total_memory: Nothing
    arithmetic_intensity: Nothing
    peak_memory: Nothing
    measured_memory: Nothing
    train: Nothing
    phases: Nothing
    coverage: Nothing
    real_run: Nothing
    architecture: Nothing
    breakdown: Nothing
    layer_types: Nothing
    intensity_bands: Nothing
    bottlenecks: Nothing
    layers_to_depth: Nothing
    layers: Nothing
    latency: Nothing
    throughput: Nothing
    overhead: Nothing
    hardware: Nothing
    energy: Nothing
    step: Nothing
    generation: Nothing
    parameters: Nothing
    failure: Failure
    unavailable: dict[str, str]
    """Reasons by path."""


_OF_A_MODEL = (
    *("type", "source", "weights", "device", "training", "batch", "inputs", "published"),
)
"""What is known of a model before it is traced."""
_OF_A_TREE = [name for name, hint in FailedReport.__annotations__.items() if hint == "Nothing"]


def json_report(
    session: Session,
    *,
    top: int | None = None,
    depth: int | None = None,
    advises: bool = False,
    on: DataSheet | None = None,
) -> str:
    """Return the report of a session whose tree is whole, without a line end.

    Args:
        session: As it was left.
        top: Only the layers that cost most by themselves: by time, else by FLOPs.
        depth: Only layers at most so deep; the root is at depth 0. Not with ``top``.
        advises: With findings as well.
        on: With least times on this device.
    """
    return json_values.one_line(as_json(session, top=top, depth=depth, advises=advises, on=on))


def as_json(
    session: Session,
    *,
    top: int | None = None,
    depth: int | None = None,
    advises: bool = False,
    on: DataSheet | None = None,
) -> dict[str, json_values.Json]:
    """Return the same as plain values; arguments and errors as of ``report_of``."""
    return json_values.plain(report_of(session, top=top, depth=depth, advises=advises, on=on))


def layer_as_json(session: Session, index: int) -> dict[str, json_values.Json]:
    """Return one layer of a whole tree as plain values, with ``unavailable`` of its own."""
    tree = session.tree
    assert tree is not None
    found = _layer(session, tree, index, attention(session), runs=was_run(session))
    return json_values.plain(found if tree.has_forward else _of_parameters(found))


def report_of(
    session: Session,
    *,
    top: int | None = None,
    depth: int | None = None,
    advises: bool = False,
    on: DataSheet | None = None,
) -> Report:
    """Return the report as a Struct; arguments as of ``json_report``.

    Raises:
        ValueError: There is no whole tree yet.
    """
    tree, done = session.tree, session.tree.done if session.tree is not None else None
    if tree is None or done is None or not len(tree):
        raise ValueError("the model was not traced")
    model, environment = session.model, session.environment
    without_decode = session.no_decode
    not_run = None if was_run(session) else messages.Unknown(why_no_times(session))
    report = json_values.fill(
        Report,
        model,
        schema=SCHEMA,
        environment=messages.Unknown(_why_no_environment(tree))
        if environment is None
        else json_values.fill(Machine, environment),
        sandbox=_sandbox(session),
        model=model and model.name,
        batch=None if model is None else batch_axis(model),
        published=_published(model),
        mode=_mode(session),
        base=whole_section(session),
        other_models=list(other_models(session)),
        torch_child_processes=list(session.children.pids) if session.children else [],
        models=_models(session),
        file=file_section(session.file),
        tracer=_tracer(session, tree, done),
        stages=_stages(session),
        **asdict(_totals(tree, done)),
        measured_memory=measured_memory(session),
        train=train_section(session),
        phases=_phases(session),
        coverage=_coverage(tree, done),
        real_run=_real_run(session, done),
        architecture=architecture_of(tree),
        breakdown=[json_values.fill(OperatorType, one) for one in breakdown(tree)],
        layer_types=[json_values.fill(LayerType, one) for one in layer_types(tree)],
        intensity_bands=[json_values.fill(IntensityBand, one) for one in intensity_bands(tree)],
        bottlenecks=_bottlenecks(session),
        layers_to_depth=depth,
        layers=_layers(session, tree, top, depth),
        latency=not_run or latency_section(session),
        throughput=not_run or throughput_section(session),
        overhead=not_run or overhead_section(session),
        hardware=not_run or hardware(session),
        energy=not_run or energy(session),
        step=step_section(session),
        generation=generation_section(session),
        findings=findings_section(session, tree) if advises else UNSET,
        parameters=parameters_section(session, top),
        values=values_section(session),
        compilation=compilation_section(session),
        on=UNSET if on is None else on_device(session, on),
        serving=serving_section(session),
        out_of_memory=out_of_memory_section(session),
        failure=None if session.failure is None else json_values.fill(Failure, session.failure),
        unavailable={} if without_decode is None else {"phases[phase=decode]": without_decode.why},
    )
    return report if tree.has_forward else _without_forward(report)


def json_failed(name: str, session: Session, failed: messages.Failed) -> str:
    """Return the line of a model without a tree, without a line end.

    Args:
        name: As typed; the model may not have been loaded.
        session: As it was left.
        failed: Why there is no tree.
    """
    why = messages.Unknown(f"{failed.stage} failed")
    model, environment = session.model, session.environment
    report = json_values.fill(
        FailedReport,
        model,
        schema=SCHEMA,
        environment=why if environment is None else json_values.fill(Machine, environment),
        sandbox=_sandbox(session),
        model=name,
        **(
            dict.fromkeys(_OF_A_MODEL, why)
            if model is None
            else {"published": _published(model), "batch": batch_axis(model)}
        ),
        file=file_section(session.file),
        stages=_stages(session),
        failure=json_values.fill(Failure, failed),
        unavailable={},
        **dict.fromkeys(_OF_A_TREE, why),
    )
    return json_values.one_line(json_values.plain(report))


def _why_no_environment(tree: Tree) -> str:
    """Say why there is no environment: torch was not needed, or the worker was silent."""
    if tree.has_forward:
        return "the worker did not report it"
    return "torch was not imported: the parameters were read without it"


def _sandbox(session: Session) -> Sandboxed | messages.Unknown:
    hello = session.hello
    if hello is None or hello.sandbox is None:
        why = hello.why_no_sandbox if hello is not None else ""
        return messages.Unknown(why or "no file was opened without --trust")
    return json_values.fill(Sandboxed, hello.sandbox)


def _published(model: messages.ModelFacts | None) -> Published | None:
    if model is None:
        return None
    return Published(gmacs=model.published_gmacs, parameters=model.published_parameters)


def _mode(session: Session) -> Mode:
    """Return whether the program trains the model, and what that was concluded from."""
    found, seen = mode(session), session.mode
    unseen = why_no_times(session) or "no forward was observed"
    if runs_own_steps(session):
        seen, unseen = None, "passes of a worker's own steps are not observed"
    return Mode(
        name=found.name or messages.Unknown(found.why),
        why=found.why,
        autograd=sorted({one.autograd for one in shown_settings(session)}),
        backward_passes=json_values.or_why(seen.passes if seen is not None else None, unseen),
        backward_passes_reached=seen.reached if seen is not None else 0,
        backward_pass_s=json_values.or_why(seen.pass_seconds if seen is not None else None, unseen),
    )


def _models(session: Session) -> list[ModelOfProgram]:
    """Return every model that the program ran, this one first, with its share of their time."""
    tree, own = session.tree, session.model
    parameters = tree.costs[0].parameters if tree is not None and len(tree) else 0
    alone = messages.RunModel(own.type if own is not None else "", 1, "", parameters, 1.0)
    return [
        json_values.fill(
            ModelOfProgram,
            one,
            share=json_values.or_why(one.share, "no complete step was timed"),
            shown=at == 0,
        )
        for at, one in enumerate(run_models(session) or (alone,))
    ]


def _stages(session: Session) -> list[StageTime]:
    return [
        StageTime(stage=record.stage, seconds=_told(session, record.seconds))
        for record in session.stages
    ]


def _told(session: Session, seconds: float | None) -> float | messages.Unknown:
    """Return how long something of ours took; unmeasured reports of two runs are equal."""
    return (
        json_values.or_why(seconds, "it was not finished")
        if was_run(session)
        else messages.Unknown(_OF_A_RUN)
    )


def _tracer(session: Session, tree: Tree, done: messages.TraceDone) -> Tracer:
    return Tracer(
        method=tree.method,
        attempts=[
            json_values.fill(TraceAttempt, attempt, seconds=_told(session, attempt.seconds))
            for attempt in done.attempts
        ],
    )


def _phases(session: Session) -> list[PhaseCost]:
    """Return all tokens at once, then the next one; none where the model has one forward only."""
    return [
        PhaseCost(
            phase=tree.phase,
            inputs=[json_values.fill(Input, one) for one in tree.inputs],
            **asdict(_totals(tree, tree.done)),
        )
        for tree in session.phases
        if tree.done is not None and tree.phase
    ]


def _totals(tree: Tree, done: messages.TraceDone) -> Totals:
    cost, why = tree.costs[0], bound.why_not_counted(tree)
    no_ratio = why if bound.known_flops(cost) is None else _NOTHING_MOVED
    return Totals(
        total_parameters=cost.parameters,
        total_parameter_bytes=cost.parameter_bytes,
        total_trainable_parameters=trainable(cost),
        total_frozen_parameters=frozen(cost),
        total_macs=json_values.or_why(bound.known_macs(cost), why),
        total_flops=json_values.or_why(bound.known_flops(cost), why),
        total_memory=json_values.or_why(bound.known_bytes(cost), why),
        arithmetic_intensity=json_values.or_why(bound.intensity(cost), no_ratio),
        peak_memory=peak_memory(tree, done.peak_memory),
    )


def _coverage(tree: Tree, done: messages.TraceDone) -> Coverage:
    cost = tree.costs[0]
    return json_values.fill(Coverage, done, ops=cost.ops, costed=cost.ops - cost.uncosted)


def _real_run(session: Session, done: messages.TraceDone) -> RealRun | messages.Unknown:
    """Return what one real forward cost, where the totals depend on the data."""
    if not done.bounded:
        return messages.Unknown("not needed: the totals are the same in every run")
    if session.real is None:
        return messages.Unknown(why_no_times(session) or "not run")
    cost = session.real.cost
    if cost is None:
        return messages.Unknown(session.real.why)
    return RealRun(
        total_macs=cost.macs,
        total_flops=cost.flops,
        total_memory=bound.bytes_moved(cost),
        ops=cost.ops,
    )


def _bottlenecks(session: Session) -> Bottlenecks:
    shares = bound_shares(session)
    by_time = "operators are assigned to this class by their times only: see time_share"
    tree = session.tree
    is_known = tree is None or not len(tree) or bound.known_flops(tree.costs[0]) is not None
    unseen = "" if tree is None or is_known else bound.why_not_counted(tree)
    depends = tree.depends(0) if tree is not None and len(tree) else None
    none = "no operator has FLOPs" if depends is None else bound.WHY_OPEN[depends]
    not_timed = (
        why_times_do_not_fit(session)
        or why_no_times(session)
        or (bound.why_not_decided(session, 0) if tree is not None and len(tree) else "")
        or "the roofline is not calibrated"
    )

    def of(share: BoundShare, why: str) -> Bottleneck:
        no_flops = by_time if share.ops is None else none
        return Bottleneck(
            ops=json_values.or_why(None if unseen else share.ops, unseen or by_time),
            flops_share=json_values.or_why(share.flops_share, unseen or no_flops),
            time_share=json_values.or_why(share.time_share, why),
        )

    by_thread = {kind: bound.why_no_thread_class(session, kind) for kind in OF_THREAD}
    classes = {
        kind: of(share, why_no_times(session) or by_thread.get(kind, "") or not_timed)
        for kind, share in shares.items()
    }
    waited = waiting_of_forward(session)
    share = None if isinstance(waited, messages.Unknown) else waited
    why = waited.reason if isinstance(waited, messages.Unknown) else ""
    return Bottlenecks(**classes, waiting=of(BoundShare(None, None, share), why))


def _layers(session: Session, tree: Tree, top: int | None, depth: int | None) -> list[Layer]:
    chosen = to_depth(tree, depth)
    if top is not None:
        chosen = costliest_modules(session, top)
    runs = was_run(session)
    modules = attention(session)
    layers = (_layer(session, tree, index, modules, runs=runs) for index in chosen)
    if tree.has_forward:
        return list(layers)
    return [_of_parameters(layer) for layer in layers]


def _of_parameters(layer: Layer) -> Layer:
    """Return a layer with a reason in place of what only a forward pass gives."""
    return replace(
        layer, **dict.fromkeys(_OF_LAYER_IN_FORWARD, messages.Unknown(messages.NO_FORWARD))
    )


def _layer(
    session: Session, tree: Tree, index: int, modules: Mapping[int, Attention], *, runs: bool
) -> Layer:
    node, cost = tree.nodes[index], tree.costs[index]
    found = bound.bound(session, index)
    why = bound.why_not_counted(tree)
    no_ratio = why if bound.known_flops(cost) is None else _NOTHING_MOVED
    return Layer(
        name=node.name,
        path=node.path,
        kind=node.kind,
        type=node.type,
        depth=tree.depths[index],
        calls=node.calls,
        parameters=cost.parameters,
        trainable_parameters=trainable(cost),
        frozen_parameters=frozen(cost),
        macs=json_values.or_why(bound.known_macs(cost), why),
        flops=json_values.or_why(bound.known_flops(cost), why),
        uncosted=cost.uncosted,
        bounded=tree.bounded.get(index),
        memory=json_values.or_why(bound.known_bytes(cost), why),
        input_bytes=cost.input_bytes,
        weight_bytes=cost.weight_bytes,
        output_bytes=cost.output_bytes,
        input_shape=node.inputs[0].shape
        if node.inputs
        else messages.Unknown("no tensor was passed to it"),
        output_shape=node.outputs[0].shape
        if node.outputs
        else messages.Unknown("it returned no tensor"),
        called_from=_called_from(node),
        arithmetic_intensity=json_values.or_why(bound.intensity(cost), no_ratio),
        bottleneck=messages.Unknown(no_class(session, index)) if found is None else found.kind,
        bottleneck_reason=messages.Unknown(no_class(session, index))
        if found is None
        else found.reason,
        waiting_share=_waiting_share(session, found),
        bottleneck_measured=found is not None and found.measured,
        bottleneck_on_paper=bound.why_not_decided(session, index) or None,
        **_layer_training(session, index),
        timing=timing(session, index) if runs else UNSET,
        energy=layer_energy(session, index) if runs else UNSET,
        measured_memory=layer_memory(session, index) if runs else UNSET,
        attention=json_values.fill(LayerAttention, modules[index]) if index in modules else UNSET,
    )


def _waiting_share(session: Session, found: bound.Bound | None) -> float | messages.Unknown:
    """Return the share of a node's time in which its thread waited for a core, or why not."""
    if found is None or not found.measured:
        return messages.Unknown(why_no_times(session) or "its class is not measured")
    waited = waiting_of_forward(session)
    return waited if isinstance(waited, messages.Unknown) else found.waiting


class _LayerTraining(TypedDict, total=False):
    """What a layer costs in a training step beside its forward; each is a field of it."""

    backward_macs: json_values.Known[json_values.Count]
    backward_flops: json_values.Known[json_values.Count]
    backward_bytes: json_values.Known[json_values.Count]
    gradient_bytes: json_values.Known[json_values.Count]
    saved_bytes: json_values.Known[json_values.Count]
    backward_bottleneck: json_values.Known[BoundKind]


def _layer_training(session: Session, index: int) -> _LayerTraining:
    if session.training_cost is None:
        return {}
    found = step_costs.node_backward(session, index)
    why = messages.Unknown(step_costs.why_no_backward(session))
    return {
        "backward_macs": why if found is None else found.macs,
        "backward_flops": why if found is None else found.flops,
        "backward_bytes": why if found is None else found.bytes_moved,
        "gradient_bytes": why if found is None else found.gradient_bytes,
        "saved_bytes": why if found is None else found.saved_bytes,
        "backward_bottleneck": _backward_bottleneck(session, index),
    }


def _backward_bottleneck(session: Session, index: int) -> BoundKind | messages.Unknown:
    found = backward_bound.backward_bound(session, index)
    if found is not None:
        return found.kind
    why = backward_bound.why_no_backward_bound(session)
    return messages.Unknown(why or "its backward was not timed, or the roofs do not decide")


def _called_from(node: messages.Node) -> CalledFrom | messages.Unknown:
    if node.kind == "op":
        return messages.Unknown("an operator: its module was called")
    if not node.callers:
        return messages.Unknown("no line of Python called it, or an earlier version recorded it")
    return json_values.fill(CalledFrom, node.callers[0])


def _without_forward(report: Report) -> Report:
    """Return the report with a reason in place of what only a forward pass has."""
    return replace(report, **dict.fromkeys(_IN_FORWARD, messages.Unknown(messages.NO_FORWARD)))
