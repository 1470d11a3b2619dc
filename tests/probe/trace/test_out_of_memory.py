"""What is under way where memory has run out, by real errors of torch's allocator."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tui_profiler.messages import Unknown
from tui_profiler.probe.trace.out_of_memory import (
    alive,
    memory_error,
    raising_frames,
    under_way,
    wanted_bytes,
)

TOO_MANY = 1 << 58
"""Bytes that no machine has."""


def allocate() -> Tensor:
    return torch.empty(TOO_MANY, dtype=torch.uint8)


class Greedy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]  # one
        return allocate()


class Block(nn.Module):
    def __init__(self, at: str = "") -> None:
        super().__init__()
        self.linear, self.at = nn.Linear(8, 8, bias=False), at

    def forward(self, x: Tensor) -> Tensor:
        if self.at == "forward":
            allocate()
        found: Tensor = self.linear(x)
        return Greedy.apply(found) if self.at == "backward" else found  # type: ignore[no-any-return, no-untyped-call]  # torch


class Adam(torch.optim.Adam):
    def __init__(self, *given: Any, at: str) -> None:
        super().__init__(*given)
        self.at = at

    def step(self, closure: Any = None) -> Any:
        if self.at == "optimizer":
            allocate()
        return super().step(closure)


class Rows(Dataset[Tensor]):
    def __init__(self, at: str) -> None:
        self.at = at

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> Tensor:
        return allocate() if self.at == "data" else torch.ones(8)


class Program:
    """A training that asks for too much in one part of a step."""

    def __init__(self, at: str) -> None:
        self.at, self.model = at, nn.Sequential(Block(), Block(at), Block())
        self.optimizer = Adam(self.model.parameters(), at=at)

    def step(self) -> None:
        for rows in DataLoader(Rows(self.at), batch_size=2):
            loss = self.model(rows).square().mean()
            if self.at == "other":
                allocate()
            loss.backward()
            self.optimizer.step()

    def error(self) -> BaseException:
        with pytest.raises(RuntimeError) as caught:
            self.step()
        return caught.value


@pytest.mark.parametrize("part", ["data", "forward", "other", "backward", "optimizer"])
def test_the_part_of_the_step_and_the_module_are_told(part: str) -> None:
    program = Program(part)
    error = memory_error(program.error())
    assert error is not None
    found = under_way(raising_frames(error.__traceback__))
    assert found.part == part
    in_forward = (program.model, program.model[1])
    assert found.modules[:1] + found.modules[-1:] == (in_forward if part == "forward" else ())
    assert found.optimizers == ((program.optimizer,) if part == "optimizer" else ())
    assert found.line.startswith(__file__)
    assert wanted_bytes(error) == TOO_MANY


def test_what_is_run_again_in_a_backward_is_in_the_backward() -> None:
    block = Block()

    def run(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]  # torch

    loss = run(torch.ones(2, 8)).sum()
    block.at = "forward"
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    found = under_way(raising_frames(caught.value.__traceback__))
    assert (found.part, found.modules[-1]) == ("backward", block)


def test_an_optimizer_that_a_variable_names_is_found_where_all_is_over() -> None:
    program = Program("forward")
    frames = raising_frames(program.error().__traceback__)
    assert under_way(frames).optimizers == ()
    assert set(under_way(frames, is_over=True).optimizers) == {program.optimizer}


def test_the_error_of_an_allocator_is_found_behind_others() -> None:
    def fail() -> None:
        try:
            allocate()
        except RuntimeError as error:
            raise ValueError("a step failed") from error

    with pytest.raises(ValueError, match="a step") as caught:
        fail()
    found = memory_error(caught.value)
    assert found is caught.value.__cause__
    assert memory_error(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
    assert memory_error(MemoryError()) is not None
    on_gpu = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a")
    assert memory_error(on_gpu) is on_gpu
    assert wanted_bytes(on_gpu) == 2.5 * 2**30


def test_what_is_alive_is_counted_once() -> None:
    model = nn.Sequential(nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.Linear(32, 64))
    model[2].weight = nn.Parameter(model[0].weight.detach().T)  # Of one storage with the first.
    optimizer = torch.optim.Adam(model.parameters())
    assert alive(model, []).gradients == 0.0
    assert isinstance(alive(model, []).optimizer_state, Unknown)
    assert alive(model, [optimizer]).optimizer_state == 0.0
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    found = alive(model, [optimizer, optimizer])
    weights = 64 * 32 + 32 + 32 + 64
    assert found.parameters == 4 * weights
    assert found.buffers == 2 * 32 * 4 + 8, "mean, variance and an int64"
    assert found.gradients == 4 * (weights + 64 * 32), "each weight has its own gradient"
    steps = 5 * 4
    assert found.optimizer_state == 2 * found.gradients + steps
    model[0].weight.grad = torch.zeros(32, 64).to_sparse()
    assert isinstance(alive(model, [optimizer]).gradients, Unknown)
    told = alive(model, [optimizer], why_no_gradients="another thread")
    assert told.gradients == Unknown("another thread")
