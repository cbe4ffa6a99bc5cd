"""Resources, nodes and options: demands are kept apart, and impossible ones are refused at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Engine
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import Counter, Log, Overlap, helper, take_turn
from exoshuffle.testing.programs import big, double, gathered

IMPOSSIBLE: list[dict[str, object]] = [
    {"num_cpus": 10_000},
    {"num_gpus": 10_000},
    {"resources": {"token": 2}},
    {"resources": {"unheard of": 1}},
    {"memory": 10**15},
]


class ResourceConformance(Conformance):
    """The fixture's engine has 2 CPUs or more, 1 GPU and 1 ``token``."""

    @pytest.mark.parametrize("demand", IMPOSSIBLE, ids=str)
    def test_impossible_demands_fail_at_once(self, executor: str, demand: dict[str, Any]) -> None:
        with pytest.raises(OptionsError):
            xs.remote(double, executor=executor, **demand).remote(1)
        with pytest.raises(OptionsError):
            xs.remote(Counter, executor=executor, **demand).remote()

    @pytest.mark.parametrize("demand", [{"resources": {"token": 1}}, {"num_gpus": 1}], ids=str)
    def test_one_at_a_time(self, executor: str, demand: dict[str, Any]) -> None:
        overlap = helper(Overlap)
        run = xs.remote(take_turn, executor=executor, **demand)
        xs.get([run.remote(overlap) for _ in range(4)])
        assert xs.get(overlap.most.remote()) == 1

    def test_fractions_and_nothing(self, executor: str) -> None:
        half = xs.remote(double, executor=executor, num_cpus=0.5, resources={"token": 0.5})
        none = xs.remote(double, executor=executor, num_cpus=0)
        refs = [run.remote(i) for i in range(4) for run in (half, none)]
        assert xs.get(refs) == [0, 0, 2, 2, 4, 4, 6, 6]

    def test_working_memory(self, engine: Engine, executor: str) -> None:
        run = xs.remote(double, executor=executor, memory=engine.budget_bytes // 2)
        assert xs.get([run.remote(i) for i in range(4)]) == [0, 2, 4, 6]

    def test_nodes_say_what_they_have(self, engine: Engine) -> None:
        nodes = xs.nodes()
        assert len({node.name for node in nodes}) == len(nodes) >= 1
        for name, amount in {"CPU": engine.num_cpus, "GPU": 1, "token": 1}.items():
            assert sum(node.resources.get(name, 0) for node in nodes) == amount

    def test_nodes_are_a_preference(self, executor: str) -> None:
        for name in (*(node.name for node in xs.nodes()), "no such node"):
            assert xs.get(xs.remote(double, executor=executor, node=name).remote(2)) == 4
            counter = xs.remote(Counter, executor=executor, node=name).remote()
            assert xs.get(counter.add.remote()) == 1

    def test_objects_are_on_nodes(self, executor: str) -> None:
        names = {node.name for node in xs.nodes()}
        made = xs.remote(big, executor=executor).remote(1)
        xs.wait([made])
        for ref in (made, xs.put(big(2))):
            places = xs.locate(ref)
            assert places
            assert set(places) <= names

    def test_unknown_options_are_named(self) -> None:
        with pytest.raises(OptionsError, match="unknown option 'num_gpu'"):
            xs.remote(double, num_gpu=1)
        with pytest.raises(OptionsError, match="unknown option 'num_returns'"):
            xs.remote(Counter, num_returns=2)
        with pytest.raises(OptionsError, match="num_returns is 0"):
            xs.remote(double, num_returns=0)

    def test_functions_that_cannot_be_pickled_are_named(self) -> None:
        lock = threading.Lock()

        def closes_over_a_lock() -> bool:
            return lock.locked()

        with pytest.raises(OptionsError, match="closes_over_a_lock"):
            xs.remote(closes_over_a_lock).remote()

    def test_arguments_that_cannot_be_pickled_are_named(self) -> None:
        lock = threading.Lock()
        with pytest.raises(OptionsError, match="value"):
            xs.remote(double).remote(value=lock)
        with pytest.raises(OptionsError, match="take_no_locks"):
            xs.remote(gathered, name="take_no_locks").remote(1, [lock])
        with pytest.raises(OptionsError):
            xs.remote(Counter).remote(lock)
        with pytest.raises(OptionsError):
            xs.remote(Log).remote().append.remote(lock)
