"""Every key, once: bindings, footer, the keys screen and README's table are made from this."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace
from textual.binding import Binding

from .names import action_name, written


class Key(Struct, frozen=True):
    """A key and what it does."""

    keys: str
    """As Textual names them, comma-separated; the first one is shown."""
    action: str
    label: str
    """One word for the footer."""
    help: str
    """What it does, for the keys screen."""
    group: str
    shown: str = ""
    """How the key is written; empty: as named."""
    footer: str = ""
    """``left`` or ``right``, ``play`` for a recording's, or not in the footer; ``left!`` also at 80
    columns, ``left-narrow`` only there."""
    request: str = ""
    """The request that the probe must accept for it."""
    on: str = ""
    """Which part of the explorer does it, by the method of that name; empty: the screen itself."""
    asks: bool = False
    """Whether it opens a prompt: what is typed next goes there."""
    needs_tree: bool = False
    """Whether it does nothing until there is a tree on screen; so does all that is on it."""
    explains: bool = False
    """Whether its function says why not, because there is more to say than of the request."""
    at_once: bool = False
    """Whether it changes the tree alone, and is repeated as fast as keys come."""

    @property
    def name(self) -> str:
        """Return the name of the function: that of ``move(1)`` is move."""
        return self.action.partition("(")[0]


SIDE_SCREENS: tuple[Key, ...] = (
    Key(
        "t",
        "side('timeline')",
        "timeline",
        "one forward by depth, and the last minutes",
        "screens",
        footer="right",
    ),
    Key(
        "r",
        "side('roofline')",
        "roofline",
        "roofline: achieved and attainable, every node",
        "screens",
        footer="right!",
    ),
    Key(
        "m",
        "side('memory')",
        "memory",
        "live bytes over one forward, and at its peak",
        "screens",
        footer="right!",
    ),
    Key(
        "w",
        "side('weights')",
        "weights",
        "statistics of parameters, and output errors",
        "screens",
        footer="right",
    ),
    Key(
        "f",
        "side('findings')",
        "findings",
        "findings by predicted gain; x runs a trial",
        "screens",
        footer="right",
    ),
    Key(
        "A",
        "side('flat')",
        "flat",
        "flat tables: modules, classes, operators",
        "screens",
    ),
)
"""Other views of the same session and node; the label is the screen's name."""
EXPLORER: tuple[Key, ...] = (
    Key(
        "slash",
        "filter",
        "search",
        "filter until esc: conv kernel:7x7 time>1ms",
        "find",
        "/",
        "left!",
        on="tree_keys",
        asks=True,
    ),
    Key("n", "match(1)", "next", "next match of the filter", "find", on="tree_keys"),
    Key("N", "match(-1)", "previous", "previous match of the filter", "find", on="tree_keys"),
    Key(
        "s", "sort", "sort", "sort siblings by the next column", "find", "", "left!", on="tree_keys"
    ),
    Key(
        "S",
        "reverse",
        "reverse",
        "reverse the order; sorts a live column anew",
        "find",
        on="tree_keys",
    ),
    Key(
        "enter",
        "open",
        "open",
        "block: make it the root; leaf: open it",
        "move",
        "↵",
        "left!",
        needs_tree=True,
    ),
    Key("o", "node", "node", "open the node screen from anywhere", "move", needs_tree=True),
    Key(
        "escape,backspace",
        "back",
        "back",
        "back: drop the filter, then one root up",
        "move",
        "esc",
        on="tree_keys",
    ),
    Key(
        "z",
        "hottest",
        "hottest",
        "go to the module with the most self time",
        "find",
        "",
        "left",
        on="tree_keys",
    ),
    Key("b", "mark", "mark", "mark the node, or remove its mark", "find", on="tree_keys"),
    Key("apostrophe", "next_mark", "next mark", "go to the next mark", "find", "'", on="tree_keys"),
    Key(
        "ctrl+o",
        "jump_back",
        "jump back",
        "go back after a jump",
        "find",
        on="tree_keys",
    ),
    Key("p", "pause", "pause", "pause the view; the model keeps running", "live", "", "left"),
    Key("p", "pause", "pause", "pause or play", "play", "", "play!", "Play"),
    Key(
        "less_than_sign",
        "seek(-5)",
        "back",
        "5 s back",
        "play",
        "<",
        "play!",
        "Seek",
        on="requests",
    ),
    Key(
        "greater_than_sign",
        "seek(5)",
        "forward",
        "forward 5 s",
        "play",
        ">",
        "play!",
        "Seek",
        on="requests",
    ),
    Key("shift+left", "seek(-60)", "back", "back 1 min", "play", request="Seek", on="requests"),
    Key(
        "shift+right", "seek(60)", "forward", "forward 1 min", "play", request="Seek", on="requests"
    ),
    Key(
        "plus,equals_sign",
        "speed(2)",
        "faster",
        "double the speed",
        "play",
        "+",
        "play!",
        "SetSpeed",
    ),
    Key("minus", "speed(0.5)", "slower", "halve the speed", "play", "-", "play!", "SetSpeed"),
    Key(
        "at",
        "seek_to",
        "seek",
        "seek: 12.5 or 1:30 from the start, 50%, end",
        "play",
        "@",
        "play!",
        request="Seek",
        on="requests",
        asks=True,
    ),
    Key(
        "P",
        "hold",
        "hold",
        "pause the model (press twice) or resume it",
        "live",
        request="Pause",
        on="requests",
    ),
    Key(
        "full_stop",
        "step",
        "step",
        "run one forward while the model is paused",
        "live",
        ".",
        request="Step",
        on="requests",
    ),
    Key(
        "B",
        "batch",
        "batch",
        "new batch size or inputs, and the difference",
        "live",
        request="SetBatch",
        on="requests",
        asks=True,
    ),
    Key(
        "D",
        "device",
        "device",
        "new device or dtype, and the difference",
        "live",
        request="Start",
        on="requests",
        asks=True,
    ),
    Key(
        "V",
        "next_model",
        "model",
        "show the program's next model, and stay on it",
        "live",
        request="ShowModel",
        on="requests",
    ),
    Key(
        "F",
        "phase",
        "phase",
        "run the other forward: prefill or decode",
        "live",
        request="SetPhase",
        on="requests",
        explains=True,
    ),
    Key(
        "E",
        "replay",
        "replay",
        "energy of the node, run alone for 15 s",
        "live",
        request="ReplayNode",
    ),
    Key("down,j", "move(1)", "down", "one row down", "move", "↓ j", on="tree_keys", at_once=True),
    Key("up,k", "move(-1)", "up", "one row up", "move", "↑ k", on="tree_keys", at_once=True),
    Key(
        "ctrl+d,pagedown",
        "page(1)",
        "page",
        "half a page down",
        "move",
        "ctrl+d",
        on="tree_keys",
        at_once=True,
    ),
    Key(
        "ctrl+u,pageup",
        "page(-1)",
        "page",
        "half a page up",
        "move",
        "ctrl+u",
        on="tree_keys",
        at_once=True,
    ),
    Key("g,home", "first", "top", "first row", "move", "g", on="tree_keys", at_once=True),
    Key("G,end", "last", "bottom", "last row", "move", "G", on="tree_keys", at_once=True),
    Key(
        "right_square_bracket",
        "sibling(1)",
        "sibling",
        "next sibling",
        "move",
        "]",
        on="tree_keys",
        at_once=True,
    ),
    Key(
        "left_square_bracket",
        "sibling(-1)",
        "sibling",
        "previous sibling",
        "move",
        "[",
        on="tree_keys",
        at_once=True,
    ),
    Key("right,l", "unfold", "unfold", "unfold", "fold", "→ l", on="tree_keys", at_once=True),
    Key(
        "left,h",
        "fold",
        "fold",
        "fold, or go to the parent",
        "fold",
        "← h",
        on="tree_keys",
        at_once=True,
    ),
    Key("space", "toggle_fold", "fold", "fold or unfold", "fold", on="tree_keys", at_once=True),
    Key("left_curly_bracket", "fold_all", "fold all", "fold all", "fold", "{", on="tree_keys"),
    Key(
        "right_curly_bracket", "unfold_all", "unfold all", "unfold all", "fold", "}", on="tree_keys"
    ),
    Key(
        "a", "operators", "operators", "show or hide operators in the tree", "fold", on="tree_keys"
    ),
    Key(
        "u",
        "group",
        "equal",
        "equal blocks as one row of sums, or each",
        "fold",
        on="tree_keys",
    ),
    Key(
        "tab",
        "panels",
        "panels",
        "at 80 columns: the next section of the panel",
        "look",
        "",
        "left-narrow",
    ),
    Key(
        "i",
        "why",
        "why",
        "where figures come from, or why none",
        "look",
        needs_tree=True,
    ),
    Key(
        "y",
        "copy",
        "copy",
        "copy, over SSH too: path, row, panel, screen",
        "look",
        on="copying",
        asks=True,
        needs_tree=True,
    ),
    Key(
        "e",
        "export",
        "export",
        "write screen, rows or a report to a file",
        "look",
        on="copying",
        asks=True,
    ),
    Key(
        "c",
        "columns",
        "columns",
        "choose the tree's columns and their order",
        "look",
        on="appearance",
        needs_tree=True,
    ),
    Key("T", "theme", "theme", "next theme", "look", on="appearance"),
    Key(
        "plus,equals_sign",
        "speed(2)",
        "faster",
        "refresh more often, up to 10 times a second",
        "look",
        "+",
    ),
    Key("minus", "speed(0.5)", "slower", "refresh less often, down to every 2 s", "look", "-"),
    *SIDE_SCREENS,
    Key(
        "C",
        "compare",
        "compare",
        "compare with a model, a recording or a report",
        "live",
        asks=True,
    ),
    Key("M", "machine", "machine", "every counter of the machine, and energy", "screens"),
    Key("R", "ranks", "ranks", "the ranks of the distributed run", "screens"),
    Key("L", "log", "log", "what the model and the worker printed", "screens"),
    Key("question_mark", "keys", "keys", "this list", "screens", "?", "right!"),
    Key("ctrl+p,colon", "palette", "palette", "every command by name", "screens", "ctrl+p :"),
    Key(
        "x",
        "try",
        "try",
        "run a failure's remedy; tab marks the next",
        "live",
        request="Start",
    ),
    Key(
        "ctrl+r",
        "restart",
        "restart",
        "restart the worker; attached: trace anew",
        "live",
        request="Start",
        on="requests",
        explains=True,
    ),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("q", "leave", "quit", "quit", "screens"),
)
DEPTHS: tuple[Key, ...] = tuple(
    Key(str(depth), f"depth({depth})", "depth", f"unfold to depth {depth}", "fold", on="tree_keys")
    for depth in range(1, 10)
)


BY_NAME: tuple[Key, ...] = (
    Key("", "sort_by", "sort", "", "find", on="tree_keys"),
    Key("", "use_theme", "theme", "use this theme", "look", on="appearance"),
    Key("", "toggle_mouse", "mouse", "turn the mouse off or on", "look", on="appearance"),
)
"""What has no key: the palette alone does it."""
OF_FUNCTION: Mapping[str, Key] = {
    **{key.name: key for key in reversed((*EXPLORER, *DEPTHS))},
    **{key.name: key for key in BY_NAME},
}
"""Name of a function to a row of it, the first one."""


def textual_action(action: str) -> str:
    """Return an action of the explorer as Textual runs it: what a part does, the screen hands on.

    Args:
        action: as its row names it.
    """
    key = OF_FUNCTION.get(action.partition("(")[0])
    return f"do({action!r})" if key is not None and key.on else action


def bindings(keys: tuple[Key, ...]) -> list[Binding]:
    """Return Textual's bindings."""
    return [
        Binding(
            key.keys,
            textual_action(key.action) if key.on else key.action,
            key.label,
            show=False,
            id=action_name(key.action),
        )
        for key in keys
    ]


def remapped(keys: tuple[Key, ...], own: Mapping[str, tuple[str, ...]]) -> tuple[Key, ...]:
    """Return the keys as a user has them; what the user gave to another action is lost.

    Args:
        keys: as they are without a configuration.
        own: name of the action to its keys, as Textual names them.
    """
    if not own:
        return keys
    taken = {key for own_keys in own.values() for key in own_keys}
    found: list[Key] = []
    for key in keys:
        mine = own.get(action_name(key.action))
        if mine is None:
            mine = tuple(one for one in key.keys.split(",") if one not in taken)
            if len(mine) == key.keys.count(",") + 1:
                found.append(key)
                continue
        shown = written(mine[0]) if mine else ""
        found.append(replace(key, keys=",".join(mine), shown=shown or "none"))
    return tuple(found)


def shown(key: Key) -> str:
    """Return a key as it is written on screen."""
    return key.shown or key.keys.split(",", maxsplit=1)[0]


def footer(keys: tuple[Key, ...], side: str, *, narrow: bool) -> tuple[tuple[str, str], ...]:
    """Return (key, label) of one side of the footer."""
    wanted = (f"{side}!", f"{side}-narrow" if narrow else side)
    return tuple((shown(key), key.label) for key in keys if key.footer in wanted and key.keys)


def side_keys(keys: tuple[Key, ...], current: str = "") -> tuple[tuple[str, str], ...]:
    """Return (key, label) of the side screens in the footer, and of the one that is shown."""
    return tuple((shown(key), key.label) for key in keys if key.footer or key.label == current)
