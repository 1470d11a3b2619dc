"""Which of the names that a pickle imports can be trusted with what.

Sources: ``_get_allowed_globals`` in torch/_weights_only_unpickler.py for what torch itself loads
without trust (what every release from 2.10 to 2.15 does: ``_rebuild_nested_tensor`` needs trust
since 2.15, and is not in the list); the lists of picklescan (src/picklescan/scanner.py) and
fickling for what runs code.
"""

from collections.abc import Iterable

from tui_profiler.archive.reading.tensor_layout import BITS, STORAGES

_LOADED_BY_TORCH = frozenset(
    {
        "collections.OrderedDict",
        "collections.Counter",
        "torch.nn.parameter.Parameter",
        "torch.serialization._get_layout",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "_codecs.encode",
        "builtins.bytearray",
        "builtins.set",
        "builtins.complex",
        "torch.storage.UntypedStorage",
        "torch.storage.TypedStorage",
        "torch._tensor._rebuild_from_type_v2",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_qtensor",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_sparse_tensor",
        "torch._utils._rebuild_meta_tensor_no_storage",
        "torch._utils._rebuild_wrapper_subclass",
        "torch._utils._rebuild_device_tensor_from_numpy",
        "torch._utils._rebuild_device_tensor_from_cpu_tensor",
        "torch.per_tensor_affine",
        "torch.per_tensor_symmetric",
        "torch.per_channel_affine",
        "torch.per_channel_symmetric",
        "torch.per_channel_affine_float_qparams",
        *(f"torch.{dtype}" for dtype in BITS),
        *(f"torch.int{bits}" for bits in range(1, 8)),
        *(f"torch.uint{bits}" for bits in range(1, 8)),
        *(f"torch.{storage}" for storage in STORAGES if not storage.endswith("UntypedStorage")),
        *(
            f"torch.cuda.{storage}"
            for storage in STORAGES
            if storage[0] not in "Q_" and storage != "UntypedStorage"
        ),
    }
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DANGEROUS_MODULES = _words("""
    _aix_support _bootsubprocess _ctypes _imp _osx_support _pickle _posixsubprocess _pyrepl _socket
    _thread aiohttp asyncio bdb builtins cProfile cloudpickle code codeop commands ctypes dill
    distutils doctest ensurepip fileinput ftplib gc glob http httplib idlelib imaplib imp importlib
    inspect lib2to3 linecache marshal mmap multiprocessing nt ntpath nturl2path operator os pathlib
    pdb pickle pickletools pip pkg_resources pkgutil platform poplib posix posixpath profile pty
    pydoc requests resource runpy select setuptools shelve shutil signal site smtplib socket
    socketserver sqlite3 ssl subprocess sys sysconfig telnetlib tempfile threading timeit trace
    urllib urllib2 urllib3 venv webbrowser winreg xmlrpc zipapp zipimport
""")
_HARMLESS_IN_THEM = _words("""
    builtins.Ellipsis builtins.NotImplemented builtins.bool builtins.bytearray builtins.bytes
    builtins.complex builtins.dict builtins.float builtins.frozenset builtins.int builtins.list
    builtins.object builtins.range builtins.set builtins.slice builtins.str builtins.tuple
    pathlib.Path pathlib.PosixPath pathlib.PurePath pathlib.PurePosixPath pathlib.PureWindowsPath
    pathlib.WindowsPath pathlib._local.Path pathlib._local.PosixPath pathlib._local.PurePath
    pathlib._local.PurePosixPath pathlib._local.PureWindowsPath pathlib._local.WindowsPath
""")
_REACHING_OUT = _words("""
    __builtins__ __getattribute__ __globals__ __import__ __reduce__ __subclasses__ builtins ctypes
    importlib nt os pickle popen posix runpy shutil socket subprocess sys system
""")
"""Attributes by which a dotted name leaves the module that it begins in."""
_DANGEROUS_NAMES = _words("""
    _io.FileIO _io.open functools.reduce io.FileIO io.open io.open_code joblib.load
    logging.FileHandler numpy.load pandas.read_pickle
    torch._inductor.codecache.compile_file torch.classes.load_library
    torch.fx.graph_module._deserialize_graph_module torch.fx.graph_module.reduce_graph_module
    torch.fx.graph_module.reduce_package_graph_module torch.jit.load torch.load
    torch.ops.load_library torch.serialization.load torch.storage._load_from_bytes types.CodeType
    types.FunctionType
""")
_DANGEROUS_FOLDERS = (
    "numpy.distutils.",
    "numpy.f2py.",
    "numpy.testing.",
    "torch._dynamo.",
    "torch.distributed.rpc.",
    "torch.hub.",
    "torch.package.",
    "torch.utils._config_module.",
    "torch.utils.bottleneck.",
    "torch.utils.collect_env.",
    "torch.utils.cpp_extension.",
)


def is_loaded_by_torch(name: str) -> bool:
    """Say if ``torch.load(weights_only=True)`` imports the name."""
    return name in _LOADED_BY_TORCH


def is_dangerous(name: str) -> bool:
    """Say if the name is known to run commands or code, import, or reach files or the network.

    False means only that it is not known to: a class of the user's may do anything when it is
    made.
    """
    if name in _HARMLESS_IN_THEM:
        return False
    first, *rest = name.split(".")
    return (
        first in _DANGEROUS_MODULES
        or name in _DANGEROUS_NAMES
        or name.startswith(_DANGEROUS_FOLDERS)
        or (not name.startswith("__torch__.") and any(part in _REACHING_OUT for part in rest))
    )


def sorted_by_trust(
    names: Iterable[str],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return all names, those that need trust, and those that are dangerous; each sorted, once."""
    unique = sorted(set(names))
    return (
        tuple(unique),
        tuple(name for name in unique if not is_loaded_by_torch(name)),
        tuple(name for name in unique if is_dangerous(name)),
    )
