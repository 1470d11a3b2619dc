"""Every kind of trial."""

from collections.abc import Mapping

from tui_profiler.messages import TrialKind
from tui_profiler.probe.trials.kinds import (
    change,
    channels_last,
    checkpoint,
    compile,
    context_managers,
    fold_conv_bn,
    int8_dynamic,
    larger_batch,
    optimizer_loop,
    remove_identity,
    sdpa,
    static_kv_cache,
    threads,
)

KINDS: Mapping[TrialKind, change.Kind] = {
    "fold-conv-bn": fold_conv_bn.KIND,
    "channels-last": channels_last.KIND,
    "bf16-autocast": context_managers.BF16,
    "fp16-autocast": context_managers.FP16,
    "int8-dynamic": int8_dynamic.KIND,
    "compile": compile.KIND,
    "sdpa": sdpa.KIND,
    "larger-batch": larger_batch.KIND,
    "inference-mode": context_managers.INFERENCE_MODE,
    "threads": threads.KIND,
    "static-kv-cache": static_kv_cache.KIND,
    "remove-dropout-identity": remove_identity.KIND,
    "checkpoint": checkpoint.KIND,
    "optimizer-loop": optimizer_loop.KIND,
}
