"""A function called on a thread of another process, which is stopped for that long (x86-64, Linux).

1. The thread is seized (``PTRACE_SEIZE``): no signal is sent to it, and a program that is stopped
   or waits in the kernel goes on waiting afterwards as if nothing had been.
2. All its registers are put back, vectors included, and its signal mask. During the call no signal
   reaches it but the fault that the call ends with: it returns to address 0.
3. Where the call does not return in time, because the thread had the lock that it waits for, the
   registers are put back all the same, and the thread goes on from where it was.
4. All calls of one ``Stopped`` are made by one thread of ours: the kernel knows no other. Signals
   to us wait meanwhile: if we ended in the middle, the program would fault.
"""

import contextlib
import ctypes
import errno
import os
import signal
import struct
import time
from collections.abc import Iterator, Sequence

_SEIZE, _INTERRUPT, _CONTINUE, _DETACH = 0x4206, 0x4207, 7, 17
_GET_REGISTERS, _SET_REGISTERS = 0x4204, 0x4205
_GET_MASK, _SET_MASK = 0x420A, 0x420B
_GENERAL, _VECTORS = 1, 0x202
"""``NT_PRSTATUS`` and ``NT_X86_XSTATE`` of linux/elf.h; the requests are of linux/ptrace.h."""
_MOST_REGISTERS = 64 * 1024
_ALL_THREADS = 0x40000000
"""``__WALL``: a thread is not a child."""
_REGISTERS = struct.Struct("<27Q")
_RAX, _RCX, _RDX, _RSI, _RDI, _R8, _R9 = 10, 11, 12, 13, 14, 9, 8
_SYSTEM_CALL, _RIP, _RSP = 15, 16, 19
"""Places in ``user_regs_struct`` of sys/user.h."""
_ARGUMENTS = (_RDI, _RSI, _RDX, _RCX, _R8, _R9)
_RED_ZONE = 128
"""Bytes below the stack that a function may use (System V ABI for x86-64, 3.2.2)."""
_NO_CALL = 2**64 - 1
_FUTEX = 202
_INTERRUPTED = -errno.EINTR & _NO_CALL
_RESTARTS = range(512, 517)
"""``ERESTARTSYS`` to ``ERESTART_RESTARTBLOCK`` of linux/errno.h: in a system call that waits."""
_ADDRESS = struct.Struct("<Q")
STOP_SECONDS = 1.0
CALL_SECONDS = 0.2
_LOOK_AGAIN_SECONDS = 0.00005

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class CallError(Exception):
    """A call was not made, or did not return; the thread goes on as before."""


class Stopped:
    """A stopped thread.

    Args:
        pid: of its process.
        thread: its own id.
    """

    def __init__(self, pid: int, thread: int) -> None:
        self._pid = pid
        self._thread = thread

    def call(self, function: int, arguments: Sequence[int]) -> int:
        """Call a function and return what it returns.

        Args:
            function: its address.
            arguments: at most six, numbers or addresses.

        Raises:
            CallError: it did not return in time, or faulted.
            OSError: the thread is gone.
        """
        before = self._registers(_GENERAL)
        vectors = self._registers(_VECTORS)
        mask = ctypes.create_string_buffer(8)
        self._ask(_GET_MASK, 8, ctypes.addressof(mask))
        every_but_fault = _ADDRESS.pack(~(1 << (signal.SIGSEGV - 1)) & _NO_CALL)
        try:
            self._ask(_SET_MASK, 8, ctypes.addressof(ctypes.create_string_buffer(every_but_fault)))
            registers = list(_REGISTERS.unpack(before))
            stack = ((registers[_RSP] - _RED_ZONE) & ~0xF) - 8
            self.write(stack, _ADDRESS.pack(0))
            for place, value in zip(_ARGUMENTS, arguments, strict=False):
                registers[place] = value
            registers[_RSP], registers[_RIP], registers[_RAX] = stack, function, 0
            registers[_SYSTEM_CALL] = _NO_CALL
            self._set_registers(_GENERAL, _REGISTERS.pack(*registers))
            self._ask(_CONTINUE, 0, 0)
            self._wait_for_return()
            after = _REGISTERS.unpack(self._registers(_GENERAL))
            if after[_RIP] != 0:
                raise CallError(f"the call faulted at {after[_RIP]:#x}")
            returned: int = after[_RAX]
            return returned
        finally:
            self._set_registers(_VECTORS, vectors)
            self._set_registers(_GENERAL, before)
            self._ask(_SET_MASK, 8, ctypes.addressof(mask))

    def interrupt_lock(self) -> bool:
        """Have a wait for a lock return early, as signals do; return whether there was one.

        Python then does what waits for its main thread, and goes on waiting.
        """
        registers = list(_REGISTERS.unpack(self._registers(_GENERAL)))
        waits = -registers[_RAX] & _NO_CALL in _RESTARTS
        if registers[_SYSTEM_CALL] != _FUTEX or not waits:
            return False
        registers[_RAX], registers[_SYSTEM_CALL] = _INTERRUPTED, _NO_CALL
        self._set_registers(_GENERAL, _REGISTERS.pack(*registers))
        return True

    def write(self, address: int, data: bytes) -> None:
        """Write into the memory of its process.

        Raises:
            OSError: it cannot be written.
        """
        memory = os.open(f"/proc/{self._pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(memory, data, address)
        finally:
            os.close(memory)

    def _wait_for_return(self) -> None:
        if (status := _stop_of(self._thread, CALL_SECONDS)) is None:
            self._ask(_INTERRUPT, 0, 0)
            _stop_of(self._thread, STOP_SECONDS)
            raise CallError("the call did not return: the program holds the lock that it needs")
        if os.WSTOPSIG(status) != signal.SIGSEGV:
            raise CallError(f"the thread stopped by signal {os.WSTOPSIG(status)}")

    def _registers(self, kind: int) -> bytes:
        room = ctypes.create_string_buffer(_MOST_REGISTERS)
        vector = _Vector(ctypes.addressof(room), len(room))
        self._ask(_GET_REGISTERS, kind, ctypes.addressof(vector))
        return room.raw[: vector.size]

    def _set_registers(self, kind: int, content: bytes) -> None:
        room = ctypes.create_string_buffer(content, len(content))
        vector = _Vector(ctypes.addressof(room), len(room))
        self._ask(_SET_REGISTERS, kind, ctypes.addressof(vector))

    def _ask(self, request: int, address: int, data: int) -> None:
        _ask(request, self._thread, address, data)


@contextlib.contextmanager
def stopped(pid: int, thread: int) -> Iterator[Stopped]:
    """Stop one thread of a process for as long as the block takes.

    Raises:
        OSError: the kernel refuses, or it is gone.
        CallError: it did not stop.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        _ask(_SEIZE, thread, 0, 0)
        try:
            _ask(_INTERRUPT, thread, 0, 0)
            if _stop_of(thread, STOP_SECONDS) is None:
                raise CallError("the thread did not stop: it waits for a device")
            yield Stopped(pid, thread)
        finally:
            with contextlib.suppress(ProcessLookupError):  # It has ended, or did not stop.
                _ask(_DETACH, thread, 0, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _ask(request: int, thread: int, address: int, data: int) -> None:
    if _libc.ptrace(request, thread, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _stop_of(thread: int, seconds: float) -> int | None:
    """Return the status with which a thread stops; None where it does not in time.

    Raises:
        ProcessLookupError: it has ended.
    """
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(thread, os.WNOHANG | _ALL_THREADS)
        if found:
            if not os.WIFSTOPPED(status):
                raise ProcessLookupError(errno.ESRCH, "it ended")
            return status
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_AGAIN_SECONDS)
