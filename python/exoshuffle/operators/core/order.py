"""The order of rows, and the native object that moves rows and knows their order.

The native object is not pickled: a ``RowsConfig`` travels, and builds the native object once per process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from exoshuffle import _native
from exoshuffle.errors import OptionsError, SchemaError, candidates
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.core.keys import SortKey

if TYPE_CHECKING:
    import pyarrow as pa


class Order(Protocol):
    """An order of rows."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values decide; none where something else does."""
        ...

    @property
    def seed(self) -> int | None:
        """The seed of an order that depends on one; None for others."""
        ...

    def build(
        self, read_options: _native.ReadOptions, schema: bytes, file_schema: bytes | None = None
    ) -> _native.Sorter:
        """The native object for rows of this schema; of files with another one, it reads these columns."""


@dataclass(frozen=True)
class ByKeys:
    """An order by column values; without any key, rows have no order and can only be dealt out or hashed.

    Attributes:
        keys: The keys, the most significant first.
    """

    keys: tuple[SortKey, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Order``."""
        return tuple(key.column for key in self.keys)

    @property
    def seed(self) -> int | None:
        """See ``Order``."""
        return None

    def build(
        self, read_options: _native.ReadOptions, schema: bytes, file_schema: bytes | None = None
    ) -> _native.Sorter:
        """See ``Order``.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """
        keys = [(key.column, key.descending, key.nulls_first) for key in self.keys]
        return _native.Sorter.table(read_options, schema, keys, file_schema)


def check_group_keys(schema: pa.Schema, keys: Sequence[str]) -> None:
    """Checks that rows of equal keys can be brought together.

    Raises:
        SchemaError: A key has values that the native object cannot compare; names the columns that can be keys.
    """
    import pyarrow as pa

    @functools.cache
    def is_key(kind: pa.DataType, marks: tuple[tuple[bytes, bytes], ...]) -> bool:
        # A schema of one column: with all of 3,000, each as a key, a distinct took 8 of its 11 s of CPU time.
        field = pa.field("key", kind, metadata=dict(marks))
        encoded = pa.schema([field]).serialize().to_pybytes()
        try:
            ByKeys((SortKey("key"),)).build(_native.ReadOptions(), encoded)
        except SchemaError:
            return False
        return True

    def is_comparable(name: str) -> bool:
        field = schema.field(name)
        return is_key(field.type, tuple((field.metadata or {}).items()))

    for key in keys:
        if not is_comparable(key):
            others = [name for name in schema.names if is_comparable(name)]
            raise SchemaError(
                f"column {key!r} is {schema.field(key).type}, which cannot be a key of groups; columns that can are "
                f"{candidates(key, others)}"
            )


@dataclass(frozen=True)
class ByRecordKey:
    """An order by the first bytes of a fixed-length record.

    Attributes:
        record_bytes: Size of a record.
        key_bytes: Size of its key.
    """

    record_bytes: int
    key_bytes: int

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Order``."""
        return ()

    @property
    def seed(self) -> int | None:
        """See ``Order``."""
        return None

    def build(
        self, read_options: _native.ReadOptions, schema: bytes, file_schema: bytes | None = None
    ) -> _native.Sorter:
        """See ``Order``."""
        del schema, file_schema
        return _native.Sorter.records(read_options, self.record_bytes, self.key_bytes)


@dataclass(frozen=True)
class ByChance:
    """An order by a pseudo-random number per row, from a seed and the row's place in the input: a uniform permutation.

    Attributes:
        seed: The seed of the permutation.
        window: How many rows of a file stay together as a window; windows are in random order, and so are the rows of
            each. None for no windows.
    """

    seed: int
    window: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """See ``Order``."""
        return ()

    def build(
        self, read_options: _native.ReadOptions, schema: bytes, file_schema: bytes | None = None
    ) -> _native.Sorter:
        """See ``Order``."""
        return _native.Sorter.permutation(read_options, schema, self.seed, self.window, file_schema)


@dataclass(frozen=True)
class RowsConfig:
    """All that a task needs to rebuild the native object, wherever it runs.

    Attributes:
        read_options: How files are read, where rows come from files.
        schema: Arrow schema of the rows as IPC bytes.
        order: The order of the rows.
        file_schema: That of the files, if rows have other columns: fewer, or in another order. None if they do not.
    """

    read_options: _native.ReadOptions
    schema: bytes
    order: Order
    file_schema: bytes | None = None

    def build(self) -> _native.Sorter:
        """The native object.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """
        return _build(self)


@functools.lru_cache(maxsize=64)
def _build(config: RowsConfig) -> _native.Sorter:
    return config.order.build(config.read_options, config.schema, config.file_schema)


# --- assignments: which partition a row goes to --------------------------------------------------------------------

#: From the native object, samples of keys and the number of partitions to an assignment as bytes.
Assign = Callable[[_native.Sorter, Sequence[bytes], int], bytes]


def by_range(sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By boundaries from sampled keys: partitions follow each other in order and are about equally large."""
    return sorter.choose_boundaries(list(samples), num_partitions)


def by_even_range(sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By equal ranges of the only key, a random number of 64 bits that is never null; needs no sample."""
    del samples
    return sorter.even_assignment(num_partitions)


def by_hash(sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By a hash of the key columns: equal keys meet."""
    del samples
    return sorter.hash_assignment(num_partitions)


def by_hash_level(sorter: _native.Sorter, num_partitions: int, level: int) -> bytes:
    """By other bits of the hash: keys that ``by_hash`` and lower levels have brought together part, unless equal."""
    return sorter.hash_assignment(num_partitions, level)


def round_robin(sorter: _native.Sorter, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """In turn, whatever the rows hold: partitions of equal numbers of rows."""
    del samples
    return sorter.round_robin_assignment(num_partitions)


def assignment_named(method: str | None, has_keys: bool) -> Assign:
    """Returns the assignment of that name; default: by hash if there are keys, else in turn.

    Raises:
        OptionsError: Unknown name, or one that needs keys where there are none, or the other way round.
    """
    if method is None:
        method = "hash" if has_keys else "round-robin"
    assign = _METHODS.get(str(method).replace("_", "-"))
    if assign is None:
        raise OptionsError(f"unknown method {method!r}; known are {', '.join(_METHODS)}")
    if has_keys and assign is round_robin:
        raise OptionsError(
            f"method {method!r} deals rows out in turn, whatever they hold; leave out by=, or choose hash or range"
        )
    if not has_keys and assign is not round_robin:
        raise OptionsError(
            f"method {method!r} goes by the values of columns; name them in by=, or choose round-robin"
        )
    return assign


_METHODS: dict[str, Assign] = {"hash": by_hash, "range": by_range, "round-robin": round_robin}
