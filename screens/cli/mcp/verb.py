"""``mcp``: a Model Context Protocol server for coding agents, over standard input and output."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from tui_profiler import __version__
from tui_profiler.formatting.text import safe

from ...terminal.standard_output import write_nowhere

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

EXTRA = 'pip install "tui-profiler[mcp]"'
_INSTRUCTIONS = """Figures of PyTorch models, read-only: FLOPs, memory, times, bounds, advice.
A target is program:NAME or program:PID (a running program, see list_programs), the path of a
recording, or a model as on the command line of tui-profiler (resnet50, demo:cnn, timm:NAME,
hf:DIRECTORY, model.pt2), which is traced on paper and may have options (resnet50 --batch 8).
A node is named by its path, as in the state dict. Start with summary."""


@click.command("mcp")
def mcp_verb() -> int:
    """Start a Model Context Protocol server on standard input and output, for coding agents.

    Its tools list programs, summarise a program, recording or model, report one node, list
    findings, and compare two. They are read-only: nothing is run, trusted or downloaded.
    """
    try:
        server = made()
    except ModuleNotFoundError as error:
        missing = (error.name or "mcp").partition(".")[0]
        raise click.UsageError(f"{missing} is not installed: {EXTRA}") from None
    lost: BaseException | None = None
    try:
        asyncio.run(server.run_stdio_async())
    except* OSError as errors:  # The tools answer their own.
        lost = errors
    while isinstance(lost, BaseExceptionGroup):
        lost = lost.exceptions[0]
    if lost is None:
        return 0
    write_nowhere()
    if isinstance(lost, BrokenPipeError):
        return 0  # The client has gone.
    raise click.ClickException(f"The client cannot be reached: {safe(str(lost))}.")


def made() -> "MCPServer[None]":
    """Return the server.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    # The SDK takes 2 s to import; --help needs none of it.
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
    from mcp.types import ToolAnnotations  # noqa: PLC0415

    from . import tools  # noqa: PLC0415

    def with_errors(tool: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
        @functools.wraps(tool)
        async def answered(*values: object, **named: object) -> str:
            try:
                return await tool(*values, **named)
            except tools.NoAnswerError as error:
                raise ToolError(safe(str(error))) from None

        return answered

    server: MCPServer[None] = MCPServer(
        "tui-profiler", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR"
    )
    read_only = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in tools.Tools().all():
        server.add_tool(with_errors(tool), annotations=read_only, structured_output=False)
    return server
