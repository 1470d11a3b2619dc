"""Reports of 40 models in every format, as two versions of the program write them.

    python -m benchmarks.files.reports_before_after OLD_PYTHON NEW_PYTHON [options]

The old version records each model once: every third is run for a second, the others are only
traced. Both versions open the recordings and write every format of each, the comparison with the
model before it, and the findings. The reports are compared (``report_differences.py``): what was
added since is told apart from what changed, and what changed in words from what changed in figures.
Prints a line per place that differs, with the commit that corrected it where a figure did; the
files stay in DIR. The exit code is 1 where a figure differs that no commit in EXPLAINED accounts
for. Recordings that are in DIR already are used again. Nothing is downloaded: weights are random,
configurations of Hugging Face models are written here. OLD_PYTHON and NEW_PYTHON are interpreters
of environments in which the versions are installed.

Options:
    --folder DIR  where recordings and reports are kept (default: a new temporary folder)
    --models N    only the first N models
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DEMOS = ("cnn", "decoder", "detector", "dynamic", "hostile", "lazy", "lstm", "moe", "shared")
TORCHVISION = (
    *("resnet18", "alexnet", "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_small"),
    *("shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "densenet121"),
    *("googlenet", "convnext_tiny", "vit_b_16", "swin_t"),
)
TIMM = (
    *("resnet10t", "mobilenetv3_small_050", "ghostnet_050", "vit_tiny_patch16_224", "lcnet_050"),
    *("levit_128s", "convnext_atto", "tinynet_e"),
)
HUGGING_FACE: dict[str, dict[str, object]] = {
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 64, "n_head": 2},
    "bert": {
        **{"architectures": ["BertModel"], "num_hidden_layers": 2, "hidden_size": 64},
        **{"num_attention_heads": 2, "intermediate_size": 128},
    },
    "llama": {
        **{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128},
        "vocab_size": 1000,
    },
    "vit": {
        **{"architectures": ["ViTForImageClassification"], "num_hidden_layers": 2},
        **{"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128},
    },
    "t5": {
        **{"architectures": ["T5ForConditionalGeneration"], "num_layers": 2, "d_model": 64},
        **{"num_heads": 2, "d_kv": 32, "d_ff": 128, "vocab_size": 1000},
    },
    "distilbert": {
        **{"architectures": ["DistilBertModel"], "n_layers": 2, "dim": 64, "n_heads": 2},
        "hidden_dim": 128,
    },
}
FORMATS = ("table", "text", "json", "csv", "markdown")
RUN_EVERY = 3
"""Of so many models one is measured."""


def models(folder: Path) -> list[str]:
    """Return the names as the command line takes them; two are files of parameters alone."""
    for name, config in HUGGING_FACE.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps({"model_type": name, **config}))
    found = [f"demo:{name}" for name in DEMOS]
    found += TORCHVISION
    found += [f"timm:{name}" for name in TIMM]
    found += [f"hf:{folder / name}" for name in HUGGING_FACE]
    return [*found, str(folder / "two.safetensors"), str(folder / "two.pt"), "resnet50"]


def write_weights(python: str, folder: Path) -> None:
    """Write two files of parameters, as safetensors and as torch saves them."""
    made = (
        "import torch, sys; from safetensors.torch import save_file; torch.manual_seed(0);"
        "w = {'a.weight': torch.randn(8, 4), 'a.bias': torch.randn(8)};"
        "save_file(w, sys.argv[1]); torch.save(w, sys.argv[2])"
    )
    files = [str(folder / "two.safetensors"), str(folder / "two.pt")]
    subprocess.run([python, "-c", made, *files], check=True)


def tui_profiler(python: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line of the version that a Python has."""
    return subprocess.run(
        [python, "-m", "tui_profiler.screens", *arguments],
        capture_output=True,
        cwd="/",
        check=False,
    )


def recorded(python: str, name: str, path: Path, *, runs: bool) -> bool:
    """Record a model, unless it was."""
    if path.exists():
        return True
    how = ("--seconds", "1") if runs else ("--no-run",)
    done = tui_profiler(python, "record", name, "--output", str(path), *how)
    if done.returncode:
        print(f"{name}: not recorded: {done.stderr.decode()[-300:]}")
    return done.returncode == 0


def write(recordings: list[Path], to: Path) -> None:
    """Write every format of each recording, with the version that this process imports."""
    import tui_profiler

    before = None
    for path in recordings:
        one = tui_profiler.open_recording(path)
        made: dict[str, bytes] = {f: one.report(f).encode() for f in FORMATS}
        made |= {f"{f} --top 5": one.report(f, top=5).encode() for f in FORMATS}
        made |= {"perfetto": one.perfetto(), "html": one._repr_html_().encode()}
        compared = (before or one).compare(one)
        made |= {
            "compare table": compared.report("table").encode(),
            "compare json": compared.report("json").encode(),
            "compare html": compared._repr_html_().encode(),
        }
        for name, data in made.items():
            (to / f"{path.stem}.{name}").write_bytes(data)
        before = one


def write_findings(python: str, recordings: list[Path], to: Path) -> None:
    """Write the reports with findings and with a check: only the command line has them."""
    paths = [str(path) for path in recordings]
    done = tui_profiler(python, "report", *paths, "--format", "json", "--findings")
    for path, line in zip(recordings, done.stdout.splitlines(), strict=True):
        (to / f"{path.stem}.json --findings").write_bytes(line)
    done = tui_profiler(python, "report", *paths, "--findings")
    (to / f"{recordings[0].stem}.table --findings, of all").write_bytes(done.stdout)
    for path in recordings:
        done = tui_profiler(
            python, "report", str(path), "--format", "markdown", "--check", "total_macs<=1G"
        )
        said = done.stdout + done.stderr + str(done.returncode).encode()
        (to / f"{path.stem}.check").write_bytes(said)


def main() -> int:
    """Record, write with both, compare."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("old")
    given.add_argument("new")
    given.add_argument("--folder", type=Path)
    given.add_argument("--models", type=int)
    found = given.parse_args()
    folder = found.folder or Path(tempfile.mkdtemp(prefix="reports-"))
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(found.old, folder)
    recordings = []
    for place, name in enumerate(models(folder)[: found.models]):
        path = folder / f"{re.sub(r'[^A-Za-z0-9_]+', '-', name).strip('-')}.rec"
        if recorded(found.old, name, path, runs=place % RUN_EVERY == 0):
            recordings.append(path)
    for version, python in (("old", found.old), ("new", found.new)):
        to = folder / version
        to.mkdir(exist_ok=True)
        subprocess.run(
            [python, __file__, "--write", str(to), *map(str, recordings)], check=True, cwd="/"
        )
        write_findings(python, recordings, to)
    # Not at the top: this file also runs in the environment of the old version, for `write`.
    from benchmarks.files.report_differences import print_differences

    return 1 if print_differences(recordings, folder / "old", folder / "new") else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write([Path(one) for one in sys.argv[3:]], Path(sys.argv[2]))
    else:
        sys.exit(main())
