"""Trainings by libraries, each after the first example of its documentation."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from tests.probe.measure.step.programs import Program, Watch, state_of
from tests.probe.measure.step.programs.graph import WIDTH, Mlp

TOKENS = 40


def hugging_face(steps: int, watch: Watch) -> Iterable[object]:
    """``transformers.Trainer``: accumulation, clipping and a schedule are its own."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(
        vocab_size=TOKENS, n_positions=16, n_embd=16, n_layer=2, n_head=2, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config)
    rows = torch.randint(TOKENS, (16, 8))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        )
        watch(model)
        trainer.train()
    losses = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    return [*losses, *state_of(model)]


def accelerate(steps: int, watch: Watch) -> Iterable[object]:
    """The loop that accelerate's quick tour makes of a plain one."""
    library = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerator = library.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(16, WIDTH), torch.randn(16, WIDTH))
    loader = DataLoader(data, 2, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    watch(model)
    losses: list[object] = []
    while len(losses) < steps:
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
    return [*losses, *state_of(model)]


def lightning(steps: int, watch: Watch) -> Iterable[object]:
    """``lightning.Trainer`` with a ``LightningModule``."""
    library: Any = pytest.importorskip("lightning", reason="lightning is not installed")

    class Module(library.LightningModule):  # type: ignore[misc]  # known when it runs
        def __init__(self) -> None:
            super().__init__()
            self.body = Mlp()
            self.losses: list[Tensor] = []

        def training_step(self, given: list[Tensor], number: int) -> Tensor:
            x, y = given
            loss = mse_loss(self.body(x), y)
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = Module()
    data = TensorDataset(torch.randn(16, WIDTH), torch.randn(16, WIDTH))
    body: nn.Module = module.body
    watch(body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = library.Trainer(
            max_steps=steps,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            gradient_clip_val=1.0,
        )
        trainer.fit(module, DataLoader(data, 2, shuffle=True))
    return [*module.losses, *state_of(body)]


PROGRAMS: dict[str, Program] = {
    "transformers.Trainer": hugging_face,
    "accelerate": accelerate,
    "lightning": lightning,
}
