"""The programs of ``public_programs.py``: where each lies, its arguments and its data.

A folder of checkouts has a folder ``OWNER+NAME`` for each repository. Nothing of a repository is
changed; small random data stands where a program looks for its own. Programs of ``OWN`` are written
here: servers and a launcher of processes, which have no public example that runs without a GPU.
"""

import gzip
import json
import random
import signal
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.training.coverage import characters, text

OWN = "own"
DIGITS = 2_048
NODES, EDGES, WORDS = 1_800, 4_000, 300


class Program(NamedTuple):
    """A program and how to run it."""

    repository: str
    folder: str
    arguments: str
    make_data: Callable[[Path], None] | None = None
    steps: int = 0
    """Optimizer steps after which the program exits; 0: it ends by itself."""
    masks: tuple[str, ...] = ()
    """Patterns of printed text that differs between two runs alone, such as times."""
    requests: tuple[int, ...] = ()
    """Of a server: rows of the input of each request."""
    stop: signal.Signals = signal.SIGINT
    """Signal that ends a server."""
    attaches: bool = False
    """Whether its models run in processes that it starts: one of them is attached to."""
    seconds: float = 400.0
    """Time limit."""
    files: str = ""
    """Folder of the program's own lines and modules, relative to its folder; default: that."""


def _digits(folder: Path, *, count: int = DIGITS) -> None:
    chance = random.Random(0)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part in ("train", "t10k"):
        images = struct.pack(">4i", 2051, count, 28, 28) + chance.randbytes(count * 784)
        labels = struct.pack(">2i", 2049, count)
        labels += bytes(chance.randrange(10) for _ in range(count))
        for name, content in ((f"{part}-images-idx3", images), (f"{part}-labels-idx1", labels)):
            (raw / f"{name}-ubyte").write_bytes(content)
            (raw / f"{name}-ubyte.gz").write_bytes(gzip.compress(content, 1))


def digits_beside(folder: Path) -> None:
    """Make random images in the files of MNIST, in ``../data``, and a folder for results."""
    (folder / "results").mkdir(exist_ok=True)
    _digits(folder.parent / "data")


def digits_inside(folder: Path) -> None:
    """Make random images in the files of MNIST, in ``data``."""
    _digits(folder / "data")


def digits_two_above(folder: Path) -> None:
    """Make random images in the files of MNIST, in ``../../data`` and ``../../data/mnist``."""
    _digits(folder.parents[1] / "data" / "mnist")
    _digits(folder.parents[1] / "data")


def images(folder: Path, sizes: dict[str, int], width: int, height: int) -> None:
    """Make random pictures in folders."""
    from PIL import Image  # for some programs only

    chance = random.Random(0)
    for name, count in sizes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            picture = Image.frombytes("RGB", (width, height), chance.randbytes(3 * width * height))
            picture.save(folder / name / f"{number}.jpg")


def photographs(folder: Path) -> None:
    """Make random pictures where super_resolution has BSDS300."""
    root = folder / "dataset" / "BSDS300" / "images"
    images(root, {"train": 48, "test": 12}, 280, 260)


def styles(folder: Path) -> None:
    """Make random pictures, and random weights where a VGG-16 would be downloaded."""
    images(folder, {"pictures/all": 200, "style": 1}, 96, 96)
    random_weights(folder, "vgg16")


def random_weights(folder: Path, name: str) -> None:
    """Make random weights of a torchvision model where they would be downloaded."""
    import torch
    from torchvision import models

    kept = folder / "hub" / "hub" / "checkpoints"
    kept.mkdir(parents=True, exist_ok=True)
    weights = models.get_model_weights(name)["IMAGENET1K_V1"]
    file = kept / weights.url.rsplit("/", 1)[1]
    if not file.exists():
        torch.manual_seed(0)
        torch.save(models.get_model(name).state_dict(), file)


def pairs(folder: Path) -> None:
    """Make random pairs of pictures, side by side, where pix2pix has facades."""
    root = folder.parents[1] / "data" / "facades"
    images(root, {"train": 24, "test": 4, "val": 12}, 512, 256)
    (folder / "images" / "facades").mkdir(parents=True, exist_ok=True)


def citations(folder: Path) -> None:
    """Make a random graph where gcn and gat download Cora, and stand in for the download."""
    chance = random.Random(0)
    cora = folder / "made" / "cora"
    cora.mkdir(parents=True, exist_ok=True)
    rows = (
        "\t".join([str(node), *(str(chance.randrange(2)) for _ in range(WORDS)), f"c{node % 7}"])
        for node in range(NODES)
    )
    (cora / "cora.content").write_text("\n".join(rows) + "\n")
    edges = (f"{chance.randrange(NODES)}\t{chance.randrange(NODES)}" for _ in range(EDGES))
    (cora / "cora.cites").write_text("\n".join(edges) + "\n")
    with tarfile.open(folder / "cora.tgz", "w:gz") as packed:
        packed.add(cora, "cora")
    (folder / "requests.py").write_text(
        "from contextlib import contextmanager\nfrom types import SimpleNamespace\n\n\n"
        "@contextmanager\ndef get(url, stream=False):\n"
        "    with open('cora.tgz', 'rb') as file:\n        yield SimpleNamespace(raw=file)\n"
    )


def letters(folder: Path) -> None:
    """Make a text of random letters as ``input.txt``."""
    chance = random.Random(0)
    (folder / "input.txt").write_text("".join(chance.choices("abcdefgh O,God!\n", k=60_000)))


def waves(folder: Path) -> None:
    """Make the sine waves of time_sequence_prediction, smaller."""
    import numpy as np
    import torch

    shifts = np.random.default_rng(2).integers(-80, 80, 10).reshape(10, 1)
    points = np.arange(120) + shifts
    with (folder / "traindata.pt").open("wb") as file:
        torch.save(np.sin(points / 20.0), file)


def stories(folder: Path) -> None:
    """Make a small Llama with random weights and its tokenizer, for gpt-fast."""
    import sentencepiece
    import torch

    kept = folder / "made" / "stories15M"
    kept.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    names = [f"w{number}" for number in range(32_500)]
    chance.shuffle(names)
    (kept / "text").write_text(
        "\n".join(" ".join(names[at : at + 20]) for at in range(0, 32_500, 20))
    )
    sentencepiece.SentencePieceTrainer.train(
        input=str(kept / "text"),
        model_prefix=str(kept / "tokenizer"),
        model_type="word",
        vocab_size=32_000,
        minloglevel=2,
    )
    torch.manual_seed(0)
    dim, hidden, weights = 288, 768, {}
    for layer in range(6):
        name = f"layers.{layer}."
        weights[name + "attention.wqkv.weight"] = torch.randn(3 * dim, dim) * 0.05
        weights[name + "attention.wo.weight"] = torch.randn(dim, dim) * 0.05
        for part, shape in (("w1", (hidden, dim)), ("w3", (hidden, dim)), ("w2", (dim, hidden))):
            weights[f"{name}feed_forward.{part}.weight"] = torch.randn(*shape) * 0.05
        weights[name + "ffn_norm.weight"] = torch.ones(dim)
        weights[name + "attention_norm.weight"] = torch.ones(dim)
    weights["tok_embeddings.weight"] = torch.randn(32_000, dim) * 0.05
    weights["norm.weight"] = torch.ones(dim)
    weights["output.weight"] = torch.randn(32_000, dim) * 0.05
    torch.save({"model": weights}, kept / "model.pth")


def boxes(folder: Path) -> None:
    """Make random pictures with boxes in COCO's format, for torchvision's references."""
    from PIL import Image

    random_weights(folder, "mobilenet_v3_large")
    chance, root = random.Random(0), folder / "coco"
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 40), ("val", 6)):
        pictures = root / f"{name}2017"
        pictures.mkdir(exist_ok=True)
        listed, marked = [], []
        for number in range(count):
            width, height = 96 + 16 * (number % 4), 96
            picture = Image.frombytes("RGB", (width, height), chance.randbytes(3 * width * height))
            picture.save(pictures / f"{number}.jpg")
            listed.append(
                {"id": number, "file_name": f"{number}.jpg", "width": width, "height": height}
            )
            for each in range(3):
                x, y, w, h = (chance.randrange(4, 40) for _ in range(4))
                marked.append(
                    {
                        **{"id": number * 3 + each + 1, "image_id": number, "category_id": 1},
                        **{"bbox": [x, y, w, h], "area": w * h, "iscrowd": 0},
                        "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
                    }
                )
        content = {"images": listed, "annotations": marked, "info": {}, "licenses": []}
        content["categories"] = [{"id": 1, "name": "thing"}]
        (root / "annotations" / f"instances_{name}2017.json").write_text(json.dumps(content))


_SERVED = """import threading
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 512)).eval()
lock = threading.Lock()


def answer(rows):
    with torch.inference_mode(), lock:
        return f"{float(net(torch.ones(rows, 512)).sum()):.4f}\\n".encode()
"""
_ASGI = """

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = answer(int(scope["path"].strip("/") or 1))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""
_WSGI = """

def app(environ, start_response):
    body = answer(int(environ["PATH_INFO"].strip("/") or 1))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""
_RANKS = """import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(4096, 256), torch.randn(4096, 16))
net = DistributedDataParallel(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 16)))
optimizer = torch.optim.AdamW(net.parameters())
for epoch in range(24):
    sampler = DistributedSampler(data)
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=32, sampler=sampler):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch} loss {float(total):.6f}")
dist.destroy_process_group()
"""
_DIFFUSION = """import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.set_num_threads(1)
torch.manual_seed(0)
model = Unet(dim=16, dim_mults=(1, 2, 4))
diffusion = GaussianDiffusion(model, image_size=32, timesteps=50, sampling_timesteps=10)
optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-4)
for step in range(40):
    loss = diffusion(torch.rand(4, 3, 32, 32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step} loss {loss.item():.6f}")
print(f"sampled {float(diffusion.sample(batch_size=2).mean()):.6f}")
"""


def own(folder: Path) -> None:
    """Write the programs that are our own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "served_asgi.py").write_text(_SERVED + _ASGI)
    (folder / "served_wsgi.py").write_text(_SERVED + _WSGI)
    (folder / "ranks.py").write_text(_RANKS)


def diffusion(folder: Path) -> None:
    """Write the example of the package's README, which trains for some steps, then samples."""
    (folder / "train_small.py").write_text(_DIFFUSION)


_EXAMPLES = "pytorch+examples"
_GAN = "eriklindernoren+PyTorch-GAN"
_NANOGPT = (
    "train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=4"
    " --eval_interval=30 --log_interval=10 --block_size=64 --batch_size=12 --n_layer=4 --n_head=4"
    " --n_embd=128"
)
_TIMES = (r"\d+\.\d+ ?ms", r"\d+\.\d+ ?s\b")
REQUESTS = (1,) * 300 + (3,) * 900
PROGRAMS = {
    "mnist": Program(_EXAMPLES, "mnist", "main.py --no-accel --epochs 6", digits_beside, 100),
    "mnist_rnn": Program(_EXAMPLES, "mnist_rnn", "main.py --epochs 6", digits_beside, 80),
    "vae": Program(
        _EXAMPLES,
        "vae",
        "main.py --no-accel --epochs 40",
        digits_beside,
        160,
    ),
    "siamese_network": Program(
        _EXAMPLES, "siamese_network", "main.py --no-accel --batch-size 8", digits_beside, 24
    ),
    "gcn": Program(
        _EXAMPLES, "gcn", "main.py --no-accel --epochs 150", citations, 0, (r"\(\d+\.\d+s\)",)
    ),
    "gat": Program(
        _EXAMPLES,
        "gat",
        "main.py --no-accel --epochs 14 --num-heads 2 --hidden-dim 16",
        citations,
        0,
        (r"\(\d+\.\d+s\)",),
    ),
    "actor_critic": Program(_EXAMPLES, "reinforcement_learning", "actor_critic.py", None, 80),
    "reinforce": Program(_EXAMPLES, "reinforcement_learning", "reinforce.py", None, 80),
    "ppo": Program(
        "vwxyzjn+cleanrl",
        "cleanrl",
        "ppo.py --no-cuda --total-timesteps 6000",
        None,
        0,
        (r"SPS: \d+", r"\[notice\].*"),
    ),
    "dqn": Program(
        "vwxyzjn+cleanrl",
        "cleanrl",
        "dqn.py --no-cuda --total-timesteps 4000 --learning-starts 1000",
        None,
        0,
        (r"SPS: \d+", r"\[notice\].*", r"\d+it/s", r"\d+%.*"),
        files="..",
    ),
    "dcgan": Program(
        _EXAMPLES,
        "dcgan",
        "main.py --dataset fake --batchSize 8 --workers 1 --imageSize 64 --ngf 16 --ndf 16",
        None,
        80,
    ),
    "gan": Program(
        _GAN,
        "implementations/gan",
        "gan.py --n_cpu 0 --n_epochs 30",
        digits_two_above,
        240,
    ),
    "wgan_gp": Program(
        _GAN,
        "implementations/wgan_gp",
        "wgan_gp.py --n_cpu 0 --n_epochs 30",
        digits_two_above,
        180,
    ),
    "pix2pix": Program(
        _GAN,
        "implementations/pix2pix",
        "pix2pix.py --dataset_name facades --n_cpu 0 --batch_size 1 --img_height 256"
        " --img_width 256 --n_epochs 2 --sample_interval 1000",
        pairs,
        16,
        (r"ETA: [\d:.]+",),
    ),
    "detection": Program(
        "pytorch+vision",
        "references/detection",
        "train.py --data-path coco --device cpu -j 0 -b 2 --epochs 1 --output-dir out"
        " --model ssdlite320_mobilenet_v3_large --print-freq 5",
        boxes,
        18,  # Its evaluation needs a GPU.
        (r"\d+\.\d+", r"\d+:\d\d:\d\d"),
    ),
    "diffusion": Program(
        "lucidrains+denoising-diffusion-pytorch", ".", "train_small.py", diffusion
    ),
    "gpt-fast": Program(
        "pytorch-labs+gpt-fast",
        ".",
        "generate.py --device cpu --checkpoint_path made/stories15M/model.pth --num_samples 6"
        " --max_new_tokens 100 --prompt 7",
        stories,
        0,
        (r"\d+\.\d+ (sec|seconds|tokens/sec|GB/s|GB|TF/s)\b", r"tokens/sec: [\d.]+"),
    ),
    "minGPT": Program(
        "karpathy+minGPT",
        "projects/chargpt",
        "chargpt.py --model.model_type=gpt-nano --trainer.max_iters=140 --data.block_size=64"
        " --trainer.batch_size=16 --trainer.num_workers=0",
        letters,
        0,
        (r"\d+\.\d+ms",),
        files="../..",
    ),
    "nanoGPT": Program(
        "karpathy+nanoGPT",
        ".",
        _NANOGPT,
        characters,
        80,
        (r"time \d+\.\d+ms", r"mfu -?\d+\.\d+%"),
    ),
    "makemore": Program(
        "karpathy+makemore",
        ".",
        "makemore.py -n 0 --max-steps 600 --n-layer 2 -b 16",
        None,
        0,
        (r"step time \d+\.\d+ms",),
    ),
    "word_language_model": Program(
        _EXAMPLES,
        "word_language_model",
        "main.py --emsize 64 --nhid 64 --log-interval 20 --epochs 2",
        text,
        100,
        (r"ms/batch +\d+\.\d+", r"time: +\d+\.\d+s"),
    ),
    "word_language_model, Transformer": Program(
        _EXAMPLES,
        "word_language_model",
        "main.py --model Transformer --emsize 64 --nhid 64 --use-optimizer --lr 0.001"
        " --log-interval 20",
        text,
        100,
        (r"ms/batch +\d+\.\d+", r"time: +\d+\.\d+s"),
    ),
    "super_resolution": Program(
        _EXAMPLES,
        "super_resolution",
        "main.py --upscale_factor 3 --batchSize 4 --testBatchSize 4 --nEpochs 4 --threads 0",
        photographs,
    ),
    "time_sequence_prediction": Program(
        _EXAMPLES, "time_sequence_prediction", "train.py --steps 4", waves
    ),
    "mnist_forward_forward": Program(
        _EXAMPLES,
        "mnist_forward_forward",
        "main.py --no_accel --epochs 120 --train_size 1000 --test_size 500",
        digits_inside,
    ),
    "fast_neural_style": Program(
        _EXAMPLES,
        "fast_neural_style/neural_style",
        "neural_style.py train --dataset pictures --style-image style/0.jpg --save-model-dir out"
        " --epochs 1 --batch-size 1 --image-size 64 --log-interval 5",
        styles,
        40,
        (r"\w{3} \w{3} +\d+ [\d:]+ \d{4}", r"saved at .*"),
    ),
    "bidirectional_rnn": Program(
        "yunjey+pytorch-tutorial",
        "tutorials/02-intermediate/bidirectional_recurrent_neural_network",
        "main.py",
        digits_two_above,
        100,
    ),
    "torchrun": Program(
        OWN,
        ".",
        "-m torch.distributed.run --nproc-per-node 2 --master-port 29617 ranks.py",
        own,
        attaches=True,
    ),
    "uvicorn": Program(
        OWN,
        ".",
        "-m uvicorn served_asgi:app --port 8631 --no-access-log --log-level warning",
        own,
        requests=REQUESTS,
    ),
    "gunicorn": Program(
        OWN,
        ".",
        "-m gunicorn served_wsgi:app --workers 2 --bind 127.0.0.1:8632 --log-level warning",
        own,
        attaches=True,
        stop=signal.SIGTERM,
        requests=REQUESTS,
    ),
}
