from .mixin import EvaluatorMixin
from .prompts import Prompts

__all__ = ["EvaluatorMixin", "Prompts"]
