"""How an object was made is kept for as long as that may be needed to make it, or another, again; and no longer."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.objects.state import ObjectState
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.futures import Ref

on_thread = functools.partial(xs.remote, executor="thread")

LENGTH = 300
#: Larger than what is kept beside the store.
BLOCK_BYTES = 200_000


def copied(block: bytes) -> bytes:
    """Another block."""
    return bytes(block)


class Relay:
    """An actor that makes a block of a block."""

    def again(self, block: bytes) -> bytes:
        return bytes(block)


def known() -> int:
    """Objects and tasks that this process has descriptions of."""
    gc.collect()
    return sum(isinstance(one, ObjectState | Task) for one in gc.get_objects())


def chain(step: Callable[[Ref], Ref], first: Any) -> Ref:
    last = xs.put(first)
    for _ in range(LENGTH):
        last = step(last)
        xs.wait([last])
    return last


def small_values(**options: Any) -> Ref:
    return chain(xs.remote(lambda value: value + 1, **options).remote, 0)


def blocks_made_once(**options: Any) -> Ref:
    return chain(xs.remote(copied, max_retries=0, **options).remote, bytes(BLOCK_BYTES))


def blocks_of_an_actor(**options: Any) -> Ref:
    relay = xs.remote(Relay, **options).remote()
    return chain(relay.again.remote, bytes(BLOCK_BYTES))


def failures(**options: Any) -> Ref:
    def fail(_value: Any) -> None:
        raise ValueError("on purpose")

    return chain(xs.remote(fail, **options).remote, 0)


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("make", [small_values, blocks_made_once, blocks_of_an_actor, failures])
def test_it_goes(roomy_engine: LocalEngine, make: Callable[..., Ref], executor: str) -> None:
    before = known()
    last = make(executor=executor)
    assert known() - before < 20
    assert roomy_engine.stats()["num_objects"] <= 1
    del last


def test_it_stays_while_a_block_may_need_it(engine: LocalEngine) -> None:
    before = known()
    last = chain(on_thread(copied).remote, bytes(BLOCK_BYTES))
    assert known() - before > LENGTH
    assert engine.stats()["num_objects"] == 1
    del last
    assert known() - before < 20


def test_what_is_small_ends_it(engine: LocalEngine, damage: Callable[[], int]) -> None:
    """A block is made again from a small value that nobody holds, without what that was made of."""
    runs: list[int] = []

    @on_thread
    def count(value: int) -> int:
        runs.append(value)
        return value + 1

    number = xs.put(0)
    for _ in range(5):
        number = count.remote(number)
    last = on_thread(lambda value: bytes([value]) * 5_000_000).remote(number)
    del number
    xs.wait([last])
    filler = [xs.put(bytes(5_000_000)) for _ in range(20)]
    del filler
    assert damage() > 0
    assert xs.get(last)[0] == 5
    assert (len(runs), engine.stats()["num_recovered"]) == (5, 1)


def test_small_values_that_nobody_needs_are_gone_at_once(engine: LocalEngine) -> None:
    make = on_thread(lambda: b"x" * 50_000)
    xs.get(make.remote())
    gc.collect()
    gc.disable()
    try:
        refs = [make.remote() for _ in range(100)]
        xs.get(refs)
        before = sys.getallocatedblocks()
        kept = sum(len(ref._object.stored.inline[0]) for ref in refs)  # type: ignore[attr-defined]
        assert kept > 5_000_000
        del refs
        engine.stats()
        assert before - sys.getallocatedblocks() > 500
        assert not [one for one in gc.get_objects() if isinstance(one, ObjectState) and one.stored]
    finally:
        gc.enable()
