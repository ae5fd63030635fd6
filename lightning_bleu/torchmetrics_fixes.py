"""The base class of all metrics: all workarounds for torchmetrics."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_bleu.counting.kept import IDENTITY_COLUMNS, append_rows

P = ParamSpec("P")
T = TypeVar("T")


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function eagerly, even when compiled code calls it.

    Counting uses NumPy and data-dependent shapes. ``torch.compiler.disable`` as a decorator would do the same, but it
    imports the compiler right away, which takes two seconds.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        run = torch.compiler.disable(function) if torch.compiler.is_compiling() else function  # type: ignore[no-untyped-call]
        return run(*args, **kwargs)

    return wrapper


class AdditiveMetric(Metric):
    """A torchmetrics metric whose states add up.

    Tensor states are sums; list states are packed rows, see :mod:`lightning_bleu.counting.kept`. Each override works
    around a behavior of torchmetrics 1.9.0 that its comment describes. Delete an override once upstream is fixed.

    Args:
        identity: what the states depend on. Metrics in a collection share a state only if their identities, and their
            classes, are equal.
        columns: the number of statistics of a sentence.
        kwargs: passed to :class:`torchmetrics.Metric`.

    Attributes:
        columns: the number of statistics of a sentence.
    """

    full_state_update: bool = False

    def __init__(self, identity: object, columns: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._defaults = _Defaults((type(self), identity))
        self.columns = columns

    def __init_subclass__(cls) -> None:
        # torch.jit.script evaluates the properties of a submodule unless they are listed here.
        super().__init_subclass__()
        properties = [name for name, value in vars(cls).items() if isinstance(value, property)]
        cls.__jit_unused_properties__ = [*cls.__jit_unused_properties__, *properties]

    @torch.jit.unused
    @eager
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch like :meth:`update`, and return the score of that batch alone."""
        # torchmetrics resets the state and merges it back later, so an error in between loses the state. With
        # dist_sync_on_step it updates twice, and a generator is exhausted the second time.
        before = dict(vars(self))
        if not self._is_synced:
            self._set(**self._empty_states())
        try:
            self.update(*args, **kwargs)
            after = _merge({name: before[name] for name in self._defaults}, self._states())
        except BaseException:
            self._set(**before)
            raise
        try:
            self._to_sync = self.dist_sync_on_step
            self._forward_cache = self.compute()
        finally:
            self._to_sync = self.sync_on_compute
            self._set(**after, _computed=None)
        return self._forward_cache

    def _set(self, **attributes: Any) -> None:
        # All at once, and without nn.Module.__setattr__, which takes as long as reading a sentence.
        vars(self).update(attributes)

    def _states(self) -> dict[str, Any]:
        states = {name: getattr(self, name) for name in self._defaults}
        return {name: state if isinstance(state, Tensor) else list(state) for name, state in states.items()}

    def _empty_states(self) -> dict[str, Any]:
        with ordinary_tensors():
            return {
                name: default.clone().to(self.device) if isinstance(default, Tensor) else []
                for name, default in self._defaults.items()
            }

    def remove_state(self, name: str) -> None:
        """Undo :meth:`torchmetrics.Metric.add_state`."""
        for states in (self._defaults, self._persistent, self._reductions):
            del states[name]
        delattr(self, name)

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
        # torchmetrics uses the metric's own dist_sync_fn only in compute(). It keeps the score of one process cached.
        super().sync(dist_sync_fn or self.dist_sync_fn, *args, **kwargs)
        if self._is_synced:
            self._computed = None

    def unsync(self, should_unsync: bool = True) -> None:
        """Restore the state of this process; see :meth:`torchmetrics.Metric.unsync`."""
        # torchmetrics keeps the score of all processes cached.
        super().unsync(should_unsync)
        if should_unsync:
            self._computed = None

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
        for name in own:
            self._check_width(name, incoming_state[name])
        self._set(**_merge(own, incoming_state))

    def reset(self) -> None:
        """Discard all batches; see :meth:`torchmetrics.Metric.reset`."""
        # torchmetrics cannot clear a list state that a sync turned into a tensor. It clears lists in place, which
        # copies of this metric may share.
        if self._is_synced:
            self.unsync()
        self._set(**self._states())
        with ordinary_tensors():
            super().reset()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # torchmetrics loads states of any shape, and keeps the cached score. A list that was saved while synced is a
        # tensor.
        loaded = {name: state_dict[prefix + name] for name in self._defaults if prefix + name in state_dict}
        for name, state in loaded.items():
            self._check_width(name, state)
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name, state in loaded.items():
            if isinstance(self._defaults[name], list):
                self._set(**{name: append_rows([], *(state if isinstance(state, list) else [state]))})
        if loaded:
            self._set(_computed=None, _update_count=self._update_count + 1)

    def _check_width(self, name: str, state: Tensor | list[Tensor]) -> None:
        default = self._defaults[name]
        expected = len(default) if isinstance(default, Tensor) else IDENTITY_COLUMNS + self.columns
        for rows in state if isinstance(state, list) else [state]:
            if rows.numel() and rows.shape[-1] != expected:
                raise ValueError(
                    f"the state {name!r} is of a metric with other orders of n-grams, or of another version: its rows "
                    f"have {rows.shape[-1]} columns, not {expected}"
                )

    def __getstate__(self) -> dict[str, Any]:
        # A shallow copy would share its lists with the original.
        return super().__getstate__() | self._states()

    def __deepcopy__(self, memo: dict[int, Any]) -> AdditiveMetric:
        # A process group cannot be copied.
        memo[id(self.process_group)] = self.process_group
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

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


def _merge(states: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add states: sums are added, rows are appended. The inputs do not change."""
    merged = {}
    with ordinary_tensors():
        for name, state in states.items():
            other = more[name]
            if isinstance(state, Tensor):
                merged[name] = state + other.to(state.device)
            else:  # a list that was saved while synced is a tensor
                merged[name] = append_rows(state, *([other] if isinstance(other, Tensor) else other))
    return merged


def ordinary_tensors() -> contextlib.AbstractContextManager[Any]:
    """Within this context, new tensors are no inference tensors. Lightning validates in inference mode."""
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else contextlib.nullcontext()
