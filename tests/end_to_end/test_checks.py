"""Planted defects: every shuffle that would lose, repeat or change rows ends in the named error, and leaves nothing."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.cloudsort import gensort
from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.engines.local import LocalEngine
from exoshuffle.errors import ShuffleCheckError
from exoshuffle.futures import Ref, Refs
from exoshuffle.operators.core.shuffle import Side
from exoshuffle.operators.core.tasks import TableTasks
from exoshuffle.plan.division import Division, Large, Pieces
from exoshuffle.plan.workload import Workload
from exoshuffle.strategies import (
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    ShufflePlan,
    Simple,
    Strategy,
    TaskSet,
)
from exoshuffle.strategies.mechanisms.reduces import run_reduces
from exoshuffle.strategies.streaming import Streaming
from exoshuffle.strategies.task_set import stage
from exoshuffle.testing.meeting import poll
from tests.support.generated import assert_same_rows, generated
from tests.support.oracle import assert_same, write_files

NUM_PARTITIONS = 5
HEADER_BYTES = 40

Blocks = Sequence[Ref]
Choice = Callable[[Blocks], Blocks]


@dataclass(frozen=True)
class Careless:
    """The simple strategy, with map outputs handed on wrongly."""

    choose: Choice
    shift: int = 0

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        run_reduce = stage(tasks, "reduce", memory=plan.reduce_memory_bytes)
        blocks = Refs(self.choose([run_map.remote(i, split) for i, split in enumerate(splits)]))
        for partition in range(plan.num_partitions):
            column = (partition + self.shift) % plan.num_partitions
            yield run_reduce.remote(partition, blocks.column(column))


@dataclass(frozen=True)
class Divided:
    """A strategy with a plan by which every partition is large.

    Attributes:
        strategy: The strategy.
        split_bytes: The most that a map of a division reads; 1: a slice.
    """

    strategy: Strategy
    split_bytes: int = 1

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        limit = plan.partition_bytes // 2
        small = replace(plan, max_partition_bytes=limit, split_bytes=self.split_bytes)
        yield from self.strategy.shuffle(tasks, splits, small)


@dataclass(frozen=True)
class Forgetful:
    """The simple strategy, with map outputs handed on wrongly to reduces that divide large partitions."""

    choose: Choice

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        run_map = stage(tasks, "map", num_returns=plan.num_partitions, memory=plan.map_memory_bytes)
        blocks = self.choose([run_map.remote(i, split) for i, split in enumerate(splits)])
        yield from run_reduces(tasks, Refs(blocks), plan)


class Lossy(TableTasks):
    """A merge that loses what the second of its blocks has for partition 0."""

    def merge(self, *blocks: Any) -> Any:
        if len(blocks) < 2:  # the last one, where their number is odd
            return super().merge(*blocks)
        first, second, *others = blocks
        return super().merge(first, [b"", *list(second)[1:]], *others)


class Forgotten(TableTasks):
    """A fold that loses the first slice of each round but the first."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        return super().fold(partition, state, slices[1:] if state is not None else slices)


class Restarted(TableTasks):
    """A fold that begins anew in each round."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        del state
        return super().fold(partition, None, slices)


class Repeating(TableTasks):
    """A fold that gets the slices of the first round twice."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        return super().fold(partition, state, slices * (2 if state is None else 1))


class Flipping(TableTasks):
    """A map whose output changes by one bit, in a row, after it was written: as memory or a disk would do it."""

    def map(self, index: int, item: Any) -> Any:
        block = super().map(index, item)
        return flipped(block) if index == 2 else block


class FlippingMerged(TableTasks):
    """The same of a merge."""

    def merge(self, *blocks: Any) -> Any:
        return flipped(super().merge(*blocks))


class FlippingFolded(TableTasks):
    """The same of the state of a partition, between two rounds."""

    def fold(self, partition: int, state: Any, slices: list[Any]) -> Any:
        folded = super().fold(partition, state, slices)
        return flipped(folded) if state is None else folded


def flipped(block: Any) -> Any:
    """The block, in which a bit of a row has changed."""
    with memoryview(block) as view:
        view[_a_row_byte(view)] ^= 0x10
    return block


def _a_row_byte(view: memoryview) -> int:
    """The place of a byte in the middle of the first rows there are."""
    at = 0
    while True:
        rows, num_bytes = (int.from_bytes(view[at + i : at + i + 8], "little") for i in (16, 32))
        if rows:
            return at + HEADER_BYTES + num_bytes // 2
        at += HEADER_BYTES + num_bytes


@dataclass(frozen=True)
class With:
    """A strategy that is given other tasks than it was meant to have."""

    kind: type[TableTasks]
    strategy: Strategy

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        changed = self.kind(**vars(tasks))
        # Plans for a strategy of the caller know of no merges.
        pairs = replace(plan, round_size=2, merge_factor=2)
        return self.strategy.shuffle(changed, splits, pairs)


@dataclass(frozen=True)
class Miscounted:
    """A strategy of whose results some are lost or repeated."""

    strategy: Strategy
    choose: Choice

    def shuffle(self, tasks: TaskSet, splits: Sequence[Any], plan: ShufflePlan) -> Iterator[Ref]:
        # Streams taken as lists, since a stream hands out its items once.
        yield from self.choose(list(map(list, self.strategy.shuffle(tasks, splits, plan))))


def lost(blocks: Blocks) -> Blocks:
    return [*blocks[:1], *blocks[2:]]


def twice(blocks: Blocks) -> Blocks:
    return [*blocks[:3], *blocks[2:]]


def instead(blocks: Blocks) -> Blocks:
    return [blocks[0], blocks[0], *blocks[2:]]


def none(blocks: Blocks) -> Blocks:
    return blocks[:0]


def swapped(blocks: Blocks) -> Blocks:
    return [blocks[1], blocks[0], *blocks[2:]]


def first_lost(blocks: Blocks) -> Blocks:
    return blocks[1:]


def last_lost(blocks: Blocks) -> Blocks:
    return blocks[:-1]


IN_PAIRS = Streaming(round_size=2)

DEFECTS: dict[str, tuple[Strategy, str]] = {
    "a map output is lost": (Careless(lost), "did not get the output of map 1"),
    "one is handed on twice": (Careless(twice), "got the output of map 2 twice"),
    "one takes the place of another": (Careless(instead), "got the output of map 0 twice"),
    "two are swapped": (Careless(swapped), "got the output of map 0 behind that of map 1"),
    "all are lost": (Careless(none), r"did not get the output of \d+ maps"),
    "partitions are swapped": (Careless(list, shift=1), r"got the output of map 0 for partition \d"),
    "a merge loses a slice": (With(Lossy, Push()), "did not get the output of (.*the first of them )?map 1"),
    "a bit flips": (With(Flipping, Simple()), "got rows of map 2 that are not those which the map sent"),
    "a bit flips before a merge": (With(Flipping, Push()), "got rows of map 2 that are not those"),
    "a bit flips before a fold": (With(Flipping, Streaming()), "got rows of map 2 that are not those"),
    "a bit flips in a merge": (With(FlippingMerged, Push()), r"got rows of map \d that are not those"),
    "a bit flips in a fold": (With(FlippingFolded, IN_PAIRS), r"got rows of map [01] that are not those"),
    "a fold loses a slice": (With(Forgotten, IN_PAIRS), "did not get the output of (.*first of them )?map 2"),
    "a fold loses the state": (With(Restarted, IN_PAIRS), r"did not get the output of \d maps.* map 0"),
    "a fold repeats a round": (With(Repeating, IN_PAIRS), "got the output of map 0 (twice|behind)"),
}  # fmt: skip

#: The same in partitions that are divided, whose rows are read a slice at a time; or by one map.
DIVIDED: dict[str, tuple[Strategy, str]] = {
    "a map output is lost": (Divided(Forgetful(lost)), "did not get the output of map 1"),
    "one is lost within a run": (Divided(Forgetful(lost), 10**9), "did not get the output of map 1"),
    "the first is lost": (Divided(Forgetful(first_lost)), "did not get the output of map 0"),
    "the last is lost": (Divided(Forgetful(last_lost)), r"did not get the output of map \d"),
    "one is handed on twice": (Divided(Forgetful(twice)), "got the output of map 2"),
    "one takes the place of another": (Divided(Forgetful(instead)), "got the output of map 0"),
    "two are swapped": (Divided(Forgetful(swapped)), "(got|did not get) the output of map 0"),
    "a bit flips in a merge": (Divided(With(FlippingMerged, Push())), r"got rows of map \d that are not those"),
    "a merge loses a slice": (Divided(With(Lossy, Push())), "did not get the output of (.*the first of them )?map 1"),
    "a bit flips": (Divided(With(Flipping, Simple())), "got rows of map 2 that are not those which the map sent"),
}  # fmt: skip

Operator = Callable[[Dataset, Strategy], Dataset]

OPERATORS: dict[str, Operator] = {
    "sort": lambda rows, strategy: rows.sort("k", strategy=strategy, num_partitions=NUM_PARTITIONS),
    "random_shuffle": lambda rows, strategy: rows.random_shuffle(
        seed=1, strategy=strategy, num_partitions=NUM_PARTITIONS
    ),
    "repartition": lambda rows, strategy: rows.repartition(NUM_PARTITIONS, strategy=strategy),
    "group_by": lambda rows, strategy: rows.group_by(
        "k", strategy=strategy, num_partitions=NUM_PARTITIONS
    ).agg(n=("id", "count")),
    "join": lambda rows, strategy: rows.join(
        rows.rename({"text": "other"}).select("k", "other"),
        on="k",
        how="outer",
        strategy=strategy,
        num_partitions=NUM_PARTITIONS,
    ),
}

IN_TURN = itertools.cycle(["join", "group_by", "sort", "random_shuffle"])


@pytest.fixture(autouse=True)
def a_map_per_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defects are planted between maps, and one map would read all of these small files."""

    def cut(self: FileInput, side: Side, split_bytes: int, workload: Workload) -> list[str]:
        del side, workload
        return self.pieces(split_bytes)

    monkeypatch.setattr(FileInput, "cut", cut)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables in files of a split each."""
    rows = generated(4_000, keys=2_000)
    return write_files(tmp_path_factory.mktemp("checks") / "in", rows, 5)


def fails(rows: Dataset, operator: str, words: str, out: Path, stage: str = "reduce") -> None:
    """Runs it; the error names the stage and what differed, and there is no output."""
    write = rows.write_records if operator == "records" else rows.write_parquet
    with pytest.raises(ShuffleCheckError) as caught:
        write(out)
    name = "sort" if operator == "records" else operator
    assert re.match(rf"the {stage} of partition \d+ of {name} {words}", str(caught.value))
    assert not list(out.parent.iterdir())


def used_bytes(engine: LocalEngine) -> int:
    """Of blocks. The frames of errors hold some until garbage is collected, also of tasks that fail after the first."""
    gc.collect()
    return engine.stats()["used_blocks_bytes"]


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_defect_is_named(
    operator: str, defect: str, source: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    strategy, words = DEFECTS[defect]
    (tmp_path / "made").mkdir()
    made = OPERATORS[operator](xs.read_parquet(source), strategy)
    fails(made, operator, words, tmp_path / "made" / "out")
    poll(lambda: used_bytes(engine) == 0)


@pytest.mark.parametrize(
    ("operator", "defect"),
    # Every operator with the first one, and all others with operators in turn.
    [
        *((name, next(iter(DIVIDED))) for name in OPERATORS),
        *zip(IN_TURN, list(DIVIDED)[1:], strict=False),
    ],
)
def test_a_defect_in_a_divided_partition_is_named(
    operator: str, defect: str, source: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    strategy, words = DIVIDED[defect]
    (tmp_path / "made").mkdir()
    made = OPERATORS[operator](xs.read_parquet(source), strategy)
    # A partition that nothing finishes is streamed into its file.
    stage = "reduce" if operator == "repartition" else "division"
    fails(made, operator, words, tmp_path / "made" / "out", stage)


@pytest.mark.parametrize("defect", ["a map output is lost", "a bit flips"])
def test_a_defect_where_rows_are_combined_in_a_division_is_named(
    defect: str, source: Path, engine: LocalEngine, tmp_path: Path
) -> None:
    del engine
    strategy, words = DIVIDED[defect]
    (tmp_path / "made").mkdir()
    grouped = xs.read_parquet(source).group_by("id", strategy=strategy, num_partitions=2)
    made = grouped.agg(n="count", a=("text", "min"), b=("text", "max"), c=("text", "first"))
    fails(made, "group_by", words, tmp_path / "made" / "out", "division")


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_in_sorting_records_is_named(
    defect: str, engine: LocalEngine, tmp_path: Path
) -> None:
    gensort(tmp_path / "in", 20_000, partitions=4)
    strategy, words = DEFECTS[defect]
    (tmp_path / "made").mkdir()
    made = xs.read_records(tmp_path / "in").sort(strategy=strategy, num_partitions=NUM_PARTITIONS)
    fails(made, "records", words, tmp_path / "made" / "out")
    poll(lambda: used_bytes(engine) == 0)


@pytest.mark.parametrize("operator", OPERATORS)
def test_without_a_defect_the_same_strategies_succeed(
    operator: str, source: Path, engine: LocalEngine
) -> None:
    del engine
    strategies = [
        Careless(lambda blocks: blocks),
        With(TableTasks, Push()),
        With(TableTasks, Simple()),
        With(TableTasks, IN_PAIRS),
    ]
    tables = [OPERATORS[operator](xs.read_parquet(source), each).to_arrow() for each in strategies]
    assert tables[0].num_rows > 0
    for table in tables:
        assert_same(table, tables[0])


@pytest.mark.parametrize("operator", OPERATORS)
def test_without_a_defect_partitions_are_divided(
    operator: str, source: Path, engine: LocalEngine
) -> None:
    del engine
    wanted = OPERATORS[operator](xs.read_parquet(source), Simple()).to_arrow()
    for strategy in (Forgetful(list), With(TableTasks, Push())):
        made = OPERATORS[operator](xs.read_parquet(source), Divided(strategy))
        assert_same_rows(made.to_arrow(), wanted)


@pytest.mark.parametrize("operator", ["repartition", "random_shuffle", "sort"])
@pytest.mark.parametrize("defect", [lambda refs: refs[:-1], lambda refs: [refs[0], *refs]])
@pytest.mark.parametrize("strategy", [Simple(), Divided(Simple())])
def test_results_that_are_lost_or_come_twice_are_missed(
    operator: str, defect: Choice, strategy: Strategy, source: Path, engine: LocalEngine
) -> None:
    """Of pieces of a partition no one else can tell whether all are there."""
    rows = OPERATORS[operator](xs.read_parquet(source), Miscounted(strategy, defect))
    with pytest.raises(ShuffleCheckError, match=r"^4000 rows were read, and \d+ came out"):
        rows.to_arrow()
    with pytest.raises(ShuffleCheckError, match=r"^4000 rows were read, and \d+ came out"):
        sum(batch.num_rows for batch in rows.iter_batches())
    poll(lambda: used_bytes(engine) == 0)


def test_a_step_that_hides_the_error_does_not_hide_it(
    source: Path, roomy_engine: LocalEngine
) -> None:
    """Steps behind the shuffle get the error of an Arrow stream as text."""
    del roomy_engine
    strategy, words = DEFECTS["a bit flips"]
    rows = OPERATORS["repartition"](xs.read_parquet(source), strategy)
    with pytest.raises(ShuffleCheckError, match=words):
        rows.with_columns(twice="id * 2").filter("twice >= 0").to_arrow()
    with pytest.raises(ShuffleCheckError, match=words):
        rows.map_batches(_same).to_arrow()


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def test_rounds_that_are_lost_are_missed(
    source: Path, engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    del engine
    groups = xs.read_parquet(source).group_by("k", num_partitions=2).agg(n=("id", "count"))
    assert list(groups.stream())[-1].table.num_rows > 0
    rounds = Streaming.rounds

    def without_one(self: Streaming, tasks: Any, splits: Any, plan: Any) -> Iterator[Any]:
        """All rounds but the last, which the program is told were all."""
        made = list(rounds(self, tasks, splits, plan))
        yield replace(made[-1], states=made[-2].states)

    monkeypatch.setattr(Streaming, "rounds", without_one)
    with pytest.raises(
        ShuffleCheckError, match=r"the fold of partition \d of group_by got the output of"
    ):
        list(groups.stream())


def _one_key(rows: int) -> pa.Table:
    return pa.table({"k": [1] * rows, "n": range(rows)})


def _in_wrong_pieces(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[Sequence[int]], Sequence[int]]
) -> list[Pieces]:
    """Has the last piece of every partition that is taken in pieces made of other slices; returns what was to be."""
    divide = TableTasks.divide
    planted = []

    def wrongly(self: TableTasks, large: Large) -> Division:
        made = divide(self, large)
        if not isinstance(made, Pieces):
            return made
        planted.append(made)
        return replace(made, pieces=[*made.pieces[:-1], defect(made.pieces[-1])])

    monkeypatch.setattr(TableTasks, "divide", wrongly)
    return planted


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        (lambda piece: piece[1:], "got 2 slices where 3 belong"),
        (lambda piece: [*piece, piece[-1]], "got 4 slices where 3 belong"),
        (
            lambda piece: [0, *piece[1:]],
            "got the output of map 0 where the output of map 2 belongs",
        ),
        (
            lambda piece: [*piece[:-1], 6],
            "got the output of map 6 where the output of map 7 belongs",
        ),
        (
            lambda piece: [*reversed(piece)],
            "got the output of map 7 where the output of map 2 belongs",
        ),
    ],
)
def test_a_defect_in_a_piece_of_a_join_is_named(
    defect: Callable[[Sequence[int]], Sequence[int]],
    words: str,
    tmp_path: Path,
    engine: LocalEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each piece of a join of one key is a result of its own, which may have any number of rows."""
    del engine
    sides = [write_files(tmp_path / side, _one_key(400), 4) for side in ("left", "right")]
    left, right = (xs.read_parquet(side) for side in sides)
    monkeypatch.setattr("exoshuffle.dataset.jobs.small_sides.MAX_BROADCAST_BYTES", 0)
    joined = left.join(
        right.rename({"n": "m"}),
        on="k",
        strategy=Divided(Simple(), 4000),
        num_partitions=1,
    )
    assert joined.to_arrow().num_rows == 400 * 400
    planted = _in_wrong_pieces(monkeypatch, defect)
    with pytest.raises(
        ShuffleCheckError, match=rf"^the reduce of piece \d+ of partition \d+ of join {words}"
    ):
        joined.to_arrow()
    assert planted


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (Simple(), r"got the output of map 0 where the output of map \d belongs"),
        (Push(), "got the output of maps 0 to 1 where the output of map 4 belongs"),
        (
            PreShuffleMerge(MergeOptions(FixedFiles(2), percent=100)),
            "got the output of maps 0 to 1 where the output of map 4 belongs",
        ),
    ],
)
def test_a_defect_in_a_piece_on_its_way_into_another_shuffle_is_named(
    strategy: Strategy,
    words: str,
    source: Path,
    engine: LocalEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del engine
    divided = Divided(With(TableTasks, strategy))
    rows = xs.read_parquet(source).repartition(NUM_PARTITIONS, strategy=divided).sort("k")
    assert rows.to_arrow().num_rows == 4000
    planted = _in_wrong_pieces(monkeypatch, lambda piece: [0, *piece[1:]])
    with pytest.raises(
        ShuffleCheckError,
        match=rf"^the reduce of piece \d+ of partition \d+ of repartition {words}",
    ):
        rows.to_arrow()
    assert planted
