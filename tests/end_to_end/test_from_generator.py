"""Rows of generators: functions are called anew for each run, iterators are kept, and limits end endless ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import SchemaError

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


def squares(count: int = 1000) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"n": number, "square": number * number}


def endless() -> Iterator[dict[str, Any]]:
    return ({"n": number, "text": "x" * 100} for number in itertools.count())


def noted(path: str) -> Iterator[dict[str, Any]]:
    with Path(path).open("a") as calls:
        calls.write("called\n")
    yield from squares(3)


def test_rows_are_those_that_a_function_yields() -> None:
    dataset = xs.from_generator(squares, gen_kwargs={"count": 5000})
    assert dataset.schema == pa.schema([("n", pa.int64()), ("square", pa.int64())])
    assert dataset.to_pylist() == list(squares(5000))
    assert dataset.count() == 5000
    least = dataset.sort("n", descending=True).limit(2).to_pydict()
    assert least == {"n": [4999, 4998], "square": [4999**2, 4998**2]}


def test_a_function_is_called_anew_for_each_run(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    dataset = xs.from_generator(noted, gen_kwargs={"path": str(calls)})
    assert len(calls.read_text().split()) == 1  # to learn the schema
    for run in range(2):
        assert dataset.to_pylist() == list(squares(3))
        assert len(calls.read_text().split()) == 2 + run


def test_an_iterator_is_read_once_and_kept() -> None:
    once = squares(5000)
    dataset = xs.from_generator(once)
    assert next(once, None) is None
    for _ in range(2):
        assert dataset.to_pylist() == list(squares(5000))


@pytest.mark.parametrize("count", [10, 50_000])
def test_limits_end_what_has_no_end(count: int) -> None:
    dataset = xs.from_generator(endless)
    assert dataset.limit(count).count() == count
    assert dataset.map_batches(lambda table: table).limit(count).count() == count


def test_programs_may_leave_what_has_no_end() -> None:
    batches = xs.from_generator(endless).iter_batches(100)
    assert next(batches)["n"].to_pylist() == list(range(100))
    assert next(batches)["n"].to_pylist() == list(range(100, 200))
    batches.close()  # type: ignore[attr-defined]  # it is a generator


@pytest.mark.parametrize("is_kept", [False, True])
def test_batches_values_and_missing_keys(is_kept: bool) -> None:
    def dataset(*items: Any, schema: pa.Schema | None = None) -> xs.Dataset:
        given = iter(items) if is_kept else (lambda: iter(items))
        return xs.from_generator(given, schema=schema)

    table = pa.table({"n": [1, 2]})
    batches = dataset(table, table.to_batches()[0], {"n": 5}, {"n": 6}, table)
    assert batches.to_pydict() == {"n": [1, 2, 1, 2, 5, 6, 1, 2]}
    assert dataset("a", "b").to_pydict() == {"item": ["a", "b"]}
    assert dataset({"a": 1}, {"b": 2}).to_pydict() == {"a": [1, None], "b": [None, 2]}
    schema = pa.schema([("x", pa.float32()), ("s", pa.string())])
    assert dataset(schema=schema).to_pydict() == {"x": [], "s": []}
    assert dataset({"x": 1}, schema=schema).schema == schema


@pytest.mark.parametrize("is_kept", [False, True])
def test_later_rows_that_do_not_fit_are_errors_that_name_the_column(is_kept: bool) -> None:
    def rows(last: dict[str, object]) -> Any:
        items = [*({"x": number} for number in range(20)), last]
        return iter(items) if is_kept else (lambda: iter(items))

    with pytest.raises(
        SchemaError, match=r"from_generator: rows have values in 'x' that are not int64"
    ):
        xs.from_generator(rows({"x": 1.5})).count()
    with pytest.raises(SchemaError, match=r"a row has 'y', and the columns are x; give schema="):
        xs.from_generator(rows({"y": 1})).count()


def broken() -> Iterator[dict[str, Any]]:
    yield from squares(20)
    raise KeyError("no such page")


@pytest.mark.parametrize("is_kept", [False, True])
def test_errors_of_generators_pass_through(is_kept: bool) -> None:
    with pytest.raises(KeyError, match="no such page"):
        xs.from_generator(broken() if is_kept else broken).count()


def test_arrays_become_tensors() -> None:
    numpy = pytest.importorskip("numpy")
    images = [numpy.full((2, 3), number, "uint8") for number in range(20)]
    dataset = xs.from_generator(
        {"image": image, "label": place} for place, image in enumerate(images)
    )
    assert dataset.schema.field("image").type == pa.fixed_shape_tensor(pa.uint8(), [2, 3])
    assert (dataset.to_numpy()["image"] == numpy.stack(images)).all()
