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

    Tensor states are sums; list states are concatenated. Each override works around a behavior of torchmetrics 1.9.0
    that its comment describes. Delete an override once upstream is fixed.

    Args:
        identity: what the states depend on. Metrics in a collection share a state only if their identities are equal.
        kwargs: passed to :class:`torchmetrics.Metric`.
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
        """Count a batch like :meth:`update`, and return the score of that batch alone.

        States add up, so the state of the batch is the difference between the states after and before.
        """
        # torchmetrics resets the state and merges it back later, so an error in between loses the state. With
        # dist_sync_on_step it updates twice, and a generator is exhausted the second time.
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

    def _set(self, **attributes: Any) -> None:
        # All at once, and without nn.Module.__setattr__, which takes as long as reading a sentence.
        vars(self).update(attributes)

    def _states(self) -> dict[str, Any]:
        states = {name: getattr(self, name) for name in self._defaults}
        return {name: state if isinstance(state, Tensor) else list(state) for name, state in states.items()}

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        # torchmetrics increments the update count and drops the cached score before it knows that the update succeeds.
        # It allows updates of a synced metric, which unsync() then discards.
        @functools.wraps(update)
        @eager
        def wrapped(*args: Any, **kwargs: Any) -> None:
            if self._is_synced:
                raise TorchMetricsUserError("The metric is synced: call unsync() before updating it.")
            update(*args, **kwargs)
            self._set(_computed=None, _update_count=self._update_count + 1)

        return wrapped

    def sync(self, dist_sync_fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        """Sync the state across processes; see :meth:`torchmetrics.Metric.sync`."""
        # torchmetrics uses the metric's own dist_sync_fn only in compute().
        super().sync(dist_sync_fn or self.dist_sync_fn, *args, **kwargs)

    @contextlib.contextmanager
    def sync_context(self, *args: Any, should_unsync: bool = True, **kwargs: Any) -> Iterator[None]:
        """Inside this context, the state covers all processes; see :meth:`torchmetrics.Metric.sync_context`.

        Contexts can be nested: only the outermost one syncs.
        """
        # torchmetrics raises an error for a nested context, and leaves the metric synced after an error inside one.
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
        # torchmetrics keeps the cached score from before the merge, and warns that the metric was never updated.
        super().merge_state(incoming_state)
        self._computed = None
        self._update_count += 1

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        # torchmetrics puts the incoming sentences first, expects list states even from a synced metric, and changes
        # some states before it finds that others are missing.
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call unsync() before merging another metric into it.")
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
        """Discard all batches; see :meth:`torchmetrics.Metric.reset`."""
        # torchmetrics cannot clear a list state that a sync turned into a tensor.
        if self._is_synced:
            self.unsync()
        super().reset()

    def _load_from_state_dict(self, *args: Any) -> None:
        # A list state that was saved while synced is a tensor.
        super()._load_from_state_dict(*args)
        for name, default in self._defaults.items():
            if isinstance(default, list):
                state = getattr(self, name)
                setattr(self, name, [state] if isinstance(state, Tensor) else list(state))

    def __getstate__(self) -> dict[str, Any]:
        # A shallow copy would share its lists with the original, which update() extends and reset() clears.
        return super().__getstate__() | self._states()

    def set_dtype(self, dst_type: str | torch.dtype) -> AdditiveMetric:
        """Do nothing: counts stay integers, regardless of the precision of the model."""
        return self


class _Defaults(dict[str, Any]):
    """The default states, with the identity of the metric as an extra key.

    :class:`torchmetrics.MetricCollection` lets metrics share one state if their keys are equal and their states are
    equal after the first batch. But two tokenizers may agree on the first batch and differ on the next, so the identity
    must be compared as well.
    """

    def __init__(self, identity: object) -> None:
        self.identity = identity

    def keys(self) -> Any:
        """The names of the states, and the identity of the metric."""
        return [*self, self.identity]
