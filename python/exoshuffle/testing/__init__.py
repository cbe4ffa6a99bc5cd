"""The laws that every engine keeps, as tests to import, and an engine that fails by script.

The author of an engine gives pytest a fixture that starts it and a class::

    import pytest
    import exoshuffle as xs
    from exoshuffle.testing import EngineConformance

    @pytest.fixture
    def engine():
        yield xs.init(MyEngine(num_cpus=2, num_gpus=1, resources={"token": 1}))
        xs.shutdown()

    class TestMyEngine(EngineConformance):
        pass

``Conformance`` says what the fixture has to provide, and the parts of ``EngineConformance`` say what is tested.

Why the names are loaded on first use: workers import this package for the programs of the tests. They must not need
pytest, which the conformance classes import.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exoshuffle.testing.actors import ActorConformance
    from exoshuffle.testing.conformance import Conformance
    from exoshuffle.testing.errors import ErrorConformance
    from exoshuffle.testing.lifecycle import LifecycleConformance
    from exoshuffle.testing.references import ReferenceConformance
    from exoshuffle.testing.resources import ResourceConformance
    from exoshuffle.testing.scripted import ScriptedEngine, failing
    from exoshuffle.testing.shuffles import ShuffleConformance, assert_every_row_arrives
    from exoshuffle.testing.slices import SliceConformance
    from exoshuffle.testing.streams import StreamConformance
    from exoshuffle.testing.suite import EngineConformance
    from exoshuffle.testing.tasks import TaskConformance
    from exoshuffle.testing.waiting import WaitConformance
    from exoshuffle.testing.workers import WorkerConformance

__all__ = [
    "ActorConformance",
    "Conformance",
    "EngineConformance",
    "ErrorConformance",
    "LifecycleConformance",
    "ReferenceConformance",
    "ResourceConformance",
    "ScriptedEngine",
    "ShuffleConformance",
    "SliceConformance",
    "StreamConformance",
    "TaskConformance",
    "WaitConformance",
    "WorkerConformance",
    "assert_every_row_arrives",
    "failing",
]

_HOMES = {
    "ActorConformance": "actors",
    "Conformance": "conformance",
    "EngineConformance": "suite",
    "ErrorConformance": "errors",
    "LifecycleConformance": "lifecycle",
    "ReferenceConformance": "references",
    "ResourceConformance": "resources",
    "ScriptedEngine": "scripted",
    "ShuffleConformance": "shuffles",
    "SliceConformance": "slices",
    "StreamConformance": "streams",
    "TaskConformance": "tasks",
    "WaitConformance": "waiting",
    "WorkerConformance": "workers",
    "assert_every_row_arrives": "shuffles",
    "failing": "scripted",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _HOMES[name] != "scripted":
        _explain_assertions()
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def _explain_assertions() -> None:
    """Has pytest show the values in failed assertions of the suite, as it does in test files."""
    import pytest

    modules = {f"{__name__}.{home}" for home in _HOMES.values()}
    # pytest warns of modules that it comes too late for.
    pytest.register_assert_rewrite(*modules.difference(sys.modules))
