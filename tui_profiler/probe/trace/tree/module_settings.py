"""A module's settings in few words: ``256→256, 3×3, pad 1, no bias``."""

from collections.abc import Callable
from typing import Any

from torch import nn

_MOST_CHARACTERS = 80


def detail(module: nn.Module) -> str:
    """Return what tells a module from others of its class; empty where there is nothing to tell."""
    words = next((words for type_, words in _WORDS if isinstance(module, type_)), _own_words)
    try:
        line = " ".join(words(module).split())
    except Exception:  # noqa: BLE001, RUF100 - a stranger's class is not worth a failed trace
        return ""
    return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"


def _own_words(module: nn.Module) -> str:
    return str(module.extra_repr())


def _convolution(module: nn.modules.conv._ConvNd) -> str:
    parts = [f"{module.in_channels}→{module.out_channels}", _size(module.kernel_size)]
    parts += _unless("stride", module.stride, 1)
    parts += _unless("pad", module.padding, 0)
    parts += _unless("dilation", module.dilation, 1)
    if module.groups != 1:
        depthwise = module.groups == module.in_channels
        parts.append("depthwise" if depthwise else f"groups {module.groups}")
    return ", ".join(parts + _no_bias(module))


def _linear(module: nn.Linear) -> str:
    return ", ".join([f"{module.in_features}→{module.out_features}", *_no_bias(module)])


def _bilinear(module: nn.Bilinear) -> str:
    widths = f"{module.in1_features}×{module.in2_features}→{module.out_features}"
    return ", ".join([widths, *_no_bias(module)])


def _batch_norm(module: nn.modules.batchnorm._NormBase) -> str:
    return ", ".join([str(module.num_features), *_not_affine(module.affine)])


def _layer_norm(module: nn.LayerNorm | nn.RMSNorm) -> str:
    return ", ".join([_size(module.normalized_shape), *_not_affine(module.elementwise_affine)])


def _group_norm(module: nn.GroupNorm) -> str:
    groups = f"{module.num_channels} in {module.num_groups} groups"
    return ", ".join([groups, *_not_affine(module.affine)])


def _embedding(module: nn.Embedding | nn.EmbeddingBag) -> str:
    return f"{module.num_embeddings}→{module.embedding_dim}"


def _attention(module: nn.MultiheadAttention) -> str:
    return f"{module.embed_dim}, {module.num_heads} heads of {module.head_dim}"


def _recurrent(module: nn.RNNBase) -> str:
    parts = [f"{module.input_size}→{module.hidden_size}"]
    if module.num_layers > 1:
        parts.append(f"{module.num_layers} layers")
    if module.bidirectional:
        parts.append("both directions")
    return ", ".join(parts + ([] if module.bias else ["no bias"]))


def _pooling(
    module: nn.modules.pooling._MaxPoolNd | nn.AvgPool1d | nn.AvgPool2d | nn.AvgPool3d,
) -> str:
    """Pooling moves by its own size unless told otherwise: the stride is always worth saying."""
    axes = next((int(sign) for sign in type(module).__name__ if sign in "123"), 1)
    kernel: object = module.kernel_size
    size = _size((kernel,) * axes if isinstance(kernel, int) else kernel)
    return ", ".join([size, f"stride {_once(module.stride)}", *_unless("pad", module.padding, 0)])


def _adaptive_pooling(module: nn.Module) -> str:
    return f"to {_size(getattr(module, 'output_size', ''))}"


def _dropout(module: nn.modules.dropout._DropoutNd) -> str:
    return f"p {module.p:g}"


def _nothing(module: nn.Module) -> str:
    return ""


def _size(value: object) -> str:
    """Return ``3×3`` for (3, 3) and ``3`` for 3."""
    return "×".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)


def _unless(word: str, value: object, usual: int) -> list[str]:
    """Say a setting only where it is not the usual one."""
    return [] if _once(value) == str(usual) else [f"{word} {_once(value)}"]


def _once(value: object) -> str:
    if isinstance(value, list | tuple) and len(set(value)) == 1:
        value = value[0]
    return _size(value)


def _no_bias(module: nn.Module) -> list[str]:
    return [] if getattr(module, "bias", None) is not None else ["no bias"]


def _not_affine(affine: bool) -> list[str]:
    return [] if affine else ["not affine"]


_Types = type[nn.Module] | tuple[type[nn.Module], ...]

_WORDS: tuple[tuple[_Types, Callable[[Any], str]], ...] = (
    (nn.modules.conv._ConvNd, _convolution),
    (nn.Linear, _linear),
    (nn.Bilinear, _bilinear),
    (nn.modules.batchnorm._NormBase, _batch_norm),
    ((nn.LayerNorm, nn.RMSNorm), _layer_norm),
    (nn.GroupNorm, _group_norm),
    ((nn.Embedding, nn.EmbeddingBag), _embedding),
    (nn.MultiheadAttention, _attention),
    (nn.RNNBase, _recurrent),
    (
        (nn.modules.pooling._MaxPoolNd, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
        _pooling,
    ),
    (
        (nn.modules.pooling._AdaptiveAvgPoolNd, nn.modules.pooling._AdaptiveMaxPoolNd),
        _adaptive_pooling,
    ),
    (nn.modules.dropout._DropoutNd, _dropout),
    ((nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ReLU), _nothing),
)
