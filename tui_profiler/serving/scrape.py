"""One response of a server, parsed: the samples of the names that are known here.

1. Prometheus's own client reads the lines. It takes quadratic time for some of them (20 s for one
   line of 4 MB): only lines with a name that is known here come to it, and none where they are too
   long or too many.
2. The last line must end, as the format wants it: a truncated response has half a number.
3. A sample that is not a number from 0 to ``MOST_COUNT`` is not there. -1 is how servers say that
   there is none.
"""

import re
from functools import cache
from typing import NamedTuple

from tui_profiler.serving.servers import BUCKETS, SERVERS, SUM, Server

MOST_LINE = 1_024
"""Characters."""
MOST_LINES = 8_192
"""Of the names that are known: some 50 engines."""
MOST_COUNT = 2.0**53
"""Beyond it a float does not hold each whole number, and a count no longer grows by one."""
MOST_MODELS = 8
MOST_NAME = 200
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
Labels = tuple[tuple[str, str], ...]


class ScrapeError(Exception):
    """The text is not what a server exports; the message says why."""


class Scrape(NamedTuple):
    """Samples by name, each with its labels in alphabetical order."""

    server: Server
    samples: dict[str, dict[Labels, float]]
    models: tuple[str, ...]


def scrape(text: str) -> Scrape:
    """Return the samples of the server that the text is of.

    Raises:
        ScrapeError: it is of none, or is not Prometheus text.
    """
    # With http.server and more it takes 60 ms: not before a server is asked for.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    lines, is_metrics = _known_lines(text)
    server = next((one for one in SERVERS if any(at.startswith(one.prefix) for at in lines)), None)
    if server is None:
        what = (
            "no metrics of vLLM, SGLang or TGI" if is_metrics else "not in Prometheus text format"
        )
        raise ScrapeError(what)
    if not text.endswith("\n"):
        raise ScrapeError("truncated response: no newline at the end")
    found: dict[str, dict[Labels, float]] = {}
    models: dict[str, None] = {}
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if not sample.name.startswith(server.prefix) or not _is_count(sample.value):
                    continue
                labels = tuple(sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
                if model := sample.labels.get("model_name") or sample.labels.get("name"):
                    models[model[:MOST_NAME]] = None
    except Exception as error:  # Of a library, on text from anywhere: a border.
        why = str(error)[:MOST_NAME] or type(error).__name__
        raise ScrapeError(f"cannot parse its metrics: {why}") from None
    return Scrape(server, found, tuple(models)[:MOST_MODELS])


def _is_count(value: float) -> bool:
    return 0 <= value <= MOST_COUNT


def _known_lines(text: str) -> tuple[list[str], bool]:
    """Return the lines with a name that is known, and whether any line is like a sample.

    Raises:
        ScrapeError: they are too long or too many.
    """
    wanted = _wanted()
    found: list[str] = []
    is_metrics = False
    for line in text.split("\n"):
        name = _NAME.match(line[:MOST_LINE])
        if name is None or line[name.end() : name.end() + 1] not in ("{", " ", "\t"):
            continue
        is_metrics = True
        if name[0] not in wanted:
            continue
        if len(line) > MOST_LINE:
            raise ScrapeError(f"a sample of {name[0]} is longer than {MOST_LINE:,} characters")
        if len(found) == MOST_LINES:
            raise ScrapeError(f"more than {MOST_LINES:,} samples of the metrics shown")
        found.append(line)
    return found, is_metrics


@cache
def _wanted() -> frozenset[str]:
    names: set[str] = set()
    for one in SERVERS:
        series = (
            *(*one.running, *one.waiting, *one.prompt_tokens, *one.generated_tokens),
            *(*one.cache_usage, *one.prefix_hit_rate, *one.preemptions),
            *(series for pair in one.prefix_hits for series in pair),
        )
        names |= {each.name for each in series}
        times = (*one.first_token, *one.between_tokens)
        names |= {f"{each}{suffix}" for each in times for suffix in (BUCKETS, SUM)}
        names |= {one.began} - {""}
    return frozenset(names)
