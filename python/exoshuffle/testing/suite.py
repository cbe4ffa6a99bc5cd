"""The whole conformance suite as one class."""

from __future__ import annotations

from exoshuffle.testing.actors import ActorConformance
from exoshuffle.testing.errors import ErrorConformance
from exoshuffle.testing.lifecycle import LifecycleConformance
from exoshuffle.testing.references import ReferenceConformance
from exoshuffle.testing.resources import ResourceConformance
from exoshuffle.testing.shuffles import ShuffleConformance
from exoshuffle.testing.slices import SliceConformance
from exoshuffle.testing.streams import StreamConformance
from exoshuffle.testing.tasks import TaskConformance
from exoshuffle.testing.waiting import WaitConformance
from exoshuffle.testing.workers import WorkerConformance


class EngineConformance(
    TaskConformance,
    ReferenceConformance,
    SliceConformance,
    StreamConformance,
    ActorConformance,
    ErrorConformance,
    ResourceConformance,
    WaitConformance,
    WorkerConformance,
    ShuffleConformance,
    LifecycleConformance,
):
    """All laws. ``WaitConformance`` needs tasks that run at the same time, ``WorkerConformance`` worker processes."""
