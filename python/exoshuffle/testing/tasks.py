"""Tasks: values in and out, the kinds of tasks, tasks inside tasks."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.programs import big, count, decorated, double, gathered, join, nest

VALUES = [
    None,
    True,
    -7,
    2**100,
    1.5,
    "ünïcode",
    b"bytes",
    "",
    b"",
    (),
    [1, [2, [3]]],
    {"a": {"b": ("c", 4)}},
    {1, 2},
    range(5),
]


def table_of_20_megabytes() -> pa.Table:
    """Returns a table of two and a half million random numbers."""
    count = 2_500_000
    numbers = pa.py_buffer(random.Random(7).randbytes(8 * count))
    return pa.table({"number": pa.Array.from_buffers(pa.int64(), count, [None, numbers])})


class TaskConformance(Conformance):
    """Values arrive as they were, however large they are and whatever makes them."""

    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_values_travel(self, value: object) -> None:
        (received,) = xs.get(xs.remote(gathered).remote(value))
        assert received == value
        assert type(received) is type(value)
        assert xs.get(xs.put(value)) == value

    def test_many_tasks(self, executor: str) -> None:
        run = xs.remote(double, executor=executor)
        assert xs.get([run.remote(i) for i in range(50)]) == [2 * i for i in range(50)]

    def test_chains(self, executor: str) -> None:
        ref = xs.put(1)
        for _ in range(10):
            ref = xs.remote(double, executor=executor).remote(ref)
        assert xs.get(ref) == 1024

    def test_keyword_arguments(self, executor: str) -> None:
        def subtract(left: int, *, right: int) -> int:
            return left - right

        run = xs.remote(subtract, executor=executor)
        assert xs.get(run.remote(left=5, right=3)) == 2
        assert xs.get(run.remote(xs.put(5), right=xs.put(3))) == 2

    def test_one_object_may_be_several_arguments(self, executor: str) -> None:
        ref = xs.put([1])
        run = xs.remote(gathered, executor=executor)
        assert xs.get(run.remote(ref, ref, ref)) == [[1], [1], [1]]
        assert xs.get([ref, ref]) == [[1], [1]]

    def test_what_can_be_a_task(self, executor: str) -> None:
        offset = 10

        class Adder:
            def __init__(self, amount: int) -> None:
                self.amount = amount

            def add(self, value: int) -> int:
                return self.amount + value

            def __call__(self, value: int) -> int:
                return self.add(value)

        def closure(value: int) -> int:
            return value + offset

        functions: list[Callable[[int], int]] = [closure, Adder(10).add, Adder(10)]
        functions += [functools.partial(closure), lambda value: value + 10]
        for function in functions:
            assert xs.get(xs.remote(function, executor=executor).remote(1)) == 11

    def test_decorated_functions(self, executor: str) -> None:
        assert xs.get(decorated.options(executor=executor).remote(1)) == 2
        with pytest.raises(TypeError, match="remote"):
            decorated(1)

    def test_nobody_else_sees_a_change(self, executor: str) -> None:
        def change(values: list[int]) -> int:
            values.append(4)
            return len(values)

        ref = xs.remote(lambda: [1, 2, 3], executor=executor).remote()
        xs.get(ref).append(4)
        run = xs.remote(change, executor=executor)
        assert xs.get([run.remote(ref), run.remote(ref)]) == [4, 4]
        assert xs.get(ref) == [1, 2, 3]

    def test_nesting_is_deeper_than_the_cpus(self, executor: str) -> None:
        assert xs.get(xs.remote(nest, executor=executor).remote(6)) == 6

    @pytest.mark.parametrize("inner", ["process", "thread"])
    def test_tasks_start_tasks_of_another_kind(self, executor: str, inner: str) -> None:
        def outer(inner: str, inside: list[xs.Ref]) -> list[int]:
            run = xs.remote(lambda value, of: value * len(xs.get(of[0])), executor=inner)
            stream = xs.remote(count, executor=inner, num_returns="streaming").remote(xs.put(3))
            return [int(xs.get(run.remote(xs.put(2), inside))), *map(xs.get, stream)]

        made = xs.remote(outer, executor=executor).remote(inner, [xs.put(big(1))])
        assert xs.get(made) == [2 * len(big(1)), 0, 1, 2]

    def test_tasks_spread_out_inside_a_task(self, executor: str) -> None:
        def spread(width: int) -> list[int]:
            refs = [xs.remote(double).remote(xs.put(i)) for i in range(width)]
            done, _ = xs.wait(refs, num_ready=width)
            return list(xs.get(done))

        assert xs.get(xs.remote(spread, executor=executor).remote(10)) == list(range(0, 20, 2))

    def test_megabytes(self, executor: str) -> None:
        refs = [xs.remote(big, executor=executor).remote(i) for i in range(8)]
        assert xs.get(refs) == [big(i) for i in range(8)]
        joined = xs.remote(join, executor=executor).remote(*refs)
        assert xs.get(joined) == join(*(big(i) for i in range(8)))

    def test_five_megabytes_of_bytes(self, executor: str) -> None:
        value = random.Random(5).randbytes(5_000_000)
        ref = xs.put(value)
        (by_reference,) = xs.get(xs.remote(gathered, executor=executor).remote(ref))
        (by_value,) = xs.get(xs.remote(gathered, executor=executor).remote(value))
        assert by_reference == by_value == value

    def test_twenty_megabytes_of_arrow(self, executor: str) -> None:
        table = table_of_20_megabytes()

        def turn(received: pa.Table) -> pa.Table:
            return received.append_column("twin", received["number"])

        twins = xs.get(xs.remote(turn, executor=executor).remote(xs.put(table)))
        assert twins["number"] == twins["twin"] == table["number"]

    def test_received_arrays_are_read_only(self, executor: str) -> None:
        def write(received: pa.Array) -> str:
            try:
                memoryview(received.buffers()[1])[:1] = b"x"
            except TypeError:
                return "refused"
            return "written"

        array = table_of_20_megabytes()["number"].chunk(0)
        ref = xs.put(array)
        assert xs.get(xs.remote(write, executor=executor).remote(ref)) == "refused"
        assert memoryview(xs.get(ref).buffers()[1]).readonly
        assert xs.get(ref) == array
