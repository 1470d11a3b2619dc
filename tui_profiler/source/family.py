"""The processes of a script that listen: itself, and what it has started."""

from tui_profiler.source.attached import Found, find
from tui_profiler.source.torch_processes import descendants


def family(pid: int) -> list[Found]:
    """Ask a process and its descendants who they are; those that listen, in the order of their ids.

    Workers of data loaders are left out: they run no model.

    Args:
        pid: of the process.
    """
    found = find({pid, *descendants(pid)})
    return [one for one in found if one.program is None or not one.program.role]
