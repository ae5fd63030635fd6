"""What the user passed as metrics, as an evaluator uses it: functions, and metrics of other packages."""
