"""The benchmark of coverage tells what failed, and cannot be held up by a model."""

from __future__ import annotations

from pathlib import Path

from benchmarks.costs.coverage import FAMILIES, Outcome, Subject, in_a_process, table, timm_subjects
from tui_profiler.messages import LoadSpec

HANGS = "import time\n\ndef build():\n    time.sleep(60)\n"
DIES = "import os, signal\n\ndef build():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
RAISES = "def build():\n    raise ValueError('no model today')\n"
WORKS = "from torch import nn\n\ndef build():\n    return nn.Linear(4, 2)\n"


def outcome_of(folder: Path, code: str, *, seconds: float = 60.0) -> Outcome:
    (folder / "net.py").write_text(code)
    spec = LoadSpec(model="net.py:build", folder=str(folder), threads=1)
    return in_a_process(Subject("own", "net", spec), running=True, seconds=seconds, gib=64.0)


def test_a_model_that_works_is_traced_and_run(tmp_path) -> None:
    outcome = outcome_of(tmp_path, WORKS)
    assert (outcome.method, outcome.run, outcome.parameters) == ("dispatch:fake", "ran", 10)


def test_what_goes_wrong_is_told(tmp_path) -> None:
    assert "no model today" in outcome_of(tmp_path, RAISES).failure
    assert outcome_of(tmp_path, DIES).failure == "its process ended with -9"
    assert outcome_of(tmp_path, HANGS, seconds=0.5).failure == "took more than 0.5 s"


def test_the_table_counts_what_was_tried_and_names_what_failed() -> None:
    text = table(
        [
            Outcome("own", "good", "dispatch:fake", 0.5, 1.5),
            Outcome("own", "bad", failure="LoadError: gone"),
            Outcome("own", "late", "dispatch:fake", 1.0, 3.0, run="RuntimeError: no"),
        ]
    )
    assert "own                               3       2      3.00    4.00  dispatch:fake 2" in text
    assert "NOT TRACED  own bad: LoadError: gone" in text
    assert "NOT RUN     own late: RuntimeError: no" in text


def test_a_seed_gives_one_sample() -> None:
    first, again, other = (timm_subjects(seed, 60) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({subject.name for subject in first}) == 60


def test_every_family_has_models() -> None:
    for subjects in FAMILIES.values():
        assert subjects(0, 5)
