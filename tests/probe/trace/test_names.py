"""Names that tracers mangled, resolved against the modules that there really are."""

from __future__ import annotations

import pytest
from torch import nn

from tui_profiler.probe.trace.graph_run import module_at, resolved


def model() -> nn.Module:
    layer = nn.ModuleDict({"self_attn": nn.Linear(1, 1), "norm_1": nn.LayerNorm(1)})
    cv3 = nn.ModuleList([nn.Sequential(nn.Sequential(nn.ModuleDict({"conv": nn.Linear(1, 1)})))])
    made = nn.Module()
    made.layers = nn.ModuleList([layer, nn.Identity()])
    made.model = nn.ModuleList([nn.Identity(), nn.ModuleDict({"cv3": cv3})])
    made.a = nn.ModuleDict({"b_c": nn.Identity()})
    made.a_b = nn.ModuleDict({"c": nn.Identity()})
    made._modules["weird name\x1b"] = nn.Identity()
    return made


RESOLVED = [
    ("layers.0.self_attn", "layers.0.self_attn"),
    ("L__self___layers_0_self_attn", "layers.0.self_attn"),
    ("L['self'].layers.0.norm_1", "layers.0.norm_1"),
    ("_export_root.layers.1", "layers.1"),
    ("g__model___layers_0_norm_1", "layers.0.norm_1"),
    ("getattr_L__self___layers___0___self_attn", "layers.0.self_attn"),
    ("getattr_getattr_L__m___model_1_cv3_0___0_____0___conv", "model.1.cv3.0.0.0.conv"),
    ("L__self____modules__layers___modules__1", "layers.1"),
    ("self", ""),
    ("L['self']", ""),
    ("", ""),
]


@pytest.mark.parametrize(("name", "path"), RESOLVED)
def test_a_name_is_resolved_to_the_path_that_there_is(name: str, path: str) -> None:
    assert resolved(model(), name) == path


@pytest.mark.parametrize("name", ["L__self___layers_7", "nowhere", "layers.0.attn", "x" * 5000])
def test_what_fits_nothing_is_not_resolved(name: str) -> None:
    assert resolved(model(), name) is None


def test_what_fits_two_paths_is_not_resolved() -> None:
    assert resolved(model(), "L__self___a_b_c") is None
    assert resolved(model(), "a.b_c") == "a.b_c"


def test_a_hostile_tree_costs_no_time() -> None:
    top = nn.Module()
    level = [top]
    for _ in range(40):
        inner = nn.Module()
        for module in level:
            module.a = module.a_a = inner
        level = [inner]

    assert resolved(top, "L__self___" + "_".join("a" * 60)) is None


def test_a_module_is_found_by_its_path() -> None:
    made = model()

    assert module_at(made, "") is made
    assert module_at(made, "weird name\x1b") is made._modules["weird name\x1b"]
    assert module_at(made, "layers.0.nothing.more") is None
