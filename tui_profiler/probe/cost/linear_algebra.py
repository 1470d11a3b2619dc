"""FLOP of dense factorisations and solves, by their leading terms.

Source: Blackford and Dongarra, LAPACK Working Note 41, "Installation Guide for LAPACK", appendix C
(operation counts of the LAPACK routines). What iterates until it converges (eigenvalues, singular
values) has no count beforehand, and stays uncosted.

Letters: n rows and columns, m rows, k right-hand sides; any axes before them are a batch.
"""

from __future__ import annotations

from math import prod

from tui_profiler.probe.cost.arithmetic import ARITHMETIC
from tui_profiler.probe.cost.call import Call
from tui_profiler.probe.torch_compat.internals import shape_of


def _square(call: Call) -> tuple[int, int]:
    shape = shape_of(call.first())
    return prod(shape[:-2]), shape[-1]


@ARITHMETIC.register("aten::linalg_cholesky_ex")
def _cholesky(call: Call) -> int:
    """n³/3."""
    batch, n = _square(call)
    return batch * n**3 // 3


@ARITHMETIC.register(
    "aten::linalg_lu_factor_ex", "aten::linalg_lu", "aten::_linalg_det", "aten::_linalg_slogdet"
)
def _lu(call: Call) -> int:
    """2·n³/3; the product of the diagonal is no leading term."""
    batch, n = _square(call)
    return batch * 2 * n**3 // 3


@ARITHMETIC.register("aten::linalg_inv_ex")
def _inverse(call: Call) -> int:
    """2·n³: factors, then n solutions."""
    batch, n = _square(call)
    return batch * 2 * n**3


@ARITHMETIC.register("aten::_linalg_solve_ex")
def _solve(call: Call) -> int:
    """2·n³/3 for the factors, 2·n²·k for the solutions, which are the output."""
    batch, n = _square(call)
    return batch * 2 * n**3 // 3 + 2 * n * call.output_elements()


@ARITHMETIC.register("aten::linalg_lu_solve", "aten::cholesky_solve")
def _solve_factored(call: Call) -> int:
    """2·n²·k: two triangular systems."""
    return 2 * call.output()[-2] * call.output_elements()


@ARITHMETIC.register("aten::linalg_solve_triangular", "aten::triangular_solve")
def _solve_triangular(call: Call) -> int:
    """n²·k; from the right the other axis is n."""
    matrix = call.get("A") if call.has("A") else call.get("self")
    return int(getattr(matrix, "shape")[-1]) * call.output_elements()  # noqa: B009


@ARITHMETIC.register("aten::linalg_qr")
def _qr(call: Call) -> int:
    """2·m·n² − 2·n³/3 for m ≥ n, with rows and columns exchanged else; as much again for Q."""
    *leading, rows, columns = shape_of(call.first())
    long, short = max(rows, columns), min(rows, columns)
    factor = 2 * long * short**2 - 2 * short**3 // 3
    return prod(leading) * factor * (1 if call.get("mode") == "r" else 2)
