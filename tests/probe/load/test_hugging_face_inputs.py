"""What a Hugging Face model is called with: kinds of input, sizes, and what the user typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.probe.load.hf_folders import (
    BERT,
    DECISION,
    LLAMA,
    LLAVA,
    MUSICGEN,
    SIGLIP2,
    SPEECHT5,
    T5,
    VIT,
    WHISPER,
    folder_of,
    shapes,
    traced,
)
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import load
from tui_profiler.probe.trace.record import record
from tui_profiler.probe.trace.tracers import DISPATCH_REAL
from tui_profiler.probe.trace.tree.messages import Frozen

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


def test_patches_come_as_the_processor_makes_them(tmp_path: Path) -> None:
    from transformers.models.siglip2 import Siglip2ImageProcessor

    processor = Siglip2ImageProcessor(patch_size=16, max_num_patches=64)
    made = processor(torch.zeros(3, 640, 640, dtype=torch.uint8), return_tensors="pt")
    _, found = traced(folder_of(tmp_path, SIGLIP2))
    assert {name: shapes(found)[name] for name in made} == {n: tuple(made[n].shape) for n in made}
    assert found.inputs.kwargs["spatial_shapes"].tolist() == made["spatial_shapes"].tolist()
    assert shapes(found)["input_ids"] == (1, 16)


def test_music_comes_as_codebooks(tmp_path: Path) -> None:
    loaded, found = traced(folder_of(tmp_path, MUSICGEN), batch=2)
    seen: list[torch.Size] = []
    decoder = loaded.model.decoder
    handle = decoder.register_forward_pre_hook(
        lambda _module, _args, named: seen.append(named["input_ids"].shape), with_kwargs=True
    )
    loaded.model.generate(found.inputs.kwargs["input_ids"], max_new_tokens=2, guidance_scale=1)
    handle.remove()
    assert shapes(found)["decoder_input_ids"][0] == seen[0][0] == 2 * 4
    assert "input_values" not in shapes(found)


def test_speech_is_made_of_text_and_a_speaker(tmp_path: Path) -> None:
    _, found = traced(folder_of(tmp_path, SPEECHT5))
    assert shapes(found)["input_ids"] == (1, 128)
    assert shapes(found)["decoder_input_values"] == (1, 128, 20)
    assert shapes(found)["speaker_embeddings"] == (1, 24)
    _, heard = traced(folder_of(tmp_path, SPEECHT5, architectures=["SpeechT5ForSpeechToSpeech"]))
    assert shapes(heard)["input_values"] == (1, 16_000)
    assert shapes(heard)["decoder_input_values"] == (1, 128, 20)


def test_inputs_of_no_usual_kind_come_as_the_documentation_says(tmp_path: Path) -> None:
    loaded, found = traced(folder_of(tmp_path, DECISION))
    steps = shapes(found)["states"][1]
    assert shapes(found) == {
        "states": (1, steps, 11),
        "actions": (1, steps, 3),
        "rewards": (1, steps, 1),
        "returns_to_go": (1, steps, 1),
        "timesteps": (1, steps),
        "attention_mask": (1, steps),
    }
    with torch.no_grad():
        output = loaded.model(**found.inputs.keywords())
    assert output.action_preds.shape == (1, steps, 3)


def test_a_part_that_reads_an_encoder_is_passed_what_that_made(tmp_path: Path) -> None:
    small = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2}
    qformer = {"model_type": "blip_2_qformer", **small, "intermediate_size": 64}
    _, made = traced(folder_of(tmp_path, qformer, encoder_hidden_size=48))
    assert shapes(made) == {"query_embeds": (1, 128, 32), "encoder_hidden_states": (1, 128, 48)}
    assert made.inputs.specs[1].why.startswith("its config's encoder_hidden_size")


def test_what_matches_two_images_is_passed_a_pair(tmp_path: Path) -> None:
    pytest.importorskip("transformers.models.lightglue")
    points = {"model_type": "superpoint", "encoder_hidden_sizes": [8] * 4}
    points |= {"decoder_hidden_size": 8, "descriptor_decoder_dim": 16}
    lightglue = {"model_type": "lightglue", "keypoint_detector_config": points}
    lightglue |= {"descriptor_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    _, made = traced(folder_of(tmp_path, lightglue))
    assert shapes(made) == {"pixel_values": (1, 2, 3, 224, 224)}


def test_an_image_too_small_gives_way_to_the_size_of_the_image_processor(tmp_path: Path) -> None:
    small = {"model_type": "dinov2", "hidden_size": 16, "num_attention_heads": 2}
    small |= {"num_hidden_layers": 2, "image_size": 384, "patch_size": 16, "mlp_ratio": 1}
    depth = {"model_type": "depth_pro", "fusion_hidden_size": 8, "intermediate_hook_ids": [1, 0]}
    depth |= {"intermediate_feature_dims": [8, 8], "scaled_images_feature_dims": [8, 8, 8]}
    depth |= {"image_model_config": small, "patch_model_config": small, "fov_model_config": small}
    _, made = traced(folder_of(tmp_path, depth))
    assert shapes(made) == {"pixel_values": (1, 3, 1536, 1536)}
    assert made.inputs.specs[0].why == "size of DepthProImageProcessor"


def test_whole_numbers_without_documentation_are_zeros(tmp_path: Path) -> None:
    pytest.importorskip("transformers.models.jev")
    jev = {"model_type": "jev", "text_config": LLAMA, "hidden_size": LLAMA["hidden_size"]}
    loaded, made = traced(folder_of(tmp_path, jev))
    assert set(shapes(made)) == {"input_ids", "marks", "num_options", "question_type_ids"}
    assert made.inputs.specs[1].why == "its annotation: whole numbers"
    with torch.no_grad():
        loaded.model(**made.inputs.keywords())


def test_text_comes_from_the_vocabulary_of_the_part_that_reads_it(tmp_path: Path) -> None:
    small = {"hidden_size": 64, "intermediate_size": 32, "num_attention_heads": 2}
    small |= {"num_hidden_layers": 1, "projection_dim": 16, "vocab_size": 40, "bos_token_id": 1}
    decoder = {**small, "vocab_size": 500, "num_mel_attn_blocks": 1, "bos_token_id": 498}
    clvp = {"model_type": "clvp", "text_config": small, "projection_dim": 16}
    clvp |= {"speech_config": {**small, "vocab_size": 500}}
    clvp |= {"decoder_config": {**decoder, "eos_token_id": 499}}
    loaded, made = traced(folder_of(tmp_path, clvp))
    with torch.no_grad():
        loaded.model(**made.inputs.keywords())


def test_an_image_may_come_with_a_prompt(tmp_path: Path) -> None:
    small = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    seggpt = {"model_type": "seggpt", "architectures": ["SegGptForImageSegmentation"], **small}
    seggpt |= {"image_size": [64, 32], "patch_size": 16, "mlp_dim": 32, "decoder_hidden_size": 16}
    seggpt |= {
        "pretrain_image_size": 32,
        "intermediate_hidden_state_indices": [1],
        "merge_index": 0,
        "num_hidden_layers": 2,
    }
    _, prompted = traced(folder_of(tmp_path / "seggpt", seggpt))
    names = ("pixel_values", "prompt_pixel_values", "prompt_masks")
    assert shapes(prompted) == dict.fromkeys(names, (1, 3, 32, 32))


def test_what_only_generates_is_refused_and_the_remedy_helps(tmp_path: Path) -> None:
    part = {"num_layers": 1, "num_heads": 2, "hidden_size": 32, "input_vocab_size": 64}
    part |= {"output_vocab_size": 64, "block_size": 64}
    names = {"semantic": {}, "coarse_acoustics": {}, "fine_acoustics": {"n_codes_total": 2}}
    config = {f"{name}_config": {**part, **more} for name, more in names.items()}
    bark = {"model_type": "bark", "architectures": ["BarkModel"], **config}
    with pytest.raises(LoadError, match=r"BarkModel has no forward: .*semantic") as caught:
        traced(folder_of(tmp_path, bark))
    remedy = caught.value.failed.remedies[0]
    assert remedy.command == "tui-profiler part.py:build"
    code = remedy.result.partition(": ")[2].replace("; ", "\n")
    (tmp_path / "part.py").write_text(code)
    _, found = traced("part.py:build", folder=str(tmp_path))
    assert found.nodes[0].type == "BarkSemanticModel"
    assert found.costs[0].macs > 0


def test_what_calls_the_parts_is_named_where_nothing_is_generated(tmp_path: Path) -> None:
    small = {"embed_dim": 8, "num_embeddings": 16, "latent_channels": 8}
    vq = {"model_type": "glm_image_vqmodel", "architectures": ["GlmImageVQVAE"], **small}
    with pytest.raises(LoadError, match=r"has no forward: encode\(\) calls its parts"):
        load(LoadSpec(folder_of(tmp_path, vq)))


def test_sound_comes_as_the_config_says(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, WHISPER))
    assert shapes(made) == {"input_features": (1, 20, 100), "decoder_input_ids": (1, 23)}


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


def test_a_kind_of_input_that_is_not_passed_is_named(tmp_path: Path) -> None:
    name = folder_of(tmp_path, LLAVA)
    whole = traced(name)[1].inputs.specs
    assert not any("without" in spec.why for spec in whole)
    # As many token ids as were typed leave no room for those of an image.
    _, made = traced(name, inputs=("input_ids=1,2",))
    assert "pixel_values" not in shapes(made)
    assert made.inputs.specs[0].why == "--input; called without pixel_values"


def test_features_are_asked_of_the_part_that_makes_them(tmp_path: Path) -> None:
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 32, "patch_size": 8, "projection_dim": 64, "intermediate_size": 32}
    janus = {"model_type": "janus", "image_token_id": 200, "text_config": LLAMA}
    janus |= {"vision_config": vision, "vq_config": {"embed_dim": 8, "num_embeddings": 16}}
    loaded, made = traced(folder_of(tmp_path, janus))
    assert not hasattr(loaded.model, "get_image_features")
    assert shapes(made)["pixel_values"] == (1, 3, 32, 32)
    assert shapes(made)["input_ids"] == (1, 16 + 128)


def test_patches_may_come_as_squares(tmp_path: Path) -> None:
    pytest.importorskip("transformers.models.paddleocr_vl")
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": 56, "patch_size": 14, "intermediate_size": 32}
    text = {**LLAMA, "model_type": "paddleocr_vl_text"}
    text["rope_parameters"] = {
        "rope_type": "default",
        "rope_theta": 1e4,
        "mrope_section": [1, 1, 2],
    }
    paddle = {"model_type": "paddleocr_vl", "text_config": text, "vision_config": vision}
    paddle |= {"image_token_id": 200, "video_token_id": 201, "vision_start_token_id": 202}
    _, made = traced(folder_of(tmp_path, paddle, vision_end_token_id=203))
    assert shapes(made)["pixel_values"] == (16, 3, 14, 14)
    assert shapes(made)["image_grid_thw"] == (1, 3)


def test_patches_come_with_how_many_are_merged(tmp_path: Path) -> None:
    pytest.importorskip("transformers.models.video_llama_3")
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"intermediate_size": 32, "patch_size": 14}
    loaded, made = traced(folder_of(tmp_path, {"model_type": "video_llama_3_vision", **small}))
    assert made.inputs.kwargs["merge_sizes"].tolist() == [2]
    with torch.no_grad():
        loaded.model(**made.inputs.keywords())


def test_patches_come_with_their_places(tmp_path: Path) -> None:
    pytest.importorskip("transformers.models.gemma4")
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 16}
    small |= {"num_key_value_heads": 2, "intermediate_size": 32, "position_embedding_size": 32}
    name = folder_of(tmp_path, {"model_type": "gemma4_vision", **small})
    loaded, made = traced(name, batch=2)
    # 224 / 16 patches each way, and whole squares of 3 x 3.
    assert shapes(made) == {"pixel_values": (2, 144, 768), "pixel_position_ids": (2, 144, 2)}
    places = made.inputs.kwargs["pixel_position_ids"]
    assert isinstance(places, torch.Tensor)
    assert places[1, 13].tolist() == [1, 1]
    with torch.no_grad():
        assert loaded.model(**made.inputs.keywords()).last_hidden_state.shape == (2 * 16, 32)


def test_flattened_patches_hold_their_row_and_column(tmp_path: Path) -> None:
    small = {"hidden_size": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    vision = {**small, "patch_embed_hidden_size": 768, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2}
    pix = {"model_type": "pix2struct", "text_config": {**small, "vocab_size": 64}}
    loaded, made = traced(folder_of(tmp_path, pix, vision_config=vision, is_encoder_decoder=True))
    assert shapes(made)["flattened_patches"] == (1, 128, 2 + 3 * 16 * 16)
    with torch.no_grad():
        loaded.model(**made.inputs.keywords())


def test_another_batch_size_is_one_of_every_input(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, LLAVA), batch=3)
    assert {shape[0] for shape in shapes(made).values()} == {3}
    assert made.inputs.batch == 3
    loaded, first = traced(folder_of(tmp_path, BERT))
    (again, *_) = loaded.remake(loaded.model, 2)
    assert (first.inputs.batch, again.batch) == (1, 2)


def test_a_model_may_have_several_main_inputs(tmp_path: Path) -> None:
    swin = {"model_type": "swin", "embed_dim": 8, "depths": [1] * 4, "num_heads": [1] * 4}
    swin |= {"out_features": ["stage1", "stage2", "stage3", "stage4"], "image_size": 64}
    former = {"model_type": "oneformer", "backbone_config": swin, "architectures": None}
    loaded = load(LoadSpec(folder_of(tmp_path, former)))
    assert isinstance(loaded.model.main_input_name, list)
    first = loaded.candidates[0]
    assert first.specs[0].name == loaded.model.main_input_name[0]


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
