"""Published weights that ``--weights`` asks for: fetched first, opened by another process.

``python -P -m tui_profiler.probe.load.common.downloads LIBRARY NAME WEIGHTS`` fetches files into
the cache of their library, and says why it cannot. It opens none of them. The worker that does
cannot reach the network nor write the cache; its broker runs this (``docs/sandbox.md``). No torch
here, until files of torchvision's are fetched.

1. Of the Hub, only the files of ``FILES`` are fetched: a config and safetensors. Pickles, code and
   tokenizers are not.
2. What is fetched follows from what the user typed, never from a file.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_profiler.messages import LoadSpec

FILES = (
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "model-?????-of-?????.safetensors",
)  # fmt: skip
"""Of a repository of the Hub's, as patterns of whole paths."""
DEFAULT = "DEFAULT"
_PREFIX, _TIMM = "hf:", "timm:"


Library = Literal["hugging-face", "timm", "torchvision"]


@dataclass(frozen=True)
class Download:
    """What is to be fetched."""

    library: Library
    name: str
    """Of the repository, or of the architecture, with the tag of timm's weights."""
    weights: str
    """As typed: ``DEFAULT``, the name of an entry of torchvision's, or a tag of timm's."""


class DownloadError(Exception):
    """Files cannot be fetched; its sentence says why."""


class _Here:
    """Who fetches files for this process; it does so itself where nobody is set."""

    by: Callable[[], None] | None = None


def fetch_by(fetch: Callable[[], None]) -> None:
    """Have what this process needs fetched by another one, or ``DownloadError`` raised."""
    _Here.by = fetch


def download_of(spec: LoadSpec) -> Download | None:
    """Return what may have to be fetched before a model is opened; None where nothing is."""
    model, weights = spec.model, spec.weights
    if spec.trust or not weights:
        return None
    if model.startswith(_PREFIX):
        name = model.removeprefix(_PREFIX)
        is_here = (Path(spec.folder or ".") / Path(name).expanduser()).exists()
        return None if weights != DEFAULT or is_here or not is_repository(name) else Download(
            "hugging-face", name, weights
        )  # fmt: skip
    if model.startswith(_TIMM):
        return Download("timm", timm_weights(model.removeprefix(_TIMM), weights), weights)
    is_name = model.isidentifier() and weights.replace(".", "").isidentifier()
    return Download("torchvision", model.casefold(), weights) if is_name else None


def timm_weights(name: str, weights: str) -> str:
    """Return the name by which timm knows an architecture with weights.

    Args:
        name: With or without a tag: ``vit_tiny_patch16_224.augreg_in21k``.
        weights: ``DEFAULT``, which is that tag if there is one, or another tag.
    """
    plain, _, tag = name.partition(".")
    chosen = tag if weights.upper() == DEFAULT else weights.rpartition(".")[2]
    return f"{plain}.{chosen}" if chosen else plain


def is_repository(name: str) -> bool:
    """Say whether a name can be that of a repository of the Hub's."""
    parts = name.split("/")
    is_name = len(parts) <= 2 and all(parts) and parts[0] not in (".", "..", "~")
    return is_name and not name.endswith(".json")


def fetched(download: Download) -> None:
    """Fetch files, or have them fetched where this process cannot.

    Raises:
        DownloadError: they cannot be had.
    """
    if _Here.by is not None:
        _Here.by()
    else:
        fetch(download)


def fetch(download: Download) -> None:
    """Fetch files into the cache of their library, and open none.

    Raises:
        DownloadError: they cannot be had.
    """
    try:
        match download.library:
            case "hugging-face":
                _snapshot(download.name, is_offline=False)
            case "timm":
                _fetch_timm(download.name)
            case "torchvision":
                _fetch_torchvision(download.name, download.weights)
    except Exception as error:  # whatever the libraries raise
        text = " ".join(str(error).split())
        raise DownloadError(f"{type(error).__name__}: {text}"[:500]) from error


@contextmanager
def offline() -> Iterator[None]:
    """Keep huggingface_hub from the network: it takes what is in the cache."""
    from huggingface_hub import constants  # noqa: PLC0415 - an extra

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def folder_of_repository(name: str) -> Path:
    """Return the folder of the cache that has the files of a repository.

    Raises:
        DownloadError: it does not have them.
    """
    try:
        return Path(_snapshot(name, is_offline=True))
    except Exception as error:  # whatever huggingface_hub raises
        raise DownloadError(f"it is not in the cache ({type(error).__name__})") from error


def file_of_entry(entry: Any) -> Path:
    """Return where torch.hub keeps the file of published weights of torchvision's."""
    return _file_of_url(str(entry.url))


def _file_of_url(url: str) -> Path:
    from torch import hub  # noqa: PLC0415 - a second, for this only

    return Path(hub.get_dir(), "checkpoints", url.rpartition("/")[2])


def _snapshot(name: str, *, is_offline: bool) -> str:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra

    return str(snapshot_download(name, allow_patterns=list(FILES), local_files_only=is_offline))


def _fetch_torchvision(name: str, weights: str) -> None:
    from torchvision import models  # noqa: PLC0415

    entries = models.get_model_weights(name)
    wanted = weights.rpartition(".")[2].upper()
    entry = entries.DEFAULT if wanted == DEFAULT else entries[wanted]
    _fetch_url(str(entry.url))


def _fetch_timm(name: str) -> None:
    """Fetch what ``timm.create_model`` reads: safetensors, or the file at an address."""
    import timm  # noqa: PLC0415 - an extra
    from huggingface_hub import hf_hub_download  # noqa: PLC0415

    config = timm.get_pretrained_cfg(name)
    if config is None:
        raise DownloadError(f"timm has no weights for {name}")
    if config.hf_hub_id:
        repository, _, revision = str(config.hf_hub_id).partition("@")
        file = str(config.hf_hub_filename or "pytorch_model.bin")
        # timm looks for these before the pickles that it names.
        safe = f"{file.replace('pytorch_', '').rpartition('.')[0]}.safetensors"
        hf_hub_download(repository, safe, revision=revision or None)
    elif config.url:
        _fetch_url(str(config.url))
    else:
        raise DownloadError(f"timm has no weights for {name}")


def _fetch_url(url: str) -> None:
    from torch import hub  # noqa: PLC0415

    file = _file_of_url(url)
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    found = hub.HASH_REGEX.search(file.name)
    prefix = found.group(1) if found else None
    hub.download_url_to_file(url, str(file), prefix, progress=False)


def main() -> None:
    """Fetch what the command line says; print why it cannot be."""
    library, name, weights = sys.argv[1:]
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    try:
        fetch(Download(msgspec.convert(library, Library), name, weights))
    except DownloadError as error:
        print(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
