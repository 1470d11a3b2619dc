"""The finding of the first NaN."""

from msgspec.structs import replace

from tests.small_model import CONV, FC, TRACED, folded
from tests.small_values import model_values
from tui_profiler.findings import CHECKS
from tui_profiler.messages import FoundNan
from tui_profiler.session import apply

SESSION = folded(TRACED)


def test_the_finding_names_step_and_module() -> None:
    found = CHECKS["first-nan"].find(apply(SESSION, model_values((0, CONV), nan_node=CONV)))
    assert found is not None
    assert found.nodes == (CONV,)
    assert found.title == (
        "NaN first seen at step 412 in the output of conv, 12 % of it; none at step 380"
    )
    gradient = FoundNan(3, FC, "parameter gradient", "fc.weight", 1.0, 0)
    found = CHECKS["first-nan"].find(apply(SESSION, replace(model_values(), first_nan=gradient)))
    assert found is not None
    assert found.title == "NaN first seen at step 3 in the gradient of fc.weight, 100 % of it"


def test_there_is_none_without_a_nan_or_its_module() -> None:
    assert CHECKS["first-nan"].find(SESSION) is None
    assert CHECKS["first-nan"].find(apply(SESSION, model_values())) is None
    strange = replace(model_values(), first_nan=FoundNan(3, 999, "activation", "", 1.0, 0))
    assert CHECKS["first-nan"].find(apply(SESSION, strange)) is None
