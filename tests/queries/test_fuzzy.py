"""Names by parts of them: the nearest first."""

from __future__ import annotations

import pytest

from tui_profiler.queries.fuzzy import SCATTERED, best_first, fit

NAMES = ["sort by time", "theme nord", "unfold all", "timeline", "hottest", "the restart"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("time", ["timeline", "sort by time"]),
        ("sbt", ["sort by time"]),
        ("time sort", ["sort by time"]),
        ("TIMELINE", ["timeline"]),
        ("t", ["theme nord", "timeline", "the restart", "sort by time", "hottest"]),
        ("zz", []),
        ("", NAMES),
    ],
)
def test_the_nearest_comes_first(typed: str, found: list[str]) -> None:
    assert best_first(typed, NAMES, lambda name: (name, "")) == found


def test_what_is_said_of_it_counts_less_than_its_name() -> None:
    assert best_first("hot", ["z", "hot"], lambda name: (name, "go to the hottest leaf")) == [
        "hot",
        "z",
    ]
    assert fit("lhs", "z", "go to the hottest leaf") is None  # Letters are looked for in names.


def test_every_word_must_be_found() -> None:
    assert fit("sort by nothing", "sort by time") is None


MODELS = ["seresnet50", "mobilenet_v3_large", "resnext50_32x4d", "resnet50", "vit_small_patch16"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("res50", ["resnext50_32x4d", "resnet50", "seresnet50"]),
        ("50res", ["seresnet50", "resnext50_32x4d", "resnet50"]),
        ("mobilenetv3", ["mobilenet_v3_large"]),
        ("mobilenet-v3-large", ["mobilenet_v3_large"]),
        ("resnet-50", ["seresnet50", "resnet50"]),
        ("16 small vit", ["vit_small_patch16"]),
        ("smal pach16", ["vit_small_patch16"]),
    ],
)
def test_a_name_is_half_remembered(typed: str, found: list[str]) -> None:
    assert best_first(typed, MODELS, lambda name: (name, "")) == found


def test_letters_alone_count_least() -> None:
    assert (fit("rsn50", "resnet50") or 0) <= SCATTERED < (fit("res50", "resnet50") or 0)
