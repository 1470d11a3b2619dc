"""Files whose structure is the attack: shapes, nesting, repetition, headers, claims of size."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tests.archive.hostile.pickles import P2, call, name, text
from tests.archive.hostile.zips import (
    bomb,
    many_entries,
    misleading,
    state_dict,
    storage,
    tensor,
    torch_zip,
    zipped,
)

HUGE = 2**62
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."


def structures(large: bool) -> dict[str, bytes]:
    """Return hostile files by name; ``large`` ones take seconds to make and hundreds of MB."""
    return {
        **misleading(),
        **shapes(),
        **repetitions(200_000 if large else 20_000),
        **claims(),
        **headers(1_000_000 if large else 50_000),
        **bombs(512 << 20 if large else 8 << 20),
        "many_entries.pt": many_entries(100_000 if large else 2_000),
    }


def _one(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, held: int = 4) -> bytes:
    return torch_zip(state_dict(weight=tensor(shape, strides, offset, storage("0", held))))


def shapes() -> dict[str, bytes]:
    four = storage("0", 4)
    return {
        "shape_2_62": _one((HUGE,), (1,)),
        "shape_2_62_zero_stride": _one((HUGE,), (0,)),
        "shape_product_overflows": _one((2**31, 2**31, 2**31), (1, 1, 1)),
        "shape_of_all_maxima": _one((2**63 - 1,) * 60, (0,) * 60),
        "shape_beyond_64_bits": _one((2**100,), (1,)),
        "shape_negative": _one((-4,), (1,)),
        "shape_zero_of_huge": _one((0, HUGE), (HUGE, 1)),
        "stride_expanded": _one((2**40,), (0,)),
        "stride_negative": _one((4,), (-1,)),
        "stride_overflows": _one((2, 2), (HUGE, HUGE)),
        "stride_of_fewer_axes": _one((2, 2), (1,)),
        "offset_beyond": _one((4,), (1,), 1),
        "offset_negative": _one((1,), (1,), -1),
        "axes_65": _one((1,) * 65, (1,) * 65),
        "axes_100000": _one((1,) * 100_000, (1,) * 100_000),
        "storage_claims_more": _one((4,), (1,), 0, 400),
        "storage_claims_2_62": _one((4,), (1,), 0, HUGE),
        "storage_missing": torch_zip(state_dict(w=tensor((4,), (1,), 0, storage("7", 4)))),
        "storage_key_upwards": torch_zip(
            state_dict(w=tensor((4,), (1,), 0, storage("../data.pkl", 4)))
        ),
        "storage_of_unknown_kind": torch_zip(
            state_dict(w=tensor((4,), (1,), 0, storage("0", 4, "os.FloatStorage2")))
        ),
        "no_tensors": torch_zip(state_dict()),
        "tensor_without_arguments": torch_zip(
            state_dict(w=call(name("torch._utils._rebuild_tensor_v2")))
        ),
        "parameter_of_parameter": torch_zip(
            state_dict(w=_wrapped(tensor((4,), (1,), 0, four), 50))
        ),
        "nan_in_metadata": torch_zip(
            P2 + b"}(" + text("epoch") + b"G\x7f\xf8" + bytes(6) + text("lr") + b"G\x7f\xf0"
            + bytes(6) + b"u."
        ),
    }  # fmt: skip


def _wrapped(inner: bytes, times: int) -> bytes:
    for _ in range(times):
        inner = call(name("torch._utils._rebuild_parameter"), inner, b"\x88", b"N")
    return inner


def repetitions(depth: int) -> dict[str, bytes]:
    module = name("torch.nn.Module") + b")\x81"
    tied = tensor((4,), (1,), 0, storage("0", 4))
    twice = b"]q\0" + b"".join(
        b"(h" + bytes([n]) + b"h" + bytes([n]) + b"lq" + bytes([n + 1]) for n in range(200)
    )
    shared = b"}q\0" + b"".join(
        b"(" + b"d" + b"q" + bytes([n + 1]) + b"(" + text("a") + b"h" + bytes([n])
        + text("b") + b"h" + bytes([n]) + b"u" for n in range(60)
    )  # fmt: skip
    return {
        "deep_lists": torch_zip(P2 + b"]" * depth + b"a" * (depth - 1) + b"."),
        "deep_tuples": torch_zip(P2 + b")" + b"\x85" * depth + b"."),
        "deep_dicts": torch_zip(P2 + b"}" * 1 + (text("k") + b"}") * depth + b"s" * depth + b"."),
        "deep_keys": torch_zip(P2 + b"})" + b"\x85" * depth + b"Ns."),
        "deep_states": torch_zip(P2 + (module + b"") * depth + b"b" * (depth - 1) + b"."),
        "deep_calls": torch_zip(P2 + name("a.b") + b")R" + b"\x85R" * 0 + b")R" * depth + b"."),
        "deep_arguments": torch_zip(P2 + name("a.b") * depth + b")" + b"R\x85" * depth + b"."),
        "deep_modules": torch_zip(_modules(depth // 10)),
        "long_names": torch_zip(_long_names(depth // 20, tied)),
        "doubled_lists": torch_zip(P2 + twice + b"."),
        "doubled_dicts": torch_zip(P2 + shared + b"."),
        "list_in_itself": torch_zip(P2 + b"]q\0h\0a."),
        "dict_in_itself": torch_zip(P2 + b"}q\0" + text("k") + b"h\0s."),
        "module_in_itself": torch_zip(_module_in_itself()),
        "many_empty_dicts": torch_zip(P2 + b"]" + b"(" + b"}" * (depth * 20) + b"e."),
        "many_pushes": torch_zip(P2 + b"N" + b"2" * (depth * 79) + b"."),
        "none_called": torch_zip(P2 + b"N)Rq\0."),
        "many_marks": torch_zip(P2 + b"(" * (depth * 60) + b"."),
        "many_memos": torch_zip(
            P2 + b"N" + b"".join(b"r" + struct.pack("<I", n) for n in range(depth * 4)) + b"."
        ),
        "many_far_memos": torch_zip(
            P2 + b"N" + b"".join(b"r" + struct.pack("<I", n * 7 + 9) for n in range(depth)) + b"."
        ),
        "many_names": torch_zip(
            P2 + b"".join(b"cm\n%d\n0" % n for n in range(depth)) + b"N."
        ),
        "many_problems": torch_zip(
            state_dict(**{f"w{n}": tensor((9,), (1,), 0, storage("0", 4)) for n in range(2_000)})
        ),
    }  # fmt: skip


def _modules(depth: int) -> bytes:
    opening = name("torch.nn.Module") + b")\x81}(" + text("_parameters") + b"}" + text("_modules")
    return P2 + (opening + b"}" + text("m")) * depth + b"N" + b"sub" * depth + b"."


def _module_in_itself() -> bytes:
    start = name("torch.nn.Module") + b")\x81q\0}(" + text("_parameters") + b"}"
    return P2 + start + text("_modules") + b"}" + text("again") + b"h\0sub."


def _long_names(depth: int, held: bytes) -> bytes:
    key = text("k" * 50)
    opened = b"}" + (text("t") + held + b"s" + key + b"}") * depth
    return P2 + opened + b"s" * depth + b"."


def claims() -> dict[str, bytes]:
    """Lengths that no file has the bytes for, and numbers of many digits."""
    far = struct.pack("<Q", 2**63 - 1)
    return {
        "text_of_2_63": torch_zip(P2 + b"\x8d" + far + b"."),
        "bytes_of_2_63": torch_zip(P2 + b"\x8e" + far + b"."),
        "bytearray_of_2_63": torch_zip(P2 + b"\x96" + far + b"."),
        "number_of_2_31": torch_zip(P2 + b"\x8b" + struct.pack("<I", 2**31 - 1) + b"."),
        "number_of_1_mb": torch_zip(P2 + b"\x8b" + struct.pack("<I", 1 << 20) + b"\x7f" * (1 << 20)
        + b"."),
        "digits_of_1_mb": torch_zip(b"I" + b"9" * (1 << 20) + b"\n."),
        "frame_of_2_63": torch_zip(b"\x80\x04\x95" + far + b"N."),
        "line_without_end": torch_zip(b"c" + b"x" * (1 << 20)),
        "memo_of_2_31": torch_zip(P2 + b"Nr\xff\xff\xff\x7f."),
        "memo_text_huge": torch_zip(b"Np" + b"9" * 4000 + b"\n."),
        "nothing_on_the_stack": torch_zip(P2 + b"R."),
        "no_end": torch_zip(P2 + b"N"),
        "no_bytes": torch_zip(b""),
        "protocol_200": torch_zip(b"\x80\xc8N."),
        "out_of_band": torch_zip(b"\x80\x05\x97."),
        "bytes_behind": torch_zip(P2 + b"}." + b"x" * 100),
        "surrogates": torch_zip(state_dict(**{}) [:-2] + b"X\3\0\0\0\xed\xa0\x80" + b"K\1u."),
        "legacy_cut": LEGACY,
        "legacy_version": LEGACY[:-3] + b"\xe8\x03.",
        "legacy_storage_2_62": LEGACY + b"\x80\x02}."
        + state_dict(w=tensor((4,), (1,), 0, storage("0", HUGE))) + P2 + b"]" + text("0") + b"a."
        + struct.pack("<Q", HUGE),
        "empty": b"",
        "one_byte": b"\x80",
        "zeros": bytes(4096),
        "only_pk": b"PK\3\4",
    }  # fmt: skip


def headers(depth: int) -> dict[str, bytes]:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}

    def with_entry(**changed: object) -> bytes:
        return _safetensors(json.dumps({"w": entry | changed}))

    second = entry | {"data_offsets": [2, 6]}
    behind = entry | {"data_offsets": [8, 12]}
    return {
        "header_length_2_63": struct.pack("<Q", 2**63) + b"{}",
        "header_length_1_tb": struct.pack("<Q", 2**40) + b"{}",
        "header_length_100_mb": struct.pack("<Q", 100_000_000) + b"{}" + bytes(100),
        "header_not_json": _safetensors("{nothing"),
        "header_not_utf8": struct.pack("<Q", 9) + b'{"\xff\xfe":1}' + bytes(4),
        "header_deep": _safetensors('{"a":' + "[" * depth),
        "header_deep_objects": _safetensors('{"a":' * depth),
        "header_many_lists": _safetensors('{"a":[' + "[]," * (depth * 4) + "[]]}"),
        "header_many_numbers": _safetensors('{"a":[' + "1," * (depth * 8) + "1]}"),
        "header_wide_text": _safetensors('{"\U0001f600' + "a" * (depth * 8) + '":1}'),
        "header_digits": _safetensors('{"w":' + "9" * depth + "}"),
        "header_nan": _safetensors('{"w":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}'),
        "header_infinity": _safetensors('{"w":Infinity}'),
        "header_twice": _safetensors(f'{{"w":{json.dumps(entry)},"w":{json.dumps(entry)}}}'),
        "header_surrogate": _safetensors('{"\\ud800":' + json.dumps(entry) + "}"),
        "header_overlap": _safetensors(json.dumps({"a": entry, "b": second}), 6),
        "header_gap": _safetensors(json.dumps({"a": entry, "b": behind}), 12),
        "header_too_much": _safetensors(json.dumps({"a": entry}), 400),
        "header_too_little": _safetensors(json.dumps({"a": entry}), 3),
        "header_list": struct.pack("<Q", 4) + b"{[]}",
        "header_shape_2_62": with_entry(shape=[HUGE]),
        "header_shape_overflow": with_entry(shape=[2**32, 2**32]),
        "header_shape_negative": with_entry(shape=[-1]),
        "header_shape_float": with_entry(shape=[1.0]),
        "header_shape_bool": with_entry(shape=[True]),
        "header_shape_text": with_entry(shape="1"),
        "header_axes": with_entry(shape=[1] * 1000),
        "header_offsets_reversed": with_entry(data_offsets=[4, 0]),
        "header_offsets_negative": with_entry(data_offsets=[-4, 0]),
        "header_offsets_2_62": with_entry(data_offsets=[HUGE, HUGE + 4]),
        "header_offsets_three": with_entry(data_offsets=[0, 2, 4]),
        "header_dtype_unknown": with_entry(dtype="F33"),
        "header_dtype_list": with_entry(dtype=["F32"]),
        "header_half_bytes": with_entry(dtype="F4", shape=[3], data_offsets=[0, 1]),
        "header_metadata_list": _safetensors('{"__metadata__":[1]}', 0),
        "header_metadata_number": _safetensors('{"__metadata__":{"a":1}}', 0),
        "index_upwards": b'{"weight_map":{"w":"../../etc/passwd"}}',
        "index_absolute": b'{"weight_map":{"w":"/etc/passwd"}}',
        "index_of_itself": b'{"weight_map":{"w":"index_of_itself"}}',
        "index_of_nothing": b'{"weight_map":{"w":"no-such-file"}}',
        "index_of_devices": b'{"weight_map":{"w":"zero"}}',
        "index_of_many": json.dumps(
            {"weight_map": {f"w{n}": f"f{n}" for n in range(20_000)}}
        ).encode(),
        "index_deep": b'{"weight_map":' + b"[" * depth,
        "program_deep": zipped({"a/archive_format": b"pt2", "a/models/model.json": b"[" * depth,
        "a/data/weights/model_weights_config.json": b"[" * depth}),
        "program_stacks": zipped({"a/archive_format": b"pt2", "a/models/model.json":
        b'"nn_module_stack": "' * depth}),
    }  # fmt: skip


def bombs(size: int) -> dict[str, bytes]:
    return {
        "bomb_pickle": bomb("a/data.pkl", size),
        "bomb_storage": bomb("a/data/0", size),
        "bomb_code": bomb("a/code/x.py", size),
        "bomb_constants": bomb("a/constants.pkl", size),
        "bomb_program": bomb("a/models/model.json", size),
        "bomb_beside": bomb("a/extra", size),
    }


def _safetensors(header: str, values: int = 4) -> bytes:
    data = header.encode()
    return struct.pack("<Q", len(data)) + data + bytes(values)


def write_places(folder: Path) -> list[Path]:
    """Make things at which a reader can hang or read for ever; give their paths."""
    import os

    os.mkfifo(folder / "pipe.pt")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "nowhere.pt").symlink_to(folder / "no-such-file")
    inner = folder / "directory"
    inner.mkdir()
    (inner / "model.safetensors").symlink_to("/dev/zero")
    with (folder / "sparse.pt").open("wb") as file:
        file.truncate(1 << 40)
    with (folder / "sparse_zip.pt").open("wb") as file:
        file.write(b"PK\3\4")
        file.truncate(1 << 40)
    with (folder / "sparse.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
        file.truncate(1 << 40)
    with (folder / "sparse_pickle.pkl").open("wb") as file:
        file.write(b"\x80\x04")
        file.truncate(1 << 40)
    return sorted(folder.iterdir())
