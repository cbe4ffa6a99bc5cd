"""Sieves: the keys of one side of a join, which leave out rows of groups below the other side.

A group whose keys match nothing is not in the result. So its rows need not be grouped: of the groups of a large table
few may be asked for. DuckDB passes such keys to the scans of files, but not through groups.

Guarantee: the result has the same rows. Whole groups go or stay, because a sieve looks at their keys alone. Null
matches nothing, as in the join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.one_query.columns import row_bytes
from exoshuffle.operators.one_query.relation import KEPT, Relation, compared, kept

if TYPE_CHECKING:
    import pyarrow as pa

    from exoshuffle.operators.join.join import Join
    from exoshuffle.operators.steps.step import Step

#: Groups are sieved if they are made of so many times the rows of the sieve.
TIMES_AS_MANY = 2


@dataclass(frozen=True)
class SieveKey:
    """A key that must have a match.

    Attributes:
        column: The column that is looked at, where rows are left out.
        own: The column of the sieve.
        type: The type in which both are compared.
    """

    column: str
    own: str
    type: pa.DataType


@dataclass(frozen=True)
class Sieve:
    """Keys of rows that the query keeps.

    Attributes:
        name: The name under which it keeps them.
        rows: How they are made.
        keys: Their keys.
    """

    name: str
    rows: Relation
    keys: tuple[SieveKey, ...]

    @property
    def definition(self) -> str:
        """The rows under their name, for the beginning of the query."""
        return f"{self.name} AS MATERIALIZED ({self.rows.sql})"

    @property
    def held(self) -> Relation:
        """The rows, read from where they are kept."""
        return kept(self.name, self.rows)

    def is_worth(self, rows: Relation) -> bool:
        """Whether few of the rows stay, probably."""
        return self.rows.num_rows * TIMES_AS_MANY <= rows.num_rows


def sieve_of(name: str, rows: Relation, join: Join, tag: int) -> Sieve | None:
    """Returns the sieve for the other side of a join; None if it could leave out nothing, or rows of the result.

    Args:
        name: Its name.
        rows: The rows of one side.
        join: The join.
        tag: The side that has them: 0 for the left one.
    """
    hows = ("inner", "semi") if tag else ("inner", "left", "semi", "anti")
    if join.how not in hows or not join.keys or rows.share > KEPT:
        return None
    keys = [
        SieveKey(key.left, key.right, key.type) if tag else SieveKey(key.right, key.left, key.type)
        for key in join.keys
    ]
    return Sieve(name, rows, tuple(keys))


def sieved(rows: Relation, sieve: Sieve) -> Relation:
    """Returns the rows whose keys the sieve has; the query has its definition."""
    import pyarrow as pa

    equal = " AND ".join(
        f"{compared('r', rows, key.column, key.type)} = {compared('s', sieve.rows, key.own, key.type)}"
        for key in sieve.keys
    )
    keys = pa.schema([sieve.rows.schema.field(key.own) for key in sieve.keys])
    return replace(
        rows,
        sql=f"SELECT r.* FROM ({rows.sql}) AS r SEMI JOIN {sieve.name} AS s ON {equal}",  # noqa: S608  names of ours
        num_rows=max(1.0, rows.num_rows * sieve.rows.share),
        hashed_bytes=rows.hashed_bytes + sieve.rows.num_rows * row_bytes(keys),
        share=rows.share * sieve.rows.share,
    )


def before_steps(
    sieves: Sequence[Sieve], steps: Sequence[Step], after: pa.Schema, below: pa.Schema
) -> list[Sieve]:
    """Returns the sieves for the rows before steps; those of which a key is computed are left out."""
    names = {name: name for name in after.names}
    for step in reversed(steps):
        names = step.names_before(names)
    return _renamed(sieves, _of_one_type(names, after, below))


def before_join(sieves: Sequence[Sieve], join: Join, tag: int) -> list[Sieve]:
    """Returns the sieves for a side of a join; none for one that may have no row for a row of the result."""
    import pyarrow as pa

    if tag and join.how != "inner":
        return []
    own = {output.field.name: output.right if tag else output.left for output in join.outputs}
    names = {name: one for name, one in own.items() if one is not None}
    after = pa.schema([output.field for output in join.outputs])
    return _renamed(sieves, _of_one_type(names, after, join.right if tag else join.left))


def before_groups(sieves: Sequence[Sieve], keys: Sequence[str]) -> list[Sieve]:
    """Returns the sieves for the rows of groups; those that look at anything but keys are left out."""
    return _renamed(sieves, {key: key for key in keys})


def _renamed(sieves: Sequence[Sieve], names: Mapping[str, str]) -> list[Sieve]:
    """Returns the sieves for rows that call columns otherwise; those that look at other columns are left out."""
    return [
        replace(one, keys=tuple(replace(key, column=names[key.column]) for key in one.keys))
        for one in sieves
        if all(key.column in names for key in one.keys)
    ]


def _of_one_type(names: Mapping[str, str], after: pa.Schema, before: pa.Schema) -> dict[str, str]:
    """Returns the names of columns that have the same type before and after."""
    return {
        name: own for name, own in names.items() if after.field(name).type == before.field(own).type
    }
