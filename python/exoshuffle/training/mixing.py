"""The order of a mixture: rows of several sources, each in its own order, picked in the proportions of the weights.

Guarantee: it follows from the sources, the weights and the seed alone. It begins at any row: of each source, at the row
that arithmetic finds (``picks``). Cost: rows are copied twice, as many at a time as ``PIECE_BYTES`` are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from exoshuffle.dataset.tree.nodes import Node
from exoshuffle.errors import OptionsError, ShuffleCheckError
from exoshuffle.futures import Engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.batches import movable, picking
from exoshuffle.operators.kernels import cast_table
from exoshuffle.training.file_rows import fingerprint
from exoshuffle.training.mix import Mix
from exoshuffle.training.orders import Begun, FileOrder, Order, Place, num_rows_of_files, order_of
from exoshuffle.training.pace import InTurn, Pace, Pacing, no_pace
from exoshuffle.training.picks import Picks, counts_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of rows that are put together at once.
PIECE_BYTES = 4_000_000


@dataclass(frozen=True)
class Mixed(Order):
    """The order of a mixture.

    Attributes:
        sources: The order of each source.
        picks: Which source each row comes from.
        schema: Columns of the rows.
    """

    sources: Sequence[FileOrder]
    picks: Picks
    schema: pa.Schema

    @property
    def nodes(self) -> Sequence[Node]:
        """See ``Order``."""
        return [node for source in self.sources for node in source.nodes]

    @property
    def tells_rows(self) -> bool:
        """See ``Order``."""
        return all(source.tells_rows for source in self.sources)

    def begin(self, seed: int, row: int, pace: Pacing, engine: Engine) -> Begun:
        """See ``Order``."""
        before, ends = self.picks.before(seed, row), self.picks.had()
        numbered = enumerate(zip(self.sources, self.picks.sizes, strict=True))
        laps = [_Laps(order, size, seed, number, engine) for number, (order, size) in numbered]
        paces = in_turn(pace, self.picks.sizes)
        begun = [
            _BegunLaps(each, had, end, each.begun(had, own)) if had < end else None
            for each, had, end, own in zip(laps, before, ends, paces, strict=True)
        ]
        return _BegunMix(self.picks, self.schema, seed, row, tuple(begun))

    def rows(self, seed: int, start: int, stop: int) -> list[Place]:
        """See ``Order``. Cost: that of each source."""
        came, ends = self.picks.before(seed, start), self.picks.before(seed, stop - 1)
        own = [
            iter(self._of(source, first, last + 1, seed))
            for source, (first, last) in enumerate(zip(came, ends, strict=True))
        ]
        found: list[Place] = []
        for sources in self.picks.sources(seed, start):
            wanted = sources.slice(0, stop - start - len(found)).to_pylist()
            found += [next(own[source]) for source in wanted]
            if len(found) == stop - start:
                break
        return found

    def _of(self, source: int, row: int, stop: int, seed: int) -> list[Place]:
        """Returns rows of one source."""
        order, size = self.sources[source], self.picks.sizes[source]
        found: list[Place] = []
        while row < stop:
            lap, first = divmod(row, size)
            last = min(size, first + stop - row)
            found += order.rows(_seed_of_lap(seed, source, lap), first, last)
            row += last - first
        return found


class _Laps(NamedTuple):
    """A source, whose rows may come again and again, in another order each time.

    Attributes:
        order: Its order.
        size: Its rows.
        seed: The seed of the epoch.
        number: Its number among the sources.
        engine: Where it runs.
    """

    order: FileOrder
    size: int
    seed: int
    number: int
    engine: Engine

    def begun(self, row: int, pace: Pacing) -> Begun:
        """Begins at a row, those of laps before it counted."""
        lap, first = divmod(row, self.size)
        seed = _seed_of_lap(self.seed, self.number, lap)
        return self.order.begin(seed, first, pace, self.engine)


class _BegunLaps(NamedTuple):
    """A source that has begun.

    Attributes:
        laps: The source.
        row: The first row that is wanted, those of laps before it counted.
        end: The row behind the last that is wanted.
        begun: The lap that the row is in.
    """

    laps: _Laps
    row: int
    end: int
    begun: Begun

    @property
    def num_parts(self) -> int:
        """How many parts it has, if each lap has as many."""
        return self.begun.num_parts * -(-(self.end - self.row) // self.laps.size)

    def started(self, num_ahead: int) -> _BegunLaps:
        """See ``Begun``."""
        return self._replace(begun=self.begun.started(num_ahead))

    def batches(self, pace: Pace) -> Iterator[pa.RecordBatch]:
        """Yields the rows, without end."""
        laps, row, _, begun = self
        while True:
            missing = begun.num_skipped
            for batch in begun.batches(pace):
                skipped = min(missing, batch.num_rows)
                missing -= skipped
                row += batch.num_rows - skipped
                yield batch.slice(skipped)
                del batch
            if row % laps.size:
                raise ShuffleCheckError(
                    f"dataset {laps.number} of a mixture has {laps.size} rows, and {row % laps.size} came out; the "
                    "result is wrong; run it again, and report a second time"
                )
            begun = laps.begun(row, no_pace()).started(laps.engine.num_cpus)


@dataclass(frozen=True)
class _BegunMix:
    """An epoch of a mixture that has begun; see ``Begun``.

    Attributes:
        picks: Which source each row comes from.
        schema: Columns of the rows.
        seed: The seed of the epoch.
        row: The first row that is wanted.
        begun: Each source, where it begins; None for one without rows from there on.
    """

    picks: Picks
    schema: pa.Schema
    seed: int
    row: int
    begun: tuple[_BegunLaps | None, ...]

    @property
    def num_parts(self) -> int:
        """See ``Begun``."""
        return sum(each.num_parts for each in self.begun if each is not None)

    @property
    def num_skipped(self) -> int:
        """See ``Begun``."""
        return 0

    def started(self, num_ahead: int) -> _BegunMix:
        """See ``Begun``."""
        started = [None if each is None else each.started(num_ahead) for each in self.begun]
        return replace(self, begun=tuple(started))

    def batches(self, pace: Pace) -> Iterator[pa.RecordBatch]:
        """See ``Begun``."""
        rows = [
            _Rows(iter(()) if each is None else each.batches(pace), self.schema)
            for each in self.begun
        ]
        for sources in _pieces(self.picks.sources(self.seed, self.row), rows):
            yield _picked(rows, sources)


def in_turn(pace: Pacing, sizes: Sequence[int]) -> Iterator[Pacing]:
    """Yields a pace for each source, which is prepared behind those before it.

    Why: with one pace for all, the first source alone took the time until the last maps are due. All others came then.
    """
    total, before = sum(sizes), 0
    for size in sizes:
        yield InTurn(pace, before / total, (before + size) / total)
        before += size


def _pieces(sources: Iterator[pa.Array], rows: Sequence[_Rows]) -> Iterator[pa.Array]:
    """Yields the sources of as many rows as are put together at once; it decides nothing about which these are.

    Why not a portion at a time: each column takes some kernels. With 29 columns a mixture took 1.3 us of CPU time a row
    more than its files by themselves, and takes 0.6.
    """
    import pyarrow as pa

    waiting: list[pa.Array] = []
    for portion in sources:
        waiting.append(portion)
        wanted = max(1, PIECE_BYTES // max(1, *(source.row_bytes for source in rows)))
        if sum(map(len, waiting)) >= wanted:
            together = pa.concat_arrays(waiting)
            waiting = []
            for first in range(0, len(together), wanted):
                yield together.slice(first, wanted)
    if waiting:
        yield pa.concat_arrays(waiting)


def _picked(rows: Sequence[_Rows], sources: pa.Array) -> pa.RecordBatch:
    """Returns the next rows, given the source of each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[pa.RecordBatch] = []
    for source, count in zip(rows, counts_of(sources, len(rows)), strict=True):
        parts += source.take(count)
    if len(parts) == 1:
        return parts[0]
    # Sorting the sources finds where the rows of each went; the inverse of that, which went to each place.
    places = pc.array_sort_indices(pc.array_sort_indices(sources))
    schema = parts[0].schema
    with picking(schema.types):
        together = movable(pa.Table.from_batches(parts)).unify_dictionaries().combine_chunks()
        picked = cast_table(together.take(places), schema)
    return picked.to_batches()[0]


class _Rows:
    """The rows of a source, taken some at a time.

    Args:
        batches: The rows; as many as are taken.
        schema: Columns of the rows, as all sources have them.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._schema = schema
        self._left = next(batches, None)
        #: Bytes of a row, of the batch that came last.
        self.row_bytes = 0 if self._left is None else _row_bytes(self._left)

    def take(self, count: int) -> list[pa.RecordBatch]:
        """Returns the next rows."""
        taken: list[pa.RecordBatch] = []
        while count:
            if self._left is None:
                self._left = next(self._batches)
                self.row_bytes = _row_bytes(self._left)
            part = self._alike(self._left.slice(0, count))
            count -= part.num_rows
            is_all = part.num_rows == self._left.num_rows
            self._left = None if is_all else self._left.slice(part.num_rows)
            taken.append(part)
        return taken

    def _alike(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        if rows.schema.equals(self._schema, check_metadata=True):
            return rows
        return pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)


def _row_bytes(batch: pa.RecordBatch) -> int:
    num_bytes: int = batch.nbytes
    return num_bytes // max(1, int(batch.num_rows))


def mixed_order(mix: Mix, shuffle: bool | str) -> Mixed:
    """Returns the order of a mixture. Cost: counts the rows of sources whose files do not tell their numbers.

    Raises:
        OptionsError: A source has no rows, or too few for the proportions of all rows.
    """
    orders = [order_of(dataset.node, shuffle) for dataset in mix.datasets]
    sizes: list[int] = []
    for number, (dataset, order) in enumerate(zip(mix.datasets, orders, strict=True)):
        known = num_rows_of_files(order)
        sizes.append(dataset.count() if known is None else known)
        if not sizes[-1]:
            raise OptionsError(
                f"dataset {number} of a mixture has no row; loosen its filters, or leave it out"
            )
    weights = mix.weights or list(map(Fraction, sizes))
    return Mixed(orders, Picks(sizes, weights, mix.stop), mix.schema)


def fingerprint_of_mix(mix: Mix) -> str:
    """Returns 64 bits, as text, of what decides which rows come; see ``file_rows.fingerprint``."""
    facts = (list(map(str, mix.weights or ())), mix.stop)
    facts_of_files = [fingerprint(dataset.node) for dataset in mix.datasets]
    return hashlib.blake2b(repr((facts, facts_of_files)).encode(), digest_size=8).hexdigest()


def _seed_of_lap(seed: int, source: int, lap: int) -> int:
    digest = hashlib.blake2b(f"{seed} {source} {lap}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
