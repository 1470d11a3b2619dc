"""Messages to bytes and back."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machine_session import FULL
from tests.small_model import MEASURED
from tui_profiler import messages
from tui_profiler.connection import wire

GPU = messages.Gpu("H200", 0.5, 1e9, 2e9, 40.0, messages.Unknown("not told"), 700.0, 1.9e9, "")
NODE = messages.Node(
    -1,
    "module",
    "net\x1b[31m\ud7ff多",
    "",
    "Net",
    1,
    (messages.Tensor((1, 3), "float32", 12, "x"),),
    (),
    (messages.Weight("w", (3,), "float32", 12, False, "other.w"),),
    "",
    "net.py:1",
    "",
)
STATISTICS = messages.TensorStatistics(
    "a",
    "a.weight",
    (2, 3),
    "float32",
    *(24, 24, 64),
    is_buffer=False,
    moments=messages.Moments(
        6, 1, 0, 1, 2, 1e-3, *[0.5] * 4, messages.Unknown("no"), -1.2, 1.0, 2.0
    ),
    histogram=messages.Histogram(b"\0" * 16, b"\1" * 8, 0.5),
    pruned=(messages.Pruned(0.1, 0.5),),
    channels=messages.Channels(
        2, 3, b"\0" * 8, 1, 1, (1,), (messages.PrunedChannels(0.1, 1),), messages.Unknown("no"), 2
    ),
    spectral=messages.Spectral(1.5, "lanczos", 2, 3, 7, 1e-4),
    quantised=(messages.Quantised("int8", "group", 40.0, 8.125, 128),),
    quantised_on=messages.Sampled(6, 6),
    width=messages.Width("int8", "channel", 8.0, 0.01, 12, "40 dB"),
    compression=messages.Compression(7.5, 0.25, "zlib 6", 0.9, 0.8, messages.Sampled(3, 6)),
    whys=(("spectral", "stopped"),),
)
SCHEME = messages.Scheme("values", "tensor", 0.25)
PARTS = messages.StepParts(0.25, messages.Unknown("no"), *[0.125] * 4, messages.Unknown("no"), 0.25)
MESSAGES: tuple[messages.Message, ...] = (
    *MEASURED,
    messages.Nodes((NODE,), (messages.Cost(*range(9)),)),
    messages.Edges(((0, 1), (1, 2))),
    messages.MemorySteps(
        1, 1, 2, 3, *[b"\0" * 4] * 2, *[b"\0" * 8] * 2, b"\0" * 4, b"\0" * 8, b"", b"", 4
    ),
    messages.FileFacts(
        "torch-zip-module",
        "module",
        1,
        2,
        "failed",
        ("a.b",),
        ("a.b",),
        (messages.FileProblem("f", "byte 1", "is wrong"),),
        3,
        "tui-profiler NAME --weights f",
        is_trusted=True,
        dangerous_globals=("a.b",),
    ),
    messages.RealCost(messages.Cost(*range(9)), "ValueError: no"),
    messages.NoDecode("it keeps its state in its modules"),
    messages.PartialTree(
        (messages.PartialModule(1, "a", "B", 2**40, "raised", ((1, 2), ()), ((3,),)),), 1, 2, 0
    ),
    messages.Listed((("demo", "demo:cnn"),)),
    messages.SecondOpinion(
        "fvcore", "fvcore 0.1.5", 0.5, "", 1, 2**60, skipped=(messages.Counted("aten::mul", 3),)
    ),
    messages.Exported("/a", ("a",), 1, 20, "torch", 2, ("x",), 3, 3, ("b",), 4),
    messages.Heartbeat(1.0, 0.5),
    messages.Sample(
        1.0, (messages.Core(0.5),), messages.Unknown("no"), 1, 2, 3.0, 4.0, 5.0, (GPU,), 6.0
    ),
    FULL,
    messages.Replayed(
        3, "processor packages", "counter", (messages.Replay(5.0, 99, 0.25),), 40.0, 0.01
    ),
    messages.TrialProgress("compile", messages.WHOLE_MODEL, "measure", 3.5, 4, 1.25, ("sdpa",)),
    messages.TrialResult(
        *("threads", 3, "measured", 9.5, "", "2 threads instead of 1"),
        *(
            messages.TrialSide(0.5, 1, 3, messages.Unknown("no")),
            messages.TrialSide(0.25, 2),
            2.0,
            1.9,
            2.1,
            20,
        ),
        *(messages.OutputError(0.5, 0.25, 3, 1, 0.125), "", 0.5, "decode", 4),
    ),
    messages.ParametersStarted(1.0, 2, 3, is_random=True, weights="random", under="a"),
    messages.ParametersProgress(1.0, 0.5, 1, 2, "a.b"),
    messages.SensitivityStarted(1.0, SCHEME, 2, is_random=True, under="a"),
    messages.Sensitivity("a", "a.w", SCHEME, 0.1, messages.Unknown("no"), 0.2, 0.3, 1.0, 1),
    messages.SensitivityDone(2.0, SCHEME, 1.0, 2, 0.0, 0.5, "stopped"),
    messages.ParametersDone(2.0, 1.0, 2, 3, was_stopped=True, why="no"),
    STATISTICS,
    messages.OperatorTimes(1.0, 2, 0.5, 0, "", b"\1\0\0\0", b"\1\0\0\0", b"\0\0\0\0", b"\0\0\0\0"),
    messages.WindowTimes(
        1.0,
        b"\1\0\0\0",
        *[b"\0\0\0\0"] * 3,
        (messages.Region(1, "why", (messages.RegionPart("a::b", 1, 0.5),)),),
    ),
    messages.DeviceTimes(1.0, 2, 0, 1, "", b"\1\0\0\0", *[b"\0" * 8] * 2, *[b"\0" * 4] * 2),
    messages.StepTimes(1.0, 9, 64, 0.25, 0.125, messages.Unknown("no"), *[0.5] * 3, dropped=2),
    messages.ModeSeen(1.0, (messages.Setting(True, "no_grad", 2, False, 9),), 12, 3, 2, 0.5),
    messages.MemoryWindow(1.0, 1000, 64, 512, 3, b"\1\0\0\0", b"\0" * 8, b"\0" * 8),
    messages.Failed(
        "trace",
        "no",
        "a.b",
        "f.py:1",
        "why",
        "likely",
        (messages.Remedy("--batch 1", "fits"),),
        "tb",
    ),
    messages.OutOfMemory(
        *(1.0, "cpu", 64.0, "backward", "layers.3", "", 12, "train.py:7"),
        *(*(1.0, 2.0, 3.0, 4.0), messages.Unknown("no"), 5.0, True),
    ),
    messages.Compilations(
        *(1.0, 6, 5, messages.Unknown("no"), (messages.CompiledAgain("a.py", 3, "f", "item", 2),)),
        *((messages.CompiledAgain("b.py", 0, "g", "dtype", 1),), 1),
    ),
    messages.Printed("out\n", 3),
    messages.Ended(-9, False, "Killed", 42, 1.5, out_of_memory=True, why="oom_kill rose by 1"),
    messages.Playback(2.0, True, 0.0, 9.5, 1e9, "host", False, (messages.Skipped(1.5, 3),), 3),
    messages.TorchChildren((41, 42), 2),
    messages.SlowForward(
        1.0,
        812,
        0.5,
        messages.ThreadTime(0.5, 0.25, messages.Unknown("no"), 3.0, 0.0, 1.0, 7.0, 0.125, 1.0),
        b"\1\0\0\0",
        *[b"\0\0\0\0"] * 2,
    ),
    messages.TrainingStep(
        1.0,
        40,
        "optimizer",
        *(0.5, 0.25, 0.75, 2.0),
        *(32, 1),
        PARTS,
        *(2.0, 1.0, 1.0),
        *(8.0, messages.Unknown("no")),
        ("SGD",),
        0.125,
        (messages.SourceLine("log", "/a.py", 7, 0.5, "loss.item()"),),
        *(9, "", "why", 2),
        *[b"\1\0\0\0"] * 7,
        None,
        True,
        32,
        (1.0,) * 8,
        messages.LoaderSettings(2, True, 2),
        (messages.OptimizerSettings("SGD", None, True),),
        messages.KeptGradients(9, 3, 1, 400),
        (messages.BackwardLine("train", "/a.py", 9, "loss.backward()", 1.0, 0.5, 0.25, 0.125),),
        (messages.OtherModel("Net#2", 2.0, messages.Unknown("no"), 0.5),),
    ),
    messages.SlowStep(1.0, 39, 0.75, PARTS, None, (), 0.25),
    messages.TrainingCost(
        *(messages.TrainSpec("sgd", "blocks", 2, "bf16"), "SGD", "the model's own loss", ""),
        *[messages.PassCost(1, 2, 3, 4, 5, 6, 7)] * 6,
        ("aten::odd",),
        b"\1\0\0\0",
        *[b"\1\0\0\0\0\0\0\0"] * 12,
    ),
    messages.TrainingMemory(
        *range(1, 9),
        *(messages.Unknown("no"), 3, "backward", (1, 2, 3), (4, 3, 2, 1)),
        (messages.AliveAtPeak(3, "saved", 64),),
        (messages.Checkpointing((3, 4), 64, 128, 7),),
        *(1, 1, 0, 1),
        *[b"\1\0\0\0"] * 2,
        *[b"\1\0\0\0\0\0\0\0"] * 5,
        *(b"\1\0\0\0", b"\1\0\0\0\0\0\0\0", b"\1\0\0\0", b"\1\0\0\0", b"\1"),
    ),
    messages.BackwardOperators(
        1.0,
        *(3, 0.5, 0.25, 0.125, 0.0625),
        *[messages.CalledOperators(("aten::mm",), *[b"\1\0\0\0"] * 5)] * 2,
    ),
    messages.ModelValues(
        *(1.0, 3, 40, 0.001, messages.Unknown("no"), b"\1\0\0\0", b"\0\0\0\0"),
        messages.FoundNan(40, 3, "parameter gradient", "a.weight", 0.5, 30),
        *("a reason", ""),
        *[b"\1\0\0\0"] * 18,
    ),
    messages.Generation(
        *(1.0, 3, 1, 1, 2.0, 7.0, 12.0, True),
        *(0.5, 0.75, 0.125, messages.Unknown("no"), 22, 100.0, 200.0, 300.0),
        *(messages.GenerationPhase(3, 42, 0.5), messages.GenerationPhase(30, 60, 1.5), 0.25),
        messages.TokenCache("DynamicCache", b"\1\0\0\0\0\0\0\0", 18.0, 2, 512.0, 64, False),
        *("", 5, 4, True),
    ),
    messages.ExpertTokens(1.0, (messages.LayerExperts("layers.0.gate", [3, 0, 5]),)),
    messages.ProgramsSeen(
        2.0,
        (messages.ProgramUse(7, "cc1", 0.5, 99),),
        0.75,
        30,
        messages.Pressure(0.5, 0.0, messages.Unknown("no")),
    ),
    messages.ServingSeen(
        "http://127.0.0.1:8000/metrics",
        messages.ServingFigures(
            *("vLLM", ("llama",), 60.0, 3.0, 1.0, 512.0, messages.Unknown("no"), False),
            *[
                messages.ServingTimes(
                    messages.BucketQuantile(0.3, 0.25, 0.5),
                    messages.BucketQuantile(*[messages.Unknown("no")] * 3),
                    *(7, True),
                )
            ]
            * 2,
            *(0.5, 0.25, True, 2.0, 7.0),
        ),
        "",
    ),
)
REQUESTS: tuple[messages.Request, ...] = (
    messages.Start(messages.LoadSpec("resnet18", inputs=("x=1,3",), batch=2, seconds=1.5)),
    messages.ListModels("res"),
    messages.MeasureCeilings(messages.LoadSpec("", threads=2), True),
    messages.CountWith(messages.LoadSpec("resnet18"), "flop_counter"),
    messages.Try(messages.Wish("compile", 3, 2.0, 60.0, 2**33)),
    messages.StopTrial(),
    messages.ProlongTrial(12.5),
    messages.TryAlone(messages.LoadSpec("resnet18"), messages.Wish("sdpa"), "layer1.0", "decode"),
    messages.TryOptimizer(
        messages.LoadSpec("", threads=2),
        messages.Wish("optimizer-loop"),
        *("AdamW", (((3, 4), "float32"), ((4,), "bfloat16")), 0.25),
    ),
    messages.ExportOnnx(messages.LoadSpec("resnet18"), "m.onnx", 18),
    messages.Pause(),
    messages.Resume(),
    messages.Step(),
    messages.Observe(),
    messages.TraceAgain(),
    messages.ShowModel("Dis*"),
    messages.ReadValues(wanted=False),
    messages.SetBatch(4),
    messages.SetPhase("decode"),
    messages.ReplayNode(7),
    messages.AnalyseParameters("a.b", ("spectral",), 2),
    messages.StopAnalysing(),
    messages.MeasureSensitivity(SCHEME, "a.b", 5.0),
    messages.Play(),
    messages.Halt(),
    messages.SetSpeed(2.5),
    messages.Seek(12.5),
    messages.Stop(),
)


def classes(found: tuple[object, ...]) -> set[type]:
    return {type(one) for one in found}


def test_every_message_has_an_example_here() -> None:
    assert classes(MESSAGES) == set(get_args(messages.Message))


def test_every_request_has_an_example_here() -> None:
    assert classes(REQUESTS) == set(get_args(messages.Request))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_a_round_trip(message: messages.Message) -> None:
    assert list(wire.message_decoder().feed(wire.encode(message))) == [message]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_survives_a_round_trip(request_: messages.Request) -> None:
    assert list(wire.request_decoder().feed(wire.encode(request_))) == [request_]


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in itertools.pairwise(edges))


def test_threads_that_decode_at_the_same_time_read_the_types_of_messages_once() -> None:
    """msgspec crashes in a thread that meets a type which another one has half read."""
    before, start = sys.getswitchinterval(), Barrier(8)
    wire._of_messages.cache_clear()

    def decoder(number: int) -> object:
        start.wait(60)
        return wire.message_decoder()._decode.__self__  # type: ignore[attr-defined] # of msgspec

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as executor:
            assert len(set(map(id, executor.map(decoder, range(8))))) == 1
    finally:
        sys.setswitchinterval(before)


@given(st.lists(st.integers(min_value=0), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_messages(cuts: list[int]) -> None:
    decoder = wire.message_decoder()
    data = b"".join(map(wire.encode, MESSAGES))
    got = [message for piece in pieces(data, cuts) for message in decoder.feed(piece)]
    assert tuple(got) == MESSAGES


def test_single_bytes_give_the_same_messages() -> None:
    decoder = wire.message_decoder()
    data = b"".join(map(wire.encode, MESSAGES))
    got = [message for byte in data for message in decoder.feed(bytes([byte]))]
    assert tuple(got) == MESSAGES


def test_half_a_message_is_no_message() -> None:
    assert list(wire.message_decoder().feed(wire.encode(MESSAGES[0])[:-1])) == []


def test_what_was_yielded_is_not_yielded_again_when_the_reader_stops_early() -> None:
    decoder = wire.message_decoder()
    first = decoder.feed(b"".join(map(wire.encode, MESSAGES[:3])))
    assert next(first) == MESSAGES[0]
    first.close()
    assert list(decoder.feed(b"")) == list(MESSAGES[1:3])


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(wire.WireError, match="limit"):
        list(wire.message_decoder().feed(struct.pack(">I", wire.MAX_FRAME_BYTES + 1)))


def test_a_request_that_is_too_long_is_refused_before_it_is_read() -> None:
    longest = 256 * 1024  # Two hundred viewers may send one each: 50 MB of the program's memory.
    assert list(wire.request_decoder().feed(struct.pack(">I", longest))) == []
    with pytest.raises(wire.WireError, match="limit"):
        list(wire.request_decoder().feed(struct.pack(">I", longest + 1)))


def test_a_message_that_is_too_long_is_not_made() -> None:
    with pytest.raises(wire.WireError, match="limit"):
        wire.encode(messages.Printed("x" * (wire.MAX_FRAME_BYTES + 1)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode("text"),
        msgspec.msgpack.encode(["NoSuchMessage", 1]),
        msgspec.msgpack.encode(["Printed"]),
        msgspec.msgpack.encode(["Printed", 7]),
        msgspec.msgpack.encode({"_": "Printed"}),
        b"\x91" * 100_000,
        # In what a later version may have added, which is passed over.
        b"\x94\xa7Printed\xa1x\x01" + b"\x91" * 100_000,
        b"\x92\xa7Printed\xa2\xff\xfe",
    ],
)
def test_rubbish_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        list(wire.message_decoder().feed(struct.pack(">I", len(body)) + body))


def test_a_newer_peer_may_add_a_field() -> None:
    body = msgspec.msgpack.encode(["StageStarted", "trace", 1.5, "detail", "of a later version"])
    (got,) = wire.message_decoder().feed(struct.pack(">I", len(body)) + body)
    assert got == messages.StageStarted("trace", 1.5, "detail")


@pytest.mark.parametrize(
    "message",
    [
        messages.Printed("half\ud800", 1),
        messages.OperatorTimes(1.0, 2, 0.5, 0, "half\ud800", b"\1\0\0\0", b"\xff\xfe", b"", b""),
        messages.Failed(
            "trace", "no", "half\ud800", remedies=(messages.Remedy("half\ud800", "fits"),)
        ),
    ],
)
def test_half_of_a_character_is_written_out_and_all_else_stays(message: messages.Message) -> None:
    """Python's texts may hold half of a surrogate pair; UTF-8 may not."""
    (got,) = wire.message_decoder().feed(wire.encode(message))
    assert repr(got) == repr(message).replace("\\ud800", "\\\\ud800")


@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.integers(0), st.integers(0, 255))))
def test_a_damaged_frame_gives_messages_or_a_wire_error(
    message: messages.Message, damage: list[tuple[int, int]]
) -> None:
    data = bytearray(wire.encode(message))
    for position, value in damage:
        data[position % len(data)] = value
    try:
        got = list(wire.message_decoder().feed(bytes(data)))
    except wire.WireError:
        return
    assert classes(tuple(got)) <= set(get_args(messages.Message))


@given(st.binary(max_size=200))
def test_random_bytes_give_messages_or_a_wire_error(data: bytes) -> None:
    try:
        got = list(wire.message_decoder().feed(data))
    except wire.WireError:
        return
    assert classes(tuple(got)) <= set(get_args(messages.Message))


def test_a_number_where_ceilings_may_be_unknown_keeps_its_kind() -> None:
    (ceilings,) = (message for message in MESSAGES if isinstance(message, messages.Ceilings))
    (got,) = wire.message_decoder().feed(wire.encode(ceilings))
    assert isinstance(got, messages.Ceilings)
    assert [type(part.flops_per_second) for part in got.compute] == [float, messages.Unknown]
