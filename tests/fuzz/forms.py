"""Operations that give a table another form: columns to rows and back, lists to rows, other types, nulls, pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import exoshuffle as xs
from tests.fuzz.operations import Draw, Operation
from tests.fuzz.oracle import ROW, numbered, query, taken

#: Columns that hold lists which DuckDB can take apart.
_LISTS = ("list", "large list", "list view", "pair", "texts", "lists", "structs")
#: Types whose values DuckDB brings together as we do: the wider of two, or text.
_UNITED = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
#: Values in the place of nulls, by the type of a column.
_FILLED: dict[str, tuple[Any, str]] = {
    "id": (-1, "-1"),
    "few": (7, "7"),
    "int64": (0, "0"),
    "int8": (5, "5"),
    "uint8": (250, "250"),
    "int32": (-3, "-3"),
    "text": ("none", "'none'"),
    "large": ("", "''"),
    "wide": ("ä", "'ä'"),
    "bool": (False, "false"),
    "quarter": (0.25, "0.25"),
    "float64": (1.5, "1.5"),
    "decimal": (2, "2"),
}
#: Types that a column can have without loss, in our words and in DuckDB's.
_CASTS: dict[str, list[tuple[str, str]]] = {
    "id": [("int32", "integer"), ("text", "varchar"), ("float64", "double")],
    "few": [("int16", "smallint"), ("text", "varchar"), ("decimal(10,2)", "decimal(10,2)")],
    "int8": [("int64", "bigint"), ("float32", "float"), ("text", "varchar")],
    "uint8": [("uint32", "uinteger"), ("int16", "smallint")],
    "int32": [("float64", "double"), ("int64", "bigint")],
    "bool": [("text", "varchar"), ("int8", "tinyint")],
    "date": [("text", "varchar"), ("timestamp", "timestamp")],
    "quarter": [("float32", "float"), ("text", "varchar")],
    "decimal": [("text", "varchar"), ("decimal(20,4)", "decimal(20,4)")],
    "timestamp": [("text", "varchar")],
}
_PIVOTED = ["count", "sum", "min", "max", "first"]
_CONDITIONS = [
    ("id_right > id", "id_right <= id + 2"),
    ("few = few_right", "id_right < id"),
    ("few < few_right",),
    ("id = id_right", "few_right is null"),
    ("id + 1 = id_right",),
    ("id = few_right", "few >= 0"),
]


def filled(draw: Draw) -> Operation:
    """Puts a value in the place of the nulls of some columns."""
    kinds = {"id": "id", "few": "few", **draw.columns}
    known = [name for name, kind in kinds.items() if kind in _FILLED]
    names = draw.rng.sample(known, draw.rng.randint(1, len(known)))
    given = {name: _FILLED[kinds[name]][0] for name in names}

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        for place, name in enumerate(rows.column_names):
            if name in given:
                sql = f'coalesce("{name}", {_FILLED[kinds[name]][1]})'
                rows = rows.set_column(place, name, _computed(rows, name, sql))
        return rows

    return Operation(
        f"fill_null {given}",
        lambda rows, _: rows.fill_null(given),
        wanted,
        is_ordered=True,
        is_kept=True,
    )


def dropped(draw: Draw) -> Operation:
    """Leaves out the rows that have a null in some columns, of any types, or in any."""
    columns = ["id", "few", *draw.columns]
    names = draw.rng.choice([None, draw.rng.sample(columns, draw.rng.randint(1, len(columns)))])

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        values = [rows[name].is_valid().to_pylist() for name in names or columns]
        return taken(
            rows, [row for row, found in enumerate(zip(*values, strict=True)) if all(found)]
        )

    return Operation(
        f"drop_nulls {'of all' if names is None else names[:9]}",
        lambda rows, _: rows.drop_nulls(names),
        wanted,
        is_ordered=True,
        is_kept=True,
    )


def cast(draw: Draw) -> Operation:
    """Gives columns other types."""
    kinds = {"id": "id", "few": "few", **draw.columns}
    known = [name for name, kind in kinds.items() if kind in _CASTS]
    names = draw.rng.sample(known, draw.rng.randint(1, len(known)))
    chosen = {name: draw.rng.choice(_CASTS[kinds[name]]) for name in names}

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        for place, name in enumerate(rows.column_names):
            if name in chosen:
                sql = f'"{name}"::{chosen[name][1]}'
                rows = rows.set_column(place, name, _computed(rows, name, sql))
        return rows

    given = {name: kind for name, (kind, _) in chosen.items()}
    return Operation(
        f"cast {given}", lambda rows, _: rows.cast(given), wanted, is_ordered=True, is_flat=False
    )


def exploded(draw: Draw) -> Operation:
    """Makes a row of each value of a list; rows without a value stay."""
    lists = [name for name, kind in draw.columns.items() if kind in _LISTS]
    if not lists:
        return dropped(draw)
    name = draw.rng.choice(lists)

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        kept = rows.select(["id", "few"])
        values = rows[name].to_pylist()
        numbers = [row for row, found in enumerate(values) for _ in found or [None]]
        single = [value for found in values for value in found or [None]]
        made = pa.array(single, rows.schema.field(name).type.value_type)
        return taken(kept, numbers).append_column(name, made)

    return Operation(
        f"explode {name} ({draw.columns[name]})",
        lambda rows, _: rows.select("id", "few", name).explode(name),
        wanted,
        is_ordered=True,
        is_flat=False,
    )


def unpivoted(draw: Draw) -> Operation:
    """Makes rows of columns, of one type or of several that meet."""
    names = ["few", *(name for name, kind in draw.columns.items() if kind in _UNITED)][:9]
    if draw.rng.random() < 0.5:
        kind = draw.rng.choice(["text", "float64", "date", "bool", "decimal"])
        names = [name for name, each in draw.columns.items() if each == kind][:9] or names

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        each = [f"""select id, '{name}' variable, "{name}" "value" from t""" for name in names]  # noqa: S608
        return query(" union all ".join(each), t=rows.select(list(dict.fromkeys(["id", *names]))))

    return Operation(f"unpivot {names}", lambda rows, _: rows.unpivot(names, index="id"), wanted)


def pivoted(draw: Draw) -> Operation:
    """Makes columns of the values of ``few``, or of a key without many values."""
    function = draw.rng.choice(_PIVOTED)
    index = draw.rng.choice([key for key in draw.keys if key != "few"])
    told = draw.rng.choice([None, [1, 0, 99]])
    sql = f"arg_min(id, {ROW})" if function == "first" else f"{function}(id)"

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        known = numbered(rows.select(list(dict.fromkeys(["id", "few", index]))))
        found = query("select distinct few from t order by few nulls last", t=known)
        values = told or found.column(0).to_pylist()
        made = "".join(
            f", {sql} filter (few is not distinct from {'null' if value is None else value}) "
            f'"{"null" if value is None else value}"'
            for value in values
        )
        return query(f'select "{index}"{made} from t group by "{index}"', t=known)  # noqa: S608

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        # "id" is both the key and the value in some cases.
        made = rows.select(index, "few", fuzz_value="id")
        return made.pivot(
            "few", index=index, values="fuzz_value", aggregate=function, on_columns=told
        )

    return Operation(f"pivot {function} of id by {index}, columns {told}", run, wanted)


def counted(draw: Draw) -> Operation:
    """Counts the rows of each value."""
    by = draw.some_keys(2)
    names = ", ".join(f'"{key}"' for key in by)
    return Operation(
        f"value_counts {by}",
        lambda rows, _: rows.value_counts(*by),
        lambda rows, _: query(
            f"select {names}, count(*)::bigint count from t group by {names}",  # noqa: S608
            t=rows.select(by),
        ),
    )


def paired(draw: Draw) -> Operation:
    """Joins by conditions that are no equalities, or not only."""
    conditions = draw.rng.choice(_CONDITIONS)
    most = 300 if draw.num_rows <= 5000 else 40
    of_left = f"id < {most}"

    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        sides = [each.select("id", "few").filter(of_left) for each in (left, right)]
        return sides[0].join_where(sides[1], *conditions)

    text = " and ".join(conditions)
    sql = f"""with s as (select id, few from t where {of_left}),
        r as (select id id_right, few few_right from s) select * from s, r where {text}"""  # noqa: S608
    return Operation(
        f"join_where {text}", run, lambda rows, _: query(sql, t=rows.select(["id", "few"]))
    )


def _computed(rows: pa.Table, name: str, sql: str) -> pa.ChunkedArray:
    text = f"select {sql} e from t order by {ROW}"  # noqa: S608
    return query(text, t=numbered(rows.select([name]))).column(0)
