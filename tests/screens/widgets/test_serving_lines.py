"""An inference server in the panel of the machine, at any width, and on its screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.inspector.compact_pane import compact_lines
from screens.views.machine.screen import hardware_lines
from screens.widgets.lines import line_width, text
from screens.widgets.machine_lines import machine_lines
from screens.widgets.rows import Look, finished
from tests.machine_session import measured
from tests.serving_session import REFUSED, seen, serving_figures
from tests.small_model import CONV
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.messages import (
    BucketQuantile,
    Ended,
    ServingFigures,
    ServingSeen,
    ServingTimes,
    Unknown,
)
from tui_profiler.session import EMPTY, Session, apply

HOSTILE = "\x1b[31m[/nope]"


def beside(told: ServingSeen, session: Session | None = None) -> Session:
    return apply(measured() if session is None else session, told)


def changed(release: str = "vllm-0.32", **fields: object) -> ServingSeen:
    figures: ServingFigures = replace(serving_figures(release), **fields)
    return replace(seen(release), figures=figures)


def panel(told: ServingSeen, cells: int = 48) -> list[str]:
    look = Look(beside(told), CONV, 6.0, cells)
    lines = [text(line).rstrip() for line in machine_lines(look)]
    start = next(i for i, line in enumerate(lines) if line.startswith(" serving"))
    return [line.strip() for line in lines[start:]]


def screen(told: ServingSeen, cells: int = 80) -> dict[str, str]:
    """Return the rows of the section by their labels."""
    look = Look(beside(told), CONV, 6.0, cells)
    lines = [text(line).rstrip() for line in finished(hardware_lines(look), look)]
    start = next(i for i, line in enumerate(lines) if line.startswith(" serving ─"))
    rows = [*lines[start + 1 :], ""]
    found = {"title": " ".join(lines[start].replace("─", "").split())}
    for row in rows[: rows.index("")]:
        found[row[1:25].strip()] = row[25:].strip()
    return found


def test_the_panel_has_requests_and_tokens_in_two_rows() -> None:
    assert panel(seen()) == [
        "serving vLLM 8 running, 4 waiting      KV 83 %",
        "464 tokens/s  TTFT p50 ~2.05 s",
    ]
    wide = panel(seen(), 80)
    assert wide[0].endswith("KV cache 83 %")
    assert wide[1] == "464 tokens/s  TTFT p50 ~2.05 s  ITL p50 ~23.8 ms"


def test_the_panel_leaves_out_what_a_server_does_not_export() -> None:
    first, second = panel(seen("tgi-3"), 80)
    assert first == "serving TGI 8 running, 3 waiting"
    assert second.startswith("338 tokens/s  ITL p50 ~")
    unknown = Unknown("not exported")
    assert panel(changed(running=unknown))[0].startswith("serving vLLM – running, 4 waiting")


def test_of_a_quantile_in_the_first_bucket_only_its_bound_is_shown() -> None:
    """As for a fast server: vLLM's first bucket of times between tokens ends at 10 ms."""
    quantile = BucketQuantile(0.005, 0.0, 0.01)
    told = changed(between_tokens=ServingTimes(quantile, quantile, 400, False, 0.0034))
    assert panel(told, 80)[1].endswith("ITL p50 ≤10.0 ms")
    rows = screen(told)
    assert rows["between tokens, p50"] == "≤10.0 ms  the first bucket"
    assert rows["between tokens, mean"] == "3.40 ms  from its sum and count"


@pytest.mark.parametrize("told", [REFUSED, replace(REFUSED, why_none=HOSTILE)])
def test_a_server_that_is_not_read_has_a_reason_and_no_figure(told: ServingSeen) -> None:
    shown = " ".join(panel(told))
    assert shown.startswith("serving –  ")
    assert "\x1b" not in shown
    assert "running" not in shown
    rows = screen(told)
    assert rows["title"] == "serving not read"
    assert rows["metrics"].startswith("–  ")


def test_the_panel_has_the_server_before_the_first_sample_and_after_the_end() -> None:
    look = Look(beside(seen(), EMPTY), CONV, 6.0, 48)
    assert any("vLLM 8 running" in text(line) for line in machine_lines(look))
    assert any("requests running" in text(line) for line in hardware_lines(look))
    ended = Look(apply(beside(seen()), Ended(0, True)), CONV, 6.0, 48)
    roles = {role for line in machine_lines(ended)[1:] for _, role in line}
    assert "ink" not in roles  # Nothing is read any more: figures are old.


def test_the_machine_screen_has_every_figure_and_where_it_is_from() -> None:
    assert screen(seen()) == {
        "title": "serving vLLM, last 10 s",
        "model": "tiny",
        "requests running": "8",
        "requests waiting": "4",
        "prompt throughput": "2.41K tokens/s  from a counter",
        "generation throughput": "464 tokens/s  from a counter",
        "first token, p50": "~2.05 s  bucket 1.00 s to 2.50 s",
        "first token, p95": "~4.73 s  bucket 2.50 s to 5.00 s",
        "first token, mean": "1.99 s  from its sum and count",
        "first token, count": "47",
        "between tokens, p50": "~23.8 ms  bucket 10.0 ms to 25.0 ms",
        "between tokens, p95": "~79.7 ms  bucket 75.0 ms to 100 ms",
        "between tokens, mean": "33.8 ms  from its sum and count",
        "between tokens, count": "4,597",
        "KV cache in use": "83 %",
        "prefix cache hits": "50 %  from a counter",
        "preemptions": "9 since the server started  6 in the last 10 s",
        "address": "http://127.0.0.1:8000/metrics",
    }


def test_the_machine_screen_says_what_is_not_exported_and_what_is_otherwise() -> None:
    found = screen(seen("tgi-3"))
    assert found["first token"] == "–  TGI exports no time to first token"
    assert found["KV cache in use"] == "–  TGI exports no KV cache usage"
    assert found["model"] == "–  not in the server's metrics"
    assert found["generation throughput"].endswith("counted when a request ends")
    assert found["between tokens, count"] == "25  mean per request"
    assert screen(seen("sglang-0.5.8"))["prefix cache hits"] == "45 %  reported by the server"


def compact(told: ServingSeen, section: str | None, rows: int = 5) -> list[str]:
    look = Look(beside(told), CONV, 6.0, 80)
    return [text(line) for line in compact_lines(look, rows, section)]


def test_below_the_tree_requests_have_their_place_and_the_section_both_rows() -> None:
    machine = compact(seen(), None)[-1]
    assert machine.startswith(" machine  cpu ")
    assert "   vLLM 8 running, 4 waiting" in machine
    last = [line.strip() for line in compact(seen(), "machine")[-2:]]
    assert last[0].startswith("serving vLLM 8 running, 4 waiting")
    assert last[1].startswith("464 tokens/s  TTFT p50 ~2.05 s")
    assert compact(REFUSED, "machine")[-1].strip() == "serving –  connection refused"
    assert "vLLM" not in compact(REFUSED, None)[-1]


def test_a_long_reason_leaves_the_panel_as_high_as_it_is() -> None:
    told = replace(REFUSED, why_none="no " * 200)
    rows = compact(told, "machine")
    assert len(rows) == 5
    assert [row.split()[0] for row in rows[1:]] == ["cpu", "memory", "serving", "no"]


@pytest.mark.parametrize("cells", [20, 48, 80, 120])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_line_is_as_wide_as_the_panel_and_holds_safe_text(cells: int, glyphs: object) -> None:
    told = replace(changed(models=(HOSTILE, "m" * 300)), address=f"http://{HOSTILE}/")
    look = Look(beside(told), CONV, 6.0, cells, glyphs)  # type: ignore[arg-type]
    for line in finished((*hardware_lines(look), *machine_lines(look)), look):
        assert line_width(line) == cells
        assert "\x1b" not in text(line)
