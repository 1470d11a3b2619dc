"""Items and tokens of a program's forward: only what its recorded forward shows."""

import pytest
import torch
from torch import Tensor, nn

from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.step.items import items_of, tokens_of
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Sum over neighbours: (nodes, width), (2, edges)."""
        x = self.layer(x)
        return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


class EdgesFirst(Graph):
    def forward(self, edges: Tensor, x: Tensor) -> Tensor:
        """Likewise."""
        return super().forward(x, edges)


class Adjacency(Graph):
    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Likewise: (nodes, width), (nodes, nodes)."""
        return adjacency @ self.layer(x)


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.LSTM(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Read: (time, batch, width)."""
        read: Tensor = self.reader(x)[0]
        return read


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)

    def forward(self, ids: Tensor) -> Tensor:
        """Look up: (batch, tokens)."""
        found: Tensor = self.words(ids)
        return found


EDGES = torch.randint(0, 30, (2, 77))


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        (Graph(), (torch.randn(30, 8), EDGES), "do not agree"),
        (EdgesFirst(), (EDGES, torch.randn(30, 8)), "do not agree"),
        (Adjacency(), (torch.randn(30, 8), torch.rand(30, 30)), "adds up over the first axis"),
        (TimeFirst(), (torch.randn(9, 4, 8),), "the first axis is time in reader"),
        (nn.Flatten(0), (torch.randn(9, 4),), "not that of the inputs"),
        (nn.Identity(), (torch.tensor(1.0),), "no batch axis"),
    ],
)
def test_a_first_axis_that_is_no_batch_gives_no_items(
    model: nn.Module, given: tuple[Tensor, ...], why: str
) -> None:
    nodes = trace(model, (Inputs(given),)).nodes
    found = items_of(nodes, model)
    assert isinstance(found, Unknown)
    assert why in found.reason
    assert isinstance(tokens_of(nodes), Unknown)


def test_a_first_axis_on_which_inputs_and_outputs_agree_counts_items() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LSTM(8, 8, batch_first=True))
    assert items_of(trace(model, (Inputs((torch.randn(4, 9, 8),)),)).nodes, model) == 4


def test_tokens_are_ids_that_an_embedding_looks_up() -> None:
    model = Language()
    nodes = trace(model, (Inputs((torch.randint(0, 50, (4, 16)),)),)).nodes
    assert (items_of(nodes, model), tokens_of(nodes)) == (4, 64)
