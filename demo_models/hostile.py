r"""A model whose names try to take over the terminal that shows them.

PyTorch lets a module be called anything that is not empty and has no dot in it. A tool that prints
such names as they are moves the cursor, changes the title, writes to the clipboard, or stops on
markup that it takes for its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

NAMES: dict[str, str] = {
    "clears the screen": "\x1b[2J\x1b[H",
    "colours what follows": "\x1b[31mred",
    "sets the title": "\x1b]0;owned\x07",
    "writes to the clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "links elsewhere": "\x1b]8;;https://example\x1b\\here\x1b]8;;\x1b\\",
    "asks the terminal to answer": "\x1b[6n",
    "begins a sequence in one C1 byte": "\x9b2J",
    "goes back to the line's start": "good\rbad",
    "breaks the line": "one\ntwo",
    "uses tabs and bells": "a\tb\x07",
    "holds a NUL": "nul\x00nul",
    "closes markup that was never open": "[/nope]",
    "opens markup": "[bold red]loud",
    "links by markup": "[@click='quit']quit[/]",
    "reads right to left": "\u202egnp\u2066exe",
    "hides between letters": "zero\u200bwidth\u2060\ufeff",
    "stacks combining marks": "z" + "\u0301" * 40,
    "is wide": "畳み込み層",
    "is an emoji of several": "👩‍👩‍👧‍👦🏳️‍🌈",
    "is half of a pair": "half\ud800",
    "looks like a path": "layer/0;rm -rf ~",
    "is a format": "{0!r} %s %n",
    "is a space": " ",
    "is long": "long" * 2500,
}
"""What each name does, and the name."""


class Named(nn.Module):
    """A linear layer under every hostile name, run in order."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for name in NAMES.values():
            self.add_module(name, nn.Linear(width, width))
        self.register_parameter("\x1b[7mweight", nn.Parameter(torch.ones(width)))
        self.register_buffer("[/buffer]", torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, width)."""
        for layer in self.children():
            x = torch.tanh(layer(x))
        own = dict(self.named_parameters(recurse=False)) | dict(self.named_buffers(recurse=False))
        for value in own.values():
            x = x + value
        return x


def build(width: int = 16) -> nn.Module:
    """Build one whose class, too, has a name to beware of."""
    hostile_class = type("\x1b[5mBlink[/]", (Named,), {"__doc__": Named.__doc__})
    return hostile_class(width)


def example_inputs(batch: int = 1) -> tuple[Tensor, ...]:
    """Return feature vectors: (batch, 16)."""
    return (torch.randn(batch, 16),)
