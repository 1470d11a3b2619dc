"""What the values of a model are like in the steps that were read, and where the first NaN was.

Steps are read while somebody wants it, as rarely as a part of the budget asks for.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from torch import nn

from tui_profiler.messages import Figure, FoundNan, ModelValues, Unknown
from tui_profiler.messages.training import LAST_NORMS
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.forward_pattern import event_nodes
from tui_profiler.probe.measure.clock.tree_index import NOWHERE, TreeIndex
from tui_profiler.probe.measure.values.statistics import DeviceRows, Statistics
from tui_profiler.probe.measure.values.step_values import ForwardValues, StepValues
from tui_profiler.probe.torch_compat.internals import parameters_of
from tui_profiler.probe.torch_compat.modules import each_parameter, modules_in_order

BUDGET = 0.5
"""The part of the budget of watching that reading values may take."""
LEAST_SECONDS = 1.0
"""From one step that is read to the next."""
STATISTICS = ("largest", "rms", "zeros", "nans", "infs")
GROUPS = ("", "gradient_", "parameter_")


class _Step:
    """One step that was read, by node."""

    def __init__(self, values: StepValues, root: int) -> None:
        self._values = values
        self._root = root
        self.groups: dict[str, dict[int, Statistics]] = {group: {} for group in GROUPS}
        self.updates: dict[int, tuple[Statistics, Statistics]] = {}
        """Of own parameters: what was added, and the weights before."""
        self._whose: dict[int, tuple[int, str]] = {}
        """Node and parameter of each row, the innermost node of several."""

    def add(self, group: str, node: int, row: int, name: str = "") -> None:
        """Add what one row tells of a node."""
        if node == NOWHERE:
            return
        self._whose.setdefault(row, (node, name))
        found, known = self._values.statistics(row), self.groups[group].get(node)
        self.groups[group][node] = found if known is None else known.joined(found)

    def note(self, node: int, row: int) -> None:
        """Say whose a row is that is in no column."""
        self._whose.setdefault(row, (node, ""))

    def add_update(self, node: int, change: Statistics, weight: Statistics) -> None:
        """Add what the optimizer did to one of the parameters of a node."""
        if (known := self.updates.get(node)) is not None:
            change, weight = known[0].joined(change), known[1].joined(weight)
        if node != NOWHERE:
            self.updates[node] = change, weight

    def first_nan(self, step: int, clean_step: int) -> FoundNan | None:
        """Return the first NaN that the program came to in it."""
        for place, row in enumerate(self._values.rows):
            if row.kind == "update":
                continue
            found = self._values.statistics(place)
            if found.nans:
                node, name = self._whose.get(place, (self._root, ""))
                share = found.nans / found.elements
                is_in_weights = node in self.updates and self.updates[node][1].nans > 0
                return FoundNan(step, node, row.kind, name, share, clean_step, is_in_weights)
        return None


class ValueReader:
    """Says which steps are read, and adds them up.

    Args:
        index: of the model's tree.
        budget: what watching may cost, as a share.
        least_seconds: from one step that is read to the next.
    """

    def __init__(
        self,
        index: TreeIndex,
        budget: float,
        least_seconds: float = LEAST_SECONDS,
    ) -> None:
        self._index = index
        self._budget = budget
        self._least_seconds = least_seconds
        self._root = index.root
        self.is_wanted = False
        """Whether steps are to be read."""
        self.seconds = 0.0
        """That reading took so far, on the program's threads."""
        self._due = 0.0
        self._under_way: StepValues | None = None
        """The step that is read, until it is added or given up."""
        self._device: DeviceRows | None = None
        self._parameters: dict[int, tuple[int, str]] = {}
        """Node and path of each, by ``id``."""
        self._steps = self._step = self._clean_step = 0
        self._last: _Step | None = None
        self._first_nan: FoundNan | None = None
        self._norms: deque[tuple[int, float]] = deque(maxlen=LAST_NORMS)
        self._norm: Figure = Unknown("no step was read")
        self._seconds = 0.0
        self._why_not_all = self._why_no_parameters = ""
        self._is_new = False

    def next_step(self, model: nn.Module | None, now: float) -> StepValues | None:
        """Return what reads the next step, None where it is not to be read.

        Args:
            model: whose step it is; None: it is gone.
            now: second of ``time.perf_counter``.
        """
        if not self.is_wanted or self._under_way is not None or now < self._due or model is None:
            return None
        first = next(each_parameter(model), None)
        is_on_gpu = first is not None and first.device.type == "cuda"
        if is_on_gpu and self._device is None:
            self._device = DeviceRows(is_pinned=True)
        if self._device is not None:
            self._device.clear()
        self._parameters = {}
        for path, module in modules_in_order(model):
            node = self._index.anywhere(module)
            for name, one in parameters_of(module).items():
                if one is not None:
                    whole = f"{path}.{name}" if path else name
                    self._parameters.setdefault(id(one), (node, whole))
        self._under_way = StepValues(frozenset(self._parameters), self._device)
        return self._under_way

    def give_up(self) -> None:
        """Expect no step any more: what was to be read is not told, should it still come."""
        if self._under_way is not None:
            self._under_way.close()
            self._under_way = None

    def add(self, values: StepValues, forwards: Iterable[Forward], step: int, now: float) -> None:
        """Add a step that was read, and say when the next one is due.

        One that was given up meanwhile is left out: its rows on a GPU may be those of the next.

        Args:
            values: of it.
            forwards: in it.
            step: which it was.
            now: second of ``time.perf_counter``.
        """
        self.seconds += values.seconds
        if values is not self._under_way:
            return
        self._under_way = None
        self._due = now + max(self._least_seconds, values.seconds / (BUDGET * self._budget))
        found = _Step(values, self._root)
        for forward in forwards:
            if isinstance(forward.values, ForwardValues) and forward.values.step is values:
                self._add_forward(found, forward, forward.values)
        norm = 0.0
        for one, row in values.gradients.items():
            node, name = self._parameters[one]
            found.add("parameter_", node, row, name)
            gradient = values.statistics(row)
            is_finite = not gradient.nans and not gradient.infs
            norm = (
                math.hypot(norm, gradient.norm) if is_finite and not math.isnan(norm) else math.nan
            )
        for one, (change, weight) in values.updates.items():
            node, _ = self._parameters[one]
            found.add_update(node, values.statistics(change), values.statistics(weight))
        self._take(found, values, step, norm if values.gradients else None)

    def _add_forward(self, found: _Step, forward: Forward, values: ForwardValues) -> None:
        began, _ = forward.call_times()
        nodes = event_nodes(forward.modules, began, self._index)
        for row in values.inputs:
            found.note(self._root, row)
        if len(values.outputs) != len(nodes):
            return  # A handler of a signal raised between the times of a call and its values.
        for node, rows, number in zip(nodes, values.outputs, values.numbers, strict=True):
            for row in rows:
                found.add("", node, row)
            gradient = values.gradients.get(number)
            if gradient is not None:
                found.add("gradient_", node, gradient)

    def _take(self, found: _Step, values: StepValues, step: int, norm: float | None) -> None:
        self._steps, self._step, self._last = self._steps + 1, step, found
        self._seconds, self._is_new = values.seconds, True
        self._why_not_all = values.trouble
        self._why_no_parameters = "" if values.gradients else values.why_no_gradients
        if norm is None:
            self._norm = Unknown(self._why_no_parameters or "no parameter has a gradient")
        else:
            self._norm = norm if math.isfinite(norm) else Unknown("not finite")
        self._norms.append((step, math.nan if norm is None else norm))
        if self._first_nan is None:
            self._first_nan = found.first_nan(step, self._clean_step)
            if self._first_nan is None:
                self._clean_step = step

    def messages(self, at: float) -> Iterator[ModelValues]:
        """Yield the last step that was read where it is new, ``at`` seconds since the beginning."""
        last = self._last
        if last is None or not self._is_new:
            return
        self._is_new = False
        nodes = sorted({node for group in last.groups.values() for node in group})
        columns: dict[str, bytes] = {}
        for group, by_node in last.groups.items():
            rows = [_figures(by_node.get(node)) for node in nodes]
            for place, name in enumerate(STATISTICS):
                columns[group + name] = array("f", (row[place] for row in rows)).tobytes()
        updates = [_update(last.updates, node) for node in nodes]
        yield ModelValues(
            at=at,
            steps=self._steps,
            step=self._step,
            seconds=self._seconds,
            gradient_norm=self._norm,
            norm_steps=array("I", (step for step, _ in self._norms)).tobytes(),
            norms=array("f", (norm for _, norm in self._norms)).tobytes(),
            first_nan=self._first_nan,
            why_not_all=self._why_not_all,
            why_no_parameters=self._why_no_parameters,
            nodes=array("I", nodes).tobytes(),
            weight_rms=array("f", (weight for weight, _ in updates)).tobytes(),
            update_ratio=array("f", (ratio for _, ratio in updates)).tobytes(),
            **columns,
        )


def _figures(found: Statistics | None) -> tuple[float, ...]:
    if found is None:
        return (math.nan,) * len(STATISTICS)
    shares = (each / found.elements for each in (found.zeros, found.nans, found.infs))
    return (found.largest, found.rms, *shares)


def _update(updates: Mapping[int, tuple[Statistics, Statistics]], node: int) -> tuple[float, float]:
    """Return the root mean square of weights, and how much of it was added."""
    found = updates.get(node)
    if found is None:
        return math.nan, math.nan
    change, weight = found
    ratio = change.norm / weight.norm if weight.norm > 0 else math.nan
    return weight.rms, ratio
