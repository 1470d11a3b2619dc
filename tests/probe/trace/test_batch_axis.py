"""Which axis counts items: found by trying, for inputs that begin with something else too."""

import re
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils.rnn import pack_padded_sequence

from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.batch_axis import of_batch, resized, with_batch
from tui_profiler.probe.trace.trace import trace


class Called(nn.Module):
    """A module whose forward is a function of its layers and inputs, ``f(layers, *inputs)``."""

    def __init__(self, function, **layers: nn.Module) -> None:  # type: ignore[no-untyped-def] # one of the lambdas below
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.function = function

    def forward(self, *given: object) -> object:
        """Call it."""
        return self.function(self.layers, *given)


def found(model: nn.Module, *args: object) -> Inputs:
    """Return the inputs with the batch axis that is found."""
    model.eval()
    return with_batch(model, trace(model, (Inputs(args),)))


def graph_convolution(layers: nn.ModuleDict, x: Tensor, edges: Tensor) -> Tensor:
    x = layers["a"](x)
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])


def over_time(layers: nn.ModuleDict, x: Tensor) -> Tensor:
    state, states = x.new_zeros(x.shape[1], 8), []
    for step in range(x.shape[0]):
        state = layers["cell"](x[step], state)
        states.append(state)
    return torch.stack(states)


def of_lengths(layers: nn.ModuleDict, x: Tensor, ends: Tensor) -> Tensor:
    bounds, parts = ends.tolist(), []
    for begin, end in pairwise(bounds):
        part = x[None, begin:end]
        parts.append(functional.scaled_dot_product_attention(part, part, part)[0])
    return layers["a"](torch.cat(parts))


NODES, EDGES = torch.randn(30, 8), torch.randint(0, 30, (2, 77))


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        (Called(graph_convolution, a=nn.Linear(8, 8)), (NODES, EDGES), "index_add combines"),
        (
            Called(lambda m, e, x: graph_convolution(m, x, e), a=nn.Linear(8, 8)),
            (EDGES, NODES),
            "the output has no axis that follows",
        ),
        (
            Called(lambda m, x, near: m["a"](x[near]).amax(1), a=nn.Linear(8, 8)),
            (NODES, torch.randint(0, 30, (30, 5))),
            "picks entries of the first axis",
        ),
        (
            Called(lambda m, adjacency, x: adjacency @ m["a"](x), a=nn.Linear(8, 8)),
            (torch.rand(30, 30), NODES),
            "raises",
        ),
        (
            Called(lambda m, x, to: x - torch.zeros(4, 8).index_add(0, to, x)[to]),
            (NODES, torch.randint(0, 4, (30,))),
            "combines",
        ),
        (
            Called(lambda m, x: m["a"](x), a=nn.Conv2d(3, 4, 3)),
            (torch.randn(3, 16, 16),),
            "raises",
        ),
        (
            Called(
                lambda m, ids: m["b"](m["a"](ids)),
                a=nn.Embedding(50, 8),
                b=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            ),
            (torch.randint(0, 50, (77,)),),
            "combines",
        ),
        (
            Called(of_lengths, a=nn.Linear(8, 8)),
            (torch.randn(50, 8), torch.tensor([0, 20, 50])),
            "no axis that follows",
        ),
        (
            Called(
                lambda m, d: m["a"](d["points"]) @ m["b"](d["queries"]).T,
                a=nn.Linear(8, 4),
                b=nn.Linear(6, 4),
            ),
            ({"points": torch.randn(20, 8), "queries": torch.randn(7, 6)},),
            "unlike lengths",
        ),
        (Called(lambda m, x: (x * torch.randn(8, 8)).sum(0)), (torch.tensor(2.0),), "no input"),
        (
            Called(lambda m, x: m["a"](x)[1][0], a=nn.LSTM(8, 8, batch_first=True)),
            (pack_padded_sequence(torch.randn(2, 5, 8), torch.tensor([5, 3]), batch_first=True),),
            "real values",
        ),
        (Called(lambda m, x: x - x[:1]), (torch.randn(4, 8),), "combines"),
        (Called(lambda m, x: x.flip(0)), (torch.randn(4, 8),), "combines"),
    ],
    ids=lambda one: "" if isinstance(one, (nn.Module, tuple)) else str(one)[:24],
)
def test_what_does_not_count_items_is_no_batch(
    model: nn.Module, given: tuple[object, ...], why: str
) -> None:
    inputs = found(model, *given)
    assert (inputs.batch, inputs.batch_axes) == (None, None)
    assert re.search(why, inputs.why_no_batch), inputs.why_no_batch


def encoder() -> nn.Module:
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16), 1, enable_nested_tensor=False
    )


@pytest.mark.parametrize(
    ("model", "given", "batch", "axes"),
    [
        (Called(lambda m, x: m["a"](x)[0], a=nn.LSTM(8, 8)), (torch.randn(9, 4, 8),), 4, (1,)),
        (Called(lambda m, x: m["a"](x)[1][-1], a=nn.GRU(8, 8)), (torch.randn(9, 4, 8),), 4, (1,)),
        (Called(over_time, cell=nn.GRUCell(8, 8)), (torch.randn(9, 4, 8),), 4, (1,)),
        (Called(lambda m, x: m["a"](x), a=encoder()), (torch.randn(9, 4, 8),), 4, (1,)),
        (
            Called(lambda m, x, h: m["a"](m["e"](x), h), a=nn.GRU(8, 8, 2), e=nn.Embedding(9, 8)),
            (torch.randint(0, 9, (7, 4)), torch.randn(2, 4, 8)),
            4,
            (1, 1),
        ),
        (
            Called(lambda m, mask, x: functional.scaled_dot_product_attention(x, x, x, mask)),
            (torch.ones(6, 6).tril().bool(), torch.randn(4, 6, 8)),
            4,
            (None, 0),
        ),
        (
            Called(lambda m, t, x: m["a"](x) + t.view(-1, 1, 1, 1), a=nn.Conv2d(3, 3, 3)),
            (torch.tensor([5.0]), torch.randn(4, 3, 8, 8)),
            4,
            (None, 0),
        ),
        (
            Called(lambda m, t, x: m["a"](x) + t, a=nn.Conv2d(3, 3, 3)),
            (torch.tensor(5.0), torch.randn(4, 3, 8, 8)),
            4,
            (None, 0),
        ),
        (
            Called(lambda m, x: torch.stack([m["a"](one) for one in x]), a=nn.Linear(8, 8)),
            (torch.randn(4, 6, 8),),
            4,
            (0,),
        ),
        (
            Called(lambda m, x, n: m["e"](x)[torch.arange(len(x)), n], e=nn.Embedding(9, 8)),
            (torch.randint(0, 9, (4, 6)), torch.tensor([1, 2, 3, 4])),
            4,
            (0, 0),
        ),
        (
            Called(lambda m, x: m["a"](torch.cat([x, x])).chunk(2)[0], a=nn.Linear(8, 8)),
            (torch.randn(4, 8),),
            4,
            (0,),
        ),
        (
            Called(lambda m, x: [{"boxes": m["a"](one)} for one in x], a=nn.Conv2d(3, 4, 3)),
            ([torch.rand(3, 16, 16), torch.rand(3, 20, 12)],),
            2,
            (None, None),
        ),
    ],
    ids=[
        *("lstm", "gru", "cells over time", "encoder", "ids and state", "mask first"),
        *("time step first", "scalar first", "loop over items", "last token", "guidance", "images"),
    ],
)
def test_the_axis_that_counts_items_is_found(
    model: nn.Module, given: tuple[object, ...], batch: int, axes: tuple[int | None, ...]
) -> None:
    inputs = found(model, *given)
    assert (inputs.batch, inputs.batch_axes, inputs.why_no_batch) == (batch, axes, "")


def test_a_mixture_of_experts_keeps_items_apart() -> None:
    def routed(layers: nn.ModuleDict, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        choices = layers["router"](tokens).argmax(-1)
        mixed = torch.zeros_like(tokens)
        for expert in range(3):
            (rows,) = torch.where(choices == expert)
            mixed.index_add_(0, rows, layers["expert"](tokens[rows]))
        return mixed.view_as(x)

    model = Called(routed, router=nn.Linear(8, 3), expert=nn.Linear(8, 8))
    assert found(model, torch.randn(4, 5, 8)).batch == 4


def test_another_batch_size_is_on_the_axis_that_was_found() -> None:
    model = Called(lambda m, x: m["a"](x)[0], a=nn.LSTM(8, 8)).eval()
    given = Inputs((torch.randn(9, 4, 8),))
    (larger,) = of_batch(model, (given,), 6)
    tensor = larger.args[0]
    assert isinstance(tensor, Tensor)
    assert tensor.shape == (9, 6, 8)
    assert torch.equal(tensor[:, 4:], given.args[0][:, :2])  # type: ignore[index] # a tensor
    assert larger.batch == 6


def test_the_items_of_an_example_are_repeated_and_the_rest_stays() -> None:
    value = {"x": torch.arange(6.0).view(2, 3), "table": torch.ones(3, 5)}
    model = Called(lambda m, given: given["x"] @ given["table"])
    (larger,) = of_batch(model, (Inputs((value,)),), 5)
    given = larger.args[0]
    assert isinstance(given, dict)
    assert torch.equal(given["x"][4], value["x"][0])
    assert given["table"].shape == (3, 5)


def test_a_batch_is_refused_where_no_axis_is_one() -> None:
    model = Called(graph_convolution, a=nn.Linear(8, 8)).eval()
    with pytest.raises(LoadError, match="no batch axis: aten::index_add combines"):
        of_batch(model, (Inputs((NODES, EDGES)),), 8)


def test_images_of_a_list_are_repeated() -> None:
    images = [torch.rand(3, 8, 8), torch.rand(3, 9, 9)]
    given = Called(lambda m, x: [one.mean() for one in x])
    inputs = resized(found(given, images), 5)
    assert [one.shape[1] for one in inputs.args[0]] == [8, 9, 8, 9, 8]  # type: ignore[attr-defined] # a list


def test_a_compiled_model_and_one_that_reads_a_boolean_keep_their_batch() -> None:
    compiled = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    assert found(compiled, torch.randn(4, 8)).batch == 4

    def checked(layers: nn.ModuleDict, x: Tensor) -> Tensor:
        if not bool(torch.isfinite(x).all()):
            raise ValueError("not finite")
        return layers["a"](x)

    assert found(Called(checked, a=nn.Linear(8, 8)), torch.randn(4, 8)).batch == 4


def test_flex_attention_has_its_batch_and_none_where_it_mixes_what_lies_along_the_axis() -> None:
    by_item = Called(lambda m, x: flex_attention(x[:, None], x[:, None], x[:, None])[:, 0])
    assert found(by_item, torch.randn(4, 16, 8)).batch_axes == (0,)
    mixing = found(Called(lambda m, x: flex_attention(*[x[None, None]] * 3)[0, 0]), NODES)
    assert mixing.batch is None
    assert "along the first axis" in mixing.why_no_batch


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with_batch(model, trace(model, (Inputs((torch.randn(4, 8),)),)))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
