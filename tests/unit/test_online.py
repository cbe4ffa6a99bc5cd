"""Online aggregation: states merge to the result in any order, and bounds are those of the textbook."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.operators.group_by.parsing import parse_aggregates
from exoshuffle.operators.online.estimates import Sample, student
from exoshuffle.operators.online.online import Online, parse_online

NUM_SPLITS = 32
AGGREGATES: dict[str, Any] = {
    "n": "count",
    "values": ("x", "count"),
    "total": ("x", "sum"),
    "m": ("x", "mean"),
    "least": ("x", "min"),
    "most": ("text", "max"),
    "first": ("x", "first"),
    "last": ("text", "last"),
    "some": ("b", "any"),
    "every": ("b", "all"),
    "v": ("x", "var"),
    "sd": ("x", "std"),
}
ORACLE = """
    select k, count(*) as n, count(x) as values, sum(x)::bigint as total, avg(x) as m, min(x) as least,
        max(text) as most, first(x order by i) filter (x is not null) as first,
        last(text order by i) filter (text is not null) as last, bool_or(b) as some, bool_and(b) as every,
        var_samp(x) as v, stddev_samp(x) as sd
    from t group by k order by k nulls last
"""


def rows_of(rng: random.Random, num_rows: int, num_keys: int) -> pa.Table:
    """Rows of which some lack the key, the value or the text; some groups have no value at all."""
    keys = [rng.choice([None, *range(num_keys)]) for _ in range(num_rows)]
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "x": pa.array(
                [None if rng.random() < 0.2 or k == 3 else rng.randint(-50, 900) for k in keys],
                pa.int32(),
            ),
            "text": pa.array([rng.choice(["a", "bb", "", None, "zzz"]) for _ in keys], pa.string()),
            "b": pa.array([rng.choice([True, False, None]) for _ in keys], pa.bool_()),
            "i": pa.array(range(num_rows), pa.int64()),
        }
    )


def in_splits(table: pa.Table, rng: random.Random, count: int = NUM_SPLITS) -> list[pa.Table]:
    """The table in parts of different sizes, some empty."""
    cuts = sorted(rng.randint(0, len(table)) for _ in range(count - 1))
    bounds = [0, *cuts, len(table)]
    return [table.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def online(table: pa.Table, *keys: str, **aggregates: Any) -> Online:
    return parse_online(parse_aggregates(table.schema, keys, aggregates))


def by_key(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by([("k", "ascending")]).to_pylist()


def assert_close(actual: list[dict[str, Any]], wanted: list[dict[str, Any]], seed: int) -> None:
    """Equal; floats up to rounding."""
    assert len(actual) == len(wanted), f"seed {seed}"
    for got, want in zip(actual, wanted, strict=True):
        for name, value in want.items():
            close = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert got[name] == close, f"{name} of {want}, seed {seed}"


@pytest.mark.parametrize("seed", range(4))
def test_states_merged_in_any_order_give_the_result_of_all_rows(seed: int) -> None:
    rng = random.Random(seed)
    table = rows_of(rng, 3000, 40 if seed % 2 else 4000)
    splits = list(enumerate(in_splits(table, rng, 12)))
    groups = online(table, "k", **AGGREGATES)
    rng.shuffle(splits)
    states = [groups.summary(rows, number, 1) for number, rows in splits]
    while len(states) > 1:
        few = [states.pop() for _ in range(min(len(states), rng.randint(2, 4)))]
        states.insert(0, groups.merged(few))
    with duckdb.connect() as connection:
        connection.register("t", table)
        wanted = connection.sql(ORACLE).to_arrow_table().to_pylist()
    result = groups.result(states[0], Sample([1] * 12, 12))
    assert_close(by_key(result), wanted, seed)
    for name in ("n", "values", "total", "m"):
        assert set(result[f"{name}_error"].to_pylist()) == {0.0}


def test_a_state_does_not_grow_with_rows_or_splits() -> None:
    table = rows_of(random.Random(1), 5000, 7)
    groups = online(table, "k", **AGGREGATES)
    state = groups.merged([])
    for number, rows in enumerate(in_splits(table, random.Random(2))):
        state = groups.merged([state, groups.summary(rows, number, len(rows))])
    chosen = 4
    assert len(state) <= 8 * (1 + chosen)


def test_estimates_and_errors_are_those_of_the_textbook() -> None:
    rng = random.Random(5)
    table = rows_of(rng, 2000, 5)
    splits = in_splits(table, rng)
    groups = online(table, "k", n="count", total=("x", "sum"), m=("x", "mean"))
    chosen = rng.sample(range(NUM_SPLITS), 11)
    state = groups.merged(groups.summary(splits[number], number, 7) for number in chosen)
    for group in groups.result(state, Sample([7] * NUM_SPLITS, 11)).to_pylist():
        of_group = [
            [row["x"] for row in splits[number].to_pylist() if row["k"] == group["k"]]
            for number in chosen
        ]
        values = [[x for x in part if x is not None] for part in of_group]
        n, n_error = naive_total([len(part) for part in of_group])
        total, total_error = naive_total([sum(part) for part in values])
        assert group["n"] == round(n)
        assert group["n_error"] == pytest.approx(n_error, rel=1e-5)
        if group["k"] == 3:
            assert group["total"] is group["total_error"] is group["m"] is group["m_error"] is None
            continue
        assert group["total"] == round(total)
        assert group["total_error"] == pytest.approx(total_error, rel=1e-5)
        m, m_error = naive_mean([sum(part) for part in values], [len(part) for part in values])
        assert (group["m"], group["m_error"]) == pytest.approx((m, m_error), rel=1e-5)


#: Student's t for 95 % and 10 degrees of freedom, from a printed table.
T_10 = 2.228139


def naive_total(of_splits: list[int]) -> tuple[float, float]:
    """Cochran, (2.8) and (2.20): a total from a simple random sample, and its error."""
    n = len(of_splits)
    mean = sum(of_splits) / n
    spread = sum((y - mean) ** 2 for y in of_splits) / (n - 1)
    variance = NUM_SPLITS**2 * spread / n * (1 - n / NUM_SPLITS)
    return NUM_SPLITS * mean, T_10 * math.sqrt(variance)


def naive_mean(sums: list[int], counts: list[int]) -> tuple[float, float]:
    """Cochran, (6.1) and (6.13): a ratio from a simple random sample; and its error, of so many splits as it is of."""
    n = sum(counts) ** 2 / sum(c * c for c in counts)
    ratio = sum(sums) / sum(counts)
    spread = sum((s - ratio * c) ** 2 for s, c in zip(sums, counts, strict=True)) / (n - 1)
    mean = sum(counts) / n
    variance = (1 - len(sums) / NUM_SPLITS) / (n * mean**2) * spread
    return ratio, student(n - 1) * math.sqrt(variance)


@pytest.mark.parametrize("num_seen", [8, 16, 24])
def test_bounds_contain_the_truth_in_about_95_percent_of_cases(num_seen: int) -> None:
    rng = random.Random(7)
    table = pa.table(
        {
            "k": [rng.randrange(60) for _ in range(40_000)],
            # Splits differ by more than chance: values rise with the position.
            "x": [rng.expovariate(1 / 100) + row / 1000 for row in range(40_000)],
        }
    )
    groups = online(table, "k", n="count", total=("x", "sum"), m=("x", "mean"))
    bounds = [0, *(1250 * i + rng.randint(-200, 200) for i in range(1, NUM_SPLITS)), 40_000]
    summaries = [
        groups.summary(table.slice(start, stop - start), number, 1)
        for number, (start, stop) in enumerate(itertools.pairwise(bounds))
    ]
    whole = groups.result(groups.merged(summaries), Sample([1] * NUM_SPLITS, NUM_SPLITS))
    truth = {group["k"]: group for group in whole.to_pylist()}
    inside = dict.fromkeys(("n", "total", "m"), 0)
    cases = 0
    for seed in range(30):
        sample = random.Random(seed).sample(summaries, num_seen)
        for group in groups.result(
            groups.merged(sample), Sample([1] * NUM_SPLITS, num_seen)
        ).to_pylist():
            cases += 1
            for name in inside:
                off = abs(group[name] - truth[group["k"]][name])
                inside[name] += off <= group[f"{name}_error"]
    for name, count in inside.items():
        assert 0.90 <= count / cases <= 0.99, f"{name} after {num_seen} splits: {count / cases:.3f}"


@pytest.mark.parametrize(
    ("degrees", "printed"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (30, 2.042)],
)
def test_students_t(degrees: int, printed: float) -> None:
    assert student(degrees) == pytest.approx(printed, rel=2e-3)


@pytest.mark.parametrize("degrees", [1.2, 1.5, 2.5, 3.7, 8.1, 24.0, 500.0])
def test_students_t_between_whole_degrees(degrees: float) -> None:
    """Simpson's rule over the density."""
    logarithm = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    density = math.exp(logarithm) / math.sqrt(degrees * math.pi)
    steps = 2000
    step = student(degrees) / steps
    weights = [1, *[4, 2] * (steps // 2 - 1), 4, 1]
    area = sum(
        weight * (1 + (index * step) ** 2 / degrees) ** (-(degrees + 1) / 2)
        for index, weight in enumerate(weights)
    )
    assert density * area * step / 3 == pytest.approx(0.475, abs=1e-4)


def test_after_one_split_there_is_no_error_to_tell() -> None:
    table = pa.table({"k": [1, 1, 2], "x": [3, 4, 5]})
    groups = online(table, "k", n="count", m=("x", "mean"))
    state = groups.summary(table, 0, 3)
    assert by_key(groups.result(state, Sample([3] * 4, 1))) == [
        {"k": 1, "n": 8, "m": 3.5, "n_error": None, "m_error": None},
        {"k": 2, "n": 4, "m": 5.0, "n_error": None, "m_error": None},
    ]
    assert by_key(groups.result(state, Sample([3], 1))) == [
        {"k": 1, "n": 2, "m": 3.5, "n_error": 0.0, "m_error": 0.0},
        {"k": 2, "n": 1, "m": 5.0, "n_error": 0.0, "m_error": 0.0},
    ]


def test_errors_that_cannot_be_told_are_null_and_none_is_zero() -> None:
    """Values are the same everywhere; a group is in one split alone; its values are zeros."""
    table = pa.table({"k": [0, 1, 0, 0, 2, 0], "x": [5, 7, 5, 5, 0, 5]})
    groups = online(table, "k", n="count", total=("x", "sum"), m=("x", "mean"))
    states = [groups.summary(table.slice(2 * part, 2), part, 2) for part in range(3)]
    (same, single, zeros) = by_key(groups.result(groups.merged(states), Sample([2] * 9, 3)))
    assert (same["n"], same["total"], same["m"], same["m_error"]) == (12, 60, 5.0, None)
    assert (single["n"], single["m_error"]) == (3, None)
    assert (zeros["n"], zeros["total"], zeros["m_error"]) == (3, 0, None)
    for group in (same, single, zeros):
        assert group["n_error"] > 0
        assert (group["total_error"] or 0) > 0 or group["total"] == 0


def test_splits_of_different_sizes_count_by_them() -> None:
    """All splits have the same share of the group, so every sample tells the total."""
    table = pa.table({"k": [row % 2 for row in range(60)], "x": [1] * 60})
    groups = online(table, "k", n="count", total=("x", "sum"))
    sizes = [20, 4, 10, 6, 20]
    cuts = [0, *itertools.accumulate(sizes)]
    states = [
        groups.summary(table.slice(start, stop - start), number, stop - start)
        for number, (start, stop) in enumerate(itertools.pairwise(cuts))
    ]
    for order in itertools.permutations(range(5), 3):
        unread = [number for number in range(5) if number not in order]
        sample = Sample([sizes[number] for number in (*order, *unread)], 3)
        for group in groups.result(groups.merged(states[n] for n in order), sample).to_pylist():
            assert (group["n"], group["total"]) == (30, 30)
            assert 0 < group["n_error"] < 30


@pytest.mark.parametrize(
    ("kind", "values", "scaled"),
    [
        (pa.int8(), [100, 100], 400),
        (pa.uint64(), [2**62], 2**63),
        (pa.int64(), [2**62], None),
        (pa.bool_(), [True, True, False], 4),
        (pa.float32(), [0.25, 0.5], 1.5),
        (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("2.5")], Decimal("7.50")),
        (pa.duration("s"), [5, 6], 22),
    ],
)
def test_estimates_keep_the_type_of_the_result(
    kind: pa.DataType, values: list[Any], scaled: Any
) -> None:
    stored = pa.int64() if pa.types.is_duration(kind) else kind
    table = pa.table({"x": pa.array(values, stored).cast(kind)})
    groups = online(table, total=("x", "sum"))
    result = groups.result(groups.summary(table, 0, 1), Sample([1, 1], 1))
    assert result.schema.field("total").type == groups.grouping.output_schema.field("total").type
    plain = pa.int64() if pa.types.is_duration(kind) else result["total"].type
    assert result["total"].cast(plain).to_pylist() == [scaled]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_values_that_are_no_numbers_have_errors_that_are_none(value: float) -> None:
    table = pa.table({"x": [1.0, value, 2.0]})
    groups = online(table, total=("x", "sum"), m=("x", "mean"))
    state = groups.merged(groups.summary(table.slice(row, 1), row, 1) for row in range(3))
    (group,) = groups.result(state, Sample([1] * 6, 3)).to_pylist()
    assert not math.isfinite(group["total_error"])
    assert not math.isfinite(group["m_error"])


def test_keys_of_any_type_and_of_names_of_ours() -> None:
    keys: dict[str, pa.Array] = {
        "split": pa.array(["a", "a", None, "b"]).dictionary_encode(),
        "rows()": pa.array([{"p": 1}, {"p": 1}, None, {"p": 2}]),
        "rows() * rows()": pa.array([math.nan, math.nan, 0.0, -0.0]),
    }
    table = pa.table(keys)
    groups = online(table, *keys, n="count")
    state = groups.merged([groups.summary(table, number, 4) for number in range(2)])
    result = groups.result(state, Sample([4, 4], 2))
    assert result.schema.types[:3] == table.schema.types
    assert result["n"].to_pylist() == [4, 2, 2]
    assert result["split"].to_pylist() == ["a", None, "b"]


def test_no_rows() -> None:
    table = rows_of(random.Random(0), 0, 1)
    grouped, whole = online(table, "k", **AGGREGATES), online(table, **AGGREGATES)
    for state in (grouped.merged([]), grouped.summary(table, 0, 1)):
        assert grouped.result(state, Sample([], 0)).num_rows == 0
    for state in (whole.merged([]), whole.merged([whole.summary(table, 0, 1), whole.merged([])])):
        (row,) = whole.result(state, Sample([], 0)).to_pylist()
        assert (row["n"], row["total"], row["n_error"], row["first"]) == (0, None, 0.0, None)


@pytest.mark.parametrize("function", ["median", "count_distinct", "approx_count_distinct", "list"])
def test_functions_without_a_bounded_state_are_refused(function: str) -> None:
    with pytest.raises(
        OptionsError, match=f"cannot compute '{function}'.* it can all, any, corr, count"
    ):
        online(rows_of(random.Random(0), 1, 1), "k", m=("x", function))


@pytest.mark.parametrize(
    ("key", "aggregates"),
    [("n_error", {"n": "count"}), ("k", {"n": "count", "n_error": ("x", "max")})],
)
def test_names_of_errors_must_be_free(key: str, aggregates: dict[str, Any]) -> None:
    table = pa.table({key: [1], "x": [2]})
    with pytest.raises(OptionsError, match="adds a column 'n_error', which there is already"):
        online(table, key, **aggregates)
