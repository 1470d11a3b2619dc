"""Requests of a language model: prefill and decode, tokens, and the cache."""
