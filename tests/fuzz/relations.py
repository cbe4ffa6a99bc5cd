"""Operations by groups and pairs of rows: ``group_by``, ``distinct``, ``map_groups`` and joins."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import exoshuffle as xs
from tests.fuzz import oracle, peers, tables
from tests.fuzz.operations import Draw, Operation, draw_keys
from tests.fuzz.oracle import ROW, query

_ANY = ["count", "count_distinct", "min", "max", "first", "last"]
_NUMBERS = [*_ANY, "sum", "mean", "var", "std", "median", "quantile"]
_VALUES = [*_ANY, "list", "top_k"]
#: Aggregates of each type that DuckDB computes alike; not sums that overflow or are rounded.
AGGREGATES = {
    "id": [*_NUMBERS, *_VALUES],
    "few": [*_NUMBERS, *_VALUES],
    "quarter": [*_NUMBERS, *_VALUES],
    "int8": _NUMBERS,
    "uint8": _NUMBERS,
    "int16": [*_ANY, "sum", "mean"],
    "int32": [*_ANY, "sum"],
    "decimal": [*_ANY, "sum"],
    "bool": [*_VALUES, "any", "all", "sum", "mean"],
    "text": _VALUES,
    "date": _VALUES,
    "int64": _VALUES,
    "float64": _VALUES,
    "timestamp": _VALUES,
}
_SQL = {
    "count_distinct": "count(distinct {c})::bigint",
    "first": f"arg_min({{c}}, {ROW}) filter ({{c}} is not null)",
    "last": f"arg_max({{c}}, {ROW}) filter ({{c}} is not null)",
    "count": "count({c})::bigint",
    "mean": "avg({c}::double)",
    "var": "var_samp({c}::double)",
    "std": "stddev_samp({c}::double)",
    "median": "quantile_cont({c}::double, 0.5)",
    "quantile": "quantile_cont({c}::double, 0.9)",
    "list": f"list({{c}} order by {ROW})",
    "top_k": "list_slice(list_reverse_sort(list({c}) filter ({c} is not null)), 1, 3)",
    "any": "bool_or({c})",
    "all": "bool_and({c})",
}
_PARAMETERS: dict[str, tuple[Any, ...]] = {"quantile": (0.9,), "top_k": (3,)}
#: These are rounded in an order that is not fixed.
_CLOSE = ("var", "std", "mean")


def grouped(draw: Draw) -> Operation:
    """Computes any aggregates by any keys, or by none."""
    rng = draw.rng
    by = draw.some_keys(2) if rng.random() < 0.95 else []
    kinds = {"id": "id", "few": "few", **draw.columns}
    columns = [name for name in kinds if name not in by] or ["id"]
    spec: dict[str, Any] = {"n": "count"}
    sql, told, close, is_flat = ["count(*)::bigint n"], ["n=count()"], [], True
    for number in range(rng.choice([1, 2, 4])):
        column = rng.choice(columns)
        function = rng.choice(AGGREGATES.get(kinds[column], ["count"]))
        name, parameters = f"a{number}", _PARAMETERS.get(function, ())
        spec[name] = (column, function, *parameters)
        sql.append(f"{_SQL.get(function, function + '({c})')} {name}".replace("{c}", f'"{column}"'))
        told.append(f"{name}={function}({', '.join(map(str, (column, *parameters)))})")
        close += [name] if function in _CLOSE else []
        is_flat &= function not in ("list", "top_k")
    strategy = rng.choice(draw.strategies)
    used = list(dict.fromkeys([*by, *(each[0] for each in spec.values() if each != "count")]))
    names = [f'"{key}"' for key in by]
    behind = f"group by {', '.join(names)}" if by else ""
    text = f"select {', '.join([*names, *sql])} from t {behind}"  # noqa: S608
    return Operation(
        f"group by {by}: {', '.join(told)} {strategy}",
        lambda rows, _: rows.group_by(*by, strategy=strategy).agg(**spec),
        lambda rows, _: query(text, t=oracle.numbered(_known(rows.select(used), kinds))),
        close=tuple(close),
        is_flat=is_flat,
        command=("groupby", "--by", ",".join(by), "--agg", ", ".join(told), "--strategy", strategy),
    )


def _known(rows: pa.Table, kinds: dict[str, str]) -> pa.Table:
    """Returns rows that say whether there is a value, instead of values of types that DuckDB may lack."""
    for place, name in enumerate(rows.column_names):
        kind = tables.kinds().get(kinds[name])
        if kind is not None and not kind.is_key:
            there = pc.if_else(pc.is_valid(rows[name]), 1, None)
            rows = rows.set_column(place, name, there)
    return rows


def distinct(draw: Draw) -> Operation:
    """Keeps the first row of each key, or of each that differs in anything."""
    by = draw.some_keys(2)
    is_all = draw.rng.random() < 0.3 and len(draw.keys) == len(draw.columns) + 2
    names = ", ".join(f'"{key}"' for key in (draw.keys if is_all else by))
    strategy = draw.rng.choice(draw.strategies)

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        known = oracle.numbered(rows.select(draw.keys if is_all else by))
        first = query(f"select min({ROW}) r from t group by {names} order by r", t=known)  # noqa: S608
        return oracle.taken(rows, first.column(0))

    return Operation(
        f"distinct {'all' if is_all else by} {strategy}",
        lambda rows, _: rows.distinct(None if is_all else by, strategy=strategy),
        wanted,
        command=("distinct", *(() if is_all else ("--on", ",".join(by)))),
        peer=lambda rows: peers.first(rows, draw.keys if is_all else by),
    )


def windows(draw: Draw) -> Operation:
    """Adds a place, a rank, a number of rows and a value of another row, by any keys and in any order."""
    rng = draw.rng
    by = draw.some_keys(2) if rng.random() < 0.9 else []
    order, text = draw_keys(draw)
    column, away = rng.choice(["id", *draw.columns]), rng.choice([-2, 1, 1, 3])
    first, last = sorted(rng.sample([-3, -1, 0, 2], 2))
    bounds = f"{_bound(first)} and {_bound(last)}"
    named = ", ".join(f'"{key}"' for key in by)
    keys = f"partition by {named}" if by else ""
    rows_in_order = f"({keys} order by {text}, {ROW})"
    made = f"""select {ROW}, row_number() over {rows_in_order} place,
        rank() over ({keys} order by {text}) rank, lag({ROW}, {away}) over {rows_in_order} other,
        count(*) over ({keys} order by {text}, {ROW} rows between {bounds}) near from t order by {ROW}"""  # noqa: S608

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        how = {
            "order_by": order["by"],
            "descending": order["descending"],
            "nulls": order["nulls"],
            "partition_by": by,
        }
        other = f'lag("{column}", {away})'
        placed = rows.window(place="row_number()", rank="rank()", other=other, **how)
        return placed.window(near="count(*)", frame=(first, last), **how)

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        known = oracle.numbered(rows.select(list(dict.fromkeys([*by, *order["by"]]))))
        found = query(made, t=known)
        others = oracle.taken(rows.select([column]), found["other"]).column(0)
        for name, values in (
            ("place", found["place"]),
            ("rank", found["rank"]),
            ("other", others),
            ("near", found["near"]),
        ):
            rows = rows.append_column(name, values)
        return rows

    return Operation(f"windows by {by} in {text}: {column} {away} before, {bounds}", run, wanted)


def _bound(number: int) -> str:
    if not number:
        return "current row"
    return f"{abs(number)} {'preceding' if number < 0 else 'following'}"


def mapped_groups(draw: Draw) -> Operation:
    """Takes the first two rows of each group, in input order."""
    key = draw.rng.choice(["few", "few", draw.rng.choice(draw.keys)])
    partition = f'row_number() over (partition by "{key}" order by {ROW})'

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        known = oracle.numbered(rows.select([key]))
        found = query(f"select {ROW} from t qualify {partition} <= 2 order by {ROW}", t=known)  # noqa: S608
        return oracle.taken(rows, found.column(0))

    def run(rows: xs.Dataset, _: xs.Dataset) -> xs.Dataset:
        return rows.group_by(key).map_groups(lambda group: group.slice(0, 2))

    return Operation(f"map_groups by {key}", run, wanted)


_WORDS = {"full": "full outer"}
#: The other side of a join: rows of the same files.
_SIDES = ["true", "id % 3 <> 1", "id < 20", "few is not null", "false"]


def join(draw: Draw) -> Operation:
    """Joins, in any way, with other rows of the same files; columns of both sides come along."""
    rng = draw.rng
    how = rng.choice(["inner", "left", "right", "full", "semi", "anti", "cross"])
    few = draw.num_rows <= 300
    keys = draw.some_keys(2) if few else rng.choice([["id"], ["id", "few"]])
    if how == "cross":
        return _cross(rng.choice(["id < 3", "id % 50 = 1", "false"]) if few else "id < 2")
    side, strategy = rng.choice(_SIDES), rng.choice(draw.strategies)
    carried = rng.choice([key for key in draw.keys if key not in keys] or ["id"])
    names = [f"k{number}" for number in range(len(keys))]
    left_keys = {name: f'"{key}"' for name, key in zip(names, keys, strict=True)}
    of_left = ["id as a", f'"{carried}" as v']
    condition = " and ".join(f"l.{name} = r.{name}" for name in names)
    shown = "coalesce(l.{0}, r.{0}) {0}" if how in ("right", "full") else "l.{0}"
    first = ", ".join(map(shown.format, names))
    both = "" if how in ("semi", "anti") else ", r.b, r.v v_right"
    inner_left = ", ".join([*(f"{sql} as {name}" for name, sql in left_keys.items()), *of_left])
    inner_right = inner_left.replace("id as a", "id as b")
    sql = (
        f"select {first}, l.a, l.v{both} from (select {inner_left} from t) l {_WORDS.get(how, how)} join "  # noqa: S608
        f"(select {inner_right} from t where {side}) r on {condition}"
    )

    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        mine = left.select(**left_keys, a="id", v=f'"{carried}"')
        other = right.filter(side).select(**left_keys, b="id", v=f'"{carried}"')
        return mine.join(other, on=names, how=how, strategy=strategy)

    def wanted(left: pa.Table, _: pa.Table) -> pa.Table:
        return query(sql, t=left.select(list(dict.fromkeys(["id", "few", *keys, carried]))))

    return Operation(f"{how} join on {keys} where {side} with {carried} {strategy}", run, wanted)


def _cross(side: str) -> Operation:
    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        return left.select(a="id", x="few").join(right.filter(side).select(b="id"), how="cross")

    sql = f"select l.id a, l.few x, r.id b from t l, (select id from t where {side}) r"  # noqa: S608
    return Operation(
        f"cross join with {side}", run, lambda rows, _: query(sql, t=rows.select(["id", "few"]))
    )
