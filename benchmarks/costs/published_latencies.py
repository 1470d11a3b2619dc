"""Minimum times of ``fit`` beside published latencies: none may be above a measured one.

    python -m benchmarks.costs.published_latencies [--markdown]

Each row is a published measurement on one of the devices with a data sheet: one forward of
a batch, the prefill of a prompt, or the decode of one token. Models are traced on meta, in the
dtype that was measured; nothing is downloaded. ``SOURCES`` says where each figure stands.

Prints the minimum time, the published one and their ratio; with ``--markdown`` the table of
``docs/fit.md``. Exits with 1 where a minimum time is above a published one.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tui_profiler.messages import LoadSpec, Request, Unknown
from tui_profiler.queries.hardware.data_sheets import DataSheet, data_sheet
from tui_profiler.queries.hardware.on_device import least_time, phases
from tui_profiler.session import Session
from tui_profiler.source.forked import Forked, Template
from tui_profiler.verbs.report import at_batches

TIMM = (
    "huggingface/pytorch-image-models at aa4b5850, results/benchmark-infer-amp-{}.csv: "
    "autocast to float16"
)
SOURCES = {
    "timm-3090": TIMM.format("nhwc-pt240-cu124-rtx3090"),
    "timm-4090": TIMM.format("nhwc-pt240-cu124-rtx4090"),
    "timm-4090c": TIMM.format("nchw-pt291-cu128-4090-dynamo") + ", torch.compile",
    "timm-5090": TIMM.format("nchw-pt291-cu130-5090"),
    "timm-5090c": TIMM.format("nchw-pt291-cu130-5090-dynamo") + ", torch.compile",
    "DLE-resnet": "NVIDIA/DeepLearningExamples at 729963dd, PyTorch/Classification/ConvNets/"
    "resnet50v1.5/README.md, Inference performance results (mean throughput)",
    "DLE-resnext": "NVIDIA/DeepLearningExamples at 729963dd, PyTorch/Classification/ConvNets/"
    "resnext101-32x4d/README.md, Inference performance results (mean throughput)",
    "DLE-effnet": "NVIDIA/DeepLearningExamples at 729963dd, PyTorch/Classification/ConvNets/"
    "efficientnet/README.md, Inference performance: NVIDIA A100 80GB (mean throughput)",
    "DLE-bert": "NVIDIA/DeepLearningExamples at 729963dd, PyTorch/LanguageModeling/BERT/README.md, "
    "Fine-tuning inference on NVIDIA DGX A100 (1x A100 80GB)",
    "FT-bert": "NVIDIA/FasterTransformer at df4a7534, docs/bert_guide.md, BERT performance on "
    "{A100,A10,T4,V100} and PyTorch, column FT: BERT-base without its embeddings, fused kernels",
    "FT-vit": "NVIDIA/FasterTransformer at 6ea1c77c, docs/vit_guide.md, ViT Performance on "
    "{T4,A100}, column cpp: ViT-B/16 at 384 pixels, fused kernels",
    "TRT-LLM": "NVIDIA/TensorRT-LLM at 138f96d4, docs/source/performance.md, Low Latency, "
    "A100 GPUs (FP16): time to first token",
    "gpt-fast": "meta-pytorch/gpt-fast at 6ecad9b5, README.md, Single GPU: tokens per second, "
    "torch.compile, A100 80 GB at 330 W",
    "tui-profiler": "docs/hardware.md: a plain loop, without a profiler",
}


FUSED = ("timm-4090c", "timm-5090c", "FT-bert", "FT-vit", "TRT-LLM", "gpt-fast")
"""Sources that did not run operators one after another: beside the least time of fused kernels."""


class Row(NamedTuple):
    """One published figure."""

    device: str
    """As ``fit --on`` takes it."""
    model: str
    """As ``fit`` takes it, or a name of ``CONFIGS``."""
    dtype: str
    batch: int
    seconds: float
    """Latency of one forward of the batch."""
    source: str
    inputs: tuple[str, ...] = ()
    phase: int = 0
    """Index in ``phases``: of a language model 0 is the prefill, 1 the decode of one token."""


def _images(
    device: str, source: str, batch: int, per_second: dict[str, float], dtype: str = "float16"
) -> list[Row]:
    return [
        Row(device, model, dtype, batch, batch / rate, source) for model, rate in per_second.items()
    ]


def _text(
    device: str,
    source: str,
    model: str,
    dtype: str,
    milliseconds: dict[tuple[int, int], float],
    phase: int = 0,
) -> list[Row]:
    return [
        Row(
            *(device, model, dtype, batch, one / 1e3, source),
            (f"input_ids={batch},{tokens}:int64",),
            phase,
        )
        for (batch, tokens), one in milliseconds.items()
    ]


_LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
_BERT: dict[str, object] = {"architectures": ["BertModel"], "model_type": "bert"}
CONFIGS: dict[str, dict[str, object]] = {
    "BERT-base": _BERT,
    "BERT-large": {
        **_BERT,
        "architectures": ["BertForQuestionAnswering"],
        **{"hidden_size": 1024, "intermediate_size": 4096},
        **{"num_hidden_layers": 24, "num_attention_heads": 16},
    },
    "Llama-2-7B": {
        **_LLAMA,
        **{"intermediate_size": 11008, "num_key_value_heads": 32, "vocab_size": 32000},
    },
    "Llama-3.1-8B": {
        **_LLAMA,
        **{"intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256},
    },
    "GPT-J-6B": {
        "architectures": ["GPTJForCausalLM"],
        "model_type": "gptj",
        **{"n_embd": 4096, "n_head": 16, "n_layer": 28, "rotary_dim": 64, "vocab_size": 50400},
    },
}
"""Of the models' own ``config.json``."""
_COMPILED_4090 = {
    "timm:resnet18": 24941.46,
    "timm:resnet50": 8039.05,
    "timm:vgg16": 3852.37,
    "timm:mobilenetv3_large_100": 20718.56,
    "timm:efficientnet_b0": 10785.82,
    "timm:densenet121": 6209.44,
    "timm:convnext_tiny": 6698.28,
    "timm:swin_base_patch4_window7_224": 2205.57,
    "timm:vit_base_patch16_224": 3375.59,
    "timm:vit_large_patch16_224": 1035.76,
}
_COMPILED_5090 = {
    "timm:resnet18": 35635.29,
    "timm:resnet50": 12400.78,
    "timm:vgg16": 5358.29,
    "timm:mobilenetv3_large_100": 34721.93,
    "timm:efficientnet_b0": 18234.44,
    "timm:densenet121": 10178.85,
    "timm:convnext_tiny": 9524.46,
    "timm:swin_base_patch4_window7_224": 3096.06,
    "timm:vit_base_patch16_224": 4378.83,
    "timm:vit_large_patch16_224": 1338.7,
}
_3090 = {
    "timm:resnet18": 11188.75,
    "timm:resnet50": 3729.86,
    "timm:vgg16": 1729.39,
    "timm:mobilenetv3_large_100": 13556.89,
    "timm:efficientnet_b0": 8241.4,
    "timm:densenet121": 3031.71,
    "timm:convnext_tiny": 3120.16,
    "timm:swin_base_patch4_window7_224": 882.78,
    "timm:vit_base_patch16_224": 1572.08,
    "timm:vit_large_patch16_224": 487.63,
}
_4090 = {
    "timm:resnet18": 18247.43,
    "timm:resnet50": 5088.39,
    "timm:vgg16": 2904.86,
    "timm:efficientnet_b0": 9831.68,
    "timm:convnext_tiny": 4844.53,
    "timm:vit_base_patch16_224": 2843.0,
}
_5090 = {"timm:resnet50": 6356.02, "timm:vgg16": 3417.92, "timm:vit_base_patch16_224": 3915.56}
ROWS = (
    *_images("V100-SXM2", "DLE-resnet", 256, {"resnet50": 3382}),
    *_images("V100-SXM2", "DLE-resnet", 256, {"resnet50": 1261}, "float32"),
    *_images("V100-SXM2", "DLE-resnext", 256, {"timm:resnext101_32x4d": 1746}),
    *_images("T4", "DLE-resnet", 256, {"resnet50": 1198}),
    *_images("T4", "DLE-resnet", 64, {"resnet50": 428}, "float32"),
    *_images("T4", "DLE-resnext", 256, {"timm:resnext101_32x4d": 598}),
    *_images("A100-80", "DLE-effnet", 256, {"timm:efficientnet_b0": 10239}),
    *_images("A100-80", "DLE-effnet", 256, {"timm:efficientnet_b0": 5154}, "float32"),
    *_images("RTX-3090", "timm-3090", 1024, _3090),
    *_images("RTX-4090", "timm-4090", 512, _4090),
    *_images("RTX-4090", "timm-4090c", 1024, _COMPILED_4090),
    *_images("RTX-5090", "timm-5090", 1024, _5090),
    *_images("RTX-5090", "timm-5090c", 1024, _COMPILED_5090),
    Row("H200-SXM", "resnet50", "float32", 64, 9.467e-3, "tui-profiler"),
    *_text("A100-80", "DLE-bert", "BERT-large", "float16", {(32, 384): 32e3 / 312}),
    *_text("A100-80", "DLE-bert", "BERT-large", "float32", {(32, 384): 32e3 / 216}),
    *_text(
        *("A100-80", "FT-bert", "BERT-base", "float16"),
        {(1, 128): 1.09, (8, 128): 1.81, (32, 32): 1.82, (32, 384): 14.68},
    ),
    *_text("A100-80", "FT-bert", "BERT-base", "float32", {(8, 384): 12.21, (32, 384): 45.47}),
    *_text("A10", "FT-bert", "BERT-base", "float16", {(1, 128): 1.02, (32, 384): 43.74}),
    *_text("T4", "FT-bert", "BERT-base", "float16", {(1, 32): 1.72, (32, 384): 103.63}),
    *_text("T4", "FT-bert", "BERT-base", "float32", {(8, 384): 144.51}),
    *_text("V100-SXM2", "FT-bert", "BERT-base", "float16", {(1, 32): 1.31, (32, 384): 44.13}),
    *_text("V100-SXM2", "FT-bert", "BERT-base", "float32", {(8, 384): 52.38}),
    *(
        Row(device, "timm:vit_base_patch16_384", "float16", batch, one / 1e3, "FT-vit")
        for device, batch, one in (
            *(("T4", 1, 9.01), ("T4", 32, 263.17)),
            *(("A100-40", 1, 2.13), ("A100-40", 32, 43.91)),
        )
    ),
    *_text("A100-80", "TRT-LLM", "Llama-2-7B", "float16", {(1, 128): 16, (1, 2048): 133}),
    *_text("A100-80", "TRT-LLM", "GPT-J-6B", "float16", {(1, 128): 12, (1, 2048): 129}),
    *_text("A100-80", "gpt-fast", "Llama-2-7B", "bfloat16", {(1, 5): 1e3 / 104.9}, 1),
    *_text("A100-80", "gpt-fast", "Llama-3.1-8B", "bfloat16", {(1, 5): 1e3 / 93.89}, 1),
)


class Beside(NamedTuple):
    """A published latency and the minimum time."""

    row: Row
    eager: float
    """Minimum seconds, of operators one after another."""
    fused: float
    """Minimum seconds of fused kernels."""

    @property
    def least(self) -> float:
        """Return the minimum of what was measured."""
        return self.fused if self.row.source in FUSED else self.eager

    @property
    def ratio(self) -> float:
        """Return published / minimum time; at least 1."""
        return self.row.seconds / self.least


def beside(rows: tuple[Row, ...], template: Template) -> list[Beside]:
    """Return the minimum time of each row; a model is traced once.

    Args:
        rows: published figures.
        template: what workers are forked from.
    """
    traced: dict[tuple[object, ...], Session] = {}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            key = (row.model, row.dtype, row.batch, row.inputs)
            if key not in traced:
                traced[key] = _traced(row, Path(folder), template)
            found.append(_beside(traced[key], row))
    return found


def _traced(row: Row, folder: Path, template: Template) -> Session:
    model = row.model
    if row.model in CONFIGS:
        path = folder / row.model
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text(json.dumps(CONFIGS[row.model]))
        model = f"hf:{path}"
    spec = LoadSpec(
        model,
        folder=str(folder),
        dtype=row.dtype,
        batch=row.batch,
        inputs=row.inputs,
        started_at=time.time(),
    )

    def worker(request: Request) -> Forked:
        return Forked(template, [request])

    (session,) = asyncio.run(at_batches(spec, worker, progress=lambda _: None, times=()))
    return session


def _beside(session: Session, row: Row) -> Beside:
    trees = phases(session)
    if not trees:
        sys.exit(f"{row.model}: {session.failure}")
    found = least_time(trees[row.phase], 0, _sheet(row))
    if isinstance(found, Unknown) or found.no_peak:
        sys.exit(f"{row.model}: {found}")
    return Beside(row, found.seconds, found.fused_seconds)


def _sheet(row: Row) -> DataSheet:
    sheet = data_sheet(row.device)
    if sheet is None:
        sys.exit(f"{row.device} is not in the table")
    return sheet


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    with Template(("torch", "timm", "transformers", "tui_profiler.probe.worker.run")) as template:
        template.wait()
        found = beside(ROWS, template)
    (_print_markdown if asked.markdown else _print)(found)
    above = [one for one in found if one.ratio < 1]
    said = f"{len(above)} minimum times above a published one"
    print(f"{len(found)} rows, {said}", file=sys.stderr if asked.markdown else sys.stdout)
    return int(bool(above))


def _print(found: list[Beside]) -> None:
    for one in found:
        row = one.row
        print(
            f"{row.device:<10}{row.model:<36}{row.dtype:<9}{_inputs(row):<24}"
            f"{1e3 * one.least:>10.3f} ms{1e3 * row.seconds:>10.3f} ms{one.ratio:>7.2f}"
            f"  {row.source}"
        )


def _print_markdown(found: list[Beside]) -> None:
    """Print, of each device, source and dtype, the row whose minimum is the closest."""
    closest: dict[tuple[str, str, str, int], Beside] = {}
    for one in found:
        key = (one.row.device, one.row.source, one.row.dtype, one.row.phase)
        closest[key] = min(closest.get(key, one), one, key=lambda each: each.ratio)
    print("| device | model | dtype | inputs | minimum | published | ratio | source |")
    print("|---|---|---|---|---|---|---|---|")
    for one in closest.values():
        row, kernels = one.row, "fused" if one.row.source in FUSED else "eager"
        print(
            f"| {row.device} | {row.model.removeprefix('timm:')} | {row.dtype} | {_inputs(row)} |"
            f" {_milliseconds(one.least)}, {kernels} | {_milliseconds(row.seconds)} |"
            f" {one.ratio:.2f} | {row.source} |"
        )
    print()
    for name in dict.fromkeys(one.row.source for one in closest.values()):
        print(f"- {name}: {SOURCES[name]}")


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def _inputs(row: Row) -> str:
    if not row.inputs:
        return f"batch {row.batch}"
    tokens = row.inputs[0].partition(",")[2].partition(":")[0]
    if row.phase:
        return f"decode after {tokens} tokens"
    return f"batch {row.batch}, {int(tokens):,} tokens"


if __name__ == "__main__":
    sys.exit(main())
