"""Another batch, input, device or dtype: what is asked for, and the difference afterwards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from screens.explorer.requests import placed
from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.screens.explorer.test_explorer import SPEC, on_stage
from tests.screens.screen_text import screen_text
from tui_profiler.messages import Hello, LoadSpec, ModelFacts, SetBatch, Tick, TraceStarted

KEYS = {
    " ": "space",
    ",": "comma",
    ":": "colon",
    "=": "equals_sign",
    "-": "minus",
    ";": "semicolon",
}


def typed(text: str) -> list[str]:
    return [KEYS.get(character, character) for character in text]


@pytest.mark.parametrize(
    ("text", "device", "dtype"),
    [
        ("cuda", "cuda", "float16"),
        ("cuda:1 bf16", "cuda:1", "bfloat16"),
        ("bfloat16", "cpu", "bfloat16"),
        ("f64 cpu", "cpu", "float64"),
    ],
)
def test_a_device_and_a_dtype_are_read(text: str, device: str, dtype: str) -> None:
    spec = LoadSpec("resnet50", dtype="float16", batch=4, inputs=("1,3,8,8",))
    assert placed(spec, text) == replace(spec, device=device, dtype=dtype)


@pytest.mark.parametrize("text", ["tpu", "cuda:x", "cpu cuda", "f16 f32", "int8", "cuda;reboot"])
def test_what_is_neither_is_refused_with_a_sentence(text: str) -> None:
    found = placed(LoadSpec("resnet50"), text)
    assert isinstance(found, str)
    assert "device" in found


async def test_another_input_starts_again_with_it() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("B", *typed("x=2,3,96,96:float32"), "enter")
        await pilot.pause()
        assert stage.requests == []
        changed = [replace(spec, started_at=0.0) for spec in stage.restarted]
        assert changed == [replace(SPEC, inputs=("x=2,3,96,96:float32",))]


async def test_what_is_no_batch_and_no_input_is_refused() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        for text in ("1,3,x", "0", "1,3;rm", "--trust", "9" * 12):
            stage.explorer.say("")
            await pilot.press("B", *typed(text), "enter")
            await pilot.pause()
            assert (stage.requests, stage.restarted) == ([], [])
            assert "not '" in screen_text(stage.app)


async def test_what_is_left_with_escape_changes_nothing() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        for key in ("B", "D"):
            await pilot.press(key, "8", "escape")
        assert (stage.requests, stage.restarted) == ([], [])


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_another_dtype_starts_again_and_the_difference_is_shown(
    size: tuple[int, int],
) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        before = stage.app._newest.tick
        assert before is not None
        await pilot.press("D", "space", *"bf16", "enter")
        assert [(spec.device, spec.dtype) for spec in stage.restarted] == [("cpu", "bfloat16")]
        again = stage.app._source
        assert isinstance(again, Recorded)
        while again.left:
            await pilot.pause(0.01)
        stage.app._show()
        if size[0] > 100:
            stage.explorer.say("")
        stage.explorer.refresh_all()
        await pilot.pause()
        # The same recording again: nothing changed.
        assert "(±0 %), same MAC" in screen_text(stage.app)


async def test_a_change_that_is_none_starts_nothing() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("D", "enter")
        assert stage.restarted == []
        assert "nothing to change" in screen_text(stage.app)


async def test_what_is_not_ours_is_not_started_again() -> None:
    others = [Hello(1, 1, ("Observe",), refusal="it is another's"), *recorded()[1:]]
    async with on_stage(others) as (stage, pilot):
        await pilot.press("D")
        assert stage.explorer.prompt.open_one is None
        assert "it is another's" in screen_text(stage.app)


@pytest.mark.parametrize("key", ["P", "full_stop", "B", "E"])
async def test_parameters_alone_are_asked_for_nothing_that_needs_a_forward(key: str) -> None:
    messages = [
        replace(m, method="parameters") if isinstance(m, TraceStarted) else m for m in recorded()
    ]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press(key, key)
        assert stage.requests == []
        assert stage.explorer.prompt.open_one is None
        assert "no forward pass" in screen_text(stage.app)


async def test_another_batch_is_compared_with_the_one_before() -> None:
    messages = recorded()
    ticks = [message for message in messages if isinstance(message, Tick)]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("B", "8", "enter")
        assert stage.requests == [SetBatch(8)]
        assert stage.app.before.tick is not None
        assert stage.app.before.tick.at == ticks[-1].at


async def test_a_batch_is_refused_where_no_batch_axis_is_known() -> None:
    messages = [
        replace(one, batch=None, why_no_batch="aten::index_add combines")
        if isinstance(one, ModelFacts)
        else one
        for one in recorded()
    ]
    async with on_stage(messages) as (stage, pilot):
        await pilot.press("B", "8", "enter")
        await pilot.pause()
        assert stage.requests == []
        shown = " ".join(screen_text(stage.app).split())
        assert "the batch cannot be changed: no batch axis was found: aten::index_add" in shown


async def test_on_a_small_terminal_the_last_row_says_what_happened() -> None:
    async with on_stage(recorded(), (80, 24)) as (stage, pilot):
        await pilot.press("D", "enter")
        await pilot.pause()
        assert screen_text(stage.app).splitlines()[-1] == " nothing to change: already in use"
