"""What is kept of how a model was looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from screens.settings import saved_view
from screens.settings.config import USUAL, Config, Settings
from screens.settings.preferences import Preferences
from tests.queries.sessions import RESNET, resnet, session_of
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.session import Tree


def tree_of() -> Tree:
    tree = resnet().tree
    assert tree is not None
    return tree


def test_what_was_written_is_read(tmp_path: Path) -> None:
    kept = saved_view.SavedViews(tmp_path / "state")
    what = saved_view.SavedView(kind="ResNet", unfolded=("", "layer1"), sort="macs", theme="light")
    assert kept.write("resnet50", what) == ""
    assert kept.read("resnet50") == (replace(what, model="resnet50"), "")
    assert kept.read("resnet18") == (saved_view.NOTHING, "")
    (file,) = (tmp_path / "state").iterdir()
    assert file.name.startswith("resnet50-")


def test_any_name_of_a_model_is_a_name_of_a_file(tmp_path: Path) -> None:
    kept = saved_view.SavedViews(tmp_path / "state")
    names = [
        "/home/me/net.py:build",
        "../../x",
        "a" * 5000,
        "层",
        "",
        "x\0y",
        "\udcff",
        "a b",
        "a-b",
    ]
    for name in names:
        assert kept.write(name, saved_view.SavedView(kind=repr(name), sort="macs")) == ""
    assert [kept.read(name)[0].kind for name in names] == [repr(name) for name in names]
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "state"}


def test_nothing_to_remember_leaves_no_file(tmp_path: Path) -> None:
    kept = saved_view.SavedViews(tmp_path)
    kept.write("a", saved_view.SavedView(sort="macs"))
    kept.write("a", saved_view.NOTHING)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"sort": "luck"}', b'{"unfolded": 3}', b"\xff\xfe", b"[" * 100_000],
)
def test_a_broken_file_is_left_out_with_a_word(tmp_path: Path, content: bytes) -> None:
    kept = saved_view.SavedViews(tmp_path)
    kept.write("a", saved_view.SavedView(sort="macs"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    found, said = kept.read("a")
    assert found == saved_view.NOTHING
    assert "cannot be read: saved view ignored" in said


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    kept = saved_view.SavedViews(tmp_path)
    kept.write("a", saved_view.SavedView(sort="macs"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(b" " * (saved_view.MOST_BYTES + 1))
    assert kept.read("a") == (saved_view.NOTHING, f"{file.name} is too long: saved view ignored")


def test_only_so_many_files_are_kept_the_oldest_go(tmp_path: Path) -> None:
    kept = saved_view.SavedViews(tmp_path)
    for number in range(saved_view.MOST_FILES):
        path = tmp_path / f"{number:03}.json"
        path.write_text("{}")
        os.utime(path, (1000 + number, 1000 + number))
    kept.write("new", saved_view.SavedView(sort="macs"))
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == saved_view.MOST_FILES
    assert "000.json" not in names
    assert "001.json" in names
    assert kept.read("new")[0].sort == "macs"


def test_a_folder_that_cannot_be_written_is_told_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = saved_view.SavedViews(tmp_path / "file" / "state")
    assert "are not saved" in kept.write("a", saved_view.SavedView(sort="macs"))
    found, said = kept.read("a")
    assert found == saved_view.NOTHING
    assert said


def test_folds_and_order_are_as_they_were_left(tmp_path: Path) -> None:
    tree = tree_of()
    preferences = Preferences(USUAL, saved_view.SavedViews(tmp_path), "resnet50")
    left = replace(
        focuses.all_unfolded(preferences.begin(focuses.initial(tree), tree), tree),
        sort="macs",
        descending=False,
        filter_text="conv",
        show_operators=True,
    )
    preferences.end(left, tree)
    assert preferences.unkept == ""

    again = Preferences(USUAL, saved_view.SavedViews(tmp_path), "resnet50").begin(
        focuses.initial(tree), tree
    )

    modules = bytes(node.kind == "module" for node in tree.nodes)
    assert again.unfolded == modules
    assert (again.sort, again.descending) == ("macs", False)
    assert again.show_operators
    assert again.filter_text == ""


def test_the_folds_of_another_model_of_that_name_mean_nothing(tmp_path: Path) -> None:
    tree = tree_of()
    preferences = Preferences(USUAL, saved_view.SavedViews(tmp_path), "net.py:build")
    preferences.end(focuses.all_unfolded(focuses.initial(tree), tree), tree)
    other = session_of(RESNET.replace("resnet50 ResNet", "net Other")).tree
    assert other is not None
    first = focuses.initial(other)

    assert (
        Preferences(USUAL, saved_view.SavedViews(tmp_path), "net.py:build").begin(first, other)
        == first
    )


def test_what_was_not_changed_follows_the_configuration(tmp_path: Path) -> None:
    tree = tree_of()
    preferences = Preferences(USUAL, saved_view.SavedViews(tmp_path), "m")
    preferences.end(preferences.begin(focuses.initial(tree), tree), tree)
    assert list(tmp_path.iterdir()) == []

    config = Config(settings=Settings(sort="seconds", columns=("bar",), theme="light"))
    later = Preferences(config, saved_view.SavedViews(tmp_path), "m")

    view = later.begin(focuses.initial(tree), tree)
    assert (view.sort, view.descending) == ("seconds", True)
    assert (later.columns, later.theme) == (("bar",), "light")


def test_what_was_typed_comes_before_what_is_remembered(tmp_path: Path) -> None:
    tree = tree_of()
    preferences = Preferences(USUAL, saved_view.SavedViews(tmp_path), "m")
    preferences.choose_theme("light")
    preferences.columns = ("bar", "params")
    preferences.end(focuses.initial(tree), tree)
    assert Preferences(USUAL, saved_view.SavedViews(tmp_path), "m").theme == "light"
    assert Preferences(USUAL, saved_view.SavedViews(tmp_path), "m").columns == ("bar", "params")

    typed = Config(settings=Settings(theme="high-contrast"), typed=frozenset({"theme"}))

    assert Preferences(typed, saved_view.SavedViews(tmp_path), "m").theme == "high-contrast"


def test_of_a_huge_tree_the_first_folds_are_kept(tmp_path: Path) -> None:
    lines = ["m M 0 0", *(f"  c{i} C 0 0\n    d D 0 0" for i in range(saved_view.MOST_PATHS + 500))]
    tree = session_of("\n".join(lines)).tree
    assert tree is not None
    preferences = Preferences(USUAL, saved_view.SavedViews(tmp_path), "m")
    preferences.end(focuses.all_unfolded(focuses.initial(tree), tree), tree)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 60_000

    view = Preferences(USUAL, saved_view.SavedViews(tmp_path), "m").begin(
        focuses.initial(tree), tree
    )

    assert view.unfolded.count(1) == saved_view.MOST_PATHS
