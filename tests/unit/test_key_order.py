"""Groups of a query, in the order of their keys."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from exoshuffle.operators.one_query.key_order import in_key_order

LONG = "a long beginning that all keys have "
KEYS = {
    "text": pa.array([f"{LONG}b", None, LONG, f"{LONG}\u00e9", f"{LONG}a", ""]),
    "number": pa.array([3, None, -2, 2**40, -(2**40), 0]),
    "flag": pa.array([True, None, False, None, True, False]),
    "day": pa.array([dt.date(2024, 1, 2), None, dt.date(1969, 1, 1), *[dt.date(2030, 1, 1)] * 3]),
    "price": pa.array([decimal.Decimal(text) for text in ("1.10", "-3.00", "1.09")] + [None] * 3),
}


def _groups() -> pa.Table:
    others = {"ids": pa.array([[n] * n for n in range(6)]), "n": pa.array(range(6))}
    return pa.table({**KEYS, **others})


@pytest.mark.parametrize("name", KEYS)
def test_groups_come_in_the_order_of_keys_and_null_is_last(name: str) -> None:
    names = [name, *(other for other in KEYS if other != name)]
    groups = _groups().select([*names, "ids", "n"])
    order = [(key, "ascending") for key in names]
    found = in_key_order(groups.to_reader(max_chunksize=2), len(names))
    assert found.equals(groups.sort_by(order))


def test_no_groups_and_one_group_of_all_rows_have_no_order() -> None:
    groups = _groups()
    nothing = in_key_order(groups.slice(0, 0).to_reader(), 2)
    assert nothing.schema == groups.schema
    assert nothing.num_rows == 0
    assert in_key_order(groups.to_reader(), 0).equals(groups)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("over", [0, 1])
def test_integers_travel_in_the_narrowest_type_and_come_back(bits: int, over: int) -> None:
    """The values are the least and greatest of a type, and one beyond these."""
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    over = 0 if bits == 64 else over
    values = [0, greatest + over, None, least - over, -1, 0]
    groups = pa.table(
        {
            "k0": pa.array(values, pa.int64()),
            "k1": pa.array([1, 2**64 - 1, None, 255, 128, 0], pa.uint64()),
            "k2": pa.array([7, None, 7, -7, 0, 127], pa.int8()),
            "n": range(6),
        }
    )
    order = [(f"k{index}", "ascending") for index in range(3)]
    assert in_key_order(groups.to_reader(), 3).equals(groups.sort_by(order))
