"""Epochs of files: every row once, in an order that only files, seed and epoch decide, taken up anywhere."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from exoshuffle.dataset.jobs import windows
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import InputError, OptionsError
from exoshuffle.futures.events import TaskFinished
from exoshuffle.training.state import VERSION
from tests.support.generated import generated
from tests.support.limits import large_memory_limit, small_memory_limit
from tests.support.oracle import assert_same, write_files

FILES, ROWS_OF_FILE = 3, 8000
ROWS = FILES * ROWS_OF_FILE
#: Uniform; windows that are read one by one; windows that are shuffled by numbers; the order of the files.
SHUFFLES: tuple[bool | str, ...] = (True, "2MB", "8kB", False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files, whose rows have a number and a kilobyte: several partitions within the small limit."""
    folder = tmp_path_factory.mktemp("training")
    for number in range(FILES):
        first = number * ROWS_OF_FILE
        rows = range(first, first + ROWS_OF_FILE)
        payload = pa.array([f"{row:x<1000}" for row in rows])
        table = pa.table({"id": pa.array(rows, pa.int64()), "payload": payload})
        pq.write_table(
            table, folder / f"{number}.parquet", row_group_size=1000, use_dictionary=False
        )
    return folder


def loader(files: Path, shuffle: bool | str = True, **options: Any) -> xs.DataLoader:
    made = {"batch_size": 1000, "seed": 7, "format": "arrow"} | options
    return xs.DataLoader(xs.read_parquet(files), shuffle=shuffle, **made)


def ids(batches: Any) -> list[int]:
    return [row for batch in batches for row in batch["id"].to_pylist()]


def epochs_of(made: xs.DataLoader, n: int) -> list[list[int]]:
    return [ids(epoch) for epoch in made.epochs(n)]


class Counted:
    """Counts the tasks that finish, by name."""

    def __init__(self, engine: LocalEngine) -> None:
        self.finished: Counter[str] = Counter()
        self._engine = engine
        self._changed = threading.Condition()

    def __call__(self, event: TaskFinished) -> None:
        with self._changed:
            self.finished[event.name] += 1
            self._changed.notify_all()

    def wait_for(self, count: int, name: str) -> None:
        """Waits until so many tasks of a name have finished."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.finished[name] >= count, timeout=60)

    def __enter__(self) -> Counter[str]:
        self._engine.add_observer(self)
        return self.finished

    def __exit__(self, *_: object) -> None:
        self._engine.remove_observer(self)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_every_epoch_has_each_row_once(
    shuffle: bool | str, files: Path, engine: LocalEngine
) -> None:
    del engine
    first, second = epochs_of(loader(files, shuffle), 2)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    if shuffle is False:
        assert first == second == sorted(first)
    else:
        assert first not in (second, sorted(first))
        assert epochs_of(loader(files, shuffle, seed=8), 1) != [first]
    assert epochs_of(loader(files, shuffle), 1) == [first]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_the_order_goes_on_with_other_memory_cpus_and_batches(
    shuffle: bool | str, files: Path, tmp_path: Path
) -> None:
    with xs.init(memory_limit=large_memory_limit(), spill_dirs=str(tmp_path), num_cpus=1):
        whole = epochs_of(loader(files, shuffle), 3)
    order = list(itertools.chain.from_iterable(whole))
    state, at = None, 0
    # Stops within an epoch, at its end, in the next one, and with a single row left.
    lives = [(1, 777, 3), (3, 20_000, 2), (2, 1000, 24), (2, 23_667, 1), (1, 5000, 10**9)]
    for num_cpus, size, num_batches in lives:
        limit = small_memory_limit() if num_cpus == 2 else large_memory_limit()
        with xs.init(memory_limit=limit, spill_dirs=str(tmp_path), num_cpus=num_cpus):
            made = loader(files, shuffle, batch_size=size)
            if state is not None:
                made.load_state_dict(json.loads(state))
            batches = itertools.chain.from_iterable(made.epochs(3))
            got = ids(itertools.islice(batches, num_batches))
            state = json.dumps(made.state_dict())
            assert got == order[at : at + len(got)]
            at += len(got)
            del batches
    assert at == len(order)
    assert len(state or "") <= 200


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_ranks_share_every_batch(shuffle: bool | str, files: Path, engine: LocalEngine) -> None:
    del engine
    order = epochs_of(loader(files, shuffle), 1)[0]
    ranks = [loader(files, shuffle, batch_size=999, rank=rank, world=3) for rank in range(3)]
    got = [[batch["id"].to_pylist() for batch in made] for made in ranks]
    assert [len(batches) for batches in got] == [len(ranks[0])] * 3
    assert [row for step in zip(*got, strict=True) for row in itertools.chain(*step)] == order
    assert ranks[0].state_dict() == ranks[1].state_dict() == ranks[2].state_dict()


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_rows_of_a_step_have_names(shuffle: bool | str, files: Path, engine: LocalEngine) -> None:
    del engine
    made = loader(files, shuffle, batch_size=1300)
    for number, epoch in enumerate(made.epochs(2)):
        for step, batch in enumerate(epoch):
            if step in (0, 9, len(made) - 1):
                rows = [
                    int(Path(file).stem) * ROWS_OF_FILE + row
                    for file, row in made.rows_of(number, step)
                ]
                assert rows == batch["id"].to_pylist()


def test_what_was_handed_over_is_not_made_again(
    files: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last tenth of an epoch takes a few reduces, windows and scans, not all."""
    monkeypatch.setattr(windows, "PART_BYTES", 1_000_000)
    for shuffle, task in [(True, "reduce"), ("500kB", "window"), (False, "scan")]:
        counts = []
        for row in (0, ROWS * 9 // 10):
            made = loader(files, shuffle)
            made.load_state_dict(made.state_dict() | {"row": row})
            with Counted(engine) as finished:
                assert len(ids(made)) == ROWS - row
            counts.append(finished[task])
        everything, rest = counts
        assert 0 < rest <= everything // 3 < everything, (shuffle, counts)


def test_the_next_epoch_is_shuffled_during_this_one(files: Path, engine: LocalEngine) -> None:
    counted = Counted(engine)
    with counted as finished:
        epochs = loader(files).epochs(2)
        epoch = next(epochs)
        batches = [next(epoch)]
        of_one = finished["map"]
        batches += itertools.islice(epoch, 22)
        # Else the wait ends with an error: the program takes the last batch afterwards.
        counted.wait_for(of_one * 3 // 2 + 1, "map")
        during = finished["map"]
        assert len(batches + list(epoch)) == 24
        list(next(epochs))
        assert finished["map"] % 2 == 0
        assert during > finished["map"] // 2, "all maps of the next epoch came after this one"


def test_a_loop_that_was_left_goes_on(files: Path, engine: LocalEngine) -> None:
    del engine
    made = loader(files, batch_size=5000)
    order = epochs_of(loader(files), 2)
    assert next(iter(made))["id"].to_pylist() == order[0][:5000]
    assert ids(made) == order[0][5000:]
    assert made.state_dict()["epoch"] == 1
    assert ids(made) == order[1]
    assert epochs_of(made, 2) == []


def test_threads_end_with_a_loop_that_is_left(files: Path, engine: LocalEngine) -> None:
    del engine
    for epoch in loader(files).epochs(3):
        next(epoch)
        break
    del epoch
    assert not [each.name for each in threading.enumerate() if "next epoch" in each.name]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_values_of_all_types_come_as_they_are(
    shuffle: bool | str, tmp_path: Path, engine: LocalEngine
) -> None:
    """The rows of an epoch are those of the shuffle with its seed, to the bit: NaN, nulls, views, zones, nested."""
    del engine
    rows = generated(3000)
    moments = rows["moment"].cast(pa.timestamp("us", "Europe/Berlin"))
    rows = rows.append_column("zoned", moments)
    rows = rows.append_column("view", rows["text"].cast(pa.string_view()))
    rows = rows.append_column("category", rows["text"].dictionary_encode())
    rows = rows.append_column("none", pa.nulls(3000, pa.int8()))
    write_files(tmp_path / "in", rows, 3, rows_per_group=500)
    dataset = xs.read_parquet(tmp_path / "in")
    made = xs.DataLoader(dataset, batch_size=700, shuffle=shuffle, seed=4, format="arrow")
    seed = made._seed_of(0)
    window = None if shuffle is True else shuffle
    same = dataset if shuffle is False else dataset.random_shuffle(seed, window=window)
    assert_same(pa.Table.from_batches(list(made)), same.to_arrow())


@pytest.mark.parametrize("epoch", [0, 5])
def test_the_order_is_uniform(epoch: int, files: Path, engine: LocalEngine) -> None:
    """Chi-square of where rows of ten parts of the input come among ten parts of the order: 81 degrees of freedom."""
    del engine
    made = loader(files)
    made.load_state_dict(made.state_dict() | {"epoch": epoch})
    order = ids(made)
    before = ids(made)
    for other in (range(ROWS), invert(before)):
        cells = Counter(
            (place * 10 // ROWS, other[row] * 10 // ROWS) for place, row in enumerate(order)
        )
        expected = ROWS / 100
        chi_square = sum((cells[cell] - expected) ** 2 / expected for cell in cells)
        assert 40 < chi_square < 140  # 1 order in 100,000 is outside


def invert(order: Sequence[int]) -> list[int]:
    places = [0] * len(order)
    for place, row in enumerate(order):
        places[row] = place
    return places


def test_the_last_batch_may_be_dropped(files: Path, engine: LocalEngine) -> None:
    del engine
    made = loader(files, batch_size=7000, drop_last=True)
    order = epochs_of(loader(files), 2)
    assert len(made) == 3
    assert len(loader(files, batch_size=7000)) == 4
    assert epochs_of(made, 2) == [epoch[:21_000] for epoch in order]


def steps_behind(files: Path) -> Iterator[tuple[str, xs.Dataset, list[int]]]:
    whole = xs.read_parquet(files)
    parts = [xs.read_parquet(files / f"{number}.parquet") for number in range(FILES)]
    yield (
        "columns",
        whole.rename({"id": "other"}).select("payload", id="other + 0"),
        list(range(ROWS)),
    )
    yield "a filter", whole.filter("id % 3 = 0"), list(range(0, ROWS, 3))
    yield "a union", xs.concat(parts), list(range(ROWS))
    yield "a file twice", xs.concat([parts[2], parts[2]]), sorted([*range(16_000, ROWS)] * 2)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_rows_behind_steps_are_taken_up(
    shuffle: bool | str, files: Path, engine: LocalEngine
) -> None:
    del engine
    for name, dataset, expected in steps_behind(files):
        made = xs.DataLoader(dataset, batch_size=900, shuffle=shuffle, seed=1, format="arrow")
        order, states = [], []
        for batch in made:
            order.append(batch["id"].to_pylist())
            states.append(made.state_dict())
        assert sorted(itertools.chain(*order)) == expected, name
        assert len(made) == len(order)
        for at in (1, len(order) - 2):
            again = xs.DataLoader(dataset, batch_size=900, shuffle=shuffle, seed=1, format="arrow")
            again.load_state_dict(states[at])
            assert [batch["id"].to_pylist() for batch in again] == order[at + 1 :], name


def test_text_is_taken_up(tmp_path: Path, engine: LocalEngine) -> None:
    """Text does not tell how many rows it has; partitions are made, and their rows left out."""
    del engine
    rows = pa.table({"id": range(30_000), "text": ["x" * 90] * 30_000})
    pyarrow.csv.write_csv(rows, tmp_path / "in.csv")
    for shuffle in SHUFFLES:
        made = xs.DataLoader(
            xs.read_csv(tmp_path / "in.csv"),
            batch_size=4000,
            shuffle=shuffle,
            seed=1,
            format="arrow",
        )
        order = ids(made)
        assert sorted(order) == list(range(30_000))
        assert made.state_dict()["epoch"] == 1
        again = xs.DataLoader(
            xs.read_csv(tmp_path / "in.csv"),
            batch_size=999,
            shuffle=shuffle,
            seed=1,
            format="arrow",
        )
        again.load_state_dict(made.state_dict() | {"epoch": 0, "row": 23_456})
        assert ids(again) == order[23_456:]


def test_rows_of_no_epoch(files: Path, engine: LocalEngine) -> None:
    """Filters are known to keep nothing only when they have run."""
    del engine
    made = xs.DataLoader(xs.read_parquet(files).filter("id < 0"), batch_size=9, format="arrow")
    with pytest.raises(OptionsError, match="a dataset without any row; loosen its filters"):
        list(made)


def test_many_small_files(tmp_path: Path, engine: LocalEngine) -> None:
    del engine
    for number in range(300):
        table = pa.table({"id": pa.array([number] if number % 2 else [], pa.int64())})
        pq.write_table(table, tmp_path / f"{number:03}.parquet")
    for shuffle in (True, "1kB", False):
        made = xs.DataLoader(
            xs.read_parquet(tmp_path), batch_size=50, shuffle=shuffle, seed=1, format="arrow"
        )
        order = ids(made)
        assert sorted(order) == list(range(1, 300, 2))
        assert [int(Path(file).stem) for file, _ in made.rows_of(0, 1)] == order[50:100]


def test_damaged_files_are_named(tmp_path: Path, engine: LocalEngine) -> None:
    """Also where a later epoch finds them. The second one may be shuffled already."""
    del engine
    pq.write_table(pa.table({"id": list(range(1000))}), tmp_path / "in.parquet")
    epochs = loader(tmp_path).epochs(3)
    epoch = next(epochs)
    next(epoch)
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"in\.parquet"):
        list(map(list, itertools.chain([epoch], epochs)))


@pytest.mark.parametrize(
    ("shuffle", "expected"),
    [
        (True, [[7, 0, 11, 8, 4, 2, 9, 1, 3, 5, 6, 10], [8, 10, 6, 3, 4, 0, 7, 11, 1, 2, 5, 9]]),
        ("24B", [[7, 8, 6, 4, 3, 5, 0, 2, 1, 11, 9, 10], [3, 4, 5, 10, 11, 9, 0, 1, 2, 8, 6, 7]]),
    ],
)
def test_what_a_seed_means(
    shuffle: bool | str, expected: list[list[int]], tmp_path: Path, engine: LocalEngine
) -> None:
    """A change of these orders changes ``training.state.VERSION``: states of other releases must be refused."""
    del engine
    for number in range(2):
        ids_of_file = pa.array(range(6 * number, 6 * number + 6), pa.int64())
        pq.write_table(pa.table({"id": ids_of_file}), tmp_path / f"{number}.parquet")
    assert VERSION == 1
    assert epochs_of(loader(tmp_path, shuffle, batch_size=5), 2) == expected
