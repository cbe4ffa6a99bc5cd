"""References: as arguments, inside containers, returned, kept by others; and how long objects live."""

from __future__ import annotations

import copy
import gc

import exoshuffle as xs
from exoshuffle.futures import Value
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.meeting import Log
from exoshuffle.testing.programs import Keeper, big, double, gathered


class ReferenceConformance(Conformance):
    """A reference stands for a value, wherever it is, and keeps it alive."""

    def test_arguments_are_resolved(self, executor: str) -> None:
        ref, run = xs.put(20), xs.remote(double, executor=executor)
        assert xs.get(run.remote(ref)) == 40
        assert xs.get(run.remote(value=ref)) == 40

    def test_inside_containers_they_stay_references(self, executor: str) -> None:
        def look(inside: dict[str, Value]) -> list[Value]:
            ref, index = inside["list"][0], inside["pair"][1]
            return [isinstance(ref, xs.Ref), xs.get(ref), xs.get(index)]

        whole = xs.put("whole")
        parts = xs.remote(lambda: ["a", "b", "c"], num_returns=3).remote()
        inside = {"list": [whole], "pair": (0, parts[1])}
        assert xs.get(xs.remote(look, executor=executor).remote(inside)) == [True, "whole", "b"]

    def test_sequences_inside_containers_can_be_passed_on(self, executor: str) -> None:
        def look(inside: list[object]) -> list[object]:
            return list(xs.get(xs.remote(gathered).remote(*inside)))

        split = xs.remote(lambda n: [n, 10 * n], num_returns=2)
        refs = xs.Refs(split.remote(n) for n in (1, 2, 3))
        seen = xs.get(xs.remote(look, executor=executor).remote([refs, refs.column(1)]))
        assert seen == [[[1, 10], [2, 20], [3, 30]], [10, 20, 30]]

    def test_tasks_get_what_is_not_made_yet(self, executor: str) -> None:
        ref = xs.put(1)
        for _ in range(5):
            ref = xs.remote(double).remote(ref)
        look = xs.remote(lambda inside: xs.get(inside[0]), executor=executor)
        assert xs.get(look.remote([ref])) == 32

    def test_a_task_returns_a_reference(self, executor: str) -> None:
        returned = xs.get(xs.remote(lambda: xs.put(big(3)), executor=executor).remote())
        assert isinstance(returned, xs.Ref)
        assert xs.get(returned) == big(3)

    def test_a_task_returns_references_to_tasks(self, executor: str) -> None:
        def start(count: int) -> list[xs.Ref]:
            return [xs.remote(double).remote(i) for i in range(count)]

        outer = xs.remote(start, executor=executor).remote(5)
        inner = xs.get(outer)
        del outer
        gc.collect()
        assert xs.get(inner) == [0, 2, 4, 6, 8]
        assert xs.get(xs.remote(gathered).remote(*inner)) == [0, 2, 4, 6, 8]

    def test_a_task_returns_a_slice(self, executor: str) -> None:
        def start() -> object:
            return {"slice": xs.remote(lambda: [big(1), big(2)], num_returns=2).remote()[1]}

        assert xs.get(xs.get(xs.remote(start, executor=executor).remote())["slice"]) == big(2)

    def test_references_inside_objects_inside_references(self) -> None:
        innermost = xs.put(big(9))
        outermost = xs.put([xs.put([innermost])])
        del innermost
        gc.collect()
        (middle,) = xs.get(outermost)
        del outermost
        gc.collect()
        (innermost,) = xs.get(middle)
        assert xs.get(innermost) == big(9)

    def test_an_argument_that_is_passed_back(self, executor: str) -> None:
        ref = xs.put(big(4))
        back = xs.remote(lambda inside: inside[0], executor=executor).remote([ref])
        del ref
        gc.collect()
        assert xs.get(xs.get(back)) == big(4)

    def test_an_actor_keeps_what_the_giver_dropped(self, executor: str) -> None:
        keeper = xs.remote(Keeper, executor=executor).remote()
        ref, made = xs.put(big(1)), xs.remote(big).remote(2)
        xs.get(keeper.keep.remote([ref], [made]))
        del ref, made
        gc.collect()
        assert xs.get(keeper.value.remote(0)) == big(1)
        assert [xs.get(ref) for ref in xs.get(keeper.give.remote())] == [big(1), big(2)]

    def test_an_actor_keeps_what_a_task_made(self, executor: str) -> None:
        def give(keeper: xs.ActorHandle) -> None:
            xs.get(keeper.keep.remote([xs.put(big(5)), xs.remote(big).remote(6)]))

        keeper = xs.remote(Keeper, executor=executor).remote()
        xs.get(xs.remote(give, executor=executor).remote(keeper))
        assert xs.get(keeper.value.remote(0)) == big(5)
        assert xs.get(keeper.value.remote(1)) == big(6)

    def test_arguments_of_tasks_that_have_not_run_live(self, executor: str) -> None:
        chain = xs.put(1)
        for _ in range(5):
            chain = xs.remote(double).remote(chain)
        held = xs.remote(big).remote(7)
        measure = xs.remote(lambda _late, value, inside: (len(value), len(xs.get(inside[0]))))
        result = measure.options(executor=executor).remote(chain, held, [xs.put(big(8))])
        del held, chain
        gc.collect()
        assert xs.get(result) == (1_000_000, 1_000_000)

    def test_copies_are_references_too(self) -> None:
        ref = xs.put(big(2))
        twin = copy.copy(ref)
        del ref
        gc.collect()
        assert xs.get(twin) == big(2)

    def test_calls_pass_references_on(self, executor: str) -> None:
        log = xs.remote(Log, executor=executor).remote()
        xs.get(log.append.remote([xs.put("kept")]))
        xs.get(log.append.remote(xs.put("resolved")))
        (kept, resolved) = xs.get(log.items.remote())
        assert xs.get(kept[0]) == "kept"
        assert resolved == "resolved"
