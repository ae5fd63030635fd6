"""What the records of runs say about files of translations: the metrics that scored them, and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.chrf import CHRFScorer, CHRFSettings
from lightning_bleu.compare.known_metrics import is_known, make_metric
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.evaluator_metric import EvaluatorMetric
from lightning_bleu.core.tokens import DOWNLOADED
from lightning_bleu.evaluation.sentences import SentenceRows
from lightning_bleu.observers.scores_file import RecordedScore, read_record


class RunRecords:
    """What the records of runs say about the files of systems.

    Args:
        files: the files of the systems, by the names of the systems.
        warn: warns about what is skipped, and about scores that differ.

    Attributes:
        scores: the recorded scores of each system; None if its file is in no folder of a record.
    """

    def __init__(self, files: Mapping[str, Path], warn: Callable[[str], object]) -> None:
        self._files = files
        self._warn = warn
        self.scores = {name: read_record(file, warn) for name, file in files.items()}

    def rebuild_metrics(self) -> dict[str, EvaluatorMetric]:
        """The metrics of this package in the records.

        BLEU and chrF in percent, if there is no record, or if none has them. Of a metric in several
        records, the settings of the first system count. A record without a line about a file is an error.
        """
        metrics: dict[str, EvaluatorMetric] = {}
        left_out = []
        for name, recorded_scores in self.scores.items():
            if recorded_scores is None:
                continue
            if not recorded_scores:
                raise ValueError(
                    f"the record of {str(self._files[name])!r} has no line about a score of it that can be read, so "
                    "its settings are unknown: pass metrics=..."
                )
            for recorded in recorded_scores:
                if not _can_rebuild(recorded):
                    left_out.append(recorded.metric)
                elif recorded.metric not in metrics:
                    metrics[recorded.metric] = _rebuild_metric(recorded)
        if left_out:
            names = list(dict.fromkeys(left_out))
            self._warn(f"The record has scores of {names}, which are not compared: pass them as metrics=...")
        return metrics or {
            "bleu": BLEUScorer(BLEUSettings.from_options(percent=True)),
            "chrf": CHRFScorer(CHRFSettings.from_options(percent=True)),
        }

    def were_tokens(self) -> bool:
        """Whether all recorded sentences were tokens or ids, of which the files have a line with spaces."""
        all_recorded = chain.from_iterable(of_system or () for of_system in self.scores.values())
        forms = {form for recorded in all_recorded for form in recorded.forms}
        return bool(forms) and forms <= {"tokens", "ids"}

    def check_scores(self, name: str, rows_by_metric: Mapping[str, SentenceRows]) -> None:
        """Warn if the metrics of a record do not reproduce its scores.

        Args:
            name: the name of the system.
            rows_by_metric: what each metric counted in its sentences.
        """
        for recorded in self.scores.get(name) or ():
            if recorded.metric not in rows_by_metric or not _can_rebuild(recorded):
                continue
            of_file = rows_by_metric[recorded.metric]
            score = of_file.score() / (of_file.scorer.unit or 1)
            recorded_score = (recorded.score or 0) / (100 if recorded.percent else 1)
            if not math.isclose(score, recorded_score):
                self._warn(
                    f"The record of {str(self._files[name])!r} has {recorded.metric!r} = {recorded.score}, but its "
                    f"file scores {of_file.score()}: {_find_cause(recorded)}. The files are compared as they are."
                )


def _can_rebuild(recorded: RecordedScore) -> bool:
    """Whether a recorded score is one of a metric of this package."""
    return is_known(recorded.class_name, recorded.settings)


def _rebuild_metric(recorded: RecordedScore) -> EvaluatorMetric:
    """The metric that gave a recorded score, for text."""
    try:
        if recorded.settings is None:
            raise ValueError("there are none")
        if recorded.settings.get("tokenizer") in DOWNLOADED:
            raise ValueError(f"the tokenizer {recorded.settings['tokenizer']!r} may need to download a model")
        return make_metric(recorded.class_name, recorded.settings, percent=bool(recorded.percent))
    # Such as a callable, of which there is only the name.
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"pass metrics={{{recorded.metric!r}: ...}}, because its settings cannot be read: {to_line(str(error))}"
        ) from error


def _find_cause(recorded: RecordedScore) -> str:
    """Why a file may score differently than what was validated."""
    if "ids" in recorded.forms:
        return "ids were scored, and the file has their numbers as text"
    if "tokens" in recorded.forms:
        return "tokens were scored, and some of them may contain spaces"
    return (
        "line breaks inside sentences and characters that cannot be encoded are replaced in files, or the file or its "
        "references have changed since"
    )
