"""``torch.inference_mode`` instead of ``torch.no_grad``."""

from __future__ import annotations

from dataclasses import replace

import torch

from tui_profiler.probe.trials.kinds.subject import Change, Kind, Subject, as_it_is


def _change(subject: Subject) -> Change:
    baseline = as_it_is(subject)
    module, inputs = subject.module, subject.inputs

    def call(keywords: object) -> object:
        with torch.inference_mode():
            return module(
                *inputs.args, **(keywords if isinstance(keywords, dict) else inputs.kwargs)
            )

    return Change(baseline, replace(baseline, call=call), "inference_mode instead of no_grad")


KIND = Kind(_change)
