"""The aggregate functions, as data: the types they take, the parts that maps send of a column, and the result.

A function has two forms. ``direct`` is SQL over rows. A function with *parts* can also be combined by maps. For each
part, maps send one row per key, or the few that matter; the result is made of the merged parts. Parts are shared: a
sum, a mean and a standard deviation of one column send its count once.

If a value must come back as it was, its row number stands for it, and the value is then taken from the table. Templates
are those of ``sql.groups.Operands``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exoshuffle.arguments import is_number, is_whole
from exoshuffle.errors import OptionsError
from exoshuffle.operators.group_by.kinds import Folded, Function, Kept, Part, Picked
from exoshuffle.operators.group_by.pairs import PAIR_FUNCTIONS, PAIR_PARTS, is_pair
from exoshuffle.operators.sql.relational import plain_type

if TYPE_CHECKING:
    import pyarrow as pa

#: Number of hashes that stand for the distinct values of a group. Up to so many values the count is exact; beyond, it
#: has a standard error of 1/sqrt(1022) = 3.1 %. Source: "On synopses for distinct-value estimation under multiset
#: operations", Beyer and others, SIGMOD 2007, section 3. They are DuckDB's, so all workers need the same version of it.
SKETCH_HASHES = 1024

#: DuckDB keeps at most so many largest values.
MAX_TOP = 999_999


_NUMBER = "{value}::DOUBLE"
# DuckDB 1.5 fails on a variance of infinities.
_FINITE = f"FILTER (isfinite({_NUMBER}))"
_CENTER = "sum({count} * {mean}) / sum({count})"
_ANY_MEAN = "FILTER ({mean} IS NOT NULL)"


def _smallest(hashes: str) -> str:
    # min(…, n) reserves room for n in every group: 12 GB for 400,000.
    return f"list_slice(list_sort(list(DISTINCT {hashes}) FILTER ({{valid}})), 1, {SKETCH_HASHES})"


PARTS: dict[str, Part] = {
    "rows": Folded("int64", "1", "count(*)", "{sum}"),
    "count": Folded("int64", "{valid}::BIGINT", "count(*) FILTER ({valid})", "{sum}"),
    "total": Folded("total", "{value}", "{sum}", "{sum}"),
    "mean": Folded("double", _NUMBER, f"avg({_NUMBER})", _CENTER),
    # Squared distances from the mean: those within the parts, and those of the parts' means. They are lists, since
    # subtracting two sums of squares would cancel; 2 million parts took 0.2 s.
    "spread": Folded(
        "double",
        "0.0",
        f"var_pop({_NUMBER}) {_FINITE} * count(*) FILTER ({{valid}})",
        f"coalesce(sum({{value}}), 0) + list_inner_product(list({{count}}::DOUBLE) {_ANY_MEAN},"
        f" list_transform(list({{mean}}) {_ANY_MEAN}, lambda p: (p - {_CENTER}) ** 2))",
    ),
    "least": Picked("arg_min({number}, {value})"),
    "greatest": Picked("arg_max({number}, {value})"),
    "min": Folded("own", "", "min({value})", "min({value})"),
    "max": Folded("own", "", "max({value})", "max({value})"),
    "first": Picked("min({number}) FILTER ({valid})"),
    "last": Picked("max({number}) FILTER ({valid})"),
    "any": Folded("bool", "{value}", "bool_or({value})", "bool_or({value})"),
    "all": Folded("bool", "{value}", "bool_and({value})", "bool_and({value})"),
    "distinct": Kept(
        "SELECT min({number}) AS number FROM t WHERE {valid} GROUP BY {keys}{value}",
        "count(DISTINCT {value})",
        is_per_value=True,
    ),
    # The part that "distinct" becomes in a part of a group that has all rows of its values.
    "counted": Folded("int64", "", "", "coalesce({sum}, 0)::BIGINT"),
    "largest": Kept(
        "SELECT unnest(arg_max({number}, {value}, {parameter})) AS number FROM t {group}",
        "arg_max({number}, {value}, {parameter})",
    ),
    "hashes": Kept(
        f"SELECT unnest(arg_min(number, h, {SKETCH_HASHES})) AS number FROM"  # noqa: S608  a number of ours
        " (SELECT {keys}min({number}) AS number, hash({value}) AS h FROM t WHERE {valid} GROUP BY {keys}h) {group}",
        _smallest("{value}"),
        "uint64",
        "CASE WHEN {valid} THEN hash({value}) END",
    ),
    **PAIR_PARTS,
}


def _picked(part: str, takes: str) -> Function:
    return Function(takes, "own", PARTS[part].merge, (part,), f"{{{part}}}", "row")


def _variance(sql: str) -> str:
    return f"CASE WHEN {{count}} > 1 THEN {sql.format('{spread} / ({count} - 1)')} END"


def _direct_variance(name: str) -> str:
    infinite = f"NOT isfinite(avg({_NUMBER}))"
    variance = f"CASE WHEN {infinite} THEN 'nan'::DOUBLE ELSE {name}({_NUMBER}) {_FINITE} END"
    return f"CASE WHEN count({{value}}) > 1 THEN {variance} END"


_SKETCHED = _smallest("hash({value})")


def _estimate(hashes: str) -> str:
    # The largest of k hashes divides their range in the same proportion as the k-1 others do.
    estimate = (
        f"round({SKETCH_HASHES - 1} * 18446744073709551616.0::DOUBLE / {hashes}[{SKETCH_HASHES}])"
    )
    few = f"len({hashes}) < {SKETCH_HASHES}"
    return f"CASE WHEN {hashes} IS NULL THEN 0 WHEN {few} THEN len({hashes}) ELSE {estimate} END"


def _value(part: str, takes: str) -> Function:
    return Function(takes, "own", PARTS[part].merge, (part,), f"{{{part}}}")


#: The count of rows, without a column.
ROWS = Function("anything", "int64", "count(*)", ("rows",), "coalesce({rows}, 0)")

#: The count of values that have been counted in parts.
COUNTED = Function("anything", "int64", "", ("counted",), "{counted}")

FUNCTIONS: dict[str, Function] = {
    "count": Function(
        "anything", "int64", "count(*) FILTER ({valid})", ("count",), "coalesce({count}, 0)"
    ),
    "count_distinct": Function(
        "anything", "int64", "count(DISTINCT {value})", ("distinct",), "{distinct}"
    ),
    "approx_count_distinct": Function(
        "all but nested types", "int64", _estimate(_SKETCHED), ("hashes",), _estimate("{hashes}")
    ),
    "sum": Function("numbers, booleans or durations", "sum", "{sum}", ("total",), "{total}"),
    "mean": Function(
        "numbers or booleans",
        "double",
        "{sum}::DOUBLE / count({value})",
        ("total", "count"),
        "{total}::DOUBLE / {count}",
    ),
    "var": Function(
        "numbers",
        "double",
        _direct_variance("var_samp"),
        ("count", "mean", "spread"),
        _variance("{}"),
    ),
    "std": Function(
        "numbers",
        "double",
        _direct_variance("stddev_samp"),
        ("count", "mean", "spread"),
        _variance("sqrt({})"),
    ),
    "min": _picked("least", "anything"),
    "max": _picked("greatest", "anything"),
    "first": _picked("first", "anything"),
    "last": _picked("last", "anything"),
    "any": Function("booleans", "bool", "bool_or({value})", ("any",), "{any}"),
    "all": Function("booleans", "bool", "bool_and({value})", ("all",), "{all}"),
    "top_k": Function(
        "anything",
        "list",
        PARTS["largest"].merge,
        ("largest",),
        "{largest}",
        "rows",
        "number",
    ),
    "list": Function("anything", "list", "list_sort(list({number}))", result="rows"),
    "median": Function("numbers", "double", f"quantile_cont({_NUMBER}, 0.5)"),
    "quantile": Function(
        "numbers", "double", f"quantile_cont({_NUMBER}, [{{parameter}}])", parameter="fraction"
    ),
    "approx_quantile": Function(
        "numbers",
        "double",
        f"approx_quantile({_NUMBER}, [{{parameter}}]::FLOAT[])",
        parameter="fraction",
    ),
    **PAIR_FUNCTIONS,
}


#: Names of DuckDB, pandas, Polars and Spark for the same functions.
ALIASES = {
    "any_value": "first",
    "approx_n_unique": "approx_count_distinct",
    "array_agg": "list",
    "avg": "mean",
    "bool_and": "all",
    "bool_or": "any",
    "collect_list": "list",
    "count_star": "count",
    "cov": "covar_samp",
    "covar": "covar_samp",
    "implode": "list",
    "n_unique": "count_distinct",
    "nunique": "count_distinct",
    "percentile_cont": "quantile",
    "quantile_cont": "quantile",
    "stddev": "std",
    "stddev_samp": "std",
    "var_samp": "var",
    "variance": "var",
}

#: Functions with another definition for integers: equal integers are the same, so the row of a value does not matter.
#: Grouping 40 million rows by 25 million keys with a minimum took 5.3 s instead of 5.8 (medians of five pairs).
_OF_INTEGERS = {"min": _value("min", "anything"), "max": _value("max", "anything")}


def function_of(name: str, kind: pa.DataType) -> Function:
    """Returns the function of this name for a column of this type."""
    import pyarrow as pa

    if pa.types.is_integer(kind) and name in _OF_INTEGERS:
        return _OF_INTEGERS[name]
    return FUNCTIONS[name]


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(check(kind) for check in is_number)


def _is_boolean(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_boolean(kind))


def _is_flat(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return not pa.types.is_nested(kind)


def _is_duration(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_duration(kind))


#: The types that functions are defined for, in words for messages.
TAKES: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "anything": (lambda _: True,),
    # The hashes of [], [0] and [0, 0] are equal.
    "all but nested types": (_is_flat,),
    "numbers": (_is_number,),
    "booleans": (_is_boolean,),
    "numbers or booleans": (_is_number, _is_boolean),
    "numbers, booleans or durations": (_is_number, _is_boolean, _is_duration),
    "two columns of numbers": (is_pair,),
}


def parameter_sql(function: str, given: Sequence[object]) -> str:
    """Returns the parameter that a user gave beside the column, as SQL; empty if there is none.

    Raises:
        OptionsError: It is not what the function needs.
    """
    wanted = FUNCTIONS[function].parameter
    value: object = given[0] if given else None
    if not wanted:
        if given:
            raise OptionsError(
                f"{function} takes no parameter, and was given {value!r}; leave it out"
            )
        return ""
    if wanted == "fraction":
        if not is_number(value) or not 0 <= value <= 1:
            raise OptionsError(f"{function} needs a fraction from 0 to 1, and was given {value!r}")
        return f"{float(value)!r}::DOUBLE"
    if not is_whole(value) or not 1 <= value <= MAX_TOP:
        raise OptionsError(
            f"{function} needs an integer from 1 to {MAX_TOP}, and was given {value!r}"
        )
    return str(value)


def accepts(takes: str, kind: pa.DataType) -> bool:
    """Returns whether a type is one of ``TAKES``; a dictionary counts as its values."""
    return any(check(plain_type(kind)) for check in TAKES[takes])


def result_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Returns the type of a function's result: ``own``, ``list`` of own, ``sum``, or an Arrow type by name."""
    import pyarrow as pa

    if name == "own":
        return kind
    if name == "list":
        return pa.list_(kind)
    if name == "sum":
        return _sum_type(plain_type(kind))
    return pa.type_for_alias(name)


def part_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Returns the type of a part: ``total``, which holds any sum of a split, or as ``result_type``."""
    import pyarrow as pa

    if name != "total":
        return result_type(name, kind)
    value = plain_type(kind)
    wide = pa.types.is_duration(value) or (pa.types.is_integer(value) and value.bit_width == 64)
    return pa.decimal128(38, 0) if wide else _sum_type(value)


@functools.lru_cache(maxsize=256)  # a group-by asks four times for each column, and that takes 6 µs
def _sum_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_duration(kind) or pa.types.is_uint64(kind):
        return kind
    if pa.types.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()
