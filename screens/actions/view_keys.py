"""The keys of every screen beside the explorer, once: its bindings, and the list of keys there."""

from textual.binding import Binding

from .table import SIDE_SCREENS, Key

_HERE = "here"
_TO_A_NODE = Key("enter", "open", "node", "open the node under the cursor", _HERE, shown="↵")


COLUMNS: tuple[Key, ...] = (
    Key(
        "1,2,3,4,5,6,7,8,9",
        "sort_column",
        "sort",
        "sort by that column; again: the other way round; so does a click on its title",
        _HERE,
        shown="1…9",
    ),
    Key("s", "sort", "sort", "sort by the next column", _HERE),
    Key("S", "reverse", "reverse", "reverse the order", _HERE),
)
"""Of every table: one key a number, whose action is given the number."""


def _ends(action: str, many: int = 1_000_000) -> tuple[Key, ...]:
    """Return the keys to the first and the last row."""
    return (
        Key("g,home", f"{action}(-{many})", "top", "the first", _HERE),
        Key("G,end", f"{action}({many})", "bottom", "the last", _HERE),
    )


def _pages(action: str, what: str) -> tuple[Key, ...]:
    """Return the keys by half a page."""
    return (
        Key("ctrl+d,pagedown", f"{action}(1)", "page", f"{what} down", _HERE),
        Key("ctrl+u,pageup", f"{action}(-1)", "page", f"{what} up", _HERE),
    )


_ROWS: tuple[Key, ...] = (
    Key("down,j", "move(1)", "down", "one row down", _HERE, shown="↓ j"),
    Key("up,k", "move(-1)", "up", "one row up", _HERE, shown="↑ k"),
    *_pages("page", "half a page"),
    *_ends("move"),
)
"""Of the cursor in a table."""
WEIGHTS: tuple[Key, ...] = (
    Key("x", "measure", "measure", "measure the output error of changing this weight", _HERE),
    Key("X", "measure_all", "all", "measure it for every weight, one after another", _HERE),
    Key("v", "scheme", "change", "the change: int8, int4, fp8, zeros", _HERE),
    Key("a", "read", "read", "read the values again", _HERE),
    Key("c", "stop", "stop", "stop reading or measuring, and keep the results", _HERE),
    Key("P", "hold", "hold", "pause the model (press twice), to read faster, or resume it", _HERE),
    *COLUMNS,
    Key("b", "buffers", "buffers", "show or hide buffers", _HERE),
    _TO_A_NODE,
    *_ROWS,
)
FLAT: tuple[Key, ...] = (
    Key("v", "by", "by", "list modules, classes of modules, or operators by name", _HERE),
    Key("slash", "filter", "search", "filter the rows, as in the tree; esc drops it", _HERE),
    *COLUMNS,
    Key("c", "columns", "columns", "choose the columns and their order", _HERE),
    Key("enter", "open", "in the tree", "go to the node in the tree", _HERE, shown="↵"),
    *_ROWS,
)
HEALTH: tuple[Key, ...] = (
    Key("n", "first_nan", "first NaN", "go to the module with the first NaN", _HERE),
    *COLUMNS,
    _TO_A_NODE,
    *_ROWS,
)
COMPILATION: tuple[Key, ...] = (
    Key("down,j", "move(1)", "next", "the next break or recompilation", _HERE, shown="↓ j"),
    Key("up,k", "move(-1)", "previous", "the previous break or recompilation", _HERE, shown="↑ k"),
    _TO_A_NODE,
    *_ends("move"),
)
FINDINGS: tuple[Key, ...] = (
    Key("x", "try", "try", "run the trial in a separate process, or stop it", _HERE),
    Key("plus", "prolong", "longer", "let the trial that runs measure 30 s longer", _HERE),
    Key("down,j", "walk(1)", "finding", "the next finding", _HERE, shown="↓ j"),
    Key("up,k", "walk(-1)", "finding", "the previous finding", _HERE, shown="↑ k"),
    Key("right,l", "cross(1)", "its nodes", "the next node of this finding", _HERE, shown="→ l"),
    Key(
        "left,h", "cross(-1)", "its nodes", "the previous node of this finding", _HERE, shown="← h"
    ),
    *COLUMNS,
    *_pages("scroll_detail", "the details of the finding,"),
    _TO_A_NODE,
    *_ends("walk", 1000),
)
ROOFLINE: tuple[Key, ...] = (
    Key("down,j", "move(1)", "by time", "the next node, by time", _HERE, shown="↓ j"),
    Key("up,k", "move(-1)", "by time", "the previous node, by time", _HERE, shown="↑ k"),
    Key("right,l", "cross(1)", "by FLOP/B", "the next point to the right", _HERE, shown="→ l"),
    Key("left,h", "cross(-1)", "by FLOP/B", "the next point to the left", _HERE, shown="← h"),
    Key("v", "direction", "direction", "show the forward or the backward", _HERE),
    _TO_A_NODE,
    *_pages("page", "half a page"),
    *_ends("move"),
)
TIMELINE: tuple[Key, ...] = (
    Key("left,h", "beside(-1)", "walk", "the previous block", _HERE, shown="← h"),
    Key("right,l", "beside(1)", "walk", "the next block", _HERE, shown="→ l"),
    Key("up,k", "outward", "walk", "to the parent", _HERE, shown="↑ k"),
    Key("down,j", "inward", "walk", "to the first child", _HERE, shown="↓ j"),
    Key("enter", "zoom", "zoom", "zoom in, in step and forward; esc zooms out", _HERE, shown="↵"),
    Key("z", "hottest", "hottest", "the module with the most self time", _HERE),
    Key("t", "which", "slowest", "the mean, slow steps of training, slow forwards", _HERE),
    Key("s", "span", "span", "change the time span", _HERE),
)
MEMORY: tuple[Key, ...] = (
    Key("left,h", "step(-1)", "step", "the previous operator", _HERE, shown="← h"),
    Key("right,l", "step(1)", "step", "the next operator", _HERE, shown="→ l"),
    Key("z", "peak", "peak", "the peak", _HERE),
    Key("s", "switch", "step", "a training step, or one forward", _HERE),
    _TO_A_NODE,
    Key(
        "pageup,ctrl+u", "page(-1)", "page", "back by a tenth of the forward", _HERE, shown="ctrl+u"
    ),
    Key(
        "pagedown,ctrl+d",
        "page(1)",
        "page",
        "forward by a tenth of the forward",
        _HERE,
        shown="ctrl+d",
    ),
    Key("g,home", "end(0)", "first", "the first step", _HERE),
    Key("G,end", "end(-1)", "last", "the last step", _HERE),
)
NODE: tuple[Key, ...] = (
    Key("right_square_bracket", "sibling(1)", "sibling", "the next sibling", _HERE),
    Key("left_square_bracket", "sibling(-1)", "sibling", "the previous sibling", _HERE),
    Key("down,j", "scroll_by(1)", "scroll", "one row down", _HERE, shown="↓ j"),
    Key("up,k", "scroll_by(-1)", "scroll", "one row up", _HERE, shown="↑ k"),
    *_pages("page", "half a page"),
    Key("g,home", "start", "top", "the first row", _HERE),
    Key("G,end", "end", "bottom", "the last row", _HERE),
    Key("y", "copy", "copy", "copy the node's path", _HERE),
)
EVERY: tuple[Key, ...] = (
    Key("escape,backspace", "back", "back", "back to the explorer", "screens", shown="esc"),
    Key("q", "leave", "back", "back to the explorer", "screens"),
    Key("o", "node", "node", "open the node screen", "screens"),
    *SIDE_SCREENS,
    Key("question_mark", "keys", "keys", "this list", "screens"),
    Key("ctrl+p,colon", "palette", "palette", "every command by name", "screens", shown="ctrl+p :"),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("p", "pause", "pause", "pause the view; pause or play a recording", "look"),
    Key("y", "copy", "copy", "copy the path, the row, the panel or the screen", "look"),
    Key("e", "export", "export", "write the screen, the rows or a report to a file", "look"),
)
"""What every view has; bound by what they have in common."""
OF_NODE = (*NODE, *(key for key in EVERY if key.action not in ("node", "copy", "export")))
"""Every key of the node screen."""


COMPARE: tuple[Key, ...] = (
    Key("s", "order", "sort", "sort by difference, worst first, or in execution order", "find"),
    Key(
        "v",
        "figure",
        "figure",
        "compare the next figure: time, MAC, FLOP, bytes, parameters",
        "look",
    ),
    Key(
        "slash",
        "filter",
        "search",
        "filter the tree: conv changed !same moved added removed",
        "find",
    ),
    Key(
        "z",
        "worst",
        "worst",
        "go to the module with the largest self difference, then the next",
        "find",
    ),
    Key("space,enter", "fold_or_unfold", "fold", "fold or unfold", "fold"),
    Key("right,l", "unfold", "unfold", "unfold, or go to the first child", "fold", shown="→"),
    Key("left,h", "fold", "fold", "fold, or go to the parent", "fold", shown="←"),
    Key("left_curly_bracket", "depth(0)", "fold all", "fold all", "fold"),
    Key("right_curly_bracket", "depth(65536)", "unfold all", "unfold all", "fold"),
    Key("a", "operators", "operators", "show or hide operators", "fold"),
    Key("down,j", "move(1)", "down", "one row down", "move", shown="↓ j"),
    Key("up,k", "move(-1)", "up", "one row up", "move", shown="↑ k"),
    Key("ctrl+d,pagedown", "page(1)", "page", "half a page down", "move"),
    Key("ctrl+u,pageup", "page(-1)", "page", "half a page up", "move"),
    Key("g,home", "move(-1000000)", "top", "first row", "move"),
    Key("G,end", "move(1000000)", "bottom", "last row", "move"),
    Key("escape,backspace", "back", "back", "drop the filter", "find", shown="esc"),
    Key("p", "pause", "pause", "pause the view; the models keep running", "live"),
    Key("y", "copy", "copy", "copy the node's path, or the screen", "look"),
    Key("e", "export", "export", "write the screen (.txt, .svg) to a file", "look"),
    Key("T", "theme", "theme", "next theme", "look"),
    Key("question_mark", "keys", "keys", "this list", "screens"),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("q", "leave", "leave", "leave the comparison", "screens"),
)
"""Every key of the compare screen."""


START: tuple[Key, ...] = (
    Key(
        "",
        "",
        "search",
        "find a name by its parts, in any order: res50, vit small 16",
        "find",
        shown="a…z",
    ),
    Key("backspace,ctrl+h", "erase", "erase", "delete the last character", "find"),
    Key("ctrl+u", "clear", "clear", "clear the search", "find"),
    Key("enter", "choose", "open", "open what is under the cursor", "move", shown="↵"),
    Key("down", "move(1)", "down", "one row down", "move", shown="↓"),
    Key("up", "move(-1)", "up", "one row up", "move", shown="↑"),
    Key("pagedown", "move(10)", "page", "ten rows down", "move"),
    Key("pageup", "move(-10)", "page", "ten rows up", "move"),
    Key("home", "move(-100000)", "top", "first row", "move"),
    Key("end", "move(100000)", "bottom", "last row", "move"),
    Key("escape", "clear_or_leave", "leave", "clear the search, then quit", "screens", shown="esc"),
    Key("f1", "keys", "keys", "this list; ? too while nothing is typed", "screens", shown="? f1"),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("ctrl+c,ctrl+q", "app.leave", "quit", "quit", "screens"),
)
"""Every key of the start screen."""


def own_bindings(keys: tuple[Key, ...]) -> list[Binding]:
    """Return Textual's bindings of a view's own keys."""
    return [
        Binding(keys, action, show=False)
        for key in keys
        if key.keys
        for keys, action in _keys_actions(key)
    ]


def _keys_actions(key: Key) -> tuple[tuple[str, str], ...]:
    """Return the keys and what they do; of numbers each with its own."""
    if key.action != "sort_column":
        return ((key.keys, key.action),)
    return tuple((number, f"sort_column({number})") for number in key.keys.split(","))
