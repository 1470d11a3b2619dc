"""What the code of a TorchScript archive names: nothing that it can call goes unnoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.archive.hostile.zips import Raw
from tui_profiler.archive.formats.torchscript_code import Code, read_code
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import ArchiveError, open_file
from tui_profiler.archive.reading.zips import read_zip

FORWARD = "def forward(self, x: Tensor, y: Optional[__torch__.Net]) -> Tensor:\n"


def read(tmp_path: Path, *texts: str) -> Code:
    raw = Raw()
    for number, text in enumerate(texts):
        raw.add(b"a/code/m%d.py" % number, text.encode())
    path = tmp_path / "a.pt"
    path.write_bytes(raw.bytes())
    with open_file(path) as region:
        return read_code(read_zip(region))


def body(tmp_path: Path, *lines: str) -> Code:
    return read(tmp_path, FORWARD + "".join(f"  {line}\n" for line in lines))


@pytest.mark.parametrize(
    ("line", "operators", "attributes"),
    [
        ("return torch.relu(x)", "aten::relu", ""),
        ("return torch.autograd.grad(x)", "aten::grad", ""),
        ("return ops.prim.data(x)", "prim::data", ""),
        ("return ops.torchvision.nms(x)", "torchvision::nms", ""),
        ('return x.save("f")', "", "save"),
        ("f = x.save", "", "save"),  # Called or not.
        ("return (x + x).a.b", "", "a b"),
        ('return getattr(x, "save")', "", "save"),
        ("return CONSTANTS.c0", "", ""),
        ("return CONSTANTS.c0.save", "", "save"),
        ("return __torch__.net.run(x)", "", ""),
        ("self.weight = x", "", ""),
        ("self.weight.grad = x", "", "weight"),
        ("return [torch.relu(i) for i in range(3)]", "aten::relu", ""),
        ("return fork(forward, torch.relu(x))", "aten::relu", ""),
        ("return unchecked_cast(Tensor, x)", "", ""),
        ("return unchecked_cast(__torch__.Net, y)", "", ""),
        ("return {1: torch.abs(x)}", "aten::abs", ""),
    ],
)
def test_operators_and_attributes_are_noted_called_or_not(
    tmp_path: Path, line: str, operators: str, attributes: str
) -> None:
    found = body(tmp_path, line)
    assert sorted(found.operators) == sorted(operators.split())
    assert sorted(found.attributes) == sorted(attributes.split())
    assert found.others == ()
    assert {*found.operators.values(), *found.attributes.values()} <= {"code/m0.py, line 2"}


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("print(x)", "print"),
        ("f = print", "print"),
        ("return awaitable(x)", "awaitable"),
        ("return eval(x)", "the name eval"),
        ("return torch", "the name torch"),
        ("return ops.prim", "the name ops.prim"),
        ("return ops.a.b.c(x)", "the name ops.a.b.c"),
        ("return torch.autograd.grad.x(x)", "the name torch.autograd.grad.x"),
        ("return CONSTANTS", "the name CONSTANTS"),
        ("return __torch__.torch.classes.c10d.Store(x)", "the class torch.classes.c10d.Store"),
        ("torch = x", "a variable named torch"),
        ("ops = x", "a variable named ops"),
        ("del torch", "a variable named torch"),
        ("return getattr(x, y)", "an attribute whose name is computed"),
        ('return getattr(x, "a" + "b")', "an attribute whose name is computed"),
        ("return unchecked_cast(__torch__.Other, y)", "an unchecked cast to a class"),
        ("return unchecked_cast(__torch__.Net, x)", "an unchecked cast to a class"),
        ("return unchecked_cast(List[__torch__.Net], x)", "an unchecked cast to a class"),
        ("return unchecked_cast(x)", "an unchecked cast"),
        ("return x[0](x)", "a call of an unnamed function"),
        ("return x(x)(x)", "a call of an unnamed function"),
        ("return [lambda: 1]", "Lambda in code"),
        ("import os", "Import in code"),
        ("yield x", "Yield in code"),
        ("return {1, 2}", "Set in code"),
        ("x: Tensor = (y := x)", "NamedExpr in code"),
        ("return (i for i in x)", "GeneratorExp in code"),
        ("global x", "Global in code"),
        ("def inner(torch):\n    return 1", "an argument named torch"),
        ("@x\n  def inner():\n    return 1", "a decorated function"),
        ("class A(Module, metaclass=x):\n    pass", "a decorated class"),
        ("class A(x.y):\n    pass", "a class of an unknown kind"),
        ("class A(Exception):\n    pass", "a class of an unknown kind"),
    ],
)
def test_what_is_neither_is_refused_with_its_place(tmp_path: Path, line: str, other: str) -> None:
    places = "".join(body(tmp_path, line).others)
    assert other in places
    assert "code/m0.py, line " in places


def test_a_cast_of_an_argument_that_was_assigned_is_refused(tmp_path: Path) -> None:
    found = body(tmp_path, "y = x", "return unchecked_cast(__torch__.Net, y)")
    assert any("an unchecked cast to a class" in one for one in found.others)


def test_names_of_one_function_mean_nothing_in_another(tmp_path: Path) -> None:
    found = read(tmp_path, "def one(here: int):\n  return 1\ndef two(x: int):\n  return here\n")
    assert found.others == ("the name here (code/m0.py, line 4)",)
    inner = "def one(here: int):\n  def two(x: int):\n    return here\n  return 1\n"
    assert read(tmp_path, inner).others == ()


def test_functions_within_functions_are_read_four_deep(tmp_path: Path) -> None:
    def nested(depth: int) -> str:
        lines = [" " * level + f"def f{level}(x: int):\n" for level in range(depth)]
        return "".join(lines) + " " * depth + "return torch.relu(x)\n"

    assert list(read(tmp_path, nested(4)).operators) == ["aten::relu"]
    found = read(tmp_path, nested(5))
    assert "functions nested deeper" in found.others[0]
    assert not found.operators


@pytest.mark.parametrize(
    "text",
    [
        "x = 'single'\n",
        'x = """three"""\n',
        'x = f"prefixed"\n',
        'x = "one""two"\n',
        'x = "open\n',
        "x = 1 # comment\n",
        "x = 1 \\\n + 2\n",
        "if 1:\n\tx = 1\n",
        "x = 1\r\n",
        "x = 1\x0c\n",
        "é = 1\n",
        "x = 1; y = 2\n",
        "x = `1`\n",
        "x = $1\n",
        "x = \0\n",
        'x = "a"\0\n',
        "x = " + "(" * 151 + "1" + ")" * 151 + "\n",
        "x = =\n",
    ],
)
def test_text_that_two_parsers_may_read_in_two_ways_is_refused(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).others == ("code that cannot be read in code/m0.py",)


@pytest.mark.parametrize(
    "text",
    [
        'x = "a # \\" \\\\ b\'"\n',
        "x = " + "(" * 150 + "1" + ")" * 150 + "\n",
        'x = ["a", "b"]\n',
    ],
)
def test_text_as_torch_prints_it_is_read(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).others == ()


def test_every_member_of_code_is_read_and_all_of_them_are_bounded(tmp_path: Path) -> None:
    found = read(tmp_path, "x = torch.relu(1)\n", "x = torch.abs(1)\nx = torch.relu(1)\n")
    assert found.operators == {
        "aten::relu": "code/m0.py, line 1",
        "aten::abs": "code/m1.py, line 1",
    }
    half = "\n" * (limits.CODE_MARKS // 2)
    assert read(tmp_path, half, half).others == ()
    with pytest.raises(ArchiveError, match="contains more code than any model"):
        read(tmp_path, half, half + "\n")
    half = "x" * (limits.INFLATED_BYTES // 2) + "\n"
    with pytest.raises(ArchiveError, match="more than its kind needs"):
        read(tmp_path, half, half)
