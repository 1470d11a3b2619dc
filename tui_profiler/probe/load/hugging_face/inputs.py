"""What a Hugging Face model is called with: keywords by the names in its ``forward``.

1. Each call that is tried names some of the parameters of ``forward``: first what every kind of
   input that it takes is made of, then fewer of them. The first that runs is right.
2. Masks and sizes are real also where the other inputs are fake: they steer the forward. So are
   token ids that hold placeholders of an image or a sound, which must be as many as its features.
3. Special tokens are not drawn by chance: they have a meaning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import overload

import torch
from msgspec import structs

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import wrong_request
from tui_profiler.probe.load.common.input_tensors import Candidates, specs_of
from tui_profiler.probe.load.common.settings import Settings
from tui_profiler.probe.load.common.signature import Parameters, forward_parameters
from tui_profiler.probe.load.hugging_face.config import Config, Sizes
from tui_profiler.probe.load.hugging_face.forms import (
    Argument,
    Arguments,
    Situation,
    documented,
    forms,
    has_form,
    most_tokens,
    tensor_of,
)
from tui_profiler.probe.load.hugging_face.placeholders import with_placeholders
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.typed_inputs import Typed, parse_input
from tui_profiler.probe.torch_compat.forward_inputs import Inputs

_MOST_CALLS = 40
_WHOLE = re.compile(r"\b(?:Long|Int)Tensor\b")
_TEXT = ("input_ids",)
_IMAGE = ("pixel_values", "images", "image", "pixel_values_videos")
_SOUND = ("input_features", "input_values")
_KINDS = (_TEXT, _IMAGE, _SOUND)
_DECODER = ("decoder_input_ids", "decoder_input_values")
_ENCODED = "encoder_hidden_states"
_SPEAKER = ("speaker_embeddings",)
_WITH_TEXT = ("attention_mask", "token_type_ids")
_WITH_IMAGE = (
    *("image_grid_thw", "grid_thw", "mm_token_type_ids"),
    *("spatial_shapes", "pixel_attention_mask", "high_res_pixel_values", "image_position_ids"),
    "image_merge_sizes",
)
_SOMETIMES = ("image_sizes", "pixel_mask", "input_features_mask", "feature_attention_mask", "bbox")
"""Named as optional, and needed by some."""


def candidates(
    model: torch.nn.Module, config: Config, spec: LoadSpec, settings: Settings
) -> Sequence[Inputs]:
    """Return the calls to try, the likeliest first.

    Raises:
        LoadError: What the user typed cannot be read or passed.
    """
    parameters = forward_parameters(model)
    typed = _typed(spec, parameters, model)
    now = _situation(model, config, parameters, typed, settings)
    calls = [
        _overridden(call, typed, now)
        for call in _whole(_calls(model, parameters, now), model, now, settings)
    ]
    distinct = [call for place, call in enumerate(calls) if call and call not in calls[:place]]
    if typed and not distinct:
        distinct = [_overridden({}, typed, now)]
    kinds = _kinds(parameters, now)
    return HfCandidates(distinct[:_MOST_CALLS], kinds, model, now.dtype, settings)


class HfCandidates(Sequence[Inputs]):
    """Calls to try in order; the tensors of each are made when it is asked for."""

    def __init__(
        self,
        calls: Sequence[Arguments],
        kinds: Sequence[tuple[str, ...]],
        model: torch.nn.Module,
        dtype: torch.dtype,
        settings: Settings,
    ) -> None:
        self._calls = tuple(calls)
        self._kinds = tuple(kinds)
        self._dtype = dtype
        self._settings = settings
        self._others = Candidates(guesses(model), replace(settings, dtype=dtype))

    def __len__(self) -> int:
        return len(self._calls) + len(self._others)

    @overload
    def __getitem__(self, index: int) -> Inputs: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Inputs]: ...
    def __getitem__(self, index: int | slice) -> Inputs | Sequence[Inputs]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if index >= len(self._calls):
            return self._others[index - len(self._calls)]
        call = self._calls[index]
        missing = [kind[0] for kind in self._kinds if call.keys().isdisjoint(kind)]
        inputs = _inputs(call, self._dtype, self._settings)
        return _without(inputs, missing) if missing else inputs


def _without(inputs: Inputs, missing: Sequence[str]) -> Inputs:
    """Say beside the first input which kinds of input the forward takes and is not given."""
    first, *others = inputs.specs
    said = structs.replace(first, why=f"{first.why}; called without {', '.join(missing)}")
    return replace(inputs, specs=(said, *others))


def _inputs(call: Arguments, dtype: torch.dtype, settings: Settings) -> Inputs:
    batch = settings.batch
    wanted = call if batch is None else {k: part.of_batch(batch) for k, part in call.items()}
    values = {
        name: tensor_of(argument, dtype, settings, seed)
        for seed, (name, argument) in enumerate(wanted.items())
    }
    batches = [
        values[name].shape[0] // argument.rows
        for name, argument in wanted.items()
        if argument.has_batch
    ]
    return Inputs(
        args=(),
        kwargs=dict(values),
        specs=tuple(
            spec
            for name, value in values.items()
            for spec in specs_of(value, name, wanted[name].why)
        ),
        batch=batches[0] if batches else None,
        concrete=frozenset(name for name, argument in wanted.items() if argument.is_concrete),
    )


def _calls(model: torch.nn.Module, parameters: Parameters, now: Situation) -> Iterator[Arguments]:
    """Yield calls of ever fewer kinds of input, each in all its forms."""
    main = _main_input(model)
    kinds = _kinds(parameters, now)
    if main and not any(main in kind for kind in _KINDS) and main in now.documented:
        # Inputs of no usual kind: all that the documentation does not call optional.
        names = [name for name, said in now.documented.items() if not said.is_optional]
        names += [name for name in parameters.required if name not in names]
        if now.is_seq2seq or _DECODER[0] in parameters.positional:
            names += [n for n in _DECODER if n in parameters.positional and n not in names][:1]
        masked = [
            *names,
            *(["attention_mask"] if "attention_mask" in parameters.positional else []),
        ]
        for tried in (masked, names):
            if all(forms(name, now) for name in tried):
                yield from _in_all_forms(tried, now)
    sets = [kinds, *([kind] for kind in kinds if main in kind), *([kind] for kind in kinds)]
    for chosen in sets:
        names = [name for kind in chosen for name in _taken(kind, parameters)[:1]]
        if _TEXT in chosen:
            names += [name for name in _WITH_TEXT if _is_passed(name, parameters, now)]
        if _IMAGE in chosen:
            names += [name for name in _WITH_IMAGE if name in parameters.positional]
        names += [name for name in parameters.required if name not in names]
        if now.is_seq2seq:
            names += [name for name in _DECODER if name in parameters.positional][:1]
            names += [name for name in _SPEAKER if name in parameters.positional]
        yield from _in_all_forms(names, now)
        extra = [n for n in _SOMETIMES if n in parameters.positional and n not in names]
        if extra:
            yield from _in_all_forms([*names, *extra], now)
        if _ENCODED in parameters.positional and _ENCODED not in names:
            yield from _in_all_forms([*names, _ENCODED], now)


def _kinds(parameters: Parameters, now: Situation) -> list[tuple[str, ...]]:
    """Return the kinds of input that a model takes, each by the names that it may have."""
    kinds: list[tuple[str, ...]] = [kind for kind in _KINDS if _taken(kind, parameters)]
    takes_codes = "num_codebooks" in _first_axis("decoder_input_ids", now)
    if takes_codes and _TEXT in kinds and _SOUND in kinds:
        kinds.remove(_SOUND)  # Its codes are passed: sound would only be made into codes.
    return kinds


def _main_input(model: torch.nn.Module) -> str:
    """Return the name of its main input, the first where it has several; empty for none."""
    name = getattr(model, "main_input_name", "")
    first = next(iter(name), "") if isinstance(name, (list, tuple)) else name
    return first if isinstance(first, str) else ""


def _first_axis(name: str, now: Situation) -> str:
    said = now.documented.get(name)
    return said.axes[0] if said is not None and said.axes else ""


def _whole(
    calls: Iterator[Arguments], model: torch.nn.Module, now: Situation, settings: Settings
) -> Iterator[Arguments]:
    """Yield calls with the placeholders that they need; those without come last."""
    passed_by = []
    for call in calls:
        whole = with_placeholders(call, model, now, settings)
        if whole is None:
            passed_by.append(call)
        else:
            yield whole
    yield from passed_by


def _taken(kind: tuple[str, ...], parameters: Parameters) -> tuple[str, ...]:
    return tuple(name for name in kind if name in parameters.positional)


def _is_passed(name: str, parameters: Parameters, now: Situation) -> bool:
    if name == "token_type_ids" and (now.sizes.number("type_vocab_size") or 0) < 2:
        return False
    return name in parameters.positional


def _in_all_forms(names: Sequence[str], now: Situation) -> Iterator[Arguments]:
    found = {name: forms(name, now) for name in names}
    known = {name: several for name, several in found.items() if several}
    for place in range(max(map(len, known.values()), default=0)):
        yield {name: several[min(place, len(several) - 1)] for name, several in known.items()}


def _situation(
    model: torch.nn.Module,
    config: Config,
    parameters: Parameters,
    typed: dict[str, Typed],
    settings: Settings,
) -> Situation:
    sizes = Sizes(config.value, config.folder)
    is_seq2seq = bool(getattr(config.value, "is_encoder_decoder", False))
    generates = _generates(model)
    tokens, why = most_tokens(sizes, generates=generates and not is_seq2seq)
    ids = typed.get("input_ids")
    if ids is not None and len(ids.shape) > 1:
        tokens, why = ids.shape[1], "as many as --input gives tokens"
    return Situation(
        sizes=sizes,
        vocabulary=_vocabulary(model, sizes),
        tokens=tokens,
        why_tokens=why,
        parameters=frozenset((*parameters.positional, *parameters.keyword_only)),
        is_seq2seq=is_seq2seq,
        dtype=_dtype(model, settings),
        documented=documented(inspect.getdoc(model.forward) or ""),
        generates=generates,
        whole=_whole_numbers(model),
    )


def _whole_numbers(model: torch.nn.Module) -> frozenset[str]:
    """Name the parameters of ``forward`` that are annotated as tensors of whole numbers."""
    annotations = getattr(model.forward, "__annotations__", {})
    written = {name: str(annotation) for name, annotation in annotations.items()}
    return frozenset(name for name, text in written.items() if _WHOLE.search(text))


def _generates(model: torch.nn.Module) -> bool:
    can_generate = getattr(model, "can_generate", None)
    return bool(can_generate()) if callable(can_generate) else False


def _vocabulary(model: torch.nn.Module, sizes: Sizes) -> int:
    """Return the rows of the table in which input tokens are looked up."""
    table_of = getattr(model, "get_input_embeddings", None)
    try:
        table = table_of() if callable(table_of) else None
    except Exception:
        table = None  # models without one raise; the config is asked instead
    rows = getattr(table, "num_embeddings", None)
    known = rows if isinstance(rows, int) else sizes.number("vocab_size") or 256
    # Speech that is made of text has more tokens than the text.
    return min(known, sizes.number("vocab_size", inside="text") or known)


def _dtype(model: torch.nn.Module, settings: Settings) -> torch.dtype:
    """Return the dtype of most parameters: floating inputs come in it."""
    counts: dict[torch.dtype, int] = {}
    for parameter in model.parameters():
        if parameter.is_floating_point():
            counts[parameter.dtype] = counts.get(parameter.dtype, 0) + parameter.numel()
    if not counts:
        return settings.dtype or torch.float32
    return max(counts, key=lambda dtype: counts[dtype])


def _typed(spec: LoadSpec, parameters: Parameters, model: torch.nn.Module) -> dict[str, Typed]:
    """Read every ``--input``; one without a name is the main input, then the next in order."""
    order = [name for name in (_main_input(model), *parameters.positional) if name]
    found: dict[str, Typed] = {}
    for text in spec.inputs:
        item = parse_input(text)
        name = item.name or next((name for name in order if name not in found), "")
        # Most of them take any keyword, and pass it on to whatever is inside.
        is_known = name in order or name in parameters.keyword_only or has_form(name)
        if not name or not is_known or not parameters.takes(name):
            raise wrong_request(
                f'{parameters} has no parameter "{item.name}"',
                *((f"--input {near}=1,128", f'names "{near}"') for near in order[:1]),
            )
        found[name] = item
    return found


def _overridden(call: Arguments, typed: dict[str, Typed], now: Situation) -> Arguments:
    """Put what the user typed in the place of what was chosen; the rest is as many items."""
    if not typed:
        return call
    items = next(iter(typed.values())).shape[0]
    changed = {name: part.of_batch(items) for name, part in call.items()}
    for name, item in typed.items():
        likely = changed.get(name) or next(iter(forms(name, now)), None)
        is_whole = item.dtype is not None and not item.dtype.is_floating_point
        base = likely or Argument(item.shape, "", "tokens" if is_whole else "normal")
        has_room = bool(item.shape) and item.shape[-1] >= len(base.first)
        changed[name] = replace(
            base,
            first=base.first if has_room else (),
            shape=item.shape,
            why="--input",
            dtype=item.dtype or base.dtype,
            value=(),
            fill="ones" if base.value else base.fill,
            has_batch=item.shape[0] == items,
        )
    return changed
