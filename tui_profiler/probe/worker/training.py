"""Steps of training that our own loop runs, and where their time goes.

1. Weights keep their values unless updates were requested: the optimizer steps at a learning rate
   of 0, its state is real. Gradients that are not finite are set to 0 before a step, as 0 times
   infinity is not 0; that is found in the first one. A negative zero may lose its sign.
2. A checksum of the weights before the first step and after it says whether they kept them.
3. Gradients and buffers are put back when the loop ends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from tui_profiler.messages import Failed, Figure, Message, Remedy, TrainSpec, Unknown
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.trace.training.checkpointing import checkpointed, chosen_modules
from tui_profiler.probe.trace.training.optimizers import Choice, described, make_optimizer
from tui_profiler.probe.trace.training.step import TrainingStep, are_finite, clear_infinite
from tui_profiler.probe.worker.failures import StageError
from tui_profiler.system import real_time as time

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class OwnTraining:
    """The steps of one model, from the first one until ``close``.

    Args:
        model: in training mode, with its values.
        traced: a step of it.
        spec: how it is trained.
        choice: of the optimizer.
        clock: of the model.
        records_next: tells whether the next step is to be recorded.
        budget: what watching may cost, as a share.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        traced: Trace,
        spec: TrainSpec,
        choice: Choice,
        clock: ModuleClock,
        records_next: Callable[[], bool],
        budget: float,
    ) -> None:
        self._model = model
        self._spec = spec
        self._choice = choice
        self._clock = clock
        self._parameters = [one for one in model.parameters() if one.requires_grad]
        own = {id(one): one for one in self._parameters}
        self._optimizer = make_optimizer(choice, own, updates=spec.update)
        self._step = TrainingStep(model, traced.inputs, spec)
        self._recorder = StepRecorder(clock, records_next)
        inputs = traced.inputs
        items: Figure | None = inputs.batch
        if items is None and inputs.why_no_batch:
            items = Unknown(f"no batch axis was found: {inputs.why_no_batch}")
        self._steps = TrainingSteps(traced.nodes, model, clock, self._recorder, budget, items)
        self._snapshot = Snapshot(model)
        self._snapshot.before_write(model.buffers())
        self._gradients = [(one, one.grad) for one in model.parameters()]
        self._around = ExitStack()
        if spec.checkpoint:
            chosen = [module for _, module in chosen_modules(model, spec.checkpoint)]
            self._around.enter_context(checkpointed(chosen))
        self._is_finite = True

    def first_step(self) -> None:
        """Run a step, and look whether gradients are finite and weights stay.

        Raises:
            StageError: the optimizer moves them, though its learning rate is 0.
        """
        before = _checksum(self._parameters)
        self._step.run(self._optimizer, self._clear_infinite)
        if not self._spec.update and _checksum(self._parameters) != before:
            what = f"{described(self._choice)} changes the weights even at a learning rate of 0"
            remedies = (Remedy("--update", "allows that"),)
            raise StageError(Failed("first run", what, remedies=remedies))
        self._steps.start()

    def step(self) -> None:
        """Run a step."""
        self._recorder.begin()
        self._step.run(self._optimizer, None if self._is_finite else clear_infinite)

    def read_values(self, *, wanted: bool) -> None:
        """Read values of a step now and then, or no more."""
        self._steps.values.is_wanted = wanted

    def record_next(self) -> None:
        """Record the step that begins next, whatever the share is, and read no values of it."""
        self._recorder.forget_values()
        self._steps.values.give_up()
        self._recorder.record_next()

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Run steps that nothing listens to while the block runs."""
        self._recorder.close()
        try:
            yield
        finally:
            self._recorder.start()
            self._steps.skip()

    def skip(self) -> None:
        """Forget the steps since those that were added up last."""
        self._steps.skip()

    def add_up(self, forwards: Iterable[Forward]) -> None:
        """Add up the steps that have ended, with the forwards that were recorded of them."""
        self._steps.take(forwards, (), time.perf_counter())

    def messages(self, at: float) -> Iterator[Message]:
        """Yield what is new, ``at`` seconds since the beginning."""
        return self._steps.messages(at)

    def close(self) -> None:
        """Listen no more, and put back what steps have changed beside weights."""
        self._steps.close()
        self._around.close()
        self._snapshot.restore()
        for parameter, gradient in self._gradients:
            parameter.grad = gradient

    def _clear_infinite(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._is_finite = are_finite(parameters)
        if not self._is_finite:
            clear_infinite(parameters)


def _checksum(parameters: Sequence[torch.nn.Parameter]) -> list[int]:
    """Return the sum of the bits of each parameter, as whole numbers; zeros have no sign."""
    return [
        int(_words(one.detach() + 0.0).sum(dtype=torch.int64))
        for one in parameters
        if one.layout is torch.strided and not one.is_meta
    ]


def _words(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.view(_WORDS[real.element_size()])
