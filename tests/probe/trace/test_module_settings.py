"""What a module says of itself in few words."""

from __future__ import annotations

import pytest
from torch import nn

from tui_profiler.probe.trace.tree.module_settings import detail


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Conv2d(256, 256, 3, padding=1, bias=False), "256→256, 3×3, pad 1, no bias"),
        (nn.Conv2d(3, 64, 7, stride=2, padding=3), "3→64, 7×7, stride 2, pad 3"),
        (nn.Conv2d(32, 32, (1, 7), padding=(0, 3), groups=32), "32→32, 1×7, pad 0×3, depthwise"),
        (nn.Conv1d(8, 8, 3, groups=2, dilation=2), "8→8, 3, dilation 2, groups 2"),
        (nn.Conv2d(4, 4, 3, padding="same"), "4→4, 3×3, pad same"),
        (nn.Linear(2048, 1000), "2048→1000"),
        (nn.BatchNorm2d(256), "256"),
        (nn.LayerNorm((7, 768), elementwise_affine=False), "7×768, not affine"),
        (nn.GroupNorm(32, 256), "256 in 32 groups"),
        (nn.Embedding(50257, 768), "50257→768"),
        (nn.MultiheadAttention(768, 12), "768, 12 heads of 64"),
        (nn.LSTM(128, 256, num_layers=2, bidirectional=True), "128→256, 2 layers, both directions"),
        (nn.MaxPool2d(3, stride=2, padding=1), "3×3, stride 2, pad 1"),
        (nn.AvgPool1d(4), "4, stride 4"),
        (nn.AdaptiveAvgPool2d((1, 1)), "to 1×1"),
        (nn.Dropout(0.5), "p 0.5"),
        (nn.Sequential(nn.ReLU()), ""),
        (nn.Softmax(dim=1), "dim=1"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_common_layers(module: nn.Module, words: str) -> None:
    assert detail(module) == words


def test_a_strangers_words_are_one_short_line() -> None:
    class Talkative(nn.Module):
        def extra_repr(self) -> str:
            return "a\n  b\t" + "c" * 1000

    words = detail(Talkative())

    assert words.startswith("a b ccc")
    assert len(words) == 80
    assert words.endswith("…")


def test_words_that_fail_are_none() -> None:
    class Failing(nn.Module):
        def extra_repr(self) -> str:
            raise RuntimeError

    assert detail(Failing()) == ""


def test_a_layer_without_its_own_attributes_says_nothing() -> None:
    layer = nn.Linear(2, 3)
    del layer.in_features

    assert detail(layer) == ""
