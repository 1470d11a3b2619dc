"""Opens malicious and honest files without ``--trust``, and counts the outcomes.

``python benchmarks/hostile/attacks.py [--honest] [--corpus DIR …]``. The corpus of tests/attacks is
opened by torch, to see which attacks are real, and by the profiler with and without its sandbox, to
see that none of them makes its canary; with ``--trust`` too, to see what the sandbox alone stops.
Files that take time or memory without end are refused within bounds. ``--honest`` also writes and
opens TorchScript and torch.export files of some 30 architectures. ``--corpus`` looks into every
file of folders with others' malicious files. Exits with 1 where a canary was made, an attack was
opened, or an honest file was refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.archive.hostile.reader_process import Reader
from tests.attacks.bombs import BYTES, SECONDS
from tests.attacks.corpus import Attack, stands_for
from tests.attacks.honest import architectures, write_forms
from tests.attacks.opener import By, Opener, Sandbox


def count_attacks(opener: Opener) -> bool:
    """Open the corpus in each way; say whether nothing of it got through."""
    attacks = opener.written.attacks
    files = [attack for attack in attacks if attack.shown != "part"]
    shown = Counter(attack.shown for attack in attacks)
    print(
        f"attacks {len(attacks)}: real with the library alone {shown['torch']}, refused by it"
        f" {shown['refused by torch']}, only a part of an attack {shown['part']}, which stands for:"
    )
    meant = Counter(stands_for(attack) for attack in attacks if attack.shown == "part")
    for text, count in meant.most_common():
        print(f"  {count:>3} {text}")
    ways: list[tuple[str, By, Sandbox, list[Attack]]] = [
        ("torch alone", "torch", "off", files),
        ("no --trust", "profiler", "off", attacks),
        ("no --trust", "profiler", "landlock+seccomp", attacks),
        ("no --trust", "profiler", "landlock", attacks),
        ("no --trust", "profiler", "seccomp", attacks),
        # What the sandbox does about what the checks of the file would let through.
        ("--trust", "trusted", "off", files),
        ("--trust", "trusted", "landlock+seccomp", files),
        ("--trust", "trusted", "landlock", files),
        ("--trust", "trusted", "seccomp", files),
    ]
    print(f"  {'opened by':<12} {'sandbox':<17} files  opened refused failed ended  canaries")
    is_sound = True
    for name, by, sandbox, chosen in ways:
        answers = opener.opened(chosen, by, sandbox)
        outcomes = Counter(answer.outcome for answer in answers.values())
        made = sum(bool(answer.canaries) for answer in answers.values())
        told = " ".join(f"{outcomes[kind]:>7}" for kind in ("opened", "refused", "failed", "ended"))
        print(f"  {name:<12} {sandbox:<17} {len(answers):>5} {told} {made:>9}", flush=True)
        if by == "profiler":
            is_sound &= not made and outcomes["refused"] == len(attacks)
            is_sound &= all(attack.says in answers[attack.name].said for attack in attacks)
        elif by == "trusted" and sandbox in ("landlock", "landlock+seccomp"):
            is_sound &= not made
    return is_sound


def count_bombs(opener: Opener) -> bool:
    """Open what takes time or memory; say whether all of it was refused in time."""
    answers = opener.opened(opener.written.bombs, "profiler")
    is_sound = True
    for bomb in opener.written.bombs:
        answer = answers[bomb.name]
        if answer.outcome != "refused" or bomb.says not in answer.said:
            print(f"  {bomb.name}: {answer.outcome} {answer.said[:200]}")
            is_sound = False
        if answer.cpu_seconds > SECONDS or answer.peak_bytes > BYTES:
            print(f"  {bomb.name}: {answer.cpu_seconds:.0f} s, {answer.peak_bytes >> 20} MiB")
            is_sound = False
    slowest = max(answers.values(), key=lambda answer: answer.cpu_seconds)
    largest = max(answers.values(), key=lambda answer: answer.peak_bytes)
    print(f"files that take time or memory {len(answers)}, all refused in time: {is_sound}")
    print(f"  slowest {slowest.name} {slowest.cpu_seconds:.1f} s of processor time")
    print(f"  largest {largest.name} {largest.peak_bytes >> 20} MiB")
    return is_sound


def open_honest(folder: Path) -> bool:
    """Write and open honest files; say whether each that torch wrote was opened."""
    counts: Counter[str] = Counter()
    whole = 0
    refused = []
    known = architectures()
    for name, (build, inputs) in known.items():
        forms = []
        for form, path in write_forms(name, build, inputs, folder):
            if isinstance(path, str):
                counts[f"{form}: not written"] += 1
                forms.append(f"{form}: torch cannot ({path[:60]})")
                continue
            answer = opened_alone(path)
            counts[f"{form}: {answer.split(':')[0]}"] += 1
            forms.append(f"{form}: {answer[:120]}")
            if answer != "opened":
                refused.append(f"{name} {form}")
            path.unlink()
        whole += any("opened" in form for form in forms)
        print(f"  {name:<40} {'; '.join(forms)}", flush=True)
    print(f"honest architectures {len(known)}, opened in some form {whole}")
    for form, count in sorted(counts.items()):
        print(f"  {form} {count}")
    print(f"refused: {', '.join(refused) or 'none'}")
    return not refused


def opened_alone(path: Path) -> str:
    """Load a file in this process; give ``opened``, or ``refused`` with the sentence."""
    from tui_profiler.messages import LoadSpec
    from tui_profiler.probe.load.common.errors import LoadError
    from tui_profiler.probe.load.load import load

    try:
        load(LoadSpec(path.name, folder=str(path.parent)))
    except LoadError as error:
        return f"refused: {error.failed.what}"
    return "opened"


def read_corpora(folders: list[Path]) -> None:
    """Look into others' malicious files, and count what was told of them."""
    reader = Reader()
    for folder in folders:
        counts: Counter[str] = Counter()
        unflagged = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path.suffix in (".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ".json"):
                continue
            reading = reader.read(path)
            if reading.is_violation:
                word = f"violation ({reading.outcome})"
            elif reading.dangerous:
                word = "dangerous"
            elif reading.untrusted:
                word = "needs trust"
            elif reading.outcome == "refused" or reading.kind == "unknown":
                word = "not opened"
            else:
                word = "opened as weights"
                unflagged.append(str(path.relative_to(folder)))
            counts[word] += 1
        told = ", ".join(f"{word} {count}" for word, count in counts.most_common())
        print(f"{folder.name}: files {counts.total()}: {told}")
        for name in unflagged:
            print(f"  opened as weights: {name}")
    reader.close()


def main() -> None:
    """Run what was asked for and print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--honest", action="store_true", help="30 architectures as well")
    arguments.add_argument("--corpus", type=Path, nargs="*", default=[], help="folders of files")
    chosen = arguments.parse_args()
    is_sound = True
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with Opener(folder) as opener:
            is_sound &= count_attacks(opener)
            is_sound &= count_bombs(opener)
        if chosen.honest:
            (folder / "honest").mkdir()
            is_sound &= open_honest(folder / "honest")
    read_corpora(chosen.corpus)
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
