"""Operators that are given functions: what they run is recorded, not only that they run.

1. One of several branches (``cond``, ``switch``): on fake tensors nobody knows which. The one with
   the most arithmetic is recorded, and the figures are a bound; where the choice is known, it is
   that one, and they are exact.
2. A part that is run once (``invoke_subgraph``, ``strict_mode``) is recorded as it is.
3. A loop (``while_loop``) is recorded turn by turn where values say how many there are. Else one
   turn is counted, and the operator is listed as uncosted: the figures are at most the real ones.
   The same holds where there are more turns than are worth waiting for.
4. What runs its functions in a kernel of its own (``scan``, flex attention) is not counted; what is
   in it is listed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch.fx import GraphModule, Interpreter

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.cost.cost import op_cost
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.torch_compat import composite, internals
from tui_profiler.probe.trace.graph_run import Body
from tui_profiler.probe.trace.tree.module_stack import ModuleStack

_MOST_LISTED = 8

_MOST_TURNS = 200
"""Turns of a loop that are recorded: one that ends late would hold up the tree."""

Function: TypeAlias = Callable[..., object]


class Ran(NamedTuple):
    """What came of it."""

    result: object
    is_bound: bool = False
    """Figures are at least the real ones."""
    is_less: bool = False
    """Figures are at most the real ones."""


class Branches(NamedTuple):
    """Functions of which exactly one is run."""

    functions: tuple[Function, ...]
    operands: tuple[object, ...]
    chosen: int | None
    """Position of the one that is run; None where it depends on values that are not there."""

    def run(self, recorder: internals.TorchDispatchMode, stack: ModuleStack) -> Ran:
        """Run the one that is chosen, else the one with the most arithmetic, then traffic."""
        chosen = self.chosen
        if chosen is None:
            with stack.held():
                costs = [_cost(function, self.operands) for function in self.functions]
            order = [(own.flops, own.output_bytes, -index) for index, own in enumerate(costs)]
            chosen = -max(order)[-1]
        with recorder:
            result = _body(self.functions[chosen], stack)(*self.operands)
        return Ran(result, is_bound=self.chosen is None and len(self.functions) > 1)


class Loop(NamedTuple):
    """A function that is run on its own outputs while another one says so."""

    goes_on: Function
    body: Function
    carried: tuple[object, ...]
    constant: tuple[object, ...]

    @property
    def operands(self) -> tuple[object, ...]:
        """What it is given."""
        return self.carried + self.constant

    def run(self, recorder: internals.TorchDispatchMode, stack: ModuleStack) -> Ran:
        """Run every turn; where nobody knows how many there are, one."""
        carried = self.carried
        frame = stack.running
        first = frame.ops
        with recorder:
            for _ in range(_MOST_TURNS):
                frame.ops = first  # the operators of all turns meet in the same places
                goes_on = _number(_body(self.goes_on, stack)(*carried, *self.constant))
                if goes_on == 0:
                    return Ran(carried)
                result = _body(self.body, stack)(*carried, *self.constant)
                carried = tuple(result) if isinstance(result, list | tuple) else (result,)
                if goes_on is None:
                    break
        return Ran(carried, is_less=True)


Inside: TypeAlias = Branches | Loop


def inside_of(operator: internals.HigherOrderOperator, args: Sequence[object]) -> Inside | None:
    """Return what ``operator`` runs; None where that cannot be told."""
    match str(operator), args:
        case "cond", [choice, yes, no, operands]:
            number = _number(choice)
            return _branches([yes, no], operands, None if number is None else int(not number))
        case "switch", [index, functions, operands]:
            return _branches(functions, operands, _number(index))
        case "strict_mode", [function, operands]:
            return _branches([function], operands, 0)
        case "invoke_subgraph", [function, _, *operands]:
            return _branches([function], operands, 0)
        case "while_loop", [goes_on, body, tuple() as carried, tuple() as constant]:
            if callable(goes_on) and callable(body):
                return Loop(goes_on, body, carried, constant)
    return None


def listed(operator: internals.Operator, name: str, args: Sequence[object]) -> str:
    """Return an operator's name; of a higher-order one, with what is in its functions."""
    if isinstance(operator, internals.OpOverload):
        return name
    found = list(dict.fromkeys(op for graph in _graphs(args) for op in _operators(graph)))
    if not found:
        return name
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return f"{name} ({', '.join(found[:_MOST_LISTED])}{more})"


class _Counting(internals.TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """Adds up what is dispatched."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch has no types here
        self.own = SelfCost()

    def __torch_dispatch__(
        self,
        func: internals.Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        keywords = kwargs or {}
        if composite.is_composite(func, types, args, keywords):
            return composite.run_parts(self, func, args, keywords)
        result = func(*args, **keywords)
        outputs = tuple(tensors_in(result))
        self.own.take(op_cost(func, args, keywords, outputs, weights=()))
        return result


def _branches(functions: object, operands: object, chosen: int | None) -> Branches | None:
    if not isinstance(functions, list | tuple) or not isinstance(operands, list | tuple):
        return None
    if not all(callable(function) for function in functions):
        return None
    if chosen is not None and not 0 <= chosen < len(functions):
        return None
    return Branches(tuple(functions), tuple(operands), chosen)


def _body(function: Function, stack: ModuleStack) -> Function:
    return Body(function, stack) if isinstance(function, GraphModule) else function


def _number(value: object) -> int | None:
    """Return a value that is known; a fake tensor has none."""
    if isinstance(value, torch.Tensor):
        known = not isinstance(value, internals.FakeTensor) and value.device.type != "meta"
        return int(value.item()) if known and value.numel() == 1 else None
    return int(value) if isinstance(value, bool | int) else None


def _cost(function: Function, operands: Sequence[object]) -> SelfCost:
    graph = function.graph_module if isinstance(function, Body) else function
    counting = _Counting()
    with counting:
        if isinstance(graph, GraphModule):
            Interpreter(graph).run(*operands)
        else:
            function(*operands)
    return counting.own


def _graphs(args: Sequence[object]) -> Iterator[GraphModule]:
    for arg in args:
        for item in arg if isinstance(arg, list | tuple) else (arg,):
            graph = item.graph_module if isinstance(item, Body) else item
            if isinstance(graph, GraphModule):
                yield graph


def _operators(graph_module: GraphModule) -> Iterator[str]:
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            target = node.target
            named = target._schema.name if isinstance(target, internals.OpOverload) else None
            yield named or str(getattr(target, "__name__", target))
