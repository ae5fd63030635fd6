"""Scores lines of JSON with COMET, in an environment that has it (`neural_metric.py`)."""

import json
import os
import sys

from comet import download_model, load_from_checkpoint  # type: ignore[import-not-found]

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what others print does not get between the answers
model = load_from_checkpoint(download_model("Unbabel/wmt22-comet-da"))
device = [int(os.environ.get("LOCAL_RANK", 0))]  # the GPU of the process that trains
for line in sys.stdin:
    scores = model.predict(json.loads(line), batch_size=64, gpus=1, devices=device, progress_bar=False).scores
    print(json.dumps({"scores": scores}), file=answers, flush=True)
