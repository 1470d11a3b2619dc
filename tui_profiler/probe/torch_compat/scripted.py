"""What is asked of TorchScript's own objects, in one place: most of it has no public name.

Tried on torch 2.15. Where a name is gone, a module that needs it is run as a whole (rule 2 of
``trace/tree/torchscript.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.jit._script import RecursiveScriptModule

# These come from C++, and torch's own stubs give most of their methods no types.
Graph: TypeAlias = Any
Node: TypeAlias = Any
Argument: TypeAlias = tuple[str, bool, object]
"""Name, whether there is a default, the default."""


def method_of(module: torch.nn.Module, name: str) -> tuple[Graph, tuple[Argument, ...]]:
    """Return the graph of a method of a scripted module, and its arguments without self.

    Raises:
        AttributeError: There is no such method.
    """
    method = _inside(module)._get_method(name)
    arguments = tuple(
        (str(part.name), bool(part.has_default_value()), part.default_value)
        for part in method.schema.arguments[1:]
    )
    return method.graph, arguments


def argument_types(module: torch.nn.Module) -> tuple[tuple[str, str, bool], ...]:
    """Return (name, type, whether there is a default) of what ``forward`` takes, without self."""
    schema = _inside(module)._get_method("forward").schema
    return tuple(
        (str(part.name), str(part.type), bool(part.has_default_value()))
        for part in schema.arguments[1:]
    )


def function_of(node: Node) -> Graph:
    """Return the graph of the function that a ``prim::CallFunction`` calls."""
    graph: Graph = torch._C.Graph()
    function, *given = list(node.inputs())
    placed: list[Any] = []
    for value in given:
        argument = graph.addInput()
        argument.setType(value.type())
        placed.append(argument)
    name = graph.createClone(function.node(), lambda value: value)
    graph.insertNode(name)
    sources = iter([name.output(), *placed])
    call = graph.createClone(node, lambda _: next(sources))
    graph.insertNode(call)
    for output in call.outputs():
        graph.registerOutput(output)
    torch._C._jit_pass_inline(graph)
    return graph


def schema_of(node: Node) -> torch.FunctionSchema | None:
    """Return the schema of an operator's node, None where it has none."""
    text = node.schema()
    if not text or text.startswith("(no schema"):
        return None
    return torch._C.parse_schema(text)


def operator_of(node: Node, schema: torch.FunctionSchema) -> Callable[..., object]:
    """Return a function of a node's inputs, in their order, that calls the dispatcher.

    Raises:
        AttributeError: The operator is not known to this process.
    """
    namespace, _, name = node.kind().partition("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    operator: Callable[..., object] = getattr(packet, schema.overload_name or "default")
    names = [str(part.name) for part in schema.arguments]
    in_order = sum(not part.kwarg_only for part in schema.arguments)

    def call(*given: object) -> object:
        return operator(
            *given[:in_order], **dict(zip(names[in_order:], given[in_order:], strict=True))
        )

    return call


def attribute(holder: object, name: str) -> object:
    """Return an attribute as the graph means it: not one that Python adds to the module.

    Raises:
        TypeError: It is neither a scripted module nor an object of a scripted class.
    """
    if isinstance(holder, RecursiveScriptModule):
        return holder._modules[name] if name in holder._modules else holder._c.getattr(name)
    inside = getattr(holder, "_c", holder)
    if isinstance(inside, torch.ScriptObject):
        return inside.getattr(name)  # type: ignore[attr-defined] # has no stub
    raise TypeError(f"a {type(holder).__name__} has no scripted attributes")


def set_attribute(holder: object, name: str, value: object) -> None:
    """Assign to an attribute of a scripted module.

    Raises:
        TypeError: It is no scripted module.
    """
    _inside(holder).setattr(name, value)


def _inside(module: object) -> Any:
    if not isinstance(module, RecursiveScriptModule):
        raise TypeError(f"a {type(module).__name__} is not a scripted module")
    return module._c


def silenced() -> warnings.catch_warnings[None]:
    """Silence what ``torch.jit`` says of its own deprecation, inside the block."""
    return warnings.catch_warnings(action="ignore")


def weights_of_graph(module: torch.nn.Module) -> tuple[tuple[str, torch.Tensor], ...]:
    """Return (class of torch's layer, weight) of the layers in a scripted module's graph, in order.

    A frozen or functional model has no submodules that would say what it begins with.
    """
    graph: Graph = _inside(module)._get_method("forward").graph.copy()
    torch._C._jit_pass_inline(graph)
    found: list[tuple[str, torch.Tensor]] = []
    pending = list(graph.nodes())
    while pending:
        node = pending.pop(0)
        pending[:0] = [inner for block in node.blocks() for inner in block.nodes()]
        kind, place = _LAYERS.get(node.kind(), ("", 0))
        if kind:
            weight = _weight_at(list(node.inputs())[place], module)
            if weight is not None:
                axes = min(max(weight.dim() - 2, 1), 3)
                found.append((kind.format(axes=axes), weight))
    return tuple(found)


_LAYERS = {
    "aten::conv1d": ("Conv{axes}d", 1),
    "aten::conv2d": ("Conv{axes}d", 1),
    "aten::conv3d": ("Conv{axes}d", 1),
    "aten::_convolution": ("Conv{axes}d", 1),
    "aten::convolution": ("Conv{axes}d", 1),
    "aten::linear": ("Linear", 1),
    "aten::embedding": ("Embedding", 0),
}
"""By operator: the class of torch's layer, and which input is its weight."""


def _weight_at(value: Any, module: torch.nn.Module) -> torch.Tensor | None:
    """Follow a value of a graph back to a constant or to an attribute of the module."""
    names: list[str] = []
    while value.node().kind() == "prim::GetAttr":
        names.append(value.node().s("name"))
        value = next(iter(value.node().inputs()))
    if not names:
        constant = value.toIValue() if value.node().kind() == "prim::Constant" else None
        return constant if isinstance(constant, torch.Tensor) else None
    held: object = module
    for name in reversed(names):
        held = attribute(held, name)
    return held if isinstance(held, torch.Tensor) else None
