"""Calls every operator that needs no trust with random arguments; prints what they did beside it.

``python benchmarks/hostile/operator_calls.py [--calls N] [--seed N]``. Each operator is called N
times, half of the calls with plausible arguments and half with hostile ones: sizes, negative
dimensions, NaN, other dtypes and layouts, names of files wherever a text is taken. What no operator
may do is made deadly or watched (tests/attacks/operator_calls.py). Three operators that are refused
are called first, to show that it is seen. Exits with 1 where an operator that is allowed did it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.attacks.operator_calls import CONTROLS, Caller, told


def main() -> None:
    """Call them and print the counts."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=8, help="of each operator")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text, "canaries")
        folder.mkdir()
        with Caller(folder) as caller:
            print("refused operators, which must be seen:")
            controls = caller.call(CONTROLS, 60, chosen.seed)
            print(*told(controls), sep="\n", flush=True)
            print("operators that need no trust:")
            came = caller.call(caller.admitted, chosen.calls, chosen.seed)
            print(*told(came), sep="\n")
    seen = {deed.operator for deed in controls.deeds}
    sys.exit(1 if came.deeds or len(seen) < len(CONTROLS) else 0)


if __name__ == "__main__":
    main()
