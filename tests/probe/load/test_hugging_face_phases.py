"""Prefill and decode against the closed form, the cache against its own tensors, and 405 B."""

from __future__ import annotations

import inspect
import os
import queue
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.load.hf_folders import (
    BERT,
    LLAMA,
    LLAVA,
    MOONSHINE,
    MUSICGEN,
    PEGASUS,
    RECURRENT_GEMMA,
    RWKV,
    SWITCH,
    T5,
    folder_of,
    shapes,
    traced,
)
from tui_profiler.messages import (
    Failed,
    LoadSpec,
    LoopState,
    Message,
    Request,
    SetBatch,
    SetPhase,
    Start,
    Stop,
    Unknown,
    known,
)
from tui_profiler.probe.load.common.loaded_model import Loaded
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import tensors_of
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.probe.worker.worker import Worker
from tui_profiler.session import EMPTY, Session, apply

pytest.importorskip("transformers")

GQA = LLAMA
TIED = {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 8}
WIDE_HEADS = {**LLAMA, "head_dim": 24}


def step_of(loaded: Loaded, made: Trace) -> Trace:
    assert made.kept is not None
    assert loaded.decode is not None
    step = loaded.decode(loaded.model, made.inputs, made.kept)
    assert isinstance(step, Inputs)
    return trace(loaded.model, (step,))


def linear_weights(model: torch.nn.Module) -> int:
    """Scalars of 2-D weights that multiply every token; an embedding is looked up."""
    modules = model.modules()
    return sum(m.weight.numel() for m in modules if isinstance(m, torch.nn.Linear))


def closed_form_macs(made: Trace) -> int | float:
    """Of all but positions: some releases of transformers multiply them as matrices."""
    positions = [
        cost.macs
        for node, cost in zip(made.nodes, made.costs, strict=True)
        if node.kind == "module" and node.name == "rotary_emb"
    ]
    assert len(positions) == 1
    return made.costs[0].macs - positions[0]


@pytest.mark.parametrize("config", [GQA, TIED, WIDE_HEADS], ids=["gqa", "tied", "wide heads"])
@pytest.mark.parametrize("tokens", [1, 37, 128])
def test_macs_are_those_of_the_closed_form(
    tmp_path: Path, config: dict[str, int], tokens: int
) -> None:
    name = folder_of(tmp_path, config)
    loaded, prefill = traced(name, inputs=(f"input_ids=1,{tokens}",))
    decode = step_of(loaded, prefill)
    layers, width = config["num_hidden_layers"], config["num_attention_heads"] * config["head_dim"]
    weights = linear_weights(loaded.model)
    assert closed_form_macs(prefill) == weights * tokens + 2 * layers * tokens**2 * width
    assert closed_form_macs(decode) == weights + 2 * layers * (tokens + 1) * width
    assert prefill.costs[0].parameters == sum(p.numel() for p in loaded.model.parameters())


def test_tied_embeddings_are_counted_once(tmp_path: Path) -> None:
    plain, _ = traced(folder_of(tmp_path / "plain", LLAMA))
    tied, _ = traced(folder_of(tmp_path / "tied", LLAMA, tie_word_embeddings=True))
    parameters = [sum(p.numel() for p in loaded.model.parameters()) for loaded in (plain, tied)]
    assert parameters[0] - parameters[1] == LLAMA["vocab_size"] * LLAMA["hidden_size"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cache_is_as_large_as_its_tensors_and_the_closed_form(
    tmp_path: Path, dtype: str
) -> None:
    loaded, prefill = traced(folder_of(tmp_path, GQA), dtype=dtype, batch=2)
    decode = step_of(loaded, prefill)
    size = getattr(torch, dtype).itemsize
    one = 2 * GQA["num_hidden_layers"] * GQA["num_key_value_heads"] * GQA["head_dim"] * size * 2
    with torch.no_grad():
        real = loaded.model(**prefill.inputs.keywords()).past_key_values
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(real))
    assert known(prefill.done.peak_memory.kv_cache) == 128 * one == held
    assert known(decode.done.peak_memory.kv_cache) == 129 * one


def test_a_decode_step_needs_little_more_than_its_cache(tmp_path: Path) -> None:
    loaded, prefill = traced(folder_of(tmp_path, GQA))
    decode = step_of(loaded, prefill)
    activations = known(decode.done.peak_memory.activations)
    # One layer's keys and values are there twice while they are lengthened by one token.
    one_layer = known(decode.done.peak_memory.kv_cache) / GQA["num_hidden_layers"]
    assert one_layer / 2 < activations < one_layer + 20_000


def test_each_real_call_gets_a_cache_of_its_own(tmp_path: Path) -> None:
    loaded, prefill = traced(folder_of(tmp_path, GQA))
    decode = step_of(loaded, prefill)
    for _ in range(3):
        with torch.no_grad():
            output = loaded.model(**decode.inputs.keywords())
        assert output.past_key_values.get_seq_length() == 129
    assert shapes(decode)["input_ids"] == (1, 1)
    assert prefill.kept is not None
    assert shapes(decode)[prefill.kept.name] == (1, 2, 128, 8)


def test_what_does_not_generate_has_one_forward(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, BERT))
    assert made.kept is None
    assert made.done.peak_memory.kv_cache is None


@pytest.mark.parametrize(
    "config", [MOONSHINE, SWITCH, PEGASUS, RWKV, MUSICGEN], ids=lambda config: config["model_type"]
)
def test_the_next_token_costs_what_another_counter_counts(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    loaded, prefill = traced(folder_of(tmp_path, config))
    made = step_of(loaded, prefill)
    model = loaded.model
    named = prefill.inputs.keywords()
    with torch.no_grad():
        output = model(**named)
        side = "decoder_" if "decoder_input_ids" in named else ""
        next_named = {f"{side}input_ids": named[f"{side}input_ids"][:, -1:]}
        if side:
            encoder = model.get_encoder()
            taken = inspect.signature(encoder.forward).parameters
            given = {n: named[n] for n in named if n in taken}
            next_named["encoder_outputs"] = encoder(**given)
            next_named |= {n: named[n] for n in ("attention_mask",) if n in named}
        cache = "state" if config is RWKV else "past_key_values"
        next_named[cache] = output[cache]
        # Where attention is one fused operator on the CPU, the counter does not know it.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model(**next_named)
    assert made.costs[0].macs == counter.get_total_flops() / 2 > 0


def test_a_full_prompt_is_named_and_the_usual_one_leaves_a_position(tmp_path: Path) -> None:
    name = folder_of(tmp_path, PEGASUS)
    _, usual = traced(name)
    assert shapes(usual)["decoder_input_ids"] == (1, PEGASUS["max_position_embeddings"] - 1)
    loaded, full = traced(name, inputs=("decoder_input_ids=1,48",))
    why = loaded.decode(loaded.model, full.inputs, full.kept)
    assert why == Unknown(
        "the prompt of 48 tokens fills all 48 rows of model.decoder.embed_positions"
    )


def test_positions_of_a_vision_tower_do_not_end_the_prompt(tmp_path: Path) -> None:
    loaded, made = traced(folder_of(tmp_path, LLAVA))
    tower = loaded.model.get_submodule("model.vision_tower")
    tables = [m for m in tower.modules() if isinstance(m, torch.nn.Embedding)]
    assert tables[0].num_embeddings < shapes(made)["input_ids"][1]
    assert shapes(step_of(loaded, made))["input_ids"] == (1, 1)


def test_the_next_token_runs_after_a_prompt_with_an_image(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    text = {**LLAMA, "model_type": "qwen2_vl_text", "rope_parameters": rope, "rope_scaling": rope}
    vision = {"embed_dim": 32, "hidden_size": 64, "depth": 1, "num_heads": 2, "patch_size": 14}
    qwen = {"model_type": "qwen2_vl", "text_config": text, "vision_config": vision}
    qwen |= {"image_token_id": 200, "video_token_id": 201, "vision_start_token_id": 202}
    loaded, made = traced(folder_of(tmp_path, qwen, vision_end_token_id=203))
    assert "pixel_values" in shapes(made)
    decode = step_of(loaded, made)
    model = loaded.initialise() if loaded.initialise is not None else loaded.model
    with torch.no_grad():
        model(**made.inputs.keywords())
        again = model(**decode.inputs.keywords())
    assert again.logits.shape[1] == 1


def test_a_config_without_a_cache_is_named(tmp_path: Path) -> None:
    loaded, made = traced(folder_of(tmp_path, LLAMA, use_cache=False))
    why = loaded.decode(loaded.model, made.inputs, made.kept)
    assert why == Unknown('its config says "use_cache": false')


def test_a_forward_that_refuses_one_token_is_told(tmp_path: Path) -> None:
    cpmant = {"model_type": "cpmant", "hidden_size": 32, "num_attention_heads": 2, "dim_head": 16}
    cpmant |= {"dim_ff": 32, "num_hidden_layers": 1, "vocab_size": 64, "prompt_length": 4}
    wire = served(folder_of(tmp_path, cpmant), run=False)
    assert wire.session.no_decode is not None
    why = wire.session.no_decode.why
    assert why.startswith("passed its cache and one more token, forward raised RuntimeError: ")


def test_a_state_kept_in_modules_is_named(tmp_path: Path) -> None:
    loaded, made = traced(folder_of(tmp_path, RECURRENT_GEMMA))
    why = loaded.decode(loaded.model, made.inputs, made.kept)
    assert isinstance(why, Unknown)
    module, _, attribute = why.reason.partition("(")[2].partition(")")[0].rpartition(".")
    assert hasattr(loaded.model.get_submodule(module), attribute)


class Wire:
    """Both ends of a link in one process: what was sent is folded, requests come from a list."""

    is_closed = False
    dropped = 0

    def __init__(self, first: Request) -> None:
        self.waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self.waiting.put(first)
        self.session = EMPTY
        self.loops: list[LoopState] = []
        self.on_loop: list[Request] = []

    def send(self, message: Message) -> None:
        self.session = apply(self.session, message)
        if isinstance(message, LoopState):
            self.loops.append(message)
            if self.on_loop:
                self.waiting.put(self.on_loop.pop(0))
        if isinstance(message, Failed):
            self.waiting.put(Stop())

    def flush(self, timeout: float) -> bool:
        return True  # What was sent has arrived.

    def next_request(self, timeout: float | None) -> Request | None:
        try:
            return (
                self.waiting.get(timeout=timeout) if timeout != 0.0 else self.waiting.get_nowait()
            )
        except queue.Empty:
            return None


def served(name: str, *then: Request, run: bool) -> Wire:
    spec = LoadSpec(name, run=run, ceilings=False)
    wire = Wire(Start(spec))
    wire.on_loop = [*then, Stop()]
    Worker(wire).serve()  # type: ignore[arg-type]
    wire.is_closed = True
    assert wire.session.failure is None
    return wire


def phases_of(session: Session) -> list[str]:
    return [tree.phase for tree in session.phases]


@pytest.mark.parametrize("run", [True, False])
def test_the_loop_runs_the_phase_that_is_asked_for(tmp_path: Path, run: bool) -> None:
    name = folder_of(tmp_path, GQA)
    wire = served(name, SetPhase("decode"), SetBatch(2), SetPhase("prefill"), run=run)
    assert [state.phase for state in wire.loops][:4] == ["prefill", "decode", "decode", "prefill"]
    assert [state.batch for state in wire.loops][:4] == [1, 1, 2, 2]
    assert phases_of(wire.session) == ["prefill", "decode"]
    assert wire.session.tree is wire.session.phases[0]
    assert {state.state for state in wire.loops} == ({"running"} if run else {"finished"})


def test_another_model_knows_no_phases(tmp_path: Path) -> None:
    wire = served(folder_of(tmp_path, BERT), SetPhase("decode"), run=True)
    assert phases_of(wire.session) == []
    assert {state.phase for state in wire.loops} == {""}


def test_a_model_larger_than_memory_is_traced_and_not_run(tmp_path: Path) -> None:
    name = folder_of(
        tmp_path,
        LLAMA,
        hidden_size=65536,
        intermediate_size=212992,
        num_hidden_layers=8,
        num_attention_heads=512,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128256,
        dtype="bfloat16",
    )
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    loaded, made = traced(name)
    assert process.memory_info().rss - before < 1 << 30
    assert made.method == "dispatch:meta"
    assert made.costs[0].parameters == sum(p.numel() for p in loaded.model.parameters())
    layers, width, tokens = 8, 65536, 128
    weights = linear_weights(loaded.model)
    assert closed_form_macs(made) == weights * tokens + 2 * layers * tokens**2 * width
    assert known(made.done.peak_memory.kv_cache) == 2 * layers * 8 * 128 * tokens * 2
    assert loaded.cannot_run.startswith("its parameters take 785.3 GiB, and ")
    assert loaded.initialise is None


def test_a_real_cache_is_walked_and_made_anew(tmp_path: Path) -> None:
    _, made = traced(folder_of(tmp_path, T5))
    assert made.kept is not None
    assert made.kept.bytes == 2 * 2 * 2 * 2 * 16 * 128 * 4  # two attentions in each of two layers


def test_export_sees_into_the_cache_of_both_phases(tmp_path: Path) -> None:
    loaded, by_dispatch = traced(folder_of(tmp_path, LLAMA), inputs=("input_ids=1,16",))
    by_export = trace(loaded.model, (by_dispatch.inputs,), "export")
    assert by_export.method == "export"
    assert by_export.kept is not None
    assert by_dispatch.kept is not None
    assert by_export.kept.bytes == by_dispatch.kept.bytes
    assert by_export.costs[0].macs == by_dispatch.costs[0].macs
    assert loaded.decode is not None
    step = loaded.decode(loaded.model, by_export.inputs, by_export.kept)
    assert step is not None
    decoded = trace(loaded.model, (step,), "export")
    assert decoded.costs[0].macs == step_of(loaded, by_dispatch).costs[0].macs


def test_the_next_token_of_an_encoder_decoder_reads_what_was_encoded(tmp_path: Path) -> None:
    loaded, prefill = traced(folder_of(tmp_path, T5))
    tokens = {spec.name: spec.shape[1] for spec in prefill.inputs.specs}
    decode = step_of(loaded, prefill)
    width, inner, feed, vocabulary = T5["d_model"], T5["num_heads"] * T5["d_kv"], T5["d_ff"], 128
    # Its own queries, keys, values and output; of the encoder's only queries and output.
    projections = (4 + 2) * width * inner + 2 * width * feed
    attention = 2 * inner * (tokens["decoder_input_ids"] + 1 + tokens["input_ids"])
    layers = T5["num_layers"]
    assert decode.costs[0].macs == layers * (projections + attention) + width * vocabulary
    assert [node.calls for node in decode.nodes if node.path == "encoder"] == [0]

    keywords = decode.inputs.keywords()
    with torch.no_grad():
        again = loaded.initialise() if loaded.initialise is not None else loaded.model
        assert again(**keywords).logits.shape == (1, 1, vocabulary)
