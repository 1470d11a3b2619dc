"""Honest TorchScript and torch.export files of many architectures: they open without trust."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

_NAMES = """
    resnet18 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large efficientnet_b0 efficientnet_v2_s
    shufflenet_v2_x0_5 squeezenet1_0 mnasnet0_5 densenet121 googlenet inception_v3 regnet_y_400mf
    regnet_x_400mf convnext_tiny swin_t swin_v2_t maxvit_t lraspp_mobilenet_v3_large
    deeplabv3_mobilenet_v3_large r3d_18 swin3d_t
"""
_TORCHVISION = _NAMES.split()
_DETECTION = (
    "fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large", "fcos_resnet50_fpn",
)  # fmt: skip
_TIMM = ("vit_tiny_patch16_224", "mobilevitv2_050", "levit_128s", "poolformer_s12", "mixer_s32_224")


class Recurrent(nn.Module):
    """An embedding and an LSTM, with what people write around them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 8, 2, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids: (batch, tokens)."""
        if ids.dim() != 2:
            raise ValueError(f"ids have {ids.dim()} axes")
        hidden, _ = self.lstm(self.table(ids))
        result: torch.Tensor = self.out(hidden[:, -1])
        return result


class Words(nn.Module):
    """Texts, dicts, lists, assertions, a fork and an optional argument."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(4, 4)
        self.names = ["a", "b"]

    def forward(self, x: torch.Tensor, scale: float | None = None) -> dict[str, torch.Tensor]:
        """x: (batch, 4)."""
        assert x.shape[-1] == 4, "four values"
        future = torch.jit.fork(self.branch, x)
        found: dict[str, torch.Tensor] = {}
        for name in self.names:
            found[name.upper() + "_" + str(len(found))] = x * 2
        if scale is not None:
            x = x * scale
        found["{}.out".format("branch")] = torch.jit.wait(future)
        return found


_Built = dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]]
"""Builder and example inputs of each architecture."""


def small_architectures() -> _Built:
    """Return a few of some layers each: what most others are made of."""
    from torchvision.models import mobilenetv3, shufflenetv2

    image = torch.zeros(1, 3, 64, 64)
    # Input channels, kernel, expanded and output channels, squeeze, activation, stride, dilation.
    blocks = [
        mobilenetv3.InvertedResidualConfig(*row, 1.0)
        for row in ((8, 3, 8, 8, True, "RE", 2, 1), (8, 5, 16, 8, True, "HS", 1, 1))
    ]
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "mobilenet_v3": (lambda: mobilenetv3.MobileNetV3(blocks, 16), (image,)),
        "shufflenet_v2": (
            lambda: shufflenetv2.ShuffleNetV2([2, 1, 1], [8, 8, 16, 32, 32]), (image,),
        ),
        "transformer encoder": (
            lambda: nn.TransformerEncoder(layer, 2), (torch.zeros(1, 5, 16),),
        ),
        "embedding and LSTM": (Recurrent, (torch.zeros(1, 6, dtype=torch.int64),)),
        "texts and forks": (Words, (torch.zeros(1, 4),)),
    }  # fmt: skip


def architectures() -> _Built:
    """Return all: those above, and published ones at their own size."""
    import timm
    from torchvision import models

    image, video = torch.zeros(1, 3, 224, 224), torch.zeros(1, 3, 8, 112, 112)
    made = small_architectures()
    for name in _TORCHVISION:
        given: dict[str, object] = (
            {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        )
        if "lraspp" in name or "deeplab" in name:
            given["weights_backbone"] = None
        size = torch.zeros(1, 3, 299, 299) if name == "inception_v3" else image
        is_video = name in ("r3d_18", "swin3d_t")
        build = _building(models.get_model, name, weights=None, **given)
        made[name] = build, (video if is_video else size,)
    for name in _DETECTION:
        made[name] = (
            _building(models.get_model, name, weights=None, weights_backbone=None),
            (torch.zeros(3, 128, 128),),
        )
    for name in _TIMM:
        made[f"timm:{name}"] = _building(timm.create_model, name, pretrained=False), (image,)
    return made


def _building(
    make: Callable[..., nn.Module], name: str, **given: object
) -> Callable[[], nn.Module]:
    return lambda: make(name, **given)


def write_forms(
    name: str, build: Callable[[], nn.Module], inputs: tuple[torch.Tensor, ...], folder: Path
) -> Iterator[tuple[str, Path | str]]:
    """Write an architecture scripted, traced and exported.

    Yields:
        The form, and the file or why torch cannot write it.
    """
    model = build().eval()
    is_detector = name in _DETECTION
    example: tuple[object, ...] = (list(inputs),) if is_detector else inputs

    def script(path: Path) -> None:
        torch.jit.save(torch.jit.script(model), path)

    def traced(path: Path) -> None:
        torch.jit.save(torch.jit.trace(model, example, strict=False, check_trace=False), path)

    def export(path: Path) -> None:
        torch.export.save(torch.export.export(model, example, strict=False), path)

    for form, write, ending in (
        ("scripted", script, "pt"), ("traced", traced, "pt"), ("exported", export, "pt2"),
    ):  # fmt: skip
        path = folder / f"{form}.{ending}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with torch.no_grad():
                    write(path)
            except Exception as error:
                yield form, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:80]}"
                continue
        yield form, path
