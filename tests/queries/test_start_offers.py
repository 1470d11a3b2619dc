"""What can be opened, and which of it is meant."""

from __future__ import annotations

from tui_profiler.messages import LoadSpec
from tui_profiler.queries.start_offers import Offer, as_asked_now, matching, options_text

RECENT = Offer("recent", "resnet50", "--batch 4", "2 h ago", "resnet50", LoadSpec("resnet50"))
DEMO = Offer("demo models", "demo:cnn", "A small residual network", model="demo:cnn")
FILE = Offer("files here", "net.py", "Python", "2 KiB", "./net.py")
RUNNING = Offer("running", "served", "pid 12", process=12)
ALL = (DEMO, FILE, RECENT, RUNNING)


def test_everything_is_offered_by_section() -> None:
    assert matching(ALL, "") == ((RECENT, RUNNING, DEMO, FILE), 0)


def test_the_best_one_is_chosen_and_what_is_typed_comes_last() -> None:
    found, best = matching(ALL, "net")
    assert [offer.name for offer in found] == ["resnet50", "demo:cnn", "net.py", "net"]
    assert found[best] is FILE
    assert found[-1].section == "as typed"
    assert found[-1].model == "net"


def test_a_name_that_is_offered_already_is_not_offered_again() -> None:
    found, best = matching(ALL, "demo:cnn")
    assert (found, best) == ((DEMO,), 0)
    found, _ = matching(ALL, "resnet50")  # The one of before has options of its own.
    assert [offer.section for offer in found] == ["recent", "as typed"]


def test_options_are_written_as_they_are_typed() -> None:
    assert options_text(LoadSpec("m")) == ""
    spec = LoadSpec("m", inputs=("1,3,8,8",), batch=4, device="cuda", run=False, budget=0.05)
    assert options_text(spec) == ("--input 1,3,8,8 --batch 4 --device cuda --no-run --budget 5.0%")
    assert "\x1b" not in options_text(LoadSpec("m", arguments="\x1b[31m"))


def test_trust_is_not_carried_over() -> None:
    again = as_asked_now(LoadSpec("m.pt", batch=2, trust=True, started_at=1.0), 9.0)
    assert again == LoadSpec("m.pt", batch=2, trust=False, started_at=9.0)
