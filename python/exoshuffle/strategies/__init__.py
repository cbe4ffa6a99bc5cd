"""Shuffle as a library: strategies (when and where), their plans, and shuffles of your own functions."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exoshuffle.plan.candidate import Basis, Candidate
    from exoshuffle.plan.plan import ShufflePlan
    from exoshuffle.plan.workload import Resources, Workload
    from exoshuffle.strategies.functions import shuffle
    from exoshuffle.strategies.library import Auto, get_strategy, plan_shuffle
    from exoshuffle.strategies.mechanisms.best_effort import BestEffort
    from exoshuffle.strategies.mechanisms.in_flight import as_finished
    from exoshuffle.strategies.mechanisms.merge_policy import (
        FixedBlockSize,
        FixedFiles,
        MergePolicy,
    )
    from exoshuffle.strategies.mechanisms.speculation import Speculation
    from exoshuffle.strategies.pre_shuffle_merge import MergeOptions, PreShuffleMerge
    from exoshuffle.strategies.push import Push
    from exoshuffle.strategies.simple import Simple
    from exoshuffle.strategies.strategy import Around, PlannedStrategy, Strategy
    from exoshuffle.strategies.streaming import Round, Streaming
    from exoshuffle.strategies.task_set import StreamingTaskSet, TaskSet, stage

__all__ = [
    "Around",
    "Auto",
    "Basis",
    "BestEffort",
    "Candidate",
    "FixedBlockSize",
    "FixedFiles",
    "MergeOptions",
    "MergePolicy",
    "PlannedStrategy",
    "PreShuffleMerge",
    "Push",
    "Resources",
    "Round",
    "ShufflePlan",
    "Simple",
    "Speculation",
    "Strategy",
    "Streaming",
    "StreamingTaskSet",
    "TaskSet",
    "Workload",
    "as_finished",
    "get_strategy",
    "plan_shuffle",
    "shuffle",
    "stage",
]

#: Where each name is defined. A job that needs no shuffle imports no strategies: they would take 15 ms of its start.
_HOMES = {
    "Around": "strategies.strategy",
    "Auto": "strategies.library",
    "Basis": "plan.candidate",
    "BestEffort": "strategies.mechanisms.best_effort",
    "Candidate": "plan.candidate",
    "FixedBlockSize": "strategies.mechanisms.merge_policy",
    "FixedFiles": "strategies.mechanisms.merge_policy",
    "MergeOptions": "strategies.pre_shuffle_merge",
    "MergePolicy": "strategies.mechanisms.merge_policy",
    "PlannedStrategy": "strategies.strategy",
    "PreShuffleMerge": "strategies.pre_shuffle_merge",
    "Push": "strategies.push",
    "Resources": "plan.workload",
    "Round": "strategies.streaming",
    "ShufflePlan": "plan.plan",
    "Simple": "strategies.simple",
    "Speculation": "strategies.mechanisms.speculation",
    "Strategy": "strategies.strategy",
    "Streaming": "strategies.streaming",
    "StreamingTaskSet": "strategies.task_set",
    "TaskSet": "strategies.task_set",
    "Workload": "plan.workload",
    "as_finished": "strategies.mechanisms.in_flight",
    "get_strategy": "strategies.library",
    "plan_shuffle": "strategies.library",
    "shuffle": "strategies.functions",
    "stage": "strategies.task_set",
}


def __getattr__(name: str) -> object:
    """Imports the module of a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"exoshuffle.{_HOMES[name]}"), name)
