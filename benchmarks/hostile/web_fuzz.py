"""The server of ``--web`` under requests that are not HTTP, or nearly.

``python benchmarks/hostile/web_fuzz.py [REQUESTS] [SEED]``

Sends requests (2,000) made by hand and by changing bytes of good ones, while a page is open; counts
answers by status, and what the server wrote. A sample is in ``tests/end_to_end/test_web.py``.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.end_to_end.test_web import Served, answered, beside, is_short, page, until
from tests.recording.files import fixture, write


async def attacked(served: Served, changed: int, seed: int) -> None:
    statuses: Counter[str] = Counter()
    wrong = 0
    async with page(served) as proper:
        await until(proper, "layer1")
        for data, answer in await beside(proper, answered, served, seed, changed):
            statuses[answer[9:12].decode("latin-1") or "closed"] += 1
            if not is_short(answer):
                wrong += 1
                print(f"{data[:300]!r} was answered {answer[:300]!r}")
        await proper.send_json(["stdin", "?"])
        await until(proper, "type to search")
    told = ", ".join(f"{status} {count}" for status, count in sorted(statuses.items()))
    print(
        f"{statuses.total()} requests: {told}; {wrong} long or with a traceback; the page lives on"
    )


def main() -> None:
    changed = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        served = Served(str(write(Path(folder) / "resnet50.rec", fixture())))
        try:
            asyncio.run(attacked(served, changed, seed))
            served.end()
            print(f"the server wrote: {served.said()!r}")
        finally:
            served.close()


if __name__ == "__main__":
    main()
