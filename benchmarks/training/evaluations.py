"""Training loops with something between their steps, against their own timers.

    python -m benchmarks.training.evaluations [LOOP ...]

Each loop is a program that runs under ``tui-profiler run --format json``. What it does is
made of sleeps, so that other programs on the machine hardly matter, and timed where it sleeps: the
time of a step, waiting for its batches, what lies between steps, and calls of the model. That is
printed beside what the profiler reports; the exit code is 1 where ``data`` differs by more than 1 %
of a step, or a rate or the share of the time between steps by more than 5 %.

Loops: ``plain EVERY BATCHES`` with an evaluation of that many batches every so many steps;
``lightning`` and ``trainer`` (skipped where the library is not installed); ``rollouts`` with many
forwards without gradients before some updates; ``full-batch`` with a forward in eval mode in each
step; ``lbfgs``; ``folds`` of 25 steps; ``slow`` steps of 3 s.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
WIDTH, CLASSES = 16, 10
LOOPS = (
    *("plain 5 2", "plain 20 10", "plain 60 10", "plain 4 1", "lightning", "trainer"),
    *("rollouts", "full-batch", "lbfgs", "folds", "slow"),
)
MARK = "TRUTH "
DATA_TOLERANCE, TOLERANCE = 0.01, 0.05


class Spent:
    """Seconds that a loop spent, by its own timers."""

    def __init__(self) -> None:
        self.data = self.between = 0.0
        self.steps = self.calls = self.items = 0
        self.began = perf_counter()
        self.is_between = False

    def start(self) -> None:
        """Begin anew: what was before is in no figure."""
        self.__init__()  # type: ignore[misc]  # nothing derives from it

    def print(self, seconds: float) -> None:
        """Print what was spent in so many seconds."""
        trained = seconds - self.between
        truth = {
            "data": self.data / trained,
            "items_per_s": self.items / trained,
            "between": self.between / seconds,
            "calls_per_s": self.calls / seconds,
            "step_s": trained / max(self.steps, 1),
        }
        print(MARK + json.dumps(truth), flush=True)


SPENT = Spent()


class Net(nn.Module):
    """A model that takes its time: 20 ms where it is trained, 2 ms where it is evaluated."""

    def __init__(self, train_s: float = 0.02, evaluate_s: float = 0.002) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, CLASSES))
        self.times = train_s, evaluate_s

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Any:
        """Return the scores, (items, classes); with labels, the loss before them."""
        SPENT.calls += 1
        if torch.is_grad_enabled() and not SPENT.is_between:
            SPENT.items += len(x)
        sleep(self.times[0] if torch.is_grad_enabled() else self.times[1])
        scores = self.layers(x)
        return (
            scores if labels is None else {"loss": cross_entropy(scores, labels), "logits": scores}
        )


class Data(Dataset[Any]):
    """Items that take their time."""

    def __init__(self, items: int, seconds: float, *, named: bool = False) -> None:
        self.items, self.seconds, self.named = items, seconds, named

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, item: int) -> Any:
        began = perf_counter()
        sleep(self.seconds)
        if not SPENT.is_between:
            SPENT.data += perf_counter() - began
        x, y = torch.ones(WIDTH), item % CLASSES
        return {"x": x, "labels": y} if self.named else (x, y)


class Between:
    """Times what is between steps."""

    def __enter__(self) -> None:
        SPENT.is_between, self.began = True, perf_counter()

    def __exit__(self, *_: object) -> None:
        SPENT.between += perf_counter() - self.began
        SPENT.is_between = False


def plain(every: str, batches: str) -> None:
    """Evaluate now and then in a loop of its own."""
    net, steps = Net(), 240
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    train = DataLoader(Data(400, 0.002), batch_size=2)
    validation = DataLoader(Data(int(batches), 0.03))
    SPENT.start()
    data = iter(train)
    for step in range(1, steps + 1):
        try:
            x, y = next(data)
        except StopIteration:
            data = iter(train)
            x, y = next(data)
        sgd.zero_grad()
        cross_entropy(net(x), y).backward()
        sgd.step()
        if step % int(every) == 0:
            with Between(), torch.no_grad():
                net.eval()
                for x, _ in validation:
                    net(x)
                net.train()
    SPENT.steps = steps
    SPENT.print(perf_counter() - SPENT.began)


def lightning() -> None:
    """Let Lightning's Trainer evaluate, with its sanity check before the first step."""
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, _: int) -> Tensor:
            SPENT.steps += 1
            return cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.net(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.01)

        def on_train_start(self) -> None:
            SPENT.start()

        def on_validation_start(self) -> None:
            SPENT.is_between, self.began = True, perf_counter()

        def on_validation_end(self) -> None:
            SPENT.between += perf_counter() - self.began
            SPENT.is_between = False

        def on_train_end(self) -> None:
            SPENT.print(perf_counter() - SPENT.began)

    trainer = lightning.Trainer(
        max_steps=240,
        val_check_interval=20,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    train, validation = DataLoader(Data(300, 0.002), batch_size=2), DataLoader(Data(10, 0.03))
    trainer.fit(Module(), train, validation)


def trainer() -> None:
    """Let Hugging Face's Trainer evaluate every 20 steps."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Timed(Trainer):
        def evaluate(self, *args: Any, **kwargs: Any) -> Any:
            with Between():
                return super().evaluate(*args, **kwargs)

    class Times(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            SPENT.start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            SPENT.steps += 1

        def on_train_end(self, *_: Any, **__: Any) -> None:
            SPENT.print(perf_counter() - SPENT.began)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=240,
            per_device_train_batch_size=2,
            per_device_eval_batch_size=1,
            eval_strategy="steps",
            eval_steps=20,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        sets = Data(300, 0.002, named=True), Data(10, 0.03, named=True)
        Timed(
            Net(), arguments, train_dataset=sets[0], eval_dataset=sets[1], callbacks=[Times()]
        ).train()


def rollouts() -> None:
    """Act 100 times without gradients, then update 20 times, as PPO does."""
    net = Net(0.01, 0.003)
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    SPENT.start()
    for _ in range(12):
        with Between(), torch.no_grad():
            for _ in range(100):
                net(torch.ones(1, WIDTH))
                sleep(0.004)  # The environment.
        for _ in range(20):
            sgd.zero_grad()
            net(torch.ones(8, WIDTH)).square().mean().backward()
            sgd.step()
    SPENT.steps = 240
    SPENT.print(perf_counter() - SPENT.began)


def full_batch() -> None:
    """Evaluate in each step, as a graph network that is trained on all of its graph."""
    net = Net(0.02, 0.01)
    adam = torch.optim.Adam(net.parameters(), 0.01)
    x, y = torch.ones(32, WIDTH), torch.zeros(32, dtype=torch.int64)
    SPENT.start()
    for _ in range(240):
        net.train()
        adam.zero_grad()
        cross_entropy(net(x), y).backward()
        adam.step()
        net.eval()
        with Between(), torch.no_grad():
            net(x)
    SPENT.steps = 240
    SPENT.print(perf_counter() - SPENT.began)


def lbfgs() -> None:
    """Step with a closure that runs the model several times, and takes long."""
    net = Net(0.1)
    made = torch.optim.LBFGS(net.parameters(), lr=1e-4, max_iter=12, tolerance_grad=0.0)
    x, y = torch.ones(4, WIDTH), torch.zeros(4, dtype=torch.int64)
    SPENT.start()

    def closure() -> Tensor:
        made.zero_grad()
        loss = cross_entropy(net(x), y)
        loss.backward()
        return loss

    for _ in range(12):
        made.step(closure)
        with Between(), torch.no_grad():
            net.eval()
            net(x)
            net.train()
    SPENT.steps = 12
    SPENT.print(perf_counter() - SPENT.began)


def folds() -> None:
    """Train 12 models of one class, 25 steps each."""
    SPENT.start()
    for _ in range(12):
        net = Net()
        sgd = torch.optim.SGD(net.parameters(), 0.01)
        data = iter(DataLoader(Data(100, 0.002), batch_size=2))
        for _ in range(25):
            x, y = next(data)
            sgd.zero_grad()
            cross_entropy(net(x), y).backward()
            sgd.step()
        with Between():
            del net, sgd, data
            gc.collect()
            sleep(0.3)
    SPENT.between = 0.0 * SPENT.between
    SPENT.steps = 300
    SPENT.print(perf_counter() - SPENT.began - 12 * 0.3)


def slow() -> None:
    """Train with steps of 3 s, most of which is the loader's."""
    net, steps = Net(1.0), 6
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    data = iter(DataLoader(Data(400, 1.0), batch_size=2))
    SPENT.start()
    for _ in range(steps):
        x, y = next(data)
        sgd.zero_grad()
        cross_entropy(net(x), y).backward()
        sgd.step()
    SPENT.steps = steps
    SPENT.print(perf_counter() - SPENT.began)


RUN: dict[str, Callable[..., None]] = {
    "plain": plain,
    "lightning": lightning,
    "trainer": trainer,
    "rollouts": rollouts,
    "full-batch": full_batch,
    "lbfgs": lbfgs,
    "folds": folds,
    "slow": slow,
}
NEEDS = {"trainer": "transformers", "lightning": "lightning"}


def measured(loop: str, seconds: float) -> tuple[dict[str, float], dict[str, Any]]:
    """Return what a loop spent by its own timers, and what the profiler reports of it."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        words = [sys.executable, "-m", "tui_profiler", "run", "--format", "json", "--output"]
        done = subprocess.run(
            [*words, str(output), __file__, "--run", *loop.split()],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
        if not lines or not output.exists():
            raise SystemExit(f"{loop}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return json.loads(lines[-1].removeprefix(MARK)), json.loads(output.read_text())


def compared(loop: str) -> bool:
    """Print one loop's figures beside the profiler's; return whether they agree."""
    truth, report = measured(loop, 300.0)
    step = report["step"]
    if step is None:
        print(f"{loop:12} no step: {report['unavailable'].get('step')}")
        return False
    data = step["parts"]["data"]
    found = {
        "data": 0.0 if data is None else data["share"],
        "items_per_s": step["items_per_s"],
        "between": sum(one["share"] for one in step["between"]),
        "calls_per_s": step["model_calls_per_s"],
    }
    kinds = ", ".join(f"{one['kind']} every {one['every_steps']:.3g}" for one in step["between"])
    is_right = True
    print(f"{loop:12} {step['count']} steps, {step['recorded']} recorded; {kinds or 'nothing'}")
    for name, figure in found.items():
        true = truth[name]
        if figure is None:
            print(f"  {name:12} {true:8.3f}  unknown")
            continue
        limit = DATA_TOLERANCE if name == "data" else TOLERANCE
        scale = true if name.endswith("per_s") else 1.0
        is_near = abs(figure - true) <= limit * scale
        is_right &= is_near
        print(f"  {name:12} {true:8.3f} {figure:8.3f}  {'' if is_near else 'differs'}")
    return is_right


def main() -> int:
    """Compare all loops, or run one."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--run", nargs="+")
    parser.add_argument("loops", nargs="*", default=LOOPS)
    arguments = parser.parse_args()
    if arguments.run:
        RUN[arguments.run[0]](*arguments.run[1:])
        return 0
    are_right = True
    for loop in arguments.loops:
        needed = NEEDS.get(loop)
        if needed is not None and importlib.util.find_spec(needed) is None:
            print(f"{loop:12} skipped: {needed} is not installed")
            continue
        are_right &= compared(loop)
    return 0 if are_right else 1


if __name__ == "__main__":
    sys.exit(main())
