"""Objects of several slices: one, some, all of them, columns through many objects, and raw blocks."""

from __future__ import annotations

import pytest

import exoshuffle as xs
from exoshuffle.errors import EngineError, TaskError
from exoshuffle.testing.conformance import Conformance
from exoshuffle.testing.programs import big, fill, gathered, join, names, positions


class SliceConformance(Conformance):
    """``ref[i]`` is one value, ``ref[a:b]`` a list, ``refs.column(i)`` one of each."""

    def test_small_slices(self, executor: str) -> None:
        ref = xs.remote(names, num_returns=4, executor=executor).remote("s")
        assert len(ref) == 4
        assert xs.get(ref) == ["s0", "s1", "s2", "s3"]
        assert xs.get(ref[2]) == "s2"
        assert [xs.get(part) for part in ref] == ["s0", "s1", "s2", "s3"]
        assert xs.get(xs.remote(gathered, executor=executor).remote(ref, ref[3])) == [
            ["s0", "s1", "s2", "s3"],
            "s3",
        ]

    def test_large_slices(self, executor: str) -> None:
        values = [big(1), b"", big(2, 70_001), big(3)]
        ref = xs.remote(lambda: values, num_returns=4, executor=executor).remote()
        assert xs.get(list(ref)) == values
        assert xs.get(ref[1:3]) == values[1:3]
        assert xs.get(xs.remote(join, executor=executor).remote(ref[3], ref[2])) == join(
            values[3], values[2]
        )

    def test_ranges_are_one_list(self, executor: str) -> None:
        ref = xs.remote(names, num_returns=6, executor=executor).remote("r", 6)
        assert xs.get(ref[1:4]) == ["r1", "r2", "r3"]
        assert xs.get(ref[:]) == xs.get(ref)
        assert xs.get(ref[-2:]) == ["r4", "r5"]
        assert xs.get(ref[2:3]) == ["r2"]
        assert xs.get(ref[3:3]) == []
        run = xs.remote(gathered, executor=executor)
        assert xs.get(run.remote(ref[0:2], ref[5:], ref[4])) == [["r0", "r1"], ["r5"], "r4"]

    def test_there_are_no_other_slices(self) -> None:
        ref = xs.remote(names, num_returns=4).remote("s")
        for index in (4, -1):
            with pytest.raises(IndexError):
                ref[index]
        with pytest.raises(IndexError, match="step"):
            ref[::2]

    def test_one_return_is_the_value_itself(self, executor: str) -> None:
        ref = xs.remote(lambda: ["only"], executor=executor).remote()
        assert len(ref) == 1
        assert xs.get(ref) == ["only"]
        assert xs.get(ref[0]) == ["only"]

    def test_columns_and_sequences(self, executor: str) -> None:
        run = xs.remote(names, num_returns=4, executor=executor)
        refs = xs.Refs(run.remote(n) for n in range(3))
        look = xs.remote(gathered, executor=executor)
        assert xs.get(look.remote(refs.column(2))) == [["02", "12", "22"]]
        assert xs.get(look.remote(refs, refs.column(0))) == [
            [names(n) for n in range(3)],
            ["00", "10", "20"],
        ]
        assert xs.get([look.remote(refs.column(i)) for i in range(4)]) == [
            [[f"{n}{i}" for n in range(3)]] for i in range(4)
        ]

    def test_columns_of_objects_that_have_some_of_the_columns(self, executor: str) -> None:
        run = xs.remote(names, num_returns=4, executor=executor)
        cut = xs.remote(lambda slices: [*slices], num_returns=2, executor=executor)
        whole = [run.remote(n) for n in range(3)]
        refs = xs.Refs([whole[0], cut.remote(whole[1][2:4]), whole[2]], [0, 2, 0])
        look = xs.remote(gathered, executor=executor)
        found = [look.remote(refs.column(i)) for i in (3, 2)]
        assert xs.get(found) == [[["03", "13", "23"]], [["02", "12", "22"]]]
        assert xs.get([refs.slice(number, 3) for number in range(3)]) == ["03", "13", "23"]
        with pytest.raises(ValueError, match="1 first columns for 3 references"):
            xs.Refs(whole, [2])

    def test_empty_sequences(self, executor: str) -> None:
        refs = xs.Refs([])
        look = xs.remote(gathered, executor=executor)
        assert xs.get(look.remote(refs, refs.column(0))) == [[], []]

    def test_columns_of_large_slices(self, executor: str) -> None:
        run = xs.remote(lambda n: [big(n), big(n + 1)], num_returns=2, executor=executor)
        refs = xs.Refs(run.remote(n) for n in range(4))
        joined = xs.remote(join, executor=executor)
        total = xs.remote(lambda parts: join(*parts), executor=executor).remote(refs.column(1))
        assert xs.get(total) == join(*(big(n + 1) for n in range(4)))
        assert xs.get(joined.remote(refs[3][0])) == big(3)

    @pytest.mark.parametrize("returned", [[1, 2], [1, 2, 3, 4], (), "abc", 7], ids=repr)
    def test_the_number_of_values_is_checked(self, executor: str, returned: object) -> None:
        ref = xs.remote(lambda: returned, num_returns=3, executor=executor).remote()
        with pytest.raises(TaskError, match="num_returns is 3") as caught:
            xs.get(ref)
        assert caught.value.attempt == 1

    def test_raw_blocks(self, executor: str) -> None:
        ref = xs.remote(fill, num_returns=3, executor=executor).remote([0, 3, 3, 8])
        assert [bytes(value) for value in xs.get(ref)] == [b"\0\1\2", b"", b"\3\4\5\6\7"]
        assert [bytes(value) for value in xs.get(ref[1:])] == [b"", b"\3\4\5\6\7"]
        assert bytes(xs.get(ref[2])) == b"\3\4\5\6\7"

    def test_large_raw_blocks(self, executor: str) -> None:
        offsets = [0, 1_000_003, 1_000_003, 3_000_000]
        ref = xs.remote(fill, num_returns=3, executor=executor).remote(offsets)
        joined = xs.remote(join, executor=executor).remote(ref[0], ref[2])
        whole = positions(0, 3_000_000)
        assert xs.get(joined) == whole
        assert bytes(xs.get(ref[2])) == whole[1_000_003:]

    def test_raw_blocks_are_read_only(self, executor: str) -> None:
        ref = xs.remote(fill, num_returns=2, executor=executor).remote([0, 500, 200_000])
        look = xs.remote(lambda part: memoryview(part).readonly, executor=executor)
        assert xs.get([look.remote(ref[0]), look.remote(ref[1])]) == [True, True]
        assert memoryview(xs.get(ref[1])).readonly

    def test_a_raw_block_of_one_slice_is_that_slice(self, executor: str) -> None:
        ref = xs.remote(fill, executor=executor).remote([0, 5])
        assert bytes(xs.get(ref)) == positions(0, 5)

    def test_a_block_can_be_allocated_after_a_task_inside(self, executor: str) -> None:
        def ask_and_fill() -> object:
            size = xs.get(xs.remote(len).remote("abcde"))
            return fill([0, size])

        ref = xs.remote(ask_and_fill, executor=executor).remote()
        assert bytes(xs.get(ref)) == positions(0, 5)

    def test_the_slices_of_a_raw_block_are_checked(self, executor: str) -> None:
        ref = xs.remote(fill, num_returns=2, executor=executor).remote([0, 5])
        with pytest.raises(TaskError, match="num_returns is 2"):
            xs.get(ref)

    def test_sizes_of_slices(self, executor: str) -> None:
        offsets = [0, 1_000_003, 1_000_003, 1_000_010]
        large = xs.remote(fill, num_returns=3, executor=executor).remote(offsets)
        small = xs.remote(fill, executor=executor).remote([0, 5])
        values = xs.remote(lambda: [big(1), "", 7], num_returns=3, executor=executor).remote()
        of_large, of_small, of_values, of_put = xs.slice_bytes(
            [large, small, values, xs.put(big(2))]
        )
        assert (of_large, of_small) == ([1_000_003, 0, 7], [5])
        assert len(of_values) == 3
        assert len(of_put) == 1
        # Pickles are a little larger than their values.
        assert of_values[0] >= len(big(1)) > max(of_values[1:])
        assert of_put[0] >= len(big(2))
        assert xs.slice_bytes([]) == []

    def test_sizes_are_known_inside_tasks(self, executor: str) -> None:
        ref = xs.remote(fill, num_returns=2, executor=executor).remote([0, 3, 70_000])
        look = xs.remote(xs.slice_bytes, executor=executor)
        assert xs.get(look.remote([ref])) == [[3, 69_997]]

    def test_what_failed_has_no_sizes(self, executor: str) -> None:
        ref = xs.remote(lambda: 1 // 0, executor=executor, name="divide").remote()
        with pytest.raises(TaskError, match="divide"):
            xs.slice_bytes([ref])

    def test_blocks_are_for_tasks(self) -> None:
        with pytest.raises(EngineError, match="inside a task"):
            xs.allocate_block([0, 5])
