"""What the tests of Hugging Face models share: folders with a tiny config, and what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.load import load
from tui_profiler.probe.load.loaded import Loaded
from tui_profiler.probe.trace.trace import Trace, trace

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 48,
}
VIT: dict[str, Any] = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
T5: dict[str, Any] = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 2,
    "vocab_size": 128,
    "decoder_start_token_id": 0,
    "is_encoder_decoder": True,
}
WHISPER: dict[str, Any] = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 128,
    "num_mel_bins": 20,
    "max_source_positions": 50,
    "max_target_positions": 24,
    "decoder_start_token_id": 3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "is_encoder_decoder": True,
}
LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "architectures": ["LlavaForConditionalGeneration"],
    "image_token_id": 200,
    "image_token_index": 200,
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default",
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    },
    "text_config": LLAMA,
}


def folder_of(path: Path, config: dict[str, Any], **changed: Any) -> str:
    """Write a config into a folder; gives how the model is typed."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({**config, **changed}))
    return f"hf:{path}"


def traced(model: str, **named: Any) -> tuple[Loaded, Trace]:
    """Load and trace as a worker does."""
    loaded = load(LoadSpec(model, **named))
    return loaded, trace(loaded.model, loaded.candidates)


def shapes(made: Trace) -> dict[str, tuple[int, ...]]:
    return {spec.name: spec.shape for spec in made.inputs.specs}
