"""The machine screen: every counter of the hardware, and the energy of a forward.

Figures of one section that are all missing for one reason are one line.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_profiler.figures.units import (
    count,
    degrees,
    duration,
    frequency,
    rate,
    share,
    size,
    thousands,
    three_digits,
    written,
)
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, wrap
from tui_profiler.messages import Allocator, Figure, Gpu, Sample, Unknown, known
from tui_profiler.queries.cost import machine
from tui_profiler.queries.cost.ceilings import roofs_of
from tui_profiler.queries.hardware.gpu_facts import gpu_facts
from tui_profiler.queries.panel import serving
from tui_profiler.queries.time import cores
from tui_profiler.reports.ceilings import label_of, quality_of, said_of, value_of

from ...common.scrolling import ScrollingScreen
from ...widgets.header import header_lines
from ...widgets.key_bar import key_bar
from ...widgets.line_widgets import KeyBar, Panel
from ...widgets.lines import EMPTY, Line
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import Look, aged, finished, pending, rhythm, section
from ...widgets.scrolled import ScrolledLines
from .energy_lines import LABEL, figure_lines, machine_energy_lines, missing, said

_KEYS = (("esc", "back"), ("↑↓", "scroll"), ("g", "top"), ("G", "end"))
MOST_PROGRAMS = 5
Fact: TypeAlias = tuple[str, Figure, Callable[[float], str]]
"""What it is called, its value, and how that is written."""


class MachineScreen(ScrollingScreen[None]):
    """Shows the machine until it is left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("M", "back", show=False, id="machine"),
    ]

    def __init__(self, glyphs: Glyphs = UNICODE, now: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._now = now
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """The header, the sections, the keys."""
        yield Panel(id="header")
        yield ScrolledLines(self._glyphs, id="lines")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Go on drawing what moves by the clock."""
        self.set_interval(1.0, self.draw)

    def draw(self) -> None:
        """Draw the header, the sections where they changed, and the keys."""
        if not self.is_current:
            return
        session, body = self.session, self.query_one(ScrolledLines)
        look = Look(session, 0, self._now(), max(body.size.width - 1, 3), self._glyphs)
        self.query_one("#header", Panel).show(look, lambda look, rows: header_lines(look))
        # A tick changes nothing here but the energy, which comes with the samples.
        wanted = (
            *(session.sample, session.environment, session.ended),
            *(session.serving, body.size),
            rhythm("", look),
        )
        if wanted != self._drawn:
            self._drawn = wanted
            body.show(finished(hardware_lines(look), look))
        keys = key_bar(_KEYS, (), self.size.width, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (keys,)


def hardware_lines(look: Look) -> tuple[Line, ...]:
    """Return all sections; a blank row between."""
    sample = look.session.sample
    if sample is None:
        first = pending("machine", "the first sample", look)
        return (*first, EMPTY, *_serving(look)) if look.session.serving is not None else first
    blocks = (
        machine_lines(look),
        _serving(look),
        _cores(look),
        _process(look, sample),
        _temperature(look, sample),
        _caches(look),
        _roofline(look),
        _counters(look, sample),
        _traffic(look, sample),
        *(_allocator(look, one) for one in _allocators(sample)),
        *(_gpu(look, gpu) for gpu in _gpus(sample)),
        machine_energy_lines(look, sample),
    )
    lines: list[Line] = []
    for block in blocks:
        if block and lines:
            lines.append(EMPTY)
        # The title keeps its ink: only figures are old.
        lines += (*block[:1], *aged(block[1:], look))
    return tuple(lines)


def _facts(title: str, provenance: str, facts: Sequence[Fact], look: Look) -> tuple[Line, ...]:
    """Return a section; where nothing in it is known and for one reason, that reason once."""
    head = section(title, provenance, look)
    reasons = {figure.reason if isinstance(figure, Unknown) else "" for _, figure, _ in facts}
    if len(reasons) == 1 and "" not in reasons:
        return (head, *missing(facts[0][0], safe(reasons.pop()), look))
    lines: list[Line] = [head]
    for label, value, write in facts:
        lines += figure_lines(label, value, write, look)
    return tuple(lines)


def _serving(look: Look) -> tuple[Line, ...]:
    """Return the inference server beside the program, in full; nothing where none is read."""
    seen = look.session.serving
    if seen is None:
        return ()
    found = serving.figures_of(seen)
    if isinstance(found, Unknown):
        head = section("serving", "not read", look)
        return (
            head,
            *missing("metrics", safe(found.reason), look),
            said("address", safe(seen.address), look),
        )
    lines = [section("serving", f"{found.server}, {serving.window_text(found)}", look)]
    if found.models:
        lines.append(said("model", safe(", ".join(found.models)), look))
    else:
        lines += missing("model", "not in the server's metrics", look)
    for one in serving.serving_rows(found):
        lines += figure_lines(one.label, one.figure, one.with_aside, look)
    return (*lines, said("address", safe(seen.address), look))


def _cores(look: Look) -> tuple[Line, ...]:
    """Return who has the cores: this process, the others together, those that take most."""
    used, seen = cores.cores_used(look.session), look.session.programs
    if used is None:
        return ()
    of_a_core, of_ten_seconds = _share_of("a core"), _share_of("the last 10 s")
    facts: list[Fact] = [("this process", used.this, of_a_core)]
    thread = cores.thread_time(look.session)
    if isinstance(thread, Unknown):
        facts.append(("forward thread", thread, share))
    else:
        of_forward = partial(cores.share_of_forward, thread)
        facts += [
            ("forward thread, on core", of_forward(thread.on_core), _share_of("a forward")),
            ("forward thread, waiting", of_forward(thread.waiting), _share_of("a forward")),
            ("page faults, minor", thread.minor_faults, _per_forward),
            ("page faults, major", thread.major_faults, _per_forward),
        ]
    facts.append(("other processes", used.others, of_a_core))
    quota, heat, steal = cores.throttled(look.session)
    facts += [("CPU quota used up", quota, of_ten_seconds)] if quota else []
    facts += [("thermal throttling", heat, of_ten_seconds)] if heat else []
    facts += [("other virtual machines", steal, of_ten_seconds)] if steal else []
    hertz = None if look.session.sample is None else known(look.session.sample.frequency_hertz)
    many = f"{used.cores} × {frequency(hertz)}" if hertz else f"{used.cores} cores"
    lines = [*_facts("cores", f"{many}, available to this process", facts, look)]
    if seen is None:
        return tuple(lines)
    for one in cores.other_programs(look.session)[:MOST_PROGRAMS]:
        name = safe(one.name)
        took = f"{of_a_core(one.cores)}  {size(one.memory_bytes)}  pid {one.pid}"
        lines.append(said(f"  {name}", took, look))
    found = seen.pressure
    pressed: list[Fact] = [
        ("waiting for a core", found.cpu, of_ten_seconds),
        ("waiting for memory", found.memory, of_ten_seconds),
        ("waiting for a disk", found.io, of_ten_seconds),
    ]
    return (*lines, EMPTY, *_facts("pressure", "of all processes", pressed, look))


def _share_of(whole: str) -> Callable[[float], str]:
    return lambda value: f"{share(value)} of {whole}"


def _per_forward(value: float) -> str:
    return f"{value:.3g} per forward"


def _process(look: Look, sample: Sample) -> tuple[Line, ...]:
    facts: list[Fact] = [
        ("busy cores", sample.process_cpu, three_digits),
        ("parallel efficiency", machine.parallel_efficiency(look.session), share),
        ("threads", sample.process_threads, count),
        ("resident", sample.process_bytes, size),
        ("peak RSS", sample.process_peak_bytes, size),
    ]
    return _facts("process", "of this model", facts, look)


def _temperature(look: Look, sample: Sample) -> tuple[Line, ...]:
    """Return the temperature of each package, and how often heat throttled it."""
    facts: list[Fact] = []
    if isinstance(sample.temperatures, Unknown):
        facts.append(("temperature", sample.temperatures, degrees))
    else:
        facts += [
            (safe(one.name), one.celsius, partial(_degrees_of, one.critical_celsius))
            for one in sample.temperatures
        ]
    if (found := sample.throttle) is not None:
        facts.append(("thermal throttling", found.heat_events, _since_boot))
        if not isinstance(found.heat_events, Unknown):  # Its reason stands above.
            facts.append(("throttled time", found.heat_seconds, _seconds))
    return _facts("temperature", "of the processor", facts, look)


def _degrees_of(critical: Figure, celsius: float) -> str:
    limit = "" if isinstance(critical, Unknown) else f", critical at {degrees(critical)}"
    return f"{degrees(celsius)}{limit}"


def _since_boot(value: float) -> str:
    return f"{thousands(round(value))}× since boot"


def _seconds(value: float) -> str:
    return duration(value) if value else "0 s"


def _caches(look: Look) -> tuple[Line, ...]:
    environment, loop = look.session.environment, look.session.loop
    head = section("caches", "of the processor", look)
    if environment is None and loop is not None and loop.state == "finished":
        reason = "read when torch is imported; this file needs no torch"
        return (head, *missing("caches", reason, look))
    if environment is None:
        return (head, *pending("caches", "after torch is imported", look, LABEL))
    if not environment.caches:
        return (head, *missing("caches", "not reported by the kernel", look))
    lines = [
        said(
            f"L{cache.level}",
            f"{thousands(cache.count)} × {size(cache.bytes)}, "
            + ("per core" if cache.cores == 1 else f"per {cache.cores} cores"),
            look,
        )
        for cache in environment.caches
    ]
    return (head, *lines)


def _roofline(look: Look) -> tuple[Line, ...]:
    """Return every roof with its quality."""
    found = look.session.ceilings
    if found is None:
        return ()
    waits = f"waiting read from {safe(found.waits_from)}" if found.waits_from else ""
    lines: list[Line] = [section("roofline", waits, look)]
    for roof in roofs_of(found):
        label = label_of(roof)
        if isinstance(roof.figure, Unknown):
            lines += missing(label, safe(roof.figure.reason), look)
            continue
        kept = roof.quality
        waited = f"waited {share(kept.busy)}" if kept is not None else ""
        lines.append(said(label, f"{value_of(roof)}  {quality_of(roof)}", look))
        why = ", ".join(filter(None, (said_of(roof), waited)))
        room = max(look.cells - LABEL - 1, 1)
        lines += [said("", part, look) for part in wrap(why, room) if why]
    return tuple(lines)


def _counters(look: Look, sample: Sample) -> tuple[Line, ...]:
    found = sample.counters
    if found is None:
        reason = "this recording is older than the figure"
        return (section("counters", "", look), *missing("instructions", reason, look))
    took_turns = "multiplexed, scaled" if 0 < found.counted_share < 0.999 else "last interval"
    facts: list[Fact] = [
        ("instructions", found.instructions, count),
        ("cycles", found.cycles, count),
        ("instructions per cycle", machine.instructions_per_cycle(found), three_digits),
        ("cache references", found.cache_references, count),
        ("cache misses", machine.miss_share(found), _share_of("references")),
        ("last-level misses", machine.last_level_miss_share(found), _share_of("loads")),
    ]
    return _facts("counters", took_turns, facts, look)


def _bytes_a_second(value: float) -> str:
    return rate(value, "B/s")


def _traffic(look: Look, sample: Sample) -> tuple[Line, ...]:
    found = sample.traffic
    if found is None:
        return ()

    def times_a_second(value: float) -> str:
        return f"{count(value)} /s" if value >= 1 else f"{value:.1f} /s"

    facts: list[Fact] = [
        ("disks, read", found.disk_read_bytes, _bytes_a_second),
        ("disks, written", found.disk_written_bytes, _bytes_a_second),
        ("network, received", found.network_received_bytes, _bytes_a_second),
        ("network, sent", found.network_sent_bytes, _bytes_a_second),
        ("this process, read", found.process_read_bytes, _bytes_a_second),
        ("this process, written", found.process_written_bytes, _bytes_a_second),
        ("voluntary switches", found.voluntary_switches, times_a_second),
        ("involuntary switches", found.involuntary_switches, times_a_second),
    ]
    return _facts("traffic", "last interval", facts, look)


def _allocators(sample: Sample) -> tuple[Allocator, ...]:
    return () if isinstance(sample.allocators, Unknown) else sample.allocators


def _allocator(look: Look, one: Allocator) -> tuple[Line, ...]:
    facts: list[Fact] = [
        ("allocated", one.allocated_bytes, size),
        ("reserved", one.reserved_bytes, size),
        ("fragmentation", machine.fragmentation(one), _share_of("reserved")),
        ("peak allocated", one.peak_allocated_bytes, size),
        ("peak reserved", one.peak_reserved_bytes, size),
        ("retries", one.retries, _times),
        ("out of memory", one.out_of_memory, _times),
    ]
    return _facts(f"allocator of {safe(one.device)}", "of torch", facts, look)


def _times(value: float) -> str:
    return "never" if value == 0 else f"{thousands(round(value))}×"


def _gpus(sample: Sample) -> tuple[Gpu, ...]:
    return () if isinstance(sample.gpus, Unknown) else sample.gpus


def _gpu(look: Look, gpu: Gpu) -> tuple[Line, ...]:
    def watts(value: float) -> str:
        return f"{three_digits(value)} W"

    seen = f"cuda:{gpu.cuda_index}" if gpu.cuda_index is not None else "cuda:N not known"
    facts: list[Fact] = [
        ("power, instantaneous", gpu.power_instant_watts, watts),
        ("power, 1 s average", gpu.power_average_watts, watts),
        ("module power", gpu.module_watts, watts),
        ("memory power", gpu.memory_watts, watts),
        ("power limit", gpu.power_limit_watts, watts),
        ("clock", gpu.clock_hertz, frequency),
        ("memory clock", gpu.memory_clock_hertz, frequency),
        ("PCIe, sent", gpu.pcie_sent_bytes, _bytes_a_second),
        ("PCIe, received", gpu.pcie_received_bytes, _bytes_a_second),
        ("PCIe generation", gpu.pcie_generation, lambda value: f"{value:.0f}"),
        ("PCIe lanes", gpu.pcie_width, lambda value: f"{value:.0f}"),
        ("fan", gpu.fan_share, share),
        ("fan speed", gpu.fan_rpm, lambda value: f"{thousands(round(value))} rpm"),
        *gpu_facts(gpu),
    ]
    lines = [*_facts(f"gpu {safe(gpu.name)}", seen, facts, look)]
    if programs := cores.gpu_programs(look.session, gpu)[:MOST_PROGRAMS]:
        for named in programs:
            took = f"{_held(look, named.memory_bytes, named.utilisation)}  pid {named.pid}"
            lines.append(said(f"  {safe(named.name) or 'process'}", took, look))
    elif why := _processes_unknown(gpu, look):
        lines += missing("processes", safe(why.reason), look)
    elif not isinstance(gpu.processes, Unknown):
        for one in gpu.processes:
            used = _held(look, one.memory_bytes, one.utilisation)
            lines.append(said(f"process {one.pid}", used, look))
    for part in gpu.mig:
        number = "" if part.cuda_index is None else f"  cuda:{part.cuda_index}"
        held = "" if isinstance(part.memory_bytes, Unknown) else size(part.memory_bytes)
        lines.append(said("slice", f"{safe(part.name)}  {held}{number}", look))
    return tuple(lines)


def _processes_unknown(gpu: Gpu, look: Look) -> Unknown | None:
    """Return why neither the program nor the viewer knows who computes on a GPU.

    That the program sees nobody, while the viewer cannot look, does not mean that nobody does.
    """
    if isinstance(gpu.processes, Unknown):
        return gpu.processes
    return None if gpu.processes else cores.gpu_programs_unknown(look.session, gpu)


def _held(look: Look, memory_bytes: Figure, utilisation: Figure) -> str:
    """Return what a process takes of a GPU; what is not known has a dash."""
    held = written(known(memory_bytes), size, look.glyphs.dash)
    return f"{held}  {written(known(utilisation), share, look.glyphs.dash)}"
