"""Metrics of inference servers (vLLM, SGLang, TGI): fetched, read, and compared over time."""
