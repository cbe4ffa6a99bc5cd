"""A join by parts of one side, each with all of the other, has the rows of the join of the whole."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exoshuffle.operators.join.broadcast import BROADCAST_SIDES, LEFT, BroadcastJoin
from exoshuffle.operators.join.join import HOWS, JoinOptions, parse_join
from tests.unit.join_oracle import oracle

KEYS = st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=12)
CASES = [(how, side) for how in HOWS for side in BROADCAST_SIDES[how]]


def rows(keys: list[int | None], name: str, kind: pa.DataType) -> pa.Table:
    return pa.table({"k": pa.array(keys, kind), name: pa.array(range(len(keys)), pa.int64())})


def test_every_kind_says_which_sides() -> None:
    assert set(BROADCAST_SIDES) == set(HOWS)
    assert not BROADCAST_SIDES["full"]


@pytest.mark.parametrize(("how", "side"), CASES)
@given(lefts=KEYS, rights=KEYS, cuts=st.lists(st.integers(0, 12), max_size=3))
def test_parts_together_are_the_whole(
    how: str, side: int, lefts: list[int | None], rights: list[int | None], cuts: list[int]
) -> None:
    left, right = rows(lefts, "a", pa.int64()), rows(rights, "b", pa.int32())
    on = None if how == "cross" else ["k"]
    join = parse_join(left.schema, right.schema, JoinOptions(on=on, how=how))
    small, large = (left, right) if side == LEFT else (right, left)
    ends = [0, *sorted(min(cut, large.num_rows) for cut in cuts), large.num_rows]
    step = BroadcastJoin(join, side, small)
    parts = [
        step.apply(large.slice(begin, end - begin).to_reader()).read_all()
        for begin, end in itertools.pairwise(ends)
    ]
    whole = pa.concat_tables(parts)
    assert whole.schema == join.output_schema
    columns = [whole.column(name).to_pylist() for name in ("a", "b") if name in whole.column_names]
    assert sorted(map(str, zip(*columns, strict=True))) == _of_duckdb(how, left, right)


def _of_duckdb(how: str, left: pa.Table, right: pa.Table) -> list[str]:
    condition = "" if how == "cross" else " on l.k = r.k"
    columns = "a" if how in ("semi", "anti") else "a, b"
    with oracle().cursor() as connection:
        connection.register("l", left)
        connection.register("r", right)
        found = connection.sql(f"select {columns} from l {how} join r{condition}").fetchall()  # noqa: S608  ours
    return sorted(map(str, found))
