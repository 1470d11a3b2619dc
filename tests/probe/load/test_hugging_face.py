"""Hugging Face models: from a config to a model, and what is refused."""

from __future__ import annotations

import importlib
import io
import json
import socket
import sys
from pathlib import Path

import pytest
import torch

from tests.probe.load.hf_folders import BERT, LLAMA, VIT, folder_of, traced
from tui_profiler.messages import LoadSpec
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.hugging_face.classes import Choice, build, choose_class
from tui_profiler.probe.load.hugging_face.config import read_config
from tui_profiler.probe.load.load import load

pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def refused(model: str, **named: object) -> LoadError:
    with pytest.raises(LoadError) as caught:
        load(LoadSpec(model, **named))  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("ending", ["", "/config.json"])
def test_a_folder_and_its_config_file_are_the_same_model(tmp_path: Path, ending: str) -> None:
    loaded = load(LoadSpec(folder_of(tmp_path, BERT) + ending))
    assert type(loaded.model).__name__ == "BertModel"
    assert (loaded.facts_source, loaded.weights) == ("transformers", "random")
    assert not any(module.training for module in loaded.model.modules())


def test_a_relative_folder_is_looked_for_where_the_user_is(tmp_path: Path) -> None:
    folder_of(tmp_path / "mine", BERT)
    loaded = load(LoadSpec("hf:mine", folder=str(tmp_path)))
    assert type(loaded.model).__name__ == "BertModel"


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({**BERT, "architectures": ["BertForSequenceClassification"]}, None),
        ({**BERT, "architectures": None}, "BertForMaskedLM"),
        ({**LLAMA, "architectures": None}, "LlamaForCausalLM"),
        ({**LLAMA, "architectures": ["NoSuchThing"]}, "LlamaForCausalLM"),
        ({**LLAMA, "architectures": ["os"]}, "LlamaForCausalLM"),
        ({**LLAMA, "architectures": ["__class__"]}, "LlamaForCausalLM"),
        ({**VIT, "architectures": []}, "ViTModel"),
    ],
)
def test_the_class_is_the_one_stated_or_the_one_that_generates(
    tmp_path: Path, config: dict[str, object], name: str | None
) -> None:
    loaded = load(LoadSpec(folder_of(tmp_path, config)))
    assert type(loaded.model).__name__ == (name or config["architectures"][0])  # type: ignore[index]


def test_random_values_are_the_same_each_time(tmp_path: Path) -> None:
    model = folder_of(tmp_path, BERT)
    state = torch.get_rng_state()
    first, second = (load(LoadSpec(model)).model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_beside_the_config_are_read_only_when_asked_for(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(5)
    model = BertModel(BertConfig(**BERT))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    wanted = model.state_dict()
    name = f"hf:{tmp_path}"
    random = load(LoadSpec(name))
    assert random.weights == "random"
    assert not torch.equal(
        random.model.state_dict()["pooler.dense.weight"], wanted["pooler.dense.weight"]
    )
    index = str(tmp_path / "model.safetensors.index.json")
    for weights in ("DEFAULT", str(tmp_path), index):
        found = load(LoadSpec(name, weights=weights))
        assert found.weights == weights
        state = found.model.state_dict()
        assert all(torch.equal(state[key], wanted[key]) for key in wanted)


def test_one_file_of_weights_can_be_given(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    state = BertModel(BertConfig(**BERT)).state_dict()
    save_file(state, tmp_path / "mine.safetensors")
    torch.save(state, tmp_path / "mine.pt")
    name = folder_of(tmp_path / "config", BERT)
    for file in ("mine.safetensors", "mine.pt"):
        found = load(LoadSpec(name, weights=file, folder=str(tmp_path)))
        assert torch.equal(
            found.model.state_dict()["pooler.dense.weight"], state["pooler.dense.weight"]
        )


def test_weights_that_lack_tensors_say_how_many(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    state = BertModel(BertConfig(**BERT)).state_dict()
    part = {key: state[key] for key in state if "pooler" not in key}
    save_file(part, tmp_path / "part.safetensors")
    save_file({"other": torch.zeros(2)}, tmp_path / "other.safetensors")
    name = folder_of(tmp_path / "config", BERT)
    found = load(LoadSpec(name, weights=str(tmp_path / "part.safetensors")))
    assert "all but 2, which are random: pooler.dense.bias" in found.weights
    error = refused(name, weights=str(tmp_path / "other.safetensors"))
    assert "contains no weights of BertModel" in error.failed.what


def test_a_pickle_of_weights_runs_no_code(tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (canary,))  # type: ignore[return-value]

    torch.save({"w": Malicious()}, tmp_path / "bad.bin")
    name = folder_of(tmp_path / "config", BERT)
    error = refused(name, weights=str(tmp_path / "bad.bin"))
    assert "can be read without running code" in error.failed.what
    assert not canary.exists()


def test_an_index_names_no_file_elsewhere(tmp_path: Path) -> None:
    name = folder_of(tmp_path / "config", BERT)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "../../etc/passwd"}}))
    assert "not a file beside it" in refused(name, weights=str(index)).failed.what


def test_a_name_is_not_downloaded_unasked() -> None:
    error = refused("hf:bert-base-uncased")
    assert "only downloaded with --weights" in error.failed.what
    assert error.failed.bad_argument
    assert error.failed.remedies[0].command == "--weights DEFAULT"


CODE = """
import pathlib
pathlib.Path(__file__).with_name("canary").touch()
from transformers import PretrainedConfig, PreTrainedModel
import torch

class MyConfig(PretrainedConfig):
    model_type = "mine"

class MyModel(PreTrainedModel):
    config_class = MyConfig
    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(50, 8)
        self.post_init()
    def forward(self, input_ids):
        return self.table(input_ids)
"""


def own_code(path: Path) -> str:
    config = {
        "model_type": "mine",
        "architectures": ["MyModel"],
        "vocab_size": 50,
        "auto_map": {"AutoConfig": "code.MyConfig", "AutoModel": "code.MyModel"},
    }
    name = folder_of(path, config)
    (path / "code.py").write_text(CODE)
    return name


def test_code_beside_a_config_never_runs_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = own_code(tmp_path / "model")
    error = refused(name)
    assert "code for it (" in error.failed.what
    assert ".py), which needs --trust" in error.failed.what
    assert error.failed.remedies[0].command == "--trust"
    assert not list(tmp_path.rglob("canary"))


def test_nobody_is_asked_whether_code_of_a_part_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # transformers asks at standard input, where a part of a model is of no class that it knows.
    part = {**BERT, "auto_map": {"AutoBackbone": "evil.Evil"}, "_name_or_path": str(tmp_path)}
    config = {"model_type": "detr", "backbone_config": part, "encoder_layers": 1}
    name = folder_of(tmp_path, {**config, "decoder_layers": 1})
    (tmp_path / "evil.py").write_text(
        f"open({str(tmp_path / 'canary')!r}, 'w')\nclass Evil: pass\n"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    assert "cannot be built" in refused(name).failed.what
    assert not (tmp_path / "canary").exists()


def test_code_beside_a_config_runs_when_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = own_code(tmp_path / "model")
    modules = tmp_path / "modules"
    for place in ("dynamic_module_utils", "utils.hub", "utils"):
        __import__(f"transformers.{place}")
        module = sys.modules[f"transformers.{place}"]
        if hasattr(module, "HF_MODULES_CACHE"):
            monkeypatch.setattr(module, "HF_MODULES_CACHE", str(modules))
    loaded, made = traced(name, trust=True)
    assert type(loaded.model).__name__ == "MyModel"
    assert made.inputs.specs[0].name == "input_ids"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "cannot be read as JSON: JSONDecodeError"),
        ("[1]", "it has no model_type"),
        ("{}", "it has no model_type"),
        ('{"model_type": 5}', "it has no model_type"),
        ("\x00\xff", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON: RecursionError"),
        ('{"model_type": "no-such-thing"}', 'does not know a model of type "no-such-thing"'),
        ('{"model_type": "brt"}', 'does not know a model of type "brt"'),
        ('{"model_type": "bert", "num_hidden_layers": 1000000000}', "no model has so many"),
        ('{"model_type": "bert", "hidden_size": -4}', "cannot be built"),
        ('{"model_type": "bert", "hidden_size": 7}', "cannot be built"),
        ('{"model_type": "bert", "vocab_size": "many"}', "Validation error for field 'vocab_size'"),
    ],
)
def test_what_is_no_config_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(LoadError) as caught:
        load(LoadSpec(f"hf:{tmp_path}"))
    failed = caught.value.failed
    assert what in failed.what
    assert "\n" not in failed.what


def test_a_large_number_that_counts_no_layers_is_no_fault(tmp_path: Path) -> None:
    load(LoadSpec(folder_of(tmp_path, BERT, vocab_size_per_layer_input=262_144)))


@pytest.mark.parametrize("name", ["hf:", "hf:./nothing", "hf:/nowhere/x.json", "hf:a/b/c", "hf:\0"])
def test_what_is_nowhere_is_refused(name: str) -> None:
    assert refused(name).failed.bad_argument


def test_args_are_refused(tmp_path: Path) -> None:
    error = refused(folder_of(tmp_path, BERT), arguments="{}")
    assert "its config" in error.failed.what


def test_an_absent_library_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    error = refused(folder_of(tmp_path, BERT))
    assert error.failed.remedies[0].command == "pip install 'tui-profiler[hf]'"


def test_settings_of_the_library_are_as_they_were(tmp_path: Path) -> None:
    import huggingface_hub.constants as hub
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.HF_HUB_OFFLINE
    load(LoadSpec(folder_of(tmp_path, BERT)))
    refused("hf:no-such-model")
    assert (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        hub.HF_HUB_OFFLINE,
    ) == before


def test_the_dtype_is_the_configs_unless_another_is_asked_for(tmp_path: Path) -> None:
    name = folder_of(tmp_path, BERT, dtype="bfloat16")
    assert next(load(LoadSpec(name)).model.parameters()).dtype == torch.bfloat16
    other = load(LoadSpec(name, dtype="float16")).model
    assert next(other.parameters()).dtype == torch.float16


def test_a_size_that_the_config_lacks_is_named(tmp_path: Path) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with pytest.raises(LoadError, match="EsmForMaskedLM cannot be built") as caught:
        load(LoadSpec(folder_of(tmp_path, {"model_type": "esm", **small})))
    failed = caught.value.failed
    assert failed.likely == "its config has no value for vocab_size"
    assert failed.remedies[0].command == '"vocab_size": 8'
    load(LoadSpec(folder_of(tmp_path, {"model_type": "esm", **small, "vocab_size": 8})))


@pytest.mark.parametrize(
    ("constant", "package", "remedy"),
    [
        ("NATTEN_IMPORT_ERROR", "natten", "pip install natten"),
        ("DETECTRON2_IMPORT_ERROR", "detectron2", "https://"),
    ],
)
def test_a_package_that_a_class_needs_is_named_with_its_source(
    tmp_path: Path, constant: str, package: str, remedy: str
) -> None:
    library = importlib.import_module("transformers")

    def from_config(value: object, **named: object) -> None:
        raise ImportError(getattr(library.utils.import_utils, constant).format("Net"))

    config = read_config(library, LoadSpec(folder_of(tmp_path, BERT)), None)
    with pytest.raises(LoadError) as caught:
        build(Choice("Net", "", from_config, from_config), config, None)
    assert str(caught.value) == f"Net needs the package {package}, which is not installed"
    assert caught.value.failed.remedies[0].command.startswith(remedy)


def test_a_class_that_is_listed_for_another_config_is_taken_where_there_is_no_other(
    tmp_path: Path,
) -> None:
    pytest.importorskip("transformers.models.glmga")
    library = importlib.import_module("transformers")
    config = read_config(library, LoadSpec(folder_of(tmp_path, {"model_type": "glmga"})), None)
    assert choose_class(library, config, trust=False).name == "Glm46VForConditionalGeneration"


class StandIn(type):
    def __getattr__(cls, name: str) -> object:
        raise ImportError(f"{cls.__name__} requires the torchaudio library but it was not found")


class Heard(metaclass=StandIn):
    pass


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (None, "no AutoModel class builds: ValueError: Could not find No"),
        (Heard, "Heard needs the package torchaudio, which is not installed"),
    ],
)
def test_a_class_that_is_listed_and_missing_is_named(
    tmp_path: Path, held: type | None, said: str
) -> None:
    library = importlib.import_module("transformers")
    config = read_config(library, LoadSpec(folder_of(tmp_path, BERT, architectures=None)), None)

    class Lists:
        def __contains__(self, kind: object) -> bool:
            return True

        def __getitem__(self, kind: object) -> object:
            if held is not None:
                return held
            raise ValueError("Could not find NoSuchModel")

    class Auto:
        _model_mapping = Lists()

    class Library:
        models = library.models

        def __getattr__(self, name: str) -> object:
            return Auto()

    with pytest.raises(LoadError, match=said):
        choose_class(Library(), config, trust=False)  # type: ignore[arg-type]
