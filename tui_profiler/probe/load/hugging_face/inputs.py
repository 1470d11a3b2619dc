"""What a Hugging Face model is called with: keywords by the names in its ``forward``.

1. Each call that is tried names some of the parameters of ``forward``: first what every kind of
   input that it takes is made of, then fewer of them. The first that runs is right.
2. Masks and sizes are real also where the other inputs are fake: they steer the forward. So are
   token ids that hold placeholders of an image or a sound, which must be as many as its features.
3. Special tokens are not drawn by chance: they have a meaning.
4. Token ids that stand for an image or a sound are as many as the model makes features of it. Which
   id that is stands in the config; how many there must be is asked of the model's own
   ``get_image_features`` or ``get_audio_features``, on tensors that take no memory.
"""

import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from msgspec import structs

from tui_profiler.messages import InputSpec, LoadSpec
from tui_profiler.probe.load.common.errors import wrong_request
from tui_profiler.probe.load.common.loaded_model import Settings
from tui_profiler.probe.load.hugging_face import forms
from tui_profiler.probe.load.hugging_face.config import Config, Sizes
from tui_profiler.probe.load.hugging_face.forms import Argument, Arguments, Situation
from tui_profiler.probe.load.inputs import input_tensors
from tui_profiler.probe.load.inputs.guesses import guesses
from tui_profiler.probe.load.inputs.input_candidates import Typed, parse_input
from tui_profiler.probe.load.inputs.input_tensors import Candidates, Parameters
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import DATA_DEPENDENT, fake_inputs

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
    """Return the calls to try, the likeliest first."""
    parameters = input_tensors.forward_parameters(model)
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
    made = (_Keywords(call, kinds) for call in distinct[:_MOST_CALLS])
    return Candidates((*made, *guesses(model)), replace(settings, dtype=now.dtype))


@dataclass(frozen=True)
class _Keywords:
    """What is passed in one call, by name."""

    arguments: Arguments
    kinds: list[tuple[str, ...]]
    """Of input that the forward takes, each by the names that it may have."""

    def inputs(self, settings: Settings) -> Inputs:
        """Make the tensors; where some are missing, say so beside the first one."""
        wanted = self.arguments
        if settings.batch is not None:
            wanted = {name: part.of_batch(settings.batch) for name, part in wanted.items()}
        values: dict[str, object] = {}
        specs: list[InputSpec] = []
        batches: list[int] = []
        for seed, (name, argument) in enumerate(wanted.items()):
            tensor = forms.tensor_of(argument, settings.dtype or torch.float32, settings, seed)
            values[name] = tensor
            specs += input_tensors.specs_of(tensor, name, argument.why)
            if argument.has_batch:
                batches.append(tensor.shape[0] // argument.rows)
        missing = [kind[0] for kind in self.kinds if wanted.keys().isdisjoint(kind)]
        if missing:
            why = f"{specs[0].why}; called without {', '.join(missing)}"
            specs[0] = structs.replace(specs[0], why=why)
        return Inputs(
            args=(),
            kwargs=values,
            specs=tuple(specs),
            batch=next(iter(batches), None),
            concrete=frozenset(name for name, part in wanted.items() if part.is_concrete),
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
            if all(forms.forms_of(name, now) for name in tried):
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
    kinds: list[tuple[str, ...]] = [kind for kind in _KINDS if _taken(kind, parameters)]
    takes_codes = "num_codebooks" in _first_axis("decoder_input_ids", now)
    if takes_codes and _TEXT in kinds and _SOUND in kinds:
        kinds.remove(_SOUND)  # Its codes are passed: sound would only be made into codes.
    return kinds


def _main_input(model: torch.nn.Module) -> str:
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
        whole = _with_placeholders(call, model, now, settings)
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
    found = {name: forms.forms_of(name, now) for name in names}
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
    generates = bool(answer_of(model, "can_generate"))
    tokens, why = forms.most_tokens(sizes, generates=generates and not is_seq2seq)
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
        documented=forms.documented(inspect.getdoc(model.forward) or ""),
        generates=generates,
        whole=_whole_numbers(model),
    )


def _whole_numbers(model: torch.nn.Module) -> frozenset[str]:
    """Name the parameters of ``forward`` that are annotated as tensors of whole numbers."""
    annotations = getattr(model.forward, "__annotations__", {})
    written = {name: str(annotation) for name, annotation in annotations.items()}
    return frozenset(name for name, text in written.items() if _WHOLE.search(text))


def _vocabulary(model: torch.nn.Module, sizes: Sizes) -> int:
    """Return the rows of the table in which input tokens are looked up."""
    rows = getattr(answer_of(model, "get_input_embeddings"), "num_embeddings", None)
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
    order = [name for name in (_main_input(model), *parameters.positional) if name]
    found: dict[str, Typed] = {}
    for text in spec.inputs:
        item = parse_input(text)
        name = item.name or next((name for name in order if name not in found), "")
        # Most of them take any keyword, and pass it on to whatever is inside.
        is_known = name in order or name in parameters.keyword_only or forms.has_form(name)
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
        likely = changed.get(name) or next(iter(forms.forms_of(name, now)), None)
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


_FEATURES = (
    (
        ("pixel_values", "images"),
        "get_image_features",
        ("image_token_id", "image_token_index"),
        ("vision_start_token_id", "image_start_token_id", "boi_token_id", "boi_token_index"),
        ("vision_end_token_id", "image_end_token_id", "eoi_token_id", "eoi_token_index"),
    ),
    (
        ("input_features", "input_values"),
        "get_audio_features",
        ("audio_token_id", "audio_token_index"),
        ("audio_bos_token_id", "audio_start_token_id", "boa_token_id", "boa_token_index"),
        ("audio_eos_token_id", "audio_end_token_id", "eoa_token_id", "eoa_token_index"),
    ),
)
"""(inputs, method, placeholder, what may stand before it, what may stand behind)."""
_BY_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def _with_placeholders(
    call: Arguments, model: torch.nn.Module, now: Situation, settings: Settings
) -> Arguments | None:
    """Put the placeholders that an image or sound in a call needs before its tokens.

    Returns:
        the call as it was, where it needs none; None where the model makes no features of it.
    """
    special = now.sizes.special_ids()
    first: list[int] = []
    kinds: list[int] = []
    for place, (inputs, method, ids, before, behind) in enumerate(_FEATURES):
        token = next((special[name] for name in ids if name in special), None)
        if "input_ids" not in call or token is None or not any(name in call for name in inputs):
            continue
        ask = _asked(model, method, inputs)
        count = None if ask is None else _features(call, model, ask, settings, now.dtype)
        if count is None:
            return None
        opening = [special[name] for name in before if name in special][:1]
        closing = [special[name] for name in behind if name in special][:1]
        first += [*opening, *[token] * count, *closing]
        kinds += [*[0] * len(opening), *[place + 1] * count, *[0] * len(closing)]
    return _lengthened(call, tuple(first), tuple(kinds)) if first else call


def _lengthened(call: Arguments, first: tuple[int, ...], kinds: tuple[int, ...]) -> Arguments:
    changed = dict(call)
    for name in _BY_TOKEN:
        argument = call.get(name)
        if argument is None:
            continue
        length = argument.shape[1] + len(first)
        argument = replace(argument, shape=(argument.shape[0], length, *argument.shape[2:]))
        if name == "input_ids":
            why = f"{len(first)} placeholder tokens of images or sound, and {argument.why}"
            argument = replace(argument, first=first, why=why, is_concrete=True)
        elif name == "mm_token_type_ids":
            argument = replace(argument, first=kinds, why="which tokens are placeholders")
        changed[name] = argument
    return changed


def _asked(
    model: torch.nn.Module, method: str, inputs: tuple[str, ...]
) -> Callable[..., object] | None:
    """Return the method of the outermost part that takes one of these inputs by its name."""
    for module in model.modules():  # Heads wrap the model, some with ``*args``.
        found = getattr(module, method, None)
        taken = input_tensors.parameters_of(found).positional if callable(found) else ()
        if not set(inputs).isdisjoint(taken):
            return found
    return None


def _features(
    call: Arguments,
    model: torch.nn.Module,
    ask: Callable[..., object],
    settings: Settings,
    dtype: torch.dtype,
) -> int | None:
    """Return how many features an item of a call has; None where the model cannot tell."""
    names = set(input_tensors.parameters_of(ask).positional)
    wanted = {name: part for name, part in call.items() if name in names}
    given = {name: forms.tensor_of(part, dtype, settings, 0) for name, part in wanted.items()}
    concrete = frozenset(name for name, part in wanted.items() if part.is_concrete)
    try:
        found = on_fakes(model, ask, given, concrete)
    except Exception:
        return None  # this form of the input is not the right one: another is tried
    rows = sum(tensor.numel() // max(tensor.shape[-1], 1) for tensor in _feature_tensors(found))
    items = next(iter(call.values())).shape[0]
    return rows // items or None


def answer_of(model: torch.nn.Module, method: str) -> object:
    """Return what a method of a model's own answers; None where it has none, or that raises."""
    ask = getattr(model, method, None)
    try:
        return ask() if callable(ask) else None
    except Exception:
        return None  # Models without a table or an encoder raise.


def on_fakes(
    model: torch.nn.Module,
    ask: Callable[..., object],
    given: Mapping[str, torch.Tensor],
    concrete: frozenset[str],
) -> object:
    """Ask a part of a model on tensors without values; on real ones where their count matters."""
    others = {name: part for name, part in given.items() if name not in concrete}
    real = {name: part for name, part in given.items() if name in concrete}
    with torch.no_grad(), _without_logs():
        if any(parameter.device.type == "meta" for parameter in model.parameters()):
            return ask(**real, **{name: part.to("meta") for name, part in others.items()})
        try:
            return ask(**real, **fake_inputs(others)[1])
        except DATA_DEPENDENT:
            return ask(**given)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Keep torch from printing a traceback for an operator that refuses this form."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _feature_tensors(found: object) -> Iterator[torch.Tensor]:
    """Yield the feature tensors: the pooled ones, where there are others too."""
    pooled = found.get("pooler_output") if isinstance(found, Mapping) else None
    pending = [found if pooled is None else pooled]
    while pending:
        item = pending.pop()
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, Mapping):
            pending += [value for value in item.values() if value is not None][:1]
        elif isinstance(item, (list, tuple)):
            pending += list(item)
