"""How many of transformers' architectures are traced, from tiny configs that this script writes.

``python -m benchmarks.costs.coverage_transformers [--all] [--count 60] [--run 10] [--seed 0]``

Types are all that an ``AutoModel`` class builds, or drawn at random among them; each is shrunk by
the same rules, written as a ``config.json``, and loaded and traced in a process of its own, as
``tui-profiler report hf:DIR`` does. Some that are traced are run for real as well, and their
parameters and multiply-accumulates compared with ``numel`` and torch's FlopCounterMode. Rules are
by the names and kinds of settings, never by model type; where a shrunk config cannot be built or
run, gentler rules are tried. Offline. ``--json FILE`` resumes: types in that file are not repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import random
import resource
import signal
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SECONDS = 25
"""Of CPU time; six times as much of wall time."""
MEMORY_BYTES = 10 << 30
MOST_RUN = 120_000_000
"""Parameters of a model that is run for real."""
COUNTS = {
    "layers": 2,
    "layer": 2,
    "depth": 2,
    "blocks": 2,
    "experts": 4,
    "experts_per_tok": 2,
    "vocab_size": 1000,
}
"""By the end of a setting's name: how many there are at most."""
WIDTHS = ("hidden_size", "d_model", "embed_dim", "n_embd", "dim", "width", "hidden_dim")
HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "attention_heads")
WIDE = 512
"""Settings from here on are widths too, whatever their name: those that equal a width follow it."""
TEXT = frozenset({"input_ids", "decoder_input_ids"})
IMAGE = frozenset({"pixel_values", "images", "image", "pixel_values_videos"})
SOUND = frozenset({"input_features", "input_values"})
LEVELS = ("tiny", "few layers", "as it is")


def shrunk(value: Any, level: str) -> Any:
    """Make a config small, and the ones inside it.

    1. Few layers, few experts, few tokens.
    2. tiny: two heads as wide as they were; whatever was as wide as all heads together is as wide
       as two, everywhere in the config, so that parts still fit each other.
    """
    configs = _configs(value)
    if level == "as it is":
        return value
    for config in configs:
        for name, old in list(vars(config).items()):
            most = next((n for end, n in COUNTS.items() if name.endswith(end)), None)
            if most is not None and _is_count(old) and "_id" not in name:
                _set(config, name, min(old, most))
        _cut_lists(config)
    if level == "tiny":
        _narrow(configs)
    _keep_tokens_inside(configs)
    return value


def _configs(value: Any) -> list[Any]:
    found: dict[int, Any] = {}
    pending = [value]
    while pending:
        config = pending.pop(0)
        if id(config) not in found:
            found[id(config)] = config
            pending += [part for part in vars(config).values() if hasattr(part, "model_type")]
    return list(found.values())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _narrow(configs: list[Any]) -> None:
    """Keep two heads, and let every equal width follow."""
    new_of: dict[int, int] = {}
    for config in configs:
        settings = vars(config)
        heads = next((settings[n] for n in HEADS if _is_count(settings.get(n))), None)
        width = next((settings[n] for n in WIDTHS if _is_count(settings.get(n))), None)
        if heads is None or width is None or heads <= 2 or width % heads:
            continue
        for name, old in list(settings.items()):
            if name.endswith((*HEADS, "key_value_heads")) and _is_count(old):
                _set(config, name, min(old, 2))
        for factor in (1, 2, 3, 4):
            new_of.setdefault(width * factor, 2 * (width // heads) * factor)
    for config in configs:
        for name, old in list(vars(config).items()):
            is_other = any(word in name for word in ("vocab", "position", "image"))
            if not is_other and _is_count(old) and (old >= WIDE or name in WIDTHS):
                _set(config, name, new_of.get(old, old))


def _keep_tokens_inside(configs: list[Any]) -> None:
    sizes = [vars(config).get("vocab_size") for config in configs]
    vocabulary = min((size for size in sizes if _is_count(size)), default=None)
    if vocabulary is None:
        return
    moved: dict[int, int] = {}
    for config in configs:
        for name, old in list(vars(config).items()):
            is_token = name.endswith(("_token_id", "_token_index", "_token_idx"))
            if is_token and _is_count(old) and old >= vocabulary:
                _set(config, name, moved.setdefault(old, vocabulary - 1 - len(moved)))


def _cut_lists(config: Any) -> None:
    """Keep one entry a layer where a list has as many entries as there were layers."""
    layers = getattr(config, "num_hidden_layers", None)
    for name, old in list(vars(config).items()):
        is_by_layer = "layer" in name and isinstance(old, list) and isinstance(layers, int)
        if is_by_layer and len(old) > layers and all(isinstance(item, str) for item in old):
            _set(config, name, _varied(old, layers))


def _varied(kinds: list[str], count: int) -> list[str]:
    """Take as many kinds of layers as fit."""
    distinct = list(dict.fromkeys(kinds))[:count]
    return [*distinct, *kinds[: count - len(distinct)]]


def _set(config: Any, name: str, value: Any) -> None:
    with contextlib.suppress(Exception):  # a setting that cannot be changed stays as it is
        setattr(config, name, value)


def all_types() -> list[str]:
    import transformers

    automatic = [getattr(transformers, name) for name in dir(transformers) if "AutoModel" in name]
    tables = [one._model_mapping._model_mapping for one in automatic if one._model_mapping]
    return sorted({kind for table in tables for kind in table})


def sample(count: int, seed: int, known: list[str]) -> list[str]:
    return sorted(random.Random(seed).sample(known, count))


def attempt(kind: str, *, is_run: bool) -> dict[str, Any]:
    """Load and trace one type at the first level that takes every kind of input."""
    said: dict[str, Any] = {"type": kind}
    first: dict[str, Any] = {}
    for level in LEVELS:
        found = said | _at_level(kind, level, is_run=is_run) | {"level": level}
        if found.get("method") and not found["without"]:
            return found  # Widths that no longer fit each other make a model refuse an image.
        if found.get("method") and level != LEVELS[0]:
            return first or found
        first = first or (found if found.get("method") else {})
        said.setdefault("first_error", found["error"])
        last = found
    return first or last


def _at_level(kind: str, level: str, *, is_run: bool) -> dict[str, Any]:
    from transformers import AutoConfig

    from tui_profiler.messages import LoadSpec
    from tui_profiler.probe.load.load import load
    from tui_profiler.probe.trace.trace import trace

    with tempfile.TemporaryDirectory() as folder:
        try:
            shrunk(AutoConfig.for_model(kind), level).save_pretrained(folder)
        except Exception as error:
            return {"stage": "config", "error": _line(error)}
        began = time.perf_counter()
        try:
            loaded = load(LoadSpec(f"hf:{folder}"))
        except Exception as error:
            return {"stage": "load"} | _told(error)
        load_seconds = time.perf_counter() - began
        found = {"class": type(loaded.model).__name__, "load_seconds": load_seconds}
        began = time.perf_counter()
        try:
            made = trace(loaded.model, loaded.candidates)
        except Exception as error:
            return {**found, "stage": "trace"} | _told(error)
        cost = made.costs[0]
        found |= {"method": made.method, "seconds": time.perf_counter() - began, "error": ""}
        found |= {"tried": len(made.done.attempts), "nodes": len(made.nodes)}
        found |= {"macs": cost.macs, "parameters": cost.parameters}
        found |= {"uncosted": list(made.done.uncosted), "bounded": list(made.done.bounded)}
        found["inputs"] = [f"{spec.name} {list(spec.shape)}" for spec in made.inputs.specs]
        found["without"] = _not_passed(loaded.model, made)
        if found["without"]:
            found["first_attempt"] = made.done.attempts[0].error
        if loaded.decode is not None:
            found["decode"] = _decode(loaded, made)
        return found | (_run(loaded, made) if is_run else {"run": ""})


def _not_passed(model: Any, made: Any) -> list[str]:
    """Return the kinds of input that a forward names and that it was traced without."""
    from tui_profiler.probe.load.inputs.input_tensors import forward_parameters

    passed = {spec.name for spec in made.inputs.specs}
    named = set(forward_parameters(model).positional)
    kinds = {"text": TEXT, "image": IMAGE, "sound": SOUND}
    return [kind for kind, names in kinds.items() if named & names and not passed & names]


def _run(loaded: Any, made: Any) -> dict[str, Any]:
    """Run it on the inputs of its trace, counted by torch: attention as its matrix products."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counted = sum(parameter.numel() for parameter in loaded.model.parameters())
    found: dict[str, Any] = {"numel": counted}
    if loaded.cannot_run or counted > MOST_RUN:
        return found | {"run": loaded.cannot_run or "not run: too large"}
    model = loaded.initialise() if loaded.initialise is not None else loaded.model
    with contextlib.suppress(Exception):  # Only mixtures of experts have one.
        model.set_experts_implementation("eager")  # The counter knows no grouped products.
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as flops:
            model(*made.inputs.args, **made.inputs.keywords())
    except Exception as error:
        return found | {"run": _line(error)}
    return found | {"run": "ran", "torch_macs": flops.get_total_flops() // 2}


def _decode(loaded: Any, made: Any) -> str:
    from tui_profiler.probe.trace.trace import trace

    step = loaded.decode(loaded.model, made.inputs, made.kept)
    if step is None:
        return ""
    if not hasattr(step, "specs"):
        return f"unavailable: {step.reason}"
    try:
        return trace(loaded.model, (step,)).method
    except Exception as error:
        return f"failed: {_line(error)}"


def _told(error: BaseException) -> dict[str, Any]:
    """Return what the product says of an error; one that has no such sentence is a crash."""
    failed = getattr(error, "failed", None)
    if failed is None:
        return {"error": _line(error), "crash": True}
    remedies = [f"{remedy.command}: {remedy.result}" for remedy in failed.remedies]
    why = f" | {failed.why or failed.likely}" if failed.why or failed.likely else ""
    return {"error": _line(error) + why, "remedies": remedies}


def _line(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    cause = error.__cause__
    if cause is not None and type(error).__name__ == "LoadError":
        text += f" <- {type(cause).__name__}"
    return text[:300]


def in_own_process(kind: str, *, is_run: bool) -> dict[str, Any]:
    """Fork, so that what is imported is imported once; kill what takes too long."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_child, args=(kind, is_run, theirs))
    child.start()
    theirs.close()
    said: dict[str, Any] = {"type": kind, "stage": "time", "error": f"over {6 * SECONDS} s"}
    if ours.poll(6 * SECONDS):
        try:
            said = ours.recv()
        except EOFError:
            child.join(10)
            said = {"type": kind, "stage": "process", "error": f"exit code {child.exitcode}"}
            if child.exitcode == -signal.SIGXCPU:
                said |= {"stage": "time", "error": f"over {SECONDS} s of CPU time"}
    if child.is_alive():
        child.kill()
    child.join()
    return said


def _child(kind: str, is_run: bool, pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, 2 * SECONDS))
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    pipe.send(attempt(kind, is_run=is_run))


def summary(results: list[dict[str, Any]]) -> list[str]:
    traced = [found for found in results if found.get("method")]
    ran = [found for found in traced if found["run"] == "ran"]
    seconds = statistics.median(found["seconds"] for found in traced) if traced else float("nan")
    lines = [
        f"attempted {len(results)}, traced {len(traced)}, and run for real {len(ran)}",
        "by method: " + ", ".join(f"{m} {n}" for m, n in _counted(traced, "method")),
        "by config: " + ", ".join(f"{m} {n}" for m, n in _counted(traced, "level")),
        "decode step: " + ", ".join(f"{m or 'none'} {n}" for m, n in _counted(traced, "decode")),
        "traced without a kind of input: "
        + ", ".join(f"{m or 'none'} {n}" for m, n in _counted(traced, "without")),
        f"median seconds of a trace: {seconds:.3f}",
    ]
    for found in results:
        if not found.get("method"):
            first = found.get("first_error", "")
            also = f"; tiny: {first}" if first and first != found["error"] else ""
            lines.append(f"FAILED {found['type']} ({found['stage']}): {found['error']}{also}")
        elif found["run"] not in ("", "ran"):
            lines.append(f"not run {found['type']}: {found['run']}")
    return lines


def _counted(results: list[dict[str, Any]], key: str) -> list[tuple[str, int]]:
    said = (found.get(key, "") for found in results)
    return Counter(" and ".join(s) if isinstance(s, list) else str(s) for s in said).most_common()


def _kept(path: str) -> dict[str, dict[str, Any]]:
    if not path or not Path(path).exists():
        return {}
    results = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {found["type"]: found for found in results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--run", type=int, default=10, help="per cent to run for real")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", default="", help="types of these seeds' samples are left out")
    parser.add_argument("--types", default="", help="these types, comma-separated")
    parser.add_argument("--all", action="store_true", help="every type that there is")
    parser.add_argument("--json", default="", help="results, one per line; those in it are kept")
    chosen = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch: Any = importlib.import_module("torch")
    importlib.import_module("tui_profiler.probe.load.hugging_face.model")
    known = all_types()
    for seed in filter(None, chosen.skip.split(",")):
        seen = set(sample(chosen.count, int(seed), known))
        known = [kind for kind in known if kind not in seen]
    count = len(known) if chosen.all else chosen.count
    kinds = random.Random(chosen.seed).sample(known, count)
    kinds = chosen.types.split(",") if chosen.types else kinds
    print(f"{len(kinds)} types of {len(all_types())}, seed {chosen.seed}", flush=True)
    kept = _kept(chosen.json)
    torch.set_num_threads(1)  # A child of a process that used more would wait for threads it lacks.
    attempt("bert", is_run=True)  # What every child needs is imported once, here.
    gc.collect()
    gc.freeze()  # Children would copy the pages that a collection touches.
    is_run = set(random.Random(chosen.seed).sample(kinds, len(kinds) * chosen.run // 100))
    results = [kept[kind] for kind in kinds if kind in kept]
    for kind in kinds:
        if kind in kept:
            continue
        found = in_own_process(kind, is_run=kind in is_run)
        results.append(found)
        how = found.get("method") or f"FAILED ({found['stage']}) {found['error'][:110]}"
        print(f"{kind:36} {how}  {' '.join(found.get('inputs', []))[:90]}", flush=True)
        if chosen.json:
            with Path(chosen.json).open("a") as file:
                file.write(json.dumps(found) + "\n")
    print("\n".join(summary(results)))


if __name__ == "__main__":
    main()
