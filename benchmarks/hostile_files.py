"""Inspects damaged, malicious and hostile files, and counts the outcomes.

``python benchmarks/hostile_files.py [--mutations 120] [--seed 0] [--small]``. Each file is
inspected by a process limited to 5 s of CPU time and 512 MB, and is watched for anything
but reading (tests/archive/hostile/looking.py). Every damaged file is also loaded by torch, in
another process, to find corruption that loads silently; where the format has checksums, ``verify``
must have flagged it. Exits with 1 on any violation.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.archive.hostile.loading import Loader
from tests.archive.hostile.looking import MEMORY_BYTES, SECONDS, Look, Looker
from tests.archive.hostile.mutations import MUTATIONS, Mutation, other_numbers, reheaded, rezipped
from tests.archive.hostile.pickles import NEEDS_A_LOADER, malicious
from tests.archive.hostile.seeds import write_seeds
from tests.archive.hostile.structures import LEGACY, structures, write_places
from tests.archive.hostile.zips import torch_zip

Violations = list[str]


class Tally:
    """What came of the files so far."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.slowest = (0.0, "")
        self.highest = (0, "")
        self.violations: Violations = []

    def add(self, group: str, name: str, look: Look) -> None:
        """Count one look."""
        self.outcomes[group][look.outcome] += 1
        self.slowest = max(self.slowest, (look.cpu_seconds, name))
        self.highest = max(self.highest, (look.peak_bytes, name))
        if look.is_violation:
            self.violations.append(f"{group} {name}: {look.outcome}: {look.message}")

    @property
    def attempted(self) -> int:
        """How many files were looked into."""
        return sum(counter.total() for counter in self.outcomes.values())


def damaged(seeds: dict[str, Path], each: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Return (seed, name of the damage, bytes), ``each`` for each seed."""
    random = Random(seed)
    for name, path in seeds.items():
        data = path.read_bytes()
        deep = rezipped if data[:2] == b"PK" else reheaded if name[-11:] == "safetensors" else None
        for number in range(each):
            mutation: Mutation = MUTATIONS[number % len(MUTATIONS)]
            if name.endswith(".json"):
                mutation = random.choice((mutation, other_numbers))
            if deep is not None and number % 2:
                mutation = random.choice((mutation, other_numbers))
                yield name, f"{mutation.__name__} within", deep(data, random, mutation)
            else:
                yield name, mutation.__name__, mutation(data, random)


def look_at_damaged(
    folder: Path, each: int, seed: int, tally: Tally, looker: Looker
) -> Counter[str]:
    """Look into damaged files; give what became of the ones that torch loads with other values."""
    seeds = write_seeds(folder)
    silent: Counter[str] = Counter()
    with Loader(seeds) as loader:
        for name, damage, data in damaged(seeds, each, seed):
            path = folder / f"damaged-{name}"
            path.write_bytes(data)
            look = looker.look(path)
            tally.add("damaged", f"{name}, {damage}", look)
            if loader.load(path, name) == "differs" and not damage.endswith("within"):
                has_checksum = seeds[name].read_bytes()[:2] == b"PK"
                noticed = look.outcome != "found" or look.verdict == "failed"
                by = "by look" if look.outcome != "found" else "by verify"
                form = "with CRC" if has_checksum else "without checksum"
                silent[f"{form}, {f'noticed {by}' if noticed else 'not noticed'}"] += 1
                if has_checksum and not noticed:
                    tally.violations.append(f"{name}, {damage}: loads with other values, unnoticed")
            path.unlink()
    return silent


def look_at_malicious(folder: Path, tally: Tally, looker: Looker) -> tuple[int, int, int]:
    """Look into malicious pickles in three wrappings; give files, names flagged, canaries."""
    canary = folder / "canary"
    flagged = touched = count = 0
    for name, data in malicious(canary).items():
        wrapped = {
            "bare": data,
            "in a zip": torch_zip(data),
            "legacy": LEGACY + b"\x80\x02}." + data + b"\x80\x02]." + struct.pack("<Q", 0),
        }
        for wrapping, content in wrapped.items():
            path = folder / "malicious.pt"
            path.write_bytes(content)
            look = looker.look(path)
            count += 1
            tally.add("malicious", f"{name}, {wrapping}", look)
            flagged += look.dangerous > 0
            if name not in NEEDS_A_LOADER and look.outcome != "refused" and not look.dangerous:
                tally.violations.append(f"malicious {name}, {wrapping}: not flagged as dangerous")
            if canary.exists():
                touched += 1
                canary.unlink()
                tally.violations.append(f"malicious {name}, {wrapping}: touched its canary")
    return count, flagged, touched


def look_at_structures(folder: Path, large: bool, tally: Tally, looker: Looker) -> None:
    """Look into hostile structures, places where a reader hangs, and honest giants."""
    for name, data in structures(large).items():
        path = folder / name
        path.write_bytes(data)
        tally.add("structure", name, looker.look(path))
        path.unlink()
    places = folder / "places"
    places.mkdir()
    for path in write_places(places):
        tally.add("place", path.name, looker.look(path))
    if large:
        from tests.archive.hostile.giants import write_giants

        giants = folder / "giants"
        giants.mkdir()
        for path in write_giants(giants):
            # The quickest of three: these are near the limit, and a shared machine can double one.
            look = min((looker.look(path) for _ in range(3)), key=lambda look: look.cpu_seconds)
            tally.add("giant", path.name, look)
            print(
                f"  {path.name:<32} {look.outcome:<8} {look.tensors:7} tensors "
                f"{look.cpu_seconds:6.2f} s {look.peak_bytes >> 20:5} MB"
            )
            if look.outcome != "found":
                tally.violations.append(f"giant {path.name}: {look.outcome} {look.message}")


def main() -> None:
    """Run everything and print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mutations", type=int, default=120, help="damaged files of each seed")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--small", action="store_true", help="without the large structures")
    chosen = arguments.parse_args()
    tally, looker = Tally(), Looker()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        look_at_structures(folder, not chosen.small, tally, looker)
        pickles, flagged, touched = look_at_malicious(folder, tally, looker)
        silent = look_at_damaged(folder, chosen.mutations, chosen.seed, tally, looker)
    looker.close()
    print(f"attempted {tally.attempted} files in {time.monotonic() - started:.0f} s")
    for group, counter in tally.outcomes.items():
        told = ", ".join(f"{outcome} {count}" for outcome, count in counter.most_common())
        print(f"  {group:<10} {counter.total():5}: {told}")
    print(f"malicious files {pickles}: flagged {flagged}, canaries touched {touched}")
    print(f"torch loads with other values, without an error: {silent.total()}")
    for told, count in sorted(silent.items()):
        print(f"  {told} {count}")
    print(f"slowest {tally.slowest[0]:.2f} s of {SECONDS:.0f} ({tally.slowest[1]})")
    print(
        f"highest memory {tally.highest[0] / 2**20:.0f} MB of {MEMORY_BYTES >> 20} "
        f"({tally.highest[1]})"
    )
    print(f"violations: {len(tally.violations)}")
    for violation in tally.violations[:50]:
        print(f"  {violation}")
    sys.exit(1 if tally.violations else 0)


if __name__ == "__main__":
    main()
