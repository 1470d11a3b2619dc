"""Names that tracers mangled, made readable again, and long ones cut.

FX and Dynamo spell a module's path as one identifier: ``g__model___model_0_conv``. What is lost in
that cannot be had back with certainty (``self_attn`` is one name, not a path): this is for showing
only. The paths of our own tree come from the module stack and are never changed.
"""

import re

from tui_profiler.formatting.text import fit, middle, safe, width

LEAST_PATH = 6
"""Cells; a path cut further says nothing."""
LONGEST = 1000
"""Characters; longer names are left as they are, so that hostile ones cost no time."""

# What Dynamo puts before a path: nested getattr calls, then the local or global it starts from.
_SCOPE = re.compile(r"^(?=getattr_|[LgG]__)(?:getattr_)*(?:[LgG]__(?:\w+?___)?)?")
_MADE = re.compile(r"getattr_(?:getattr_|[LlGg]__)|[LlGg]__\w|model\.model\.")
_MADE_INDEX = re.compile(r"_____\d{1,9}___\Z")
_INDEX = re.compile(r"_{2,}(\d+)(?=_{2,}|\Z)")
_LAST_INDEX = re.compile(r"(?<=\])_+\Z")
_AFTER_INDEX = re.compile(r"(?<=\])_+")
_NUMBER = re.compile(r"(?<=[^_.])_(\d+)(?=_(?!_)|\[)")
_AFTER_NUMBER = re.compile(r"(\.\d+)_(?=[^_])")
_LAST_NUMBER = re.compile(r"(?<=[^_.])_(\d+)\Z")
_REPEATED = re.compile(r"^(model\.)(?:model\.)+")


def abbreviated(name: str) -> str:
    """Return a readable form of a name that a tracer mangled; plain names come back unchanged."""
    if len(name) > LONGEST:
        return name
    plain = _SCOPE.sub("", name)
    was_mangled = plain != name
    plain = _LAST_INDEX.sub("", _INDEX.sub(r"[\1]", plain))
    plain = _AFTER_INDEX.sub(".", plain)
    plain = _AFTER_NUMBER.sub(r"\1.", _NUMBER.sub(r".\1", plain))
    if was_mangled:
        # Elsewhere a last number tells equal operators apart: ``relu_1``.
        plain = _LAST_NUMBER.sub(r".\1", plain).strip("_.").replace("___", ".")
    return _REPEATED.sub(r"\1", plain) or name


def shown(name: str) -> str:
    """Return a node's name as a tree shows it: abbreviated only if a tracer made it.

    What a model calls its parts itself (``norm_1_out``) is what its state dict says, and stays.
    """
    was_made = len(name) <= LONGEST and (_MADE.match(name) or _MADE_INDEX.search(name))
    return abbreviated(name) if was_made else name


_SDPA = re.compile(r"scaled_dot_product_(\w*?)_?attention")


def fitted(name: str, cells: int, ellipsis: str = "…") -> str:
    """Return a safe name in at most ``cells``; of an operator what it does stays readable.

    Cut in its middle, ``aten::_scaled_dot_product_flash_attention_for_cpu`` would be its namespace
    and ``on_for_cpu``. So the namespace goes first, then the device; then its end. A path is cut in
    its middle, also that of the module before an operator: ``layers.0/add``.
    """
    if width(name) <= cells:
        return name
    where, slash, operator = name.rpartition("/")
    operator = operator.partition("::")[2] or operator
    if not slash and "::" not in name:
        return middle(name, cells, ellipsis)
    plain = operator.strip("_").removesuffix("_for_cpu")
    forms = [
        operator,
        operator.strip("_"),
        plain,
        _SDPA.sub(r"sdpa_\1", plain).strip("_").replace("__", "_"),
    ]
    for form in forms:
        if width(where + slash + form) <= cells:
            return where + slash + form
    brief = forms[-1]
    room = cells - width(slash + brief)
    if slash and room >= LEAST_PATH:
        return middle(where, room, ellipsis) + slash + brief
    return next((form for form in forms if width(form) <= cells), fit(brief, cells, ellipsis))


def short(name: str, cells: int) -> str:
    """Return a name in at most ``cells``: readable, safe, and a long one as ``start...end``."""
    return middle(safe(abbreviated(name)), cells, "...")
