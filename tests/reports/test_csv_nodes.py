"""Nodes as CSV, read back by Python's own reader."""

from __future__ import annotations

import csv
import io
import json

import pytest
from msgspec.structs import replace

from tests.queries.sessions import RESNET_SECONDS, cost_of, node_of, resnet, traced
from tests.small_model import with_cpu_times
from tui_profiler.messages import Caller, Node, Tensor
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.reports.csv import NODE_COLUMNS, as_text, csv_nodes
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.full import full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session, apply


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_line_holds_plain_numbers() -> None:
    session = resnet()
    assert session.tree is not None
    lines = read(csv_nodes(session, range(len(session.tree))))
    assert len(lines) == len(session.tree)
    conv1 = next(line for line in lines if line["path"] == "conv1")
    assert conv1 == {
        "model": "", "path": "conv1", "name": "conv1", "type": "Conv2d", "kind": "module",
        "depth": "1", "nodes": "1", "parameters": "9408", "macs": "118000000", "flops": "236000000",
        "bytes": str(4 * 9408), "seconds": "0.00093", "share": f"{0.00093 / 0.0365:.6g}",
        "bound": "compute", "input_shape": "", "output_shape": "",
        "trainable_parameters": "9408", "frozen_parameters": "0", "cpu_seconds": "",
        "backward_macs": "", "backward_flops": "", "backward_bytes": "", "gradient_bytes": "",
        "saved_bytes": "", "backward_seconds": "", "recompute_seconds": "", "backward_bound": "",
        "base": "forward", "base_share": f"{0.00093 / 0.0365:.6g}",
    }  # fmt: skip
    seconds = {line["path"]: float(line["seconds"]) for line in lines if line["kind"] == "module"}
    assert seconds == pytest.approx(RESNET_SECONDS)


def test_cpu_time_is_beside_the_seconds() -> None:
    session = resnet()
    assert session.tick is not None
    assert session.tree is not None
    ticked = apply(session, with_cpu_times(session.tick, {0: (0.02, 0.01), 1: (0.0004, 0.0004)}))
    lines = read(csv_nodes(ticked, range(len(session.tree))))
    assert [line["cpu_seconds"] for line in lines[:3]] == ["0.02", "0.0004", ""]


def test_shapes_are_of_the_first_tensors() -> None:
    nodes: list[Node] = []
    image, flag = Tensor((1, 3, 8, 8), "float32", 768), Tensor((), "bool", 1)
    nodes += [replace(node_of(-1, "m", "M", nodes), inputs=(image, flag), outputs=(flag,))]
    [line] = read(csv_nodes(traced(nodes, [cost_of(0, 5)]), [0]))
    assert (line["input_shape"], line["output_shape"]) == ("1x3x8x8", "")
    [layer] = json.loads(json_report(traced(nodes, [cost_of(0, 5)])))["layers"]
    assert (layer["input_shape"], layer["output_shape"]) == ([1, 3, 8, 8], [])


def test_its_figures_are_those_of_the_json_report() -> None:
    session = resnet()
    assert session.tree is not None
    lines = {line["path"]: line for line in read(csv_nodes(session, range(len(session.tree))))}
    for layer in json.loads(json_report(session))["layers"]:
        line = lines[layer["path"]]
        assert int(line["parameters"]) == layer["parameters"]
        assert int(line["macs"]) == layer["macs"]
        assert int(line["flops"]) == layer["flops"]
        assert int(line["bytes"]) == layer["memory"]


def test_what_is_not_known_is_an_empty_cell() -> None:
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    nodes += [node_of(0, "odd", "Odd", nodes)]
    session = traced(nodes, [cost_of(0, 5), replace(cost_of(3, 0), ops=1, uncosted=1)])
    odd = read(csv_nodes(session, [1]))[0]
    assert [odd[name] for name in ("parameters", "macs", "flops", "seconds", "share")] == [
        *("3", "", "", "", ""),
    ]
    assert csv_nodes(EMPTY, ()) == ",".join(NODE_COLUMNS) + "\n"


def test_rows_of_equal_blocks_are_sums_and_say_of_how_many() -> None:
    nodes: list[Node] = []
    for parent, name in ((-1, "m"), (0, "0"), (0, "1"), (0, "2")):
        nodes.append(node_of(parent, name, "Linear", nodes))
    blocks = [replace(cost_of(5, macs), trainable=macs // 2) for macs in (1, 2, 6)]
    session = traced(nodes, [cost_of(0, 9), *blocks])
    assert session.tree is not None
    view = replace(focuses.initial(session.tree), grouped=True)
    laid = rows.outline(session, view)
    lines = read(csv_nodes(session, laid.rows, laid.steps))
    assert [(line["nodes"], line["parameters"], line["macs"]) for line in lines] == [
        ("1", "0", "9"),
        ("3", "15", "9"),
    ]
    assert (lines[1]["trainable_parameters"], lines[1]["frozen_parameters"]) == ("4", "11")
    blocks[1] = replace(blocks[1], trainable=None)
    session = traced(nodes, [cost_of(0, 9), *blocks])
    lines = read(csv_nodes(session, laid.rows, laid.steps))
    assert (lines[1]["trainable_parameters"], lines[1]["frozen_parameters"]) == ("", "")


def test_frozen_parameters_are_apart_in_every_report() -> None:
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    session = traced(nodes, [replace(cost_of(12_345, 5), trainable=12_000)])
    [line] = read(csv_nodes(session, [0]))
    assert (line["trainable_parameters"], line["frozen_parameters"]) == ("12000", "345")
    assert list(line)[-14:-11] == ["output_shape", "trainable_parameters", "frozen_parameters"]
    report = json.loads(json_report(session))
    for prefix, found in (("total_", report), ("", report["layers"][0])):
        assert found[f"{prefix}parameters"] == 12_345
        assert found[f"{prefix}trainable_parameters"] == 12_000
        assert found[f"{prefix}frozen_parameters"] == 345
    said = "  trainable        12,000, 345 frozen"
    assert said in full_text(session, columns=100).splitlines()
    assert said in table(session, columns=100)


def test_json_says_where_a_module_was_called() -> None:
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    nodes += [replace(node_of(0, "a", "A", nodes), callers=(Caller("net.py", 7, "forward"),))]
    between = (Caller("/site-packages/nets/a.py", 9, "run", "nets"),)
    nodes += [replace(node_of(0, "b", "B", nodes), callers=between)]
    report = json.loads(json_report(traced(nodes, [cost_of(0, 5)] * 3)))
    own = {"file": "net.py", "line": 7, "function": "forward", "library": None}
    library = {"file": "/site-packages/nets/a.py", "line": 9, "function": "run", "library": "nets"}
    assert [layer["called_from"] for layer in report["layers"]] == [None, own, library]
    assert "no line of Python" in report["unavailable"]["layers[].called_from"]


def test_recordings_of_earlier_versions_do_not_tell_what_is_frozen() -> None:
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    session = traced(nodes, [replace(cost_of(12_345, 5), trainable=None)])
    [line] = read(csv_nodes(session, [0]))
    assert (line["trainable_parameters"], line["frozen_parameters"]) == ("", "")
    report = json.loads(json_report(session))
    assert report["total_frozen_parameters"] is None
    assert "requires_grad" in report["unavailable"]["total_frozen_parameters"]
    assert "  trainable        – (neither files" in full_text(session, columns=100)


HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1+1",
    'a",=1,"b',
    "x\n=1",
    "\x1b]52;c;eA==\x07",
    "\u202eevil",
    "a" * 10_000,
]


def hostile(name: str) -> Session:
    nodes: list[Node] = []
    nodes += [node_of(-1, "m", "M", nodes)]
    nodes += [replace(node_of(0, "x", name, nodes), name=name, path=name)]
    return traced(nodes, [cost_of(0, 0)] * 2)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_cell_is_a_formula_and_no_name_is_cut(name: str) -> None:
    text = csv_nodes(hostile(name), [0, 1])
    assert len(text.splitlines()) == 3
    assert all(c.isprintable() for c in text.replace("\n", ""))
    line = read(text)[1]
    for column in ("path", "name", "type"):
        assert line[column].lstrip()[:1] not in tuple("=+-@＝＋－＠\t\r")
        assert len(line[column]) >= len(name)
    assert None not in line


def test_plain_names_are_left_as_they_are() -> None:
    assert as_text("layer1.0.conv-1") == "layer1.0.conv-1"
    assert as_text("-1") == "'-1"
