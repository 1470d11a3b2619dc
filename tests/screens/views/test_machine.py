"""The machine screen and the energy of a node: what is measured, estimated, or not there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.views.machine.energy_lines import node_energy_lines
from screens.views.machine.screen import MachineScreen, hardware_lines
from screens.widgets.lines import line_width, text
from screens.widgets.machine_lines import machine_lines
from screens.widgets.rows import Look, finished
from tests.machine_session import ALLOCATOR, FULL, GPU, measured
from tests.queries.cost.test_ceilings import BAD, CEILINGS
from tests.screens.explorer.test_explorer import on_stage, recorded
from tests.screens.screen_text import screen_text
from tests.small_model import CONV, SAMPLE
from tui_profiler import messages
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.messages.hardware import Replay
from tui_profiler.session import EMPTY, Session, apply

NO_MATCH = "processes – programs cannot be matched to this GPU: a UUID is missing"
HOSTILE = "\x1b[31m[/nope]"


def lines(session: Session, cells: int = 60) -> list[str]:
    look = Look(session, CONV, 6.0, cells)
    return [text(line).rstrip() for line in finished(hardware_lines(look), look)]


def part(session: Session, title: str) -> list[str]:
    shown = lines(session)
    start = next(i for i, line in enumerate(shown) if line.startswith(f" {title} ─"))
    rest = [*shown[start + 1 :], ""]
    return [" ".join(line.split()) for line in rest[: rest.index("")]]


def of_node(session: Session) -> list[str]:
    look = Look(session, CONV, 6.0, 60)
    title, *rest = [text(line) for line in finished(node_energy_lines(look), look)]
    return [" ".join(title.replace("─", "").split()), *(" ".join(line.split()) for line in rest)]


def test_every_figure_of_the_machine_has_its_line() -> None:
    session = measured(FULL, replace(FULL, gpus=(GPU,)), grid_grams_per_kwh=360.0)

    assert part(session, "process") == [
        "busy cores 1.50",
        "parallel efficiency 75 %",
        "threads – the process is not ours",
        "resident 256 MiB",
        "peak RSS 768 MiB",
    ]
    assert part(session, "caches") == [
        "L1 2 × 1.00 KiB, per core",
        "L2 1 × 16.0 KiB, per 2 cores",
    ]
    assert part(session, "counters") == [
        "instructions 6.00G",
        "cycles 2.00G",
        "instructions per cycle 3.00",
        "cache references 40.0M",
        "cache misses 25 % of references",
        "last-level misses – this processor, or virtual",
        "machine, offers no such counter",
    ]
    assert part(session, "traffic")[0] == "disks, read 1.00 MB/s"
    assert part(session, "allocator of cuda:0") == [
        "allocated 600 B",
        "reserved 0.98 KiB",
        "fragmentation 25 % of reserved",
        "peak allocated 900 B",
        "peak reserved 1.17 KiB",
        "retries 3×",
        "out of memory never",
    ]
    assert part(session, "gpu 0: NVIDIA Fake")[:4] == [
        "power, instantaneous 310 W",
        "power, 1 s average 300 W",
        "module power – this GPU does not report it",
        "memory power – this GPU does not report it",
    ]
    assert part(session, "energy") == [
        "per forward 100 mJ counted over 10 s",
        "above idle 60.0 mJ",
        "FLOP per joule 190 KFLOP/J",
        "CO₂ per forward 1e-05 g at 360 g/kWh",
        "processor packages 100 W, idle 40.0 W",
    ]


def test_programs_on_a_gpu_are_named_as_those_on_the_cores_are() -> None:
    unknown = messages.Unknown("no recent kernel of this process")
    seen = messages.ProgramsSeen(
        *(2.0, (), 0.0, 9, messages.Pressure(unknown, unknown, unknown)),
        gpu_programs=(
            messages.GpuProgramUse(0, 77, HOSTILE, 2.0**31, 0.5),
            messages.GpuProgramUse(0, 78, "", unknown, unknown),
            *(messages.GpuProgramUse(0, pid, "many", 1.0, 0.0) for pid in range(5)),
            messages.GpuProgramUse(1, 79, "elsewhere", 1.0, 0.0),
        ),
    )
    session = apply(measured(replace(FULL, gpus=(GPU,))), seen)
    shown = part(session, "gpu 0: NVIDIA Fake")
    named = [line for line in shown if "pid" in line]
    assert named[0].endswith("2.00 GiB 50 % pid 77")
    assert named[1] == "process – – pid 78"
    assert len(named) == 5
    assert not any("elsewhere" in line or "\x1b" in line for line in shown)
    # The viewer may number GPUs differently, or see others: they are matched by UUID.
    other, own = replace(seen.gpu_programs[0], uuid="GPU-b"), seen.gpu_programs[-1]
    told = replace(seen, gpu_programs=(other, replace(own, uuid="GPU-a")))
    one = apply(measured(replace(FULL, gpus=(replace(GPU, uuid="GPU-a"),))), told)
    assert [line for line in part(one, "gpu 0: NVIDIA Fake") if "pid" in line] == [
        "elsewhere 1 B 0.0 % pid 79"
    ]
    # A GPU whose processes cannot be read does not look unused.
    why = messages.GpuProgramsUnknown(0, messages.Unknown("permission denied"))
    unread = replace(seen, gpu_programs=seen.gpu_programs[-1:], gpu_programs_unknown=(why,))
    nobody = apply(measured(replace(FULL, gpus=(replace(GPU, processes=()),))), unread)
    assert part(nobody, "gpu 0: NVIDIA Fake")[-1] == "processes – permission denied"
    # Without a viewer that looked, ids are those of the program's own sample.
    before = measured(
        replace(FULL, gpus=(replace(GPU, processes=(messages.GpuProcess(5, 1.0, unknown),)),))
    )
    assert part(before, "gpu 0: NVIDIA Fake")[-1] == "process 5 1 B –"


@pytest.mark.parametrize(
    ("own", "viewers", "last"),
    [
        # The viewer's GPU 1 may be this one or any other.
        ("GPU-a", ("GPU-b", ""), NO_MATCH),
        ("", ("GPU-b", "GPU-a"), NO_MATCH),
        ("GPU-a", ("GPU-b", "GPU-a"), "second 1 B 0.0 % pid 79"),
        ("", ("GPU-b", ""), "second 1 B 0.0 % pid 79"),
        ("GPU-a", ("", ""), "second 1 B 0.0 % pid 79"),  # An older recording.
    ],
)
def test_programs_are_matched_by_number_only_where_no_uuid_is_missing(
    own: str, viewers: tuple[str, str], last: str
) -> None:
    unknown = messages.Unknown("no recent kernel of this process")
    first, second = viewers
    seen = messages.ProgramsSeen(
        *(2.0, (), 0.0, 9, messages.Pressure(unknown, unknown, unknown)),
        gpu_programs=(
            messages.GpuProgramUse(0, 77, "first", 2.0, 0.5, first),
            messages.GpuProgramUse(1, 79, "second", 1.0, 0.0, second),
        ),
    )
    gpu = replace(GPU, index=1, uuid=own, processes=())
    shown = part(apply(measured(replace(FULL, gpus=(gpu,))), seen), "gpu 0: NVIDIA Fake")
    assert " ".join(shown).rstrip().endswith(last)
    assert not any("first" in line for line in shown)


def test_temperatures_errors_and_links_have_their_lines() -> None:
    session = measured(replace(FULL, gpus=(GPU,)))
    assert part(session, "temperature") == [
        "Package id 0 72 °C, critical at 100 °C",
        "Package id 1 66 °C",
        "thermal throttling 12× since boot",
        "throttled time 2.50 s",
    ]
    shown = part(session, "gpu 0: NVIDIA Fake")
    assert shown[shown.index("PCIe lanes 16") + 1 :][:8] == [
        "fan 42 %",
        "fan speed 1,450 rpm",
        "ECC errors, volatile 3 corrected, 13 uncorrected",
        "ECC errors, aggregate 103 corrected, 113 uncorrected",
        "NVLink 3 of 4 active, 26.6 GB/s each",
        "NVLink, sent 2.00 GB/s",
        "NVLink, received 4.00 GB/s",
        "NVLink, errors 12",
    ]
    panel = part(session, "machine")
    assert "! 13 uncorrected ECC errors" in panel
    assert "temp 72 °C critical 100 °C" in panel

    why, off = messages.Unknown("this GPU has no NVLink"), messages.Unknown("no ECC here")
    bare = replace(GPU, ecc=messages.EccErrors(off, off, off, off))
    bare = replace(bare, links=messages.GpuLinks(*[why] * 6), fan_share=why)
    bare = replace(bare, throttled_by=messages.Unknown("no turn yet"))
    cold = messages.Throttle(0.0, 0.0, off, off)
    none = replace(FULL, gpus=(bare,), temperatures=messages.Unknown("no sensor"), throttle=cold)
    session = measured(none)
    assert part(session, "temperature") == [
        "temperature – no sensor",
        "thermal throttling – no ECC here",
    ]
    shown = part(session, "gpu 0: NVIDIA Fake")
    assert shown.count("NVLink – this GPU has no NVLink") == 1
    assert "ECC errors – no ECC here" in shown
    assert "throttling – no turn yet" in shown
    assert not any(line.startswith(("temp ", "! ")) for line in part(session, "machine"))


def test_throttling_is_shown_while_a_counter_moves() -> None:
    def at(seconds: float, quota: float, heat: float, steal: float = 7.0) -> messages.Sample:
        throttle = messages.Throttle(quota, 9.0, heat, 3.0, steal)
        return replace(FULL, at=seconds, throttle=throttle)

    still = measured(at(1.0, 4.0, 0.0), at(6.0, 4.0, 0.0))
    assert not any(
        word in line for line in lines(still) for word in ("quota", "heat", "other virtual")
    )
    session = apply(apply(still, at(8.0, 5.0, 0.0)), at(11.0, 6.5, 0.25, 7.4))
    assert {
        "CPU quota used up 25 % of the last 10 s",
        "thermal throttling 2.5 % of the last 10 s",
        "other virtual machines 4.0 % of the last 10 s",
    } <= {*part(session, "cores")}
    unknown = messages.Unknown("no control group that accounts for CPU time")
    none = replace(FULL, at=12.0, throttle=messages.Throttle(unknown, unknown, unknown, unknown))
    assert not any("quota" in line for line in lines(measured(none, replace(none, at=13.0))))


def test_a_file_that_needs_no_torch_does_not_wait_for_it() -> None:
    session = replace(measured(FULL), environment=None, loop=None)
    assert part(session, "caches") == ["caches … after torch is imported"]

    over = apply(session, messages.LoopState("finished", 2.0, None, "not run"))
    assert " ".join(part(over, "caches")).startswith("caches – read when torch")


def test_a_section_of_which_nothing_is_known_says_why_once() -> None:
    absent = messages.Unknown("torch keeps no running total of its CPU allocator")
    nothing = {name: absent for name in ALLOCATOR.__struct_fields__ if name != "device"}
    session = measured(replace(FULL, allocators=(replace(ALLOCATOR, device="cpu", **nothing),)))

    assert part(session, "allocator of cpu") == [
        "allocated – torch keeps no running total of",
        "its CPU allocator",
    ]


def test_a_recording_from_before_these_figures_says_so() -> None:
    session = measured(SAMPLE)

    assert "this recording is older than the figure" in " ".join(part(session, "counters"))
    assert part(session, "energy")[0] == "per forward – this recording is older than"


def test_before_the_first_sample_it_is_waited_for() -> None:
    assert "the first sample" in lines(EMPTY)[0]


@pytest.mark.parametrize("cells", [20, 48, 80, 120])
def test_every_line_is_as_wide_as_the_panel_and_holds_safe_text(cells: int) -> None:
    gpu = replace(
        GPU,
        name=HOSTILE,
        processes=(messages.GpuProcess(1, messages.Unknown(HOSTILE), messages.Unknown(HOSTILE)),),
        mig=(messages.MigDevice(HOSTILE, HOSTILE, 1.0, 2.0, 0),),
        pcie_width=messages.Unknown(HOSTILE),
    )
    session = measured(replace(FULL, gpus=(gpu,)))
    for glyphs in (None, ASCII):
        look = Look(session, CONV, 6.0, cells, *([glyphs] if glyphs else []))
        for line in finished(hardware_lines(look), look):
            assert line_width(line) == cells
            assert "\x1b" not in text(line)


def test_the_panel_tells_energy_only_where_something_counts_it() -> None:
    def last(session: Session) -> str:
        return " ".join(text(machine_lines(Look(session, CONV, 6.0, 60))[-1]).split())

    assert last(measured()) == "energy 100 mJ per forward 190 KFLOP/J"
    assert last(measured(SAMPLE)) == "power – RAPL counters need root"


def test_an_estimate_wears_a_tilde_and_its_bounds() -> None:
    assert of_node(measured()) == [
        "energy estimated from its share of the time",
        "per forward ~50.0 mJ",
        "bounds 20.0 mJ to 80.0 mJ",
        "working set 2.17 KiB, fits in L2, 16.0 KiB",
    ]


def test_a_replay_is_a_measurement_without_one() -> None:
    replays = tuple(Replay(5.0, 99, joules) for joules in (0.03, 0.034, 0.032))
    found = messages.Replayed(CONV, "processor packages", "counter", replays, 40.0, 0.0005)

    assert of_node(apply(measured(), found))[:3] == [
        "energy measured, 3 replays",
        "per forward 32.0 mJ",
        "replays 30.0 mJ to 34.0 mJ",
    ]


def test_a_replay_that_was_refused_says_why() -> None:
    found = messages.Replayed(
        CONV, "", "counter", (), None, 0.0, f"it fails when run alone: {HOSTILE}"
    )
    shown = of_node(apply(measured(), found))

    assert shown[0] == "energy estimated from its share of the time"
    assert any(line.startswith("replay – it fails when run alone") for line in shown)
    assert all("\x1b" not in line for line in shown)


def test_without_a_counter_an_interval_on_paper_says_whose_it_is() -> None:
    session = measured(replace(FULL, energy=messages.Unknown("no RAPL counters on this machine")))

    assert of_node(session)[:6] == [
        "energy not measured",
        "per forward – no RAPL counters on this",
        "machine",
        "on paper ~60 nJ to ~750 nJ",
        "Horowitz, ISSCC 2014, 45 nm at 0.9",
        "V",
    ]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_machine_screen_opens_scrolls_and_closes(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("M")
        await pilot.pause()
        assert isinstance(stage.app.screen, MachineScreen)
        shown = screen_text(stage.app)
        assert " machine ─" in shown
        assert "allocator of" not in shown  # A recording from before it was told.
        await pilot.press("G")
        await pilot.pause()
        assert " energy ─" in screen_text(stage.app)
        await pilot.press("escape")
        assert stage.app.screen is stage.explorer


def accepting(*requests: str) -> list[messages.Message]:
    return [
        replace(message, accepts=requests) if isinstance(message, messages.Hello) else message
        for message in recorded()
    ]


async def test_a_key_asks_for_the_replay_of_the_selected_node() -> None:
    async with on_stage(accepting("ReplayNode")) as (stage, pilot):
        await pilot.press("j", "E")
        await pilot.pause()
        selected = stage.explorer.tree_widget.view.selected
        assert selected > 0
        assert stage.requests == [messages.ReplayNode(selected)]


async def test_a_process_that_is_not_ours_refuses_it() -> None:
    async with on_stage(accepting("Stop")) as (stage, pilot):
        await pilot.press("j", "E")
        await pilot.pause()
        assert stage.requests == []


def test_every_roof_says_whether_it_is_good_enough() -> None:
    unknown = replace(measured(FULL), ceilings=None)
    assert all(not line.startswith(" roofline") for line in lines(unknown))
    session = apply(measured(FULL), replace(CEILINGS, memory_quality=BAD))
    assert part(session, "roofline") == [
        "float32 100 GFLOP/s good",
        "waited 0.0 %",
        "float16 – no product",
        "L2 copy (1.91 MiB) 200 GB/s good",
        "waited 0.0 %",
        "L3 copy (30.5 MiB) 100 GB/s good",
        "waited 0.0 %",
        "memory copy 10.0 GB/s not good enough",
        "2 of 100 pieces ran without",
        "waiting, waited 90 %",
        "one operator 1.00 µs good",
        "waited 0.0 %",
    ]
    hostile = replace(CEILINGS, memory_quality=replace(BAD, why_not_good=HOSTILE))
    assert "\x1b" not in "".join(lines(apply(measured(FULL), hostile)))
