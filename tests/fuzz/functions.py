"""Steps on rows: SQL expressions by the types of their columns, and functions of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import exoshuffle as xs
from tests.fuzz import oracle
from tests.fuzz.operations import Draw, Operation, draw_keys
from tests.fuzz.oracle import ROW, query

_TEXT = [
    "length({c})",
    "upper({c})",
    "{c} || 'x'",
    "{c} like '%a%'",
    "substr({c}, 1, 2)",
    "{c} = ''",
    "coalesce({c}, 'none')",
    "regexp_replace({c}, '[aeiou]', '', 'g')",
    "contains({c}, 'om')",
    "nullif({c}, 'a')",
    "try_cast({c} as bigint)",
]
_WHOLE = [
    "{c} % 7", "{c} between 1 and 20", "{c}::varchar", "coalesce({c}, 0)", "{c} in (0, 1, 20)", "{c} / 3",
    "case when {c} > 3 then 'more' else 'less' end", "{c}::double", "try_cast({c} as tinyint)", "{c} = id",
]  # fmt: skip
_FLOAT = [
    "isnan({c})",
    "{c} > 0",
    "{c}::varchar",
    "greatest({c}, 0)",
    "isfinite({c})",
    "{c} = 0",
    "-{c}",
]
_DAY = [
    "year({c})", "month({c})", "date_trunc('month', {c})", "{c} > '2000-01-01'", "dayofweek({c})",
    "{c} + interval 1 day", "week({c})",
]  # fmt: skip
_MOMENT = [
    *_DAY, "hour({c})", "date_trunc('day', {c})", "date_trunc('hour', {c})", "minute({c})", "{c}::date", "epoch({c})",
    "date_part('second', {c})",
]  # fmt: skip
_EXPRESSIONS = {
    **dict.fromkeys(
        ["text", "wide", "large", "long", "dictionary", "small dictionary", "view"], _TEXT
    ),
    **dict.fromkeys(
        ["int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"], _WHOLE
    ),
    **dict.fromkeys(["float64", "quarter", "float32"], _FLOAT),
    **dict.fromkeys(["timestamp", "zoned", "New York", "offset", "millis", "seconds"], _MOMENT),
    "nanos": ["year({c})", "{c} > '2000-01-01'", "hour({c})"],
    "date": _DAY,
    "far date": ["year({c})", "{c} > '2000-01-01'"],
    "bool": ["not {c}", "{c} and few > 1", "{c} or id < 3"],
    "decimal": ["{c} * 2", "{c} > 1", "round({c})", "{c}::double"],
    "binary": ["octet_length({c})", "{c} = ''::blob"],
    "list": ["len({c})", "{c}[1]", "list_sum({c})"],
    "lists": ["len({c})", "flatten({c})"],
    "texts": ["{c}[1]", "list_contains({c}, 'a')"],
    "struct": ["{c}.x", "{c}.y"],
    "map": ["cardinality({c})", "map_keys({c})"],
}
_CONDITIONS = [
    "id % 3 = 1",
    "few is null",
    "few > 1 or id < 5",
    "false",
    "id >= 0",
    "id in (1, 2, 7)",
]


def _drawn(draw: Draw) -> tuple[str, list[str]]:
    """Returns an expression, and the columns that it reads."""
    known = {name: kind for name, kind in draw.columns.items() if kind in _EXPRESSIONS}
    if not known or draw.rng.random() < 0.1:
        return "few * 2 + id", []
    name = draw.rng.choice(list(known))
    chosen = draw.rng.choice([*_EXPRESSIONS[known[name]], "{c} is null"])
    return chosen.replace("{c}", f'"{name}"'), [name]


def _zone(rows: pa.Table, columns: list[str]) -> str:
    """Returns the zone that an expression works in: files may have lost that of the column."""
    zones = [getattr(rows.schema.field(name).type, "tz", None) for name in columns]
    return next(filter(None, zones), "UTC")


def computed(draw: Draw) -> Operation:
    """Computes columns, filters rows and sorts them."""
    made = {f"e{number}": _drawn(draw) for number in range(draw.rng.choice([1, 2]))}
    condition = draw.rng.choice(_CONDITIONS)
    by, order = draw_keys(Draw(draw.rng, {}, draw.num_rows))
    kept = draw.keys[:3]

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        added = rows.with_columns(**{name: each[0] for name, each in made.items()})
        return added.filter(condition).select(*kept, *made).sort(**by)

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        found = rows.select(kept)
        for name, (sql, columns) in made.items():
            known = oracle.numbered(rows.select(["id", "few", *columns]))
            text = f"select {sql} e from t order by {ROW}"  # noqa: S608
            added = query(text, zone=_zone(rows, columns), t=known)
            found = found.append_column(name, added.column(0))
        return oracle.in_order(oracle.where(found, condition, ["id", "few"]), order)

    told = ", ".join(each[0] for each in made.values())
    return Operation(
        f"with {told}, filter {condition}, sort {order}",
        run,
        wanted,
        is_ordered=True,
        is_flat=False,
    )


def filtered(draw: Draw) -> Operation:
    """Filters rows by an expression of any column."""
    sql, columns = _drawn(draw)
    condition = draw.rng.choice([f"({sql}) is not null", f"({sql}) is null or id = 3"])
    read = ["id", "few", *columns]
    return Operation(
        f"filter {condition}",
        lambda rows, _: rows.filter(condition),
        lambda rows, _: oracle.where(rows, condition, read, _zone(rows, columns)),
        is_ordered=True,
        is_kept=True,
    )


def renamed(draw: Draw) -> Operation:
    """Renames columns, leaves some out, and changes their order."""
    names = ["id", "few", *draw.columns]
    draw.rng.shuffle(names)
    kept = names[: draw.rng.randint(1, len(names))]
    new = {kept[0]: 'new name, with "signs"'}

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        return rows.select(kept).rename(new)

    return Operation(
        f"select {kept[:9]} with another name",
        run,
        lambda rows, _: rows.select(kept).rename_columns([new.get(name, name) for name in kept]),
        is_ordered=True,
        is_flat=False,
    )


def evens(batch: pa.Table) -> pa.Table:
    """Returns every other row; Arrow cannot filter some types."""
    numbers = batch["id"].to_pylist()
    kept = [batch.slice(index, 1) for index, number in enumerate(numbers) if not number & 1]
    return pa.concat_tables(kept) if kept else batch.slice(0, 0)


def mapped(draw: Draw) -> Operation:
    """Calls a function of the user's, which runs in worker processes."""
    parts = draw.rng.choice([None, 3])
    functions: dict[str, Callable[[pa.Table], Any]] = {
        "as they are": lambda batch: batch,
        "some": evens,
        "doubled": lambda batch: pa.concat_tables([batch, batch]),
        "a dictionary": lambda batch: {"id": batch["id"], "twice": pc.multiply(batch["id"], 2)},
        "none": lambda batch: batch.slice(0, 0),
    }
    rules: dict[str, Callable[[pa.Table], pa.Table]] = {
        "as they are": lambda rows: rows,
        "some": lambda rows: oracle.where(rows, "id % 2 = 0", ["id"]),
        "doubled": lambda rows: pa.concat_tables([rows, rows]),
        "a dictionary": lambda rows: pa.table(
            {"id": rows["id"], "twice": pc.multiply(rows["id"], 2)}
        ),
        "none": lambda rows: rows.slice(0, 0),
    }
    name = draw.rng.choice(list(functions))

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        cut = rows if parts is None else rows.repartition(parts)
        return cut.map_batches(functions[name])

    return Operation(
        f"map_batches: {name}, of {parts} parts", run, lambda rows, _: rules[name](rows)
    )
