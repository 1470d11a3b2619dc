"""What a real forward allocates, against sizes by hand."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn

from benchmarks.costs.workspace import measured_workspace
from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.messages import Unknown
from tui_profiler.probe.trace.failure import ForwardError
from tui_profiler.probe.trace.measured_peak import measured_peak

X = torch.zeros(1024)  # 4 KiB


def test_a_chain_holds_the_input_and_two_links() -> None:
    found = measured_peak(Function(lambda x: x.exp().exp().exp()), inputs_of(X))

    assert (found.device, found.inputs_bytes, found.allocated_bytes) == ("cpu", 4096, 2 * 4096)
    assert found.peak_bytes == 3 * 4096
    assert measured_workspace(Function(lambda x: x.exp().exp().exp()), inputs_of(X)) == 0


def test_what_an_operator_frees_before_it_returns_is_workspace() -> None:
    """The products of linear layers and scores inside the fused layer are no tensors of ours."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()

    given = inputs_of(torch.zeros(4, 32, 64))
    workspace = measured_workspace(layer, given)

    output = 4 * 32 * 64 * 4
    assert measured_peak(layer, given).allocated_bytes - workspace == output
    assert workspace > 3 * output  # query, key and value, before they are divided


def test_the_same_input_twice_is_held_once() -> None:
    assert measured_peak(Function(torch.add), inputs_of(X, X)).inputs_bytes == 4096


def test_a_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in model.state_dict().items()}

    measured_peak(model, inputs_of(torch.ones(8, 4)))

    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_the_model_raises_is_said() -> None:
    with pytest.raises(ForwardError, match="RuntimeError"):
        measured_peak(nn.Linear(3, 4), inputs_of(torch.zeros(2, 5)))


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64)),
        nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True),
        nn.Sequential(nn.LayerNorm(64), nn.Softmax(-1), nn.Sigmoid()),
    ],
    ids=["linear", "encoder", "element-wise"],
)
def test_without_workspace_the_prediction_is_what_is_allocated(module: nn.Module) -> None:
    tokens = torch.zeros(4, 32, 64)

    predicted = traced(module, tokens).done.peak_memory.activations
    found = measured_peak(module, inputs_of(tokens)).peak_bytes

    assert found - measured_workspace(module, inputs_of(tokens)) == predicted


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="the rules for oneDNN's formats were tried on these only",
)
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv2d(3, 64, 7, 2, 3), (1, 3, 112, 112)),
        (nn.Conv2d(64, 64, 3, 1, 1), (1, 64, 56, 56)),
        (nn.Conv2d(64, 32, 3, 1, 1), (4, 64, 28, 28)),
        (nn.Conv2d(96, 96, 3, 1, 1, groups=96), (1, 96, 56, 56)),
        (nn.Conv2d(12, 20, 3, 1, 1), (1, 12, 28, 28)),
        (nn.Conv3d(8, 8, 3, 1, 1), (1, 8, 6, 6, 6)),
        (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (2, 50, 64)),
    ],
    ids=["image", "blocked", "batch", "depthwise", "columns", "3-D", "encoder layer"],
)
def test_scratch_memory_is_foretold(module: nn.Module, shape: tuple[int, ...]) -> None:
    given = torch.zeros(shape)

    peak = traced(module, given).done.peak_memory
    found = measured_peak(module, inputs_of(given))

    assert not isinstance(peak.activations, Unknown)
    assert not isinstance(peak.workspace, Unknown)
    assert peak.workspace == measured_workspace(module, inputs_of(given))
    assert peak.activations + peak.workspace == found.peak_bytes


def test_attention_needs_a_block_of_scores_for_each_thread() -> None:
    """512 queries are taken 64 at a time, with 512 keys: scores, maximum, sum and output."""
    query = torch.zeros(1, 2, 512, 64)
    attend = Function(torch.nn.functional.scaled_dot_product_attention)

    found = traced(attend, query, query, query).done.peak_memory.workspace

    assert found == torch.get_num_threads() * 64 * (512 + 2 + 64) * 4


class _Masked(nn.Module):
    def __init__(self, *, is_nested: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 8, 128, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=is_nested)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


PADDING = torch.arange(50).expand(4, 50) >= torch.tensor([[50], [40], [40], [40]])


@pytest.mark.parametrize(
    ("module", "given", "within"),
    [
        (_Masked(is_nested=False), (torch.zeros(4, 50, 64), PADDING), 0.01),
        (_Masked(is_nested=True), (torch.zeros(4, 50, 64), PADDING), 0.05),
        (
            torchvision.ops.DeformConv2d(8, 16, 3, padding=1, groups=2),
            (torch.zeros(37, 8, 20, 20), torch.zeros(37, 18, 20, 20)),
            0.01,
        ),
    ],
    ids=["mask", "nested", "deformable"],
)
def test_scratch_memory_of_masked_attention_and_deformable_convolutions_is_foretold(
    module: nn.Module, given: tuple[torch.Tensor, ...], within: float
) -> None:
    peak = traced(module, *given).done.peak_memory
    found = measured_peak(module, inputs_of(*given))

    assert not isinstance(peak.activations, Unknown)
    assert not isinstance(peak.workspace, Unknown)
    assert peak.activations + peak.workspace == pytest.approx(found.peak_bytes, rel=within)
