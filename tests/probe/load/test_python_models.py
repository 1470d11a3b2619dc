"""The user's own models, from files and modules."""

import pickle
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import load

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width=4, *, depth=1):
            super().__init__()
            self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))

        def forward(self, x):
            return self.layers(x)
"""


@pytest.fixture
def folder(tmp_path):
    """Yield a working directory; the interpreter forgets what was imported from it."""
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(path: Path, *parts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(textwrap.dedent(part) for part in parts))
    return path


def load_in(folder, model, **fields):
    return load(LoadSpec(model=model, folder=str(folder), **fields))


def failed_in(folder, model, **fields):
    with pytest.raises(LoadError) as caught:
        load_in(folder, model, **fields)
    assert caught.value.failed.stage == "load model"
    assert "\n" not in caught.value.failed.what
    return caught.value.failed


@pytest.mark.parametrize(
    ("name", "arguments", "width", "depth"),
    [
        ("Net", "", 4, 1),
        ("Net", '{"width": 8, "depth": 2}', 8, 2),
        ("Net", "[6]", 6, 1),
        ("build", "", 5, 3),
        ("ready", "", 7, 1),
        ("Zoo.small", "", 2, 1),
        ("partial", "", 3, 1),
    ],
)
def test_an_object_may_be_a_class_a_factory_or_a_model(folder, name, arguments, width, depth):
    write(
        folder / "nets" / "mine.py",
        NET,
        """
        import functools

        def build(): return Net(5, depth=3)
        ready = Net(7)
        partial = functools.partial(Net, 3)
        class Zoo:
            @staticmethod
            def small(): return Net(2)
        """,
    )
    loaded = load_in(folder, f"nets/mine.py:{name}", arguments=arguments)
    assert len(loaded.model.layers) == depth
    assert loaded.candidates[0].specs[0].shape == (1, width)
    assert (loaded.facts_source, loaded.weights) == ("nets/mine.py", "its own")
    assert loaded.initialise is None
    assert (loaded.published_gmacs, loaded.published_parameters) == (None, None)
    assert not any(module.training for module in loaded.model.modules())


def test_a_module_is_found_by_its_dotted_name_in_the_working_directory(folder):
    write(folder / "package" / "__init__.py")
    write(folder / "package" / "nets.py", NET, "from . import widths")
    write(folder / "package" / "widths.py", "WIDTH = 3")
    loaded = load_in(folder, "package.nets:Net")
    assert type(loaded.model).__module__ == "package.nets"
    assert loaded.facts_source == "package.nets"


def test_a_file_inside_a_package_may_import_from_it(folder):
    write(folder / "outer" / "__init__.py")
    write(folder / "outer" / "inner" / "__init__.py")
    write(folder / "outer" / "widths.py", "WIDTH = 3")
    write(
        folder / "outer" / "inner" / "nets.py",
        NET,
        """
        from ..widths import WIDTH
        def build(): return Net(WIDTH)
        """,
    )
    loaded = load_in(folder, "outer/inner/nets.py:build")
    assert loaded.candidates[0].specs[0].shape == (1, 3)
    assert type(loaded.model).__module__ == "outer.inner.nets"


def test_imports_look_into_the_working_directory_then_beside_the_file(folder):
    write(folder / "where.py", "WIDTH = 11")
    write(folder / "deep" / "where.py", "WIDTH = 12")
    write(folder / "deep" / "beside.py", "DEPTH = 2")
    write(
        folder / "deep" / "nets_here.py",
        NET,
        """
        import beside, where
        def build(): return Net(where.WIDTH, depth=beside.DEPTH)
        """,
    )
    loaded = load_in(folder, "deep/nets_here.py:build")
    assert loaded.candidates[0].specs[0].shape == (1, 11)
    assert sys.path[:2] == [str(folder), str(folder / "deep")]


def test_a_factory_runs_exactly_once(folder):
    write(
        folder / "counted.py",
        NET,
        """
        from pathlib import Path
        def build():
            with open(Path(__file__).with_name("calls"), "a") as calls:
                calls.write("called ")
            return Net()
        """,
    )
    loaded = load_in(folder, "counted.py:build")
    loaded.remake(loaded.model, 4)
    assert (folder / "calls").read_text() == "called "


def test_the_factory_has_the_users_random_state(folder):
    write(folder / "drawn.py", NET)
    torch.manual_seed(5)
    expected = torch.nn.Linear(4, 4).weight
    torch.manual_seed(5)
    assert torch.equal(load_in(folder, "drawn.py:Net").model.layers[0].weight, expected)


def test_a_file_of_the_name_of_another_module_is_still_the_users(folder):
    write(folder / "msgspec.py", NET)
    loaded = load_in(folder, "msgspec.py:Net")
    assert type(loaded.model).__name__ == "Net"
    assert hasattr(sys.modules["msgspec"], "Struct")
    again = pickle.loads(pickle.dumps(loaded.model))
    assert type(again) is type(loaded.model)


@pytest.mark.parametrize(
    ("parts", "chosen"),
    [
        ((NET, "def build(): return Net(9)"), "build"),
        ((NET,), "Net"),
        ((NET, "def helper(): return 3"), "Net"),
    ],
)
def test_a_file_alone_is_enough_where_one_object_can_be_meant(folder, parts, chosen):
    write(folder / "alone.py", *parts)
    loaded = load_in(folder, "alone.py")
    assert loaded.candidates[0].specs[0].shape == (1, 9 if chosen == "build" else 4)


def test_a_file_alone_with_several_models_lists_them(folder):
    write(folder / "several.py", NET, "class Other(Net): pass")
    failed = failed_in(folder, "several.py")
    assert failed.bad_argument
    assert "which of Net, Other is meant" in failed.what
    assert [remedy.command for remedy in failed.remedies] == [
        "tui-profiler several.py:Net",
        "tui-profiler several.py:Other",
    ]


def test_a_file_without_models_says_so(folder):
    write(folder / "nothing.py", "WIDTH = 3")
    failed = failed_in(folder, "nothing.py")
    assert failed.bad_argument
    assert "neither a function nor a class" in failed.what


def test_example_inputs_of_the_file_are_what_is_passed(folder):
    write(
        folder / "examples_file.py",
        NET,
        "def example_inputs(batch=3): return (torch.randn(batch, 4),)",
    )
    state = torch.get_rng_state()
    loaded = load_in(folder, "examples_file.py:Net")
    torch.set_rng_state(state)
    (inputs,) = loaded.candidates
    (spec,) = inputs.specs
    assert (spec.name, spec.shape, spec.why) == ("x", (3, 4), "its own example_inputs")
    assert inputs.batch == 3
    assert torch.equal(loaded.remake(loaded.model, 3)[0].args[0], inputs.args[0])
    assert torch.equal(torch.get_rng_state(), state)
    assert loaded.remake(loaded.model, 5)[0].specs[0].shape == (5, 4)


def test_the_axis_that_follows_the_batch_of_example_inputs_is_the_batch(folder):
    write(
        folder / "time_first.py",
        NET,
        "def example_inputs(batch=3): return (torch.randn(9, batch, 4), torch.randn(9, 9))",
    )
    loaded = load_in(folder, "time_first.py:Net")
    (inputs,) = loaded.candidates
    assert (inputs.batch, inputs.batch_axes) == (3, (1, None))
    (larger,) = loaded.remake(loaded.model, 9)
    assert (larger.batch, larger.batch_axes) == (9, (1, None))


def test_no_axis_of_other_example_inputs_is_taken_for_the_batch(folder):
    write(folder / "plain.py", NET, "example_inputs = (torch.randn(3, 4),)")
    loaded = load_in(folder, "plain.py:Net", batch=6)
    assert (loaded.candidates[0].batch, loaded.batch, loaded.knows_batch) == (None, 6, False)


def test_example_inputs_of_the_model_win_over_those_of_the_file(folder):
    write(
        folder / "examples_model.py",
        NET,
        """
        class Own(Net):
            def example_inputs(self): return {"x": torch.ones(2, 4)}
        def example_inputs(): return (torch.ones(1, 9),)
        """,
    )
    loaded = load_in(folder, "examples_model.py:Own", dtype="float64")
    assert loaded.candidates[0].kwargs["x"].dtype == torch.float64
    assert loaded.candidates[0].args == ()


def test_lazy_layers_have_their_shapes_once_loaded(folder):
    write(
        folder / "lazy_net.py",
        """
        from torch import nn
        def build():
            return nn.Sequential(
                nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.Linear(1800, 3)
            )
        """,
    )
    torch.manual_seed(3)
    nn.Linear(1800, 3)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    loaded = load_in(folder, "lazy_net.py:build")
    (inputs,) = loaded.candidates
    assert inputs.specs[0].shape == (1, 3, 32, 32)
    assert loaded.model[0].weight.shape == (2, 3, 3, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_lazy_layers_that_no_input_suits_say_so(folder):
    write(
        folder / "lazy_never.py",
        """
        from torch import nn
        def build(): return nn.Sequential(nn.LazyConv2d(2, 3), nn.Flatten(), nn.Linear(7, 3))
        """,
    )
    failed = failed_in(folder, "lazy_never.py:build")
    assert "none of 13 likely inputs ran" in failed.what
    assert failed.remedies[0].command.startswith("--input")


def test_weights_from_a_file_are_bound_to_the_users_model(folder):
    write(folder / "weighted.py", NET)
    state = {"layers.0.weight": torch.ones(4, 4), "layers.0.bias": torch.ones(4)}
    torch.save(state, folder / "w.pt")
    loaded = load_in(folder, "weighted.py:Net", weights="w.pt")
    assert bool((loaded.model.layers[0].weight == 1).all())
    assert loaded.weights == "w.pt"
    failed = failed_in(folder, "weighted.py:Net", weights="DEFAULT")
    assert failed.bad_argument
    assert "no published weights" in failed.what
