"""Weights from a local file, bound to a model that is already built.

The look into the file has checked that every tensor lies within its storage, and every storage
within its file. Nothing is unpickled; the map is private, so that no write reaches the file.
"""

import mmap
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch

from tui_profiler.archive import ArchiveError, Found, TensorEntry, structure_of
from tui_profiler.probe.load.common.errors import in_words, model_failed, reason, wrong_request
from tui_profiler.probe.load.files.inspection import checked, damaged, imports
from tui_profiler.probe.process.memory_limit import allow_map

# Where training scripts put the weights beside their optimizer's state.
_INNER_NAMES = ("state_dict", "model_state_dict", "model")
_VERSIONS = "_metadata"
_NOT_READ = "{} is not a state dict that can be read without running code"
_FILE_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".tar", ".safetensors")


def file_of_weights(text: str, folder: str) -> Path | None:
    """Return the file or folder that ``--weights`` names; None for published weights."""
    path = Path(folder or ".") / Path(text).expanduser()
    if path.is_file() or (path.is_dir() and not text.isidentifier()):
        return path
    if "/" in text or Path(text).suffix.casefold() in _FILE_SUFFIXES:
        raise wrong_request(f"--weights: there is no file {text}")
    return None


def bind_file(path: Path, shown: str, model: torch.nn.Module, name: str) -> None:
    """Put the values of a state dict into a model; file and model are told as the user typed them.

    Nothing but tensors is read: a file that would run code is refused, and so is a damaged one.
    """
    state = read_state_dict(path, shown)
    _check_fit(state, model, shown, name)
    try:
        model.load_state_dict(state)
    except (RuntimeError, ValueError, KeyError) as error:
        raise model_failed(f"{shown} does not fit {name}: {reason(error)}", error=error) from error


def read_state_dict(path: Path, shown: str) -> OrderedDict[str, torch.Tensor]:
    """Return the tensors of a file or index by name, with the versions of what wrote them."""
    found = structure_of_weights(path, shown)
    if found.untrusted_globals:
        raise model_failed(f"{_NOT_READ.format(shown)}: {imports(found)}")
    content: object
    if found.kind.startswith("safetensors") or path.is_dir() or found.kind == "torch-sharded":
        content = mapped_tensors(found, shown)
    else:
        content = _unpickled(path, found, shown)
    for inner in _INNER_NAMES:
        if isinstance(content, Mapping) and isinstance(content.get(inner), Mapping):
            content = content[inner]
            break
    tensors = content.items() if isinstance(content, Mapping) else ()
    state = OrderedDict(
        (str(key), value) for key, value in tensors if isinstance(value, torch.Tensor)
    )
    if not state:
        raise model_failed(f"{shown} contains a {type(content).__name__} without tensors")
    # Versions of the modules that wrote it, by which some of them read old files.
    metadata = getattr(content, _VERSIONS, {})
    # DataParallel puts everything one level deeper.
    if all(key.startswith("module.") for key in state):
        state = OrderedDict((key.removeprefix("module."), value) for key, value in state.items())
        metadata = {
            key.removeprefix("module").removeprefix("."): value for key, value in metadata.items()
        }
    setattr(state, _VERSIONS, metadata)
    return state


def structure_of_weights(path: Path, shown: str) -> Found:
    """Return what a look into a file of weights tells; nothing in it is loaded or run."""
    try:
        found = checked(structure_of(path))
    except ArchiveError as error:
        place = f" ({error.where})" if error.where else ""
        raise model_failed(f"{_NOT_READ.format(shown)}: {error.what}{place}") from error
    if found.checksum == "failed":
        raise damaged(found, shown)
    return found


def _unpickled(path: Path, found: Found, shown: str) -> object:
    """Read what torch.save wrote; from a map, where the format allows it."""
    is_mapped = found.kind.startswith("torch-zip")
    if is_mapped:
        allow_map(path.stat().st_size)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped)
    except Exception as error:
        raise model_failed(f"{_NOT_READ.format(shown)}: {reason(error)}", error=error) from error


def _check_fit(
    state: Mapping[str, torch.Tensor], model: torch.nn.Module, shown: str, name: str
) -> None:
    wanted = model.state_dict()
    missing = [key for key in wanted if key not in state]
    unexpected = [key for key in state if key not in wanted]
    other = [
        f"{key} {_axes(state[key])} for {_axes(wanted[key])}"
        for key in wanted
        if key in state and state[key].shape != wanted[key].shape
    ]
    complaints = [
        f"{len(keys)} {complaint}: {in_words(keys, 3)}"
        for keys, complaint in (
            (missing, "missing"),
            (unexpected, "unknown to the model"),
            (other, "of another shape"),
        )
        if keys
    ]
    if not complaints:
        return
    remedies = [(f"tui-profiler {name}", "without --weights")]
    if not missing and not unexpected:
        classes = {state[key].shape[:1] for key in wanted if state[key].shape != wanted[key].shape}
        if len(classes) == 1 and (count := next(iter(classes))):
            command = f"--args '{{\"num_classes\": {count[0]}}}'"
            remedies.insert(0, (command, "builds it as wide as the file, if its factory can"))
    raise model_failed(f"{shown} does not fit {name}: {'; '.join(complaints)}", *remedies)


def _axes(tensor: torch.Tensor) -> str:
    return "×".join(str(axis) for axis in tensor.shape) or "scalar"


def mapped_tensors(found: Found, shown: str) -> dict[str, torch.Tensor]:
    """Return every tensor of a file, or of all its shards, by name."""
    maps: dict[str, mmap.mmap] = {}
    return {entry.name: _tensor(entry, maps, shown) for entry in found.tensors}


def _tensor(entry: TensorEntry, maps: dict[str, mmap.mmap], shown: str) -> torch.Tensor:
    dtype = getattr(torch, entry.dtype, None)
    if not isinstance(dtype, torch.dtype) or entry.offset is None:
        what = f"{shown} stores {entry.name} as {entry.dtype}, which cannot be read in that form"
        raise model_failed(what)
    if 0 in entry.shape:
        return torch.empty(entry.shape, dtype=dtype)
    held = maps.get(entry.file)
    if held is None:
        with Path(entry.file).open("rb") as stream:
            allow_map(os.fstat(stream.fileno()).st_size)
            held = maps[entry.file] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    reach = 1 + sum(
        stride * (axis - 1) for stride, axis in zip(entry.strides, entry.shape, strict=True)
    )
    flat = torch.frombuffer(held, dtype=dtype, count=reach, offset=entry.offset)
    return flat.as_strided(entry.shape, entry.strides)
