"""Shuffle as a library: plans (how much) and strategies (when and where)."""

from exoshuffle.shuffle.plan import Resources, ShufflePlan, Workload, plan_shuffle
from exoshuffle.shuffle.push import Push
from exoshuffle.shuffle.simple import Simple
from exoshuffle.shuffle.strategy import Strategy, TaskSet, get_strategy

__all__ = [
    "Push",
    "Resources",
    "ShufflePlan",
    "Simple",
    "Strategy",
    "TaskSet",
    "Workload",
    "get_strategy",
    "plan_shuffle",
]
