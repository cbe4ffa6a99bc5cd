"""How objects are divided among the objects of Ray, without Ray: parts, their sizes, where slices are."""

from __future__ import annotations

import pickle
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.engines.ray.calls import Arguments, span_of
from exoshuffle.engines.ray.objects import MAX_PARTS, USUAL_PARTS, Origin, RayObject, Shape
from exoshuffle.engines.ray.values import (
    SMALL_PART_BYTES,
    STORED_BYTES,
    Block,
    ValuePart,
    encode,
    pack,
)
from exoshuffle.futures.options import TaskOptions
from exoshuffle.futures.refs import Ref


@given(st.integers(1, 5000), st.integers(0, 1000))
def test_shapes(num_slices: int, parts_of_arguments: int) -> None:
    shape = Shape.of(TaskOptions(num_returns=num_slices), parts_of_arguments)
    assert 1 <= shape.num_parts <= min(num_slices, MAX_PARTS)
    assert [index for part in shape.parts for index in part] == list(range(num_slices))
    assert len({len(part) for part in shape.parts[:-1]}) <= 1
    assert all(index in shape.parts[shape.part_of(index)] for index in range(num_slices))
    if num_slices <= USUAL_PARTS:
        assert shape.num_parts == num_slices


def test_slices_that_are_taken_together_are_in_one_part() -> None:
    assert Shape.of(TaskOptions(num_returns=100, cuts=()), 0) == Shape(100, (0,))


@pytest.mark.parametrize(("num_blocks", "num_parts"), [(1, 32), (2, 32), (4, 64), (20, MAX_PARTS)])
def test_merges_of_them_have_parts_of_their_own(num_blocks: int, num_parts: int) -> None:
    shape = Shape.of(TaskOptions(num_returns=1024, cuts=()), 0)
    block = Ref(RayObject((mock.Mock(),), None, shape, Origin("")))
    taken = Arguments("merge", (block,) * num_blocks, {})
    assert len(taken.parts) == num_blocks
    assert Shape.of(TaskOptions(num_returns=1024), taken.whole_parts).num_parts == num_parts


@given(st.data())
def test_every_slice_is_found(data: st.DataObject) -> None:
    num_slices = data.draw(st.integers(1, 300))
    start = data.draw(st.integers(0, num_slices))
    stop = data.draw(st.integers(start, num_slices))
    cuts = data.draw(st.sets(st.integers(1, max(1, num_slices - 1)))) - {num_slices}
    options = TaskOptions(num_returns=num_slices, cuts=tuple(sorted(cuts)))
    shape = Shape.of(options, 0)
    encoded = encode(
        list(range(num_slices)) if num_slices > 1 else 0,
        shape,
    )
    found = RayObject(tuple(encoded), None, shape, Origin(""))  # type: ignore[arg-type]
    for index in (None, range(start, stop), min(start, num_slices - 1)):
        chosen, span = span_of(found, index, first=5)
        value = span.fill([*"abcde", *chosen])  # type: ignore[arg-type]
        if index is None:
            assert value == (list(range(num_slices)) if num_slices > 1 else 0)
        else:
            assert value == (list(index) if isinstance(index, range) else index)
            wanted = index if isinstance(index, range) else range(index, index + 1)
            touched = [part for part in shape.parts if set(part) & set(wanted)]
            assert len(chosen) == len(touched)


@pytest.mark.parametrize("slice_bytes", [1, 700, 40_000])
def test_parts_are_small_or_stored(slice_bytes: int) -> None:
    shape = Shape.of(TaskOptions(num_returns=100), 0)
    for value in (
        Block.allocate([slice_bytes * i for i in range(101)]),
        [bytes(slice_bytes) for _ in range(100)],
    ):
        parts = encode(value, shape)
        sizes = [part.num_bytes + memoryview(part.padding).nbytes for part in parts]
        mean = sum(part.num_bytes for part in parts) / len(parts)
        assert max(sizes) < STORED_BYTES if mean <= SMALL_PART_BYTES else min(sizes) >= STORED_BYTES


def test_one_value_is_not_padded() -> None:
    (part,) = encode(bytes(50_000), Shape(1))
    assert memoryview(part.padding).nbytes == 0


def test_buffers_are_not_copied_into_pickles() -> None:
    part = encode(Block.allocate([0, 10, 1_000_000]), Shape.of(TaskOptions(num_returns=2), 0))[1]
    buffers: list[pickle.PickleBuffer] = []
    assert len(pickle.dumps(part, protocol=5, buffer_callback=buffers.append)) < 1000
    again = pickle.loads(pickle.dumps(part, protocol=5))  # noqa: S301  written just now
    assert again[0] == part[0]
    assert part[0].readonly


def test_memoryviews_can_travel() -> None:
    packed = pack({"view": memoryview(b"abc")})
    assert packed.load()["view"] == b"abc"
    assert isinstance(ValuePart([packed])[0]["view"], memoryview)


def test_a_block_is_filled_again_once_nobody_sees_it() -> None:
    first = Block.allocate([0, 100])
    first[:] = b"a" * 100
    (part,) = encode(first, Shape.of(TaskOptions(), 0))
    seen = id(first)
    del first
    other = Block.allocate([0, 100])
    other[:] = b"b" * 100
    assert bytes(part[0]) == b"a" * 100
    del part, other
    last = id(Block.allocate([0, 50]))
    assert last != seen
    for num_bytes in (50, 200, 0):
        again = Block.allocate([0, num_bytes])
        assert (id(again), len(again), again.offsets) == (last, num_bytes, [0, num_bytes])
        del again


def test_two_blocks_of_one_task_differ() -> None:
    blocks = [Block.allocate([0, 10]) for _ in range(3)]
    assert len({id(block) for block in blocks}) == 3
