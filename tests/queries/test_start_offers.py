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


RESNET50 = Offer("torchvision", "resnet50", model="resnet50")
WIDE = Offer("torchvision", "wide_resnet50_2", model="wide_resnet50_2")
TIMM = Offer("timm", "timm:resnet50", model="timm:resnet50")
CSP = Offer("timm", "timm:cspresnet50", model="timm:cspresnet50")
OTHER = Offer("timm", "timm:regnetx_name_t50", model="timm:regnetx_name_t50")
KNOWN = (WIDE, RESNET50, OTHER, CSP, TIMM, DEMO)


def test_names_of_libraries_are_offered_only_for_what_is_typed() -> None:
    assert matching(KNOWN, "  ") == ((DEMO,), 0)


def test_names_of_libraries_come_the_best_first() -> None:
    found, best = matching(KNOWN, "resnet50")
    assert (found, best) == ((RESNET50, WIDE, TIMM, CSP), 0)
    found, best = matching((*KNOWN, RECENT), "res50")
    assert found[best] is RECENT
    assert found[1:5] == (RESNET50, WIDE, TIMM, CSP)


def test_letters_count_only_where_nothing_fits_better() -> None:
    assert OTHER not in matching(KNOWN, "resnet50")[0]
    assert OTHER in matching(KNOWN, "rgxt50")[0]


def test_a_name_that_is_mistyped_finds_those_like_it() -> None:
    found, best = matching(KNOWN, "resmet50")
    assert found[best].model == "resnet50"
    assert {offer.right for offer in found[:-1]} == {"similar name"}
    assert found[-1].section == "as typed"
    assert [offer.section for offer in matching(KNOWN, "./resmet50")[0]] == ["as typed"]
    found, best = matching(KNOWN, "timm:resmet50")
    assert found[best].model == "timm:resnet50"


def test_a_path_is_meant_unless_it_is_offered() -> None:
    found, best = matching((*KNOWN, FILE), "resnet", is_path=True)
    assert found[best] == Offer("as typed", "resnet", "a model's name, or a path", model="resnet")
    found, best = matching((*KNOWN, FILE), "net.py", is_path=True)
    assert found[best] is FILE
