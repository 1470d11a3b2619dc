"""A graph of TorchScript's as a list of steps over named values, each kept until its last use.

TorchScript's interpreter lets go of a value after the last node that reads it (``FindLastUses`` in
torch/csrc/jit/runtime/interpreter/preprocess_graph.cpp). Were all of them kept until the graph is
through, a scripted resnet50 would seem to hold twice the activations that it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from tui_profiler.probe.torch_compat.scripted import Argument, Node

Values: TypeAlias = dict[str, object]
Step: TypeAlias = Callable[[Values], None]


class Program:
    """A graph, or a block of one, as a list of steps."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        steps: tuple[Step, ...],
        outputs: tuple[str, ...],
        arguments: tuple[Argument, ...] = (),
    ) -> None:
        self.inputs = inputs
        self.steps = steps
        self.outputs = outputs
        self._arguments = arguments
        """(name, whether there is a default, the default), without self."""

    def bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Give the arguments in the order of the graph's inputs, defaults included."""
        rest = self._arguments[len(args) :]
        unknown = kwargs.keys() - {name for name, _, _ in rest}
        missing = [name for name, has, _ in rest if not has and name not in kwargs]
        if len(args) > len(self._arguments) or unknown or missing:
            names = ", ".join(name for name, _, _ in self._arguments)
            raise TypeError(f"forward({names}) was called with other arguments")
        return (*args, *(kwargs.get(name, default) for name, _, default in rest))


class Block(Program):
    """A block inside a graph: it sees the values around it."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        steps: tuple[Step, ...],
        outputs: tuple[str, ...],
        made_here: frozenset[str],
    ) -> None:
        super().__init__(inputs, steps, outputs)
        self._made_here = [name for name in outputs if name in made_here]

    def run(self, values: Values) -> list[object]:
        """Carry it out on the values around it, and give its outputs."""
        for step in self.steps:
            step(values)
        found = [values[name] for name in self.outputs]
        for name in self._made_here:
            values.pop(name, None)
        return found


def names(values: Iterable[Node]) -> list[str]:
    """Give the names of a graph's values."""
    return [value.debugName() for value in values]


def made_in(nodes: Iterable[Node], inputs: Iterable[str]) -> frozenset[str]:
    """Give the names of what a block is given or makes, without the blocks inside it."""
    return frozenset([*inputs, *(name for node in nodes for name in names(node.outputs()))])


def last_uses(
    nodes: Sequence[Node], made_here: frozenset[str], outputs: Iterable[str]
) -> list[tuple[str, ...]]:
    """Give, for each node of a block, the names that no later one reads.

    Args:
        nodes: of the block, in order.
        made_here: what ``made_in`` gives for it: what is around it ends outside.
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


def then_dropped(step: Step | None, ended: tuple[str, ...]) -> Step | None:
    """Give a step after which some values are gone; None where it would do nothing."""
    if not ended:
        return step

    def both(values: Values) -> None:
        if step is not None:
            step(values)
        for name in ended:
            values.pop(name, None)

    return both


def _read_by(node: Node) -> Iterator[str]:
    """Give the names of what a node reads, the blocks inside it included."""
    yield from names(node.inputs())
    for block in node.blocks():
        for inner in block.nodes():
            yield from _read_by(inner)
        yield from names(block.outputs())
