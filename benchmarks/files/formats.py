"""Every format of ``report``, over every demo model and 20 architectures of torchvision.

``python -m benchmarks.files.formats --results FILE [--shard I/N] [MODEL]...`` reports each model
twice, each time from a worker of its own, in every format, and nothing is measured. What is written
is read by readers that are not ours: JSON by jsonschema with ``docs/report.schema.json``, CSV by
Python, Markdown by markdown-it, the Perfetto trace by the classes that are made from Perfetto's
schema. The two runs must give the same bytes; ``table`` may differ, which tells how long tracing
took.

A line for each model is added to FILE; models that are in it already are left out, so that it can
be stopped and gone on with, and its parts can be put together. Afterwards a table of all of FILE is
printed; the exit code is 1 where something is not as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema

from tests.reports.reading import cells, read_trace
from tui_profiler.formatting.text import width
from tui_profiler.messages import LoadSpec, Start
from tui_profiler.reports.csv import NODE_COLUMNS, csv_model
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.table import table
from tui_profiler.session import Session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.report import report

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
)
COLUMNS_OF_TEXT = 100
TORCHVISION = (
    *("alexnet", "vgg16", "squeezenet1_1", "googlenet", "inception_v3", "resnet18", "resnet50"),
    *("resnext50_32x4d", "wide_resnet50_2", "densenet121", "mobilenet_v2", "mobilenet_v3_small"),
    *("shufflenet_v2_x1_0", "mnasnet1_0", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny"),
    *("vit_b_16", "swin_t", "maxvit_t"),
)
DEMOS = tuple(f"demo:{path.stem}" for path in sorted((ROOT / "demo_models").glob("[!_]*.py")))


def as_table(session: Session) -> bytes:
    return "\n".join(table(session, columns=COLUMNS_OF_TEXT)).encode()


WRITERS: dict[str, Callable[[Session], bytes]] = {
    "table": as_table,
    "text": lambda session: full_text(session, columns=COLUMNS_OF_TEXT).encode(),
    "json": lambda session: json_report(session).encode(),
    "csv": lambda session: csv_model(session, with_titles=True).encode(),
    "markdown": lambda session: full_markdown(session).encode(),
    "perfetto": lambda session: perfetto_trace(session, 1),
}
MAY_DIFFER = ("table",)


def read_text(written: bytes) -> None:
    for line in written.decode().splitlines():
        assert line.isprintable(), repr(line)
        assert width(line) <= COLUMNS_OF_TEXT, line


def read_json(written: bytes) -> None:
    assert written.decode("ascii").isprintable()
    SCHEMA.validate(json.loads(written))


def read_csv(written: bytes) -> None:
    rows = list(csv.reader(io.StringIO(written.decode(), newline="")))
    assert rows[0] == ["model", *NODE_COLUMNS]
    for row in rows[1:]:
        assert len(row) == len(rows[0]), row
        assert not any(cell.lstrip().startswith(tuple("=+-@\t\r")) for cell in row), row


def read_markdown(written: bytes) -> None:
    assert all(line.isprintable() for line in written.decode().splitlines())
    assert all(len(row) >= 2 for row in cells(written.decode()))


READERS: dict[str, Callable[[bytes], object]] = {
    "table": read_text,
    "text": read_text,
    "json": read_json,
    "csv": read_csv,
    "markdown": read_markdown,
    "perfetto": read_trace,
}


async def once(model: str) -> Session:
    """Trace a model in a worker, as the command line does."""
    spec = LoadSpec(model, run=False, folder=str(ROOT), started_at=time.time())
    source = Spawned(worker_command(), first=[Start(spec)])
    return await report(source, measuring=False, progress=lambda line: None)


def tried(model: str) -> dict[str, object]:
    """Return the result of one model: bytes and seconds per format, and errors."""
    first, second = asyncio.run(once(model)), asyncio.run(once(model))
    found: dict[str, object] = {"model": model, "nodes": 0, "formats": {}, "wrong": []}
    wrong: list[str] = []
    if first.tree is None or second.tree is None:
        what = first.failure.what if first.failure is not None else "it has no tree"
        return {**found, "wrong": [f"not traced: {what}"]}
    formats: dict[str, dict[str, float]] = {}
    for layout, write in WRITERS.items():
        began = time.perf_counter()
        written = write(first)
        formats[layout] = {"bytes": len(written), "seconds": time.perf_counter() - began}
        if layout not in MAY_DIFFER and written != write(second):
            wrong.append(f"{layout}: two runs differ")
        try:
            READERS[layout](written)
        except Exception as error:  # Whatever a reader raises is the result.
            wrong.append(f"{layout}: {type(error).__name__}: {str(error).splitlines()[0][:200]}")
    return {**found, "nodes": len(first.tree), "formats": formats, "wrong": wrong}


def printed(results: list[dict]) -> int:
    """Print all results and return how many models were not as they must be."""
    heads = "".join(f"{layout:>12}" for layout in WRITERS)
    print(f"{'model':<22}{'nodes':>7}{heads}   read, and the same twice")
    for one in results:
        sizes = "".join(
            f"{one['formats'][layout]['bytes'] / 1024:>8.1f} KiB"
            if one["formats"]
            else f"{'–':>12}"
            for layout in WRITERS
        )
        verdict = "; ".join(one["wrong"]) or "yes"
        print(f"{one['model']:<22}{one['nodes']:>7}{sizes}   {verdict}")
    slowest = {
        layout: max(
            (one["formats"][layout]["seconds"] for one in results if one["formats"]), default=0
        )
        for layout in WRITERS
    }
    took = "".join(f"{seconds * 1e3:>9.0f} ms" for seconds in slowest.values())
    print(f"{'slowest to write':<29}{took}")
    bad = sum(bool(one["wrong"]) for one in results)
    print(f"{len(results)} models, {len(results) - bad} as they must be, {bad} not")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--shard", default="1/1", help="this part of so many: 1/4")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    number, _, parts = options.shard.partition("/")
    wanted = (options.models or [*DEMOS, *TORCHVISION])[int(number) - 1 :: int(parts)]
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    results = [json.loads(line) for line in lines]
    done = {one["model"] for one in results}
    for model in wanted:
        if model in done:
            continue
        results.append(tried(model))
        with options.results.open("a") as kept:
            kept.write(json.dumps(results[-1]) + "\n")
        print(f"{model}: {'; '.join(results[-1]['wrong']) or 'yes'}", file=sys.stderr, flush=True)
    return 1 if printed(results) else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
