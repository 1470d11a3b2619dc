"""Values of a step of training of a small model, as a message."""

import math
from array import array

from tui_profiler.messages import FoundNan, ModelValues, Unknown

GROUPS = ("", "gradient_", "parameter_")


def model_values(nodes: tuple[int, ...] = (0, 1), nan_node: int | None = None) -> ModelValues:
    """Return values of some modules: all alike, but for the NaN in the output of one.

    Args:
        nodes: of them.
        nan_node: which it is; None: there is none.
    """

    def column(value: float) -> bytes:
        return array("f", [value] * len(nodes)).tobytes()

    figures = {"largest": 2.0, "rms": 0.5, "zeros": 0.25, "nans": 0.0, "infs": 0.0}
    columns = {group + name: column(one) for group in GROUPS for name, one in figures.items()}
    columns["nans"] = array("f", [0.125 * (node == nan_node) for node in nodes]).tobytes()
    columns |= {f"parameter_{name}": column(math.nan) for name in figures}
    found = None
    if nan_node is not None:
        found = FoundNan(412, nan_node, "activation", "", 0.125, 380)
    return ModelValues(
        at=3.0,
        steps=7,
        step=412,
        seconds=0.004,
        gradient_norm=1.5 if found is None else Unknown("not finite"),
        norm_steps=array("I", (380, 412)).tobytes(),
        norms=array("f", (1.25, 1.5)).tobytes(),
        first_nan=found,
        why_not_all="",
        why_no_parameters="",
        nodes=array("I", nodes).tobytes(),
        weight_rms=column(0.0625),
        update_ratio=column(0.001),
        **columns,
    )
