"""A graph that a tracer made, run node by node, with the modules that its nodes came from.

1. Each node tells its modules (``nn_module_stack``): path by path they are the modules of the real
   model, so that the tree is the one of the model's own forward.
2. A key of that stack is one call of a module. What belongs to one call may stand apart in the
   graph; it meets in the same frame.
3. What goes in and out of a call is what its nodes read from outside, and what is read from them.
4. Nodes of a module that is called as a whole (fx's leaves) need none of this: it is called.
5. Names that tracers mangled are resolved by walking the model: ``self_attn`` is one name, and only
   so is a path of ``L__self___layers_0_self_attn`` told to be ``layers.0.self_attn``. What more
   than one path would fit is not resolved.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import Argument, Target

from tui_profiler.messages import Caller, Tensor
from tui_profiler.probe.process.source_line import Line, callers_in, lines_in, lines_of_calls
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.trace.tree.growing_tree import Frame
from tui_profiler.probe.trace.tree.messages import code_of_forward
from tui_profiler.probe.trace.tree.module_stack import ModuleStack
from tui_profiler.probe.trace.tree.tensors import described

_MOST_CHARACTERS = 2_000
_MOST_STEPS = 10_000
"""A model may be built so that most of a name fits everywhere."""

_ROOTS = re.compile(r"^(?:[LlGg]\[['\"]\w+['\"]\]|self|_export_root)(?:\.|$)")
"""What stands for the model itself in front of a path that is not mangled."""
_SCOPE = re.compile(r"^(?:getattr_)*(?:[LlGg]__\w+?___|self_)?")
_WORD = re.compile(r"[^\W_]+")
_HOLDS = ("modules",)
"""An attribute on the way to a child that a path does not name: ``_modules``."""


def module_at(model: torch.nn.Module, path: str) -> torch.nn.Module | None:
    """Return the module at a dotted path; None where there is none."""
    module: torch.nn.Module | None = model
    for name in path.split(".") if path else ():
        module = children_of(module).get(name) if module is not None else None
    return module


def resolved(model: torch.nn.Module, name: str) -> str | None:
    """Return the path that a tracer's name for a module stands for.

    Args:
        model: whose modules are meant.
        name: a path, as it is or mangled: ``L['self'].layers.0``, ``L__self___layers_0``.

    Returns:
        a dotted path, empty for the model itself; None where no path fits, or several do.
    """
    for plain in (name, _ROOTS.sub("", name)):
        if module_at(model, plain) is not None:
            return plain
    if len(name) > _MOST_CHARACTERS:
        return None
    for rest in dict.fromkeys((_SCOPE.sub("", name), name)):
        words = _WORD.findall(rest)
        found = list(islice(_fitting(model, words), 2)) if words else []
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _fitting(model: torch.nn.Module, words: list[str]) -> Iterator[str]:
    """Yield every path whose names, cut at what is no letter or digit, are these words."""
    pending: list[tuple[torch.nn.Module, int, tuple[str, ...]]] = [(model, 0, ())]
    steps = 0
    while pending:
        module, done, path = pending.pop()
        if done == len(words):
            yield ".".join(path)
            continue
        for name, child in children_of(module).items():
            steps += 1
            if steps > _MOST_STEPS:
                return
            if child is None:
                continue
            for start in (done, done + 1) if words[done] in _HOLDS else (done,):
                own = _WORD.findall(name)
                end = start + len(own)
                if own and words[start:end] == own:
                    pending.append((child, end, (*path, name)))


_STACK = "nn_module_stack"
_MOST_INTERFACE = 64
"""Tensors shown of what goes into or out of a call."""


class GraphRun(Interpreter):
    """Runs one graph; the recorder sees what its nodes dispatch."""

    def __init__(self, graph: Graph, held: Mapping[str, object], stack: ModuleStack) -> None:
        """Take a graph, and what its ``get_attr`` nodes stand for by their targets."""
        super().__init__(torch.nn.Module(), garbage_collect_values=True, graph=graph)
        self._held = held
        self._stack = stack
        self._base = len(stack.frames)
        self._read, self._given = _interfaces(self.graph)
        self._wanted = {
            n for nodes in chain(self._read.values(), self._given.values()) for n in nodes
        }
        self._described: dict[Node, tuple[Tensor, ...]] = {}
        self._frames: dict[str, Frame] = {}
        self._modules: dict[str, torch.nn.Module | None] = {}
        self._lines: list[Line] = []
        self.extra_traceback = False

    def go(self, *args: object) -> object:
        """Run the graph on what its placeholders stand for, in order."""
        line, callers = self._stack.line, self._stack.callers
        self._stack.line, self._stack.callers = self._line, self._callers
        try:
            result: object = self.run(*args, enable_io_processing=False)
        finally:
            self._stack.line, self._stack.callers = line, callers
            del self._stack.frames[self._base :]
        for key, frame in self._frames.items():
            self._show(key, frame)
        return result

    def run_node(self, n: Node) -> object:
        """Run one node among the modules that it came from."""
        if n.op not in ("placeholder", "get_attr", "output"):
            self._lines = lines_in(n.stack_trace or "")
            self._stand_in(n)
        result: object = super().run_node(n)
        if n in self._wanted and n.op != "get_attr" and id(result) not in self._stack.weights:
            self._described[n] = described(result)
        return result

    def get_attr(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> object:
        """Return what was held when the graph was made; a graph, as something to call."""
        value = self._held[str(target)]
        return Body(value, self._stack) if isinstance(value, GraphModule) else value

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> object:
        """Call a module of the real model."""
        model = self._stack.places.root.module
        assert model is not None
        module = module_at(model, str(target))
        assert module is not None
        result: object = module(*args, **kwargs)
        return result

    def _line(self) -> str:
        return str(self._lines[-1]) if self._lines else ""

    def _callers(self) -> tuple[Caller, ...]:
        return callers_in(self._lines)

    def _stand_in(self, node: Node) -> None:
        """Put the calls that a node was traced in on the stack, in place of the node's before."""
        del self._stack.frames[self._base :]
        calls = [(key, module) for key, path in _calls(node) if (module := self._module(path))]
        missing = any(key not in self._frames for key, _ in calls)
        codes = [code_of_forward(module) for _, module in calls] if missing else []
        led_to = lines_of_calls(self._lines, codes) if missing else [[] for _ in calls]
        for (key, module), lines in zip(calls, led_to, strict=True):
            if key not in self._frames:
                self._frames[key] = self._stack.begin(module, lines)
            self._stack.frames.append(self._frames[key])

    def _module(self, path: str) -> torch.nn.Module | None:
        """Return real module of a tracer's path; None for the root, which is running already."""
        if path not in self._modules:
            model = self._stack.places.root.module
            assert model is not None
            real = resolved(model, path)
            self._modules[path] = module_at(model, real) if real else None
        return self._modules[path]

    def _show(self, key: str, frame: Frame) -> None:
        place = frame.place
        for nodes, show in ((self._read, "inputs"), (self._given, "outputs")):
            tensors = (t for node in nodes.get(key, ()) for t in self._described.get(node, ()))
            if not getattr(place, show):
                setattr(place, show, tuple(tensors)[:_MOST_INTERFACE])


class Body:
    """A graph inside of an operator, run with the modules that its nodes came from."""

    def __init__(self, graph_module: GraphModule, stack: ModuleStack) -> None:
        self.graph_module = graph_module
        self._stack = stack

    def __call__(self, *operands: object) -> object:
        """Run it."""
        graph = self.graph_module.graph
        return GraphRun(graph, held_by(self.graph_module, graph), self._stack).go(*operands)


def held_by(owner: torch.nn.Module, graph: Graph) -> dict[str, object]:
    """Return what the ``get_attr`` nodes of a graph stand for."""
    targets = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
    return {target: attrgetter(target)(owner) for target in targets}


def _calls(node: Node) -> Iterator[tuple[str, str]]:
    """Yield (key, path) of the calls around a node; a module that is called whole makes its own."""
    stack = list(node.meta.get(_STACK, {}).items())
    if node.op == "call_module" and stack and stack[-1][1][0] == node.target:
        stack.pop()
    for key, (path, *_) in stack:
        yield key, path


def _interfaces(graph: Graph) -> tuple[dict[str, dict[Node, None]], dict[str, dict[Node, None]]]:
    """Return for each call the nodes outside that it reads, and its nodes that are read outside."""
    read: dict[str, dict[Node, None]] = {}
    given: dict[str, dict[Node, None]] = {}
    around: dict[Node, dict[str, None]] = {}
    for node in graph.nodes:
        around[node] = {key: None for key, _ in _calls(node)}
        for other in node.all_input_nodes:
            for key in around[node]:
                if key not in around[other]:
                    read.setdefault(key, {})[other] = None
            for key in around[other]:
                if key not in around[node]:
                    given.setdefault(key, {})[other] = None
    return read, given
