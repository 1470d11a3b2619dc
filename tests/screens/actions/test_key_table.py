"""The table of keys in ``docs/keys.md`` is the table of actions.

``UPDATE_GOLDEN=1 pytest tests/screens/actions/test_key_table.py`` writes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from screens.actions.help import key_table

FILE = Path(__file__).parents[3] / "docs/keys.md"
BEGIN, END = "<!-- keys -->\n", "<!-- /keys -->"


def test_the_keys_in_the_documentation_are_those_that_are_bound() -> None:
    text = FILE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end
    wanted = f"{before}{BEGIN}{key_table()}{END}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        FILE.write_text(wanted, "utf-8")
    assert text == wanted
