"""What differs between two reports of one model, each difference of one kind.

A report is read into *values*, each at a place: a key of the JSON, a column of a row of the CSV, an
annotation of the Perfetto trace, a row of text. A value that only the later report has was added;
that is told apart from one that changed. Rows of text are paired by likeness, and changed in a
figure where their numbers differ, in words alone where they do not. Wrapped rows are joined first;
rows of a finding are named by its kind.
"""

from __future__ import annotations

import csv
import difflib
import html
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from google.protobuf.json_format import MessageToDict

from tests.reports.reading import read_trace
from tui_profiler.reports.text.text import LABEL_CELLS

KINDS = ("added", "now known", "words", "order", "figure", "now unknown", "gone")
"""From what a reader gains to what a reader loses.

added: a key, column, line or section that the earlier report has not.
now known, now unknown: from null to a value, and back.
words: a text that differs, its figures do not.
order: the same lines, in another order.
figure: a number that differs, or a value of one word (``compute``).
gone: a key, column, line or figure that the later report has not.
"""
FIGURE = re.compile(r"(?<![\w.…])\d+(?:[.,]\d+)*[KMGT]?(?![\w…]|\.\w)")
"""A number that stands alone: neither int8 nor features.4.conv."""
WRAPPED = ("text", "table")
"""Formats whose rows are wrapped; ``markdown`` has the sections of ``text``, a line per row."""
FINDING = re.compile(r"^(?:finding |[~≤–\d]).*?\[([a-z0-9-]+)\\?\]")
"""The first row of a finding, with its kind."""
ALIKE = 0.45
"""Share of characters in common from which two lines are one line, changed."""
NEARLY = 0.85
NAMED_BY = ("path", "key", "name", "kind", "dtype", "operator", "stage")
"""What names an item of a list, the first that all of its items have, each another value."""


TO_EXPLAIN = ("figure", "now unknown", "gone")
ANY = ".*"
EXPLAINED: tuple[tuple[str, str, str], ...] = (
    (ANY, r"^energy ", "0698a83: energy on paper has two digits in tables too"),
    (
        *(ANY, r"^findings\.found\[(compile|larger-batch)\]|^\[(compile|larger-batch)\] "),
        "5fa8c81: no Python overhead in the time that forwards wait for a core, nor where that is a"
        " quarter of it; nothing predicted for recurrent layers, which Dynamo skips",
    ),
    (
        *("demo-lstm|all", r"^\[int8-dynamic\] (finding|~)"),
        "5fa8c81: recurrent layers are not called linear",
    ),
    (
        *(ANY, r"^unavailable\[\]$|^measured – \(no$|^– no (times|forward)$"),
        "c81884f: no times where the model was not run as asked, with no time of its recording",
    ),
    (
        "demo-(dynamic|moe)|all",
        r"bottlenecks\.(compute|memory|unexplained)|bottleneck(_measured)?$|^\[\]bound$"
        r"|energy\.|^on paper |^(conclusion )?(compute|memory|unexplained)"
        r"|^findings\.found\[host-overhead\]|^\[host-overhead\] ",
        "a0262da, 14a54af: no class, share or energy from work that depends on the data; operators"
        " of a real forward",
    ),
)
"""Figures that differ since 86407ba: in models (``all``: of all in one file), at places, and why.

With a later commit to compare with, rows are replaced; those of earlier ones are in this file's
log.
"""


class Difference(msgspec.Struct, frozen=True):
    """One value that differs."""

    kind: str
    """One of KINDS."""
    place: str
    """Its place, without the names of modules: ``layers[].macs``, a column, the start of a line."""
    before: str
    after: str


def differences(layout: str, before: bytes, after: bytes) -> list[Difference]:
    """Return what differs between two reports of one model in one layout.

    Args:
        layout: The name of a format, with or without its options (``json --top 5``).
        before: The report as the earlier version wrote it.
        after: The report as the later version wrote it.
    """
    if before == after:
        return []
    words = layout.split()
    values = next((VALUES[word] for word in words if word in VALUES), None)
    if values is not None:
        return list(_by_place(values(before), values(after)))
    as_rows = _cells if "html" in words else _unwrapped if words[0] in WRAPPED else _rows
    return list(_by_row(as_rows(before), as_rows(after)))


def _figures(lines: Iterable[str]) -> list[str]:
    return sorted(figure for line in lines for figure in FIGURE.findall(line))


def print_differences(recordings: list[Path], old: Path, new: Path) -> int:
    """Print the differences, counted, with an example of each; return how many are unexplained."""
    found: dict[tuple[str, str, str], list[tuple[str, Difference]]] = defaultdict(list)
    worst: Counter[str] = Counter()
    for path in recordings:
        for one in sorted(old.glob(f"{path.stem}.*")):
            layout = one.name.partition(".")[2]
            differ = differences(layout, one.read_bytes(), (new / one.name).read_bytes())
            kinds = [difference.kind for difference in differ]
            worst[max(kinds, key=KINDS.index, default="equal to the byte")] += 1
            for difference in differ:
                found[layout, difference.kind, difference.place].append((path.stem, difference))
    unexplained = 0
    for (layout, kind, place), those in sorted(
        found.items(), key=lambda item: (KINDS.index(item[0][1]), item[0][0], -len(item[1]))
    ):
        in_models = len({model for model, _ in those})
        said = f"{kind:<11} {layout:<16} {len(those):>6} in {in_models:>2} models  {place}"
        if kind not in TO_EXPLAIN:
            print(said)
            continue
        model, one = those[0]
        print(f"{said}\n    {model}: {one.before[:90]!r} -> {one.after[:90]!r}")
        reasons = {_reason("all" if "of all" in layout else each, place) for each, _ in those}
        print("\n".join(f"    {reason or 'UNEXPLAINED'}" for reason in sorted(reasons)))
        unexplained += "" in reasons
    print(f"\n{len(recordings)} models, {worst.total()} files, each by the worst that it has:")
    for kind in ("equal to the byte", *KINDS):
        count = sum(len(those) for (_, one, _), those in found.items() if one == kind)
        print(f"  {kind:<18} {worst[kind]:>4} files  {count:>9,} differences")
    print(f"  unexplained: {unexplained} places")
    return unexplained


def _reason(model: str, place: str) -> str:
    """Return why a figure of a model differs; empty where no row of EXPLAINED says it."""
    for models, places, why in EXPLAINED:
        if re.fullmatch(models, model) and re.search(places, place):
            return why
    return ""


def _by_place(before: dict[str, object], after: dict[str, object]) -> Iterator[Difference]:
    for place in dict.fromkeys((*before, *after)):
        a, b = before.get(place), after.get(place)
        if place in before and place in after and a == b and type(a) is type(b):
            continue
        short = re.sub(r"(?<!findings\.found)\[[^]]*\]", "[]", place)
        yield Difference(_kind(place, before, after), short, _shown(a), _shown(b))


def _kind(place: str, before: dict[str, object], after: dict[str, object]) -> str:
    if place not in before:
        return "added"
    if place not in after:
        return "added" if before[place] == [] and f"{place}[" in "".join(after) else "gone"
    match before[place], after[place]:
        case None, _:
            return "now known"
        case _, None:
            return "now unknown"
        case str() as a, str() as b:
            is_word = " " not in a and " " not in b
            return "figure" if is_word or _figures([a]) != _figures([b]) else "words"
        case _:
            return "figure"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _json_values(data: bytes) -> dict[str, object]:
    return dict(_leaves("", json.loads(data)))


def _leaves(place: str, found: object) -> Iterator[tuple[str, object]]:
    """Yield every value below a place; an empty list is a value too."""
    match found:
        case dict() if found:
            for key, value in found.items():
                # Reasons of null are keyed by paths: items of a list, not keys of a schema.
                inner = _item(place, key) if place == "unavailable" else f"{place}.{key}"
                yield from _leaves(inner.removeprefix("."), value)
        case list() if found:
            for name, value in _named(found):
                yield from _leaves(_item(place, name), value)
        case _:
            yield place, found


def _item(place: str, name: str) -> str:
    return f"{place}[{name.replace('[', '(').replace(']', ')')}]"


def _named(items: list[object]) -> Iterator[tuple[str, object]]:
    for key in NAMED_BY:
        names = [item.get(key) for item in items if isinstance(item, dict)]
        if len(names) == len(items) == len({str(name) for name in names} - {"None"}):
            return zip(map(str, names), items, strict=True)
    return ((str(number), item) for number, item in enumerate(items))


def _csv_values(data: bytes) -> dict[str, object]:
    rows = csv.DictReader(io.StringIO(data.decode(), newline=""))
    return {
        _item("", f"{number} {row['path']}") + column: value or None
        for number, row in enumerate(rows)
        for column, value in row.items()
    }


def _perfetto_values(data: bytes) -> dict[str, object]:
    packets = [MessageToDict(packet) for packet in read_trace(data)]
    return dict(_leaves("", {"packets": [_annotated(packet) for packet in packets]}))


def _annotated(packet: dict[str, object]) -> dict[str, object]:
    """Return a packet whose annotations are keys."""
    event = packet.get("trackEvent")
    if isinstance(event, dict) and "debugAnnotations" in event:
        notes = {one.pop("name"): one for one in event.pop("debugAnnotations")}
        event["annotations"] = {
            name: next(iter(note.values()), None) for name, note in notes.items()
        }
    return packet


VALUES: dict[str, Callable[[bytes], dict[str, object]]] = {
    "json": _json_values,
    "csv": _csv_values,
    "perfetto": _perfetto_values,
}


def _rows(data: bytes) -> list[str]:
    """Return the rows of a text with a line for each."""
    return _named_by_finding(data.decode().splitlines())


def _unwrapped(data: bytes) -> list[str]:
    """Return the rows of a wrapped text: what is continued below its label is joined."""
    rows: list[str] = []
    is_finding = False
    for line in data.decode().splitlines():
        indent = len(line) - len(line.lstrip())
        is_finding = is_finding if indent else line.startswith("findings --")
        # In a table the sentences of a finding are continued at their own indent.
        begins = re.match(r" {6}(evidence|predicted|measured|trial): ", line) is not None
        continues = indent > LABEL_CELLS or (is_finding and indent == _SENTENCE and not begins)
        if continues and line.strip() and rows:
            rows[-1] += f" {line.strip()}"
        else:
            rows.append(line)
    return _named_by_finding(rows)


_SENTENCE = 6


def _named_by_finding(lines: Iterable[str]) -> list[str]:
    """Return rows without their spaces, those of a finding behind its kind.

    Widths of columns follow the longest cell.
    """
    rows, kind = [], ""
    for line in lines:
        row = re.sub(r"\s*\|\s*|\s+", " ", line).strip()
        named = FINDING.match(row)
        if named:
            kind = f"[{named[1]}] "
        elif not row or re.match(r"  \w+( \w+)*: ", line):  # the end, or the name of a group
            kind = ""
        if re.search(r"\w", row):
            rows.append(f"{kind}{row}")
    return rows


def _cells(data: bytes) -> list[str]:
    """Return the rows of HTML as lines."""
    rows = re.sub(r"</tr>|</table>|<br>|</small>|</p>", "\n", data.decode())
    return _rows(html.unescape(re.sub(r"<[^>]*>", " ", rows)).encode())


def _by_row(before: list[str], after: list[str]) -> Iterator[Difference]:
    """Yield the lines that differ, those that only changed their places once."""
    found = list(_changed_lines(before, after))
    gone = [one.before for one in found if one.kind == "gone"]
    moved = []
    for one in found:
        if one.kind == "added" and one.after in gone:
            gone.remove(one.after)
            moved.append(one.after)
    left, added = list(moved), list(moved)
    for one in found:
        if one.kind == "gone" and one.before in left:
            left.remove(one.before)
        elif one.kind == "added" and one.after in added:
            added.remove(one.after)
            yield msgspec.structs.replace(one, kind="order", before=one.after)
        else:
            yield one


def _changed_lines(before: list[str], after: list[str]) -> Iterator[Difference]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for what, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if what == "equal":
            continue
        rest = list(after[b_from:b_to])
        for line in before[a_from:a_to]:
            scores = [difflib.SequenceMatcher(a=line, b=other).quick_ratio() for other in rest]
            if not scores or max(scores) < ALIKE:
                yield Difference("gone", _label(line), line, "")
                continue
            # The first of about equal likeness, so that no line in between is left without one.
            at = next(i for i, score in enumerate(scores) if score >= NEARLY * max(scores))
            for added in rest[:at]:
                yield Difference("added", _label(added), "", added)
            same = _figures([line]) == _figures([rest[at]])
            yield Difference("words" if same else "figure", _label(line), line, rest[at])
            del rest[: at + 1]
        for added in rest:
            yield Difference("added", _label(added), "", added)


def _label(line: str) -> str:
    """Return the words before a line's first number, at most three: what names it."""
    words = FIGURE.split(line)[0].split()[:3]
    return " ".join(words) or "(a row of figures)"
