"""Load whatever the user named, and list the names there are."""

from collections.abc import Callable
from fnmatch import fnmatchcase

from tui_profiler.archive import Found
from tui_profiler.messages import Listed, LoadSpec
from tui_profiler.probe.load.common.errors import wrong_request
from tui_profiler.probe.load.common.initialisation import limited_modules
from tui_profiler.probe.load.common.loaded_model import Loaded, Settings, set_threads, settings_of
from tui_profiler.probe.load.files.inspection import inspected, is_file, path_of, refusal
from tui_profiler.probe.load.python.models import is_own_code, load_own_code
from tui_profiler.system.demos import PREFIX, demo_names


def load(spec: LoadSpec, tell: Callable[[Found], None] = lambda _: None) -> Loaded:
    """Load a model and find out what may be passed to it.

    A name without a colon is an architecture of torchvision's, ``demo:NAME`` one of our demo
    models, ``timm:NAME`` one of timm's, ``hf:DIR`` a Hugging Face config, a YAML a YOLO model,
    anything else the user's own file or module. The model is in eval mode: what is profiled is
    inference. Nothing is run, unless a layer needs its first input to get its shape.

    Args:
        spec: what the user typed.
        tell: is given what a look into a file of weights found, before code in it runs.

    Raises:
        LoadError: It cannot be had; the error says what to try.
    """
    settings = settings_of(spec)
    set_threads(spec.threads)
    if is_file(spec):
        return _load_file(spec, settings)
    if spec.model.startswith("hf:"):
        from tui_profiler.probe.load.hugging_face.model import load_hugging_face  # noqa: PLC0415

        with limited_modules():
            return load_hugging_face(spec, settings)
    if spec.model.startswith("timm:"):
        from tui_profiler.probe.load.architectures.timm_models import load_timm  # noqa: PLC0415

        return load_timm(spec, settings)
    if spec.model.endswith((".yaml", ".yml")):
        from tui_profiler.probe.load.architectures.ultralytics_models import load_ultralytics_yaml  # noqa: PLC0415

        with limited_modules():
            return load_ultralytics_yaml(spec, settings, tell)
    if is_own_code(spec.model):
        return load_own_code(spec, settings)
    # Importing torchvision takes two seconds, which the user's own code need not wait for.
    from tui_profiler.probe.load.architectures.torchvision_models import load_named  # noqa: PLC0415

    return load_named(spec, settings)


def _load_file(spec: LoadSpec, settings: Settings) -> Loaded:
    found = inspected(spec)
    refused = refusal(found, spec)
    if refused is not None:
        raise refused
    path = path_of(spec)
    # Each is imported where it is needed: torch.export alone takes a second.
    if found.kind == "torchscript":
        from tui_profiler.probe.load.files.torchscript import load_torchscript  # noqa: PLC0415

        return load_torchscript(path, spec, settings)
    if found.kind == "exported-program":
        from tui_profiler.probe.load.files.export_archive import load_exported  # noqa: PLC0415

        return load_exported(path, spec, settings)
    if found.content == "parameters":
        raise wrong_request(f"{spec.model} contains parameters only: there is no forward pass")
    from tui_profiler.probe.load.python.pickled import load_pickled  # noqa: PLC0415

    return load_pickled(path, found, spec, settings)


def list_models(pattern: str) -> Listed:
    """Return every name that matches, demo models first.

    Args:
        pattern: Part of a name, or a glob with ``*``, ``?`` or ``[``; case does not matter. Empty
            is every name.
    """
    # Imported here, so that a worker of the user's own code does not wait for torchvision.
    from tui_profiler.probe.load.architectures.timm_models import PREFIX as TIMM  # noqa: PLC0415
    from tui_profiler.probe.load.architectures.timm_models import timm_names  # noqa: PLC0415
    from tui_profiler.probe.load.architectures.torchvision_models import architecture_names  # noqa: PLC0415
    from tui_profiler.probe.load.architectures.ultralytics_models import yaml_names  # noqa: PLC0415

    names = [("demo", PREFIX + name) for name in demo_names()]
    names += [("torchvision", name) for name in architecture_names()]
    names += [("timm", TIMM + name) for name in timm_names()]
    names += [("ultralytics", name) for name in yaml_names()]
    folded = pattern.casefold()
    is_glob = any(sign in folded for sign in "*?[")
    return Listed(
        names=tuple(
            (source, name)
            for source, name in names
            if (fnmatchcase(name, folded) if is_glob else folded in name)
        )
    )
