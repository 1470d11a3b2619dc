"""Weights for a model: a file of the user's, or published ones."""

import pytest
import torch

from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import load

NAME = "mnasnet0_5"


@pytest.fixture
def state():
    state = load(LoadSpec(model=NAME)).model.state_dict()
    for value in state.values():
        value.fill_(2)
    return state


def data_parallel(state):
    model = load(LoadSpec(model=NAME)).model
    model.load_state_dict(state)
    parallel = torch.nn.DataParallel(model).state_dict()
    assert all(name.startswith("module.") for name in parallel)
    return parallel


def load_with(folder, content, name="weights.pt", model=NAME):
    torch.save(content, folder / name)
    return load(LoadSpec(model=model, weights=name, folder=str(folder)))


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": data_parallel(state)},
    ],
    ids=["plain", "in a checkpoint", "from DataParallel"],
)
def test_a_state_dict_is_bound_to_the_named_architecture(tmp_path, state, wrapped):
    loaded = load_with(tmp_path, wrapped(state))
    assert all(bool((value == 2).all()) for value in loaded.model.state_dict().values())
    assert loaded.weights == "weights.pt"
    assert loaded.initialise is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.pop("classifier.1.bias"), "1 missing: classifier.1.bias"),
        (lambda state: state.update(extra=torch.ones(1)), "1 unknown to the model: extra"),
        (
            lambda state: state.update({"classifier.1.bias": torch.ones(10)}),
            "1 of another shape: classifier.1.bias 10 for 1000",
        ),
    ],
)
def test_a_state_dict_that_does_not_fit_says_where(tmp_path, state, change, said):
    change(state)
    with pytest.raises(LoadError, match=f"does not fit {NAME}.*{said}") as caught:
        load_with(tmp_path, state)
    assert not caught.value.failed.bad_argument
    assert caught.value.failed.remedies


def test_another_number_of_classes_is_offered_as_an_argument(tmp_path, state):
    state["classifier.1.weight"] = torch.ones(10, 1280)
    state["classifier.1.bias"] = torch.ones(10)
    with pytest.raises(LoadError) as caught:
        load_with(tmp_path, state)
    assert caught.value.failed.remedies[0].command == "--args '{\"num_classes\": 10}'"
    loaded = load(
        LoadSpec(
            model=NAME,
            weights="weights.pt",
            folder=str(tmp_path),
            arguments='{"num_classes": 10}',
        )
    )
    assert loaded.model.classifier[1].out_features == 10


def test_a_state_dict_that_its_own_model_refuses_says_why(tmp_path, state):
    # This architecture reads the version of what wrote the file, which a plain dictionary lost.
    with pytest.raises(LoadError, match=f"does not fit {NAME}: ValueError: version"):
        load_with(tmp_path, dict(state))


class Trap:
    def __reduce__(self):
        return (open, ("stepped_into", "w"))


def test_a_file_that_would_run_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match="without running code"):
        load_with(tmp_path, {"weight": Trap()})
    assert not (tmp_path / "stepped_into").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 but no more", b"\x80\x02garbage"])
def test_a_broken_file_is_an_error_of_one_sentence(tmp_path, content):
    (tmp_path / "weights.pt").write_bytes(content)
    with pytest.raises(LoadError, match="not a state dict") as caught:
        load(LoadSpec(model=NAME, weights="weights.pt", folder=str(tmp_path)))
    assert "\n" not in caught.value.failed.what


def test_a_file_without_tensors_is_refused(tmp_path):
    with pytest.raises(LoadError, match="contains a dict without tensors"):
        load_with(tmp_path, {"epoch": 3})
    with pytest.raises(LoadError, match="contains a list without tensors"):
        load_with(tmp_path, [1, 2])


def test_published_weights_are_loaded_by_torchvision_itself(tmp_path, monkeypatch, state):
    # Where torchvision keeps what it downloaded before, so that nothing is downloaded here.
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    kept = tmp_path / "hub" / "checkpoints" / "mnasnet0.5_top1_67.823-3ffadce67e.pth"
    kept.parent.mkdir(parents=True)
    torch.save(state, kept)
    # torchvision compares the file's checksum with the end of its name only on download.
    loaded = load(LoadSpec(model=NAME, weights="default"))
    assert all(bool((value == 2).all()) for value in loaded.model.state_dict().values())
    assert (loaded.weights, loaded.initialise) == ("IMAGENET1K_V1", None)
    assert loaded.published_gmacs == 0.104
