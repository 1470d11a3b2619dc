"""The configuration file: what holds, and what is said of what is wrong."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from textual.keys import _character_to_key

from screens.actions.names import action_name, key_name, written
from screens.actions.table import DEPTHS, EXPLORER, bindings, footer, remapped, shown
from screens.settings import config


def config_of(tmp_path: Path, text: str) -> config.Config:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return config.read_config(path)


def test_without_a_file_all_is_as_usual(tmp_path: Path) -> None:
    found = config.read_config(tmp_path / "none.toml")
    assert found.settings == config.Settings()
    assert found.problems == ()


def test_what_is_set_holds(tmp_path: Path) -> None:
    found = config_of(
        tmp_path,
        'theme = "light"\nglyphs = "ascii"\ncolumns = ["seconds", "self", "bar"]\n'
        'sort = "self"\nrate = 2\nmouse = false\n[keys]\nhottest = "x"\nsort = ["S", "f2"]\n',
    )
    assert found.problems == ()
    assert found.settings == config.Settings(
        theme="light",
        glyphs="ascii",
        columns=("seconds", "self", "bar"),
        sort="self",
        rate=2.0,
        mouse=False,
        keys={"hottest": ("x",), "sort": ("S", "f2")},
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("colour = 1", "there is no setting 'colour'; there are theme, glyphs"),
        ('theme = "blue"', "theme: there is no 'blue'; there are auto, dark"),
        ("theme = 3", "theme: there is no 3; there are auto"),
        ('columns = "params"', "columns: it is a list of names, not 'params'"),
        ('columns = ["params", "weight"]', "columns: there is no 'weight'; there are params"),
        ('columns = ["bar", "bar"]', "columns: bar is listed twice"),
        ("rate = 100", "rate: refreshes per second are a number from 0.5 to 10, not 100"),
        ("rate = true", "rate: refreshes per second are a number from 0.5 to 10, not True"),
        ("rate = nan", "rate: refreshes per second are a number from 0.5 to 10, not nan"),
        ("mouse = 1", "mouse: it is true or false, not 1"),
        ('keys = "x"', "keys: it is a table"),
        ("[keys]\nfly = 'x'", "keys: there is no action 'fly'"),
        ("[keys]\nsort = 3", "keys: sort: a key is a text or a list of texts"),
        ("[keys]\nsort = []", "keys: sort: a key is a text or a list of texts"),
        ("[keys]\nsort = 'hyper+x'", "keys: there is no key 'hyper+x'"),
        ("[keys]\nsort = 'ctrl+c'", "keys: sort: ctrl+c always leaves the program"),
        ("[keys]\nsort = 'ctrl+q'", "keys: sort: ctrl+q always leaves the program"),
        ("[keys]\nsort = 'x'\nhottest = 'x'", "keys: hottest: x is taken by sort already"),
        ("rate = = 2", "not valid TOML: "),
    ],
)
def test_what_is_wrong_is_named_by_line_and_the_rest_holds(
    tmp_path: Path, line: str, said: str
) -> None:
    found = config_of(tmp_path, f"# one\nsort = 'macs'\n\n{line}\n")
    assert found.settings.sort == "macs"
    (sentence,) = found.sentences()
    last = 4 + line.count("\n")
    assert sentence.startswith(f"config.toml:{last}: {said}")


def test_a_name_that_stands_twice_is_told(tmp_path: Path) -> None:
    found = config_of(tmp_path, "rate = 1\nmouse = false\nrate = 2\n")
    assert found.settings == config.Settings(rate=1.0, mouse=False)
    assert [one.line for one in found.problems] == [3]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        '"' * 3,
        "\n\n'''",
        "a.b.c = {",
        "[keys\n",
        "\x00",
        "= = =\n" * 100,
        "[keys]\n[keys]",
    ],
)
def test_no_file_stops_the_program(tmp_path: Path, text: str) -> None:
    found = config_of(tmp_path, text)
    assert found.settings == config.Settings()
    assert found.problems


def test_a_file_of_other_bytes_and_a_folder_are_told(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"theme = '\xff'\n")
    assert "cannot be read" in config.read_config(path).sentences()[0]
    assert "cannot be read" in config.read_config(tmp_path).sentences()[0]


def test_what_is_printed_is_a_file_that_means_the_same(tmp_path: Path) -> None:
    first = config_of(
        tmp_path, "theme = 'dark'\ncolumns = ['bar']\nrate = 0.5\n[keys]\nfilter = ['\\', '/']\n"
    )
    assert first.problems == ()
    text = config.as_toml(first)
    again = config_of(tmp_path, text)
    assert again.settings == first.settings
    assert again.problems == ()
    assert config.as_toml(again) == text


def test_without_its_comment_signs_every_usual_key_is_accepted(tmp_path: Path) -> None:
    head, keys = config.as_toml(config.USUAL).split("[keys]\n")
    found = config_of(tmp_path, head + "[keys]\n" + keys.replace("\n# ", "\n")[2:])
    # A recording's keys are those of the rate, by design: one action, so one name.
    assert found.problems == ()
    assert found.settings.keys["filter"] == ("slash",)
    assert found.settings.keys["faster"] == ("plus", "equals_sign")


def test_every_action_has_a_name_of_its_own() -> None:
    by_name: dict[str, set[str]] = {}
    for key in (*EXPLORER, *DEPTHS):
        by_name.setdefault(action_name(key.action), set()).add(key.action)
    assert [found for found in by_name.values() if len(found) > 1] == []
    assert not any("(" in name or "_" in name for name in by_name)


@pytest.mark.parametrize("character", "/?+-=@.<>{}[]\\_~!5aZé")
def test_a_character_is_called_as_textual_calls_it(character: str) -> None:
    assert key_name(character) == _character_to_key(character)
    assert written(key_name(character)) == character or not character.isascii()


def test_keys_with_modifiers_keep_their_names() -> None:
    assert key_name("ctrl+d") == "ctrl+d"
    assert key_name("ctrl+/") == "ctrl+slash"
    assert written("ctrl+slash") == "ctrl+/"


def test_a_key_that_was_given_away_is_lost_by_the_other() -> None:
    keys = remapped(EXPLORER, {"hottest": ("s",)})
    by_action = {key.action: key for key in keys}
    assert by_action["hottest"].keys == "s"
    assert by_action["sort"].keys == ""
    assert ("s", "hottest") in footer(keys, "left", narrow=False)
    assert "sort" not in [label for _, label in footer(keys, "left", narrow=False)]
    assert shown(by_action["sort"]) == "none"


def test_keys_are_bound_under_the_names_of_their_actions() -> None:
    assert {binding.id for binding in bindings(EXPLORER)} == {
        action_name(key.action) for key in EXPLORER
    }


def test_the_file_lies_where_the_system_keeps_such_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere")
    assert config.config_path() == Path("/somewhere/tui-profiler/config.toml")


def test_reading_costs_little_and_loads_no_parser_without_a_file(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib, screens.app.explorer_app;"
        "import screens.settings.config as c;"
        "print('tomllib' in sys.modules);"
        "began = time.process_time();"
        f"c.read_config(pathlib.Path({str(tmp_path / 'none.toml')!r}));"
        "print('tomllib' in sys.modules, time.process_time() - began)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    before, rest = done.stdout.splitlines()
    after, seconds = rest.split()
    assert (before, after) == ("False", "False")
    assert float(seconds) < 0.005


def test_a_file_with_everything_in_it_is_read_in_five_milliseconds(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(config.as_toml(config.USUAL))
    assert tomllib.loads(path.read_text())["rate"] == 4
    best = 1.0
    for _ in range(5):
        began = time.process_time()
        config.read_config(path)
        best = min(best, time.process_time() - began)
    assert best < 0.005
