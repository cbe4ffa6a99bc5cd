"""Columns that are chosen first are chosen by the reader of files, and rows keep their numbers behind steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle import _native
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.inputs.reading import schema_of
from exoshuffle.dataset.tree.below import without_steps
from exoshuffle.dataset.tree.nodes import Files, ShuffleNode
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, SchemaError
from exoshuffle.operators.core.inputs import BatchInput, SplitInput
from exoshuffle.operators.core.order import ByChance, ByKeys
from exoshuffle.operators.core.shuffle import Side
from tests.support.generated import assert_same_rows

ROWS = 3000
Choice = Callable[[xs.Dataset], xs.Dataset]
CHOICES: dict[str, Choice] = {
    "one": lambda data: data.select("id"),
    "turned": lambda data: data.select("text", "list", "id"),
    "all": lambda data: data.select(*data.columns),
    "less": lambda data: data.drop("float"),
    "twice": lambda data: data.drop("list").select("id", "day").select("day", "id"),
}


@pytest.fixture(scope="module", params=["parquet", "ipc"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> xs.Dataset:
    """Files in folders of a partition column, ``day``, with numbered rows in small groups."""
    path = tmp_path_factory.mktemp("chosen") / request.param
    source = random.Random(5)
    for day in range(3):
        folder = path / f"day={day}"
        folder.mkdir(parents=True)
        table = pa.table(
            {
                "id": range(day * ROWS, (day + 1) * ROWS),
                "float": [source.random() for _ in range(ROWS)],
                "text": [source.choice([None, "a", "b" * 20]) for _ in range(ROWS)],
                "list": [[row] * (row % 4) for row in range(ROWS)],
            }
        )
        if request.param == "parquet":
            pq.write_table(table, folder / "in.parquet", row_group_size=700)
        else:
            with pa.ipc.new_file(folder / "in.arrow", table.schema) as writer:
                writer.write_table(table, max_chunksize=700)
    return xs.read_parquet(path) if request.param == "parquet" else xs.read_ipc(path)


def map_input(data: xs.Dataset, seed: int | None = None) -> SplitInput | BatchInput:
    node, steps = without_steps(data.node)
    assert isinstance(node, Files)
    order = ByKeys() if seed is None else ByChance(seed)
    return FileInput(node.source, steps).map_input(Side(data.schema, order))


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_a_choice_is_no_step(choice: Choice, files: xs.Dataset, engine: LocalEngine) -> None:
    del engine
    data = choice(files)
    found = map_input(data)
    assert isinstance(found, SplitInput)
    assert pa.ipc.read_schema(pa.py_buffer(found.config.schema)).names == data.columns
    assert found.in_batches().reader.columns == tuple(data.columns)  # type: ignore[attr-defined]
    behind = map_input(data.filter("id > 5"))
    assert isinstance(behind, BatchInput)
    assert len(behind.steps) == 1


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_rows_are_those_of_all_columns(
    choice: Choice, files: xs.Dataset, engine: LocalEngine
) -> None:
    del engine
    data = choice(files)
    for made in (
        lambda rows: rows,
        lambda rows: rows.random_shuffle(seed=3),
        lambda rows: rows.random_shuffle(seed=3, window=50),
        lambda rows: rows.sort("id", descending=True, num_partitions=3),
    ):
        expected = made(files).to_arrow().select(data.columns)
        found = made(data).to_arrow()
        assert found.schema.equals(data.schema)
        assert found.equals(expected)
        assert choice(made(files)).to_arrow().equals(expected)
    assert_same_rows(data.repartition(4).to_arrow(), data.to_arrow())
    assert data.random_shuffle(seed=3).count() == 3 * ROWS


@pytest.mark.parametrize("shuffle", [True, False, "1kB", "40kB"])
def test_loaders_hand_out_the_same_rows(
    shuffle: bool | str, files: xs.Dataset, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where windows are read one by one, in which rows behind steps have an order of their own."""
    del engine
    monkeypatch.setattr("exoshuffle.dataset.jobs.windows.SMALL_BYTES", 1_000)
    for data in (files, files.select("text", "id"), files.with_columns(twice="2 * id")):
        made = xs.DataLoader(data, batch_size=1000, shuffle=shuffle, seed=4, format="arrow")
        for step, batch in enumerate(made):
            rows = [
                int(Path(file).parent.name[4:]) * ROWS + row for file, row in made.rows_of(0, step)
            ]
            assert rows == batch["id"].to_pylist()


#: Steps behind which each row is still there.
KEEPING: dict[str, Choice] = {
    "made": lambda data: data.with_columns(twice="2 * id"),
    "renamed": lambda data: data.select("text", "id").rename({"text": "name"}),
    "cast": lambda data: data.cast({"id": "float64"}).drop("text"),
    "filled": lambda data: data.fill_null("none").select("text", "list"),
}


@pytest.mark.parametrize("window", [None, 50])
@pytest.mark.parametrize("steps", KEEPING.values(), ids=KEEPING)
def test_rows_keep_their_numbers_behind_steps(
    steps: Choice, window: int | None, files: xs.Dataset, engine: LocalEngine
) -> None:
    """Nothing is added to them, and their random order is that of the files."""
    del engine
    data = steps(files)
    order = data.random_shuffle(seed=3, window=window)
    assert isinstance(order.node, ShuffleNode)
    [side] = order.node.shuffle.sides
    assert isinstance(side.order, ByChance)
    expected = steps(files.random_shuffle(seed=3, window=window)).to_arrow()
    assert order.to_arrow().equals(expected)
    both = xs.concat([data, data]).random_shuffle(seed=3).to_arrow()
    assert_same_rows(both, pa.concat_tables([expected, expected]))


def test_steps_that_fail_in_a_random_order_say_so(files: xs.Dataset, engine: LocalEngine) -> None:
    """They run when the block of the map is there, and raise what they raise elsewhere."""
    del engine
    for data in (files.select("id", "text"), files.select("id", "float", "text")):
        failing = data.cast({"text": "int64"})
        with pytest.raises(InputError) as plain:
            failing.to_arrow()
        with pytest.raises(InputError) as shuffled:
            failing.random_shuffle(seed=1).to_arrow()
        assert str(plain.value)[:20] == str(shuffled.value)[:20]


def test_sizes_are_those_of_the_chosen_columns(tmp_path: Path, engine: LocalEngine) -> None:
    """A text that only the last rows have says nothing about the sizes of numbers."""
    del engine
    lengths = [1] * 40_000 + [4000] * 2_000
    table = pa.table({"id": range(len(lengths)), "text": ["x" * length for length in lengths]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=1000, use_dictionary=False)
    data = xs.read_parquet(tmp_path)
    found = map_input(data.select("id"))
    _, steps = without_steps(data.select("id").node)
    source = FileInput(data.node.source, steps)  # type: ignore[attr-defined]
    measured = source.measure(Side(data.select("id").schema, found.config.order))
    alone = tmp_path / "alone.parquet"
    pq.write_table(table.select(["id"]), alone)
    node = xs.read_parquet(alone).node
    assert isinstance(node, Files)
    expected = FileInput(node.source).measure(Side(node.schema, found.config.order))
    sizes = [(each.total_bytes, each.num_rows, each.max_row_bytes) for each in (measured, expected)]
    assert sizes[0] == sizes[1]


def test_columns_that_files_do_not_have_are_refused(files: xs.Dataset) -> None:
    node = files.node
    assert isinstance(node, Files)
    rows = pa.schema([schema_of(node.source).field("id").with_name("idea")])
    with pytest.raises(SchemaError, match="idea"):
        _native.Sorter.table(
            _native.ReadOptions(), rows.serialize().to_pybytes(), [], node.source.schema_ipc
        )
