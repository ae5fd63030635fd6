"""The names of loaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def name_loaders(
    stage: str, loaders: Any, count: int, *, given: Sequence[str] | None = None, metrics: Sequence[str] | None = None
) -> list[str] | None:
    """Name the loaders of a stage.

    Args:
        stage: the name of the stage, for error messages.
        loaders: the loaders as the user passed them; the keys of a dict are names.
        count: the number of loaders.
        given: names that take precedence.
        metrics: the names of the metrics, if each loader has its own.

    Returns:
        a name per loader; None for a single loader without a name.

    Raises:
        ValueError: if a loader has no name or no metric, or if names clash.

    Example:
        >>> name_loaders("val", {"news": [...], "talks": [...]}, 2)
        ['news', 'talks']
        >>> name_loaders("val", [[...], [...]], 2)
        ['dataloader_idx_0', 'dataloader_idx_1']
        >>> name_loaders("val", [...], 1) is None
        True
    """
    if given is not None and len(given) != count:
        raise ValueError(
            f"'dataloader_names' must name every loader of {stage!r}, got {len(given)} names for {count} loaders"
        )
    names = given
    if names is None and isinstance(loaders, Mapping) and len(loaders) == count:
        names = [str(name) for name in loaders]
    if names is None and metrics is not None and len(metrics) == count:
        names = metrics
    if names is None and count > 1:
        names = [f"dataloader_idx_{index}" for index in range(count)]
    if names is not None:
        _check_names(stage, names)
    if metrics is not None and (names is None or not set(names) <= set(metrics)):
        raise ValueError(
            f"'metric' has the names {list(metrics)}, but the loaders of {stage!r} are "
            f"{'without a name' if names is None else list(names)}: pass a dict of loaders with these names, or "
            "'dataloader_names'"
        )
    return None if names is None else list(names)


def _check_names(stage: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"the loaders of {stage!r} must have different names, got {list(names)}")
    for name in names:
        if name in ("", "best"):
            raise ValueError(f"a loader of {stage!r} cannot be named {name!r}, which is reserved")
        if clash := [other for other in names if other.startswith(f"{name}/")]:
            raise ValueError(f"the loaders {name!r} and {clash[0]!r} of {stage!r} clash, because {name}/... is logged")
