"""A scripted module walked node by node, so that each call of a submodule is seen.

TorchScript's interpreter calls submodules without Python: nobody is told which one runs. Here the
saved graph is carried out in Python instead: its operators are the ones that the interpreter would
call, and a submodule is called through ``nn.Module.__call__``, where the stack of modules is kept.

1. Only the graph is read; nothing is compiled, and no Python code of the file's is run.
2. A module whose graph holds something that is not known here is run as a whole: its operators then
   belong to it, not to its submodules.
3. What a graph assigns to a module's attributes is put back when the outermost call ends.
4. TorchScript's interpreter lets go of a value after the last node that reads it (``FindLastUses``
   in torch/csrc/jit/runtime/interpreter/preprocess_graph.cpp). Were all of them kept until the
   graph is through, a scripted resnet50 would seem to hold twice the activations that it holds.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, TypeAlias

import torch

from tui_profiler.probe.torch_compat import scripted
from tui_profiler.probe.torch_compat.scripted import Argument, Graph, Node

_Function: TypeAlias = Callable[..., object]
_Values: TypeAlias = dict[str, object]
_Step: TypeAlias = Callable[[_Values], None]


class _Program:
    """A graph, or a block of one, as a list of steps."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        steps: tuple[_Step, ...],
        outputs: tuple[str, ...],
        arguments: tuple[Argument, ...] = (),
    ) -> None:
        self.inputs = inputs
        self.steps = steps
        self.outputs = outputs
        self._arguments = arguments
        """(name, whether there is a default, the default), without self."""

    def bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Return the arguments in the order of the graph's inputs, defaults included."""
        rest = self._arguments[len(args) :]
        unknown = kwargs.keys() - {name for name, _, _ in rest}
        missing = [name for name, has, _ in rest if not has and name not in kwargs]
        if len(args) > len(self._arguments) or unknown or missing:
            names = ", ".join(name for name, _, _ in self._arguments)
            raise TypeError(f"forward({names}) was called with other arguments")
        return (*args, *(kwargs.get(name, default) for name, _, default in rest))


class _Block(_Program):
    """A block inside a graph: it sees the values around it."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        steps: tuple[_Step, ...],
        outputs: tuple[str, ...],
        made_here: frozenset[str],
    ) -> None:
        super().__init__(inputs, steps, outputs)
        self._made_here = [name for name in outputs if name in made_here]

    def run(self, values: _Values) -> list[object]:
        """Carry it out on the values around it, and give its outputs."""
        for step in self.steps:
            step(values)
        found = [values[name] for name in self.outputs]
        for name in self._made_here:
            values.pop(name, None)
        return found


def names(values: Iterable[Node]) -> list[str]:
    """Return the names of a graph's values."""
    return [value.debugName() for value in values]


def _made_in(nodes: Iterable[Node], inputs: Iterable[str]) -> frozenset[str]:
    """Return the names of what a block is given or makes, without the blocks inside it."""
    return frozenset([*inputs, *(name for node in nodes for name in names(node.outputs()))])


def _last_uses(
    nodes: Sequence[Node], made_here: frozenset[str], outputs: Iterable[str]
) -> list[tuple[str, ...]]:
    """Return for each node of a block, the names that no later one reads.

    Args:
        nodes: of the block, in order.
        made_here: what ``_made_in`` gives for it: what is around it ends outside.
        outputs: of the block; they outlive it.
    """
    last = {}
    for index, node in enumerate(nodes):
        for name in (*names(node.outputs()), *_read_by(node)):
            last[name] = index
    ends: list[list[str]] = [[] for _ in nodes]
    for name in made_here.difference(outputs) & last.keys():
        ends[last[name]].append(name)
    return [tuple(sorted(ended)) for ended in ends]


def _then_dropped(step: _Step | None, ended: tuple[str, ...]) -> _Step | None:
    """Return a step after which some values are gone; None where it would do nothing."""
    if not ended:
        return step

    def both(values: _Values) -> None:
        if step is not None:
            step(values)
        for name in ended:
            values.pop(name, None)

    return both


def _read_by(node: Node) -> Iterator[str]:
    """Yield the names of what a node reads, the blocks inside it included."""
    yield from names(node.inputs())
    for block in node.blocks():
        for inner in block.nodes():
            yield from _read_by(inner)
        yield from names(block.outputs())


_NOT_TIMED = "TorchScript calls it internally: only the model around it is timed"
_MOST_STEPS = 5_000_000
"""Nodes carried out in one call; a loop that never ends must not hang the trace."""


class _NotWalkableError(Exception):
    """A graph holds something that only TorchScript's own interpreter can do."""


class ScriptWalker:
    """Carries out scripted modules; keeps what it has read of each."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[int, str], _Program | None] = {}
        self._kept: list[object] = []
        """Graphs and modules whose ``id`` is used above."""
        self._before: list[tuple[object, str, object]] = []
        self._depth = 0
        self._steps = 0

    def can_walk(self, module: torch.nn.Module) -> bool:
        """Say whether a call of ``module`` can be carried out here."""
        is_scripted = isinstance(module, torch.jit.ScriptModule)
        return is_scripted and self._program(module, "forward") is not None

    @property
    def note(self) -> str:
        """Return what is to be said of a module called now: inside another it has no times."""
        return _NOT_TIMED if self._depth else ""

    def call(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Carry out ``module.forward``; its submodules are called by ``nn.Module.__call__``."""
        program = self._program(module, "forward")
        assert program is not None
        self._depth += 1
        try:
            return self.run(program, (module, *program.bound(args, kwargs)))
        finally:
            self._depth -= 1
            if not self._depth:
                self._put_back()

    def run(self, program: _Program, given: tuple[object, ...]) -> object:
        """Carry out a graph on its inputs."""
        values: _Values = dict(zip(program.inputs, given, strict=True))
        self.count(len(program.steps))
        for step in program.steps:
            step(values)
        outputs = [values[name] for name in program.outputs]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _program(self, module: torch.nn.Module, method: str) -> _Program | None:
        key = (id(module), method)
        if key not in self._compiled:
            self._kept.append(module)
            try:
                graph, arguments = scripted.method_of(module, method)
                self._compiled[key] = _Compiler(self).program(graph, arguments)
            except (_NotWalkableError, AttributeError, RuntimeError, TypeError):
                self._compiled[key] = None  # rule 2
        return self._compiled[key]

    def _put_back(self) -> None:
        for module, name, value in reversed(self._before):
            scripted.set_attribute(module, name, value)
        self._before.clear()
        self._steps = 0

    def count(self, steps: int) -> None:
        """Count steps."""
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise _NotWalkableError(f"more than {_MOST_STEPS:,} steps")

    def call_method(self, owner: object, name: str, args: tuple[object, ...]) -> object:
        """Call a method of a scripted module: ``forward`` as a call of the module itself."""
        if not isinstance(owner, torch.jit.ScriptModule):
            raise _NotWalkableError(f"a method of a {type(owner).__name__}")
        if name == "forward":
            return owner(*args)
        program = self._program(owner, name)
        if program is None:
            return getattr(owner, name)(*args)
        return self.run(program, (owner, *args))

    def assign(self, owner: object, name: str, value: object) -> None:
        """Assign to an attribute, for as long as the outermost call lasts."""
        self._before.append((owner, name, scripted.attribute(owner, name)))
        scripted.set_attribute(owner, name, value)


class _Compiler:
    def __init__(self, walker: ScriptWalker) -> None:
        self._walker = walker

    def program(self, graph: Graph, arguments: tuple[Argument, ...] = ()) -> _Program:
        """Read a whole graph."""
        inputs, outputs = tuple(names(graph.inputs())), tuple(names(graph.outputs()))
        nodes = list(graph.nodes())
        steps = self._steps(nodes, _made_in(nodes, inputs), outputs)
        return _Program(inputs, steps, outputs, arguments)

    def _steps(
        self, nodes: Sequence[Node], made_here: frozenset[str], outputs: Sequence[str]
    ) -> tuple[_Step, ...]:
        ends = _last_uses(nodes, made_here, outputs)
        steps = (
            _then_dropped(self._step(node), ended) for node, ended in zip(nodes, ends, strict=True)
        )
        return tuple(step for step in steps if step is not None)

    def _step(self, node: Node) -> _Step | None:
        match node.kind():
            case "prim::Constant":
                return _constant(node)
            case "prim::GetAttr":
                return _get_attribute(node)
            case "prim::SetAttr":
                return self._set_attribute(node)
            case "prim::CallMethod":
                return self._method(node)
            case "prim::CallFunction":
                return self._function(node)
            case "prim::If":
                return self._if(node)
            case "prim::Loop":
                return self._loop(node)
            case "prim::Print" | "aten::warn" | "aten::_record_function_exit":
                return None
            case _:
                return _operator(node)

    def _set_attribute(self, node: Node) -> _Step:
        owner, value = names(node.inputs())
        name, walker = node.s("name"), self._walker
        return lambda values: walker.assign(values[owner], name, values[value])

    def _method(self, node: Node) -> _Step:
        owner, *inputs = names(node.inputs())
        name, output, walker = node.s("name"), node.output().debugName(), self._walker

        def step(values: _Values) -> None:
            given = tuple(values[key] for key in inputs)
            values[output] = walker.call_method(values[owner], name, given)

        return step

    def _function(self, node: Node) -> _Step:
        program, walker = self.program(scripted.function_of(node)), self._walker
        inputs, output = names(node.inputs())[1:], node.output().debugName()

        def step(values: _Values) -> None:
            given = tuple(values[key] for key in inputs)
            values[output] = walker.run(program, given)

        return step

    def _block(self, block: Node) -> _Block:
        inputs, outputs = tuple(names(block.inputs())), tuple(names(block.outputs()))
        nodes = list(block.nodes())
        made_here = _made_in(nodes, inputs)
        return _Block(inputs, self._steps(nodes, made_here, outputs), outputs, made_here)

    def _if(self, node: Node) -> _Step:
        (condition,) = names(node.inputs())
        chosen = [self._block(block) for block in node.blocks()]
        outputs = names(node.outputs())

        def step(values: _Values) -> None:
            block = chosen[0 if values[condition] else 1]
            values.update(zip(outputs, block.run(values), strict=True))

        return step

    def _loop(self, node: Node) -> _Step:
        most, condition, *carried = names(node.inputs())
        (block,) = (self._block(block) for block in node.blocks())
        outputs = names(node.outputs())
        walker = self._walker

        def step(values: _Values) -> None:
            trips, goes_on = int(str(values[most])), bool(values[condition])
            now = [values[name] for name in carried]
            index = 0
            while goes_on and index < trips:
                walker.count(len(block.steps))
                values.update(zip(block.inputs, (index, *now), strict=True))
                now.clear()  # Or it would keep what the turn lets go of.
                again, *now = block.run(values)
                goes_on = bool(again)
                index += 1
            values.update(zip(outputs, now, strict=True))

        return step


def _constant(node: Node) -> _Step | None:
    output = node.output()
    if str(output.type().kind()) == "FunctionType":
        return None  # read where it is called
    name = output.debugName()
    if not node.attributeNames():
        return lambda values: values.update({name: None})
    value = output.toIValue()
    is_list = isinstance(value, list | dict)
    # Each time anew: a constant list may be appended to.
    return lambda values: values.update({name: copy(value) if is_list else value})


def _get_attribute(node: Node) -> _Step:
    (owner,) = names(node.inputs())
    name, output = node.s("name"), node.output().debugName()
    return lambda values: values.update({output: scripted.attribute(values[owner], name)})


def _operator(node: Node) -> _Step:
    """Return a step for an operator: on values, in Python, or one of the dispatcher's."""
    inputs, outputs = names(node.inputs()), names(node.outputs())
    schema = scripted.schema_of(node)
    function = _function_on_values(node, schema)
    if function is None:
        if schema is None or node.kind().startswith("prim::"):
            raise _NotWalkableError(node.kind())
        function = scripted.operator_of(node, schema)
    carried_out = function

    def step(values: _Values) -> None:
        made = carried_out(*[values[name] for name in inputs])
        if len(outputs) == 1 and not is_unpacked:
            values[outputs[0]] = made
        elif outputs:
            assert isinstance(made, Sequence)
            values.update(zip(outputs, made, strict=True))

    is_unpacked = node.kind() in ("prim::ListUnpack", "prim::TupleUnpack")
    return step


def has_scripted(modules: Iterable[torch.nn.Module]) -> bool:
    """Say whether any of these modules is a scripted one."""
    return any(isinstance(module, torch.jit.ScriptModule) for module in modules)


def run_as_a_whole(module: torch.nn.Module) -> str:
    """Return the note for a scripted module that is not walked and holds others; else empty."""
    holds_others = isinstance(module, torch.jit.ScriptModule) and any(module.children())
    return "TorchScript runs it as a whole: its operators are not split by module" * holds_others


# Operators on numbers, texts, lists and dictionaries: they never reach the dispatcher, and lists
# must be changed in place.


def _raise(message: object = "", *_: object) -> object:
    raise RuntimeError(str(message))


def _set_item(holder: Any, key: Any, value: object) -> object:
    holder[key] = value
    return holder


def _append(holder: list[object], value: object) -> list[object]:
    holder.append(value)
    return holder


def _slice(
    holder: Sequence[object], start: int | None = None, end: int | None = None, step: int = 1
) -> Sequence[object]:
    return holder[start:end:step]


def _method(name: str) -> _Function:
    return lambda holder, *arguments: getattr(holder, name)(*arguments)


def _unchanged(value: object, *_: object) -> object:
    return value


def _tensor(data: object, dtype: int | None, device: torch.device | None, *_: object) -> object:
    made = torch.tensor(data, device=device)
    return made if dtype is None else torch.ops.aten.to.dtype(made, dtype)


_METHODS = """clear copy count endswith extend find format get index insert join lower pop replace
    reverse setdefault split startswith strip update upper"""
_PLAIN: dict[str, _Function] = {
    **{name: _method(name) for name in _METHODS.split()},
    "Bool": bool,
    "Complex": complex,
    "Delete": operator.delitem,
    "Float": float,
    "Int": int,
    "__and__": operator.and_,
    "__contains__": operator.contains,
    "__derive_index": lambda index, start, step: start + index * step,
    "__getitem__": operator.getitem,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "__lshift__": operator.lshift,
    "__not__": operator.not_,
    "__or__": operator.or_,
    "__range_length": lambda low, high, step: len(range(low, high, step)),
    "__rshift__": operator.rshift,
    "__xor__": operator.xor,
    "_set_item": _set_item,
    "add": operator.add,
    "add_": lambda holder, more: holder.extend(more) or holder,
    "all": all,
    "any": any,
    "append": _append,
    "as_tensor": _tensor,
    "ceil": math.ceil,
    "device": torch.device,
    "dict": dict,
    "div": operator.truediv,
    "eq": operator.eq,
    "exp": math.exp,
    "fabs": math.fabs,
    "floor": math.floor,
    "floordiv": operator.floordiv,
    "ge": operator.ge,
    "gt": operator.gt,
    "is_autocast_cpu_enabled": lambda: False,
    "is_autocast_enabled": lambda: False,
    "is_grad_enabled": torch.is_grad_enabled,
    "is_scripting": lambda: True,
    "items": lambda holder: list(holder.items()),
    "keys": lambda holder: list(holder.keys()),
    "le": operator.le,
    "len": len,
    "list": list,
    "log": math.log,
    "log2": math.log2,
    "lt": operator.lt,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "pow": math.pow,
    "remainder": operator.mod,
    "round": round,
    "slice": _slice,
    "sort": lambda holder, reverse=False: holder.sort(reverse=reverse),
    "sorted": sorted,
    "sqrt": math.sqrt,
    "str": str,
    "sub": operator.sub,
    "sum": sum,
    "tensor": _tensor,
    "values": lambda holder: list(holder.values()),
}
"""``aten::`` operators none of whose arguments is a tensor, by name."""

_READ: dict[str, _Function] = {
    "aten::Bool.Tensor": bool,
    "aten::Float.Tensor": float,
    "aten::FloatImplicit": float,
    "aten::Int.Tensor": int,
    "aten::IntImplicit": int,
    "aten::ScalarImplicit": lambda tensor: tensor.item(),
    "aten::__contains__.list": operator.contains,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::item": lambda tensor: tensor.item(),
}
"""``aten::`` operators that read a number from a tensor, or compare objects."""

_ATTRIBUTES = "data device is_cuda is_nested is_quantized requires_grad type"
_PRIM: dict[str, _Function] = {
    **{f"prim::{name}": operator.attrgetter(name) for name in _ATTRIBUTES.split()},
    "prim::RaiseException": _raise,
    "prim::Uninitialized": lambda: None,
    "prim::ListConstruct": lambda *values: list(values),
    "prim::ListUnpack": _unchanged,
    "prim::TupleConstruct": lambda *values: values,
    "prim::TupleIndex": lambda values, index: values[index],
    "prim::TupleUnpack": _unchanged,
    "prim::DictConstruct": lambda *flat: dict(zip(flat[::2], flat[1::2], strict=True)),
    "prim::abs": abs,
    "prim::dtype": torch.ops.prim.dtype.default,
    "prim::layout": torch.ops.prim.layout.default,
    "prim::max": max,
    "prim::min": min,
    "prim::NumToTensor": torch.ops.prim.NumToTensor.Scalar,
    "prim::tolist": lambda tensor, *_: tensor.tolist(),
    "prim::unchecked_cast": _unchanged,
    "prim::unchecked_unwrap_optional": _unchanged,
}


def _function_on_values(node: Node, schema: torch.FunctionSchema | None) -> _Function | None:
    """Return what carries out a node in Python; None where the dispatcher is to be called."""
    kind: str = node.kind()
    if kind.startswith("prim::"):
        return _PRIM.get(kind)
    if schema is None:
        # ``aten::format`` and its like take any number of arguments.
        return _PLAIN.get(kind.removeprefix("aten::")) if kind.startswith("aten::") else None
    known = _READ.get(f"{kind}.{schema.overload_name}".rstrip("."))
    if known is not None:
        return known
    name = kind.removeprefix("aten::")
    if name not in _PLAIN or not kind.startswith("aten::"):
        return None
    on_tensors = any("Tensor" in str(part.type) for part in schema.arguments)
    return None if on_tensors else _PLAIN[name]
