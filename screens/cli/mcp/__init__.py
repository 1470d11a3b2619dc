"""The verb ``mcp`` and the tools that it serves."""
