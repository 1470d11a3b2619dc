"""What is proposed where guessed inputs do not suit: commands that work when they are typed."""

from __future__ import annotations

import torch
from torch import nn

from tui_profiler.messages import Failed, LoadSpec, Remedy
from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import candidates_for, typed_call
from tui_profiler.probe.load.inputs.input_tensors import Candidates
from tui_profiler.probe.trace.trace import TraceError, trace
from tui_profiler.session import EMPTY, apply
from tui_profiler.verbs.outcome import complaint

PLAIN = Settings(torch.device("cpu"), None, None)


class EncoderDecoder(nn.Module):
    """As of transformers: all optional, and only the decoder says that its ids are missing."""

    class Stack(nn.Module):
        def __init__(self, ids: nn.Embedding) -> None:
            super().__init__()
            self.ids, self.layer = ids, nn.Linear(16, 16)

        def forward(self, input_ids=None, inputs_embeds=None):
            if (input_ids is None) == (inputs_embeds is None):
                raise ValueError("You must specify exactly one of input_ids or inputs_embeds")
            return self.layer(self.ids(input_ids) if inputs_embeds is None else inputs_embeds)

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(50, 16)
        self.encoder, self.decoder = self.Stack(self.shared), self.Stack(self.shared)

    def forward(self, input_ids=None, decoder_input_ids=None, inputs_embeds=None):
        return self.decoder(decoder_input_ids) + self.encoder(input_ids, inputs_embeds)


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, edge_index, batch):
        sent = self.layer(x)[edge_index[0]]
        received = torch.zeros_like(x).index_add_(0, edge_index[1], sent)
        return torch.zeros(4, 8).index_add_(0, batch, received)


class Diffusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.context = nn.Embedding(10, 4), nn.Linear(12, 4)
        self.image = nn.Conv2d(4, 4, 1)

    def forward(self, sample, timestep, encoder_hidden_states):
        more = self.time(timestep) + self.context(encoder_hidden_states).mean(1)
        return self.image(sample) + more[:, :, None, None]


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(6, 4, 1)

    def forward(self, positions, colours):
        return self.layer(torch.cat((positions, colours), 1))


class OfADictionary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, batch):
        return self.layer(batch["features"])


def refused(model: nn.Module) -> Failed:
    try:
        trace(model, Candidates(guesses(model), PLAIN))
    except TraceError as error:
        return error.failed
    raise AssertionError("it could be traced with guessed inputs")


def test_what_is_proposed_is_typed_and_runs() -> None:
    for model, names in (
        (EncoderDecoder(), ("input_ids", "decoder_input_ids")),
        (Graph(), ("x", "edge_index", "batch")),
        (Diffusion(), ("sample", "timestep", "encoder_hidden_states")),
        (Halves(), ("positions", "colours")),
    ):
        first = refused(model).remedies[0]
        assert not first.is_tried
        texts = tuple(first.command.removeprefix("--input ").split(" --input "))
        assert tuple(one.partition("=")[0] for one in texts) == names
        made = typed_call(texts, model, PLAIN).inputs(PLAIN)
        model(*made.args, **made.kwargs)


def test_what_cannot_be_typed_is_proposed_as_example_inputs_and_runs() -> None:
    model = OfADictionary()
    found = [one for one in refused(model).remedies if not one.is_tried]
    assert [one.command for one in found] == ['example_inputs = {"batch": batch}']
    names: dict[str, object] = {"batch": {"features": torch.zeros(1, 8)}}
    exec(found[0].command, names)  # As in the file of the model.
    model.example_inputs = names["example_inputs"]  # type: ignore[assignment]  # what a user writes
    (inputs,) = candidates_for(model, None, LoadSpec("model"), PLAIN)
    assert trace(model, (inputs,)).done.bounded == ()


def test_what_was_tried_is_not_told_as_something_to_try() -> None:
    failed = Failed(
        "trace",
        "forward raised ValueError",
        remedies=(Remedy("--input x=1,8", "forward raised on these", is_tried=True),),
    )
    lines = complaint(apply(EMPTY, failed), debug=False)
    assert "tried --input x=1,8: forward raised on these" in lines
    assert not any(line.startswith("try --input") for line in lines)
