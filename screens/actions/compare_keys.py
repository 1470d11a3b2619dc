"""The keys of the compare screen: its bindings, its last row and its list of keys."""

from __future__ import annotations

from .table import Key

COMPARE: tuple[Key, ...] = (
    Key(
        "s", "order", "sort", "sort by difference, the worst first, or as the model has it", "find"
    ),
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
        "filter the tree: conv changed !same moved appeared vanished",
        "find",
        "/",
    ),
    Key(
        "z",
        "worst",
        "worst",
        "go to the module that differs most by itself, then to the next",
        "find",
    ),
    Key("space,enter", "fold_or_unfold", "fold", "fold or unfold", "fold", "space"),
    Key("right,l", "unfold", "unfold", "unfold, or go in", "fold", "→"),
    Key("left,h", "fold", "fold", "fold, or go out", "fold", "←"),
    Key("left_curly_bracket", "depth(0)", "fold all", "fold all", "fold", "{"),
    Key("right_curly_bracket", "depth(65536)", "unfold all", "unfold all", "fold", "}"),
    Key("a", "operators", "operators", "show or hide operators", "fold"),
    Key("down,j", "move(1)", "down", "one row down", "move", "↓ j"),
    Key("up,k", "move(-1)", "up", "one row up", "move", "↑ k"),
    Key("ctrl+d,pagedown", "page(1)", "page", "half a page down", "move", "ctrl+d"),
    Key("ctrl+u,pageup", "page(-1)", "page", "half a page up", "move", "ctrl+u"),
    Key("g,home", "move(-1000000)", "top", "first row", "move", "g"),
    Key("G,end", "move(1000000)", "bottom", "last row", "move", "G"),
    Key("escape,backspace", "back", "back", "drop the filter", "find", "esc"),
    Key("p", "pause", "pause", "pause the view; the models run on", "live"),
    Key("y", "copy", "copy", "copy the node's path, or the screen", "look"),
    Key("e", "export", "export", "write the screen (.txt, .svg) to a file", "look"),
    Key("T", "theme", "theme", "next theme", "look"),
    Key("question_mark", "keys", "keys", "this list", "screens", "?"),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("q", "leave", "leave", "leave the comparison", "screens"),
)
