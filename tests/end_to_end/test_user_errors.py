"""Exceptions of users' functions: class, attributes and causes come through, first, and with little beside them."""

from __future__ import annotations

import copy
import functools
import json
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import exoshuffle as xs
from exoshuffle.errors import EngineError, Noted, OptionsError, SchemaError, TaskError
from exoshuffle.testing.meeting import PATIENCE_SECONDS

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]
EXECUTORS = ["process", "thread"]


class OddError(ValueError):
    """Wants other arguments than it keeps, and has attributes of all kinds."""

    def __init__(self, code: int, *, lock: bool) -> None:
        super().__init__(f"odd {code}")
        self.code = code
        self.lock = threading.Lock() if lock else None

    @property
    def node(self) -> str:
        """Named as one of ours."""
        return "of the user"


class MuteError(Exception):
    """Has no message."""

    def __str__(self) -> str:
        raise ValueError("no")


class FixedError(Exception):
    """Takes no attributes."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


class HomeError(Exception):
    """Does not travel."""

    def __reduce__(self) -> Any:
        raise TypeError("never")


class SlottedError(Exception):
    """Has its attributes elsewhere."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = 7


def raised(error: Callable[[], BaseException], executor: str = "process") -> TaskError:
    def fails() -> None:
        raise error()

    with pytest.raises(TaskError) as caught:
        xs.get(xs.remote(fails, executor=executor).remote())
    return caught.value


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "error",
    [
        KeyError("missing"),
        ValueError("a", 1),
        ZeroDivisionError(),
        FileNotFoundError(2, "No such file", "somewhere"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ImportError("not there", name="module"),
        RuntimeError("é\n\n'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_class_and_its_attributes_come_through(error: Exception, executor: str) -> None:
    # A copy: what is raised holds frames, and this one outlives the test.
    caught = raised(lambda: copy.copy(error), executor)
    assert isinstance(caught, type(error))
    assert caught.args == error.args
    for name in ("errno", "filename", "reason", "start", "name"):
        assert getattr(caught, name, None) == getattr(error, name, None)
    assert type(caught.__cause__) is type(error)
    assert str(caught).startswith(type(error).__name__)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("lock", [False, True])
def test_odd_constructors(lock: bool, executor: str) -> None:
    caught = raised(lambda: OddError(7, lock=lock), executor)
    assert isinstance(caught, OddError)
    assert caught.code == 7
    assert (caught.lock is None) != lock
    assert caught.node != "of the user"
    assert "OddError: odd 7" in str(caught)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", [MuteError, FixedError, HomeError, SlottedError])
def test_classes_that_resist(kind: type[Exception], executor: str) -> None:
    def fails() -> None:
        with Noted("of a batch"):
            raise kind()

    with pytest.raises(TaskError) as caught:
        xs.get(xs.remote(fails, executor=executor).remote(), timeout=PATIENCE_SECONDS)
    assert isinstance(caught.value, kind)
    assert type(caught.value.__cause__) is kind
    assert str(caught.value).startswith(kind.__name__)


def test_the_place_is_in_the_code_of_the_user() -> None:
    for fails in (lambda: json.loads("{"), lambda: pa.array(["x"], pa.int64())):
        with pytest.raises(TaskError, match=rf"at {__file__}:\d+ in <lambda>, process \d+"):
            xs.get(xs.remote(fails).remote())


@pytest.mark.parametrize(
    ("fn", "remedy"),
    [
        (lambda: later(1), "returned a coroutine, .* asyncio.run"),
        (
            lambda: one_by_one(1),
            'returned a generator; return a list, or .* num_returns="streaming"',
        ),
        (threading.Lock, "value of type lock cannot be pickled .*; return, or put, what it is"),
        (lambda: [1, threading.Lock()], "value of type list cannot be pickled"),
    ],
)
def test_results_that_cannot_travel(fn: Any, remedy: str) -> None:
    with pytest.raises(TaskError, match=remedy):
        xs.get(xs.remote(fn).remote())


def test_classes_that_cannot_travel_are_told() -> None:
    def make() -> Exception:
        import threading

        class LocalError(Exception):
            held = threading.Lock()

        return LocalError("inside")

    caught = raised(make)
    assert isinstance(caught.__cause__, EngineError)
    assert "LocalError: inside" in str(caught)


@pytest.mark.parametrize("error", [StopIteration(3), TimeoutError("mine")], ids=str)
def test_what_would_say_something_else_to_who_waits(error: Exception) -> None:
    caught = raised(lambda: error)
    assert type(caught) is TaskError
    assert type(caught.__cause__) is type(error)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_ends_programs_ends_a_task(kind: type[BaseException], executor: str) -> None:
    caught = raised(lambda: kind(3), executor)
    assert type(caught) is TaskError
    assert type(caught.__cause__) is kind


@pytest.mark.parametrize("executor", EXECUTORS)
def test_causes_and_contexts(executor: str) -> None:
    def fails(how: str) -> None:
        try:
            {}["first"]
        except KeyError as first:
            if how == "cause":
                raise ValueError("second") from first
            if how == "none":
                raise ValueError("second") from None
            raise ValueError("second")  # noqa: B904  the point of it

    run = xs.remote(fails, executor=executor)
    for how in ("cause", "none", "context"):
        with pytest.raises(ValueError, match="second") as caught:
            xs.get(run.remote(how))
        text = "".join(traceback.format_exception(caught.value))
        error = caught.value.__cause__
        assert isinstance(error.__cause__ if how == "cause" else error.__context__, KeyError)
        assert ("KeyError: 'first'" in text) == (how != "none"), text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups of exceptions are of Python 3.11")
def test_groups_of_exceptions() -> None:
    caught = raised(lambda: ExceptionGroup("several", [KeyError("a"), OddError(3, lock=True)]))  # noqa: F821
    assert isinstance(caught, ExceptionGroup)  # noqa: F821
    assert [type(one) for one in caught.exceptions] == [KeyError, OddError]


def test_an_error_of_an_inner_task_comes_through() -> None:
    def inner() -> None:
        raise OddError(5, lock=False)

    def outer() -> None:
        xs.get(xs.remote(inner, name="inner").remote())

    with pytest.raises(OddError, match=r"OddError: odd 5") as caught:
        xs.get(xs.remote(outer).remote())
    assert caught.value.code == 5
    assert "task inner failed in attempt 1" in str(caught.value)
    assert f"{__file__}:" in str(caught.value)


def test_the_message_is_short_and_names_the_place() -> None:
    def fails(key: str) -> Any:
        return {}[key]

    with pytest.raises(KeyError) as caught:
        xs.get(xs.remote(fails).remote("missing"))
    first, *rest = str(caught.value).splitlines()
    assert first == "KeyError: 'missing'"
    assert len(rest) <= 3
    assert f"{__file__}:" in rest[0]
    assert "in fails, process" in rest[0]
    assert rest[1].strip() == "task fails failed in attempt 1"
    told = str(caught.value.__cause__.__cause__)
    assert "in fails" in told
    assert "exoshuffle/" not in told


@pytest.mark.parametrize("where", ["learning", "a map", "a reduce", "groups", "first rows"])
def test_errors_of_datasets(where: str, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": range(100)}), tmp_path / "in.parquet")
    rows = xs.read_parquet(tmp_path / "in.parquet")
    schema = rows.schema

    def fails(table: pa.Table) -> pa.Table:
        if table.num_rows or where == "learning":
            raise OddError(9, lock=False) from KeyError("first")
        return table

    uses = {
        "learning": lambda: rows.map_batches(fails),
        "a map": lambda: rows.map_batches(fails, schema=schema).sort("a").to_arrow(),
        "a reduce": lambda: (
            rows.sort("a").map_batches(fails, schema=schema).write_parquet(tmp_path / "out")
        ),
        "first rows": lambda: rows.map_batches(fails, schema=schema).limit(5).to_arrow(),
        "groups": lambda: rows.group_by("a").map_groups(fails, schema=schema).to_arrow(),
    }
    with pytest.raises(OddError) as caught:
        uses[where]()
    assert caught.value.code == 9
    assert str(caught.value).startswith("OddError: odd 9\n")
    assert type(caught.value.__cause__.__cause__) is KeyError


async def later(table: pa.Table) -> pa.Table:
    return table


def one_by_one(table: pa.Table) -> Any:
    yield table


class Async:
    async def __call__(self, table: pa.Table) -> pa.Table:
        return table

    async def method(self) -> None:
        """Not to be called."""


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda rows: rows.map_batches(later), "asyncio.run"),
        (lambda rows: rows.map_batches(functools.partial(later)), "asyncio.run"),
        (lambda rows: rows.map_batches(Async()), "asyncio.run"),
        (lambda rows: rows.map_batches(one_by_one), "concat_tables"),
        (lambda rows: rows.group_by("a").map_groups(later), "map_groups got later.*asyncio.run"),
        (lambda rows: rows.group_by("a").map_groups(one_by_one), "map_groups.*concat_tables"),
        (lambda _: xs.remote(later), "asyncio.run"),
        (lambda _: xs.remote(Async), "asyncio.run"),
        (lambda _: xs.remote(one_by_one).remote(1), 'num_returns="streaming"'),
        (lambda _: xs.shuffle([1], map=later, num_partitions=1), "map got later.*asyncio.run"),
        (lambda _: xs.shuffle([1], map=one_by_one, num_partitions=1), "map got .*return a list"),
    ],
)
def test_coroutines_and_generators(call: Any, remedy: str, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": range(100)}), tmp_path / "in.parquet")
    with pytest.raises(OptionsError, match=remedy):
        call(xs.read_parquet(tmp_path / "in.parquet"))


def test_a_coroutine_that_does_not_look_like_one(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": range(100)}), tmp_path / "in.parquet")
    with pytest.raises(
        SchemaError, match="the function returned coroutine; return a pyarrow Table"
    ):
        xs.read_parquet(tmp_path / "in.parquet").map_batches(lambda _: later(_))  # noqa: PLW0108  plain, to look at


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda _: {"n": 3},
            r"dictionary .*: 'n' is int, of which no column can be made .*give a list or an array",
        ),
        (lambda _: {"n": [1], "m": "text"}, r"'m' is str, of which"),
        (
            lambda _: {("n", "sum"): [1]},
            r"a column is named \('n', 'sum'\); give columns text as names",
        ),
        (lambda _: None, "the function returned NoneType; return a pyarrow Table"),
        (lambda table: table.select([]), "would leave no column"),
        (lambda table: pa.table([table["a"]] * 2, names=["a", "a"]), "two columns the name 'a'"),
    ],
)
def test_results_that_are_no_columns_name_the_method_and_the_column(
    function: Any, message: str
) -> None:
    rows = xs.from_arrow(pa.table({"a": range(10)}))
    with pytest.raises(SchemaError, match=f"^map_groups.*{message}"):
        rows.group_by("a").map_groups(function).to_arrow()
    with pytest.raises(SchemaError, match=f"^map_batches.*{message}"):
        rows.map_batches(function).to_arrow()


def test_groups_of_another_schema_name_the_method() -> None:
    rows = xs.from_arrow(pa.table({"a": range(10)}))
    with pytest.raises(SchemaError, match=r"^map_groups: batch 1 came back with .*; expected were"):
        rows.group_by("a").map_groups(lambda t: t, schema=pa.schema({"a": pa.int8()})).to_arrow()


@pytest.mark.parametrize("how", ["breakpoint", "input", "pdb", "stdin"])
def test_what_waits_for_somebody_to_type(how: str) -> None:
    def types() -> Any:
        if how == "breakpoint":
            breakpoint()
        if how == "pdb":
            import pdb

            pdb.set_trace()
        return input() if how == "input" else sys.stdin.read()

    with pytest.raises(TaskError, match="nobody can type into a worker process; call the function"):
        xs.get(xs.remote(types).remote(), timeout=PATIENCE_SECONDS)
