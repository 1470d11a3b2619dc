"""The environment with which the processes that a script under ``run`` starts listen for viewers.

``PYTHONPATH`` of those processes begins with a folder of ours (``site/``), whose ``sitecustomize``
Python runs at each start.

1. The program does not see it: ``os.environ`` and ``sys.path`` are as without us, here and in the
   processes that are started. Only the C library's environment has it, which a process inherits.
2. A process that is started with an environment that Python builds (``subprocess`` with ``env``, as
   ``torchrun`` does) gets the folder as well: what ``subprocess`` and ``multiprocessing`` call is
   replaced for that. Whatever does not look as in Python 3.11 to 3.14 is passed on unchanged.
3. Nothing is written anywhere, and nothing has to be removed.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

VARIABLE = "PYTHONPATH"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
_ENVIRONMENT = 5
"""Which argument of ``_posixsubprocess.fork_exec`` is the environment: None, or ``NAME=value`` in
bytes. Source: Modules/_posixsubprocess.c, Python 3.11 to 3.14."""

_ForkExec: TypeAlias = Callable[..., int]


class _Inherited:
    """What the C library's environment has for ``PYTHONPATH``."""

    def __init__(self) -> None:
        self._for: str | None = None
        """What ``os.environ`` had when it was set."""
        self._is_set = False

    def renew(self) -> None:
        """Set it, unless the program has left it as it was."""
        own = os.environ.get(VARIABLE)
        if not self._is_set or own != self._for:
            # An empty own value is unset to Python, and stands as the folder twice: an empty part
            # would be the working directory.
            second = None if own is None else own or FOLDER
            os.putenv(VARIABLE, FOLDER if second is None else f"{FOLDER}{os.pathsep}{second}")
            self._for, self._is_set = own, True


_INHERITED = _Inherited()


def follow() -> None:
    """Have the processes that this one starts from now on listen for viewers."""
    _INHERITED.renew()
    module = sys.modules.get("_posixsubprocess")
    for holder, name in ((module, "fork_exec"), (subprocess, "_fork_exec")):
        fork_exec = getattr(holder, name, None)
        if callable(fork_exec) and not hasattr(fork_exec, "__wrapped__"):
            setattr(holder, name, _following(fork_exec))


def _following(fork_exec: _ForkExec) -> _ForkExec:
    @wraps(fork_exec)
    def started(*given: object) -> int:
        environment = given[_ENVIRONMENT] if len(given) > _ENVIRONMENT else ()
        if environment is None:
            _INHERITED.renew()
        elif isinstance(environment, list):
            given = (*given[:_ENVIRONMENT], _extended(environment), *given[_ENVIRONMENT + 1 :])
        return fork_exec(*given)

    return started


def _extended(environment: list[object]) -> list[object]:
    """Return an environment in which the folder is first on ``PYTHONPATH``."""
    begin, folder = f"{VARIABLE}=".encode(), os.fsencode(FOLDER)
    own = next(
        (one for one in environment if isinstance(one, bytes) and one.startswith(begin)), None
    )
    if own is None:
        return [*environment, begin + folder]
    if own == begin + folder or own.startswith(begin + folder + os.fsencode(os.pathsep)):
        return environment
    ours = begin + folder + os.fsencode(os.pathsep) + (own[len(begin) :] or folder)
    return [ours if one is own else one for one in environment]
