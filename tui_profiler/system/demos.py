"""The demo models that come with us: files, loaded by path like anyone's."""

from pathlib import Path

PREFIX = "demo:"

_PACKAGE = Path(__file__).resolve().parents[1]
# Inside the package once installed, beside it in a checkout.
_FOLDERS = (_PACKAGE / "demo_models", _PACKAGE.parent / "demo_models")


def demo_names() -> tuple[str, ...]:
    """Return the names of the demo models, without the prefix."""
    return tuple(
        sorted(path.stem for path in _folder().glob("*.py") if not path.stem.startswith("_"))
    )


def demo_file(name: str) -> Path | None:
    """Return the file of a demo model, or None where there is none of that name."""
    return _folder() / f"{name}.py" if name in demo_names() else None


def _folder() -> Path:
    return next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])
