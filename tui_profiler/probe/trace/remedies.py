"""What to type where no guessed inputs suited ``forward``: a command that was tried, and works.

1. Each required parameter, and each that the error names, gets shapes and dtypes that suit some
   layer, or what such arguments often are: ids, lengths, indices of edges, a signal.
2. They are tried on fake tensors, those with the fewest changes first; what ran so is run for real,
   on the tensors that ``--input`` makes. Only what returned is proposed.
3. Bounded in time and number: a model that takes something else costs seconds once.
"""

import inspect
import re
from collections.abc import Iterator
from itertools import product

import torch

from tui_profiler.messages import Remedy
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.common.loaded_model import Settings, as_the_model
from tui_profiler.probe.load.inputs.guesses import entries, guess_named
from tui_profiler.probe.load.inputs.input_candidates import typed_call
from tui_profiler.probe.load.inputs.input_tensors import ForwardArgument, forward_parameters
from tui_profiler.probe.trace import tracers
from tui_profiler.probe.trace.failure import ForwardError, one_line
from tui_profiler.probe.trace.record import record
from tui_profiler.system import real_time as time

_MOST_SECONDS, _MOST_TRIED = 5.0, 150
_MOST_PARAMETERS = 5
_OFTEN = ("1:int64", "4:int64", "2,16:int64", "1", "1,16000")
"""A time step or a length, one number for each of four items, edges of a graph, a factor, a
second of sound."""
_BY_NAME = (
    (re.compile(r"edge_?index|adj"), "2,16:int64"),
    (re.compile(r"^batch(_index)?$"), "4:int64"),
    (re.compile(r"len"), "1:int64"),
)
"""What arguments of that name often are; in a graph four nodes, the least that a batch numbers."""
_IMAGES = re.compile(r"sample|latent|noise|image|pixel")
_FEATURES = re.compile(r"hidden|context|embeds?$")
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


def input_remedies(model: torch.nn.Module, error: ForwardError) -> tuple[Remedy, ...]:
    """Return what to pass to ``forward`` in place of the likeliest inputs, on which it raised."""
    parameters = forward_parameters(model)
    found = _working(model, error)
    remedies = []
    if found:
        typed = " ".join(f"--input {one}" for one in found)
        remedies.append(Remedy(typed, "forward ran with these"))
    names = parameters.required or parameters.positional[:1]
    names = (*names, *_asked(model, names, error))
    if _is_of_the_user(model):
        keywords = ", ".join(f'"{name}": {name}' for name in names)
        remedies.append(
            Remedy(
                f"example_inputs = {{{keywords}}}" if names else "example_inputs = (first, second)",
                "in the file of the model, with values of yours: tensors, lists, dictionaries or"
                " numbers",
            )
        )
    return tuple(remedies)


def _working(model: torch.nn.Module, error: ForwardError) -> tuple[str, ...]:
    """Return ``name=shape:dtype`` of inputs that ``forward`` takes; empty where none is found."""
    until = time.monotonic() + _MOST_SECONDS
    parameters = forward_parameters(model)
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    settings = as_the_model(model, Settings(device, None, None))
    names, tried = parameters.required or parameters.positional[:1], 0
    while names and len(names) <= _MOST_PARAMETERS:
        asked = _asked(model, names, error)
        if not asked and tried:
            return ()
        names = (*names, *asked)
        for texts in _choices(model, names, settings):
            tried += 1
            if tried > _MOST_TRIED or time.monotonic() > until:
                return ()
            raised = _raised(model, texts, settings)
            if raised is None:
                return texts
            if isinstance(raised, ForwardError) and _asked(model, names, raised):
                error = raised
                break
        else:
            return ()
    return ()


def _raised(
    model: torch.nn.Module, texts: tuple[str, ...], settings: Settings
) -> BaseException | None:
    """Return what ``forward`` raises on typed inputs, on fake tensors first; None if nothing."""
    try:
        made = typed_call(texts, model, settings).inputs(settings)
        for way in (tracers.DISPATCH_FAKE, tracers.DISPATCH_REAL):
            record(model, made, way, "")
    except (ForwardError, LoadError, RuntimeError, ValueError) as error:
        return error
    return None


def _asked(model: torch.nn.Module, names: tuple[str, ...], error: ForwardError) -> tuple[str, ...]:
    """Return the first other parameter that an error names, as in "specify decoder_input_ids".

    Where a module inside asks for its input_ids, it is the parameter that is called by both:
    decoder_input_ids.
    """
    parameters = forward_parameters(model)
    known = {*parameters.positional, *parameters.keyword_only} - {*names}
    words = re.findall(r"\w+", one_line(error.error))
    inside = [f"{part}_{word}" for part in error.where.split(".") for word in words if part]
    # Short names are words of any sentence.
    return tuple(word for word in (*inside, *words) if word in known and len(word) > 2)[:1]


def _choices(
    model: torch.nn.Module, names: tuple[str, ...], settings: Settings
) -> Iterator[tuple[str, ...]]:
    """Yield inputs as they are typed, those that are the likeliest for most parameters first."""
    likely, found = guess_named(model, names), [*entries(model)]
    others = [_shown(wish) for entry in found for wish in entry.wishes[:2]]
    others += [text for entry in found for text in _variants(entry.wishes[0])]
    images = [_shown(one.wishes[0]) for one in found if one.modality == "image"]
    features = [
        _shown(wish)
        for one in found
        for wish in one.wishes
        if one.modality == "features" and len(wish.shape) == 3
    ]
    options = []
    for name in names:
        named = [text for form, text in _BY_NAME if form.search(name)]
        named += images if _IMAGES.search(name) else []
        named += features if _FEATURES.search(name) else []
        shapes = dict.fromkeys((*named, _shown(likely[name]), *others, *_OFTEN))
        # Without a dtype it would have that of the likeliest.
        is_ids = likely[name].dtype is not None
        floating = f":{str(settings.dtype or torch.float32).removeprefix('torch.')}" * is_ids
        texts = [text if ":" in text else f"{text}{floating}" for text in shapes]
        options.append(texts[: _MOST_TRIED // len(names)])
    places = sorted(
        product(*(range(len(one)) for one in options)),
        key=lambda chosen: (sum(map(bool, chosen)), sum(chosen)),
    )
    for chosen in places:
        yield tuple(
            f"{name}={one[at]}" for name, one, at in zip(names, options, chosen, strict=True)
        )


def _variants(wish: ForwardArgument) -> Iterator[str]:
    """Yield four items of it, and half of its channels, where another argument has the rest."""
    _, *axes = wish.shape
    if wish.dtype is None and axes:
        yield _shown(wish.of_batch(4)) if wish.batch_axis == 0 else _shown(wish)
        if axes[0] > 1 and not axes[0] % 2:
            yield ",".join(map(str, (1, axes[0] // 2, *axes[1:])))


def _shown(wish: ForwardArgument) -> str:
    sizes = ",".join(map(str, wish.shape))
    return sizes if wish.dtype is None else f"{sizes}:{str(wish.dtype).removeprefix('torch.')}"


def _is_of_the_user(model: torch.nn.Module) -> bool:
    """Return whether the class of a model is in a file that is not of an installed package."""
    try:
        return not _INSTALLED.search(inspect.getfile(type(model)))
    except (OSError, TypeError):
        return False
