"""Inspects damaged, malicious and hostile files, and counts the outcomes.

``python benchmarks/hostile/hostile_files.py [--mutations 120] [--seed 0] [--small]``. Each file is
inspected by a process limited to 5 s of CPU time and 512 MB, and is watched for anything but
reading (tests/archive/hostile/reader_process.py). Every damaged file is also loaded by torch, in
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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.archive.hostile.loading import Loader
from tests.archive.hostile.mutations import MUTATIONS, Mutation, other_numbers, reheaded, rezipped
from tests.archive.hostile.pickles import NEEDS_A_LOADER, malicious
from tests.archive.hostile.reader_process import MEMORY_BYTES, SECONDS, Reader, Reading
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

    def add(self, group: str, name: str, reading: Reading) -> None:
        """Count one reading."""
        self.outcomes[group][reading.outcome] += 1
        self.slowest = max(self.slowest, (reading.cpu_seconds, name))
        self.highest = max(self.highest, (reading.peak_bytes, name))
        if reading.is_violation:
            self.violations.append(f"{group} {name}: {reading.outcome}: {reading.message}")

    @property
    def attempted(self) -> int:
        """How many files were read."""
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


def read_damaged(folder: Path, each: int, seed: int, tally: Tally, reader: Reader) -> Counter[str]:
    """Look into damaged files; give what became of the ones that torch loads with other values."""
    seeds = write_seeds(folder)
    silent: Counter[str] = Counter()
    with Loader(seeds) as loader:
        for name, damage, data in damaged(seeds, each, seed):
            path = folder / f"damaged-{name}"
            path.write_bytes(data)
            reading = reader.read(path)
            tally.add("damaged", f"{name}, {damage}", reading)
            if loader.load(path, name) == "differs" and not damage.endswith("within"):
                has_checksum = seeds[name].read_bytes()[:2] == b"PK"
                noticed = reading.outcome != "found" or reading.verdict == "failed"
                by = "by structure" if reading.outcome != "found" else "by verify"
                form = "with CRC" if has_checksum else "without checksum"
                silent[f"{form}, {f'noticed {by}' if noticed else 'not noticed'}"] += 1
                if has_checksum and not noticed:
                    tally.violations.append(f"{name}, {damage}: loads with other values, unnoticed")
            path.unlink()
    return silent


def read_malicious(folder: Path, tally: Tally, reader: Reader) -> tuple[int, int, int]:
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
            reading = reader.read(path)
            count += 1
            tally.add("malicious", f"{name}, {wrapping}", reading)
            flagged += reading.dangerous > 0
            if (
                name not in NEEDS_A_LOADER
                and reading.outcome != "refused"
                and not reading.dangerous
            ):
                tally.violations.append(f"malicious {name}, {wrapping}: not flagged as dangerous")
            if canary.exists():
                touched += 1
                canary.unlink()
                tally.violations.append(f"malicious {name}, {wrapping}: touched its canary")
    return count, flagged, touched


def read_structures(folder: Path, large: bool, tally: Tally, reader: Reader) -> None:
    """Look into hostile structures, places where a reader hangs, and honest giants."""
    for name, data in structures(large).items():
        path = folder / name
        path.write_bytes(data)
        tally.add("structure", name, reader.read(path))
        path.unlink()
    places = folder / "places"
    places.mkdir()
    for path in write_places(places):
        tally.add("place", path.name, reader.read(path))
    if large:
        from tests.archive.hostile.giants import write_giants

        giants = folder / "giants"
        giants.mkdir()
        for path in write_giants(giants):
            # The quickest of three: these are near the limit, and a shared machine can double one.
            reading = min(
                (reader.read(path) for _ in range(3)), key=lambda reading: reading.cpu_seconds
            )
            tally.add("giant", path.name, reading)
            print(
                f"  {path.name:<32} {reading.outcome:<8} {reading.tensors:7} tensors "
                f"{reading.cpu_seconds:6.2f} s {reading.peak_bytes >> 20:5} MB"
            )
            if reading.outcome != "found":
                tally.violations.append(f"giant {path.name}: {reading.outcome} {reading.message}")


def main() -> None:
    """Run everything and print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mutations", type=int, default=120, help="damaged files of each seed")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--small", action="store_true", help="without the large structures")
    chosen = arguments.parse_args()
    tally, reader = Tally(), Reader()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        read_structures(folder, not chosen.small, tally, reader)
        pickles, flagged, touched = read_malicious(folder, tally, reader)
        silent = read_damaged(folder, chosen.mutations, chosen.seed, tally, reader)
    reader.close()
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
