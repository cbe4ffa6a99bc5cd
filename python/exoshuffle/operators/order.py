"""What rows are ordered by, and the native object that moves rows and knows their order.

Nothing native is pickled: a ``RowsConfig`` travels, and builds the native object once per process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from exoshuffle import _native
from exoshuffle.errors import OptionsError
from exoshuffle.operators.keys import SortKey


class Order(Protocol):
    """What rows are ordered by."""

    def build(self, read_options: str, schema: bytes) -> Any:
        """The native object for rows of this schema."""


@dataclass(frozen=True)
class ByKeys:
    """Column values; without any key rows have no order, and can be dealt out or hashed only.

    Attributes:
        keys: The first one first.
    """

    keys: tuple[SortKey, ...] = ()

    def build(self, read_options: str, schema: bytes) -> Any:
        """See ``Order``.

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """
        keys = [(key.column, key.descending, key.nulls_first) for key in self.keys]
        return _native.Sorter.table(read_options, schema, keys)


@dataclass(frozen=True)
class ByRecordKey:
    """The first bytes of a fixed-length record.

    Attributes:
        record_bytes: Size of a record.
        key_bytes: Size of its key.
    """

    record_bytes: int
    key_bytes: int

    def build(self, read_options: str, schema: bytes) -> Any:
        """See ``Order``."""
        del schema
        return _native.Sorter.records(read_options, self.record_bytes, self.key_bytes)


@dataclass(frozen=True)
class ByChance:
    """A pseudo-random number per row, from a seed and the row's place in the input: a uniform permutation.

    Attributes:
        seed: Of the permutation.
    """

    seed: int

    def build(self, read_options: str, schema: bytes) -> Any:
        """See ``Order``."""
        return _native.Sorter.permutation(read_options, schema, self.seed)


@dataclass(frozen=True)
class RowsConfig:
    """What to rebuild the native object from, wherever a task runs.

    Attributes:
        read_options: JSON of the reader's options.
        schema: Arrow schema as IPC bytes.
        order: What rows are ordered by.
    """

    read_options: str
    schema: bytes
    order: Order

    def build(self) -> Any:
        """The native object (``_native.Sorter``).

        Raises:
            SchemaError: A key is unknown or of a type that has no order.
        """
        return _build(self)


@functools.lru_cache(maxsize=64)
def _build(config: RowsConfig) -> Any:
    return config.order.build(config.read_options, config.schema)


# --- assignments: which partition a row goes to --------------------------------------------------------------------

#: From the native object, samples of keys and the number of partitions to an assignment as bytes.
Assign = Callable[[Any, Sequence[bytes], int], bytes]


def by_range(sorter: Any, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By boundaries from sampled keys: partitions follow each other in order and are about equally large."""
    boundaries: bytes = sorter.choose_boundaries(list(samples), num_partitions)
    return boundaries


def by_even_range(sorter: Any, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By equal ranges of the only key, a random number of 64 bits that is never null; needs no sample."""
    import pyarrow as pa

    del samples
    schema = pa.schema([pa.field("number", pa.uint64(), nullable=False)])
    starts = [(part << 64) // num_partitions for part in range(num_partitions)]
    numbers = pa.table([pa.array(starts, pa.uint64())], schema=schema)
    keys = ByKeys((SortKey("number"),)).build("{}", schema.serialize().to_pybytes())
    return by_range(sorter, [keys.sample_batches(numbers, 0, num_partitions, 0)], num_partitions)


def by_hash(sorter: Any, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """By a hash of the key columns: equal keys meet."""
    del samples
    assignment: bytes = sorter.hash_assignment(num_partitions)
    return assignment


def by_hash_level(sorter: Any, num_partitions: int, level: int) -> bytes:
    """By other bits of the hash: keys that ``by_hash`` and lower levels have brought together part, unless equal."""
    assignment: bytes = sorter.hash_assignment(num_partitions, level)
    return assignment


def round_robin(sorter: Any, samples: Sequence[bytes], num_partitions: int) -> bytes:
    """In turn, whatever the rows hold: partitions of equal numbers of rows."""
    del samples
    assignment: bytes = sorter.round_robin_assignment(num_partitions)
    return assignment


def assignment_named(method: str) -> Assign:
    """The assignment by keys of that name.

    Raises:
        OptionsError: Unknown name.
    """
    if method not in _BY_KEYS:
        raise OptionsError(f"unknown method {method!r}; known are {', '.join(_BY_KEYS)}")
    return _BY_KEYS[method]


_BY_KEYS: dict[str, Assign] = {"hash": by_hash, "range": by_range}
