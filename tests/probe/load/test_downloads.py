"""Published weights: fetched by the broker, opened in the sandbox."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torchvision import models

from tests.probe.load.fake_hub import Endless, serving
from tests.probe.load.hf_folders import BERT
from tests.worker import Conversation, spec
from tui_profiler.messages import Try, Wish
from tui_profiler.probe.load.common.errors import LoadError
from tui_profiler.probe.load.load import load
from tui_profiler.probe.sandbox import landlock, seccomp
from tui_profiler.session import Session

transformers = pytest.importorskip("transformers")
WHY_NO_LANDLOCK = landlock.version(landlock.CLibrary())[1]
WHY_NO_FILTER = seccomp.why_not(landlock.CLibrary())
pytestmark = pytest.mark.skipif(
    bool(WHY_NO_LANDLOCK or WHY_NO_FILTER), reason=WHY_NO_LANDLOCK or WHY_NO_FILTER
)
NAME = "someone/tiny-bert"


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return open, (str(self.path), "w")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A repository with what is wanted, and with what must not even be fetched."""
    torch.manual_seed(5)
    made = tmp_path / "made"
    transformers.BertModel(transformers.BertConfig(**BERT)).save_pretrained(made)
    evil = pickle.dumps(Touch(tmp_path / "canary"))
    code = f"open({str(tmp_path / 'canary')!r}, 'w')".encode()
    wanted = {file: (made / file).read_bytes() for file in ("config.json", "model.safetensors")}
    named = {"auto_map": {"AutoModel": "evil.Evil"}}
    wanted["config.json"] = json.dumps({**json.loads(wanted["config.json"]), **named}).encode()
    return {
        **wanted,
        "pytorch_model.bin": evil,
        "evil.py": code,
        "tokenizer.json": b"{}",
        "training_args.bin": evil,
        "sub/model.safetensors": b"other",
        "adapter_config.json": b"{}",
    }


def environment(tmp_path: Path, address: str) -> Mapping[str, str]:
    return {
        "HF_ENDPOINT": address,
        "HF_HOME": str(tmp_path / "hub"),
        "HF_HUB_OFFLINE": "0",
        "TORCH_HOME": str(tmp_path / "torch"),
        # Nothing else is reached, and that quickly.
        "https_proxy": "http://127.0.0.1:9",
        "no_proxy": "127.0.0.1",
    }


async def opened(tmp_path: Path, address: str, model: str, *, has_trial: bool = False) -> Session:
    wanted = spec(model, tmp_path, seconds=0.2, weights="DEFAULT")
    worker = Conversation(wanted, environment=environment(tmp_path, address))
    session = await worker.until(lambda s: s.timings is not None or s.failure is not None)
    if has_trial:
        # A trial loads it again, from the cache: it cannot have anything fetched.
        worker.source.send(Try(Wish("inference-mode", seconds=0.1)))
        session = await worker.until(lambda s: bool(s.trials))
        assert session.trials[0].outcome == "measured", session.trials[0].why
    await worker.close()
    assert not (tmp_path / "canary").exists()
    assert session.hello is not None
    assert session.hello.sandbox is not None
    return session


async def test_a_model_of_the_hub_is_fetched_outside_and_opened_in_the_sandbox(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    with serving(NAME, files) as (address, asked):
        session = await opened(tmp_path, address, f"hf:{NAME}")
    assert session.failure is None
    assert session.model is not None
    assert session.model.weights == "DEFAULT"
    assert set(asked) == {"config.json", "model.safetensors"}
    # What was fetched once opens without the network.
    again = await opened(tmp_path, address, f"hf:{NAME}")
    assert again.failure is None


async def test_pickles_of_the_hub_are_not_fetched(tmp_path: Path, files: dict[str, bytes]) -> None:
    del files["model.safetensors"]
    with serving(NAME, files) as (address, asked):
        session = await opened(tmp_path, address, f"hf:{NAME}")
    assert session.failure is not None
    assert "has no model.safetensors" in session.failure.what
    assert "--trust" in session.failure.remedies[0].command
    assert set(asked) == {"config.json"}


async def test_what_cannot_be_fetched_is_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    with serving(NAME, files) as (address, _):
        session = await opened(tmp_path, address, "hf:someone/other")
    assert session.failure is not None
    assert "someone/other cannot be downloaded" in session.failure.what


@pytest.mark.parametrize("is_evil", [False, True])
async def test_weights_of_torchvision_are_opened_in_the_sandbox_as_weights_only(
    tmp_path: Path, is_evil: bool
) -> None:
    entry = models.get_model_weights("squeezenet1_1").DEFAULT
    kept = tmp_path / "torch" / "hub" / "checkpoints" / entry.url.rpartition("/")[2]
    kept.parent.mkdir(parents=True)
    state: object = models.squeezenet1_1().state_dict()
    torch.save(Touch(tmp_path / "canary") if is_evil else state, kept)
    session = await opened(tmp_path, "http://127.0.0.1:9", "squeezenet1_1")
    if not is_evil:
        assert session.failure is None
        return
    assert session.failure is not None
    assert "cannot be read without running code" in session.failure.what


def test_weights_of_torchvision_that_cannot_be_fetched_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path, "http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LoadError) as caught:
        load(spec("squeezenet1_1", tmp_path, weights="DEFAULT"))
    told = caught.value.failed.what
    assert "IMAGENET1K_V1 of squeezenet1_1 are not available: URLError" in told


@pytest.mark.parametrize("is_safe", [True, False])
async def test_weights_of_timm_are_fetched_as_safetensors_and_opened_in_the_sandbox(
    tmp_path: Path, is_safe: bool
) -> None:
    timm = pytest.importorskip("timm")
    state = timm.create_model("test_resnet").state_dict()
    evil = pickle.dumps(Touch(tmp_path / "canary"))
    files = {"config.json": b"{}", "pytorch_model.bin": evil}
    if is_safe:
        files["model.safetensors"] = save(state)
    with serving("timm/test_resnet.r160_in1k", files) as (address, asked):
        session = await opened(tmp_path, address, "timm:test_resnet", has_trial=is_safe)
    assert "pytorch_model.bin" not in asked
    if is_safe:
        assert session.failure is None
        assert session.model is not None
        assert session.model.weights == "r160_in1k"
    else:
        assert session.failure is not None
        assert "are not available as safetensors" in session.failure.what


async def test_a_download_ends_with_its_worker(tmp_path: Path, files: dict[str, bytes]) -> None:
    endless = Endless()
    with serving(NAME, {**files, "model.safetensors": endless}) as (address, _):
        wanted = spec(f"hf:{NAME}", tmp_path, weights="DEFAULT")
        worker = Conversation(wanted, environment=environment(tmp_path, address))
        listening = asyncio.create_task(worker.until(lambda s: s.failure is not None))
        await asyncio.to_thread(endless.begun.wait, 240)
        listening.cancel()
        await worker.close()
        endless.is_left = True
        assert await asyncio.to_thread(endless.ended.wait, 240)
    assert endless.why == "the other side went"
