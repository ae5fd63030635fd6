from .mixin import EvaluatorMixin, add_evaluator
from .prompts import Prompts

__all__ = ["EvaluatorMixin", "Prompts", "add_evaluator"]
