"""Which way of tracing is taken, and what is said where none works."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.connection.wire import encode
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.recorder import UNSEEN
from tui_profiler.probe.trace.trace import TraceError, messages, trace
from tui_profiler.probe.trace.tree.messages import MOST_MODULES


class Head(nn.Module):
    def forward(self, x):
        raise ValueError("class count 10 is not 1000\nsecond line")


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4))
        self.body.append(Head())

    def forward(self, x):
        return self.body(x)


class RealOnly(nn.Module):
    def forward(self, x):
        return x * float(x.numpy().sum())


def failure(model: nn.Module, *candidates: Inputs) -> TraceError:
    with pytest.raises(TraceError) as caught:
        trace(model, candidates)
    assert encode(caught.value.failed)
    return caught.value


def test_a_failure_names_the_module_the_line_and_the_error() -> None:
    failed = failure(Broken(), inputs_of(torch.zeros(1, 4), why="first linear")).failed

    assert failed.stage == "trace"
    assert failed.what == "forward raised ValueError: class count 10 is not 1000"
    assert failed.where == "body.1"
    assert failed.at == f"{__file__}:{Head.forward.__code__.co_firstlineno + 1}"
    example, tried = failed.remedies
    assert example.command == 'example_inputs = {"x": x}'
    assert (tried.command, tried.is_tried) == ("--input x0=1,4", True)
    assert "first linear" in tried.result
    assert failed.traceback.rstrip().endswith("second line")


def test_an_error_in_torch_points_at_the_line_that_called_it() -> None:
    failed = failure(nn.Sequential(nn.Linear(4, 4)), inputs_of(torch.zeros(1, 5))).failed

    assert "1x5 and 4x4" in failed.what
    assert failed.where == "0"


class Listed(nn.Module):
    """A list is never called itself; its second layer raises, its third is not reached."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 3, bias=False), Broken(), nn.Linear(4, 2)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x @ torch.zeros(x.shape[-1], 4))
        return x


def test_a_failure_leaves_the_modules_as_far_as_forward_came() -> None:
    partial = failure(Listed(), inputs_of(torch.zeros(1, 4))).partial
    assert partial is not None
    assert encode(partial)
    rows = [(one.depth, one.name, one.progress, one.parameters) for one in partial.modules_shown]
    assert rows == [
        (0, "Listed", "entered", 12 + 20 + 10),
        (1, "layers", "entered", 12 + 20 + 10),
        (2, "0", "finished", 12),
        (2, "1", "entered", 20),
        (3, "body", "entered", 20),
        (4, "0", "finished", 20),
        (4, "1", "raised", 0),
        (2, "2", "not called", 10),
    ]
    assert (partial.first, partial.modules, partial.finished) == (0, 8, 2)
    shapes = {one.name: (one.inputs, one.outputs) for one in partial.modules_shown[:4]}
    assert shapes["0"] == (((1, 4),), ((1, 3),))
    assert shapes["1"] == (((1, 4),), ())
    assert partial.modules_shown[-1].inputs == ()


def test_of_a_wide_model_the_modules_around_the_one_that_raised_are_told() -> None:
    layers = [nn.Identity() for _ in range(1500)]
    layers[1400] = Head()
    partial = failure(nn.Sequential(*layers), inputs_of(torch.zeros(1, 4))).partial
    assert partial is not None
    assert len(partial.modules_shown) == MOST_MODULES
    assert (partial.modules, partial.finished, partial.first) == (1501, 1400, 501)
    (raised,) = (one for one in partial.modules_shown if one.progress == "raised")
    assert raised.name == "1400"


def test_a_tracer_that_made_no_graph_leaves_no_tree() -> None:
    with pytest.raises(TraceError) as caught:
        trace(Broken(), (inputs_of(torch.zeros(1, 4)),), "fx")
    assert caught.value.partial is None


def test_every_candidate_is_tried_under_every_method() -> None:
    error = failure(Broken(), inputs_of(torch.zeros(1, 4)), inputs_of(torch.zeros(1, 5)))

    methods = [attempt.method for attempt in error.attempts]
    assert methods == ["dispatch:fake"] * 2 + ["dispatch:real"] * 2
    assert all(attempt.error for attempt in error.attempts)
    assert "ValueError" in error.failed.what  # the first candidate's, not the second's


def test_the_first_candidate_that_fits_is_taken() -> None:
    wrong, right = inputs_of(torch.zeros(1, 5)), inputs_of(torch.zeros(1, 4))

    made = trace(nn.Linear(4, 2), (wrong, right))

    assert made.inputs is right
    assert [attempt.method for attempt in made.done.attempts] == ["dispatch:fake"] * 2
    assert [bool(attempt.error) for attempt in made.done.attempts] == [True, False]


def test_what_asks_for_values_is_run_for_real() -> None:
    made = traced(RealOnly(), torch.ones(3))

    assert made.method == "dispatch:real"
    assert [attempt.method for attempt in made.done.attempts] == ["dispatch:fake", "dispatch:real"]
    assert made.costs[0].flops == 3


def test_keywords_and_lists_of_tensors_are_passed_on() -> None:
    class Many(nn.Module):
        def forward(self, images, *, scale):
            return torch.stack(images) * scale["by"]

    inputs = Inputs(([torch.zeros(2), torch.zeros(2)],), {"scale": {"by": torch.zeros(2)}})

    made = trace(Many(), (inputs,))

    assert made.method == "dispatch:fake"
    names = [tensor.name for tensor in made.nodes[0].inputs]
    assert names == ["images.0", "images.1", "scale.by"]


def test_a_tracer_that_is_not_there_is_a_bad_argument() -> None:
    with pytest.raises(TraceError) as caught:
        trace(nn.Identity(), (inputs_of(torch.zeros(1)),), tracer="dynamo")

    assert caught.value.failed.bad_argument
    assert "dynamo" in caught.value.failed.what
    assert caught.value.failed.remedies


def test_no_candidates_is_said() -> None:
    failed = failure(nn.Identity()).failed

    assert failed.bad_argument
    assert failed.remedies[0].command == "--input 1,3,224,224"


def test_a_model_that_exits_fails_and_an_interrupt_passes() -> None:
    class Leaving(nn.Module):
        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error = error

        def forward(self, x):
            raise self.error

    assert "SystemExit" in failure(Leaving(SystemExit(3)), inputs_of(torch.zeros(1))).failed.what
    with pytest.raises(KeyboardInterrupt):
        trace(Leaving(KeyboardInterrupt()), (inputs_of(torch.zeros(1)),))


def test_an_error_whose_message_cannot_be_had_is_named_by_its_type() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    class Raising(nn.Module):
        def forward(self, x):
            raise SilentError

    failed = failure(Raising(), inputs_of(torch.zeros(1))).failed

    assert failed.what == "forward raised SilentError"


def test_lazy_layers_are_made_before_the_trace_and_said() -> None:
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.Flatten(), nn.LazyLinear(5))

    made = traced(model, torch.zeros(1, 3, 6, 6))

    assert "made its layers" in made.nodes[0].note
    assert made.costs[0].parameters == sum(p.numel() for p in model.parameters()) == 869
    assert [node.type for node in made.nodes if node.parent == 0] == ["Conv2d", "Flatten", "Linear"]


def test_layers_made_in_forward_are_made_for_good() -> None:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = None
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            if self.head is None:
                self.head = nn.Linear(x.shape[-1], 3)
            return self.head(x)

    model = Growing()

    made = traced(model, torch.zeros(2, 7))

    assert [(node.path, node.calls) for node in made.nodes if node.kind == "module"] == [
        ("", 1),
        ("head", 1),
    ]
    assert isinstance(model.head, nn.Linear)
    assert made.costs[0].parameters == 24


def test_scripted_models_are_traced() -> None:
    scripted = torch.jit.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.zeros(1, 4))

    made = traced(scripted, torch.zeros(1, 4))

    assert made.costs[0].macs == 12
    assert made.nodes[0].type == "Sequential"
    assert all(encode(message) for message in messages(made))


def test_compiled_models_are_traced() -> None:
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), backend="eager")

    made = traced(compiled, torch.zeros(1, 4))

    assert made.costs[0].macs == 12


def test_padded_sentences_take_the_nested_path_and_count_as_padded() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, tokens, padding):
            return self.encoder(tokens, src_key_padding_mask=padding)

    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    made = traced(Masked(), torch.zeros(2, 5, 16), padding)

    assert made.method == "dispatch:real"
    assert made.done.uncosted == ()
    projections, scores, feed_forward = 4 * 10 * 16 * 16, 2 * 2 * 5 * 5 * 16, 2 * 10 * 16 * 32
    assert made.costs[0].macs == projections + scores + feed_forward


def test_too_little_memory_has_its_own_remedy() -> None:
    class Huge(nn.Module):
        def forward(self, x):
            x.numpy()
            return torch.empty(1 << 60)

    def commands(batch: int | None) -> list[str]:
        inputs = replace(inputs_of(torch.zeros(batch or 1)), batch=batch)
        return [one.command for one in failure(Huge(), inputs).failed.remedies]

    assert commands(2) == ["--batch 1", "--device meta"]
    assert commands(1) == commands(None) == ["--device meta"]


class InAThread(torch.nn.Module):
    """Computes its first layer in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        made = []

        def work():
            with torch.no_grad():  # which belongs to a thread as well
                made.append(self.first(x))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return self.last(made[0])


def test_what_another_thread_computes_makes_figures_a_lower_bound() -> None:
    model = InAThread().eval()
    found = trace(model, [inputs_of(torch.zeros(1, 8))])

    assert found.costs[0].macs == 16 * 4  # the last layer alone
    assert found.costs[0].uncosted == 1
    assert UNSEEN in found.done.uncosted
