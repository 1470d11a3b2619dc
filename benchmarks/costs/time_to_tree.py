"""Time from a built model to a tree with costs, compared with other counters in one run.

``python benchmarks/costs/time_to_tree.py [--repeats N] [MODEL]...``. Every counter gets the same
built model with random values, and a process of its own for each repeat, forked from one in which
torch and the model's library are imported and the model is built: no import and no building is in
the time, and no counter sees what another one left behind. Repeats are interleaved; the median is
told.

Counters are called as their own documents say, with the most favourable output: ours records the
tree and encodes it for the screen; torchinfo prints nothing; fvcore traces once, for FLOPs by
module. ``FlopCounterMode`` comes three times: around a forward as in its documents, around one
without gradients, as inference runs it, and around one of a copy of the model on meta.

``llama_405b`` is a configuration without weights, on meta, in both phases: a prompt of 128 tokens,
then one token with its cache. Only ``FlopCounterMode`` is beside it: the others need values. It is
held to its seconds, as it is asked for: at most 3.

An answer is right where its multiply-accumulates (FLOPs halved where two are one) are within 1 % of
what is published, or of a closed form. Exit code 1 where ours is not right on every model, or takes
more than 1.5 times as long as the fastest that gives a right answer.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import select
import signal
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tui_profiler.probe.load.common.loaded_model import Loaded

MOST_RATIO = 1.5
MOST_SECONDS = {"llama_405b": 3.0}
"""Instead of the ratio."""
TOLERANCE = 0.01
LIMIT_SECONDS = 180


@dataclass
class Subject:
    """A built model, one call of it, and how many multiply-accumulates that has."""

    name: str
    model: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]
    macs: float
    source: str
    loaded: Loaded | None = None
    """Where a second forward follows, with the cache of the first: what knows its inputs."""

    def run(self) -> None:
        """Run every forward that is counted."""
        output = self.model(*self.inputs)
        if self.loaded is not None:
            (ids,) = self.inputs
            self.model(ids[:, -1:], past_key_values=output.past_key_values)


@dataclass
class Runs:
    """What one counter said of one model."""

    seconds: list[float] = field(default_factory=list)
    macs: float | None = None
    error: str = ""

    def is_right(self, truth: float) -> bool:
        return self.macs is not None and abs(self.macs - truth) <= TOLERANCE * truth


def torchvision_model(name: str) -> Subject:
    import torchvision

    entry = next(iter(torchvision.models.get_model_weights(name)))
    crop = entry.transforms().crop_size[0]
    model = torchvision.models.get_model(name).eval()
    macs = entry.meta["_ops"] * 1e9
    return Subject(name, model, (torch.rand(1, 3, crop, crop),), macs, "published by torchvision")


def bert_base(tokens: int = 128) -> Subject:
    """BERT-base, without its pooler's neglect: 12 layers of four products and an MLP, then d x d.

    Source: Devlin et al., arXiv 1810.04805: width d 768, MLP 4d. Each layer has 4·d² for the
    projections and 8·d² for the MLP a token, and 2·tokens·d for scores and values.
    """
    import transformers

    width = 768
    model = transformers.BertModel(transformers.BertConfig()).eval()
    macs = 12 * tokens * (12 * width**2 + 2 * tokens * width) + width**2
    ids = torch.randint(0, 30_000, (1, tokens))
    return Subject("bert_base", model, (ids,), macs, f"closed form, {tokens} tokens")


def yolov8n() -> Subject:
    """YOLOv8n, all of whose products are convolutions: outputs times the size of a kernel.

    Ultralytics publishes 8.7 GFLOP (docs.ultralytics.com/models/yolov8, table Detection).
    """
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8n.yaml", verbose=False).eval()
    image = torch.rand(1, 3, 640, 640)
    macs = 0

    def count(module: torch.nn.Conv2d, _: object, output: torch.Tensor) -> None:
        nonlocal macs
        kernel = module.weight.numel() // module.out_channels
        macs += output.numel() * kernel

    hooked = copy.deepcopy(model)
    for module in hooked.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(count)
    with torch.no_grad():
        hooked(image)
    assert abs(2 * macs / 8.7e9 - 1) < TOLERANCE, f"{macs} is not what is published"
    return Subject("yolov8n", model, (image,), macs, "sum over its convolutions")


def llama_405b(tokens: int = 128) -> Subject:
    """Llama 3.1 405B: two phases of 126 layers, without weights.

    Source: arXiv 2407.21783, table 3. Each token multiplies every weight of a linear layer, and its
    scores and values take 2·width for each token that it sees; masked ones are counted.
    """
    from tui_profiler.messages import LoadSpec
    from tui_profiler.probe.load.load import load

    layers, width = 126, 16384
    config = {
        **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"},
        **{"hidden_size": width, "intermediate_size": 53248, "num_hidden_layers": layers},
        **{"num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256},
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        loaded = load(LoadSpec(f"hf:{folder}", inputs=(f"input_ids=1,{tokens}",)))
    linear = [m for m in loaded.model.modules() if isinstance(m, torch.nn.Linear)]
    weights = sum(module.weight.numel() for module in linear)
    macs = weights * (tokens + 1) + 2 * layers * width * (tokens**2 + tokens + 1)
    ids = torch.zeros((1, tokens), dtype=torch.int64, device="meta")
    source = f"closed form, {tokens} tokens and one more"
    return Subject("llama_405b", loaded.model, (ids,), macs, source, loaded)


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "resnet50": lambda: torchvision_model("resnet50"),
    "vit_b_16": lambda: torchvision_model("vit_b_16"),
    "efficientnet_b4": lambda: torchvision_model("efficientnet_b4"),
    "swin_t": lambda: torchvision_model("swin_t"),
    "bert_base": bert_base,
    "yolov8n": yolov8n,
    "llama_405b": llama_405b,
}


def ours(subject: Subject) -> Callable[[], float]:
    from tui_profiler.connection.wire import encode
    from tui_profiler.messages import InputSpec
    from tui_profiler.probe.torch_compat.forward_inputs import Inputs
    from tui_profiler.probe.trace.trace import messages, trace

    specs = tuple(
        InputSpec(f"x{i}", tuple(t.shape), str(t.dtype).removeprefix("torch."), "given")
        for i, t in enumerate(subject.inputs)
    )
    inputs = Inputs(subject.inputs, {}, specs, 1)

    def run() -> float:
        made = trace(subject.model, (inputs,), name=subject.name)
        for message in messages(made):
            encode(message)
        return made.costs[0].macs

    def run_phases() -> float:
        assert subject.loaded is not None
        assert subject.loaded.decode is not None
        prefill = trace(subject.model, subject.loaded.candidates, name=subject.name)
        assert prefill.kept is not None
        step = subject.loaded.decode(subject.model, prefill.inputs, prefill.kept)
        assert isinstance(step, Inputs)
        decode = trace(subject.model, (step,), name=subject.name)
        for phase, made in (("prefill", prefill), ("decode", decode)):
            for message in messages(made, phase):
                encode(message)
        return prefill.costs[0].macs + decode.costs[0].macs

    return run if subject.loaded is None else run_phases


def by_torchinfo(subject: Subject) -> Callable[[], float]:
    import torchinfo

    def run() -> float:
        found = torchinfo.summary(
            subject.model,
            input_data=list(subject.inputs),
            depth=100,
            col_names=("output_size", "num_params", "mult_adds"),
            verbose=0,
        )
        return found.total_mult_adds

    return run


def by_fvcore(subject: Subject) -> Callable[[], float]:
    from fvcore.nn import FlopCountAnalysis

    def run() -> float:
        analysis = FlopCountAnalysis(subject.model, subject.inputs)
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        return analysis.by_module()[""]

    return run


def by_calflops(subject: Subject) -> Callable[[], float]:
    from calflops import calculate_flops

    def run() -> float:
        _, macs, _ = calculate_flops(
            subject.model,
            args=list(subject.inputs),
            print_results=False,
            output_as_string=False,
        )
        return macs

    return run


def by_flop_counter(subject: Subject) -> Callable[[], float]:
    from torch.utils.flop_counter import FlopCounterMode

    def run() -> float:
        with FlopCounterMode(display=False) as counter:
            subject.run()
        counter.get_flop_counts()
        return counter.get_total_flops() / 2

    return run


def by_flop_counter_as_inference(subject: Subject) -> Callable[[], float]:
    run = by_flop_counter(subject)
    return torch.no_grad()(run)


def by_flop_counter_on_meta(subject: Subject) -> Callable[[], float]:
    def run() -> float:
        model = copy.deepcopy(subject.model).to("meta")
        inputs = tuple(tensor.to("meta") for tensor in subject.inputs)
        on_meta = Subject(subject.name, model, inputs, subject.macs, subject.source, subject.loaded)
        return by_flop_counter_as_inference(on_meta)()

    return run


COUNTERS: dict[str, Callable[[Subject], Callable[[], float]]] = {
    "tui-profiler": ours,
    "torchinfo": by_torchinfo,
    "fvcore": by_fvcore,
    "calflops": by_calflops,
    "FlopCounterMode": by_flop_counter,
    "FlopCounterMode, no_grad": by_flop_counter_as_inference,
    "FlopCounterMode, on meta": by_flop_counter_on_meta,
}
OURS = "tui-profiler"
WITHOUT_VALUES = (OURS, "FlopCounterMode", "FlopCounterMode, no_grad")
"""What counts a model on meta as it is."""
THREADS = torch.get_num_threads()
"""Of every counter. The process that they are forked from has one: threads of OpenMP that it had
started would be waited for, and are not there after a fork."""


def timed(subject: Subject, counter: str) -> dict[str, object]:
    """Count once in a fork of this process: seconds and multiply-accumulates, or an error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe, open(os.devnull, "w") as nowhere:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                said = _counted(subject, counter)
            json.dump(said, pipe)
            pipe.flush()
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], LIMIT_SECONDS)
        if not ready:
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
    finally:
        _, status = os.waitpid(child, 0)
    if not ready:
        return {"error": f"stopped after {LIMIT_SECONDS} s"}
    return json.loads(text) if text else {"error": f"ended with status {status}"}


def _counted(subject: Subject, counter: str) -> dict[str, object]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    try:
        run = COUNTERS[counter](subject)
        began = time.perf_counter()
        macs = run()
        return {"seconds": time.perf_counter() - began, "macs": float(macs)}
    except BaseException as error:  # the counter is not ours: what it raises is its result
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        return {"error": last[:100]}


def measure(name: str, repeats: int) -> tuple[Subject, dict[str, Runs]]:
    """Build one model and let every counter count it ``repeats`` times, in turn."""
    subject = SUBJECTS[name]()
    counters = COUNTERS if subject.loaded is None else WITHOUT_VALUES
    found = {counter: Runs() for counter in counters}
    for _ in range(repeats):
        for counter, runs in found.items():
            if runs.error:
                continue
            said = timed(subject, counter)
            if "error" in said:
                runs.error = str(said["error"])
            else:
                runs.seconds.append(said["seconds"])
                runs.macs = said["macs"]
    return subject, found


def tell(subject: Subject, found: dict[str, Runs]) -> bool:
    """Print one model; True where ours is right and fast enough."""
    truth = subject.macs
    print(f"\n{subject.name}: {truth / 1e9:.3f} GMAC, {subject.source}")
    for counter, runs in found.items():
        if runs.error:
            print(f"  {counter:26}{'–':>9}{'–':>10}   failed: {runs.error}")
            continue
        assert runs.macs is not None
        verdict = "right" if runs.is_right(truth) else f"{runs.macs / truth - 1:+.1%}"
        seconds = statistics.median(runs.seconds)
        print(f"  {counter:26}{seconds:7.3f} s{runs.macs / 1e9:10.3f}   {verdict}")
    mine = found[OURS]
    if not mine.is_right(truth):
        print("  ours is not right")
        return False
    right = {c: statistics.median(r.seconds) for c, r in found.items() if r.is_right(truth)}
    others = {c: s for c, s in right.items() if c != OURS}
    if not others:
        print("  no other is right")
        return True
    fastest = min(others, key=lambda counter: others[counter])
    ratio = right[OURS] / others[fastest]
    print(f"  ours takes {ratio:.2f} x the fastest other that is right, {fastest}", flush=True)
    most = MOST_SECONDS.get(subject.name)
    return ratio <= MOST_RATIO if most is None else right[OURS] <= most


def main() -> int:
    """Print a table; 1 where ours is not right on all, or too slow on one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {THREADS} threads", end="")
    print(f", median of {arguments.repeats} processes each, in turn")
    right, asked = dict.fromkeys(COUNTERS, 0), dict.fromkeys(COUNTERS, 0)
    good = True
    names = arguments.models or list(SUBJECTS)
    for name in names:
        subject, found = measure(name, arguments.repeats)
        good &= tell(subject, found)
        for counter, runs in found.items():
            right[counter] += runs.is_right(subject.macs)
            asked[counter] += 1
    print("\nright on: " + ", ".join(f"{c} {n} of {asked[c]}" for c, n in right.items()))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
