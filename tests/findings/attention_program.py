"""Models with four kinds of attention, each run for a while; prints what is known of it."""

import json
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torchvision.models import VisionTransformer
from transformers import LlamaConfig, LlamaForCausalLM

import tui_profiler
from tui_profiler.reports.json.report import as_json
from tui_profiler.reports.text.full import full_text


def llama(kind: str) -> nn.Module:
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=64,
        attn_implementation=kind,
        use_cache=False,
    )
    return LlamaForCausalLM(config).eval()


class WithMath(nn.Module):
    """Two attentions for which every other kernel is off."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attention(), Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return self.second(self.first(x))


class Attention(nn.Module):
    """Of a tensor to itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


def said(model: nn.Module, x: torch.Tensor, forwards: float) -> dict[str, Any]:
    with torch.no_grad(), torch.profiler.profile() as profiler:
        model(x)
    found = tui_profiler.profile(model, x, seconds=forwards)
    report = as_json(found.session)
    return {
        "layers": [one["attention"] for one in report["layers"] if "attention" in one],
        "text": full_text(found.session, columns=100),
        "profiled": sorted({one.key for one in profiler.key_averages()}),
    }


tokens = torch.randint(0, 64, (1, 8))
vit = VisionTransformer(
    image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=32
)
SECONDS = 2.0
print(
    json.dumps(
        {
            "sdpa": said(llama("sdpa"), tokens, SECONDS),
            "eager": said(llama("eager"), tokens, SECONDS),
            "math": said(WithMath(), torch.randn(1, 2, 8, 16), SECONDS),
            "vit": said(vit.eval(), torch.randn(1, 3, 16, 16), SECONDS),
        }
    )
)
