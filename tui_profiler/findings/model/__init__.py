"""Advice on what the model computes, and with which weights."""
