"""A fake tensor made sooner is the one that torch makes."""

from __future__ import annotations

import pytest
import torch

from tui_profiler.probe.torch_compat.internals import (
    FakeTensor,
    FakeTensorMode,
    fake_made,
    fake_on_cpu,
)

SHAPED = torch.empty(2, 3, device="meta")


@pytest.mark.parametrize("device", ["cpu", "xla:1"])
def test_it_has_the_attributes_and_keys_of_torchs_own(device: str) -> None:
    where = torch.device(device)
    for _ in range(3):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        made, own = fake_made(mode, SHAPED, where), FakeTensor(mode, SHAPED, where)
        assert type(made) is type(own)
        assert vars(made) == vars(own)
        assert made.device == own.device == where
        assert torch._C._dispatch_keys(made) == torch._C._dispatch_keys(own)
        assert made.untyped_storage()._cdata == SHAPED.untyped_storage()._cdata


def test_what_is_noted_of_one_is_not_noted_of_another() -> None:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    one, other = (fake_made(mode, SHAPED, torch.device("cpu")) for _ in range(2))
    one.constant = torch.zeros(2, 3)
    assert other.constant is None
    assert fake_made(mode, SHAPED, torch.device("cpu")).constant is None


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_parameter_on_meta_stays_one(requires_grad: bool) -> None:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    weight = torch.nn.Parameter(SHAPED, requires_grad=requires_grad)
    made = fake_on_cpu(mode, weight)
    own = torch.nn.Parameter(
        FakeTensor(mode, weight.detach(), torch.device("cpu")), requires_grad=requires_grad
    )
    assert isinstance(made, torch.nn.Parameter)
    assert made.requires_grad == requires_grad
    assert made.is_leaf
    assert vars(made) == vars(own)
    assert made.untyped_storage()._cdata == weight.untyped_storage()._cdata
    assert not isinstance(fake_on_cpu(mode, SHAPED), torch.nn.Parameter)


def test_its_memory_is_not_read() -> None:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode._allow_unsafe_data_ptr_access = False
    for _ in range(2):
        made = fake_made(mode, SHAPED, torch.device("cpu"))
        with pytest.raises(RuntimeError, match="data"):
            made.data_ptr()
