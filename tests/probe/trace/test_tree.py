"""The shape of the tree: who stands under whom, in what order, how often called."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.probe.trace.traced import at, cost_at, paths, traced
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Cost, Edges, Nodes, TraceDone, TraceStarted
from tui_profiler.probe.trace.trace import Trace, messages

X = torch.zeros(2, 4)


def linear() -> nn.Linear:
    return nn.Linear(4, 4)


class Blocks(nn.Module):
    """Holds its blocks in a list, which is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(linear(), nn.ReLU()) for _ in range(3)])
        self.unused = linear()

    def forward(self, x):
        for block in self.blocks:
            x = block(x) + 1.0
        return x


class Shared(nn.Module):
    """One layer at two places, one of them called through the other's path."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(linear(), nn.ReLU())
        self.decoder = nn.Sequential(self.encoder[0], linear())

    def forward(self, x):
        return self.decoder(self.encoder(self.encoder(x)))


class Caller(nn.Module):
    """Calls a module that is registered in another branch."""

    def __init__(self, other: nn.Module) -> None:
        super().__init__()
        self.borrowed = [other]

    def forward(self, x):
        return self.borrowed[0](x)


class Borrowing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.owner = nn.Sequential(linear(), linear())
        self.caller = Caller(self.owner[1])

    def forward(self, x):
        return self.caller(self.owner(x))


class Unregistered(nn.Module):
    """Makes a module anew in each call, and keeps another where torch does not see it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = [linear()]

    def forward(self, x):
        return nn.Softplus()(self.hidden[0](self.hidden[0](x)))


class Twice(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(self.inner(x))


class Cyclic(nn.Module):
    """Two modules that hold each other."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()
        self.child = nn.Module()
        self.child.parent = self

    def forward(self, x):
        return self.layer(x)


class Recursive(nn.Module):
    """Calls itself, once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()

    def forward(self, x, again: bool = True):
        x = self.layer(x)
        return self(x, again=False) if again else x


EVERY = [Blocks, Shared, Borrowing, Unregistered, Cyclic, Recursive]


@pytest.fixture(params=EVERY, ids=lambda cls: cls.__name__)
def made(request: pytest.FixtureRequest) -> Trace:
    return traced(request.param(), X)


def test_a_parent_stands_before_its_children_and_its_subtree_is_whole(made: Trace) -> None:
    open_nodes: list[int] = []
    for index, node in enumerate(made.nodes):
        assert node.parent < index
        while open_nodes and open_nodes[-1] != node.parent:
            open_nodes.pop()
        assert open_nodes or node.parent == -1, "the parent's subtree had ended"
        open_nodes.append(index)


def test_every_cost_but_parameters_is_the_sum_of_the_children(made: Trace) -> None:
    of_parameters = ("parameters", "parameter_bytes", "trainable")
    fields = [name for name in Cost.__struct_fields__ if name not in of_parameters]
    for index, node in enumerate(made.nodes):
        children = [c for n, c in zip(made.nodes, made.costs, strict=True) if n.parent == index]
        if node.kind == "module":
            for name in fields:
                total = sum(getattr(child, name) for child in children)
                assert getattr(made.costs[index], name) == total, (node.path, name)


def test_edges_join_operators(made: Trace) -> None:
    assert made.edges
    for writer, reader in made.edges:
        assert made.nodes[writer].kind == made.nodes[reader].kind == "op"


def test_modules_stand_in_the_order_of_registration_and_before_operators() -> None:
    made = traced(Blocks(), X)

    assert [node.path for node in made.nodes if node.parent == 0] == [
        "blocks",
        "unused",
        "/0",
        "/1",
        "/2",
    ]
    assert paths(made)[:4] == ["", "blocks", "blocks.0", "blocks.0.0"]


def test_a_list_of_modules_is_found_through_and_what_was_not_called_says_so() -> None:
    made = traced(Blocks(), X)

    assert [at(made, f"blocks.{i}").calls for i in range(3)] == [1, 1, 1]
    assert (at(made, "blocks").calls, at(made, "blocks").note) == (0, "")
    assert (at(made, "unused").calls, at(made, "unused").note) == (0, "not called in this trace")
    assert cost_at(made, "blocks").macs == 3 * 2 * 4 * 4


def test_repeated_calls_are_one_node_whose_operators_add_up() -> None:
    made = traced(Shared(), X)

    linear_op = made.nodes[made.nodes.index(at(made, "encoder.0")) + 1]
    assert at(made, "encoder").calls == at(made, "encoder.0").calls == 2
    assert linear_op.calls == 2
    assert cost_at(made, "encoder.0").macs == 2 * 2 * 4 * 4


def test_a_shared_module_has_a_node_under_each_parent_and_counts_once() -> None:
    made = traced(Shared(), X)

    assert at(made, "decoder.0").calls == 1
    assert at(made, "decoder.0").note == "also at encoder.0"
    assert at(made, "encoder.0").note == "also at decoder.0"
    assert at(made, "decoder.0").weights[0].shared_with == "encoder.0.weight"
    assert cost_at(made, "decoder").parameters == cost_at(made, "decoder.0").parameters * 2 == 40
    assert made.costs[0].parameters == 40


def test_a_call_of_a_shared_module_belongs_to_its_nearest_place() -> None:
    shared = linear()
    model = Blocks()
    # Registered in a block first, and beside it, where the root calls it itself.
    model.blocks = nn.ModuleList([nn.Sequential(shared, nn.ReLU()), shared])
    made = traced(model, X)

    assert at(made, "blocks.0.0").calls == 1
    assert at(made, "blocks.1").calls == 1


def test_a_module_of_another_branch_has_a_node_where_it_is_called() -> None:
    made = traced(Borrowing(), X)

    caller = made.nodes.index(at(made, "caller"))
    borrowed = next(node for node in made.nodes if node.parent == caller)
    assert (borrowed.name, borrowed.calls) == ("owner.1", 1)
    assert borrowed.note == "called from here"
    assert at(made, "owner.1").calls == 1
    assert made.costs[0].macs == 3 * 2 * 4 * 4
    assert made.costs[0].parameters == 40


def test_modules_that_are_registered_nowhere_have_nodes_too() -> None:
    made = traced(Twice(Unregistered()), X)

    inner = made.nodes.index(at(made, "inner"))
    children = [node for node in made.nodes if node.parent == inner]
    assert [(node.name, node.calls, node.note) for node in children] == [
        ("Linear", 4, "not registered"),
        ("Softplus", 2, "not registered"),
    ]
    assert made.costs[0].parameters == 0


def test_modules_that_hold_each_other_end() -> None:
    made = traced(Cyclic(), X)

    assert paths(made) == ["", "layer", "child", "child.parent"]
    assert made.costs[0].parameters == 20


def test_a_module_that_calls_itself_stands_below_itself() -> None:
    made = traced(Recursive(), X, name="tree")

    again = next(node for node in made.nodes if node.parent == 0 and node.path == "")
    assert (again.name, again.calls) == ("Recursive", 1)
    assert made.costs[0].macs == 2 * 2 * 4 * 4
    assert made.costs[0].parameters == 20


def test_two_names_under_one_parent_are_one_node() -> None:
    model = nn.Sequential()
    model.one = linear()
    model.two = model.one

    made = traced(model, X)

    assert paths(made) == ["", "one"]
    assert (at(made, "one").calls, at(made, "one").note) == (2, "also at two")


def test_lists_that_two_modules_share_are_found_through_both() -> None:
    class Half(nn.Module):
        def __init__(self, layers: nn.ModuleList) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return self.layers[0](x)

    layers = nn.ModuleList([linear()])

    made = traced(nn.Sequential(Half(layers), Half(layers)), X)

    assert (at(made, "0.layers.0").calls, at(made, "1.layers.0").calls) == (1, 1)
    assert made.costs[0].parameters == 20


def test_nodes_say_what_went_in_and_out_and_where() -> None:
    model = Blocks()
    made = traced(model, X, name="blocks-of-three")

    root, layer = made.nodes[0], at(made, "blocks.0.0")
    op = made.nodes[made.nodes.index(layer) + 1]
    assert (root.name, root.path, root.type) == ("blocks-of-three", "", "Blocks")
    assert (root.inputs[0].name, root.inputs[0].shape) == ("x", (2, 4))
    assert layer.inputs[0].name == "input"
    assert [(w.name, w.shape, w.bytes) for w in layer.weights] == [
        ("weight", (4, 4), 64),
        ("bias", (4,), 16),
    ]
    assert layer.detail == "4→4"
    assert layer.source.rpartition(":")[0].endswith("torch/nn/modules/linear.py")
    line = Blocks.forward.__code__.co_firstlineno + 2
    assert layer.called_from == op.source == f"{__file__}:{line}"
    assert (op.kind, op.path) == ("op", "blocks.0.0/0")


def test_outputs_in_a_dictionary_keep_their_keys() -> None:
    class Named(nn.Module):
        def forward(self, x, scale=None):
            return {"scores": x, "boxes": [x, x]}

    made = traced(Named(), X)

    assert [tensor.name for tensor in made.nodes[0].outputs] == ["scores", "boxes.0", "boxes.1"]


def test_three_thousand_nested_modules_are_walked_without_recursion() -> None:
    deep: nn.Module = nn.ReLU()
    for _ in range(3000):
        deep = nn.Sequential(deep)

    class Bypass(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.deep = deep

        def forward(self, x):
            return x + 1.0

    made = traced(Bypass(), X)

    assert len(paths(made)) == 3002
    assert all(encode(message) for message in messages(made))


def test_messages_are_in_order_and_bounded() -> None:
    model = nn.Sequential(*[nn.Identity() for _ in range(4500)], nn.Linear(4, 4))

    made = traced(model, X)
    parts = list(messages(made))

    assert isinstance(parts[0], TraceStarted)
    assert parts[0].nodes == len(made.nodes)
    chunks = [part for part in parts if isinstance(part, Nodes)]
    assert max(len(chunk.nodes) for chunk in chunks) <= 2000
    assert tuple(node for chunk in chunks for node in chunk.nodes) == made.nodes
    assert tuple(cost for chunk in chunks for cost in chunk.costs) == made.costs
    assert sum(len(part.pairs) for part in parts if isinstance(part, Edges)) == len(made.edges)
    assert isinstance(parts[-1], TraceDone)


def test_names_that_are_not_text_can_be_sent() -> None:
    model = nn.Sequential()
    model._modules["\ud800[/b]\x1b[31m"] = linear()

    made = traced(model, X)

    assert all(encode(message) for message in messages(made))
    assert made.nodes[1].name == "\\ud800[/b]\x1b[31m"
