"""``fit`` beside published memory needs: weights and KV caches of language models.

    python -m benchmarks.costs.fit_published

Configurations are those of the models' own ``config.json``; nothing is downloaded. Published are:

- weights (GB) and KV caches (GiB) of Llama 3.1 in 16 bits: Hugging Face, "Llama 3.1 - 405B, 70B &
  8B with multilinguality and long context", 23 July 2024, "Inference Memory Requirements". The 405B
  had 16 heads of keys and values then;
- weights of others in 16 bits: size of their checkpoints on the Hugging Face hub.

Prints a line for each figure, and exits with 1 where one is more than 10 % off.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tui_profiler.messages import LoadSpec
from tui_profiler.queries.hardware.fits import Need, need_of
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.report import at_batches

MOST = 0.1


def _llama(
    width: int, inner: int, layers: int, heads: int, keys: int, words: int
) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": words,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
    }


CONFIGS: dict[str, dict[str, object]] = {
    "Llama-3.1-8B": _llama(4096, 14336, 32, 32, 8, 128256),
    "Llama-3.1-70B": _llama(8192, 28672, 80, 64, 8, 128256),
    "Llama-3.1-405B": _llama(16384, 53248, 126, 128, 16, 128256),
    "Llama-2-7B": _llama(4096, 11008, 32, 32, 32, 32000),
    "Llama-2-13B": _llama(5120, 13824, 40, 40, 40, 32000),
    "Mistral-7B": {
        **_llama(4096, 14336, 32, 32, 8, 32000),
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
    },
    "Mixtral-8x7B": {
        **_llama(4096, 14336, 32, 32, 8, 32000),
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "Qwen2.5-7B": {
        **_llama(3584, 18944, 28, 28, 4, 152064),
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
    },
    "GPT-J-6B": {
        "architectures": ["GPTJForCausalLM"],
        "model_type": "gptj",
        **{"n_embd": 4096, "n_head": 16, "n_layer": 28, "rotary_dim": 64, "vocab_size": 50400},
    },
    "BLOOM-176B": {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        **{"hidden_size": 14336, "n_head": 112, "n_layer": 70, "vocab_size": 250880},
    },
}
WEIGHTS = {
    "Llama-3.1-8B": 16.0,
    "Llama-3.1-70B": 140.0,
    "Llama-3.1-405B": 810.0,
    "Llama-2-7B": 13.5,
    "Llama-2-13B": 26.0,
    "Mistral-7B": 14.5,
    "Mixtral-8x7B": 93.4,
    "Qwen2.5-7B": 15.2,
    "GPT-J-6B": 12.1,
    "BLOOM-176B": 352.0,
}
"""GB."""
CACHES = {
    "Llama-3.1-8B": {1000: 0.125, 16000: 1.95},
    "Llama-3.1-70B": {1000: 0.313, 16000: 4.88},
    "Llama-3.1-405B": {1000: 0.984, 16000: 15.38},
}
"""GiB by tokens of the context."""


def main() -> int:
    worst = 0.0
    print(f"{'model':<16}{'figure':<22}{'published':>10}{'fit':>10}{'off':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, config in CONFIGS.items():
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(config))
            wanted = CACHES.get(name, {64: None})
            for tokens, cache in wanted.items():
                need = _need(path, tokens)
                figures = [("weights", WEIGHTS[name], need.weights)]
                if cache is not None:
                    published = cache * 2**30 / 1e9
                    figures.append((f"KV cache of {tokens:,}", published, need.cache))
                for what, published, found in figures:
                    off = found / (published * 1e9) - 1
                    worst = max(worst, abs(off))
                    row = f"{name:<16}{what:<22}{published:>10.3f}{found / 1e9:>10.3f}{off:>+8.1%}"
                    print(row, flush=True)
    print(f"worst {worst:.1%}, at most {MOST:.0%}")
    return int(worst > MOST)


def _need(path: Path, tokens: int) -> Need:
    spec = LoadSpec(
        f"hf:{path}",
        folder=str(path),
        dtype="bfloat16",
        inputs=(f"input_ids=1,{tokens}:int64",),
        started_at=time.time(),
    )
    (first, *_) = asyncio.run(at_batches(spec, worker, progress=lambda _: None, times=()))
    found = need_of(first)
    if not isinstance(found, Need):
        sys.exit(f"{path.name}: {first.failure or found}")
    return found


if __name__ == "__main__":
    sys.exit(main())
