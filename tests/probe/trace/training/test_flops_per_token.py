"""FLOPs per token of decoders on meta, against their configurations by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from transformers import LlamaConfig, PretrainedConfig, Qwen3MoeConfig

from benchmarks.training.flops_per_token import Case, counted

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SMALL),
        Qwen3MoeConfig(
            **SMALL, head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16
        ),
    ],
    ids=["llama", "mixture"],
)
def test_forward_and_backward_are_what_they_are_by_hand(config: PretrainedConfig) -> None:
    found = counted(Case(lambda: config, tokens=64))

    assert found.backward == 2 * found.forward
    assert found.whole == found.by_hand
