"""Parameters of a file as a tree: figures, tied weights, hostile names."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from tests.cost import cpu_seconds
from tui_profiler.archive import Found, TensorEntry, structure_of
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Cost, Node, Nodes, TraceDone, TraceStarted, Unknown
from tui_profiler.probe.load.files.inspection import file_facts
from tui_profiler.probe.worker.parameters_only import tree_messages
from tui_profiler.session import EMPTY, Session, apply


def session(found: Found) -> Session:
    state = EMPTY
    for message in tree_messages(found, "w.pt"):
        encode(message)  # fits into a frame
        state = apply(state, message)
    return state


def by_path(found: Found) -> dict[str, tuple[Node, Cost]]:
    tree = session(found).tree
    assert tree is not None
    return {n.path: (n, c) for n, c in zip(tree.nodes, tree.costs, strict=True)}


def entry(name: str, storage: str = "", axis: int = 4) -> TensorEntry:
    return TensorEntry(
        name, (axis,), "float32", 4 * axis, storage or name, 4 * axis, "f", 0, (1,), True
    )


def found(*entries: TensorEntry) -> Found:
    return Found("safetensors", "/f", "parameters", entries, files=("/f",))


def test_every_part_holds_what_is_below_it_and_buffers_are_no_parameters(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)), nn.Linear(5, 2))
    torch.save(model.state_dict(), tmp_path / "w.pt")
    parts = by_path(structure_of(tmp_path / "w.pt"))
    for path, module in model.named_modules():
        own = sum(p.numel() for p in module.parameters())
        assert (parts[path][1].parameters, parts[path][1].parameter_bytes) == (own, 4 * own)
    assert [w.name for w in parts["0.1"][0].weights if w.is_buffer] == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]


def test_tied_weights_count_once_in_every_part() -> None:
    parts = by_path(found(entry("a.x", "s"), entry("a.y", "s"), entry("b.z", "s"), entry("b.w")))
    assert [parts[path][1].parameters for path in ("", "a", "b")] == [8, 4, 8]
    assert parts["b"][0].weights[0].shared_with == "a.x"


def test_what_needs_a_forward_is_unknown_with_its_reason(tmp_path: Path) -> None:
    save_file({"layer.weight": torch.ones(3)}, tmp_path / "w.safetensors")
    tree = session(structure_of(tmp_path / "w.safetensors")).tree
    assert tree is not None
    assert tree.done is not None
    assert not tree.has_forward
    assert isinstance(tree.done.peak_memory.activations, Unknown)


def test_hostile_names_make_a_tree_soon() -> None:
    names = ["", ".", "a..b", "x." * 200_000 + "end", "\ud800.w", "[/nope].w", "a", "a.b"]
    plain = [entry(f"m{index}.weight") for index in range(40_000)]
    names += [one.name for one in plain]
    mixed = [entry(name) for name in names]
    few_seconds = cpu_seconds(lambda: session(found(*plain[:5_000])), rounds=3)
    # Of eight times as many names; 64 times, were it quadratic.
    assert cpu_seconds(lambda: session(found(*mixed))) < 40 * few_seconds
    tree = session(found(*mixed)).tree
    assert tree is not None
    assert tree.costs[0].parameters == 4 * len(names)
    assert max(tree.depths) < 500


def test_a_config_beside_the_weights_says_how_to_run_them(tmp_path: Path) -> None:
    save_file({"w": torch.ones(3)}, tmp_path / "model.safetensors")
    alone = file_facts(structure_of(tmp_path / "model.safetensors"), "dir/model.safetensors")
    assert alone.hint == "tui-profiler NAME --weights dir/model.safetensors"
    (tmp_path / "config.json").write_text("{}")
    beside = file_facts(structure_of(tmp_path / "model.safetensors"), "dir/model.safetensors")
    assert beside.hint == "tui-profiler hf:dir"


def test_the_messages_are_one_whole_tree() -> None:
    kinds = [type(message) for message in tree_messages(found(entry("a.w"), entry("b.w")), "w.pt")]
    assert kinds == [TraceStarted, Nodes, TraceDone]
