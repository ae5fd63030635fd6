"""Workarounds for how torchmetrics treats states, below the base class of the metrics."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from lightning_bleu.core.batch import eager
from lightning_bleu.core.kept import IDENTITY_COLUMNS, append_rows


class AdditiveMetric(Metric):
    """A torchmetrics metric whose states add up.

    Tensor states are sums (a subclass may reduce its own in another way); list states are packed rows, see
    :mod:`lightning_bleu.core.kept`. States are replaced, never changed, so copies may share them. Each override
    works around a behavior of torchmetrics 1.9.0, and names the issue or pull request about it, if there is one. Delete
    an override once upstream is fixed.

    Args:
        columns: the number of statistics of a sentence.
        kwargs: passed to :class:`torchmetrics.Metric`.

    Attributes:
        columns: the number of statistics of a sentence.
    """

    full_state_update: bool = False

    def __init__(self, columns: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._defaults = _Defaults()
        self.columns = columns

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        # torchmetrics increments the update count and drops the cached score before it knows that the update succeeds.
        # It allows updates of a synced metric, which unsync() then discards. (No issues yet.)
        @functools.wraps(update)
        @eager
        def wrapped(*args: Any, **kwargs: Any) -> None:
            self._refuse_if_synced()
            update(*args, **kwargs)
            self._state_changed()

        return wrapped

    def _refuse_if_synced(self) -> None:
        if self._is_synced:
            raise TorchMetricsUserError("The metric is synced: call unsync() before changing it.")

    def _state_changed(self) -> None:
        # Without nn.Module.__setattr__, which takes as long as counting a sentence.
        vars(self).update(_computed=None, _update_count=self._update_count + 1)

    def sync(self, dist_sync_fn: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> None:
        """Sync the state across processes; see :meth:`torchmetrics.Metric.sync`."""
        # torchmetrics uses the metric's own dist_sync_fn only in compute(). It keeps the score of one process cached.
        # (No issues yet.)
        super().sync(dist_sync_fn or self.dist_sync_fn, *args, **kwargs)
        if self._is_synced:
            self._computed = None

    def unsync(self, should_unsync: bool = True) -> None:
        """Restore the state of this process; see :meth:`torchmetrics.Metric.unsync`."""
        # torchmetrics keeps the score of all processes cached. (No issue yet.)
        super().unsync(should_unsync)
        if should_unsync:
            self._computed = None

    @contextlib.contextmanager
    def sync_context(self, *args: Any, should_unsync: bool = True, **kwargs: Any) -> Iterator[None]:
        """Inside this context, the state covers all processes; see :meth:`torchmetrics.Metric.sync_context`.

        Contexts can be nested: only the outermost one syncs.
        """
        # An error inside leaves the metric synced: https://github.com/Lightning-AI/torchmetrics/issues/3486. A nested
        # context is an error: https://github.com/Lightning-AI/torchmetrics/issues/1183 (closed).
        if self._is_synced:
            yield
            return
        self.sync(*args, **kwargs)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced and should_unsync)

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        # torchmetrics puts the incoming sentences first, expects list states even from a synced metric, changes some
        # states before it finds that others are missing, and keeps the cached score. (No issues yet; its merge_state is
        # https://github.com/Lightning-AI/torchmetrics/pull/2786.)
        self._refuse_if_synced()
        if missing := {*self._defaults} - incoming_state.keys():
            raise ValueError(f"Expected {sorted(missing)} to be present in incoming state {incoming_state}")
        merged: dict[str, Any] = {}
        for name, state in self.metric_state.items():
            self._check_width(name, incoming_state[name])
            if isinstance(state, Tensor):
                reduce: Any = self._reductions[name]
                merged[name] = reduce(torch.stack([state, incoming_state[name].to(state.device)]))
            else:
                merged[name] = append_rows(state, *as_list(incoming_state[name]))
        for name, state in merged.items():
            setattr(self, name, state)
        self._state_changed()

    def reset(self) -> None:
        """Discard all batches; see :meth:`torchmetrics.Metric.reset`."""
        # torchmetrics clears lists in place since https://github.com/Lightning-AI/torchmetrics/pull/2493. But copies
        # may share them, and in a synced metric they are tensors.
        for name, default in self._defaults.items():
            if isinstance(default, list):
                setattr(self, name, [])
        super().reset()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # torchmetrics loads states of any shape, and keeps the cached score. (No issues yet.)
        # It also removes them from the dictionary, so they are looked up first.
        loaded = {name: state_dict[prefix + name] for name in self._defaults if prefix + name in state_dict}
        for name, state in loaded.items():
            self._check_width(name, state)
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name, state in loaded.items():
            if isinstance(self._defaults[name], list):  # a saved state may be a tensor, or many small ones
                setattr(self, name, append_rows([], *as_list(state)))
        if loaded:
            self._state_changed()

    def _check_width(self, name: str, state: Tensor | list[Tensor]) -> None:
        default = self._defaults[name]
        expected = [*default.shape[-1:]] if isinstance(default, Tensor) else [IDENTITY_COLUMNS + self.columns]
        for rows in as_list(state):
            if rows.numel() and [*rows.shape[-1:]] != expected:
                raise ValueError(
                    f"the state {name!r} is of a metric with other options, or of another version: its rows have "
                    f"{[*rows.shape[-1:]]} columns, not {expected}"
                )

    def __deepcopy__(self, memo: dict[int, Any]) -> AdditiveMetric:
        # A process group cannot be copied: https://github.com/pytorch/pytorch/issues/73825
        memo[id(self.process_group)] = self.process_group
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

    def set_dtype(self, dst_type: str | torch.dtype) -> AdditiveMetric:
        """Do nothing: counts stay integers, regardless of the precision of the model."""
        return self


class _Defaults(dict[str, Any]):
    """The default states, with their own identity as an extra key.

    :class:`torchmetrics.MetricCollection` lets metrics share one state if their keys are equal and their states are
    equal after the first batch: https://github.com/Lightning-AI/torchmetrics/issues/2596 and 2916 (closed). But two
    tokenizers, or a subclass with two options, may agree on the first batch and differ on the next.
    """

    def keys(self) -> Any:
        """The names of the states, and a key that no other metric has."""
        return [*self, id(self)]


def as_list(state: Tensor | list[Tensor]) -> list[Tensor]:
    """A list state, which is a tensor in a metric that is synced, or was saved while it was."""
    return [state] if isinstance(state, Tensor) else state
