"""What differs between the releases of torch that are supported, 2.10 to 2.15.

| since | what | before it |
|---|---|---|
| 2.15 | ``FlopCounterMode(skip_unsupported=True)``, ``get_unsupported_ops()`` | operators \
that take functions (``cond`` apart) raise under the counter: they are run and noted here |
| 2.15 | ``FlopCounterMode`` counts ``_scaled_dot_product_flash_attention_for_cpu`` | it counts 0, \
and ``verify`` names the operator and leaves it out of the comparison |
| 2.15 | ``torch.load`` needs trust for ``torch._utils._rebuild_nested_tensor`` | it is loaded \
without; ``tui_profiler.archive.pickles.safe_globals`` asks for trust with every release |
| 2.14 | Dynamo traces the call of a module of torch's that was compiled in place (``Sequential``) \
| it compiles each frame of other code that is met inside, so ours as well, and with \
``fullgraph=True`` raises at the ninth: ``COMPILES_PARTS_ALONE`` |
| 2.14 | code that Dynamo meets under a dispatch mode is compiled later | it is passed \
over for ever: compiled modules are traced as if they were not, ``uncompiled`` |
| 2.14 | no operator takes the names of dimensions (``aten::size.Dimname``) | most operators have \
an overload that does: ``DIMENSION_NAMES`` are allowed in files that need no trust |
| 2.13 | in a fake run the backward of oneDNN's LSTM returns what the real one does | gradients in \
16 bits, that of an absent bias as large as a weight: ``probe/cost/workspace.py`` has the sizes |
| 2.11 | oneDNN is 3.10 or newer and allocates each buffer of a recurrent layer once | 3.7.1 \
allocates some up to five times: ``internals.onednn_release`` decides, as torch may be built with \
another release |

``FlopCounterMode`` of all of them is in ``flop_counter``. Only what is the same in all stands
elsewhere: ``internals`` for private names.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import torch

RELEASE = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
"""Of the torch that is imported: (2, 10)."""

COMPILES_PARTS_ALONE = RELEASE < (2, 14)
"""Whether what takes the place of ``nn.Module.__call__`` must not be met in a module that was
compiled in place: torch's own code, which Dynamo passes over there, stands in for it meanwhile."""

DIMENSION_NAMES = (
    "dim dim0 dim1 dim2 dims end_dim names out_dim outdim start_dim" if RELEASE < (2, 14) else ""
)
"""Arguments of operators that name dimensions."""


def uncompiled() -> AbstractContextManager[object]:
    """Run what was compiled as it was before, while the block runs; nothing since torch 2.14.

    The tracer is a dispatch mode: before 2.14 Dynamo remembers code that it passed over under one,
    and the model would never be compiled again in this process.
    """
    # Importing Dynamo takes two seconds; where nothing was compiled, it is not imported.
    if RELEASE >= (2, 14) or "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def without_generated_code() -> AbstractContextManager[object]:
    """Have what is compiled while the block runs run torch's operators, whatever its backend is.

    Code that a backend generates reads memory, which fake tensors have none of: the process dies.
    """
    stance: AbstractContextManager[object] = torch.compiler.set_stance(
        "default", force_backend="eager"
    )
    return stance
