"""Compare the effect of every signal on a script alone, under ``run`` and in the explorer.

``python -m benchmarks.watching.signals`` starts some 160 scripts, which takes ten minutes or more.
A sample is in ``tests/end_to_end/run/test_signals.py``.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

from tests.end_to_end.run.signalled import SIGNALS, Disposition, Outcome, Target, outcome


def main(names: list[str]) -> int:
    began, different, count = time.monotonic(), 0, 0
    print(f"{'signal':8}{'to':9}{'script':10}{'alone':30}{'headless':12}explorer")
    with tempfile.TemporaryDirectory() as made:
        folders = (Path(made, str(number)) for number in itertools.count())
        cases = itertools.product(names or SIGNALS, get_args(Target), get_args(Disposition))
        for name, target, disposition in cases:
            alone = outcome(next(folders), "alone", disposition, name, target)
            row = f"{name:8}{target:9}{disposition:10}{_said(alone):30}"
            for how in ("headless", "explorer"):
                if (name, how) == ("WINCH", "explorer"):
                    row += "its own"  # Of the terminal that the explorer has, and the script not.
                    continue
                asked = ("USR2", "headless", "process", "default")
                if (name, how, target, disposition) == asked:
                    row += f"{'a report':12}"  # Of ours: the script does not handle it.
                    continue
                count += 1
                try:
                    ours = outcome(next(folders), how, disposition, name, target)
                    is_same = ours == alone
                    row += f"{'same' if is_same else _said(ours):12}"
                except AssertionError as error:
                    is_same = False
                    row += f"{str(error)[:60]:12}"
                different += not is_same
            print(row, flush=True)
    print(
        f"{count} cases, {different} differ from the script alone, {time.monotonic() - began:.0f} s"
    )
    return int(different > 0)


def _said(seen: Outcome) -> str:
    events = ",".join(event.removeprefix("SIG") for event in seen.events) or "-"
    return f"{events} stops {seen.stops} code {seen.code}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
