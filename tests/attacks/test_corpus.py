"""Every attack of the corpus is refused with its reason, and the attacks are real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.bombs import BYTES, SECONDS
from tests.attacks.corpus import Attack, stands_for
from tests.attacks.opener import Opener


@pytest.fixture(scope="module")
def opener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """One process for all: importing what opens files takes ten times what opening them does."""
    with Opener(tmp_path_factory.mktemp("corpus")) as made:
        yield made


@pytest.fixture(scope="module")
def attacks(opener: Opener) -> list[Attack]:
    return opener.written.attacks


def test_no_attack_leaves_a_canary_and_each_is_named(opener: Opener, attacks: list[Attack]) -> None:
    # Without the worker's sandbox: what is tested is that no such file is opened at all.
    assert len(attacks) >= 112  # Of YAML there are seven more, where Ultralytics is.
    answers = opener.opened(attacks, "profiler")
    assert answers.keys() == {attack.name for attack in attacks}
    for attack in attacks:
        answer = answers[attack.name]
        assert answer.canaries == [], attack.name
        assert answer.outcome == "refused", (attack.name, answer)
        assert attack.says in answer.said, (attack.name, answer.said)


def test_the_attacks_do_step_on_their_canaries_in_torch(
    opener: Opener, attacks: list[Attack]
) -> None:
    # Or their refusal would prove nothing. What the others stand for is said.
    assert all(bool(stands_for(attack)) == (attack.shown == "part") for attack in attacks)
    real = [attack for attack in attacks if attack.shown in ("torch", "refused by torch")]
    # One less before torch 2.11, four less without Ultralytics.
    assert sum(attack.shown == "torch" for attack in real) >= 35
    answers = opener.opened(real, "torch")
    for attack in real:
        made = [attack.name] if attack.shown == "torch" else []
        assert answers[attack.name].canaries == made, (attack, answers[attack.name])


def test_what_needs_trust_is_opened_with_it(opener: Opener, attacks: list[Attack]) -> None:
    names = {"setstate.pt", "enum_escaped.pt2"}
    answers = opener.opened([attack for attack in attacks if attack.name in names], "trusted")
    assert {name: answer.canaries for name, answer in answers.items()} == {
        name: [name] for name in names
    }


def test_no_bomb_takes_time_or_memory_without_end(opener: Opener) -> None:
    bombs = [bomb for bomb in opener.written.bombs if not bomb.is_slow]
    assert len(bombs) >= 29
    answers = opener.opened(bombs, "profiler")
    for bomb in bombs:
        answer = answers[bomb.name]
        assert answer.outcome == "refused", (bomb, answer)
        assert bomb.says in answer.said, (bomb, answer.said)
        assert answer.cpu_seconds < SECONDS, (bomb, answer)
        assert answer.peak_bytes < BYTES, (bomb, answer)
