"""What benchmarks/files/reports_before_after.py calls added, worded anew, changed or lost."""

import json

import pytest

from benchmarks.files.report_differences import differences


def found(layout: str, before: str, after: str) -> list[tuple[str, str]]:
    return [(one.kind, one.place) for one in differences(layout, before.encode(), after.encode())]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, [("added", "b")]),
        ({"a": 1, "b": 2}, {"a": 1}, [("gone", "b")]),
        ({"a": None}, {"a": 2}, [("now known", "a")]),
        ({"a": 2}, {"a": None}, [("now unknown", "a")]),
        ({"a": 1}, {"a": 1.5}, [("figure", "a")]),
        ({"a": 0}, {"a": False}, [("figure", "a")]),
        ({"why": "gave no cache"}, {"why": "returned no cache"}, [("words", "why")]),
        ({"why": "took 5 ms"}, {"why": "took 6 ms"}, [("figure", "why")]),
        ({"bottleneck": "compute"}, {"bottleneck": "memory"}, [("figure", "bottleneck")]),
        ({"withheld": []}, {"withheld": ["x"]}, [("added", "withheld"), ("added", "withheld[]")]),
        (
            {"layers": [{"path": "a", "macs": 1}, {"path": "b", "macs": 2}]},
            {"layers": [{"path": "b", "macs": 3}, {"path": "a", "macs": 1}]},
            [("figure", "layers[].macs")],
        ),
    ],
)
def test_a_value_of_json_is_compared_at_its_place(
    before: object, after: object, said: list[tuple[str, str]]
) -> None:
    assert found("json --top 5", json.dumps(before), json.dumps(after)) == said


def test_a_column_of_csv_that_is_new_is_told_from_a_cell_that_changed() -> None:
    assert found("csv", "path,macs\na,1\n", "path,macs,type\na,2,Linear\n") == [
        ("figure", "[]macs"),
        ("added", "[]type"),
    ]


def test_lines_are_paired_by_likeness() -> None:
    before = "peak memory 1.87 MiB\ncovers 26 tensors: 15 allocated, 11 in memory that was there\n"
    after = (
        "trainable 12 parameters\npeak memory 1.88 MiB\n"
        "covers 15 of 26 tensors allocate, 11 are views or in-place\n"
    )
    assert found("markdown", before, after) == [
        ("added", "trainable"),
        ("figure", "peak memory"),
        ("words", "covers"),
    ]


def test_wrapped_rows_are_joined_and_compared_at_their_label() -> None:
    before = "  energy           – no counter\n                   ~273 µJ to ~2.40 mJ on paper\n"
    wider = "  energy           – no counter ~273 µJ to\n                   ~2.40 mJ on paper\n"
    after = "  energy           – no counter\n                   ~270 µJ to ~2.4 mJ on paper\n"
    assert found("table", before, wider) == []
    assert found("text --top 5", before, after) == [("figure", "energy – no")]


def test_rows_of_a_finding_are_named_by_its_kind() -> None:
    rows = "| finding | compile \\[compile\\] |\n| predicted | {} % of time |\n\n| p50 | 3 ms |\n"
    assert found("markdown", rows.format(13), rows.format(12)) == [
        ("figure", "[compile] predicted")
    ]
    text = "findings -- by gain\n  predicted: ~ estimated\n     ~{0} % of time  compile [compile]\n"
    text += (
        "      trial: try\n      predicted: ~{0} % of\n      time\n     4 %  fold [fold-conv-bn]\n"
    )
    assert found("table --findings", text.format(13), text.format(12)) == [
        ("figure", "[compile] ~"),
        ("figure", "[compile] predicted: ~"),
    ]


def test_equal_reports_have_no_differences() -> None:
    assert found("perfetto", "any bytes", "any bytes") == []
