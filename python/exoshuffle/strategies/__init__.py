"""Shuffle as a library: strategies (when and where), their plans, and shuffles of your own functions."""

from exoshuffle.plan.candidate import Basis, Candidate
from exoshuffle.plan.plan import ShufflePlan
from exoshuffle.plan.workload import Resources, Workload
from exoshuffle.strategies.functions import shuffle
from exoshuffle.strategies.library import Auto, get_strategy, plan_shuffle
from exoshuffle.strategies.mechanisms.best_effort import BestEffort
from exoshuffle.strategies.mechanisms.merge_policy import FixedBlockSize, FixedFiles, MergePolicy
from exoshuffle.strategies.mechanisms.speculation import Speculation, as_finished
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
