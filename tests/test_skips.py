"""A skip that the table of ``tests/skips.py`` does not allow fails the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skips import ALLOWED, why_not

pytest_plugins = "pytester"
RAY = "Ray is not installed"


def test_a_skip_is_allowed_for_its_file_and_reason_only() -> None:
    assert why_not("verbs/test_sweep.py", RAY) == "not in the table of tests/skips.py"
    assert why_not("verbs/test_zoo.py", "later") == "not in the table of tests/skips.py"


@pytest.mark.parametrize("installed", [False, True])
def test_a_skip_is_allowed_while_the_machine_lacks_what_it_names(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {"tmux"} if installed else set()
    monkeypatch.setattr("shutil.which", lambda name: name if name in programs else None)
    why = why_not("screens/terminal/test_clipboard.py", "tmux is not installed")
    assert why == ("this machine has what the test needs" if installed else "")


def test_every_condition_of_the_table_can_be_asked_here() -> None:
    assert all(isinstance(one.holds(), bool) for one in ALLOWED)


def test_a_run_with_such_a_skip_fails_and_names_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    folder = pytester.mkdir("checks")
    (folder / "test_a.py").write_text(
        "import pytest\ndef test_one():\n    pytest.skip('later')\n"
        "@pytest.mark.xfail\ndef test_two():\n    assert 0"
    )
    (folder / "test_b.py").write_text("import pytest\npytest.importorskip('nosuch')")
    (folder / "test_c.py").write_text("def test_three():\n    pass")

    run = pytester.runpytest_subprocess("-p", "tests.skips")

    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.stdout.fnmatch_lines(
        [
            "checks/test_b.py: *nosuch* (not in the table of tests/skips.py)",
            "checks/test_a.py::test_one: Skipped: later (not in the table of tests/skips.py)",
        ]
    )
    run.assert_outcomes(passed=1, skipped=2, xfailed=1)
