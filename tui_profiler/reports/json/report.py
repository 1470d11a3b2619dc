"""A session as one JSON object on one line: the contract that other programs read.

1. Names and units never change within one ``schema``; ``docs/report.schema.json`` is made from the
   Structs of this folder.
2. Times are seconds, sizes bytes, shares 0 to 1. Every number is finite.
3. What is not known is null, and ``unavailable`` says why, by path. A path through ``layers[]``
   or ``layers[kind=op]`` speaks of every such layer in which that field is null.
4. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.model import Kind, Method
from tui_profiler.messages.program import Autograd
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.breakdown import Architecture, BoundShare, bound_shares
from tui_profiler.queries.cost.totals import dearest_modules, was_run, why_no_times
from tui_profiler.queries.cost.trainable import frozen, trainable
from tui_profiler.queries.panel.provenance import no_class
from tui_profiler.queries.time.forward_kinds import other_models, run_models, why_times_do_not_fit
from tui_profiler.queries.time.modes import ModeName, mode, shown_settings
from tui_profiler.queries.tree.depth import to_depth
from tui_profiler.reports import json_values
from tui_profiler.reports.json.energy import Energy, LayerEnergy, layer_energy
from tui_profiler.reports.json.findings import Findings, findings_section
from tui_profiler.reports.json.hardware import Hardware
from tui_profiler.reports.json.measured import (
    Latency,
    LayerMemory,
    Measured,
    MeasuredMemory,
    Overhead,
    Throughput,
    Timing,
    layer_memory,
    measured,
    measured_memory,
    timing,
)
from tui_profiler.reports.json.paper import (
    IntensityBand,
    LayerType,
    OperatorType,
    PredictedPeak,
    distribution,
    peak_memory,
)
from tui_profiler.reports.json.parameters import (
    File,
    ParameterValues,
    file_section,
    parameters_section,
)
from tui_profiler.session import Session, Tree
from tui_profiler.session.data_dependence import Bounded

SCHEMA: Literal["tui-profiler/report/1"] = "tui-profiler/report/1"
Nothing: TypeAlias = json_values.Known[None]
"""Null, with its reason."""

_NOTHING_MOVED = "it moves no bytes"
_OF_A_RUN = "not reproducible; --measure SECONDS reports it"
_IN_FORWARD = (
    *("total_macs", "total_flops", "total_memory", "arithmetic_intensity", "coverage"),
    *("real_run", "breakdown", "layer_types", "intensity_bands", "bottlenecks"),
)
_OF_LAYER_IN_FORWARD = (
    *("calls", "macs", "flops", "uncosted", "memory", "input_bytes", "weight_bytes"),
    *("output_bytes", "input_shape", "output_shape", "arithmetic_intensity", "bottleneck"),
    "called_from",
)
_OF_A_TREE = (
    *("mode", "tracer", "total_parameters", "total_parameter_bytes", "total_macs", "total_flops"),
    *("total_memory", "arithmetic_intensity", "peak_memory", "measured_memory", "phases"),
    *("coverage", "real_run", "architecture", "breakdown", "layer_types", "intensity_bands"),
    *(
        "bottlenecks",
        "layers_to_depth",
        "layers",
        "latency",
        "throughput",
        "overhead",
        "hardware",
        "energy",
    ),
    *("total_trainable_parameters", "total_frozen_parameters", "parameters"),
)


class Machine(json_values.Part, frozen=True):
    """Versions and machine; null where torch was not needed: a file of parameters."""

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

    null where no file was opened without --trust, or there is no sandbox.
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
    """Where the shape came from."""


class Published(json_values.Part, frozen=True):
    """What torchvision publishes of it; null where it does not."""

    gmacs: float | None
    parameters: json_values.Count | None


class Mode(json_values.Closed, frozen=True):
    """Whether the program trains the model or infers with it, as observed."""

    name: json_values.Known[ModeName]
    """null where it is not known."""
    why: str
    """What it was concluded from, or why it is not known."""
    autograd: list[Autograd]
    """Of the forwards that times speak of; empty where none was observed."""
    backward_passes: json_values.Known[json_values.Count]
    """Of any model of the program, since it is watched."""
    backward_passes_reached: json_values.Count
    """Of those, passes that computed gradients of this model's parameters."""
    backward_pass_s: json_values.Known[json_values.Size]
    """Median seconds of the last passes."""


class ModelOfProgram(json_values.Closed, frozen=True):
    """A model that the program ran."""

    type: str | None
    index: json_values.Above0
    """Among the models of its class, in the order of their first calls."""
    path: str | None
    """The variable through which the script reaches it, such as trainer.model; null where none was
    found."""
    parameters: json_values.Count
    share: json_values.Known[json_values.Share]
    """Of the time in all models' calls."""
    shown: bool
    """Whether it is the one that is reported."""


class TraceAttempt(json_values.Part, frozen=True):
    """One way in which the model was traced."""

    method: str
    seconds: json_values.Known[json_values.Size]
    """What it took."""
    error: str | None
    """null where it succeeded."""
    variant: str | None
    """What tells two ways of one method apart: non-strict, strict."""
    graphs: json_values.Count | None
    """Graphs that the tracer made, those inside of operators included."""
    graph_breaks: json_values.Count | None
    """Places between graphs where the model's own Python must run."""


class Tracer(json_values.Part, frozen=True):
    """How the layers were found."""

    method: Method
    """`parameters`: those of a file, without a forward pass; what only a forward gives is null."""
    attempts: Annotated[list[TraceAttempt], json_values.EACH]
    """In the order tried; the last one gave the layers."""


class StageTime(json_values.Part, frozen=True):
    """One stage of the worker."""

    stage: str
    seconds: json_values.Known[float]


class PhaseCost(json_values.Part, frozen=True):
    """One of the two forwards of a model that generates tokens."""

    phase: Literal["prefill", "decode"]
    """prefill: all tokens at once; decode: the next one, with a cache of those."""
    inputs: list[Input]
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


class Coverage(json_values.Part, frozen=True):
    """Which operators have a formula."""

    ops: json_values.Count
    """Operators dispatched in one forward."""
    costed: json_values.Count
    uncosted: tuple[str, ...]
    """Names of operators without a formula."""
    bounded: tuple[str, ...]
    """Names of operators whose output's size depends on the data: figures are upper bounds."""


class RealRun(json_values.Part, frozen=True):
    """One real forward on the same inputs, where the totals depend on what is in the data.

    null where they do not, or where the model was not run.
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
    """Share of all FLOPs, likewise."""
    time_share: json_values.Known[json_values.Size]
    """Share of a forward's time, of modules against this machine's measured ceilings."""


class Bottlenecks(json_values.Part, frozen=True):
    """Operators, FLOPs and time by class.

    Overhead: of three floors the least time of calling the operators is the largest. Unexplained:
    no floor explains a tenth of the time; older reports count it as overhead. Waiting: the thread
    that runs forwards waited for a core; older reports count it with the others.
    """

    compute: Bottleneck
    memory: Bottleneck
    overhead: Bottleneck
    unexplained: Bottleneck
    waiting: Bottleneck


class CalledFrom(json_values.Closed, frozen=True):
    """The innermost line of the user's own code that led to the first call of a module.

    If there is none, the nearest line of a library.
    """

    file: str
    line: json_values.Above0
    function: str
    library: str | None
    """The installed package that the line belongs to; null for the user's own code."""


class Layer(json_values.Part, frozen=True):
    """A module or an operator, with all inside."""

    name: str
    """Name relative to its parent, as the model has it; the root's is the model's."""
    path: str
    """Dotted module path as in the state dict, empty for the root; an operator's ends in
    /ordinal."""
    kind: Kind
    type: str
    """Class name of a module, overload of an operator."""
    depth: json_values.Count
    """0 for the root; layers are in preorder."""
    calls: json_values.Known[json_values.Count]
    """Calls in one forward, from this parent."""
    parameters: json_values.Count
    """Scalars of it and all inside; a shared one counts once."""
    trainable_parameters: json_values.Known[json_values.Count]
    """Of those, scalars with requires_grad."""
    frozen_parameters: json_values.Known[json_values.Count]
    """Of those, scalars without requires_grad."""
    macs: json_values.Known[json_values.Count]
    """Multiply-accumulates of convolutions, matrix products and attention, of it and all inside."""
    flops: json_values.Known[json_values.Count]
    """2 x macs plus the arithmetic of everything else; a lower bound where uncosted is above 0."""
    uncosted: json_values.Known[json_values.Count]
    """Operators in it that have no formula."""
    bounded: Bounded | None
    """Whether its work depends on the data: an upper bound, or from a constant in place of a value;
    null where it does not."""
    memory: json_values.Known[json_values.Count]
    """Bytes: input_bytes + weight_bytes + output_bytes."""
    input_bytes: json_values.Known[json_values.Count]
    weight_bytes: json_values.Known[json_values.Count]
    output_bytes: json_values.Known[json_values.Count]
    input_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Of its first input, every axis."""
    output_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Of its first output, every axis."""
    called_from: json_values.Known[CalledFrom]
    arithmetic_intensity: json_values.Known[json_values.Size]
    """FLOPs per byte."""
    bottleneck: json_values.Known[bound.BoundKind]
    """Measured: the class of most of its time, which is that of its own operators and of all
    modules inside. On paper: by its intensity, at most 10 FLOPs per byte is memory, above it
    compute."""
    bottleneck_measured: bool
    """Whether its class is from measured time; else it is from its intensity alone."""
    bottleneck_on_paper: str | None
    """Which roof is not good enough or not known, and leaves the class open of some of its time;
    null where none does, and without times."""
    timing: json_values.Known[Timing] | UnsetType = UNSET
    energy: json_values.Known[LayerEnergy] | UnsetType = UNSET
    measured_memory: json_values.Known[LayerMemory] | UnsetType = UNSET


class Remedy(json_values.Part, frozen=True):
    """What to try."""

    command: str
    result: str


class Failure(json_values.Part, frozen=True):
    """What ended it early; null where nothing did."""

    stage: str
    what: str
    where: str | None
    at: str | None
    """file:line."""
    why: str | None
    """The cause, where it was computed."""
    likely: str | None
    """The cause, where it is a guess."""
    remedies: list[Remedy]
    """What to try, ready to type, and what it does."""
    bad_argument: bool
    """The request was wrong (exit code 2), not the model (exit code 1)."""


class Report(json_values.Part, frozen=True, kw_only=True):
    """One model, as `tui-profiler report --format json` prints it on one line.

    Times are seconds, sizes bytes, shares 0 to 1. A figure that is not known is null and
    `unavailable` says why.
    """

    schema: Literal["tui-profiler/report/1"]
    environment: json_values.Known[Machine]
    sandbox: json_values.Known[Sandboxed]
    model: str | None
    """As asked for."""
    type: str | None
    """Class name of the root module."""
    source: str | None
    weights: str | None
    """`random`, or where the values came from."""
    device: str | None
    training: bool | None
    batch: json_values.Count | None
    """Size of the batch axis; null where the inputs have none."""
    inputs: list[Input] | None
    published: Published | None
    mode: Mode
    other_models: list[str]
    """Classes of the models that the program ran beside the one that is reported."""
    torch_child_processes: list[int]
    """Process ids of a script's child processes that loaded torch (the first 64, without DataLoader
    workers). They were not profiled."""
    models: Annotated[list[ModelOfProgram], json_values.EACH]
    """Every model that the program ran, the reported one first, with its share of the time in all
    models' calls."""
    file: File | None
    """null where the model is not a file."""
    tracer: Tracer
    stages: Annotated[list[StageTime], json_values.EACH]
    """From the command to here."""
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
    phases: Annotated[list[PhaseCost], json_values.entries("phase={phase}")]
    """The two forwards of a model that generates tokens; empty for any other. The figures of the
    whole report are those of prefill."""
    coverage: json_values.Known[Coverage]
    real_run: json_values.Known[RealRun]
    architecture: Architecture
    breakdown: json_values.Known[list[OperatorType]]
    layer_types: json_values.Known[list[LayerType]]
    """Layers by class, most FLOPs first."""
    intensity_bands: json_values.Known[list[IntensityBand]]
    """Operators by FLOPs per byte."""
    bottlenecks: json_values.Known[Bottlenecks]
    layers_to_depth: json_values.Count | None
    """Deeper layers were left out, by --depth; null where none were."""
    layers: Annotated[list[Layer], json_values.EACH]
    """In preorder; with --top only the most expensive modules, most first."""
    latency: json_values.Known[Latency]
    throughput: json_values.Known[Throughput]
    overhead: json_values.Known[Overhead]
    hardware: json_values.Known[Hardware]
    energy: json_values.Known[Energy]
    findings: Findings | UnsetType = UNSET
    parameters: json_values.Known[ParameterValues]
    failure: Failure | None
    unavailable: dict[str, str]
    """Reasons by path, such as `energy`; `layers[].timing` speaks of every layer in which it is
    null, `layers[kind=op].timing` of every operator."""


class FailedReport(json_values.Part, frozen=True):
    """A model that failed before its tree was whole: the same keys, and every figure is null."""

    schema: Literal["tui-profiler/report/1"]
    environment: json_values.Known[Machine]
    sandbox: json_values.Known[Sandboxed]
    model: str
    """As asked for."""
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
    parameters: Nothing
    failure: Failure
    unavailable: dict[str, str]
    """Reasons by path."""


class _Named(TypedDict):
    """What is known of a model before it is traced; each is a field of the report."""

    type: str
    source: str
    weights: str
    device: str
    training: bool
    batch: int | None
    inputs: list[Input]
    published: Published


class _Totals(TypedDict):
    """The work of one forward; each is a field of the report and of a phase."""

    total_parameters: int
    total_parameter_bytes: int
    total_trainable_parameters: int | messages.Unknown
    total_frozen_parameters: int | messages.Unknown
    total_macs: int | messages.Unknown
    total_flops: int | messages.Unknown
    total_memory: int | messages.Unknown
    arithmetic_intensity: float | messages.Unknown


def json_report(
    session: Session, *, top: int | None = None, depth: int | None = None, advises: bool = False
) -> str:
    """Return the report of a session whose tree is whole, without a line end.

    Args:
        session: As it was left.
        top: Only the layers that cost most by themselves: by time, else by FLOPs.
        depth: Only layers at most so deep; the root is at depth 0. Not with ``top``.
        advises: With findings as well.
    """
    return json_values.one_line(as_json(session, top=top, depth=depth, advises=advises))


def as_json(
    session: Session, *, top: int | None = None, depth: int | None = None, advises: bool = False
) -> dict[str, json_values.Json]:
    """Return the same as plain values; arguments and errors as of ``report_of``."""
    return json_values.plain(report_of(session, top=top, depth=depth, advises=advises))


def report_of(
    session: Session, *, top: int | None = None, depth: int | None = None, advises: bool = False
) -> Report:
    """Return the report as a Struct; arguments as of ``json_report``.

    Raises:
        ValueError: There is no whole tree yet.
    """
    tree, done = session.tree, session.tree.done if session.tree is not None else None
    if tree is None or done is None or not len(tree):
        raise ValueError("the model was not traced")
    model, environment = session.model, session.environment
    known: _Named | dict[str, None] = (
        _named(model) if model is not None else dict.fromkeys(_Named.__annotations__)
    )
    without_decode = session.no_decode
    report = Report(
        schema=SCHEMA,
        environment=messages.Unknown(_why_no_environment(tree))
        if environment is None
        else _machine(environment),
        sandbox=_sandbox(session),
        model=model.name if model is not None else None,
        **known,
        mode=_mode(session),
        other_models=list(other_models(session)),
        torch_child_processes=list(session.children.pids) if session.children else [],
        models=_models(session),
        file=file_section(session.file),
        tracer=_tracer(session, tree, done),
        stages=_stages(session),
        **_totals(tree),
        peak_memory=peak_memory(tree, done.peak_memory),
        measured_memory=measured_memory(session),
        phases=_phases(session),
        coverage=_coverage(tree, done),
        real_run=_real_run(session, done),
        **distribution(tree),
        bottlenecks=_bottlenecks(session),
        layers_to_depth=depth,
        layers=_layers(session, tree, top, depth),
        **(measured(session) if was_run(session) else _without_times(why_no_times(session))),
        findings=findings_section(session, tree) if advises else UNSET,
        parameters=parameters_section(session, top),
        failure=None if session.failure is None else _failure(session.failure),
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
    report = FailedReport(
        schema=SCHEMA,
        environment=why if environment is None else _machine(environment),
        sandbox=_sandbox(session),
        model=name,
        **(dict.fromkeys(_Named.__annotations__, why) if model is None else _named(model)),
        file=file_section(session.file),
        stages=_stages(session),
        failure=_failure(failed),
        unavailable={},
        **dict.fromkeys(_OF_A_TREE, why),
    )
    return json_values.one_line(json_values.plain(report))


def _why_no_environment(tree: Tree) -> str:
    """Say why there is no environment: torch was not needed, or the worker was silent."""
    if tree.has_forward:
        return "the worker did not report it"
    return "torch was not imported: the parameters were read without it"


def _machine(found: messages.Environment) -> Machine:
    return json_values.taken(
        Machine, found, torchvision=found.torchvision or None, cuda=found.cuda or None
    )


def _sandbox(session: Session) -> Sandboxed | messages.Unknown:
    hello = session.hello
    if hello is None or hello.sandbox is None:
        why = hello.why_no_sandbox if hello is not None else ""
        return messages.Unknown(why or "no file was opened without --trust")
    found = hello.sandbox
    return json_values.taken(Sandboxed, found)


def _named(model: messages.ModelFacts) -> _Named:
    return {
        "type": model.type,
        "source": model.source,
        "weights": model.weights,
        "device": model.device,
        "training": model.training,
        "batch": model.batch,
        "inputs": _inputs(model.inputs),
        "published": Published(gmacs=model.published_gmacs, parameters=model.published_parameters),
    }


def _mode(session: Session) -> Mode:
    """Return whether the program trains the model, and what that was concluded from."""
    found, seen = mode(session), session.mode
    unseen = why_no_times(session) or "no forward was observed"
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
        ModelOfProgram(
            type=one.type or None,
            index=one.index,
            path=one.path or None,
            parameters=one.parameters,
            share=json_values.or_why(one.share, "no complete step was timed"),
            shown=at == 0,
        )
        for at, one in enumerate(run_models(session) or (alone,))
    ]


def _inputs(inputs: tuple[messages.InputSpec, ...]) -> list[Input]:
    return [json_values.taken(Input, part) for part in inputs]


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
            TraceAttempt(
                method=attempt.method,
                seconds=_told(session, attempt.seconds),
                error=attempt.error or None,
                variant=attempt.variant or None,
                graphs=attempt.graphs,
                graph_breaks=attempt.graph_breaks,
            )
            for attempt in done.attempts
        ],
    )


def _phases(session: Session) -> list[PhaseCost]:
    """Return all tokens at once, then the next one; none where the model has one forward only."""
    return [
        PhaseCost(
            phase=tree.phase,
            inputs=_inputs(tree.inputs),
            **_totals(tree),
            peak_memory=peak_memory(tree, tree.done.peak_memory),
        )
        for tree in session.phases
        if tree.done is not None and tree.phase
    ]


def _totals(tree: Tree) -> _Totals:
    cost, why = tree.costs[0], bound.why_not_counted(tree)
    no_ratio = _NOTHING_MOVED if bound.is_counted(cost) else why
    return {
        "total_parameters": cost.parameters,
        "total_parameter_bytes": cost.parameter_bytes,
        "total_trainable_parameters": trainable(cost),
        "total_frozen_parameters": frozen(cost),
        "total_macs": json_values.or_why(bound.known_macs(cost), why),
        "total_flops": json_values.or_why(bound.known_flops(cost), why),
        "total_memory": json_values.or_why(bound.known_bytes(cost), why),
        "arithmetic_intensity": json_values.or_why(bound.intensity(cost), no_ratio),
    }


def _coverage(tree: Tree, done: messages.TraceDone) -> Coverage:
    cost = tree.costs[0]
    return Coverage(
        ops=cost.ops,
        costed=cost.ops - cost.uncosted,
        uncosted=done.uncosted,
        bounded=done.bounded,
    )


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
    is_known = tree is None or not len(tree) or bound.is_counted(tree.costs[0])
    unseen = "" if tree is None or is_known else bound.why_not_counted(tree)
    not_timed = (
        why_times_do_not_fit(session) or why_no_times(session) or "the roofline is not calibrated"
    )

    def of(share: BoundShare) -> Bottleneck:
        no_flops = by_time if share.ops is None else "no operator has FLOPs"
        return Bottleneck(
            ops=json_values.or_why(None if unseen else share.ops, unseen or by_time),
            flops_share=json_values.or_why(share.flops_share, unseen or no_flops),
            time_share=json_values.or_why(share.time_share, not_timed),
        )

    return Bottlenecks(
        compute=of(shares["compute"]),
        memory=of(shares["memory"]),
        overhead=of(shares["overhead"]),
        unexplained=of(shares["unexplained"]),
        waiting=of(shares["waiting"]),
    )


def _layers(session: Session, tree: Tree, top: int | None, depth: int | None) -> list[Layer]:
    chosen = to_depth(tree, depth)
    if top is not None:
        chosen = dearest_modules(session, top)
    runs = was_run(session)
    layers = (_layer(session, tree, index, runs=runs) for index in chosen)
    if tree.has_forward:
        return list(layers)
    without = dict.fromkeys(_OF_LAYER_IN_FORWARD, messages.Unknown(messages.NO_FORWARD))
    return [replace(layer, **without) for layer in layers]


def _layer(session: Session, tree: Tree, index: int, *, runs: bool) -> Layer:
    node, cost = tree.nodes[index], tree.costs[index]
    found = bound.bound(session, index)
    why = bound.why_not_counted(tree)
    no_ratio = _NOTHING_MOVED if bound.is_counted(cost) else why
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
        bottleneck_measured=found is not None and found.measured,
        bottleneck_on_paper=bound.why_not_decided(session, index) or None,
        timing=timing(session, index) if runs else UNSET,
        energy=layer_energy(session, index) if runs else UNSET,
        measured_memory=layer_memory(session, index) if runs else UNSET,
    )


def _called_from(node: messages.Node) -> CalledFrom | messages.Unknown:
    if node.kind == "op":
        return messages.Unknown("an operator: its module was called")
    if not node.callers:
        return messages.Unknown("no line of Python called it, or an earlier version recorded it")
    return json_values.taken(CalledFrom, node.callers[0], library=node.callers[0].library or None)


def _without_times(reason: str) -> Measured:
    why = messages.Unknown(reason)
    return {
        "latency": why,
        "throughput": why,
        "overhead": why,
        "hardware": why,
        "energy": why,
    }


def _without_forward(report: Report) -> Report:
    """Return the report with a reason in place of what only a forward pass gives."""
    return replace(report, **dict.fromkeys(_IN_FORWARD, messages.Unknown(messages.NO_FORWARD)))


def _failure(failure: messages.Failed) -> Failure:
    return Failure(
        stage=failure.stage,
        what=failure.what,
        where=failure.where or None,
        at=failure.at or None,
        why=failure.why or None,
        likely=failure.likely or None,
        remedies=[Remedy(command=one.command, result=one.result) for one in failure.remedies],
        bad_argument=failure.bad_argument,
    )
