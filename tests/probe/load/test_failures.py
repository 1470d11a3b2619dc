"""Everything that can be wrong with the user's own code, each one sentence and a remedy."""

import pytest

from tests.probe.load.test_python_models import NET, failed_in, folder, load_in, write

__all__ = ["folder"]


def line_of(path, text):
    lines = path.read_text().splitlines()
    return f"{path}:{next(i for i, line in enumerate(lines, 1) if text in line)}"


def commands(failed):
    return [remedy.command for remedy in failed.remedies]


def test_a_missing_file_offers_those_beside_it(folder):
    write(folder / "nets" / "model.py", NET)
    failed = failed_in(folder, "nets/modle.py:Net")
    assert failed.bad_argument
    assert failed.what == f"there is no file modle.py in {folder / 'nets'}"
    assert commands(failed) == ["tui-profiler nets/model.py"]
    failed = failed_in(folder, "absent/model.py")
    assert failed.bad_argument
    assert f"nor the folder {folder / 'absent'}" in failed.what


def test_a_file_without_the_object_lists_what_it_has(folder):
    write(folder / "m1.py", NET, "def build_small(): return Net(2)")
    failed = failed_in(folder, "m1.py:build_smal")
    assert failed.bad_argument
    assert failed.what == 'm1.py has no "build_smal"; it has Net, build_small'
    assert commands(failed)[0] == "tui-profiler m1.py:build_small"


def test_an_absent_module_is_a_wrong_request(folder):
    failed = failed_in(folder, "no_such_package.nets:build")
    assert failed.bad_argument
    assert 'no module "no_such_package"' in failed.what
    write(folder / "has" / "nets.py", NET)
    failed = failed_in(folder, "has.nots:build")
    assert failed.bad_argument
    assert 'no module "has.nots"' in failed.what
    assert "neither a Python file nor" in failed_in(folder, "two words:build").what


def test_a_module_that_the_code_needs_is_an_error_of_the_code(folder):
    path = write(folder / "m2.py", "import os\nimport absent_library.part\n")
    failed = failed_in(folder, "m2.py:build")
    assert not failed.bad_argument
    assert 'm2.py needs the module "absent_library"' in failed.what
    assert failed.at == f"{path}:2"
    assert commands(failed) == ["pip install absent_library"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("def build(:\n", 1, "SyntaxError"),
        ("x = 1\nx.nope\n", 2, "AttributeError: 'int' object has no attribute 'nope'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("x = 1\nraise ValueError('one\\n\\ntwo')\n", 2, "ValueError: one"),
    ],
)
def test_a_file_that_does_not_import_names_the_line(folder, text, line, said):
    path = write(folder / "m3.py", text)
    failed = failed_in(folder, "m3.py:build")
    assert not failed.bad_argument
    assert failed.what.startswith("m3.py does not import: ")
    assert said in failed.what
    assert failed.at == f"{path}:{line}"


def test_a_factory_that_raises_names_the_users_line(folder):
    path = write(
        folder / "m4.py",
        """
        from torch import nn
        def inner(width):
            return nn.Linear("wide", width)  # here
        def build():
            return inner(3)
        """,
    )
    failed = failed_in(folder, "m4.py:build")
    assert not failed.bad_argument
    assert failed.what.startswith("m4.py:build raised TypeError: ")
    assert failed.at == line_of(path, "# here")
    assert "inner(3)" in failed.traceback
    assert "tui_profiler" not in failed.traceback


@pytest.mark.parametrize("ending", ["raise SystemExit(2)", "import sys; sys.exit('no')", "1 / 0"])
def test_a_factory_that_gives_up_does_not_end_the_probe(folder, ending):
    path = write(folder / "m5.py", f"def build():\n    {ending}\n")
    failed = failed_in(folder, "m5.py:build")
    assert failed.at == f"{path}:2"
    assert not failed.bad_argument


@pytest.mark.parametrize(
    ("returned", "said", "likely"),
    [
        ("None", "returned None", "return statement"),
        ("{'a': 1}", "returned a dict", ""),
        ("(Net(), 3)", "returned a tuple", "the model is inside"),
        ("Net", "returned a type", ""),
    ],
)
def test_a_factory_that_returns_no_module_says_what_it_returned(folder, returned, said, likely):
    path = write(folder / "m6.py", NET, f"def build(): return {returned}")
    failed = failed_in(folder, "m6.py:build")
    assert not failed.bad_argument
    assert f"{said}, not a torch.nn.Module" in failed.what
    assert failed.at == line_of(path, "def build")
    assert likely in failed.likely


def test_an_object_that_is_no_factory_says_what_it_is(folder):
    write(folder / "m7.py", "WIDTH = 3")
    failed = failed_in(folder, "m7.py:WIDTH")
    assert failed.bad_argument
    assert "m7.py:WIDTH is of type int" in failed.what


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{width: 3}", "--args is not JSON"),
        ("3", "must be an object"),
        ('"text"', "must be an object"),
        ("null", "must be an object"),
        ("[" * 100_000, "--args is not JSON"),
        ('{"size": 3}', "unexpected keyword argument 'size'"),
        ("[1, 2, 3]", "too many positional arguments"),
    ],
)
def test_arguments_are_checked_before_the_factory_runs(folder, arguments, said):
    write(
        folder / "m8.py",
        NET,
        """
        def build(width: int = 3):
            raise AssertionError("it ran")
        """,
    )
    failed = failed_in(folder, "m8.py:build", arguments=arguments)
    assert failed.bad_argument
    assert said in failed.what


def test_arguments_that_are_missing_are_offered(folder):
    path = write(folder / "m9.py", NET, "def build(width: int, name: str, deep=False): ...")
    failed = failed_in(folder, "m9.py:build")
    assert failed.bad_argument
    assert "missing a required argument: 'width'" in failed.what
    assert commands(failed) == ['--args \'{"width": 1, "name": ""}\'']
    assert failed.at == line_of(path, "def build")


def test_a_model_takes_no_arguments(folder):
    write(folder / "m10.py", NET, "ready = Net()")
    failed = failed_in(folder, "m10.py:ready", arguments="[3]")
    assert failed.bad_argument
    assert "is a model already" in failed.what


def test_example_inputs_that_fail_are_said(folder):
    path = write(folder / "m11.py", NET, "def example_inputs(): return torch.ones(2) @ 3")
    failed = failed_in(folder, "m11.py:Net")
    assert not failed.bad_argument
    assert "its example_inputs() raised TypeError" in failed.what
    assert failed.at == line_of(path, "def example_inputs")
    path = write(folder / "m12.py", NET, "def example_inputs(): return 3")
    failed = failed_in(folder, "m12.py:Net")
    assert "gives a int, not a tensor" in failed.what
    assert failed.at == line_of(path, "def example_inputs")


def test_an_unknown_demo_offers_the_nearest(folder):
    failed = failed_in(folder, "demo:decodr")
    assert failed.bad_argument
    assert commands(failed)[0] == "tui-profiler demo:decoder"
    assert "tui-profiler demo:cnn" in commands(failed_in(folder, "demo:zzz"))
    assert failed_in(folder, "demo:../secret").bad_argument
    assert failed_in(folder, "demo:__init__").bad_argument


def test_nothing_stays_imported_of_a_file_that_failed(folder):
    path = write(folder / "m13.py", "raise ValueError('first')")
    failed_in(folder, "m13.py:build")
    write(path, NET, "def build(): raise KeyError('second')")
    assert "KeyError: 'second'" in failed_in(folder, "m13.py:build").what


def test_attributes_that_raise_are_said_or_passed_over(folder):
    path = write(
        folder / "m14.py",
        NET,
        """
        class Own(Net):
            @property
            def example_inputs(self):
                raise ValueError("not yet")  # here
        class Closed(Net):
            def __getattr__(self, name):
                if name in ("config", "image_size", "default_cfg"):
                    raise RuntimeError(name)
                return super().__getattr__(name)
        """,
    )
    failed = failed_in(folder, "m14.py:Own")
    assert "its example_inputs raised ValueError: not yet" in failed.what
    assert failed.at == line_of(path, "# here")
    assert load_in(folder, "m14.py:Closed").candidates[0].specs[0].shape == (1, 4)


def test_a_model_nested_too_deep_for_python_says_so(folder):
    write(
        folder / "m15.py",
        NET,
        """
        def build():
            model = Net()
            for _ in range(3000):
                model = nn.Sequential(model)
            return model
        """,
    )
    failed = failed_in(folder, "m15.py:build")
    assert "nested deeper than Python's limit" in failed.what
    assert "setrecursionlimit" in commands(failed)[0]
