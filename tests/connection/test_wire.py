"""Messages to bytes and back."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machine_session import FULL
from tests.small_model import MEASURED
from tui_profiler.connection.wire import (
    MAX_FRAME_BYTES,
    WireError,
    encode,
    message_decoder,
    request_decoder,
)
from tui_profiler.messages import (
    WHOLE_MODEL,
    AnalyseParameters,
    Ceilings,
    Core,
    Cost,
    Counted,
    CountWith,
    DeviceTimes,
    Edges,
    Ended,
    Exported,
    ExportOnnx,
    Failed,
    FileFacts,
    FileProblem,
    Gpu,
    Halt,
    Heartbeat,
    Listed,
    ListModels,
    LoadSpec,
    MeasureCeilings,
    MeasureSensitivity,
    MemorySteps,
    MemoryWindow,
    Message,
    ModeSeen,
    Node,
    NoDecode,
    Nodes,
    Observe,
    OperatorTimes,
    OutputError,
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    PartialModule,
    PartialTree,
    Pause,
    Play,
    Playback,
    Printed,
    RealCost,
    Region,
    RegionPart,
    Remedy,
    Replayed,
    ReplayNode,
    Request,
    Resume,
    Sample,
    SecondOpinion,
    Seek,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
    SetBatch,
    SetPhase,
    SetSpeed,
    Setting,
    ShowModel,
    Skipped,
    StageStarted,
    Start,
    Step,
    StepTimes,
    Stop,
    StopAnalysing,
    StopTrial,
    Tensor,
    TensorStatistics,
    TraceAgain,
    TrialProgress,
    TrialResult,
    TrialSide,
    Try,
    TryAlone,
    Unknown,
    Weight,
    WindowTimes,
    Wish,
)
from tui_profiler.messages.hardware import Pressure, ProgramsSeen, ProgramUse, Replay
from tui_profiler.messages.live import SlowForward, ThreadTime, TorchChildren
from tui_profiler.messages.parameters import (
    Channels,
    Compression,
    Histogram,
    Moments,
    Pruned,
    PrunedChannels,
    Quantised,
    Sampled,
    Scheme,
    Spectral,
    Width,
)

GPU = Gpu("H200", 0.5, 1e9, 2e9, 40.0, Unknown("not told"), 700.0, 1.9e9, "")
NODE = Node(
    -1,
    "module",
    "net\x1b[31m\ud7ff多",
    "",
    "Net",
    1,
    (Tensor((1, 3), "float32", 12, "x"),),
    (),
    (Weight("w", (3,), "float32", 12, False, "other.w"),),
    "",
    "net.py:1",
    "",
)
STATISTICS = TensorStatistics(
    "a",
    "a.weight",
    (2, 3),
    "float32",
    *(24, 24, 64),
    is_buffer=False,
    moments=Moments(6, 1, 0, 1, 2, 1e-3, *[0.5] * 4, Unknown("no"), -1.2, 1.0, 2.0),
    histogram=Histogram(b"\0" * 16, b"\1" * 8, 0.5),
    pruned=(Pruned(0.1, 0.5),),
    channels=Channels(2, 3, b"\0" * 8, 1, 1, (1,), (PrunedChannels(0.1, 1),), Unknown("no"), 2),
    spectral=Spectral(1.5, "lanczos", 2, 3, 7, 1e-4),
    quantised=(Quantised("int8", "group", 40.0, 8.125, 128),),
    quantised_on=Sampled(6, 6),
    width=Width("int8", "channel", 8.0, 0.01, 12, "40 dB"),
    compression=Compression(7.5, 0.25, "zlib 6", 0.9, 0.8, Sampled(3, 6)),
    whys=(("spectral", "stopped"),),
)
SCHEME = Scheme("values", "tensor", 0.25)
MESSAGES: tuple[Message, ...] = (
    *MEASURED,
    Nodes((NODE,), (Cost(*range(9)),)),
    Edges(((0, 1), (1, 2))),
    MemorySteps(1, 1, 2, 3, *[b"\0" * 4] * 2, *[b"\0" * 8] * 2, b"\0" * 4, b"\0" * 8, b"", b"", 4),
    FileFacts(
        "torch-zip-module",
        "module",
        1,
        2,
        "failed",
        ("a.b",),
        ("a.b",),
        (FileProblem("f", "byte 1", "is wrong"),),
        3,
        "tui-profiler NAME --weights f",
        is_trusted=True,
        dangerous_globals=("a.b",),
    ),
    RealCost(Cost(*range(9)), "ValueError: no"),
    NoDecode("it keeps its state in its modules"),
    PartialTree((PartialModule(1, "a", "B", 2**40, "raised", ((1, 2), ()), ((3,),)),), 1, 2, 0),
    Listed((("demo", "demo:cnn"),)),
    SecondOpinion("fvcore", "fvcore 0.1.5", 0.5, "", 1, 2**60, skipped=(Counted("aten::mul", 3),)),
    Exported("/a", ("a",), 1, 20, "torch", 2, ("x",), 3, 3, ("b",), 4),
    Heartbeat(1.0, 0.5),
    Sample(1.0, (Core(0.5),), Unknown("no"), 1, 2, 3.0, 4.0, 5.0, (GPU,), 6.0),
    FULL,
    Replayed(3, "processor packages", "counter", (Replay(5.0, 99, 0.25),), 40.0, 0.01),
    TrialProgress("compile", WHOLE_MODEL, "measure", 3.5, 4, 1.25, ("sdpa",)),
    TrialResult(
        *("threads", 3, "measured", 9.5, "", "2 threads instead of 1"),
        *(TrialSide(0.5, 1, 3, Unknown("no")), TrialSide(0.25, 2), 2.0, 1.9, 2.1, 20),
        *(OutputError(0.5, 0.25, 3, 1, 0.125), "", 0.5, "decode", 4),
    ),
    ParametersStarted(1.0, 2, 3, is_random=True, weights="random", under="a"),
    ParametersProgress(1.0, 0.5, 1, 2, "a.b"),
    SensitivityStarted(1.0, SCHEME, 2, is_random=True, under="a"),
    Sensitivity("a", "a.w", SCHEME, 0.1, Unknown("no"), 0.2, 0.3, 1.0, 1),
    SensitivityDone(2.0, SCHEME, 1.0, 2, 0.0, 0.5, "stopped"),
    ParametersDone(2.0, 1.0, 2, 3, was_stopped=True, why="no"),
    STATISTICS,
    OperatorTimes(1.0, 2, 0.5, 0, "", b"\1\0\0\0", b"\1\0\0\0", b"\0\0\0\0", b"\0\0\0\0"),
    WindowTimes(
        1.0, b"\1\0\0\0", *[b"\0\0\0\0"] * 3, (Region(1, "why", (RegionPart("a::b", 1, 0.5),)),)
    ),
    DeviceTimes(1.0, 2, 0, 1, "", b"\1\0\0\0", *[b"\0" * 8] * 2, *[b"\0" * 4] * 2),
    StepTimes(1.0, 9, 64, 0.25, 0.125, Unknown("no"), *[0.5] * 3, dropped=2),
    ModeSeen(1.0, (Setting(True, "no_grad", 2, False, 9),), 12, 3, 2, 0.5),
    MemoryWindow(1.0, 1000, 64, 512, 3, b"\1\0\0\0", b"\0" * 8, b"\0" * 8),
    Failed("trace", "no", "a.b", "f.py:1", "why", "likely", (Remedy("--batch 1", "fits"),), "tb"),
    Printed("out\n", 3),
    Ended(-9, False, "Killed", 42, 1.5, out_of_memory=True, why="oom_kill rose by 1"),
    Playback(2.0, True, 0.0, 9.5, 1e9, "host", False, (Skipped(1.5, 3),), 3),
    TorchChildren((41, 42), 2),
    SlowForward(
        1.0,
        812,
        0.5,
        ThreadTime(0.5, 0.25, Unknown("no"), 3.0, 0.0, 1.0, 7.0, 0.125, 1.0),
        b"\1\0\0\0",
        *[b"\0\0\0\0"] * 2,
    ),
    ProgramsSeen(
        2.0, (ProgramUse(7, "cc1", 0.5, 99),), 0.75, 30, Pressure(0.5, 0.0, Unknown("no"))
    ),
)
REQUESTS: tuple[Request, ...] = (
    Start(LoadSpec("resnet18", inputs=("x=1,3",), batch=2, seconds=1.5)),
    ListModels("res"),
    MeasureCeilings(LoadSpec("", threads=2), True),
    CountWith(LoadSpec("resnet18"), "flop_counter"),
    Try(Wish("compile", 3, 2.0, 60.0, 2**33)),
    StopTrial(),
    TryAlone(LoadSpec("resnet18"), Wish("sdpa"), "layer1.0", "decode"),
    ExportOnnx(LoadSpec("resnet18"), "m.onnx", 18),
    Pause(),
    Resume(),
    Step(),
    Observe(),
    TraceAgain(),
    ShowModel("Dis*"),
    SetBatch(4),
    SetPhase("decode"),
    ReplayNode(7),
    AnalyseParameters("a.b", ("spectral",), 2),
    StopAnalysing(),
    MeasureSensitivity(SCHEME, "a.b", 5.0),
    Play(),
    Halt(),
    SetSpeed(2.5),
    Seek(12.5),
    Stop(),
)


def classes(messages: tuple[object, ...]) -> set[type]:
    return {type(message) for message in messages}


def test_every_message_has_an_example_here() -> None:
    assert classes(MESSAGES) == set(get_args(Message))


def test_every_request_has_an_example_here() -> None:
    assert classes(REQUESTS) == set(get_args(Request))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_a_round_trip(message: Message) -> None:
    assert list(message_decoder().feed(encode(message))) == [message]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_survives_a_round_trip(request_: Request) -> None:
    assert list(request_decoder().feed(encode(request_))) == [request_]


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return (data[start:end] for start, end in itertools.pairwise(edges))


@given(st.lists(st.integers(min_value=0), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_messages(cuts: list[int]) -> None:
    decoder = message_decoder()
    data = b"".join(map(encode, MESSAGES))
    got = [message for piece in pieces(data, cuts) for message in decoder.feed(piece)]
    assert tuple(got) == MESSAGES


def test_single_bytes_give_the_same_messages() -> None:
    decoder = message_decoder()
    data = b"".join(map(encode, MESSAGES))
    got = [message for byte in data for message in decoder.feed(bytes([byte]))]
    assert tuple(got) == MESSAGES


def test_half_a_message_is_no_message() -> None:
    assert list(message_decoder().feed(encode(MESSAGES[0])[:-1])) == []


def test_what_was_yielded_is_not_yielded_again_when_the_reader_stops_early() -> None:
    decoder = message_decoder()
    first = decoder.feed(b"".join(map(encode, MESSAGES[:3])))
    assert next(first) == MESSAGES[0]
    first.close()
    assert list(decoder.feed(b"")) == list(MESSAGES[1:3])


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match="limit"):
        list(message_decoder().feed(struct.pack(">I", MAX_FRAME_BYTES + 1)))


def test_a_request_that_is_too_long_is_refused_before_it_is_read() -> None:
    longest = 256 * 1024  # Two hundred viewers may send one each: 50 MB of the program's memory.
    assert list(request_decoder().feed(struct.pack(">I", longest))) == []
    with pytest.raises(WireError, match="limit"):
        list(request_decoder().feed(struct.pack(">I", longest + 1)))


def test_a_message_that_is_too_long_is_not_made() -> None:
    with pytest.raises(WireError, match="limit"):
        encode(Printed("x" * (MAX_FRAME_BYTES + 1)))


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
    with pytest.raises(WireError):
        list(message_decoder().feed(struct.pack(">I", len(body)) + body))


def test_a_newer_peer_may_add_a_field() -> None:
    body = msgspec.msgpack.encode(["StageStarted", "trace", 1.5, "detail", "of a later version"])
    (got,) = message_decoder().feed(struct.pack(">I", len(body)) + body)
    assert got == StageStarted("trace", 1.5, "detail")


@pytest.mark.parametrize(
    "message",
    [
        Printed("half\ud800", 1),
        OperatorTimes(1.0, 2, 0.5, 0, "half\ud800", b"\1\0\0\0", b"\xff\xfe", b"", b""),
        Failed("trace", "no", "half\ud800", remedies=(Remedy("half\ud800", "fits"),)),
    ],
)
def test_half_of_a_character_is_written_out_and_all_else_stays(message: Message) -> None:
    """Python's texts may hold half of a surrogate pair; UTF-8 may not."""
    (got,) = message_decoder().feed(encode(message))
    assert repr(got) == repr(message).replace("\\ud800", "\\\\ud800")


@given(st.sampled_from(MESSAGES), st.lists(st.tuples(st.integers(0), st.integers(0, 255))))
def test_a_damaged_frame_gives_messages_or_a_wire_error(
    message: Message, damage: list[tuple[int, int]]
) -> None:
    data = bytearray(encode(message))
    for position, value in damage:
        data[position % len(data)] = value
    try:
        got = list(message_decoder().feed(bytes(data)))
    except WireError:
        return
    assert classes(tuple(got)) <= set(get_args(Message))


@given(st.binary(max_size=200))
def test_random_bytes_give_messages_or_a_wire_error(data: bytes) -> None:
    try:
        got = list(message_decoder().feed(data))
    except WireError:
        return
    assert classes(tuple(got)) <= set(get_args(Message))


def test_a_number_where_ceilings_may_be_unknown_keeps_its_kind() -> None:
    (ceilings,) = (message for message in MESSAGES if isinstance(message, Ceilings))
    (got,) = message_decoder().feed(encode(ceilings))
    assert isinstance(got, Ceilings)
    assert [type(part.flops_per_second) for part in got.compute] == [float, Unknown]
