from .comparison import Comparison
from .recorded_run import RecordedRun, read_run
from .systems import compare_systems

__all__ = ["Comparison", "RecordedRun", "compare_systems", "read_run"]
