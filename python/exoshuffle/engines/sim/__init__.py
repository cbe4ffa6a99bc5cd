"""An engine in virtual time: what a shuffle would take on a cluster, and what it does when things go wrong."""

from __future__ import annotations

from exoshuffle.engines.sim.cluster.description import Cluster, Disk, Machine, ObjectStorage
from exoshuffle.engines.sim.engine import SimEngine
from exoshuffle.engines.sim.faults import Faults, SeededFaults
from exoshuffle.engines.sim.models import Call, Cost, CostModel, Step
from exoshuffle.engines.sim.runs.estimate import Estimate, estimate
from exoshuffle.engines.sim.runs.question import Question
from exoshuffle.engines.sim.runs.report import Report
from exoshuffle.engines.sim.runs.scenario import Scenario
from exoshuffle.engines.sim.runs.simulate import simulate

__all__ = [
    "Call",
    "Cluster",
    "Cost",
    "CostModel",
    "Disk",
    "Estimate",
    "Faults",
    "Machine",
    "ObjectStorage",
    "Question",
    "Report",
    "Scenario",
    "SeededFaults",
    "SimEngine",
    "Step",
    "estimate",
    "simulate",
]
