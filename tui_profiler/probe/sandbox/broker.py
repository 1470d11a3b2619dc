"""The broker: the one process of a sandboxed worker that stays outside of the sandbox.

It is forked before the worker is confined, and does five things that the worker cannot: it
starts and ends the process of a trial, calibrates the roofline of this host and caches it, fetches
published weights, moves the ONNX export into its place, and removes the temporary folder when the
worker is gone. It ends a worker that fills this folder.

1. What the worker says is hostile. An order is one word with bounded arguments, checked here;
   nothing that it names is a command, a path or an environment variable.
2. A trial is started confined, whatever its request says, and on no other device than this worker.
   The request comes from the worker: the process of a trial serves nothing but a trial, delivers no
   file, and its own broker takes no orders (``TRIAL`` on its command line).
3. Where files go, and which weights are fetched, was fixed before the worker was confined, by the
   user's own request.
4. It ends with the worker: the kernel closes the socket. It is a session of its own, so that what
   ends the worker's process group leaves it the time to tidy up.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tui_profiler.probe.load.common.downloads import Download, DownloadError

CONFINED = "confined"
"""Second argument of a worker that is confined whatever its request is."""
TRIAL = "trial"
"""Follows ``CONFINED`` where the first request comes from a confined worker."""
END_SECONDS = 5.0
_ORDER_BYTES = 256
_DONE, _REFUSED = b"done", b"refused"
_CALIBRATION = re.compile(rb"calibrate (cpu|cuda(?::\d{1,3})?) (\d{1,4})")
_MOST_CALIBRATIONS = _MOST_DOWNLOADS = 4
_CALIBRATE_SECONDS = 120.0
_CALIBRATE = """import sys
from tui_profiler.probe.measure.ceilings.ceilings import ceilings
ceilings(sys.argv[1], int(sys.argv[2]), refused=print)
"""
_PREFIX = "tui-profiler-worker-"
MOST_BYTES = 4 << 30
"""On disk, in the temporary folder. Libraries keep caches of a few megabytes there."""
_MOST_FILES = 100_000
_LOOK_SECONDS = 2.0


class BrokerError(Exception):
    """The broker refused, or is gone; its sentence says which."""


@dataclass(frozen=True)
class Delivery:
    """Where a file goes that the user asked for."""

    folder: Path
    """A folder beside it, in which the worker may write."""
    path: Path

    @property
    def names(self) -> tuple[str, ...]:
        """What may come out of the folder: values first, a model without them cannot be read."""
        return f"{self.path.name}.data", self.path.name


def make_folder(parent: str) -> Path:
    """Make the temporary folder of this worker, and remove those of workers that are gone."""
    _remove_stale(Path(parent))
    folder = Path(parent, f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
    folder.mkdir(mode=0o700)
    return folder


def _remove_stale(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            status = folder.lstat()
            is_ours = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
            if is_ours and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder of a process that has ended, as far as possible.

    That process may have made folders deeper than any path leads, and modes that forbid to list
    them. Folders are therefore moved up, level by level, and removed where they are empty.
    """
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        top = os.open(folder, _FOLDER_ONLY)
        try:
            while inner := _emptied(top):
                for name in inner:
                    _move_up(name, top)
        finally:
            os.close(top)
        folder.rmdir()


_FOLDER_ONLY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _move_up(name: str, top: int) -> None:
    """Remove a folder in another one, and move the folders within it there."""
    os.chmod(name, 0o700, dir_fd=top)
    descriptor = os.open(name, _FOLDER_ONLY, dir_fd=top)
    try:
        for deeper in _emptied(descriptor):
            os.chmod(deeper, 0o700, dir_fd=descriptor)
            os.rename(deeper, os.urandom(16).hex(), src_dir_fd=descriptor, dst_dir_fd=top)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=top)


def _emptied(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        found = list(entries)
    folders = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    for name in {entry.name for entry in found}.difference(folders):
        os.unlink(name, dir_fd=descriptor)
    return folders


class Broker:
    """The worker's end: sends orders, and waits for the answers."""

    def __init__(self, orders: socket.socket, delivery: Delivery | None) -> None:
        self._orders = orders
        self.delivery = delivery

    def start_trial(self, wire: socket.socket) -> BrokeredTrial:
        """Start a confined worker for a trial.

        Raises:
            OSError: it cannot be started.
        """
        try:
            said = self._ask(b"trial", [wire.fileno()])
        except BrokerError as error:
            raise OSError(0, str(error)) from error
        return BrokeredTrial(int(said), self)

    def end_trial(self) -> int | None:
        """Kill the trial; returns its exit code, None where it has not ended yet."""
        return _code(self._ask(b"end"))

    def wait_for_trial(self) -> int | None:
        """Wait a little for the trial to end; returns its exit code, None where it runs on."""
        return _code(self._ask(b"wait"))

    def calibrate(self, device: str, threads: int) -> str:
        """Have the roofline measured outside of the sandbox and cached.

        Returns:
            Why it was not, empty where it was.
        """
        try:
            self._ask(f"calibrate {device} {threads}".encode())
        except BrokerError as error:
            return str(error)
        return ""

    def download(self) -> None:
        """Have the weights fetched that the user asked for.

        Raises:
            DownloadError: they cannot be had.
        """
        try:
            self._ask(b"download")
        except BrokerError as error:
            raise DownloadError(str(error)) from error

    def deliver(self) -> tuple[Path, ...]:
        """Move the files that were made into their place; returns where they are.

        Raises:
            BrokerError: they could not be moved.
        """
        if self.delivery is None:
            raise BrokerError("no export was requested")
        names = self._ask(b"deliver").split(b"/")
        return tuple(self.delivery.path.parent / os.fsdecode(name) for name in names if name)

    def _ask(self, order: bytes, descriptors: list[int] | None = None) -> bytes:
        try:
            socket.send_fds(self._orders, [order], descriptors or [])
            said = self._orders.recv(_ORDER_BYTES * 4)
        except OSError as error:
            raise BrokerError(f"the sandbox broker has ended: {error.strerror}") from error
        if not said or said.startswith(_REFUSED):
            why = said.removeprefix(_REFUSED).decode(errors="replace").strip()
            raise BrokerError(why or "the sandbox broker has ended")
        return said


class BrokeredTrial:
    """The process of a trial that the broker started, as ``subprocess.Popen`` shows it."""

    def __init__(self, pid: int, broker: Broker) -> None:
        self.pid = pid
        self._broker = broker
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._code

    def wait(self, timeout: float) -> int:
        """Wait for its end, as long as the broker does.

        Raises:
            TimeoutExpired: it runs on.
        """
        if self._code is None:
            with contextlib.suppress(BrokerError):
                self._code = self._broker.wait_for_trial()
        if self._code is None:
            raise subprocess.TimeoutExpired("trial", timeout)
        return self._code

    def kill(self) -> None:
        """End it, and all that it started."""
        if self._code is None:
            with contextlib.suppress(BrokerError):
                self._code = self._broker.end_trial()


def _code(said: bytes) -> int | None:
    return None if said == b"runs" else int(said)


def start(
    folder: Path,
    delivery: Delivery | None,
    wire: int,
    *,
    trials_on: str | None = "cpu",
    most_bytes: int = MOST_BYTES,
    download: Download | None = None,
) -> Broker:
    """Fork the broker. This process has one thread.

    Args:
        folder: Removed when this process is gone.
        delivery: Where a file goes that was asked for.
        wire: Descriptor of the socket to the viewer, which the broker must not hold open.
        trials_on: Device for which trials are confined; None for a process that is a trial itself,
            whose orders are all refused.
        most_bytes: on disk, in the folder; more ends this process.
        download: what is fetched when the worker says so.

    Raises:
        OSError: there can be no more processes.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = os.getpid()
    try:
        number = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if number == 0:
        duties = _Duties(theirs, delivery, trials_on, worker, folder, most_bytes, download)
        _be_broker(ours, wire, duties)
    theirs.close()
    return Broker(ours, delivery)


@dataclass(frozen=True)
class _Duties:
    orders: socket.socket
    delivery: Delivery | None
    trials_on: str | None
    worker: int
    folder: Path
    most_bytes: int
    download: Download | None


def _be_broker(others: socket.socket, wire: int, duties: _Duties) -> NoReturn:
    """Be the broker; never returns into the code of the worker."""
    delivery = duties.delivery
    desk: _Desk | None = None
    try:
        os.setsid()
        others.close()
        os.close(wire)
        # An interrupt at the terminal is for the viewer, which then ends the worker.
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        desk = _Desk(duties)
        desk.serve()
    finally:
        try:
            if desk is not None:
                desk.close()
            remove_folder(duties.folder)
            if delivery is not None:
                remove_folder(delivery.folder)
        finally:
            os._exit(0)


class _Desk:
    """Takes orders, one at a time."""

    def __init__(self, duties: _Duties) -> None:
        self._orders = duties.orders
        self._duties = duties
        self._trial: subprocess.Popen[bytes] | None = None
        self._calibrations = 0
        self._downloads = 0
        # What a trial prints goes where the worker's own words go.
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        os.close(nothing)

    def serve(self) -> None:
        """Carry out orders until the worker is gone."""
        while True:
            if not select.select([self._orders], [], [], _LOOK_SECONDS)[0]:
                if _is_full(self._duties.folder, self._duties.most_bytes):
                    self._end_worker()
                continue
            order, descriptors, _, _ = socket.recv_fds(self._orders, _ORDER_BYTES, 4)
            if not order and not descriptors:
                return
            try:
                said = self._answer(order, descriptors)
            except (OSError, ValueError) as error:
                said = _REFUSED + b" " + str(error).encode()[: _ORDER_BYTES * 3]
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            try:
                self._orders.sendall(said)
            except OSError:  # The worker went meanwhile.
                return

    def close(self) -> None:
        """End the trial, and let go of the worker's output."""
        self._end()
        os.close(self._output)

    def _end_worker(self) -> None:
        most = f"{self._duties.most_bytes >> 20} MiB, {_MOST_FILES:,} files"
        said = (
            f"the temporary folder of the sandbox has more than {most} or folders too deep to list:"
            " the worker was ended\n"
        )
        os.write(self._output, said.encode())
        # It is the parent of this process until it ends.
        if os.getppid() == self._duties.worker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._duties.worker, signal.SIGKILL)

    def _answer(self, order: bytes, descriptors: list[int]) -> bytes:
        duties = self._duties
        if duties.trials_on is None:
            raise ValueError("the broker of a trial accepts no requests")
        if order == b"trial" and len(descriptors) == 1:
            return self._start(descriptors[0], duties.trials_on)
        if order == b"end":
            return self._end()
        if order == b"wait":
            return self._waited()
        if order == b"deliver" and duties.delivery is not None:
            return _deliver(duties.delivery)
        if order == b"download" and duties.download is not None:
            return self._download(duties.download)
        if (found := _CALIBRATION.fullmatch(order)) is not None:
            return self._calibrate(found[1].decode(), found[2].decode())
        raise ValueError("the sandbox broker does not know this request")

    def _start(self, wire: int, device: str) -> bytes:
        self._end()
        # ``-P`` keeps the user's folder from shadowing our imports.
        command = [
            sys.executable, "-P", "-m", "tui_profiler.probe", str(wire), CONFINED, TRIAL, device,
        ]  # fmt: skip
        self._trial = subprocess.Popen(
            command,
            pass_fds=[wire],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            process_group=0,
        )
        return b"%d" % self._trial.pid

    def _end(self) -> bytes:
        if self._trial is not None and self._trial.returncode is None:
            # The number is given to nobody else before it was waited for.
            for end in (os.killpg, os.kill):  # Where there is no filter it may have left its group.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    end(self._trial.pid, signal.SIGKILL)
        return self._waited()

    def _waited(self) -> bytes:
        if self._trial is None:
            return b"0"
        try:
            return b"%d" % self._trial.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return b"runs"

    def _calibrate(self, device: str, threads: str) -> bytes:
        self._calibrations += 1
        if self._calibrations > _MOST_CALIBRATIONS:
            raise ValueError("the roofline was calibrated too often")
        command = [sys.executable, "-P", "-c", _CALIBRATE, device, threads]
        quiet = subprocess.DEVNULL
        try:
            ended = subprocess.run(
                command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet,
                timeout=_CALIBRATE_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ValueError("calibrating the roofline took too long") from error
        why = ended.stdout.decode(errors="replace").strip()
        if ended.returncode or why:
            raise ValueError(why or "calibrating the roofline failed")
        return _DONE

    def _download(self, wanted: Download) -> bytes:
        self._downloads += 1
        if self._downloads > _MOST_DOWNLOADS:
            raise ValueError("the weights were fetched too often")
        module = "tui_profiler.probe.load.common.downloads"
        command = [
            sys.executable, "-P", "-m", module, wanted.library, wanted.name, wanted.weights,
        ]  # fmt: skip
        quiet = subprocess.DEVNULL
        with subprocess.Popen(
            command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet
        ) as fetching:
            assert fetching.stdout is not None
            waiting = select.poll()
            # Of the worker only its end is waited for: it may take hours.
            waiting.register(self._orders, 0)
            waiting.register(fetching.stdout, select.POLLIN)
            if {number for number, _ in waiting.poll()} == {self._orders.fileno()}:
                fetching.kill()
                return _REFUSED
            why = fetching.stdout.read(_ORDER_BYTES * 3).decode(errors="replace").strip()
        if fetching.returncode or why:
            raise ValueError(why or "fetching the weights failed")
        return _DONE


def _is_full(folder: Path, most_bytes: int) -> bool:
    """Say whether the files of a folder take more of the disk than they may, or are too many.

    So they are where a folder cannot be listed.
    """
    pending, size, count = [folder], 0, 0
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    count += 1
                    with contextlib.suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if size > most_bytes or count > _MOST_FILES:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
        except FileNotFoundError:
            continue
        except OSError:
            return True  # Deeper than a path, or not to be listed: made so that nobody looks.
    return False


def _deliver(delivery: Delivery) -> bytes:
    """Move regular files of the expected names into place, and nothing else."""
    moved = []
    # The worker may replace what lies in its folder at any time, and nothing that lies beside it.
    taken = delivery.folder.with_name(f"{delivery.folder.name}-{os.urandom(4).hex()}")
    for name in delivery.names:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG((delivery.folder / name).lstat().st_mode):
                raise ValueError(f"{name!r} is not a regular file")
            os.rename(delivery.folder / name, taken)
            if not stat.S_ISREG(taken.lstat().st_mode):
                _discard(taken)
                raise ValueError(f"{name!r} is not a regular file")
            os.replace(taken, delivery.path.parent / name)
            moved.append(os.fsencode(name))
    return b"/".join(reversed(moved)) or _REFUSED


def _discard(path: Path) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        remove_folder(path)
    else:
        path.unlink()
