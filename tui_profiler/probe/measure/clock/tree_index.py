"""Which node a module call belongs to.

1. A node is (calling node, module path). Who really calls is the nearest ancestor that is called:
   a ModuleList never is, so its children belong to the module around it.
2. A module that calls itself, directly or through others, and has no node there, belongs to the
   node of the call that is already running.
3. What the trace did not see belongs to no node; its time stays in its caller.
"""

import weakref
from collections.abc import Sequence
from functools import cached_property

from torch import nn

from tui_profiler.messages import Node
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.internals import children_of
from tui_profiler.probe.torch_compat.modules import modules_in_order

NOWHERE = -1
"""Instead of a node's index: the trace did not see this call."""


class TreeIndex:
    """Finds nodes by who calls which module; holds none of the modules.

    It is filled when it is first asked: some are never, and each takes objects by the thousand.
    """

    def __init__(self, nodes: Sequence[Node], model: nn.Module) -> None:
        self._nodes = nodes
        self._model = weakref.ref(model)
        self.root = next((index for index, node in enumerate(nodes) if node.parent < 0), NOWHERE)
        self._modules: dict[int, tuple[weakref.ref[nn.Module], list[str]]] = {}
        self._is_fresh = False

    def allow_refresh(self) -> None:
        """Let the next unknown module be looked for in the model again."""
        self._is_fresh = False

    def refresh(self) -> None:
        """Learn anew which module lies at which path: the user may have replaced some."""
        self._is_fresh = True
        self._modules = {}
        model = self._model()
        found: dict[str, nn.Module] = {} if model is None else {"": model}
        for node in self._nodes:
            if node.kind == "module" and model is not None:
                module = _module_at(node.path, found)
                if module is not None:
                    _, paths = self._modules.setdefault(id(module), (weakref.ref(module), []))
                    if node.path not in paths:
                        paths.append(node.path)

    def node(self, caller: int, module: nn.Module) -> int:
        """Return the node of ``module`` called from node ``caller``, or ``NOWHERE``."""
        for path in self._paths(module):
            node = self._children.get((caller, path))
            if node is not None:
                return node
        return NOWHERE

    def anywhere(self, module: nn.Module) -> int:
        """Return the first node of ``module``, whoever calls it, or ``NOWHERE``."""
        paths = self._paths(module)
        return self._first.get(paths[0], NOWHERE) if paths else NOWHERE

    def name_unseen(self, module: nn.Module) -> str:
        """Return a path for a module without a node, or its class where it has no path."""
        paths = self._paths(module)
        if paths:
            return paths[0]
        model = self._model()
        if model is not None:
            for path, other in modules_in_order(model):
                if other is module:
                    return path
        return f"<{type(module).__name__}>"

    @cached_property
    def _children(self) -> dict[tuple[int, str], int]:
        return _by_caller(self._nodes)

    @cached_property
    def _first(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for index, node in enumerate(self._nodes):
            if node.kind == "module":
                found.setdefault(node.path, index)
        return found

    def _paths(self, module: nn.Module) -> Sequence[str]:
        # By identity and not by hash: a user's module may define equality as it likes. An identity
        # may have passed to another object since, hence the weak reference.
        known = self._modules.get(id(module))
        if (known is None or known[0]() is not module) and not self._is_fresh:
            self.refresh()
            known = self._modules.get(id(module))
        if known is None or known[0]() is not module:
            return ()
        return known[1]


def _by_caller(nodes: Sequence[Node]) -> dict[tuple[int, str], int]:
    # A node that this trace did not call may be called live, or may be a mere container: it stands
    # as a caller itself, and so does everything above it up to one that was called. Nodes that were
    # called go first where two claim one place.
    children: dict[tuple[int, str], int] = {}
    modules = [index for index, node in enumerate(nodes) if node.kind == "module"]
    for index in sorted(modules, key=lambda index: nodes[index].calls == 0):
        caller = nodes[index].parent
        while caller >= 0:
            children.setdefault((caller, nodes[index].path), index)
            if nodes[caller].calls > 0:
                break
            caller = nodes[caller].parent
    return children


def _module_at(path: str, found: dict[str, nn.Module]) -> nn.Module | None:
    missing: list[str] = []
    while path not in found:
        path, _, name = path.rpartition(".")
        missing.append(name)
    module = found[path]
    for name in reversed(missing):
        children = children_of(module)
        child = children.get(name)
        if child is None:  # A node has its name as the wire carries it.
            child = next((one for own, one in children.items() if writable(own) == name), None)
        if child is None:
            return None
        path = f"{path}.{name}" if path else name
        found[path] = module = child
    return module
