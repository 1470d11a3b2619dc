"""Readers of what reports are written as, none of them ours; a mistake in it is an error."""

from __future__ import annotations

from google.protobuf.unknown_fields import UnknownFieldSet
from markdown_it import MarkdownIt
from markdown_it.token import Token
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

BEGIN, END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
COUNTER = TrackEvent.TYPE_COUNTER
GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
WANTED = {"text", "softbreak", "html_inline"}


def shown(inline: Token) -> str:
    """Return what a reader sees of a cell; anything but text is a mistake."""
    parts = []
    for token in inline.children or ():
        assert token.type in WANTED or token.type == "text_special", token.type
        if token.type == "html_inline":
            assert token.content == "<!-- -->"
            continue
        parts.append(token.content)
    return "".join(parts)


def cells(text: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in GFM.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(shown(token).replace("\N{NO-BREAK SPACE}", " "))
    return rows


def read_trace(data: bytes) -> list[TracePacket]:
    """Parse a trace, and hold it against what trace processor asks for."""
    trace = Trace()
    assert trace.ParseFromString(data) == len(data)
    packets = list(trace.packet)
    tracks: dict[int, TracePacket] = {}
    open_: dict[int, list[int]] = {}
    for packet in packets:
        no_unknown_fields(packet)
        assert packet.trusted_packet_sequence_id > 0
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            assert described.uuid not in tracks
            assert not described.HasField("parent_uuid") or described.parent_uuid in tracks
            tracks[described.uuid] = packet
            continue
        event = packet.track_event
        assert event.track_uuid in tracks
        is_counter = tracks[event.track_uuid].track_descriptor.HasField("counter")
        assert is_counter == (event.type == COUNTER)
        stack = open_.setdefault(event.track_uuid, [])
        if event.type == BEGIN:
            assert not stack or packet.timestamp >= stack[-1]
            stack.append(packet.timestamp)
        elif event.type == END:
            assert packet.timestamp >= stack.pop()
    assert not any(open_.values())
    return packets


def no_unknown_fields(found: object) -> None:
    assert len(UnknownFieldSet(found)) == 0
    for field, value in found.ListFields():  # type: ignore[attr-defined]  # protobuf's own
        if field.message_type is not None:
            values = value if field.is_repeated else [value]
            for one in values:
                no_unknown_fields(one)
