"""Options of engines that mean nothing, memory limits that cannot work, and plans that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ClosedError, MemoryLimitError, OptionsError
from tests.support.oracle import write_files
from tests.support.tables import distributed

Untyped: Any = xs

#: Name: (arguments of ``init``, words of the message).
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"engine": 1}, "engine is 1; give 'local' or 'ray', or an engine instance"),
    "a list": ({"engine": ["local"]}, r"engine is \['local'\]; give 'local' or 'ray'"),
    "a size": ({"engine": "2GB"}, r"engine is '2GB', a size; write init\(memory_limit='2GB'\)"),
    "progress of a number": ({"progress": 1}, "progress is 1; write True or False"),
    "CPUs of text": ({"num_cpus": "2"}, "num_cpus is '2'; it must be a whole number"),
    "CPUs by halves": ({"num_cpus": 1.5}, "num_cpus is 1.5; it must be a whole number"),
    "a number as directory": ({"spill_dirs": 1}, "spill_dirs is 1; give a path, or a list of path"),
    "numbers as directories": ({"spill_dirs": [1]}, r"spill_dirs is \[1\]; give a path, or a list"),
    "a codec that is none": (
        {"spill_compression": "gzip"},
        "spill_compression is 'gzip'; give one of 'auto', 'none', 'lz4', 'zstd'",
    ),
    "stalls of text": ({"stall_seconds": "60"}, "stall_seconds is '60'; it must be above 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options(name: str) -> None:
    options, message = REFUSED[name]
    with pytest.raises(OptionsError, match=message):
        xs.init(**options)


def test_a_wrong_engine_leaves_the_one_before(engine: LocalEngine) -> None:
    for wrong in (1, None):
        with pytest.raises(OptionsError, match="give 'local' or 'ray'"):
            Untyped.init(wrong)
    assert xs.futures.current_engine() is engine


def test_a_limit_that_cannot_work_is_refused_with_one_that_does(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", distributed("uniform", 5000), 2)
    with pytest.raises(MemoryLimitError, match="smallest that works is"):
        xs.init(memory_limit="10MB")
    with pytest.raises(OptionsError, match="not negative"):
        xs.init(memory_limit=-1)
    with pytest.raises(OptionsError, match="unknown engine 'mainframe'; known are local"):
        xs.init("mainframe")
    with pytest.raises(OptionsError, match=r"nospill.*create it"):
        xs.init(spill_dirs=[str(tmp_path / "nospill")])
    assert xs.read_parquet(source).files


def test_unknown_options_are_named_and_the_engine_goes_on(engine: LocalEngine) -> None:
    ref = xs.put(1)
    with pytest.raises(
        OptionsError, match=r"unknown option 'memory' of engine 'local'; known are memory_limit, sp"
    ):
        xs.init(memory="1GB")
    with pytest.raises(OptionsError, match="unknown engine"):
        xs.init("mainframe")
    for wrong in (-1, 1.5, "100 KiB"):
        with pytest.raises(OptionsError, match=f"inline_bytes is {wrong!r}; it must be a whole"):
            xs.init(memory_limit=engine.memory_limit, inline_bytes=wrong)
    with pytest.raises(ClosedError):
        xs.get(ref)
    other = xs.init(memory_limit=engine.memory_limit)
    with pytest.raises(OptionsError, match="unknown option"):
        xs.init(memory="1GB")
    assert xs.futures.current_engine() is other
    assert xs.get(xs.put(2)) == 2


def test_one_partition_of_everything_does_not_fit(engine: LocalEngine, tmp_path: Path) -> None:
    del engine
    table = distributed("uniform", 1000).append_column("wide", [[b"x" * 60_000] * 1000])
    source = write_files(tmp_path / "in", table, 2)
    with pytest.raises(
        MemoryLimitError,
        match=r"60.* MB in 1 partition .*; the smallest that works is .* or ask for more",
    ):
        xs.read_parquet(source).sort("key", num_partitions=1).write_parquet(tmp_path / "out")
    assert not (tmp_path / "out").exists()
