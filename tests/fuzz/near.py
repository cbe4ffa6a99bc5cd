"""As-of joins, in any direction, against DuckDB's and a rule for rows with equal keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import exoshuffle as xs
from tests.fuzz.operations import STRATEGIES, Draw, Operation
from tests.fuzz.oracle import ROW, numbered, query

#: Types of columns that may have to be near, beside ``id`` and ``few``.
_NEAR = ("int8", "int16", "int32", "int64", "date", "timestamp", "float64", "decimal", "text")
_SIDES = ["true", "id % 3 <> 1", "id < 20", "few is not null", "false"]
_FOUND = {
    "backward": "back",
    "forward": "ahead",
    "nearest": """(select l.n, case when {is_ahead} then ahead.m else back.m end m,
        case when {is_ahead} then ahead.near else back.near end near
        from l left join back using (n) left join ahead using (n))""",
}
_IS_AHEAD = "back.m is null or ahead.near::hugeint - l.near::hugeint <= l.near::hugeint - back.near::hugeint"


def joined_near(draw: Draw) -> Operation:
    """Joins each row with the nearest of other rows of the same files, within equal keys or not."""
    rng = draw.rng
    direction = rng.choice(list(_FOUND))
    near = ["id", "few", "few"]
    if direction != "nearest":
        near += [name for name, kind in draw.columns.items() if kind in _NEAR]
    on = rng.choice(near)
    by = [key for key in draw.some_keys(2) if key != on] if rng.random() < 0.6 else []
    side, strategy = rng.choice(_SIDES), rng.choice(STRATEGIES)
    carried = rng.choice(draw.keys)
    within = rng.choice([None, 0, 2]) if on in ("id", "few") else None
    names = [f"k{number}" for number in range(len(by))]
    chosen = {name: f'"{key}"' for name, key in zip(names, by, strict=True)}
    chosen |= {"near": f'"{on}"', "v": f'"{carried}"'}

    def run(left: xs.Dataset, right: xs.Dataset) -> xs.Dataset:
        options: dict[str, Any] = {"by": names, "direction": direction, "tolerance": within}
        other = right.filter(side).select(**chosen, b="id")
        return left.select(**chosen, a="id").join_asof(other, "near", **options, strategy=strategy)

    def wanted(rows: pa.Table, _: pa.Table) -> pa.Table:
        used = list(dict.fromkeys(["id", "few", *by, on, carried]))
        return query(_sql(chosen, side, direction, within), t=numbered(rows.select(used)))

    return Operation(
        f"join_asof {direction} on {on} by {by} within {within} where {side} with {carried} {strategy}",
        run,
        wanted,
    )


def _sql(chosen: dict[str, str], side: str, direction: str, within: int | None) -> str:
    columns = ", ".join(f"{sql} {name}" for name, sql in chosen.items())
    names = [name for name in chosen if name.startswith("k")]
    keys = "".join(f"{name}, " for name in names)
    same = "".join(f"l.{name} = g.{name} and " for name in names)
    row = "min(n)" if direction == "forward" else "max(n)"
    found = _FOUND[direction].format(is_ahead=_IS_AHEAD)
    bound = "" if within is None else f"and abs(f.near::hugeint - l.near::hugeint) <= {within}"
    return f"""with l as (select {columns}, id a, {ROW} n from t),
        r as (select {columns}, id b, {ROW} n from t where {side}),
        g as (select {keys} near, {row} m from r where near is not null group by all),
        back as (select l.n, g.m, g.near from l asof join g on {same} l.near >= g.near),
        ahead as (select l.n, g.m, g.near from l asof join g on {same} l.near <= g.near)
        select {keys.replace("k", "l.k")} l.near, l.v, l.a, r.v v_right, r.b
        from l left join {found} f on f.n = l.n {bound} left join r on r.n = f.m"""  # noqa: S608
