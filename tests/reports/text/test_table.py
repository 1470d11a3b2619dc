"""The text report."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from tests.small_model import COSTS, DONE, FACTS, MEASURED, NODES, TICK, TRACED, folded, tick
from tui_profiler.formatting.text import width
from tui_profiler.messages import Failed, Nodes, Overhead, StageDone, TraceStarted, Unknown
from tui_profiler.reports.text.full import full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY

ON_PAPER = """\
net.py:build  Net  from net.py
  weights          random
  device           cpu
  input            x 1×3×8×8 f32 (first convolution)

on paper -- one forward; a multiply-add is 1 MAC, 2 FLOP
  parameters       2,678  10.5 KiB
  trainable        2,678, 0 frozen
  work             9.47 KMAC  at least 19.0 KFLOP
  bytes moved      13.4 KiB: inputs 1.83 KiB, weights 10.5 KiB, outputs 1.12 KiB
  intensity        at least 1.38 FLOP/B
  peak memory      13.0 KiB: parameters 10.5 KiB, buffers 0 B, activations 2.00 KiB, workspace 512 B
                   predicted from tensor lifetimes
                   4 of 4 tensors allocate, 0 are views or in-place, 0 skipped
  operators        4, 1 without a formula
  traced by        dispatch:real, 375 ms
                   dispatch:fake failed: a value was asked for

operators by type -- CNN-heavy by its FLOPs
type                   count     FLOP     %
Conv2d                     1    13.8K  72.9
Linear                     1    5.13K  27.1
activation                 1       10   0.1
other                      1        –     –

layers by class -- their own operators and parameters
class                  count    param     FLOP     %
Conv2d                     1      108    13.8K  72.9
Linear                     1    2.57K    5.13K  27.1
ReLU                       1        ·       10   0.1
Net                        1        ·        –     –

operators by intensity -- FLOP/byte, on paper
band                   count     FLOP     %
below 10                   3    19.0K 100.0
10 to 50                   0        ·   0.0
50 to 100                  0        ·   0.0
above 100                  0        ·   0.0

bottlenecks -- on paper, by FLOP/B
class                  count    %FLOP   %time
compute                    0      0.0       –
memory                     3    100.0       –
overhead                   –        –       –
unexplained                –        –       –

layers -- including submodules
                                                       params    MAC   FLOP     bytes  FLOP/B  bound
net  Net                                                2.68K  9.47K ≥19.0K  13.4 KiB   ≥1.38      ·
  conv  Conv2d                                            108  6.91K  13.8K  2.17 KiB    6.22      M
  fc  Linear                                            2.57K  2.56K  5.13K  11.1 KiB    0.45      M
  act  ReLU                                                 ·      ·     10      80 B    0.12      M

without a formula -- FLOP above are a lower bound
mine::strange"""


def test_the_report_on_paper() -> None:
    assert "\n".join(table(folded(TRACED), columns=100)) == ON_PAPER


def section(title: str, columns: int = 100, top: int | None = None) -> list[str]:
    lines = list(table(folded(MEASURED), columns=columns, top=top))
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{title} --"))
    rest = lines[start:]
    return rest[: rest.index("")] if "" in rest else rest


def test_what_was_measured_is_a_section_of_its_own() -> None:
    assert section("measured") == [
        "measured -- on this machine",
        "  latency          p50 1.00 ms  p95 2.00 ms",
        "  throughput       800 items/s",
        "  forwards         100, after 3 warm-up forwards",
        "  thread           on a core 100 % of a forward, waiting for one 0.0 %",
        "                   0 minor, 0 major page faults; 0 voluntary, 0 involuntary context"
        " switches,",
        "                   per forward",
        "  overhead         0.8 % (0.2 % to 1.4 %)",
        "  threads          – no second of forwards was sampled lately",
        "  peak RSS         – this recording is older than the figure",
        "  roofline         float32 10.0 GFLOP/s, memory copy 1.00 GB/s, one operator 10.0 µs",
        "  cache misses     – this recording is older than the figure",
        "  gpu              – no NVIDIA driver on this machine",
        "  energy           – this recording is older than the figure",
        "                   ~220 nJ to ~4.5 µJ on paper, by Horowitz, ISSCC 2014, 45 nm at 0.9 V",
    ]


@pytest.mark.parametrize(
    ("overhead", "said"),
    [
        (Overhead(-0.004, -0.009, 0.001, 30), "at most 0.1 %"),
        (Overhead(-0.02, -0.03, -0.01, 30), "too small to measure"),
        (Overhead(0.004, -0.002, 0.01, 30), "0.4 % (0.0 % to 1.0 %)"),
        (Overhead(-0.001, -0.001, -0.001, 0), "~0.0 % estimated"),
    ],
)
def test_profiling_never_costs_less_than_nothing(overhead: Overhead, said: str) -> None:
    session = folded((*MEASURED, overhead))
    for lines in (table(session, columns=100), full_text(session, columns=100).splitlines()):
        line = next(line for line in lines if "overhead" in line)
        assert line.endswith(said)
        assert "−" not in line


def test_a_run_that_was_all_warm_up_says_so() -> None:
    cold = (*TRACED, StageDone("first run", 3.0, 1.0), tick({}, forwards=0))
    lines = table(folded(cold), columns=100)
    assert "– no forward after the warm-up was finished; measure for longer" in lines


def test_measured_layers_have_their_time_and_share() -> None:
    header, root, conv, *_ = section("layers")[1:]
    assert header.split() == ["params", "MAC", "FLOP", "bytes", "FLOP/B", "µs", "%", "bound"]
    assert root.split()[-4:] == ["≥1.38", "1000", "100", "U"]
    assert conv.split()[-4:] == ["6.22", "500.0", "50", "U"]


def test_a_time_that_varies_much_is_marked_and_not_ranked() -> None:
    assert not any("not ranked" in line for line in table(folded(MEASURED), columns=100))
    # conv takes the most by itself, but its 95th percentile is 40 times its median.
    wide = array("f", TICK.p95)
    wide[1] = 40 * array("f", TICK.p50)[1]
    loaded = folded((*MEASURED, replace(TICK, p95=wide.tobytes())))
    lines = table(loaded, columns=100, top=3)
    start = next(i for i, line in enumerate(lines) if line.startswith("layers --"))
    rows = lines[start + 2 : start + 5]
    assert [row.split()[0] for row in rows] == ["fc", "act", "conv"]
    assert "?500.0" in rows[2]
    assert lines[start + 5].startswith("? not ranked")
    text = full_text(loaded, columns=120)
    assert "?500.0" in text
    assert "? not ranked" in text


def test_the_most_expensive_are_named_by_their_paths() -> None:
    lines = section("layers", top=2)
    assert lines[0] == "layers -- the top 2 by self time"
    assert [line.split()[0] for line in lines[2:]] == ["conv", "fc"]


@pytest.mark.parametrize("columns", [76, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    assert max(width(line) for line in table(folded(MEASURED), columns=columns)) <= columns


@pytest.mark.parametrize("columns", [76, 80, 100, 200])
def test_no_figure_of_a_layer_is_cut(columns: int) -> None:
    session = folded(MEASURED)
    lines = table(session, columns=columns)
    start = next(i for i, line in enumerate(lines) if line.startswith("layers --"))
    assert [line[-1] for line in lines[start + 2 : start + 6]] == ["U", "U", "U", "U"]


def test_a_terminal_that_is_too_narrow_gets_the_narrowest_report() -> None:
    assert table(folded(MEASURED), columns=20) == table(folded(MEASURED), columns=76)


def test_what_torchvision_publishes_stands_beside_ours() -> None:
    facts = replace(FACTS, published_gmacs=4.089, published_parameters=25_557_032)
    lines = table(folded((*TRACED[:4], facts, *TRACED[5:])), columns=100)
    assert "  published        25,557,032 parameters, 4.089 GMAC per item" in lines


def test_an_unknown_figure_says_why() -> None:
    peak = replace(DONE.peak_memory, workspace=Unknown("not modelled on cuda"))
    lines = table(folded((*TRACED[:-1], replace(DONE, peak_memory=peak))), columns=200)
    assert any("workspace – (not modelled on cuda)" in line for line in lines)


def test_hostile_names_are_made_safe() -> None:
    nodes = (replace(NODES[0], name="\x1b[2J" + "x" * 9000, type="\u202eevil\n"),)
    facts = replace(FACTS, name="\x1b]0;title\x07", source="\x9b", weights="\r")
    session = folded((facts, TraceStarted(1, "dispatch:fake"), Nodes(nodes, COSTS[:1]), DONE))
    assert all(line.isprintable() for line in table(session, columns=100))


def test_a_module_that_was_not_called_says_so() -> None:
    nodes = (NODES[0], replace(NODES[1], calls=0))
    costs = (COSTS[0], replace(COSTS[1], ops=0))
    session = folded((FACTS, TraceStarted(2, "dispatch:fake"), Nodes(nodes, costs), DONE))
    assert any("conv  not called" in line for line in table(session, columns=100))


def test_a_container_whose_modules_are_called_keeps_its_type() -> None:
    nodes = (replace(NODES[0], calls=0, type="ModuleList"), NODES[1])
    session = folded((FACTS, TraceStarted(2, "dispatch:fake"), Nodes(nodes, COSTS[:2]), DONE))
    assert any("net  ModuleList" in line for line in table(session, columns=100))


def test_a_failure_after_the_trace_is_told() -> None:
    lines = table(folded((*TRACED, Failed("run", "out of memory"))), columns=100)
    assert lines[-2:] == (
        "stopped early -- results until then are above",
        "run: out of memory",
    )


def test_without_a_tree_the_report_says_so() -> None:
    assert table(EMPTY, columns=100) == ("the model was not traced: there is nothing to report",)


def test_all_work_that_depends_on_the_data_is_marked() -> None:
    # The convolution may answer less; the root has an operator without a formula too.
    told = [
        replace(message, bounded=("aten::convolution",)) if message is DONE else message
        for message in TRACED
    ]
    lines = table(folded(tuple(told)), columns=100)
    (convolution,) = [line.split() for line in lines if line.startswith("  conv  Conv2d")]
    (moved,) = [line for line in lines if line.startswith("  bytes moved")]
    (work,) = [line for line in lines if line.startswith("  work ")]
    assert convolution[3:8] == ["≤6.91K", "≤13.8K", "≤2.17", "KiB", "~6.22"]
    assert "at most 13.4 KiB" in moved
    assert "at most 9.47 KMAC  about 19.0 KFLOP" in work
    (peak,) = [line for line in lines if line.startswith("  peak memory")]
    assert "at most 13.0 KiB" in peak
