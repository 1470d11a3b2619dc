"""The option that adds advice to a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def findings_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--findings`` to a verb."""
    return click.option(
        "--findings",
        is_flag=True,
        help="With advice: evidence and predicted gain. Best with --measure.",
    )(command)
