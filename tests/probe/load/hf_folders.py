"""What the tests of Hugging Face models share: folders with a tiny config, and what is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.load.load import load
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
_CLIP: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
SIGLIP2: dict[str, Any] = {
    "model_type": "siglip2",
    "architectures": ["Siglip2Model"],
    "text_config": {
        **_CLIP,
        "model_type": "siglip2_text_model",
        "vocab_size": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "max_position_embeddings": 16,
    },
    "vision_config": {
        **_CLIP,
        "model_type": "siglip2_vision_model",
        "num_patches": 64,
        "patch_size": 16,
    },
}
MUSICGEN: dict[str, Any] = {
    "model_type": "musicgen",
    "architectures": ["MusicgenForConditionalGeneration"],
    "is_encoder_decoder": True,
    "text_encoder": {**T5, "architectures": None},
    "audio_encoder": {
        "model_type": "encodec",
        "num_filters": 4,
        "hidden_size": 16,
        "codebook_size": 64,
        "codebook_dim": 16,
        "num_lstm_layers": 1,
    },
    "decoder": {
        "model_type": "musicgen_decoder",
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "ffn_dim": 64,
        "num_attention_heads": 2,
        "num_codebooks": 4,
        "pad_token_id": 63,
        "bos_token_id": 63,
    },
}
SPEECHT5: dict[str, Any] = {
    "model_type": "speecht5",
    "architectures": ["SpeechT5ForTextToSpeech"],
    "is_encoder_decoder": True,
    "vocab_size": 64,
    "hidden_size": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "speaker_embedding_dim": 24,
    "num_mel_bins": 20,
    "speech_decoder_prenet_units": 16,
    "speech_decoder_postnet_units": 16,
}
DECISION: dict[str, Any] = {
    "model_type": "decision_transformer",
    "architectures": ["DecisionTransformerModel"],
    "state_dim": 11,
    "act_dim": 3,
    "hidden_size": 32,
    "n_layer": 2,
    "n_head": 2,
}
MOONSHINE: dict[str, Any] = {
    "model_type": "moonshine",
    "architectures": ["MoonshineForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "encoder_num_hidden_layers": 1,
    "decoder_num_hidden_layers": 1,
    "encoder_num_attention_heads": 2,
    "decoder_num_attention_heads": 2,
}
SWITCH: dict[str, Any] = {
    "model_type": "switch_transformers",
    "architectures": ["SwitchTransformersForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1,
    "num_heads": 2,
    "num_experts": 2,
    "decoder_start_token_id": 0,
}
PEGASUS: dict[str, Any] = {
    "model_type": "pegasus",
    "architectures": ["PegasusForConditionalGeneration"],
    "is_encoder_decoder": True,
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 48,
}
RWKV: dict[str, Any] = {
    "model_type": "rwkv",
    "architectures": ["RwkvForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "context_length": 64,
}
RECURRENT_GEMMA: dict[str, Any] = {
    "model_type": "recurrent_gemma",
    "architectures": ["RecurrentGemmaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "lru_width": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
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
    """Write a config into a folder and return how the model is typed."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({**config, **changed}))
    return f"hf:{path}"


def traced(model: str, **named: Any) -> tuple[Loaded, Trace]:
    """Load and trace as a worker does."""
    loaded = load(LoadSpec(model, **named))
    return loaded, trace(loaded.model, loaded.candidates)


def shapes(made: Trace) -> dict[str, tuple[int, ...]]:
    return {spec.name: spec.shape for spec in made.inputs.specs}
