"""Compare predicted gains with measured ones, on the demo models and eight of torchvision.

``python benchmarks/times/advice.py run [--models A,B] [--kinds A,B] [--shard I/N] [--seconds S]
[--for SECONDS]`` tries every kind of change on every model, by the command line as a user would
(``tui-profiler try MODEL --format json``), and keeps one file per model in ``--folder``. A model
with a file is skipped, so that the benchmark can be resumed; ``--for`` starts no model after that
many seconds. ``python benchmarks/times/advice.py table`` prints what is kept as Markdown, and
with ``--write FILE`` puts it between the marks in that file.

Every pair of a trial is the original and the changed model, in turn, in one process: ratios are
reliable on a busy machine, though their intervals are wider.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEMOS = (
    *("cnn", "decoder", "detector", "dynamic", "lazy"),
    *("lstm", "moe", "shared", "transformer", "vit"),
)
TORCHVISION = (
    *("resnet50", "mobilenet_v3_small", "efficientnet_b0", "densenet121"),
    *("vgg16", "vit_b_16", "swin_t", "convnext_tiny"),
)
MODELS = (*(f"demo:{name}" for name in DEMOS), *TORCHVISION)
BEGIN, END = "<!-- advice: begin -->", "<!-- advice: end -->"
_WORDS = {
    "held": "held",
    "less": "less",
    "more": "more",
    "refuted": "**refuted**",
    "no gain": "**no gain**",
    "gained": "gained",
    "undecided": "undecided",
    None: "",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "advice")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("--models", default=",".join(MODELS))
    run.add_argument("--kinds", default="")
    run.add_argument("--shard", default="0/1")
    run.add_argument("--seconds", type=float, default=5.0)
    run.add_argument("--most-seconds", type=float, default=180.0)
    run.add_argument("--for", dest="budget", type=float, default=float("inf"))
    table = verbs.add_parser("table")
    table.add_argument("--write", type=Path)
    asked = parser.parse_args()
    return _run(asked) if asked.verb == "run" else _table(asked)


def _run(asked: argparse.Namespace) -> int:
    asked.folder.mkdir(parents=True, exist_ok=True)
    index, count = map(int, asked.shard.split("/"))
    began, failed = time.monotonic(), 0
    for model in asked.models.split(",")[index::count]:
        kept = asked.folder / f"{model.replace(':', '-')}.json"
        if kept.exists():
            continue
        if time.monotonic() - began > asked.budget:
            print("the time is over; go on with the same command", file=sys.stderr)
            break
        failed += not _tried(model, kept, asked)
    return 1 if failed else 0


def _tried(model: str, kept: Path, asked: argparse.Namespace) -> bool:
    kinds = [part for kind in filter(None, asked.kinds.split(",")) for part in ("--kind", kind)]
    limits = ["--seconds", str(asked.seconds), "--most-seconds", str(asked.most_seconds)]
    command = [sys.executable, "-m", "tui_profiler", "try", model, "--format", "json"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *kinds, *limits],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode or not done.stdout.strip():
        print(f"{model}: exit code {done.returncode}", file=sys.stderr)
        return False
    partial = kept.with_suffix(".partial")
    partial.write_text(done.stdout, encoding="utf-8")
    partial.rename(kept)  # A file that is there is whole.
    print(f"{model}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return True


def _table(asked: argparse.Namespace) -> int:
    found = [
        json.loads(path.read_text(encoding="utf-8"))
        for model in MODELS
        if (path := asked.folder / f"{model.replace(':', '-')}.json").exists()
    ]
    if not found:
        print(f"nothing is kept in {asked.folder}: run it first", file=sys.stderr)
        return 1
    text = "\n".join(_lines(found))
    if asked.write is None:
        print(text)
        return 0
    whole = asked.write.read_text(encoding="utf-8")
    before, _, rest = whole.partition(BEGIN)
    _, _, after = rest.partition(END)
    asked.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    return 0


def _lines(found: list[dict[str, Any]]) -> list[str]:
    machine = found[0]["environment"]
    lines = [
        f"{len(found)} models; {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['threads']} threads, torch {machine['torch']}.",
        "",
        *_summary(found),
        "",
        "| model | change | predicted | measured | interval | prediction | error | s |",
        "|---|---|--:|--:|--:|---|--:|--:|",
    ]
    for report in found:
        lines += [_row(report["model"], one) for one in report["trials"] if _says(one)]
    reasons: dict[tuple[str, str], list[str]] = {}
    for report in found:
        for one in report["trials"]:
            if one["speedup"] is None:
                why = f"{one['outcome']}: {one['why']}"
                reasons.setdefault((one["kind"], why), []).append(report["model"])
    if reasons:
        lines += ["", "Where nothing was measured, and why:", ""]
    lines += [f"- {kind}, {why}: {', '.join(m)}" for (kind, why), m in sorted(reasons.items())]
    return lines


def _summary(found: list[dict[str, Any]]) -> list[str]:
    """Count the verdicts of each kind."""
    kinds: dict[str, dict[str | None, int]] = {}
    for report in found:
        for one in report["trials"]:
            if one["speedup"] is not None:
                counts = kinds.setdefault(one["kind"], {})
                counts[one["verdict"]] = counts.get(one["verdict"], 0) + 1
    words = [word for word in _WORDS if any(word in counts for counts in kinds.values())]
    head = ["tried", *(word or "not advised" for word in words)]
    lines = [f"| change | {' | '.join(head)} |", "|---|" + "--:|" * len(head)]
    for kind, counts in kinds.items():
        cells = [str(sum(counts.values())), *(str(counts.get(word, "")) for word in words)]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def _says(one: dict[str, Any]) -> bool:
    """Say whether a trial has a figure, or ended although something was predicted."""
    return one["speedup"] is not None or (
        one["predicted"] is not None and one["outcome"] != "impossible"
    )


def _row(model: str, one: dict[str, Any]) -> str:
    predicted = one["predicted"]
    said = "" if predicted is None else "–"
    if predicted is not None and predicted["speedup"] is not None:
        said = f"{'≤' if predicted['is_bound'] else ''}{predicted['speedup']:.2f}×"
    if one["speedup"] is None:
        return f"| {model} | {one['kind']} | {said} | – | – | {one['outcome']} | – | – |"
    low, high = one["interval"]["low"], one["interval"]["high"]
    interval = f"{low:.2f}–{high:.2f}" if low is not None and high is not None else "–"
    error = one["error"]
    off = "–" if error is None or error["relative"] is None else f"{error['relative']:.1e}"
    off = "0" if error is not None and error["relative"] == 0 else off
    once = f"{one['change_s']:.0f}" if one["change_s"] >= 1 else ""
    word = _WORDS[one["verdict"]]
    speedup = f"{one['speedup']:.2f}×" if one["speedup"] >= 0.095 else f"{one['speedup']:.2g}×"
    return (
        f"| {model} | {one['kind']} | {said} | {speedup} | {interval} | {word} | {off} | {once} |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
