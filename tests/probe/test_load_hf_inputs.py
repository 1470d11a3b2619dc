"""What a Hugging Face model is called with: kinds of input, sizes, and what the user typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.probe.hf_folders import BERT, LLAMA, LLAVA, T5, VIT, WHISPER, folder_of, shapes, traced
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.errors import LoadError
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.nodes import Frozen
from tui_profiler.probe.trace.record import record
from tui_profiler.probe.trace.ways import DISPATCH_REAL

pytest.importorskip("transformers")


def test_an_encoder_takes_ids_a_mask_and_segments(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, BERT))
    assert shapes(made) == dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 48))
    assert made.inputs.specs[0].why == "its config's max_position_embeddings"
    assert made.inputs.specs[1].why == "no padding"
    assert made.done.bounded == ()  # The mask is real: whether it is all ones needs no guess.


@pytest.mark.parametrize("config", [BERT, LLAMA, T5, WHISPER], ids=lambda c: c["model_type"])
def test_the_fake_run_dispatches_what_the_real_one_does(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    loaded, made = traced(folder_of(tmp_path, config))
    real = Frozen(record(loaded.model, made.inputs, DISPATCH_REAL, "").places).nodes()
    assert made.method == "dispatch:fake"
    assert [(n.path, n.type, n.calls) for n in made.nodes] == [
        (n.path, n.type, n.calls) for n in real
    ]


def test_an_image_has_the_size_of_the_config(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, VIT))
    assert shapes(made) == {"pixel_values": (1, 3, 32, 32)}
    assert made.inputs.specs[0].why == "its config's image_size"


def test_an_image_has_the_size_of_the_processor_where_there_is_one(tmp_path: Path) -> None:
    resnet = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8], "depths": [1]}
    name = folder_of(tmp_path, resnet)
    assert shapes(traced(name)[1]) == {"pixel_values": (1, 3, 224, 224)}
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"size": {"shortest_edge": 72}, "crop_size": {"height": 48, "width": 64}})
    )
    _, made = traced(name)
    assert shapes(made) == {"pixel_values": (1, 3, 48, 64)}
    assert made.inputs.specs[0].why == "crop_size of preprocessor_config.json"


def test_a_processor_that_cannot_be_read_is_passed_by(tmp_path: Path) -> None:
    name = folder_of(tmp_path, VIT)
    (tmp_path / "preprocessor_config.json").write_text("{")
    assert shapes(traced(name)[1]) == {"pixel_values": (1, 3, 32, 32)}


def test_what_encodes_and_decodes_gets_both(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, T5))
    assert shapes(made)["decoder_input_ids"] == shapes(made)["input_ids"] == (1, 128)


def test_sound_comes_as_the_config_says(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, WHISPER))
    assert shapes(made) == {"input_features": (1, 20, 100), "decoder_input_ids": (1, 24)}


def test_an_image_has_as_many_placeholders_as_features(tmp_path: Path) -> None:
    loaded, made = traced(folder_of(tmp_path, LLAVA))
    # 32 / 8 patches each way, and the class token is not taken.
    assert shapes(made)["input_ids"] == (1, 16 + 128)
    assert shapes(made)["pixel_values"] == (1, 3, 32, 32)
    ids = made.inputs.kwargs["input_ids"]
    assert isinstance(ids, torch.Tensor)
    assert int((ids == 200).sum()) == 16
    with torch.no_grad():
        loaded.model(**made.inputs.kwargs)


def test_another_batch_size_is_one_of_every_input(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, LLAVA), batch=3)
    assert {shape[0] for shape in shapes(made).values()} == {3}
    assert made.inputs.batch == 3
    loaded, first = traced(folder_of(tmp_path, BERT))
    (again, *_) = loaded.remake(loaded.model, 2)
    assert (first.inputs.batch, again.batch) == (1, 2)


def test_what_is_typed_sets_the_length_of_all(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, LLAMA), inputs=("input_ids=2,300:int64",))
    assert shapes(made) == {"input_ids": (2, 300), "attention_mask": (2, 300)}
    assert made.inputs.specs[0].why == "--input"
    assert made.inputs.batch == 2
    _, unnamed = traced(folder_of(tmp_path, LLAMA), inputs=("1,40",))
    assert shapes(unnamed) == {"input_ids": (1, 40), "attention_mask": (1, 40)}
    assert unnamed.inputs.specs[0].dtype == "int64"


def test_a_name_that_forward_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match='has no parameter "pixels"'):
        load(LoadSpec(folder_of(tmp_path, VIT), inputs=("pixels=1,3,32,32",)))


def test_special_tokens_are_not_drawn_by_chance(tmp_path: Path) -> None:
    few = {**LLAMA, "vocab_size": 4, "bos_token_id": 1, "eos_token_id": 2}
    _, made = traced(folder_of(tmp_path, few))
    ids = made.inputs.kwargs["input_ids"]
    assert isinstance(ids, torch.Tensor)
    assert set(ids.flatten().tolist()) == {0, 3}
