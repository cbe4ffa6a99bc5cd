"""Small values are kept with their object and take no room of the store: up to which size, and that it can be set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.objects.values import _Packed
from exoshuffle.testing.meeting import poll
from tests.support.limits import ROOMY_BUDGET_BYTES

DEFAULT_BYTES = 100 * 1024
#: Bytes beside a value in its block: its pickle and its buffers each begin at a multiple of 64, behind their lengths.
OVERHEAD_BYTES = 256

Make = Callable[[int], Any]

#: Values that travel inside their pickles, and beside.
KINDS: dict[str, Make] = {
    "text": lambda size: "x" * size,
    "buffer": lambda size: pa.py_buffer(bytes(size)),
}
WAYS: dict[str, Callable[[Make, int], xs.Ref]] = {
    "put": lambda make, size: xs.put(make(size)),
    "thread": lambda make, size: xs.remote(make, executor="thread").remote(size),
    "process": lambda make, size: xs.remote(make, executor="process").remote(size),
}
#: A setting, and what it has to be then; None: it is left alone.
SETTINGS = [(None, DEFAULT_BYTES), (1_000, 1_000), (1_000_000, 1_000_000)]


def start(spill: Path, setting: int | None) -> LocalEngine:
    options = {} if setting is None else {"inline_bytes": setting}
    limit = limits.limit_for(ROOMY_BUDGET_BYTES)
    engine = xs.init(memory_limit=limit, spill_dirs=str(spill), num_cpus=2, **options)
    assert isinstance(engine, LocalEngine)
    return engine


def largest_inlined(make: Make, limit: int) -> int:
    """The size of the largest value that takes at most so many bytes with what it is stored with."""
    sizes = range(limit - OVERHEAD_BYTES, limit + 1)
    return max(size for size in sizes if _Packed(make(size)).num_bytes <= limit)


@pytest.mark.parametrize(("setting", "limit"), SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_up_to_the_limit_stay_out_of_the_store(
    tmp_path: Path, kind: str, setting: int | None, limit: int
) -> None:
    engine, make = start(tmp_path, setting), KINDS[kind]
    size = largest_inlined(make, limit)
    for way, made in WAYS.items():
        at, above = made(make, size), made(make, size + 1)
        assert xs.get([at, above]) == [make(size), make(size + 1)]
        stats = engine.stats()
        assert (way, stats["num_objects"], stats["num_blocks"]) == (way, 1, 1)
        del above
        poll(lambda: engine.stats()["num_objects"] == 0)
        assert xs.get(at) == make(size)
    xs.shutdown()


def test_slices_are_inlined_together_or_not_at_all(tmp_path: Path) -> None:
    engine = start(tmp_path, 10_000)
    halves = xs.remote(lambda size: ["x" * size] * 2, num_returns=2, executor="thread")
    small, large = halves.remote(4_000), halves.remote(5_000)
    assert [xs.get(small[1]), xs.get(large[1])] == ["x" * 4_000, "x" * 5_000]
    assert engine.stats()["num_objects"] == 1
    xs.shutdown()


def test_nothing_is_inlined_with_a_limit_of_zero(tmp_path: Path) -> None:
    engine = start(tmp_path, 0)
    refs = [xs.put(None), xs.remote(lambda: None, executor="thread").remote()]
    assert xs.get(refs) == [None, None]
    assert engine.stats()["num_objects"] == 2
    del refs
    xs.shutdown()
