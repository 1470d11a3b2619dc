"""The machine section: processor, memory, GPUs and power, live from the first frame."""

from collections.abc import Callable

from tui_profiler.figures.units import degrees, energy, quantity, share, size, three_digits, written
from tui_profiler.formatting.canvas import sparkline
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, Gpu, Sample, Unknown, known
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.hardware.gpu_facts import ecc_errors_text
from tui_profiler.queries.panel.serving import estimate, figures_of, requests_text, tokens_text
from tui_profiler.queries.time.cores import cores_used
from tui_profiler.queries.time.series import gpu_utilisation, process_memory, utilisation

from .lines import EMPTY, Line, line_width
from .rows import Look, absent, aged, columns, fact, pending, rhythm, row, section, without_colour

LABEL = 8
MAX_GPUS = 4
_RIGHT = 17
"""Cells at the right of a figure."""


def machine_lines(look: Look) -> tuple[Line, ...]:
    """Return the section with its title."""
    title = section("machine", rhythm("every 1 s", look), look)
    sample = look.session.sample
    if sample is None:
        if look.session.ended is not None:
            return (
                title,
                *absent("cpu", "the worker has ended", look, LABEL),
                *serving_lines(look),
            )
        return (title, *pending("cpu", "the first sample", look, LABEL), *serving_lines(look))
    lines = (
        _cpu(look, sample),
        *_waiting(look),
        _memory(look, sample),
        *_gpus(look, sample),
        *_power(look, sample),
        *_temperature(look, sample),
        *_energy(look),
    )
    lines = (*lines, *serving_lines(look))
    if look.session.ended is not None:
        return (title, *without_colour(lines))
    return (title, *aged(lines, look))


def serving_text(look: Look) -> tuple[str, str]:
    """Return the server beside the program and its requests; empty where none is known."""
    seen = look.session.serving
    found = figures_of(seen) if seen is not None else None
    if found is None or isinstance(found, Unknown):
        return ("", "")
    return (found.server, requests_text(found, look.glyphs.dash))


def serving_lines(look: Look) -> tuple[Line, ...]:
    """Return the inference server, where one is read: its requests, then tokens and times."""
    seen = look.session.serving
    if seen is None:
        return ()
    found = figures_of(seen)
    if isinstance(found, Unknown):
        return absent("serving", safe(found.reason), look, LABEL)
    server, requests = serving_text(look)
    left: Line = (("serving".ljust(LABEL), "muted"), (f"{server} ", "muted"), (requests, "ink"))
    usage = known(found.cache_usage)
    right: Line = EMPTY
    if usage is not None:
        room = look.inner - line_width(left) - len(f" KV cache {share(usage)}")
        right = (("KV cache " if room >= 0 else "KV ", "muted"), (share(usage), "ink"))
    figures = (
        ("", found.generated_per_second, tokens_text),
        ("TTFT p50 ", found.first_token.p50.seconds, estimate(found.first_token.p50)),
        ("ITL p50 ", found.between_tokens.p50.seconds, estimate(found.between_tokens.p50)),
    )
    parts: list[Line] = [
        ((label, "muted"), (write(value), "ink"))
        for label, figure, write in figures
        if (value := known(figure)) is not None
    ]
    first = row(left, right, look)
    if not parts:
        return (first,)
    indented = [((" " * LABEL, "muted"), *parts[0]), *((("  ", "ink"), *one) for one in parts[1:])]
    return (first, columns(indented, EMPTY, look))


def busy(sample: Sample) -> float | None:
    """Return the mean share that the cores were busy, 0 to 1."""
    cores = sample.cores
    return sum(core.utilisation for core in cores) / len(cores) if cores else None


def memory_text(sample: Sample) -> str:
    """Return the worker's resident memory; the machine's used memory where that is not readable."""
    own = known(sample.process_bytes)
    return size(own if own is not None else sample.memory_bytes)


def _columns(look: Look) -> int:
    return max(look.inner - 34, 1)


def _cpu(look: Look, sample: Sample) -> Line:
    columns = _columns(look)
    drawn = sparkline(utilisation(look.session, columns), 1.0, 1, look.glyphs)[0]
    mean = busy(sample)
    left: Line = (
        ("cpu".ljust(LABEL), "muted"),
        (drawn, "faint"),
        (written(mean, share, look.glyphs.dash).rjust(8), "ink"),
    )
    return row(left, ((_this_process(look), "muted"),), look)


def _this_process(look: Look) -> str:
    """Return what this process takes of the cores that it may use; 100 % is one whole core."""
    used = cores_used(look.session)
    if used is None:
        return ""
    if isinstance(used.this, Unknown):
        return f"{used.cores} cores"
    text = f"process {100 * used.this:.0f}/{100 * used.cores} %"
    return text if len(text) <= _RIGHT else f"{used.this:.0f} of {used.cores} cores"


def _waiting(look: Look) -> tuple[Line, ...]:
    """Return who keeps the cores from this process, and how much of a forward that is."""
    used, timings = cores_used(look.session), look.session.host
    if used is None or isinstance(used.others, Unknown) or timings is None or not timings.waiting:
        return ()
    said = f"others {share(used.others)}, waiting for a core {share(timings.waiting)}"
    return (fact("", said, look, LABEL),)


def _memory(look: Look, sample: Sample) -> Line:
    columns = _columns(look)
    drawn = sparkline(process_memory(look.session, columns), 1.0, 1, look.glyphs)[0]
    left: Line = (
        ("memory".ljust(LABEL), "muted"),
        (drawn, "faint"),
        (memory_text(sample).rjust(10), "ink"),
    )
    used = "" if known(sample.process_bytes) is not None else "used "
    return row(left, ((f"{used}of {size(sample.memory_total_bytes)}", "muted"),), look)


def _gpus(look: Look, sample: Sample) -> tuple[Line, ...]:
    if isinstance(sample.gpus, Unknown):
        return absent("gpu", safe(sample.gpus.reason), look, LABEL)
    if not sample.gpus:
        return absent("gpu", "no GPU on this machine", look, LABEL)
    many = len(sample.gpus) > 1
    lines: list[Line] = []
    for index, gpu in enumerate(sample.gpus[:MAX_GPUS]):
        lines += _gpu(look, gpu, index, f"gpu {index}" if many else "gpu")
    left_out = len(sample.gpus) - MAX_GPUS
    if left_out > 0:
        lines.append(row(((" " * LABEL + f"{left_out} more", "muted"),), EMPTY, look))
    return tuple(lines)


def _gpu(look: Look, gpu: Gpu, index: int, label: str) -> tuple[Line, ...]:
    columns = look.inner - 45
    left: list[tuple[str, str]] = [(label.ljust(LABEL), "muted")]
    if columns >= 8:
        values = gpu_utilisation(look.session, index, columns)
        left.append((sparkline(values, 1.0, 1, look.glyphs)[0] + " ", "faint"))
    left.append((_or_dash(gpu.utilisation, share, look).rjust(5), "ink"))
    left.append((_gpu_memory(gpu, look).rjust(17), "ink"))
    hot = _or_dash(gpu.temperature_celsius, degrees, look)
    watts = _or_dash(gpu.power_watts, lambda value: f"{value:.0f} W", look)
    lines = [row(tuple(left), ((f"{hot}  {watts.rjust(5)}", "ink"),), look)]
    if gpu.throttled_by and not isinstance(gpu.throttled_by, Unknown):
        held = f"! throttled by {safe(gpu.throttled_by)}"
        lines.append(row(((" " * LABEL, "muted"), (held, "warning")), EMPTY, look))
    errors = known(gpu.ecc.volatile_uncorrected)
    if errors:
        wrong = f"! {ecc_errors_text(errors)}"
        lines.append(row(((" " * LABEL, "muted"), (wrong, "warning")), EMPTY, look))
    return (*lines, *_missing(gpu, look))


def _gpu_memory(gpu: Gpu, look: Look) -> str:
    used, total = known(gpu.memory_bytes), known(gpu.memory_total_bytes)
    if used is None:
        return look.glyphs.dash
    if total is None:
        return size(used)
    gib = 2**30
    return f"{three_digits(used / gib)} of {three_digits(total / gib)} GiB"


def _missing(gpu: Gpu, look: Look) -> tuple[Line, ...]:
    """Return the reasons of the figures that a GPU does not tell, each once."""
    figures = (gpu.utilisation, gpu.memory_bytes, gpu.temperature_celsius, gpu.power_watts)
    reasons = dict.fromkeys(figure.reason for figure in figures if isinstance(figure, Unknown))
    return tuple(line for why in reasons for line in absent("", safe(why), look, LABEL))


def _or_dash(figure: Figure, write: Callable[[float], str], look: Look) -> str:
    return written(known(figure), write, look.glyphs.dash)


def _power(look: Look, sample: Sample) -> tuple[Line, ...]:
    if isinstance(sample.package_watts, Unknown):
        return absent("power", safe(sample.package_watts.reason), look, LABEL)
    watts = f"{three_digits(sample.package_watts)} W"
    left: Line = (("power".ljust(LABEL), "muted"), (watts, "ink"))
    return (row(left, (("processor package", "muted"),), look),)


def _temperature(look: Look, sample: Sample) -> tuple[Line, ...]:
    """Return the temperature of the hottest package, where a sensor reports it."""
    found = () if isinstance(sample.temperatures, Unknown) else sample.temperatures
    told = [(one.celsius, one) for one in found if not isinstance(one.celsius, Unknown)]
    if not told:
        return ()
    celsius, hottest = max(told, key=lambda pair: pair[0])
    left: Line = (("temp".ljust(LABEL), "muted"), (degrees(celsius), "ink"))
    critical = known(hottest.critical_celsius)
    right: Line = () if critical is None else ((f"critical {degrees(critical)}", "muted"),)
    return (row(left, right, look),)


def _energy(look: Look) -> tuple[Line, ...]:
    """Return the joules of a forward, where something counts them."""
    found = forward_energy(look.session)
    if isinstance(found, Unknown):
        return ()
    left: Line = (
        ("energy".ljust(LABEL), "muted"),
        (energy(found.joules), "ink"),
        (" per forward", "muted"),
    )
    ratio = known(found.flops_per_joule)
    right: Line = () if ratio is None else ((quantity(ratio, "FLOP/J"), "muted"),)
    return (row(left, right, look),)
