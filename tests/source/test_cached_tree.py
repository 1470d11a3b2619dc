"""What is remembered of last time: the same request finds it, nothing else, and never damaged."""

from __future__ import annotations

import asyncio
import os
import pickle
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.recording.files import fixture, plain, write
from tests.small_model import DONE, FACTS, MEASURED, TRACED, folded
from tui_profiler import messages
from tui_profiler.session import Remembered
from tui_profiler.source import Told
from tui_profiler.source import cached_tree_files as files
from tui_profiler.source.cached_tree import CachedTreeSource
from tui_profiler.source.cached_tree_files import (
    keep,
    recall,
    recent,
)
from tui_profiler.source.cached_tree_key import key_of, touched, versions

SPEC = messages.LoadSpec("resnet50")
KEPT = (
    messages.StageDone,
    messages.ModelFacts,
    messages.TraceStarted,
    messages.Nodes,
    messages.TraceDone,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tui-profiler" / "remembered"


def parts(messages: Sequence[messages.Message]) -> list[messages.Message]:
    return [message for message in messages if isinstance(message, KEPT)]


SMALL = parts(TRACED)


def kept(cache: Path) -> list[Path]:
    return list(cache.iterdir()) if cache.exists() else []


def only_file(cache: Path) -> Path:
    (path,) = cache.iterdir()
    return path


async def told(source: CachedTreeSource, until: int | None = None) -> list[Told]:
    found: list[Told] = []
    async for message in source.messages():
        found.append(message)
        if len(found) == until:
            break
    return found


def test_the_same_request_gives_the_same_tree() -> None:
    traced = [m for m in recorded() if type(m).__name__ in (*(t.__name__ for t in KEPT), "Edges")]
    assert keep(SPEC, traced) == ""
    found, why = recall(replace(SPEC, started_at=5.0, budget=0.5, folder="/"))
    assert why == ""
    assert found is not None
    assert plain(found.tree) == plain(folded(tuple(recorded())).tree)
    assert found.model is not None
    assert found.model.name == "resnet50"
    assert 0 <= found.age_seconds < 60
    assert dict(found.stages)["import torch"] > 0


@pytest.mark.parametrize(
    "other", [{"batch": 2}, {"weights": "DEFAULT"}, {"dtype": "bfloat16"}, {"tracer": "fx"}]
)
def test_another_request_for_the_model_gives_the_stages_alone(other: dict[str, object]) -> None:
    keep(SPEC, SMALL)
    found, why = recall(replace(SPEC, **other))
    assert why == ""
    assert found is not None
    assert (found.tree, found.model, found.phases) == (None, None, ())
    assert found.stages == (("import torch", 1.5),)


@pytest.mark.parametrize("other", [{"model": "resnet18"}, {"device": "cuda"}])
def test_another_model_or_device_gives_nothing(other: dict[str, object]) -> None:
    keep(SPEC, SMALL)
    assert recall(replace(SPEC, **other)) == (None, "")


@pytest.mark.parametrize("model", ["net.py:build", "./net.py", "net:build"])
def test_a_file_that_has_changed_is_another_request(model: str, tmp_path: Path) -> None:
    code = tmp_path / "net.py"
    code.write_text("import torch\n")
    os.utime(code, ns=(10, 10))
    spec = messages.LoadSpec(model, folder=str(tmp_path))
    keep(spec, SMALL)
    before, _ = recall(spec)
    assert before is not None
    assert before.tree is not None
    os.utime(code, ns=(11, 11))
    after, _ = recall(spec)
    assert after is not None
    assert after.tree is None
    assert recall(replace(spec, folder="/")) == (None, "")


def test_a_folder_speaks_for_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "config.json").write_text("{}")
    spec = messages.LoadSpec("hf:net", folder=str(tmp_path))
    before = touched(spec)
    assert [Path(path).name for path, _, _ in before] == ["net", "config.json"]
    (tmp_path / "net" / "config.json").write_text("{ }")
    assert touched(spec) != before
    assert touched(messages.LoadSpec("resnet50", folder=str(tmp_path))) == ()


def test_versions_are_those_that_an_import_would_find(tmp_path: Path) -> None:
    for place, name in (("a", "torch-2.9.dist-info"), ("b", "torch-3.0.dist-info")):
        (tmp_path / place / name).mkdir(parents=True)
    (tmp_path / "b" / "timm-1.0.22.dist-info").mkdir()
    (tmp_path / "b" / "torch_other-1.dist-info").mkdir()
    folders = [str(tmp_path / name) for name in ("none", "a", "b")]
    assert versions(folders) == (("timm", "1.0.22"), ("torch", "2.9"))


def test_the_installed_versions_are_found() -> None:
    import sys
    from importlib.metadata import version

    found = dict(versions(sys.path))
    assert found["torch"] == version("torch")
    assert found["torchvision"] == version("torchvision")


def test_only_the_user_may_read_it(cache: Path) -> None:
    keep(SPEC, SMALL)
    assert stat.S_IMODE(only_file(cache).stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_damage_anywhere_leaves_nothing_and_says_so(cache: Path) -> None:
    keep(SPEC, SMALL)
    path = only_file(cache)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(len(whole) // 60, 1)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x55,)) + whole[at + 1 :])
        found, why = recall(SPEC)
        assert found is None, at
        assert path.name in why
        path.write_bytes(whole[:at])
        assert recall(SPEC)[0] is None
    path.write_bytes(whole)
    assert recall(SPEC)[0] is not None


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.environ["XDG_CACHE_HOME"] + "/exploded",)


def test_what_is_not_ours_is_ignored_with_the_reason(cache: Path, tmp_path: Path) -> None:
    keep(SPEC, SMALL)
    path = only_file(cache)
    path.write_bytes(pickle.dumps(Bomb()))
    assert recall(SPEC)[0] is None
    assert not (tmp_path / "cache" / "exploded").exists()
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file of this user" in recall(SPEC)[1]
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert recall(SPEC)[0] is None
    path.unlink()
    path.mkdir()
    assert recall(SPEC)[0] is None
    path.rmdir()
    write(path, fixture())  # A recording, and of that model: but it holds times.
    assert "it contains something that is not a trace" in recall(SPEC)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_not_read(cache: Path) -> None:
    keep(SPEC, SMALL)
    os.chown(only_file(cache), 1234, -1)
    found, why = recall(SPEC)
    assert found is None
    assert why.endswith(": it is not a regular file of this user")


def test_a_place_that_cannot_be_written_is_said(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("")
    assert "remembered" in keep(SPEC, SMALL)
    assert recall(SPEC) == (None, "")
    assert recent() == []


def test_there_are_never_more_than_so_many(cache: Path) -> None:
    for number in range(files.MOST_FILES + 3):
        spec = messages.LoadSpec(f"net{number}")
        assert keep(spec, ()) == ""
        os.utime(cache / "{}-{}.trace".format(*key_of(spec)), (number, number))
    assert len(list(cache.iterdir())) == files.MOST_FILES
    assert recall(messages.LoadSpec("net0"))[0] is None
    for batch in range(1, files.MOST_OF_A_KIN + 3):
        keep(messages.LoadSpec("mine", batch=batch), ())
    kin = key_of(messages.LoadSpec("mine")).kin
    assert len(list(cache.glob(f"{kin}-*"))) == files.MOST_OF_A_KIN
    assert len(list(cache.iterdir())) <= files.MOST_FILES


def test_the_last_one_opened_comes_first(cache: Path) -> None:
    for age, spec in enumerate((SPEC, messages.LoadSpec("vit_b_16", batch=2), SPEC)):
        keep(spec, SMALL)
        os.utime(cache / "{}-{}.trace".format(*key_of(spec)), (age, age))
    assert [one.spec for one in recent()] == [SPEC, messages.LoadSpec("vit_b_16", batch=2)]


async def test_last_time_is_told_first_and_then_what_the_worker_says() -> None:
    assert await told(CachedTreeSource(Recorded(MEASURED, ends=True), SPEC)) == list(MEASURED)
    found = await told(CachedTreeSource(Recorded(MEASURED, ends=True), SPEC))
    assert isinstance(found[0], Remembered)
    assert plain(found[0].tree) == plain(folded(TRACED).tree)
    assert found[1:] == list(MEASURED)


async def test_what_was_asked_for_before_is_not_told_again() -> None:
    keep(SPEC, SMALL)
    source = CachedTreeSource(Recorded(MEASURED, ends=True), SPEC)
    found = source.known(60.0)
    assert found is not None
    assert plain(found.tree) == plain(folded(TRACED).tree)
    assert await told(source) == list(MEASURED)


async def test_what_is_damaged_is_not_known_and_told_to_the_log(cache: Path) -> None:
    keep(SPEC, SMALL)
    only_file(cache).write_bytes(b"?")
    source = CachedTreeSource(Recorded(TRACED, ends=True), SPEC)
    assert source.known(60.0) is None
    first, *_ = await told(source)
    assert isinstance(first, messages.Printed)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
async def test_who_leaves_while_it_is_read_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(SPEC, SMALL)
    only_file(cache).write_bytes(b"?")
    is_read, may_go_on = threading.Event(), threading.Event()

    def stat_slowly(path: Path) -> os.stat_result:
        is_read.set()
        may_go_on.wait(60.0)
        return os.lstat(path)

    monkeypatch.setattr(Path, "lstat", stat_slowly)
    source = CachedTreeSource(Recorded(TRACED, ends=True), SPEC)
    reading = asyncio.create_task(told(source))
    await asyncio.to_thread(is_read.wait, 60.0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    may_go_on.set()
    assert source.known(60.0) is None


async def test_what_cannot_be_used_is_told_to_the_log(cache: Path) -> None:
    keep(SPEC, SMALL)
    only_file(cache).write_bytes(b"?")
    first, *rest = await told(CachedTreeSource(Recorded(TRACED, ends=True), SPEC))
    assert isinstance(first, messages.Printed)
    assert "the cached tree cannot be used" in first.text
    assert rest == list(TRACED)


@pytest.mark.parametrize("first", [TRACED, MEASURED], ids=["before figures", "after figures"])
async def test_a_batch_asked_for_later_is_not_kept(first: tuple[messages.Message, ...]) -> None:
    other = replace(FACTS, batch=8)
    again = [m for m in TRACED if isinstance(m, KEPT[2:])]
    source = CachedTreeSource(Recorded([*first, other, *again, *MEASURED[-3:]], ends=True), SPEC)
    await told(source)
    await source.close()
    found, _ = recall(SPEC)
    assert found is not None
    assert found.model == FACTS
    assert found.stages == (("import torch", 1.5),)


async def test_one_that_is_left_early_is_kept_where_nothing_was_known(cache: Path) -> None:
    source = CachedTreeSource(Recorded(TRACED, ends=True), SPEC)
    await told(source)
    assert kept(cache)  # Also by who is killed now.
    await source.close()
    before = only_file(cache).read_bytes()
    again = CachedTreeSource(Recorded(TRACED, ends=True), SPEC)
    await told(again)
    await again.close()
    assert only_file(cache).read_bytes() == before


@pytest.fixture
def no_cache(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("")


@pytest.mark.usefixtures("no_cache")
async def test_a_tree_that_cannot_be_kept_is_told_before_any_figure_and_once() -> None:
    for all_told in (TRACED, MEASURED):
        said = await told(CachedTreeSource(Recorded(all_told, ends=True), SPEC))
        printed = [one.text for one in said if isinstance(one, messages.Printed)]
        assert len(printed) == 1
        assert "this tree is not cached" in printed[0]


async def test_a_trace_that_did_not_end_is_not_kept(cache: Path) -> None:
    source = CachedTreeSource(Recorded([m for m in TRACED if m is not DONE], ends=True), SPEC)
    await told(source)
    await source.close()
    assert not kept(cache)
