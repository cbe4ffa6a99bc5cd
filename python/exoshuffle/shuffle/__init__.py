"""Shuffle as a library: plans (how much), strategies (when and where) and the mechanisms that strategies share."""

from exoshuffle.shuffle.best_effort import BestEffort
from exoshuffle.shuffle.functions import shuffle
from exoshuffle.shuffle.merge_policy import FixedBlockSize, FixedFiles, MergePolicy
from exoshuffle.shuffle.plan import Resources, ShufflePlan, Workload, plan_shuffle
from exoshuffle.shuffle.pre_shuffle_merge import MergeOptions, PreShuffleMerge
from exoshuffle.shuffle.push import Push
from exoshuffle.shuffle.simple import Simple
from exoshuffle.shuffle.speculation import Speculation, as_finished
from exoshuffle.shuffle.strategy import Strategy, StreamingTaskSet, TaskSet, get_strategy
from exoshuffle.shuffle.streaming import Round, Streaming

__all__ = [
    "BestEffort",
    "FixedBlockSize",
    "FixedFiles",
    "MergeOptions",
    "MergePolicy",
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
]
