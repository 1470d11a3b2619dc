"""What was asked for, beside the stages while a model is on its way."""

from tui_profiler.figures.units import UNAVAILABLE
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.panel.phrases import device_text, input_text, model_name
from tui_profiler.session import Session

from ...widgets.lines import EMPTY, Line
from ...widgets.machine_lines import machine_lines
from ...widgets.rows import Look, finished, labelled, row, words

_NO_WEIGHTS = "random (--weights for trained)"
_WITH_RANDOM = ("timm", "hf")
"""Sources whose architectures have random weights unless others are asked for."""
_ASKED = "from the command line"
_OBSERVED = {
    "script": "script, waiting for the first forward",
    "module": "script, waiting for the first forward",
    "program": "attached, waiting for the first forward",
}


def request_lines(look: Look, rows: int, spec: LoadSpec | None = None) -> tuple[Line, ...]:
    """Return what was asked for, the machine pinned below it; exactly ``rows`` lines."""
    facts = _facts(look.session, spec)
    above = (
        row(((model_name(look.session, spec), "strong ink"),), EMPTY, look),
        *words(_OBSERVED[spec.observed] if spec is not None and spec.observed else _ASKED, look),
        EMPTY,
        *(
            line
            for label, value in facts
            for line in labelled(label, value or look.glyphs.dash, look)
        ),
    )
    machine = machine_lines(look)
    room = max(rows - len(machine) - 1, 0)
    blank = (EMPTY,) * (max(room - len(above), 0) + 1)
    return finished((*above[:room], *blank, *machine), look, rows)


def _facts(session: Session, spec: LoadSpec | None) -> tuple[tuple[str, str], ...]:
    model = session.model
    asked = spec or LoadSpec("")
    if asked.observed and model is None:
        return _observed(session, asked)
    shapes = input_text(session)
    why = f", by {safe(model.inputs[0].why)}" if model is not None and model.inputs else ""
    device = device_text(session) or _device(session, asked)
    no_batch = ""
    if model is not None and model.batch is None and model.why_no_batch:
        no_batch = f"{UNAVAILABLE}: {safe(model.why_no_batch)}"
    return (
        ("source", safe(model.source) if model is not None else _source(asked.model)),
        (
            "weights",
            safe(model.weights if model is not None else asked.weights) or _weights(asked.model),
        ),
        (
            "input",
            shapes + why if shapes else safe(" ".join(asked.inputs)) or "…  inferred after loading",
        ),
        *((("batch", no_batch),) if no_batch else ()),
        ("device", device),
        ("tracer", safe(asked.tracer)),
    )


def _observed(session: Session, asked: LoadSpec) -> tuple[tuple[str, str], ...]:
    """Return what is known of a program before the first forward of its model."""
    program = session.hello.program if session.hello is not None else None
    name = safe(asked.model)
    source = {"script": name, "module": f"python -m {name}"}.get(asked.observed, "")
    if program is not None:
        source = f"{source or safe(program.command)}, pid {program.pid}"
    unknown = "…  after the first forward"
    return (("source", source or "…"), ("weights", unknown), ("input", unknown))


def _weights(model: str) -> str:
    is_named = model.isidentifier() or model.partition(":")[0] in _WITH_RANDOM
    return _NO_WEIGHTS if is_named else "…  known after loading"


def _source(model: str) -> str:
    name, colon, attribute = model.partition(":")
    if name == "demo" and colon:
        return f"demo model {safe(attribute)}"
    if colon:
        return f"{safe(attribute)} of {safe(name)}"
    return f"torchvision.models.{safe(model)}" if model.isidentifier() else safe(model)


def _device(session: Session, spec: LoadSpec) -> str:
    threads = session.environment.threads if session.environment is not None else spec.threads
    counted = f", {threads} thread{'' if threads == 1 else 's'}" if threads else ""
    return safe(spec.device) + counted
