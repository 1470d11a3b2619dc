"""FLOPs per token of a training step of large public models, on meta, beside published figures.

``python -m benchmarks.training.flops_per_token [--markdown] [NAME]...`` records one step of each
configuration on meta tensors, one sequence of the length that the published figure is of.

Convention: two per multiply-accumulate of matrix products and attention, forward and backward,
divided by tokens; attention over all pairs of positions, as without a causal mask. Not counted are
what attention recomputes in its backward (that is of hardware FLOPs), lookups of embeddings, and
the loss.

``by hand`` is 6 for each weight of a matrix product that a token uses, and ``12 L H D T`` for
attention of L layers, H heads of size D and T positions (Chowdhery et al. 2022, PaLM, appendix B),
from the configuration alone. ``torchtitan`` is what its corrected ``num_flops_per_token`` says; it
counts the weights of norms as if they were of matrix products.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from msgspec import Struct
from transformers import (
    AutoModelForCausalLM,
    DeepseekV4Config,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
    Qwen3MoeConfig,
)

from tui_profiler.messages import TrainSpec
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.training.record_step import trace_step

LIMIT = 1e-4


class Case(Struct, frozen=True):
    """A public configuration, and what is published of it."""

    config: Callable[[], PretrainedConfig]
    tokens: int
    titan: int | None = None
    """FLOPs per token."""
    source: str = ""
    differs: str = ""
    """Why ours is not comparable."""


class Count(Struct, frozen=True):
    """FLOPs per token."""

    forward: float
    backward: float
    again: float
    """Hardware FLOPs beside them."""
    by_hand: int | None
    seconds: float

    @property
    def whole(self) -> float:
        """Forward and backward."""
        return self.forward + self.backward


def _llama(width: int, inner: int, layers: int, heads: int) -> Callable[[], PretrainedConfig]:
    return lambda: LlamaConfig(
        vocab_size=128_256,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        max_position_embeddings=131_072,
    )


def _qwen3_0_6b() -> PretrainedConfig:
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    )


def _qwen3_30b_a3b() -> PretrainedConfig:
    return Qwen3MoeConfig(
        vocab_size=151_936,
        hidden_size=2048,
        intermediate_size=6144,
        num_hidden_layers=48,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        norm_topk_prob=True,
    )


CASES = {
    "Llama-3.1-8B": Case(_llama(4096, 14_336, 32, 32), 8192),
    "Llama-3.1-70B": Case(_llama(8192, 28_672, 80, 64), 8192),
    "Llama-3.1-405B": Case(_llama(16_384, 53_248, 126, 128), 8192),
    "Qwen3-0.6B": Case(_qwen3_0_6b, 8192),
    "Qwen3-30B-A3B": Case(
        _qwen3_30b_a3b, 8192, 37_578_559_488, "pytorch/torchtitan pull request 4300"
    ),
    "DeepSeek-V4-flash": Case(
        DeepseekV4Config,
        4096,
        92_762_352_876,
        "pytorch/torchtitan pull request 4441",
        "torchtitan counts attention of the window and of chosen keys, and one layer of"
        " multi-token prediction; transformers runs attention over all keys under a mask, and has"
        " no such layer",
    ),
}


def counted(case: Case) -> Count:
    """Return the FLOPs of one configuration."""
    config = case.config()
    vars(config)["_experts_implementation"] = "grouped_mm"  # A token runs its own experts only.
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config).train()
        ids = torch.zeros(1, case.tokens, dtype=torch.int64)
    inputs = Inputs((), {"input_ids": ids, "use_cache": False})
    began = time.perf_counter()
    found = trace_step(model, [inputs], TrainSpec("sgd"), "sgd")
    forward, cost = found.trace.costs[0], found.cost
    each = 2 / case.tokens
    return Count(
        forward.macs * each,
        cost.backward.macs * each,
        cost.recomputed.macs * each,
        None if case.differs else by_hand(config, case.tokens),
        time.perf_counter() - began,
    )


def by_hand(config: Any, tokens: int) -> int:
    """Return the FLOPs per token of a decoder, from its configuration alone."""
    width, heads = config.hidden_size, config.num_attention_heads
    size = getattr(config, "head_dim", None) or width // heads
    attention = width * size * (2 * heads + 2 * config.num_key_value_heads)
    experts = getattr(config, "num_experts", 0)
    inner = config.num_experts_per_tok * config.moe_intermediate_size if experts else 0
    inner = inner or config.intermediate_size
    layer = attention + 3 * width * inner + width * experts
    weights = config.num_hidden_layers * layer + width * config.vocab_size
    found: int = 6 * weights + 12 * config.num_hidden_layers * heads * size * tokens
    return found


def main() -> int:
    """Print a row for each configuration; 1 where one is not what it is by hand or published."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME")
    arguments.add_argument("--markdown", action="store_true")
    wanted = arguments.parse_args()
    warnings.simplefilter("ignore")
    bar = " | " if wanted.markdown else "  "
    beyond = 0
    for name in wanted.names or CASES:
        case = CASES[name]
        found = counted(case)
        others = (found.by_hand, case.titan)
        off = ["" if one is None else f"{found.whole / one - 1:+.3%}" for one in others]
        is_off = (one is not None and abs(found.whole / one - 1) > LIMIT for one in others)
        beyond += not case.differs and any(is_off)
        cells = (
            f"{name:18}",
            f"{case.tokens:5}",
            *(f"{one:18,.0f}" for one in (found.forward, found.backward, found.whole)),
            f"{found.again:15,.0f}",
            *(f"{one:18,}" if one is not None else f"{'':18}" for one in others),
            *(f"{one:>9}" for one in off),
            f"{found.seconds:5.1f} s",
        )
        print(bar.join(cells), flush=True)
    print(f"beyond {LIMIT:.2%}: {beyond}")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
