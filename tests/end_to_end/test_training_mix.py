"""Several datasets as one: rows come in the proportions of the weights, in an order that is taken up anywhere."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine
from exoshuffle.operators.batches import movable
from exoshuffle.training import mixing
from tests.support.generated import generated
from tests.support.limits import large_memory_limit, small_memory_limit
from tests.support.oracle import assert_same

#: Rows of each source; a row's number begins with a million times that of its source.
SIZES = (9000, 2000, 5000)
MILLION = 1_000_000
WEIGHTS = [0.5, 0.3, 0.2]
#: By "first" the second source ends, by "all" the third comes once, and the second almost four times.
ROWS = {"first": 6666, "all": 25_000, "once": 16_000}
#: Uniform; windows that are read one by one; windows that are shuffled by numbers; the order of the files.
SHUFFLES: tuple[bool | str, ...] = (True, "500kB", "8kB", False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each source, of two files whose rows have a number and a kilobyte."""
    folder = tmp_path_factory.mktemp("mix")
    for source, size in enumerate(SIZES):
        (folder / str(source)).mkdir()
        for part in range(2):
            first = source * MILLION + part * size // 2
            rows = range(first, first + size // 2)
            payload = pa.array([f"{row:x<1000}" for row in rows])
            table = pa.table({"id": pa.array(rows, pa.int64()), "payload": payload})
            to = folder / str(source) / f"{source}{part}.parquet"
            pq.write_table(table, to, row_group_size=500, use_dictionary=False)
    return folder


def datasets(files: Path) -> list[xs.Dataset]:
    return [xs.read_parquet(files / str(source)) for source in range(len(SIZES))]


def loader(files: Path, stop: str = "first", **options: Any) -> xs.DataLoader:
    mixed = xs.mix(datasets(files), options.pop("weights", WEIGHTS), stop=stop)
    return xs.DataLoader(mixed, **{"batch_size": 1000, "seed": 7, "format": "arrow"} | options)


def ids(batches: Any) -> list[int]:
    return [row for batch in batches for row in batch["id"].to_pylist()]


def rows_of_source(source: int) -> range:
    return range(source * MILLION, source * MILLION + SIZES[source])


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("stop", ROWS)
def test_proportions_and_ends(
    stop: str, shuffle: bool | str, files: Path, engine: LocalEngine
) -> None:
    del engine
    made = loader(files, stop, shuffle=shuffle)
    epochs = [ids(epoch) for epoch in made.epochs(2)]
    assert len(made) == -(-ROWS[stop] // 1000)
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert len(epoch) == ROWS[stop]
        for end in range(1024, ROWS["first"] - 1024, 1024):
            came = Counter(row // MILLION for row in epoch[:end])
            for source, weight in enumerate(WEIGHTS):
                assert abs(came[source] - weight * end) < 1
        for source, size in enumerate(SIZES):
            own = [row for row in epoch if row // MILLION == source]
            laps = [own[first : first + size] for first in range(0, len(own), size)]
            assert all(len(set(lap)) == len(lap) for lap in laps)
            if stop != "first":
                assert sorted(laps[0]) == list(rows_of_source(source))
            if len(laps) > 1:
                assert (laps[0][: len(laps[1])] == laps[1]) is (shuffle is False)
    assert any(Counter(row // MILLION for row in epochs[0])[n] == SIZES[n] for n in range(3))


def test_the_order_of_a_source_is_uniform(files: Path, engine: LocalEngine) -> None:
    del engine
    epoch = ids(loader(files, "once"))
    own = [row for row in epoch if row < MILLION]
    cells = Counter((place * 10 // 9000, row * 10 // 9000) for place, row in enumerate(own))
    assert 40 < sum((cells[cell] - 90) ** 2 / 90 for cell in cells) < 140


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("stop", ROWS)
def test_the_order_goes_on_with_other_memory_cpus_and_batches(
    stop: str, shuffle: bool | str, files: Path, tmp_path: Path
) -> None:
    with xs.init(memory_limit=large_memory_limit(), spill_dirs=str(tmp_path), num_cpus=1):
        order = list(
            itertools.chain(
                *(ids(epoch) for epoch in loader(files, stop, shuffle=shuffle).epochs(2))
            )
        )
    state, at = None, 0
    # Stops within an epoch, behind the first lap of a source, with a single row left, and in the next epoch.
    total = ROWS[stop]
    lives = [(1, 777, 3), (2, total - 2331 - 1, 1), (1, 1, 1), (2, 999, 2), (1, 5000, 10**9)]
    for num_cpus, size, num_batches in lives:
        limit = small_memory_limit() if num_cpus == 2 else large_memory_limit()
        with xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=num_cpus):
            made = loader(files, stop, shuffle=shuffle, batch_size=size)
            if state is not None:
                made.load_state_dict(json.loads(state))
            batches = itertools.chain.from_iterable(made.epochs(2))
            got = ids(itertools.islice(batches, num_batches))
            state = json.dumps(made.state_dict())
            assert got == order[at : at + len(got)]
            at += len(got)
            del batches
    assert at == len(order) == 2 * total
    assert len(state or "") <= 200


@pytest.mark.parametrize("stop", ROWS)
def test_rows_of_a_step_have_names(stop: str, files: Path, engine: LocalEngine) -> None:
    del engine
    made = loader(files, stop, batch_size=1300)
    for number, epoch in enumerate(made.epochs(2)):
        for step, batch in enumerate(epoch):
            rows = [
                int(name[0]) * MILLION + int(name[1]) * SIZES[int(name[0])] // 2 + row
                for name, row in (
                    (Path(file).stem, row) for file, row in made.rows_of(number, step)
                )
            ]
            assert rows == batch["id"].to_pylist()


def test_ranks_share_every_batch(files: Path, engine: LocalEngine) -> None:
    del engine
    order = ids(loader(files, "all"))
    ranks = [loader(files, "all", batch_size=999, rank=rank, world=3) for rank in range(3)]
    got = [[batch["id"].to_pylist() for batch in made] for made in ranks]
    assert [row for step in zip(*got, strict=True) for row in itertools.chain(*step)] == order
    assert ranks[0].state_dict() == ranks[1].state_dict() == ranks[2].state_dict()


def test_pieces_of_few_rows_are_the_same(
    files: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    order = ids(loader(files))
    monkeypatch.setattr(mixing, "PIECE_BYTES", 3000)
    assert ids(loader(files)) == order


def test_without_weights_every_row_comes_once(files: Path, engine: LocalEngine) -> None:
    del engine
    every = sorted(itertools.chain(*map(rows_of_source, range(len(SIZES)))))
    for stop in ROWS:
        assert sorted(ids(loader(files, stop, weights=None))) == every


def test_values_of_all_types_come_as_they_are(tmp_path: Path, engine: LocalEngine) -> None:
    """NaN, nulls, views, zones, nested, and dictionaries that differ; columns that only one file lets be null."""
    del engine
    rows = generated(3000)
    moments = rows["moment"].cast(pa.timestamp("us", "Europe/Berlin"))
    rows = rows.append_column("zoned", moments)
    rows = rows.append_column("view", rows["text"].cast(pa.string_view()))
    rows = rows.append_column("category", rows["text"].dictionary_encode())
    rows = rows.append_column("none", pa.nulls(3000, pa.int8()))
    rows = rows.append_column("place", pa.array(range(3000)))
    never = pa.field("place", pa.int64(), nullable=False)
    other = rows.slice(2000).cast(rows.schema.set(len(rows.schema) - 1, never))
    pq.write_table(rows.slice(0, 2000), tmp_path / "a.parquet")
    pq.write_table(other.replace_schema_metadata({"made": "elsewhere"}), tmp_path / "b.parquet")
    both = [xs.read_parquet(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    made = xs.DataLoader(xs.mix(both), batch_size=700, seed=4, format="arrow")
    found = pa.Table.from_batches(list(made))
    assert found.schema.types == rows.schema.types
    expected = movable(xs.concat(both).to_arrow())
    assert_same(movable(found).sort_by("place"), expected.sort_by("place"))


def test_text_and_filters_are_counted(files: Path, tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    table = pa.table({"id": range(3000), "payload": ["x"] * 3000})
    pyarrow.csv.write_csv(table, tmp_path / "in.csv")
    some = xs.read_parquet(files / "2").filter("id % 2 = 0").select("id")
    mixed = xs.mix([xs.read_csv(tmp_path / "in.csv").select("id"), some], [1, 1], stop="once")
    made = xs.DataLoader(mixed, batch_size=100, seed=1, format="arrow")
    order = ids(made)
    assert Counter(row // MILLION for row in order) == {0: 3000, 2: 2500}
    again = xs.DataLoader(mixed, batch_size=100, seed=1, format="arrow")
    again.load_state_dict(made.state_dict() | {"epoch": 0, "row": 4321})
    assert ids(again) == order[4321:]


def test_rows_as_arrays(files: Path, engine: LocalEngine) -> None:
    del engine
    pytest.importorskip("numpy")
    made = loader(files, format="numpy")
    assert [int(row) for batch in made for row in batch["id"]] == ids(loader(files))
