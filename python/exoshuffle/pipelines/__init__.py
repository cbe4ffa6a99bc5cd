"""The scheduling of pipelines: policies, a simulator over the same policies, and the optimum they are measured by.

>>> import exoshuffle as xs
>>> stages = (xs.pipelines.Stage("load", 5, takes=0, makes=5), xs.pipelines.Stage("train", 1, makes=0))
>>> pipeline = xs.pipelines.Pipeline(stages, num_tasks=8, slots={"CPU": 4}, memory=10)
>>> xs.pipelines.simulate(pipeline).seconds
22.0
"""

from exoshuffle.pipelines.picture import picture
from exoshuffle.pipelines.pipeline import Pipeline, Stage
from exoshuffle.pipelines.policies import (
    Balanced,
    Broad,
    Budgeted,
    Conservative,
    Eager,
    Foresight,
    Policy,
    Shared,
    Staged,
    Static,
)
from exoshuffle.pipelines.simulation import Run, Schedule, simulate
from exoshuffle.pipelines.solver import optimum

__all__ = [
    "Balanced",
    "Broad",
    "Budgeted",
    "Conservative",
    "Eager",
    "Foresight",
    "Pipeline",
    "Policy",
    "Run",
    "Schedule",
    "Shared",
    "Stage",
    "Staged",
    "Static",
    "optimum",
    "picture",
    "simulate",
]
