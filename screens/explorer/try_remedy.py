"""A remedy of a failure, applied to what was asked for."""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from tui_profiler.messages import LoadSpec


def with_option(spec: LoadSpec, command: str) -> LoadSpec | None:
    """Give ``spec`` with the options of ``command``; None where it is no option of ours.

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
