"""The program's engine: closed at the end of a block, and started with options of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ClosedError, MemoryLimitError, OptionsError
from exoshuffle.futures.session import engine_in_use


def test_a_block_closes_the_engine() -> None:
    with xs.init(memory_limit="4GB", num_cpus=1) as engine:
        ref = xs.put(1)
        assert xs.get(ref) == 1
        assert engine_in_use() is engine
    assert engine_in_use() is None
    with pytest.raises(ClosedError):
        engine.get(ref)


def test_engines_and_what_is_remote_say_what_they_are() -> None:
    class Counter:
        pass

    with xs.init(memory_limit="4GB", num_cpus=1) as engine:
        assert repr(engine) == "LocalEngine(memory_limit='4.00 GB', num_cpus=1)"
    assert repr(xs.remote(len)) == "RemoteFunction(len)"
    assert repr(xs.remote(Counter)) == "RemoteClass(Counter)"


def test_an_error_closes_it_too() -> None:
    with pytest.raises(KeyError), xs.init(memory_limit="4GB", num_cpus=1):
        raise KeyError
    assert engine_in_use() is None


def test_a_block_closes_its_own_engine_and_no_later_one() -> None:
    with xs.init(memory_limit="4GB", num_cpus=1):
        later = xs.init(memory_limit="4GB", num_cpus=1)
    assert engine_in_use() is later
    xs.shutdown()


def test_options_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("EXOSHUFFLE_MEMORY_LIMIT", "3GB")
    monkeypatch.setenv("EXOSHUFFLE_NUM_CPUS", "1")
    monkeypatch.setenv("EXOSHUFFLE_SPILL_DIRS", f"{tmp_path}/a:{tmp_path}/b")
    with xs.init() as engine:
        assert (engine.memory_limit, engine.num_cpus) == (3_000_000_000, 1)
        assert engine.spill_dirs == [f"{tmp_path}/a", f"{tmp_path}/b"]
    with xs.init(memory_limit="4GB", num_cpus=2, spill_dirs=tmp_path) as engine:
        assert (engine.memory_limit, engine.num_cpus) == (4_000_000_000, 2)
        assert engine.spill_dirs == [str(tmp_path)]
    monkeypatch.setenv("EXOSHUFFLE_NUM_CPUS", "")
    monkeypatch.setenv("EXOSHUFFLE_MEMORY_LIMIT", "")
    with xs.init(LocalEngine(memory_limit="4GB", num_cpus=2)) as engine:
        assert engine.num_cpus == 2


@pytest.mark.parametrize(
    ("option", "text", "error", "words"),
    [
        (
            "MEMORY_LIMIT",
            "big",
            OptionsError,
            "MEMORY_LIMIT: 'big' is not a size.*; correct it, or",
        ),
        ("MEMORY_LIMIT", "1MB", MemoryLimitError, "works is .*variable EXOSHUFFLE_MEMORY_LIMIT"),
        (
            "NUM_CPUS",
            "two",
            OptionsError,
            "NUM_CPUS: 'two' is no whole number; correct it, or unset",
        ),
        ("NUM_CPUS", "0", OptionsError, "num_cpus by the environment variable EXOSHUFFLE_NUM_CPUS"),
        ("SPILL_DIRS", "/nowhere/x", OptionsError, "/nowhere/x.*variable EXOSHUFFLE_SPILL_DIRS"),
    ],
)
def test_errors_name_the_variable(
    option: str, text: str, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"EXOSHUFFLE_{option}", text)
    with pytest.raises(error, match=words) as caught:
        xs.init()
    assert "\n" not in str(caught.value)


def test_a_variable_of_no_option_is_named_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXOSHUFFLE_MEMORY", "4GB")
    with pytest.raises(
        OptionsError,
        match="EXOSHUFFLE_MEMORY gives no option; the nearest is EXOSHUFFLE_MEMORY_LIMIT, so rename",
    ):
        xs.init()
