"""Loggers of services that need no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.loggers import CometLogger, MLFlowLogger


def open_mlflow(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A logger of MLflow at an address, in which ``{}`` stands for the folder. A new database takes seconds."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # the logger sets it; this takes it back
    return MLFlowLogger(tracking_uri=uri.format(folder), artifact_location=(folder / "artifacts").as_uri())


def open_comet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> CometLogger:
    """A logger of Comet that writes an archive."""
    pytest.importorskip("comet_ml", minversion="3.44.4")  # Lightning needs this version
    monkeypatch.setenv("COMET_START_ONLINE", "false")  # the logger stores nothing with `online=False`
    monkeypatch.setenv("COMET_ERROR_TRACKING_ENABLE", "false")
    monkeypatch.setenv("COMET_DISABLE_AUTO_LOGGING", "1")  # the logger sets it; this takes it back
    names = ["log_code", "log_git_patch", "log_env_details", "auto_output_logging"]
    quiet: dict[str, Any] = dict.fromkeys(names, False)
    return CometLogger(offline_directory=str(folder), display_summary_level=0, **quiet)
