"""Which attention kernel ran in a module: by the operators that operator windows recorded.

1. ``flash``, ``efficient``, ``cudnn`` and ``math`` are the backends of
   ``scaled_dot_product_attention``; ``eager`` is a softmax between two batched matmuls.
2. A trace does not tell: the backend is chosen when the operator runs, and math is decomposed.
3. Conditions of flash. Source: torch, aten/src/ATen/native/transformers/sdp_utils_cpp.cpp for a CPU
   and cuda/sdp_utils.cpp for a GPU. torch chooses among them silently; what is said here is derived
   from the tensors of the trace.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.findings.evidence.graph import graph, operators
from tui_profiler.messages import Unknown
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Operators

Backend: TypeAlias = Literal["flash", "efficient", "cudnn", "math", "eager", "native"]
"""``native``: one operator of torch for the whole of ``nn.MultiheadAttention``."""

SOFTMAX = frozenset({"aten::_softmax", "aten::softmax", "aten::_safe_softmax"})
_MATMULS = frozenset({"aten::bmm", "aten::matmul", "aten::baddbmm"})
_BETWEEN_NAMES = """aten::add aten::add_ aten::sub aten::mul aten::mul_ aten::div aten::div_
    aten::masked_fill aten::masked_fill_ aten::where aten::clamp aten::tanh aten::_to_copy
    aten::view aten::_unsafe_view aten::reshape aten::expand aten::clone aten::copy_
    aten::native_dropout aten::dropout aten::to aten::type_as aten::unsqueeze aten::squeeze"""
_BETWEEN = frozenset(_BETWEEN_NAMES.split())
_MOST_BETWEEN = 12
"""Operators between a matmul and the softmax: scaling, mask, casts and views."""
_BACKENDS: tuple[tuple[str, Backend], ...] = (
    ("_scaled_dot_product_attention_math", "math"),
    ("_scaled_dot_product_flash_attention", "flash"),
    ("_scaled_dot_product_efficient_attention", "efficient"),
    ("_scaled_dot_product_cudnn_attention", "cudnn"),
    ("_flash_attention_forward", "flash"),
    ("_efficient_attention_forward", "efficient"),
    ("_cudnn_attention_forward", "cudnn"),
    ("_flash_attn_forward", "flash"),
    ("_native_multi_head_attention", "native"),
)
"""Beginnings of operators' names without their namespace, those that decide first."""
_DROPOUT = frozenset({"aten::native_dropout", "aten::dropout", "aten::bernoulli_"})
_MOST_HEAD = 256
"""Channels of a head, of flash on a GPU."""
NO_WINDOW = Unknown("no operator window yet: the backend is chosen when it runs")
NOT_SEEN = Unknown("its attention was not seen in an operator window")


class Unfused(Struct, frozen=True):
    """A softmax between two batched matmuls."""

    module: int
    softmax: int
    between: tuple[int, ...]
    """Softmax, scaling and masking."""
    scores_bytes: int


class Attention(Struct, frozen=True):
    """The attention of one module."""

    backend: Backend | Unknown
    operator: str
    """That ran; empty where it is not known, and of eager."""
    why_not_flash: str
    """Empty for flash, and where the backend is not known."""


def attention(session: Session) -> Mapping[int, Attention]:
    """Return the attention of every module that has its operators, by node."""
    if session.tree is None:
        return {}
    device = "cpu" if session.model is None else session.model.device
    return _attention(session.tree, session.host_operators, device)


@lru_cache(maxsize=4)
def _attention(tree: Tree, seen: Operators | None, device: str) -> Mapping[int, Attention]:
    """Return it of a tree: it is drawn often, and changes with the operator windows alone."""
    eager = {one.module: one for one in unfused(tree)}
    ran = _ran(seen, tree)
    traced = {
        node.parent for node in tree.nodes if node.kind == "op" and _backend(node.name) is not None
    }
    found = {}
    for module in sorted({*eager, *traced, *ran}):
        if module in ran:
            backend, operator = ran[module]
        elif module in eager and _was_met(seen, eager[module].softmax):
            backend, operator = "eager", ""
        else:
            found[module] = Attention(_why_unknown(seen), "", "")
            continue
        why = "" if backend == "flash" else _why_not_flash(tree, device, module, backend)
        found[module] = Attention(backend, operator, why)
    return found


def words(found: Attention) -> str:
    """Return the backend, and why it is not flash: ``math: dtype float32``."""
    if isinstance(found.backend, Unknown):
        return f"– {found.backend.reason}"
    return f"{found.backend}: {found.why_not_flash}" if found.why_not_flash else found.backend


def _why_unknown(seen: Operators | None) -> Unknown:
    if seen is not None and seen.times.why_none:
        return Unknown(f"no operator window: {seen.times.why_none}")
    return NO_WINDOW if seen is None or not seen.times.windows else NOT_SEEN


def _ran(seen: Operators | None, tree: Tree) -> dict[int, tuple[Backend, str]]:
    """Return backend and operator by module, as windows saw them."""
    if seen is None:
        return {}
    names: dict[int, dict[str, None]] = {}
    for index, node in enumerate(tree.nodes):
        if node.kind == "op" and seen.p50_per_forward(index) is not None:
            names.setdefault(node.parent, {})[node.name] = None
    for one in seen.called:
        if one.node < len(tree):
            node = tree.nodes[one.node]
            module = node.parent if node.kind == "op" else one.node
            names.setdefault(module, {})[one.name] = None
    found: dict[int, tuple[Backend, str]] = {}
    for module, of_module in names.items():
        known = [(name, rank) for name in of_module if (rank := _backend(name)) is not None]
        if known:
            name, rank = min(known, key=lambda one: one[1])
            found[module] = (_BACKENDS[rank][1], name)
    return found


def _was_met(seen: Operators | None, node: int) -> bool:
    return seen is not None and seen.p50_per_forward(node) is not None


def _backend(name: str) -> int | None:
    plain = name.rpartition("::")[2]
    matching = (at for at, (begin, _) in enumerate(_BACKENDS) if plain.startswith(begin))
    return None if "backward" in plain else next(matching, None)


def _why_not_flash(tree: Tree, device: str, module: int, backend: Backend) -> str:
    if backend == "eager":
        return "the model computes the softmax itself; scaled_dot_product_attention chooses flash"
    if backend == "native":
        return "nn.MultiheadAttention runs as one operator in inference: its fast path"
    if backend == "cudnn":
        return "cuDNN comes before flash on GPUs of compute capability 9 and 10"
    if device == "cpu":
        if any(_drops_out(tree, one) for one in unfused(tree) if one.module == module):
            return "dropout: a CPU's flash kernel has none"
        return "not known: a CPU's flash needs 4 axes, heads of one size, a mask without gradient"
    below = tree.nodes[module + 1 : tree.ends[module]]
    inside = [node for node in below if node.kind == "op" and node.parent == module]
    inputs = next((node.inputs for node in inside if _backend(node.name) is not None), ())
    if not inputs:
        inputs = next((node.inputs for node in inside if node.name in _MATMULS), ())
    if not inputs:
        return "not known: its tensors were not traced"
    if inputs[0].dtype not in ("float16", "bfloat16"):
        return f"dtype {inputs[0].dtype}: flash takes float16 and bfloat16"
    if inputs[0].shape and inputs[0].shape[-1] > _MOST_HEAD:
        return f"heads of {inputs[0].shape[-1]}: flash takes at most {_MOST_HEAD}"
    if len(inputs) > 3:
        return "a mask is passed: flash takes none"
    return "not known: no condition that the trace shows"


@lru_cache(maxsize=4)
def unfused(tree: Tree) -> tuple[Unfused, ...]:
    """Return every softmax between two batched matmuls."""
    edges = graph(tree)
    found = []
    for softmax in operators(tree, SOFTMAX):
        before = _path(tree, edges.writers, softmax)
        after = _path(tree, edges.readers, softmax)
        if before is not None and after is not None:
            between = (*before, softmax, *after)
            scores = sum(
                tensor.bytes
                for node in between
                for tensor in tree.nodes[node].outputs[:1]
                if tree.costs[node].output_bytes
            )
            found.append(Unfused(tree.nodes[softmax].parent, softmax, between, scores))
    return tuple(found)


def _drops_out(tree: Tree, attention: Unfused) -> bool:
    """Return whether there is a dropout between the softmax and the matmul that reads it.

    torch's math draws a mask, scales it and multiplies: dropout is then beside that path.
    """
    writers = graph(tree).writers
    after = attention.between[attention.between.index(attention.softmax) + 1 :]
    passed: set[int] = set()
    pending = [*after]
    while pending and len(passed) <= 2 * _MOST_BETWEEN:
        node = pending.pop()
        name = tree.nodes[node].name
        if name in _DROPOUT:
            return True
        if name in _BETWEEN and node not in passed:
            passed.add(node)
            pending += writers.get(node, ())
    return False


def _path(tree: Tree, steps: dict[int, tuple[int, ...]], start: int) -> tuple[int, ...] | None:
    """Return the pointwise operators up to the nearest matmul; None where there is none."""
    passed: dict[int, None] = {}
    pending = list(steps.get(start, ()))
    reached = False
    while pending and len(passed) <= _MOST_BETWEEN:
        node = pending.pop()
        name = tree.nodes[node].name
        if name in _MATMULS:
            reached = True
        elif name in _BETWEEN and node not in passed and _is_scores(tree, node, start):
            passed[node] = None
            pending += steps.get(node, ())
    return tuple(passed) if reached else None


def _is_scores(tree: Tree, node: int, softmax: int) -> bool:
    """Return whether an operator writes as many values as the softmax: a mask does not."""
    written, wanted = (
        [prod(tensor.shape) for tensor in tree.nodes[one].outputs[:1]] for one in (node, softmax)
    )
    return written == wanted
