"""Markdown, read by a parser that is not ours: it shows what was meant, and nothing else."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_models.hostile import NAMES
from tests.hostile import TEXTS
from tests.reports.reading import GFM, cells, shown
from tests.reports.real_sessions import real_session
from tui_profiler.formatting.text import safe
from tui_profiler.reports.document import Facts, Grid, Note, Section, figures, names
from tui_profiler.reports.text.full import full_markdown
from tui_profiler.reports.text.markdown import as_markdown, escaped

NASTY = (
    *("*bold*", "__init__", "_x_", "`code`", "~~gone~~", "# title", "## t", "- item", "1. one"),
    *("+ x", "> quote", "---", "===", "|", "a|b", "a\\|b", "\\", "a\\", "[x](http://y)", "![i](u)"),
    *("<script>alert(1)</script>", "<!-- c -->", "&lt;", "&amp;#64;", "http://evil.example/x"),
    *("www.evil.example", "a@evil.example", "@user", "#123", "GH#1", "$x$", "$$y$$", ":tada:"),
    *(
        "[^1]",
        "[ ] todo",
        "- [x] done",
        "    code",
        "\tcode",
        "```",
        "~~~",
        "|---|",
        ":-:",
        "https://x",
    ),
    *(
        "HTTPS://X.Y",
        "ftp://x",
        "mailto:a@b.c",
        "layer1.0.conv1",
        "aten::_softmax",
        "x__y__z",
        "1)",
    ),
)


def table_of(*texts: str) -> str:
    grid = Grid((names("name"), *figures("n")), tuple((text, "1") for text in texts))
    return "\n".join(as_markdown("t", (Section("s", "", (grid,)),)))


@pytest.mark.parametrize("text", [*NASTY, *TEXTS, *NAMES.values()])
def test_a_cell_shows_the_text_itself_and_nothing_else(text: str) -> None:
    read = cells(table_of("before", text, "after"))
    assert [row[0] for row in read] == ["name", "before", safe(text).strip(), "after"]
    assert all(len(row) == 2 for row in read)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
@settings(max_examples=40, deadline=None)
def test_whatever_the_text_the_table_stays_whole(text: str) -> None:
    read = cells(table_of(text))
    assert len(read) == 2
    assert [" ".join(cell.split()) for cell in read[1]] == [" ".join(safe(text).split()), "1"]


@pytest.mark.parametrize("text", NASTY)
def test_a_heading_a_sentence_and_a_fact_show_the_text_itself(text: str) -> None:
    section = Section(text, "", (Note(text), Facts(((text, text),))))
    tokens = GFM.parse("\n".join(as_markdown(text, (section,))))
    inline = [shown(token) for token in tokens if token.type == "inline" and token.content]
    wanted = safe(text).strip()
    assert [" ".join(one.split()) for one in inline] == [" ".join(wanted.split())] * 5


def test_github_finds_no_one_to_mention_and_no_issue_to_link() -> None:
    # Both are looked for in what is left when Markdown was made HTML.
    html = GFM.render("\n".join(escaped(text) for text in ("@user", "see #12", "a@b.example")))
    for word in re.split(r"<[^>]*>", html):
        assert not re.search(r"@\w|#\d", unescape(word))


@pytest.mark.parametrize("name", ["demo:cnn", "demo:hostile"])
def test_the_report_of_a_real_model_is_tables_and_sentences_only(name: str) -> None:
    tokens = GFM.parse(full_markdown(real_session(name)))
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in tokens}
    assert kinds == {
        *("heading", "inline", "paragraph"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    for row in cells(full_markdown(real_session(name))):
        assert len(row) >= 2
