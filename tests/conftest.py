"""What holds for all tests.

1. No test reads or writes what the user who runs it has configured.
2. Threads of torch that wait do so asleep, here and in every program that is started: several run
   at the same time on few cores, and one that spins takes the core that another waits for.
3. Torch computes with one thread where a test does not ask for more.
4. Every program that is started keeps its bytecode, as it does for users: else each of them would
   compile all of ours anew.
5. A skip that ``tests/skips.py`` does not allow fails the run.
6. The collector is left as found. The explorer freezes what there is when it starts: frozen by a
   thousand tests, apps that ended stay for good, and asking how much is frozen takes a second.
7. A test that changes the memory limit or the blocked signals and does not restore them fails:
   processes that are started later inherit them.
8. While pytest collects tests, the garbage collector is off: imported objects stay, and visiting
   them again and again took a third of the time. Later a full collection, which visits all of them
   for half a second, is considered a fifth as often as Python would.
9. As pytest ends, what there is is frozen: pytest would look for garbage in it twice, Python again.
10. A test in ``TIMED`` that fails is run once more, and pytest lists it as a rerun: find out why.
    There other threads, processes and the machine's clock have their part: in the last whole runs
    one or two of 10,200 tests failed, each time others.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # Both are read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.skips"]
_NUMBERS = count()
TIMED = tuple(
    Path(__file__).parent / name
    for name in (
        "end_to_end",
        "injection",
        "probe/measure",
        "probe/watch",
        "probe/worker",
        "screens",
        "source",
        "verbs",
    )
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(*gc.get_threshold()[:2], 50)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in TIMED):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    gc.freeze()


@pytest.fixture(autouse=True)
def _nobody_at_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(tmp_path_factory.getbasetemp()) / f"home{next(_NUMBERS)}"  # made by who writes
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    for name in ("TEXTUAL_THEME", "COLORFGBG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture(scope="module", autouse=True)
def _collector_as_found() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture(scope="module")
def old_objects_frozen() -> Iterator[None]:
    """Have a full collection visit what the tests of a module make, not all that was imported.

    Not where models are traced: asking what is frozen, as every trace does, visits all of it.
    """
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _limit_and_mask_as_found() -> Iterator[None]:
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    left = resource.getrlimit(resource.RLIMIT_DATA), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    if left != (limit, mask):
        resource.setrlimit(resource.RLIMIT_DATA, limit)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        pytest.fail(f"the memory limit {limit} or blocked signals {mask} became {left}")


@pytest.fixture
def interrupts_arrive() -> Iterator[None]:
    """Heed them: whoever runs tests in the background of a script has them ignored, and children
    inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
