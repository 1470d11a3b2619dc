"""Calls the operators that need no trust with random arguments, and says what they did beside it.

``python -m tests.attacks.operator_calls FOLDER`` imports torch once, then answers each line of its
input, a ``Wanted`` as JSON, with a ``Came``. A fork makes the calls, under a seccomp filter that
ends it at the first system call by which a file, process or socket could be made or changed. A
watch on the canaries tells of files that are only read. An operator that faults ends its fork; the
next fork goes on behind it. Both are asked of ``CONTROLS`` too, which do what the others must not.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import platform
import re
import resource
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

_ROOT = Path(__file__).resolve().parents[2]
_MEMORY_BYTES = 1 << 30
"""What the calls may allocate; more raises."""
_SECONDS, _WAIT_SECONDS = 5, 60
"""A call that takes more processor time, or waits longer, is ended."""
CONTROLS = (("aten::from_file", ""), ("aten::save", ""), ("aten::_print", ""))
"""Operators that are refused: one that reads or writes a file, one that writes, one that prints."""
_CANARY = "canary"

# Of every operator, names of what its texts may say: a valid one lets the call reach the kernel.
_TEXTS = """
    mean sum none constant reflect replicate circular nearest nearest-exact bilinear bicubic linear
    trunc floor fro nuc left right U L tanh ij xy gesvd gelsd valid same max ij,jk->ik i,i %d {} a
"""
_EDGES = (0, 1, -1, 2, -2, 127, -(1 << 31), 1 << 31, (1 << 63) - 1, -(1 << 63), 1 << 40, 65_536)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))


class Wanted(Struct, frozen=True):
    """Which operators are to be called, and how often each."""

    operators: list[tuple[str, str]]
    """Name and overload; empty for every one that needs no trust."""
    calls: int
    seed: int


class Deed(Struct, frozen=True):
    """What an operator did that no operator may do."""

    operator: str
    did: str


class Came(Struct, frozen=True):
    """What came of all calls."""

    operators: int
    calls: int
    returned: int
    reached: int
    """Operators of which one call at least returned."""
    raised: int
    ended: dict[str, list[str]]
    """By the signal: the operators that ended their process."""
    deeds: list[Deed]
    forks: int


class Caller:
    """A process that has imported torch, and calls operators in forks."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.operator_calls", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
        )
        assert self._process.stdout is not None
        self.admitted = msgspec.json.decode(
            self._process.stdout.readline(), type=list[tuple[str, str]]
        )

    def __enter__(self) -> Caller:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.communicate()

    def call(self, operators: Sequence[tuple[str, str]], calls: int, seed: int) -> Came:
        """Call each operator so often."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wanted = Wanted(list(operators), calls, seed)
        self._process.stdin.write(msgspec.json.encode(wanted) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Came)


def main() -> None:
    """Answer for the operators of each line of the input."""
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    import torch
    import torchvision  # noqa: F401  # registers operators

    from tui_profiler.probe.load.files.allowed_operators import admitted

    # Threads do not survive a fork.
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    every = sorted(admitted().overloads)
    answers.write(msgspec.json.encode(every) + b"\n")
    (folder / _CANARY).write_bytes(b"x" * 4096)
    (folder / "inner").mkdir()
    os.chdir(folder)
    for line in sys.stdin.buffer:
        wanted = msgspec.json.decode(line, type=Wanted)
        answers.write(msgspec.json.encode(_Calls(wanted, every, folder).made()) + b"\n")


class _Calls:
    """All calls of one request, in forks one after the other."""

    def __init__(self, wanted: Wanted, every: list[tuple[str, str]], folder: Path) -> None:
        import torch

        self._wanted = wanted
        self._folder = folder
        self._operators = wanted.operators or every
        schemas = {(s.name, s.overload_name): s for s in torch._C._jit_get_all_schemas()}
        self._schemas = [schemas[operator] for operator in self._operators]
        self._printed = (folder.parent / f"{folder.name}-printed").open("w+b")
        # What the forks tell survives them: the call that is being made, and counts.
        self._shared = mmap.mmap(-1, 64)
        self._reached = mmap.mmap(-1, max(len(self._operators), 1))
        self._deeds: list[Deed] = []
        self._ended: dict[str, set[str]] = {}

    def made(self) -> Came:
        count = len(self._operators) * self._wanted.calls
        forks = 0
        while self._at < count:
            forks += 1
            self._fork(count)
        _, returned, raised = struct.unpack_from("=QQQ", self._shared)
        return Came(
            len(self._operators), count, returned, sum(self._reached[:]), raised,
            {name: sorted(found) for name, found in sorted(self._ended.items())},
            list(dict.fromkeys(self._deeds)), forks,
        )  # fmt: skip

    @property
    def _at(self) -> int:
        number: int = struct.unpack_from("=Q", self._shared)[0]
        return number

    def _count(self, place: int) -> None:
        (number,) = struct.unpack_from("=Q", self._shared, 8 * place)
        struct.pack_into("=Q", self._shared, 8 * place, number + 1)

    def _name(self, at: int) -> str:
        return ".".join(filter(None, self._operators[at // self._wanted.calls]))

    def _fork(self, count: int) -> None:
        before = _state(self._folder)
        told, tell = os.pipe()
        with _Watch(self._folder) as watch:
            child = os.fork()
            if not child:
                os.close(told)
                try:
                    self._call_on(count, watch, tell)
                except BaseException as error:
                    os.write(tell, msgspec.json.encode(Deed(self._name(self._at), repr(error))))
                os._exit(1)
            os.close(tell)
            with os.fdopen(told, "rb") as lines:
                self._deeds += [msgspec.json.decode(line, type=Deed) for line in lines]
            _, status = os.waitpid(child, 0)
            at = self._at
            if at >= count:
                return
            # It ended in the call that it was making.
            name = self._name(at)
            self._count(0)
            if os.WIFEXITED(status):
                self._deeds.append(Deed(name, f"ended the process, code {status >> 8}"))
            elif os.WTERMSIG(status) == signal.SIGSYS:
                self._deeds.append(Deed(name, "made a system call that is forbidden"))
            else:
                self._ended.setdefault(signal.Signals(os.WTERMSIG(status)).name, set()).add(name)
            if found := watch.events():
                self._deeds.append(Deed(name, f"touched {found}"))
        if _state(self._folder) != before:
            self._deeds.append(Deed(name, "changed the folder"))

    def _call_on(self, count: int, watch: _Watch, tell: int) -> None:
        """Be the fork: make the calls until all are made, or one ends it; never returns."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(self._printed.fileno(), 1)
        os.dup2(nothing, 2)
        most = _data_bytes() + _MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        found = [_callable(schema) for schema in self._schemas]
        values = Values(str(self._folder / _CANARY))
        _forbid()
        settled = _settings()
        printed = os.fstat(1).st_size
        while (at := self._at) < count:
            index, number = divmod(at, self._wanted.calls)
            name = self._name(at)
            values.begin(Random(f"{self._wanted.seed} {name} {number}"))
            operator, kinds = values.drawn(found[index])
            args, kwargs = values.arguments(self._schemas[index], kinds)
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            signal.setitimer(signal.ITIMER_REAL, _WAIT_SECONDS)
            try:
                result: object = operator(*args, **kwargs)
                _use(result)
                self._count(1)
                self._reached[index] = 1
            except Exception:
                self._count(2)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            dids = []
            if touched := watch.events():
                dids.append(f"touched {touched}")
            if (now := _settings()) != settled:
                dids += [f"changed {name}" for name in now if now[name] != settled[name]]
                settled = now
            if os.fstat(1).st_size > printed:
                dids.append("printed")
                printed = os.fstat(1).st_size
            for did in dids:
                os.write(tell, msgspec.json.encode(Deed(name, did)) + b"\n")
            args, kwargs, result = (), {}, None
            self._count(0)
        os._exit(0)


def _use(result: object) -> None:
    """Touch what was returned, as the next operator of a program would."""
    import torch

    if (
        isinstance(result, torch.Tensor)
        and result.layout == torch.strided
        and result.numel() < 4096
    ):
        result.detach().clone()


def _data_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say VmData")


def _settings() -> dict[str, object]:
    """Return what of the process an operator must leave as it is."""
    import torch

    # Not whether there are gradients: TorchScript has ``torch.no_grad``.
    return {
        "folder": os.getcwd(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "determinism": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


class _Watch:
    """Tells when files of a folder are opened, read, changed, made or removed (inotify)."""

    _ALL = 0xFFF
    _NAMES: ClassVar = {
        1: "read", 2: "written", 0x20: "opened", 0x100: "made", 0x200: "removed"
    }  # fmt: skip

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        added = libc.inotify_add_watch(self._descriptor, os.fsencode(folder), self._ALL)
        assert self._descriptor >= 0, os.strerror(ctypes.get_errno())
        assert added >= 0, os.strerror(ctypes.get_errno())

    def __enter__(self) -> _Watch:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def events(self) -> str:
        """Return what was done since the last time, in words; empty for nothing."""
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return ""
        found: dict[str, None] = {}
        at = 0
        while at < len(data):
            _, mask, _, size = struct.unpack_from("=iIII", data, at)
            name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode()
            kinds = [kind for bit, kind in self._NAMES.items() if mask & bit]
            found |= {f"{kind} {name or 'the folder'}": None for kind in kinds}
            at += 16 + size
        return ", ".join(found)


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_OPENING = {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}
"""``open`` and ``openat``, and which of their arguments has the flags."""
_CHANGING = {
    # truncate ftruncate chdir fchdir rename mkdir rmdir creat link unlink symlink mkdirat unlinkat
    # renameat linkat symlinkat renameat2 openat2
    "x86_64": (76, 77, 80, 81, 82, 83, 84, 85, 86, 87, 88, 258, 263, 264, 265, 266, 316, 437),
    "aarch64": (45, 46, 49, 50, 34, 35, 38, 37, 36, 276, 437),
}


def why_not() -> str:
    """Say why system calls cannot be watched here; empty where they can."""
    from tui_profiler.probe.sandbox import seccomp
    from tui_profiler.probe.sandbox.landlock import CLibrary

    return seccomp.why_not(CLibrary())


def _forbid() -> None:
    """End this process at the first system call that makes or changes a file, process or socket.

    The sandbox's own filter, with what it denies deadly, and what Landlock denies of files.
    """
    from tui_profiler.probe.sandbox import landlock, seccomp
    from tui_profiler.probe.sandbox.landlock import CLibrary

    kernel = CLibrary()
    machine = platform.machine()
    load, mask, equal, back = 0x20, 0x54, 0x15, 0x06
    allow, deny, kill = 0x7FFF0000, 0x00050000, 0x80000000
    code = [(load, 0, 0, 0)]
    for number in _CHANGING[machine]:
        code += [(equal, 0, 1, number), (back, 0, 0, kill)]
    for number, place in _OPENING[machine].items():
        code += [
            (equal, 0, 5, number), (load, 0, 0, 16 + 8 * place), (mask, 0, 0, _WRITING),
            (equal, 0, 1, 0), (back, 0, 0, allow), (back, 0, 0, kill),
        ]  # fmt: skip
    theirs = seccomp.program(seccomp.ARCHITECTURES[machine], os.getpid())
    for opcode, yes, no, value in struct.iter_unpack("=HBBI", theirs):
        is_denial = opcode == back and value & 0xFFFF0000 == deny
        # clone3 fails as on an old kernel, and libc uses clone.
        code.append((opcode, yes, no, kill if is_denial and value & 0xFFFF != 38 else value))
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
    held = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    header = ctypes.create_string_buffer(described, len(described))
    landlock.drop_privileges(kernel)
    kernel.prctl(22, 2, ctypes.addressof(header))


_Form = tuple[Callable[..., object], Sequence[str]]
"""What calls an operator, and the types of its arguments where its schema leaves them open."""
_OPEN = re.compile(r"\b(t|t1|t2|tVal)\b")


def _callable(schema: Any) -> list[_Form]:
    """Return what calls an operator, once for each type that an open one may be."""
    import torch

    types = [str(part.type) for part in (*schema.arguments, *schema.returns)]
    if not any(map(_OPEN.search, types)):
        return [(torch._C._get_operation_overload(schema.name, schema.overload_name)[0], ())]
    forms: list[_Form] = []
    for closed in ("int", "float", "str", "bool", "Tensor", "List[int]"):
        kinds = [_OPEN.sub(closed, kind) for kind in types]
        inputs, outputs = kinds[: len(schema.arguments)], kinds[len(schema.arguments) :]
        taken = ", ".join(f"%a{n} : {_in_graph(kind)}" for n, kind in enumerate(inputs))
        passed = ", ".join(f"%a{n}" for n in range(len(inputs)))
        given = ", ".join(f"%r{n} : {_in_graph(kind)}" for n, kind in enumerate(outputs))
        result = f"{given} = " if given else ""
        code = f"graph({taken}):\n  {result}{schema.name}({passed})\n  return (%a0)\n"
        with contextlib.suppress(RuntimeError):  # Not of every type.
            graph = torch._C.parse_ir(code)
            forms.append((torch._C._create_function_from_graph("f", graph), inputs))
    assert forms, str(schema)
    return forms


def _in_graph(kind: str) -> str:
    """Return a type of a schema as the text of a graph has it."""
    name, bracket, rest = kind.partition("[")
    inner = rest[:-1].split(", ") if name in ("Dict", "Tuple") else [rest[:-1]] * bool(bracket)
    parts = [_in_graph(part) for part in inner]
    match name:
        case "List":
            return f"{parts[0]}[]"
        case "Optional":
            return f"{parts[0]}?"
        case "Tuple":
            return f"({', '.join(parts)})"
        case "number":
            return "Scalar"
    return f"{name}({', '.join(parts)})" if parts else name


class Values:
    """Random arguments for a schema: half of the calls plausible, so that they reach the kernel."""

    def __init__(self, canary: str) -> None:
        import torch

        self._torch = torch
        self._packed = dict(_packed())
        self._texts = _TEXTS.split()
        self._names = [canary, _CANARY, f"inner/../{_CANARY}", "inner/new", "", "\0", "é" * 99]

    def begin(self, random: Random) -> None:
        """Draw what the arguments of one call have in common."""
        self._random = random
        self._is_wild = random.random() < 0.5
        self._shape = random.choice(
            [(2, 3), (4, 4), (3,), (), (1, 4, 8, 8), (1, 2, 4, 4, 4), (0, 2)]
        )
        self._dtype = random.choice(["float32", "float32", "float32", "float64", "int64", "bool"])
        self._torch.manual_seed(random.getrandbits(32))

    def drawn(self, forms: Sequence[_Form]) -> _Form:
        """Return one of the forms of an operator."""
        return self._random.choice(forms)

    def arguments(
        self, schema: Any, kinds: Sequence[str]
    ) -> tuple[list[object], dict[str, object]]:
        """Return positional arguments and keywords.

        Args:
            schema: of the operator.
            kinds: the types of its arguments; not empty where it takes no keywords.
        """
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for argument, kind in zip(
            schema.arguments, kinds or [str(a.type) for a in schema.arguments], strict=True
        ):
            if argument.has_default_value() and self._random.random() < 0.3 and not kinds:
                value: object = argument.default_value
            else:
                value = self.value(kind, argument.name)
            if argument.kwarg_only and not kinds:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return args, kwargs

    def value(self, kind: str, name: str = "", depth: int = 0) -> object:
        """Return a value of a type as schemas write it."""
        torch, random = self._torch, self._random
        for start in ("Optional[", "List[", "Future["):
            if not kind.startswith(start):
                continue
            inner = kind[len(start) : -1]
            if start == "Optional[":
                return None if random.random() < 0.4 else self.value(inner, name, depth)
            if start == "Future[":
                future: Any = torch.futures.Future()
                future.set_result(self.value(inner, name, depth))
                return future
            counts = [0, 1, 2, 2, 3, 4, 9] if self._is_wild else [1, 2, len(self._shape)]
            count = random.choice(counts)
            if inner == "Any":
                inner = random.choice(["int", "float", "str", "Tensor", "bool"])
            return [self.value(inner, name, depth + 1) for _ in range(count)]
        if kind.startswith("Dict["):
            key, _, value = kind[5:-1].partition(", ")
            return {self.value(key): self.value(value) for _ in range(random.choice([0, 1, 2]))}
        if kind.startswith("Tuple["):
            parts = kind[6:-1].split(", ")
            return tuple(self.value(part, name, depth + 1) for part in parts)
        if kind in self._packed:
            return random.choice(self._packed[kind])
        match kind:
            case "Tensor":
                return self._tensor()
            case "int":
                return self._integer(name)
            case "float":
                return random.choice(_FLOATS) if self._is_wild else random.random()
            case "bool":
                return random.random() < 0.5
            case "complex":
                return complex(random.choice(_FLOATS), random.choice(_FLOATS))
            case "number":
                return self.value(random.choice(["int", "float", "bool"]), name)
            case "str":
                return random.choice(self._names if random.random() < 0.5 else self._texts)
            case "Device":
                return torch.device(random.choice(["cpu", "cpu", "meta", "cuda"]))
            case "Generator":
                return torch.Generator()
            case "Any" | "AnyEnumType" | "AnyClassType":
                return self.value(random.choice(["int", "float", "str", "Tensor", "List[int]"]))
        return None

    def _integer(self, name: str) -> int:
        random = self._random
        if name in ("dtype", "layout", "memory_format") and random.random() < 0.8:
            return random.choice([0, 1, 2, 4, 5, 6, 7, 11, 12, 13])
        if self._is_wild:
            return random.choice([*_EDGES, random.randint(-9, 99)])
        return random.choice([0, 1, 1, 2, 3])

    def _tensor(self) -> object:
        torch, random = self._torch, self._random
        shape, dtype = self._shape, self._dtype
        if self._is_wild:
            if random.random() < 0.5:
                shape = tuple(
                    random.choice([0, 1, 2, 3, 4, 7]) for _ in range(random.randint(0, 5))
                )
            dtype = random.choice(
                ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8",
                 "bool", "complex64"]
            )  # fmt: skip
        made = torch.zeros(shape, dtype=getattr(torch, dtype))
        if made.is_floating_point():
            made.normal_()
        elif dtype != "bool" and not made.is_complex() and made.numel():
            low, high = (-(1 << 6), 1 << 6) if self._is_wild else (0, 3)
            made.random_(max(low, 0) if dtype == "uint8" else low, high)
        if not self._is_wild:
            return made
        match random.randrange(12):
            case 0:
                return made.expand(5, *shape) if 0 not in shape else made
            case 1 if made.dim() > 1:
                return made.transpose(0, -1)
            case 2 if made.dim() and made.is_floating_point():
                return made.to_sparse()
            case 3 if made.dtype == torch.float32:
                return torch.quantize_per_tensor(made, 0.1, 2, torch.quint8)
            case 4:
                return made.to("meta")
            case 5 if made.dtype in (torch.float32, torch.int64):
                # Large by its sizes alone.
                return torch.zeros((), dtype=made.dtype).expand(1 << 20, 1 << 20)
            case 6 if made.is_floating_point():
                return made.fill_(random.choice([float("nan"), float("inf"), -6e4]))
            case 7 if made.is_floating_point():
                return made.requires_grad_()
            case 8 if made.dtype == torch.int64:
                return made.fill_(random.choice(_EDGES))
            case _:
                return made


def _packed() -> Iterator[tuple[str, list[object]]]:
    """Yield the classes of quantised weights, each with some of its objects."""
    import torch

    start = "__torch__.torch.classes.quantized."
    makers: dict[str, list[Callable[[], object]]] = {
        "LinearPackedParamsBase": [
            lambda: torch.ops.quantized.linear_prepack(_whole(3, 3), torch.zeros(3))
        ],
        "Conv2dPackedParamsBase": [
            lambda: torch.ops.quantized.conv2d_prepack(
                _whole(4, 4, 3, 3), torch.zeros(4), [1, 1], [0, 0], [1, 1], 1
            )
        ],
        "Conv3dPackedParamsBase": [
            lambda: torch.ops.quantized.conv3d_prepack(
                _whole(2, 2, 2, 2, 2), torch.zeros(2), [1] * 3, [0] * 3, [1] * 3, 1
            )
        ],
        "EmbeddingPackedParamsBase": [
            lambda: torch.ops.quantized.embedding_bag_prepack(
                torch.quantize_per_channel(
                    torch.ones(4, 8), torch.ones(4), torch.zeros(4), 0, torch.quint8
                )
            )
        ],
    }
    for name, made in makers.items():
        found: list[object] = [None]
        with contextlib.suppress(RuntimeError):  # No engine for quantised models on this processor.
            found += [make() for make in made]
        yield start + name, found


def _whole(*shape: int) -> Any:
    import torch

    return torch.quantize_per_tensor(torch.ones(shape), 0.1, 0, torch.qint8)


def told(came: Came) -> Iterator[str]:
    """Return what came of it as lines."""
    counts = Counter({name: len(found) for name, found in came.ended.items()})
    yield (
        f"operators {came.operators}, calls {came.calls}: returned {came.returned}"
        f" (of {came.reached} operators), raised {came.raised},"
        f" processes ended {sum(counts.values())}"
    )
    for name, found in came.ended.items():
        yield f"  {name} {len(found)}: {', '.join(itertools.islice(found, 400))}"
    yield f"deeds {len(came.deeds)}"
    for deed in came.deeds:
        yield f"  {deed.operator}: {deed.did}"


if __name__ == "__main__":
    main()
