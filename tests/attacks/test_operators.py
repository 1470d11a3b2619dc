"""The operators that need no trust: what the rule admits of the schemas of the installed torch."""

from __future__ import annotations

import re

import torch
import torchvision  # noqa: F401  # its operators are registered when it is imported

from tui_profiler.probe.load.files.allowed_operators import (
    HIGHER_ORDER,
    PRIM,
    REFUSED,
    TEXT_ARGUMENTS,
    TEXT_METHODS,
    admitted,
    is_pure,
    refused_names,
    refused_overload,
)
from tui_profiler.probe.torch_compat.versions import DIMENSION_NAMES

_FILES = re.compile(r"file|path|name|url|uri|folder|dir|buf|module|code|library|so$", re.IGNORECASE)
_DANGEROUS = """
    aten::from_file aten::save aten::_print aten::manual_seed aten::seed aten::to_here
    aten::record_stream aten::set_data aten::_nested_view_from_buffer aten::_cufft_clear_plan_cache
    aten::_cufft_set_plan_cache_max_size aten::_reshape_alias aten::_reshape_alias_copy
    aten::shallow_copy_data_
    aten::_sparse_coo_tensor_unsafe debugprims::load_tensor image::read_file image::write_file
    prim::Print prim::PythonOp prim::IgnoredPythonOp prim::rpc_async prim::AddStatValue
    profiler::_record_function_enter c10d_functional::all_reduce inductor::accumulate_grad_
    onnx_symbolic::_symbolic
"""


def _admitted_schemas() -> list[torch._C.FunctionSchema]:
    overloads = admitted().overloads
    schemas = torch._C._jit_get_all_schemas()
    return [one for one in schemas if (one.name, one.overload_name) in overloads]


def test_nothing_admitted_takes_the_name_of_a_file() -> None:
    schemas = _admitted_schemas()
    assert len(schemas) > 3000
    for schema in schemas:
        for argument in schema.arguments:
            if "str" in re.findall(r"\w+", str(argument.type)):
                short = schema.name.partition("::")[2]
                # ``api_name`` stands in the message of an error; ``names`` are of dimensions.
                is_word = argument.name in TEXT_ARGUMENTS and (
                    argument.name == "api_name"
                    or argument.name in DIMENSION_NAMES.split()
                    or not _FILES.search(argument.name)
                )
                # Text goes in, and text, numbers or lists come out: no tensor of a file.
                returns = " ".join(str(part.type) for part in schema.returns)
                is_method = short in TEXT_METHODS and "Tensor" not in returns
                known = schema.name in ("prim::RaiseException", "prim::StringIndex")
                assert is_word or is_method or known, str(schema)


def test_nothing_admitted_takes_an_object_of_the_process() -> None:
    outside = re.compile(r"Storage|PyObject|Stream|RRef|ProcessGroup|Capsule|torch\.classes\.c10d")
    for schema in _admitted_schemas():
        for argument in schema.arguments:
            assert not outside.search(str(argument.type)), str(schema)


def test_namespaces_of_files_processes_and_networks_are_not_admitted() -> None:
    namespaces = {schema.name.partition("::")[0] for schema in _admitted_schemas()}
    assert namespaces <= {"aten", "prims", "prim", "torchvision", "quantized", "_quantized"}


def test_dangerous_operators_are_refused_in_code_and_in_graphs() -> None:
    known = admitted().known_names
    present = [name for name in _DANGEROUS.split() if name in known]
    assert {"aten::from_file", "aten::save", "prim::PythonOp"} <= set(present)
    assert refused_names(present) == present
    for name in _DANGEROUS.split():
        target = "torch.ops." + name.replace("::", ".")
        assert refused_overload(target + ".default"), name
        assert refused_overload(target + ".out"), name
    for name in ("call_torchbind", "with_effects", "flat_apply", "triton_kernel_wrapper_mutation"):
        assert name not in HIGHER_ORDER
        assert refused_overload(f"torch.ops.higher_order.{name}")
        assert refused_overload(f"torch.ops.higher_order.{name}.default")


def test_names_that_are_refused_exist_and_are_not_admitted_elsewhere() -> None:
    short = {name.partition("::")[2] for name in admitted().known_names}
    listed = {name for names in REFUSED.values() for name in names.split()}
    assert {"from_file", "save", "manual_seed"} <= listed & short
    assert not {name for name, _ in admitted().overloads if name.partition("::")[2] in listed}
    assert not PRIM & {"Print", "PythonOp", "IgnoredPythonOp", "AddStatValue", "TimePoint"}


def test_what_models_compute_with_is_admitted() -> None:
    for target in (
        "aten.convolution.default", "aten.add.Tensor", "aten.add_.Tensor", "aten.copy_.default",
        "aten.fill_.Scalar", "aten.einsum.default", "aten.pad.default", "aten.gelu.default",
        "aten.scaled_dot_product_attention.default", "aten.sym_size.int",
        "aten._assert_scalar.default",
        "torchvision.nms.default", "torchvision.roi_align.default", "higher_order.cond",
    ):  # fmt: skip
        assert refused_overload(f"torch.ops.{target}") == "", target
    code = ("aten::append", "aten::format", "aten::warn", "aten::wait", "prim::NumToTensor")
    assert refused_names(code) == []


def test_an_overload_is_not_another_one() -> None:
    assert refused_overload("torch.ops.aten.add")
    assert refused_overload("torch.ops.aten.add.NoSuch")
    assert refused_overload("torch.ops.aten.set_.source_Storage")
    assert refused_overload("torch.ops.aten.set_.source_Tensor") == ""


def test_operators_for_torch_s_own_tests_and_arguments_that_switch_checks_off_are_refused() -> None:
    tensor = {"self": "Tensor"}
    assert is_pure("aten::relu", tensor)
    assert not is_pure("aten::_test_optional_intlist", tensor)
    assert is_pure("aten::segment_reduce", {**tensor, "initial": "Optional[number]"})
    assert not is_pure("aten::segment_reduce", {**tensor, "unsafe": "bool"})
    for schema in _admitted_schemas():
        assert not schema.name.startswith("aten::_test_")
        assert "unsafe" not in {argument.name for argument in schema.arguments}, str(schema)


def test_a_name_is_refused_in_code_where_one_of_its_overloads_is() -> None:
    """TorchScript chooses the overload by the arguments, which the file decides."""
    overloads = {overload for name, overload in admitted().overloads if name == "aten::set_"}
    assert "source_Tensor" in overloads
    assert refused_names(["aten::set_", "aten::relu"]) == ["aten::set_"]


def test_a_higher_order_operator_has_no_overloads() -> None:
    assert refused_overload("torch.ops.higher_order.cond") == ""
    assert refused_overload("torch.ops.higher_order.cond.default")


def test_operators_that_are_registered_later_are_looked_at_too() -> None:
    name = "torchvision::made_by_a_test"
    assert name not in admitted().known_names
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("made_by_a_test(Tensor x) -> Tensor")
    try:
        assert name in admitted().names
        assert refused_overload("torch.ops.torchvision.made_by_a_test.default") == ""
    finally:
        library._destroy()
