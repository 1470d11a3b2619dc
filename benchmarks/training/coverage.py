"""How much of the steps of public training scripts, unmodified, falls into named parts and modules.

``python -m benchmarks.training.coverage --checkouts DIR [--seconds 30] [SCRIPT...]``

``DIR`` has a folder for each repository, ``OWNER+NAME``, with its files. Each script runs as
``tui-profiler run`` runs it, with random digits and words where it would download data,
until ``--seconds`` after its first steps were told. Printed are, in means of recorded steps:

- *parts*: all but ``other``, over the step; *named*: with what of ``other`` is told by source line.
- *shown*: what lies in modules of the shown model, over what the thread that trains spent in
  forwards of all models and in autograd's engine; *models*: with other models, each as a whole;
  *and lines*: with the backward of losses that no module computes, by the line that began it.

Budgets: *named* 95 %, *and lines* 90 %. The exit code is 1 where one is missed.
"""

import argparse
import asyncio
import gzip
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tui_profiler.messages import known
from tui_profiler.queries.training.step import step_parts
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.script import Script

LEAST_NAMED, LEAST_MODULES = 0.95, 0.90
LEAST_RECORDED = 8
MOST_SECONDS = 240.0
"""From the start of a script."""
DIGITS = 4_096
PICTURES = 640


def no_data(folder: Path) -> None:
    """Make nothing."""


def digits(folder: Path) -> None:
    """Make random images in the files of MNIST, where a script looks for them."""
    chance = random.Random(0)
    for data in (folder / "data", folder.parent / "data"):
        raw = data / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for part in ("train", "t10k"):
            images = struct.pack(">4i", 2051, DIGITS, 28, 28) + chance.randbytes(DIGITS * 784)
            labels = struct.pack(">2i", 2049, DIGITS)
            labels += bytes(chance.randrange(10) for _ in range(DIGITS))
            for name, content in ((f"{part}-images-idx3", images), (f"{part}-labels-idx1", labels)):
                (raw / f"{name}-ubyte").write_bytes(content)
                (raw / f"{name}-ubyte.gz").write_bytes(gzip.compress(content, 1))


def text(folder: Path) -> None:
    """Make a text of random words in the files of WikiText-2."""
    chance, data = random.Random(0), folder / "data" / "wikitext-2"
    data.mkdir(parents=True, exist_ok=True)
    for part, lines in (("train", 8_000), ("valid", 100), ("test", 100)):
        made = (" ".join(f"w{chance.randrange(5_000)}" for _ in range(20)) for _ in range(lines))
        (data / f"{part}.txt").write_text("\n".join(made) + "\n")


def characters(folder: Path) -> None:
    """Make random tokens where nanoGPT has Shakespeare's characters."""
    data = folder / "data" / "shakespeare_char"
    data.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    for part in ("train", "val"):
        tokens = [chance.randrange(65) for _ in range(100_000)]
        (data / f"{part}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65, "itos": {}, "stoi": {}}))


def words(folder: Path) -> None:
    """Make a text of random words where Lightning's demo has WikiText-2."""
    data, chance = folder / "data", random.Random(0)
    data.mkdir(exist_ok=True)
    made = (" ".join(f"w{chance.randrange(2_000)}" for _ in range(20)) for _ in range(12_000))
    (data / "wikitext-2.txt").write_text("\n".join(made) + "\n")


def pets(folder: Path) -> None:
    """Make random pictures of pets, and random weights where timm would download a ResNet's."""
    import timm  # for one script
    from PIL import Image
    from safetensors.torch import save_file

    chance, data, hub = random.Random(0), folder / "pets", folder / "hub"
    data.mkdir(exist_ok=True)
    for number in range(PICTURES):
        picture = Image.frombytes("RGB", (256, 256), chance.randbytes(3 * 256 * 256))
        picture.save(data / f"{('beagle', 'birman')[number % 2]}_{number}.jpg")
    name = timm.models.get_pretrained_cfg("resnet50d").hf_hub_id
    kept = hub / "hub" / f"models--{name.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True, exist_ok=True)
    (kept / "refs" / "main").write_text("0" * 40)
    (kept / "snapshots" / ("0" * 40)).mkdir(parents=True, exist_ok=True)
    weights = timm.create_model("resnet50d").state_dict()
    save_file(weights, kept / "snapshots" / ("0" * 40) / "model.safetensors")
    os.environ.update(HF_HOME=str(hub), HF_HUB_OFFLINE="1")


def fine_tuning(folder: Path) -> None:
    """Make instructions of random words, their tokenizer, and a small Llama, for torchtune."""
    import sentencepiece
    import torch
    from torchtune.models.llama2 import llama2

    chance, data = random.Random(0), folder / "tiny"
    (data / "model").mkdir(parents=True, exist_ok=True)
    names = [f"w{number}" for number in range(400)]
    rows = [
        {part: " ".join(chance.choices(names, k=12)) for part in ("instruction", "output")}
        for _ in range(400)
    ]
    (data / "data.json").write_text(json.dumps([{**row, "input": ""} for row in rows]))
    (data / "text").write_text("\n".join(" ".join(row.values()) for row in rows))
    sentencepiece.SentencePieceTrainer.train(
        input=str(data / "text"),
        model_prefix=str(data / "words"),
        vocab_size=500,
        hard_vocab_limit=False,
    )
    tokens = sentencepiece.SentencePieceProcessor(model_file=str(data / "words.model"))
    size = {"num_layers": 4, "num_heads": 4, "num_kv_heads": 4, "embed_dim": 128}
    torch.manual_seed(0)
    given = {"vocab_size": tokens.vocab_size(), "max_seq_len": 256, **size}
    torch.save(llama2(**given).state_dict(), data / "model" / "model.pt")
    (data / "model" / "config.json").write_text("{}")
    chosen = {
        **dict.fromkeys(("resume_from_checkpoint", "optimizer_in_bwd", "compile"), False),
        **dict.fromkeys(("enable_activation_checkpointing", "shuffle"), False),
        **{"enable_activation_offloading": False, "log_peak_memory_stats": False},
        **{"output_dir": str(data / "out"), "device": "cpu", "dtype": "fp32", "seed": 7},
        **{"batch_size": 4, "epochs": 9, "gradient_accumulation_steps": 1, "clip_grad_norm": 1.0},
        **{"max_steps_per_epoch": None, "log_every_n_steps": 1},
        "tokenizer": {
            "_component_": "torchtune.models.llama2.llama2_tokenizer",
            "path": str(data / "words.model"),
            "max_seq_len": 128,
        },
        "dataset": {
            "_component_": "torchtune.datasets.alpaca_dataset",
            **{"source": "json", "data_files": str(data / "data.json"), "split": "train"},
        },
        "model": {"_component_": "torchtune.models.llama2.llama2", **given},
        "checkpointer": {
            "_component_": "torchtune.training.FullModelTorchTuneCheckpointer",
            **{"checkpoint_dir": str(data / "model"), "checkpoint_files": ["model.pt"]},
            **{"recipe_checkpoint": None, "output_dir": str(data / "out"), "model_type": "LLAMA2"},
        },
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": 1e-3},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "metric_logger": {
            "_component_": "torchtune.training.metric_logging.DiskLogger",
            "log_dir": str(data / "logs"),
        },
        "profiler": {"_component_": "torchtune.training.setup_torch_profiler", "enabled": False},
    }
    (folder / "tiny.yaml").write_text(json.dumps(chosen))  # JSON is YAML.


class Public(NamedTuple):
    """A script as its repository has it."""

    repository: str
    folder: str
    arguments: str
    make_data: Callable[[Path], None] = no_data


_EXAMPLES = "pytorch+examples"
_NANOGPT = (
    "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=2"
    " --log_interval=10 --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128"
)
SCRIPTS = {
    "mnist": Public(_EXAMPLES, "mnist", "main.py --no-accel", digits),
    "mnist_rnn": Public(_EXAMPLES, "mnist_rnn", "main.py", digits),
    "vae": Public(_EXAMPLES, "vae", "main.py --no-accel", digits),
    "siamese_network": Public(_EXAMPLES, "siamese_network", "main.py --no-accel", digits),
    "imagenet": Public(
        _EXAMPLES, "imagenet", "main.py --dummy --no-accel -a resnet18 -b 4 -j 1 --gpu -1"
    ),
    "dcgan": Public(
        _EXAMPLES, "dcgan", "main.py --dataset fake --batchSize 8 --workers 1 --imageSize 64"
    ),
    "word_language_model, LSTM": Public(
        _EXAMPLES, "word_language_model", "main.py --emsize 64 --nhid 64 --log-interval 20", text
    ),
    "word_language_model, Transformer": Public(
        _EXAMPLES,
        "word_language_model",
        "main.py --model Transformer --emsize 64 --nhid 64 --use-optimizer",
        text,
    ),
    "accelerate, cv_example": Public(
        "huggingface+accelerate", "examples", "cv_example.py --data_dir pets --cpu", pets
    ),
    "Lightning, transformer": Public(
        "Lightning-AI+pytorch-lightning", "examples/pytorch/basics", "transformer.py", words
    ),
    "torchtune, full_finetune_single_device": Public(
        "pytorch+torchtune",
        "recipes",
        "full_finetune_single_device.py --config tiny.yaml",
        fine_tuning,
    ),
    "nanoGPT": Public("karpathy+nanoGPT", ".", _NANOGPT, characters),
}


class Covered(NamedTuple):
    """Shares of a step, 0 to 1."""

    steps: int
    recorded: int
    parts: float
    named: float
    shown: float
    """Of forward and backward together, as the next two."""
    models: float
    with_lines: float
    why: str


def covered(session: Session) -> Covered | None:
    """Return what is covered of the steps of a session; None where none was recorded."""
    parts = {part.name: part.seconds or 0.0 for part in step_parts(session)}
    if session.training is None or not parts:
        return None
    step, root = session.training.step, session.training.of(0)
    shown = root.total if root else 0.0
    others = (
        known(figure) or 0.0 for one in step.other_models for figure in (one.forward, one.backward)
    )
    models = shown + sum(others)
    with_lines = models + sum(line.outside for line in step.backward_lines)
    seconds = known(step.seconds) or 1.0
    whole = parts["forward"] + parts["backward"] or 1.0
    return Covered(
        step.steps,
        step.recorded,
        1 - parts["other"] / seconds,
        1 - parts["other"] * (1 - sum(one.share for one in step.lines)) / seconds,
        shown / whole,
        models / whole,
        with_lines / whole,
        step.why_no_backward,
    )


async def watched(public: Public, checkouts: Path, seconds: float) -> Session:
    """Run a script until its steps have been told for so long."""
    folder = checkouts / public.repository / public.folder
    public.make_data(folder)
    os.chdir(folder)
    began = time.time()
    script = Script(public.arguments.split(), started_at=began, budget=0.02, owns_terminal=True)
    session, until, is_told = EMPTY, began + MOST_SECONDS, False
    async for message in script.messages():
        session = apply(session, message)
        step = session.training.step if session.training is not None else None
        if step is not None and step.recorded >= LEAST_RECORDED and not is_told:
            is_told, until = True, min(until, time.time() + seconds)
        if time.time() > until:
            break
    await script.close()
    return session


def main() -> int:
    """Print a row for each script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", default=list(SCRIPTS))
    parser.add_argument("--checkouts", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    checkouts = asked.checkouts.resolve()
    if asked.one:
        [name] = asked.scripts
        found = covered(asyncio.run(watched(SCRIPTS[name], checkouts, asked.seconds)))
        if found is None:
            print(f"{name:40} no step was recorded", flush=True)
            return 1
        is_enough = found.named >= LEAST_NAMED and found.with_lines >= LEAST_MODULES
        print(
            f"{name:40}{found.steps:7}{found.recorded:9}{found.parts:8.1%}{found.named:8.1%}"
            f"{found.shown:8.1%}{found.models:8.1%}{found.with_lines:11.1%}"
            f"  {'' if is_enough else 'below'} {found.why}",
            flush=True,
        )
        return 0 if is_enough else 1
    print(
        f"{'script':40}{'steps':>7}{'recorded':>9}{'parts':>8}{'named':>8}{'shown':>8}{'models':>8}"
        f"{'and lines':>11}"
    )
    failed = 0
    for name in asked.scripts:
        # A process each: a script is started before any thread is.
        command = [sys.executable, __file__, "--one", "--checkouts", str(checkouts)]
        run = subprocess.run(
            [*command, "--seconds", str(asked.seconds), name],
            capture_output=True,
            text=True,
            check=False,
        )
        rows = [line for line in run.stdout.splitlines() if line.startswith(f"{name:40}")]
        print(rows[-1] if rows else f"{name:40} {run.stderr.strip()[-200:]}", flush=True)
        failed += run.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
