"""An object on Ray: few Ray objects, however many slices; what travels how."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import ray

import exoshuffle as xs
from exoshuffle.engines.ray.calls import INLINE_CODE_BYTES, Codes
from exoshuffle.engines.ray.objects import USUAL_PARTS
from exoshuffle.engines.ray.values import Packed
from exoshuffle.errors import TaskError

pytestmark = pytest.mark.usefixtures("engine")
NUM_SLICES = 1000


def numbered(first: int) -> Any:
    """A block of ``NUM_SLICES`` slices that say where they are."""
    block: Any = xs.allocate_block(range(0, 8 * NUM_SLICES + 1, 8))
    with memoryview(block) as view:
        for i in range(NUM_SLICES):
            view[8 * i : 8 * i + 8] = (first + i).to_bytes(8, "little")
    return block


def number(piece: Any) -> int:
    return int.from_bytes(piece, "little")


def test_many_slices_are_few_objects() -> None:
    refs = xs.Refs(xs.remote(numbered, num_returns=NUM_SLICES).remote(1000 * i) for i in range(4))
    assert all(len(ref._object.parts) == USUAL_PARTS for ref in refs)  # type: ignore[attr-defined]
    total = xs.remote(lambda pieces: sum(map(number, pieces)))
    sums = xs.get([total.remote(refs.column(i)) for i in (0, 1, 31, 32, 500, 999)])
    assert sums == [6000 + 4 * i for i in (0, 1, 31, 32, 500, 999)]
    assert [number(piece) for piece in xs.get(refs[1][30:70])] == list(range(1030, 1070))
    assert number(xs.get(refs[2][999])) == 2999
    assert [number(piece) for piece in xs.get(refs[3])] == list(range(3000, 4000))


def test_merges_have_more_parts() -> None:
    blocks = [xs.remote(numbered, num_returns=NUM_SLICES).remote(1000 * i) for i in range(3)]
    merge = xs.remote(lambda *parts: list(zip(*parts, strict=True)), num_returns=NUM_SLICES)
    merged = merge.remote(*blocks)
    assert len(merged._object.parts) > 2 * USUAL_PARTS
    assert [number(piece) for piece in xs.get(merged[777])] == [777, 1777, 2777]


def test_pythons_values_in_groups() -> None:
    ref = xs.remote(lambda: [[i, str(i)] for i in range(300)], num_returns=300).remote()
    assert xs.get(ref) == [[i, str(i)] for i in range(300)]
    assert xs.get(xs.remote(lambda some: some).remote(ref[99:103])) == [
        [i, str(i)] for i in range(99, 103)
    ]


def test_slices_of_blocks_can_be_passed_on() -> None:
    block = xs.remote(numbered, num_returns=NUM_SLICES).remote(0)
    piece = xs.remote(lambda view: {"view": view}).remote(block[5])
    assert number(xs.get(piece)["view"]) == 5


def test_large_functions_travel_once() -> None:
    large, small = bytes(INLINE_CODE_BYTES), b"small"
    codes = Codes()
    assert isinstance(codes.of(lambda: large, "large").argument, ray.ObjectRef)
    assert isinstance(codes.of(lambda: small, "small").argument, Packed)
    function = lambda: large  # noqa: E731  an object to look at
    assert codes.of(function, "f") is codes.of(function, "f")
    assert xs.get(xs.remote(lambda: large).remote()) == large


def test_functions_that_close_over_references_keep_nothing() -> None:
    def measure(ref: xs.Ref) -> str:
        assert xs.get(xs.remote(lambda: len(xs.get(ref))).remote()) == 1_000_000
        name: str = ref._object.parts[0].hex()  # type: ignore[attr-defined]
        return name

    address = measure(xs.put(bytes(1_000_000)))
    gc.collect()
    assert address not in ray._private.worker.global_worker.core_worker.get_all_reference_counts()


def test_errors_name_the_one_that_died() -> None:
    die = xs.remote(lambda: __import__("os")._exit(1), max_retries=0)
    dead = die.options(name="first").remote()
    second = xs.remote(lambda value: value, name="second").remote(dead)
    third = xs.remote(lambda value: value, name="third").remote(xs.put(1))
    last = xs.remote(lambda *values: values, name="last").remote(second, third)
    with pytest.raises(TaskError, match="task first failed") as caught:
        xs.get(second)
    assert caught.value.task_name == "first"
    # Which of several it was, Ray does not say.
    with pytest.raises(TaskError, match="task first or second or third failed"):
        xs.get(last)
