"""An engine as a whole: its description of itself, its events, and its end."""

from __future__ import annotations

import pytest

import exoshuffle as xs
from exoshuffle.errors import ClosedError
from exoshuffle.futures import Engine, raise_errors, slice_bytes
from exoshuffle.futures.events import TaskFinished
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import Counter, helper, poll
from exoshuffle.testing.programs import big, double


class LifecycleConformance(Conformance):
    """Attributes, observers, ``close``."""

    def test_it_says_what_it_has(self, engine: Engine) -> None:
        assert engine.name
        assert engine.num_cpus == sum(node.resources["CPU"] for node in engine.nodes()) >= 2
        assert 0 < engine.budget_bytes <= engine.memory_limit
        assert isinstance(engine.spill_dirs, list)
        assert engine.spill_codec in (None, "lz4", "zstd")
        assert all(isinstance(value, int) for value in engine.stats().values())

    def test_observers_see_tasks_finish(self, engine: Engine) -> None:
        seen: list[object] = []
        engine.add_observer(seen.append)
        xs.get([xs.remote(double, name="watched").remote(i) for i in range(3)])

        def finished() -> list[TaskFinished]:
            events = [event for event in seen if isinstance(event, TaskFinished)]
            return [event for event in events if event.name == "watched"]

        poll(lambda: len(finished()) == 3)
        assert all(event.attempt == 1 and event.seconds >= 0 for event in finished())
        engine.remove_observer(seen.append)

    def test_nothing_works_after_close(self, engine: Engine) -> None:
        ref, large, counter = xs.remote(double).remote(1), xs.put(big(1)), helper(Counter)
        stream = xs.remote(lambda: iter("ab"), num_returns="streaming").remote()
        assert (xs.get(ref), xs.get(next(stream))) == (2, "a")
        engine.close()
        engine.close()
        for use in (
            lambda: xs.remote(double).remote(1),
            lambda: xs.put(1),
            lambda: xs.remote(Counter).remote(),
            counter.add.remote,
            lambda: xs.kill(counter),
            lambda: xs.get(ref),
            lambda: xs.get(large),
            lambda: xs.get(large[0], timeout=0),
            lambda: xs.wait([ref]),
            lambda: xs.cancel(ref),
            lambda: xs.locate(large),
            lambda: slice_bytes([large]),
            lambda: raise_errors([ref]),
            lambda: next(stream),
            xs.nodes,
        ):
            with pytest.raises(ClosedError):
                use()
        with pytest.raises(ClosedError, match="init"):
            xs.put(1)
