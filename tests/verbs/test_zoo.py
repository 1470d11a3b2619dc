"""``report --all``: which models, which files, what is skipped, what a crash costs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace
from referencing import Registry, Resource

from screens.cli.main import main
from tests.recorded_source import Recorded
from tests.small_model import FACTS, NODES, TRACED
from tests.worker import spec as real_spec
from tui_profiler import messages
from tui_profiler.reports.json.zoo_files import Shard, asked, in_shard, parse_shard, stem
from tui_profiler.source.forked import Forked, Template
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.zoo import Job, Made, files, is_there, keep, lost, make, progress, zoo
from tui_profiler.verbs.zoo_ray import LOCAL, RayError, zoo_on_ray

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA = json.loads((DOCS / "zoo.schema.json").read_text())
REPORT = json.loads((DOCS / "report.schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(
    SCHEMA, registry=Registry().with_resource("report.schema.json", Resource.from_contents(REPORT))
)
DIED = (messages.StageStarted("trace", 2.0), messages.Ended(-9, expected=False, last_line="Killed"))


def job(
    name: str = FACTS.name, *, version: str = "1.0", timeout: float = 120.0, runs: bool = False
) -> Job:
    spec = messages.LoadSpec(name, run=runs)
    origin = {"version": version, "libraries": {}, "asked": asked(spec, None), "jobs": 1}
    return Job(spec, None, timeout, origin)  # type: ignore[arg-type] # a dict is one of Json


def begin(*told: messages.Message) -> Recorded:
    return Recorded(told)


def made(*told: messages.Message, of: Job | None = None) -> Made:
    return asyncio.run(make(of or job(), lambda _: begin(*told)))


def named(name: str) -> list[messages.Message]:
    return [replace(m, name=name) if isinstance(m, messages.ModelFacts) else m for m in TRACED]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_shards_are_the_whole_and_nothing_twice(count: int) -> None:
    names = [f"model{number}" for number in range(13)]
    shards = [in_shard(names, Shard(index, count)) for index in range(count)]
    assert sorted(name for shard in shards for name in shard) == sorted(names)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4/4", "shards count from 0: of 4 they are 0/4 to 3/4, not 4/4"),
        ("1", "of the form 0/4"),
        ("-1/4", "of the form 0/4"),
        ("a/b", "of the form 0/4"),
        ("0/0", "at least one shard"),
    ],
)
def test_a_shard_that_is_none_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("/", "/")):
        parse_shard(text)


def test_no_two_models_have_one_file() -> None:
    names = [
        "demo:cnn",
        "demo-cnn",
        "demo::cnn",
        "../cnn",
        "cnn",
        "a/b",
        "a b",
        "x" * 500,
        "x" * 400,
    ]
    stems = [stem(name) for name in names]
    assert len(set(stems)) == len(names) - 1  # The prefix of a source is written as a dash.
    assert stem("demo:cnn") == "demo-cnn"
    assert all("/" not in one and not one.startswith(".") and len(one) < 200 for one in stems)


def test_a_report_is_a_file_that_follows_the_schema(tmp_path: Path) -> None:
    found = made(*TRACED)
    assert found.code == 0
    path = keep(found, tmp_path)
    read = json.loads(path.read_text())
    CHECK.validate(read)
    assert len(read["layers"]) == len(NODES)
    assert read["zoo"]["version"] == "1.0"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("told", "what", "has_report"),
    [
        (
            DIED,
            "the worker was ended by SIGKILL (sender not known) during trace; last output: Killed",
            False,
        ),
        (
            (*TRACED, messages.Failed("run", "out of memory", why="it wanted 40 GiB")),
            "run: out of memory",
            True,
        ),
        (
            (
                messages.Failed(
                    "load model",
                    "no such width",
                    remedies=(messages.Remedy("--args '[1]'", "fits"),),
                ),
            ),
            "load model: no such width",
            False,
        ),
    ],
    ids=["died", "failed while running", "not loaded"],
)
def test_a_failure_is_a_file_as_well(
    told: tuple[messages.Message, ...], what: str, has_report: bool, tmp_path: Path
) -> None:
    found = made(*told, of=job(runs=True))
    assert (found.code, found.what) == (1, what)
    path = keep(found, tmp_path)
    assert path.name == "net.py-build.failed.json"
    read = json.loads(path.read_text())
    CHECK.validate(read)
    assert read["what"] == what
    assert (read["report"] is not None) == has_report


def test_a_worker_that_says_nothing_more_is_stopped_and_told() -> None:
    late = made(*TRACED[:3], of=job(timeout=0.05))
    assert late.what == "stopped after 50.0 ms"
    CHECK.validate(json.loads(late.text))


def test_a_job_that_did_not_come_back_is_a_failure() -> None:
    CHECK.validate(json.loads(lost(job(), "Ray: the node died\x1b[31m", 1).text))


def test_a_good_file_takes_the_place_of_a_failure_and_the_other_way_round(tmp_path: Path) -> None:
    good, bad = files(FACTS.name, tmp_path)
    keep(made(*DIED), tmp_path)
    keep(made(*TRACED), tmp_path)
    assert (good.exists(), bad.exists()) == (True, False)
    keep(made(*DIED), tmp_path)
    assert (good.exists(), bad.exists()) == (False, True)


def test_what_is_there_is_skipped_only_when_it_is_whole_and_the_same(tmp_path: Path) -> None:
    assert not is_there(job(), tmp_path)
    path = keep(made(*TRACED), tmp_path)
    assert is_there(job(), tmp_path)
    assert not is_there(job(version="1.1"), tmp_path)
    other = job()
    of_batch_four = {
        **other.origin,
        "asked": asked(messages.LoadSpec(FACTS.name, run=False, batch=4), None),
    }
    assert not is_there(replace(other, origin=of_batch_four), tmp_path)
    path.write_text(path.read_text()[:-100])
    assert not is_there(job(), tmp_path)
    keep(made(*DIED), tmp_path)
    assert not is_there(job(), tmp_path)


class Crowd:
    """Counts the workers that there are at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def begin(self, request: messages.Request) -> Recorded:
        assert isinstance(request, messages.Start)
        self.now += 1
        self.most = max(self.most, self.now)
        return _Counted(self, named(request.spec.model))


class _Counted(Recorded):
    def __init__(self, crowd: Crowd, said: list[messages.Message]) -> None:
        super().__init__(said)
        self._crowd = crowd

    async def close(self) -> None:
        self._crowd.now -= 1
        await super().close()


@pytest.mark.parametrize(("has_room", "most"), [(True, 3), (False, 1)])
def test_there_are_as_many_workers_as_are_asked_for_and_fit(has_room: bool, most: int) -> None:
    crowd, kept = Crowd(), list[Made]()
    jobs = [job(f"model{number}") for number in range(7)]
    asyncio.run(zoo(jobs, crowd.begin, at_once=3, has_room=lambda: has_room, kept=kept.append))
    assert crowd.most == most
    assert sorted(one.name for one in kept) == [one.name for one in jobs]


def test_progress_tells_how_far_it_is() -> None:
    bad = Made("a", "", 1.0, 1, "no such\x1bwidth")
    assert progress(Made("a", "", 1.5, 0), 3, 12, took_seconds=30.0) == (
        "3/12 a: 1.50 s; about 1m 30s left"
    )
    assert progress(bad, 12, 12, took_seconds=30.0) == "12/12 a: failed: no such\\x1bwidth"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo:cnn", "--shard", "0/2"], "--shard needs --all"),
        (["demo:cnn", "--jobs", "2"], "--jobs needs --all"),
        (["--all", "demo"], "needs --output DIR"),
        (["--all", "demo", "demo:cnn", "--output", "x"], "excludes MODEL"),
        (["--all", "demo", "--output", "/dev/null"], "is not a directory"),
        (["--all", "demo", "--output", "x", "--format", "csv"], "omit --format"),
        (["--all", "nothing", "--output", "x"], "Invalid value for '--all'"),
    ],
)
def test_rubbish_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_shard_that_is_none_is_refused_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "zoo"
    assert main(["report", "--all", "demo", "--output", str(folder), "--shard", "2/2"]) == 2
    assert "shards count from 0" in capsys.readouterr().err
    assert not folder.exists()


def test_a_source_that_is_not_installed_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "timm.py").touch()  # In place of the real one, and without its models.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "deep" / "zoo"
    assert main(["report", "--all", "timm", "--output", str(folder)]) == 2
    assert "zoo: try pip install 'tui-profiler[timm]'" in capsys.readouterr().err
    assert not folder.parent.exists()


def test_a_folder_in_a_file_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["report", "--all", "demo", "--output", str(tmp_path / "file" / "zoo")]) == 2
    captured = capsys.readouterr().err
    assert "is not a directory and cannot be created" in " ".join(captured.split())


async def test_a_forked_worker_s_report_is_that_of_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fatal.py").write_text(
        "import os, torch\n\ndef build():\n    print('no width', flush=True)\n    os._exit(3)\n"
    )
    wanted = replace(job(), spec=real_spec("demo:lazy", run=False), timeout=60)
    fatal = replace(wanted, spec=real_spec("fatal.py:build", tmp_path, run=False))
    kept: list[Made] = []
    with Template(["torch", "tui_profiler.probe.worker.run"]) as template:
        started = await make(wanted, lambda request: Spawned(worker_command(), first=[request]))
        template.wait()
        await zoo(
            *([fatal, wanted], lambda request: Forked(template, [request])),
            at_once=1,
            has_room=lambda: True,
            kept=kept.append,
        )
    died, forked = kept
    assert died.what == (
        "the worker ended with exit code 3 during load model; last output: no width"
    )
    reports = [json.loads(keep(one, tmp_path).read_text()) for one in (started, forked)]
    for report in reports:
        CHECK.validate(report)
        del report["zoo"]["seconds"]
    assert reports[0] == reports[1]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_it_is_said_and_no_folder_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "zoo"
    assert main(["report", "--all", "demo", "--output", str(folder), "--ray", LOCAL]) == 2
    assert "Ray is not installed. pip install" in " ".join(capsys.readouterr().err.split())
    assert not folder.exists()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_an_address_without_a_cluster_is_refused_at_once() -> None:
    with socket.socket() as taken:  # Bound, and no one listens.
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(RayError, match=r"there is no cluster at 127\.0\.0\.1:"):
            zoo_on_ray(
                [job()], f"127.0.0.1:{taken.getsockname()[1]}", at_once=1, kept=lambda _: None
            )


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_makes_the_same_files() -> None:
    kept: list[Made] = []
    jobs = [
        replace(job(), spec=real_spec(name, run=False)) for name in ("demo:lazy", "demo:nowhere")
    ]
    zoo_on_ray(jobs, LOCAL, at_once=2, kept=kept.append)
    by_name = {one.name: one for one in kept}
    assert by_name["demo:lazy"].code == 0
    assert by_name["demo:nowhere"].what.startswith("load model: there is no demo model")
    for one in kept:
        CHECK.validate(json.loads(one.text))
