"""The base class of :class:`lightning_bleu.CorpusBLEU`: all workarounds for torchmetrics."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_bleu.eager import eager


class AdditiveMetric(Metric):
    """A torchmetrics metric whose states add up.

    Tensor states are sums, and list states hold whatever was appended to them. Everything here exists because
    torchmetrics 1.9.0 does it differently; the comments say how. What upstream fixes can be deleted.

    Args:
        identity: what the states depend on. Metrics of a collection share a state only if it is equal.
        kwargs: those of :class:`torchmetrics.Metric`.
    """

    full_state_update: bool = False

    def __init__(self, identity: object, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._defaults = _Defaults(identity)

    def __init_subclass__(cls) -> None:
        # torch.jit.script evaluates the properties of a submodule unless they are listed here.
        super().__init_subclass__()
        properties = [name for name, value in vars(cls).items() if isinstance(value, property)]
        cls.__jit_unused_properties__ = [*cls.__jit_unused_properties__, *properties]

    @torch.jit.unused
    @eager
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch as :meth:`update` does, and return the score of that batch alone.

        States add up, so the state of the batch is a difference.
        """
        # torchmetrics resets the state and merges it again, so that an error in between loses it. With
        # dist_sync_on_step it updates twice, and the second time a generator is empty.
        before = self._states()
        self.update(*args, **kwargs)
        after = self._states()
        try:
            for name, state in after.items():
                setattr(self, name, state - before[name] if isinstance(state, Tensor) else state[len(before[name]) :])
            self._to_sync = self.dist_sync_on_step
            self._forward_cache = self.compute()
        finally:
            self._to_sync = self.sync_on_compute
            self._computed = None
            for name, state in after.items():
                setattr(self, name, state)
        return self._forward_cache

    def _states(self) -> dict[str, Any]:
        states = {name: getattr(self, name) for name in self._defaults}
        return {name: state if isinstance(state, Tensor) else list(state) for name, state in states.items()}

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        # torchmetrics counts an update and forgets the score before it knows that the update succeeds. It lets a synced
        # metric be updated, which unsync() undoes. It also switches gradients off, which integers do not need and which
        # takes as long as counting a sentence.
        @functools.wraps(update)
        @eager
        def wrapped(*args: Any, **kwargs: Any) -> None:
            if self._is_synced:
                raise TorchMetricsUserError("The metric is synced: call unsync() before it counts another batch.")
            update(*args, **kwargs)
            self._computed = None
            self._update_count += 1
            if self.compute_on_cpu:
                self._move_list_states_to_cpu()

        return wrapped

    def sync(self, dist_sync_fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        """Sync the state across processes, see :meth:`torchmetrics.Metric.sync`."""
        # torchmetrics uses the metric's own dist_sync_fn in compute() only.
        super().sync(dist_sync_fn or self.dist_sync_fn, *args, **kwargs)

    @contextlib.contextmanager
    def sync_context(self, *args: Any, should_unsync: bool = True, **kwargs: Any) -> Iterator[None]:
        """Within this context the state is that of all processes, see :meth:`torchmetrics.Metric.sync_context`.

        Contexts can be nested: the processes meet once, in the outermost one.
        """
        # torchmetrics raises an error for a nested context, and leaves the metric synced after an error inside of it.
        if self._is_synced:
            yield
            return
        self.sync(*args, **kwargs)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced and should_unsync)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the state of another metric, or its ``metric_state``, to the state of this one."""
        # torchmetrics keeps a score that was computed before, and would warn that nothing was updated.
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count += 1

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        # torchmetrics puts the incoming sentences first, expects lists even of a metric that is synced, and changes
        # some states before it finds that others are missing.
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call unsync() before another one is merged into it.")
        own = self._states()
        if missing := own.keys() - incoming_state.keys():
            raise ValueError(f"Expected {sorted(missing)} to be present in incoming state {incoming_state}")
        merged = {}
        for name, state in own.items():
            incoming = incoming_state[name]
            was_synced = isinstance(state, list) and isinstance(incoming, Tensor)
            merged[name] = state + ([incoming] if was_synced else incoming)
        for name, state in merged.items():
            setattr(self, name, state)

    def reset(self) -> None:
        """Forget all batches, see :meth:`torchmetrics.Metric.reset`."""
        # torchmetrics cannot clear a list that became a tensor when it was synced.
        if self._is_synced:
            self.unsync()
        super().reset()

    def _load_from_state_dict(self, *args: Any) -> None:
        # A list state that was saved while it was synced is a tensor.
        super()._load_from_state_dict(*args)
        for name, default in self._defaults.items():
            if isinstance(default, list):
                state = getattr(self, name)
                setattr(self, name, [state] if isinstance(state, Tensor) else list(state))

    def set_dtype(self, dst_type: str | torch.dtype) -> AdditiveMetric:
        """Do nothing: counts are integers whatever the precision of the model."""
        return self


class _Defaults(dict[str, Any]):
    """The default states, which :class:`torchmetrics.MetricCollection` compares by their keys.

    It lets metrics share one state if these keys are equal, and so are their states after the first batch. But two
    tokenizers may agree on one batch and not on the next, so the identity of the metric is compared as well.
    """

    def __init__(self, identity: object) -> None:
        self.identity = identity

    def keys(self) -> Any:
        """The names of the states, and the identity of the metric."""
        return [*self, self.identity]
