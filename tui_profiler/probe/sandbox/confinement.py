"""Who is confined, when, and what the user is told.

1. A worker is confined before it looks into a file that came from elsewhere, and before it has
   threads: the first request says what it will open.
2. The user's own Python code is not confined, nor is what ``--trust`` was typed for, nor a name
   that brings no file.
3. Whatever cannot be denied here is told: a kernel without Landlock is no error, the checks of the
   file then stand alone.
"""

import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from tui_profiler import messages
from tui_profiler.probe.load.common import downloads
from tui_profiler.probe.load.common.downloads import Download
from tui_profiler.probe.load.files.inspection import is_file
from tui_profiler.probe.sandbox import broker, landlock, seccomp
from tui_profiler.probe.sandbox.broker import Broker, Delivery
from tui_profiler.system.demos import PREFIX as DEMO

SWITCH = "TUI_PROFILER_SANDBOX"
"""Environment variable for debugging: ``off``, or the only part that is to be used."""
_PARTS = ("landlock", "seccomp")
_YAML = (".yaml", ".yml")
NO_COMPILER = "torch.compile runs a compiler, which the sandbox denies; --trust opens without it"

_FILES = (
    "write, create, rename, remove or link files outside the temporary folder",
    "read terminals and other devices",
)
_TRUNCATE = ("truncate files",)
_PROGRAMS = ("run programs",)
_PROCESSES = ("start processes", "signal, trace or read other processes")
_SOCKETS = ("open sockets", "change modes, owners, times or attributes of files")
_SOCKETS_WITH_CUDA = (
    "connect sockets, or open sockets other than Unix sockets",
    "change modes, owners, times or attributes of files",
)
_TCP = ("connect or bind TCP",)

_DEVICES = Path("/dev")
_READ_DEVICES = ("zero", "full", "random", "urandom", "shm")
_FILESYSTEMS_OF_DEVICES = ("devpts", "devtmpfs")
_CUDA_PLACES = {
    # The driver names its threads there, and keeps what processes share here.
    "/proc/self/task": landlock.Access.WRITE_FILE | landlock.Access.TRUNCATE,
    "/dev/shm": landlock.FOLDER,
}


class _Here:
    """The state of this process: it is confined once, permanently."""

    broker: Broker | None = None


def confinement() -> Broker | None:
    """Return the broker of this process, if it is confined; None where it is not."""
    return _Here.broker


def untrusted_input(request: messages.Request) -> str:
    """Return what a request opens that comes from elsewhere and is not trusted; empty for nothing.

    A name that could mean either is taken for a file.
    """
    match request:
        case (
            messages.Start(spec=spec)
            | messages.CountWith(spec=spec)
            | messages.ExportOnnx(spec=spec)
            | messages.TryAlone(spec=spec)
        ):
            return "" if spec.trust else _foreign(spec)
        case messages.ListModels() | _:
            return ""


def _foreign(spec: messages.LoadSpec) -> str:
    model, folder = spec.model, Path(spec.folder or ".")
    if is_file(spec):
        return model
    if model.startswith("hf:"):
        return model
    if model.endswith(_YAML):
        return model if (folder / Path(model).expanduser()).exists() else ""
    is_own_code = model.endswith(".py") or (
        ":" in model and not model.startswith((DEMO, "timm:", "hf:"))
    )
    if is_own_code or not spec.weights:
        return ""
    weights = Path(spec.weights).expanduser()
    is_path = os.sep in spec.weights or bool(weights.suffix) or os.path.lexists(folder / weights)
    return spec.weights if is_path or downloads.download_of(spec) is not None else ""


def confine(
    request: messages.Request, wire: int, *, always: bool = False, trial_on: str = ""
) -> messages.Sandbox | str:
    """Confine this process, if what it is asked opens a file that is not trusted.

    It has one thread, and has opened nothing of the file.

    Args:
        request: the first one.
        wire: descriptor of the socket to the viewer.
        always: confine it whatever is asked.
        trial_on: device of the worker that started this process for a trial, and that the request
            comes from; empty where it comes from the viewer.

    Returns:
        what is denied from here on; or why nothing is, empty where there is nothing to confine.

    Raises:
        ConfinementError: it cannot be confined, and must not open anything.
    """
    if not (always or untrusted_input(request)):
        return ""
    switch = os.environ.get(SWITCH, "")
    if switch == "off":
        return f"the sandbox was turned off by {SWITCH}=off"
    wanted = (switch,) if switch in _PARTS else _PARTS
    kernel = landlock.CLibrary()
    abi, why_no_landlock = landlock.version(kernel)
    if "landlock" not in wanted:
        abi, why_no_landlock = 0, f"Landlock was turned off by {SWITCH}={switch}"
    why_no_filter = seccomp.why_not(kernel)
    if "seccomp" not in wanted:
        why_no_filter = f"seccomp was turned off by {SWITCH}={switch}"
    if not abi and why_no_filter:
        return f"{why_no_landlock}; {why_no_filter}"
    if trial_on and not isinstance(request, messages.TryAlone):
        raise ConfinementError("a process for a trial was asked for something else")
    device = trial_on or getattr(getattr(request, "spec", None), "device", "cpu")
    delivery = _delivery(request)
    is_for_cuda = device.startswith("cuda")
    trials_on = None if trial_on else "cuda" if is_for_cuda else "cpu"
    try:
        folder = broker.make_folder(tempfile.gettempdir())
        served_by = broker.start(
            folder, delivery, wire, trials_on=trials_on, download=_download(request)
        )
    except OSError as error:
        # Without the broker nothing would remove the folder; nothing is restricted so far.
        raise ConfinementError(f"the sandbox cannot be set up: {error.strerror}") from error
    _use_folder(folder)
    # What a trial needs was fetched by the worker that it is a trial of.
    downloads.fetch_by((lambda: None) if trial_on else served_by.download)
    places = (folder,) if delivery is None else (folder, delivery.folder)
    try:
        granted = _granted(places, device)
        landlock.drop_privileges(kernel)
        if abi:
            landlock.restrict(kernel, abi, granted)
        if not why_no_filter:
            seccomp.install(kernel, is_for_cuda=is_for_cuda)
    except OSError as error:
        raise ConfinementError(f"the kernel refused the sandbox: {error.strerror}") from error
    _Here.broker = served_by
    return _told(abi, why_no_landlock, why_no_filter, is_for_cuda=is_for_cuda)


class ConfinementError(Exception):
    """A worker that must be confined cannot be; it opens nothing."""


def _delivery(request: messages.Request) -> Delivery | None:
    """Make a folder beside the file that was asked for; None where none was, or cannot be made."""
    if not isinstance(request, messages.ExportOnnx):
        return None
    path = Path(request.spec.folder or ".", request.path).absolute()
    try:
        return Delivery(Path(tempfile.mkdtemp(prefix=".onnx-", dir=path.parent)), path)
    except OSError:
        return None  # The export fails for the same reason, and says so.


def _download(request: messages.Request) -> Download | None:
    spec = getattr(request, "spec", None)
    return downloads.download_of(spec) if isinstance(spec, messages.LoadSpec) else None


def _use_folder(folder: Path) -> None:
    """Have libraries write what they must into the temporary folder."""
    tempfile.tempdir = None
    sys.dont_write_bytecode = True
    os.environ |= {
        "TMPDIR": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "MPLCONFIGDIR": str(folder / "matplotlib"),
    }


def _granted(folders: tuple[Path, ...], device: str) -> dict[Path, landlock.Access]:
    """Return what is not denied: reading files, the folders, and what GPU drivers need."""
    granted = {Path(os.sep): landlock.Access.READ_DIR}
    closed = {_DEVICES, *_mounted_devices()}
    granted |= dict.fromkeys(_outside(Path(os.sep), closed), landlock.READING)
    granted |= dict.fromkeys((_DEVICES / name for name in _READ_DEVICES), landlock.READING)
    granted |= dict.fromkeys(folders, landlock.FOLDER | landlock.READING)
    granted[Path(os.devnull)] = landlock.DEVICE
    # Counters of the GPU are read through its device files, also where the model is on the CPU.
    granted |= dict.fromkeys(_DEVICES.glob("nvidia*"), landlock.DEVICE)
    if device.startswith("cuda"):
        granted |= {
            Path(place): access | landlock.READING for place, access in _CUDA_PLACES.items()
        }
    return granted


def _mounted_devices() -> Iterator[Path]:
    """Yield where terminals and other devices are mounted besides /dev: folders of containers."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        place, _, filesystem = line.partition(" - ")
        if filesystem.startswith(_FILESYSTEMS_OF_DEVICES):
            # Spaces are written as three octal digits.
            path = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), place.split(" ")[4])
            yield Path(path)


def _outside(folder: Path, closed: Collection[Path]) -> Iterator[Path]:
    """Yield what together holds everything below a folder but what is closed.

    Landlock has no rule that denies: what is beside has to be granted.

    Raises:
        OSError: the folder cannot be listed.
    """
    with os.scandir(folder) as entries:
        # What a link points to is granted where it lies.
        paths = [Path(entry.path) for entry in entries if not entry.is_symlink()]
    for path in paths:
        if path in closed:
            continue
        if any(path in one.parents for one in closed):
            yield from _outside(path, closed)
        else:
            yield path


def _told(
    abi: int, why_no_landlock: str, why_no_filter: str, *, is_for_cuda: bool = False
) -> messages.Sandbox:
    filters = not why_no_filter
    denied: tuple[str, ...] = ()
    if abi:
        denied += _FILES + (_TRUNCATE if "truncating of files" not in landlock.lacks(abi) else ())
    if abi or filters:
        denied += _PROGRAMS
    if filters:
        denied += _PROCESSES + (_SOCKETS_WITH_CUDA if is_for_cuda else _SOCKETS)
    elif abi >= landlock.NETWORK_ABI:
        denied += _TCP
    lacks = tuple(why for why in (why_no_landlock, why_no_filter) if why)
    lacks += tuple(f"Landlock {abi} does not deny: {what}" for what in landlock.lacks(abi) if abi)
    kinds = ("landlock",) * bool(abi) + ("seccomp",) * filters
    return messages.Sandbox("+".join(kinds), abi, denied, lacks)
