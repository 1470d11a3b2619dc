"""What is typed to change how a model runs, and where a recording is: read, not yet asked for."""

from __future__ import annotations

import re
import shlex

from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, Playback

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}
"""How the header writes them to how torch does."""
_INPUT = re.compile(r"(?:[A-Za-z_]\w{0,99}=)?[1-9]\d{0,9}(?:,[1-9]\d{0,9}){0,15}(?::[a-z0-9]+)?")
_DEVICE = re.compile(r"cpu|cuda(?::\d{1,3})?")


def are_inputs(words: list[str]) -> bool:
    """Whether words are shapes of inputs, such as ``1,3,96,96`` and ``tokens=1,16:int64``."""
    return bool(words) and all(_INPUT.fullmatch(word) for word in words)


def placed(spec: LoadSpec, text: str) -> LoadSpec | str:
    """Return ``spec`` on another device or in another dtype, or what is wrong with the text.

    Args:
        spec: what was asked for.
        text: such as ``cuda``, ``bfloat16`` or ``cuda:1 f16``.
    """
    devices = [word for word in text.split() if _DEVICE.fullmatch(word)]
    others = [word for word in text.split() if not _DEVICE.fullmatch(word)]
    dtypes = [DTYPES.get(word, word) for word in others]
    unknown = [word for word in dtypes if word not in DTYPES.values()]
    if unknown:
        known = ", ".join(DTYPES.values())
        return f"{safe(unknown[0])!r} is neither a device (cpu, cuda, cuda:N) nor a dtype ({known})"
    if len(devices) > 1 or len(dtypes) > 1:
        return "one device and one dtype at most"
    device = devices[0] if devices else spec.device
    return replace(spec, device=device, dtype=dtypes[0] if dtypes else spec.dtype)


def with_option(spec: LoadSpec, command: str) -> LoadSpec | None:
    """Return ``spec`` with the options of ``command``; None where it is no option of ours.

    Args:
        spec: what was asked for.
        command: such as ``--batch 512``, ``--input 1,3,64,64`` or ``tui-profiler resnet50``.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    match words:
        case ["tui-profiler", model] if model != "models":
            # The same one is offered again where its arguments were wrong.
            arguments = "" if model == spec.model else spec.arguments
            return replace(spec, model=model, arguments=arguments)
    inputs: list[str] = []
    while words:
        option = words.pop(0)
        if option == "--trust":
            spec = replace(spec, trust=True)
        elif option == "--no-run":
            spec = replace(spec, run=False)
        elif not words:
            return None
        elif option == "--batch" and words[0].isdecimal():
            spec = replace(spec, batch=int(words.pop(0)))
        elif option == "--input":
            inputs.append(words.pop(0))
        elif option in ("--dtype", "--device", "--weights", "--tracer"):
            spec = replace(spec, **{option[2:]: words.pop(0)})
        elif option == "--args":
            spec = replace(spec, arguments=words.pop(0))
        else:
            return None
    return replace(spec, inputs=tuple(inputs)) if inputs else spec


def typed_place(text: str, playback: Playback) -> float | None:
    """Return the time of a typed place; None where it is none.

    Args:
        text: ``12.5`` or ``1:30`` or ``1:02:03`` since the beginning, ``50%`` of it, ``end``.
        playback: of the recording.
    """
    length = playback.ends - playback.begins
    words = text.strip().casefold()
    if words == "end":
        return playback.ends
    try:
        if words.endswith("%"):
            return playback.begins + length * float(words[:-1]) / 100
        seconds = 0.0
        for part in words.split(":"):
            seconds = seconds * 60 + float(part)
    except ValueError:
        return None
    return playback.begins + seconds
