"""What the records of runs say about translations: the metrics that scored them, and their scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.chrf import CHRFScorer, CHRFSettings
from lightning_bleu.compare.known_metrics import is_known, make_metric
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.core.tokens import DOWNLOADED
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.observers.recorded import read_scores_of


class RunRecords:
    """What the records of runs say about systems.

    Args:
        files: the files and folders of the systems, by the names of the systems.
        warn: warns about what is skipped, and about scores that differ.

    Attributes:
        scores: the recorded scores of each system that is a folder.
    """

    def __init__(self, files: Mapping[str, Path], warn: Callable[[str], object]) -> None:
        self._files = files
        self._warn = warn
        self.scores = {name: read_scores_of(file) for name, file in files.items() if file.is_dir()}

    def rebuild_metrics(self) -> dict[str, EvaluatorMetric]:
        """The metrics of this package in the records.

        BLEU and chrF in percent, if there is no record, or if none has them. Of a metric in several
        records, the settings of the first system count. A record without a score of a system is an error.
        """
        metrics: dict[str, EvaluatorMetric] = {}
        left_out = []
        for name, recorded_scores in self.scores.items():
            if not recorded_scores:
                raise ValueError(f"{str(self._files[name])!r} has no score: pass metrics=...")
            for recorded in recorded_scores:
                if not is_known(recorded["class"], recorded["settings"]):
                    left_out.append(recorded["metric"])
                elif recorded["metric"] not in metrics:
                    metrics[recorded["metric"]] = _rebuild_metric(recorded)
        if left_out:
            names = list(dict.fromkeys(left_out))
            self._warn(f"The record has scores of {names}, which are not compared: pass them as metrics= in Python")
        return metrics or {
            "bleu": BLEUScorer(BLEUSettings.from_options(percent=True)),
            "chrf": CHRFScorer(CHRFSettings.from_options(percent=True)),
        }

    def were_tokens(self) -> bool:
        """Whether all recorded sentences were tokens or ids, which are recorded as a line with spaces."""
        all_recorded = chain.from_iterable(self.scores.values())
        forms = {form for recorded in all_recorded for form in recorded["forms"]}
        return bool(forms) and forms <= {"tokens", "ids"}

    def check_scores(self, name: str, rows_by_metric: Mapping[str, SentenceRows]) -> None:
        """Warn if the metrics of a record do not reproduce its scores.

        Args:
            name: the name of the system.
            rows_by_metric: what each metric counted in its sentences.
        """
        for recorded in self.scores.get(name, ()):
            rows = rows_by_metric.get(recorded["metric"])
            if rows is None or not is_known(recorded["class"], recorded["settings"]):
                continue
            score = rows.score() / (rows.scorer.unit or 1)
            recorded_score = (recorded["score"] or 0) / (100 if recorded["percent"] else 1)
            if not math.isclose(score, recorded_score):
                settings, used = recorded["settings"] or {}, json.loads(json.dumps(rows.scorer.plain_settings()))
                others = [f"{key}={value!r}" for key, value in settings.items() if used.get(key, value) != value]
                cause = (
                    "they have changed since, or another version scored them, or they were ids or tokens with spaces"
                )
                if others:
                    cause = f"it was scored with {', '.join(others)}, and the settings of the first system count"
                self._warn(
                    f"{str(self._files[name])!r} has {recorded['metric']!r} = {recorded['score']}, but its sentences "
                    f"score {rows.score()}: {cause}. They are compared as they are."
                )


def _rebuild_metric(recorded: Mapping[str, Any]) -> EvaluatorMetric:
    """The metric that gave a recorded score, for text."""
    try:
        settings = recorded["settings"]
        if settings is None:
            raise ValueError("there are none")
        if settings.get("tokenizer") in DOWNLOADED:
            raise ValueError(f"the tokenizer {settings['tokenizer']!r} may need to download a model")
        return make_metric(recorded["class"], settings, percent=bool(recorded["percent"]))
    # Such as a callable, of which there is only the name.
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"pass metrics={{{recorded['metric']!r}: ...}}, because its settings cannot be read: {to_line(str(error))}"
        ) from error
