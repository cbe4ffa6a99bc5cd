"""The window functions, as data: what they take, the SQL that computes them, and what their results are.

A value that is only chosen (``lag``, ``first_value``, ``min`` …) has to come back as it was, whatever its type. So SQL
finds the number of its row, and the value is taken from the table. Words of templates, beside those of
``sql.groups.Operands``:

* ``{over}``: the OVER clause
* ``{row}``: the number of a row whose value may be chosen
* ``{nulls}``: ``IGNORE NULLS`` where asked for
* ``{inner}``: the order that decides among rows of equal order values
* ``{beyond}``: the number of the row with the default
"""

from __future__ import annotations

from typing import Literal

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.group_by.functions import ALIASES as AGGREGATE_ALIASES

#: The kinds of arguments.
Kind = Literal["column", "number", "count", "fraction"]
#: The same for messages.
WORDS: dict[Kind, str] = {
    "column": "a column",
    "number": "a whole number",
    "count": "a whole number, at least 1",
    "fraction": "a fraction from 0 to 1",
}

_NUMBER = "{value}::DOUBLE"
# DuckDB 1.5 fails on a variance of infinities.
_FINITE = f"FILTER (isfinite({_NUMBER}))"
_SUM = "sum({value}) {over}"


@dataclass(frozen=True)
class WindowFunction:
    """A window function.

    Attributes:
        sql: Its template.
        type: Name of the result's type, for ``group_by.functions.result_type``.
        takes: The types of its column, a word of ``group_by.functions.TAKES``.
        arguments: The kinds of its arguments, in order.
        optional: How many of the last arguments may be left out.
        is_choice: Whether the SQL gives the number of the row whose value the result is.
        compares: Whether it compares values to choose one.
        order: ``"rows"`` if rows of equal order values come one after the other, in input order. ``"peers"`` if such
            rows are alike, and ``"frame"`` if the frame says.
    """

    sql: str
    type: str
    takes: str = "anything"
    arguments: tuple[Kind, ...] = ()
    optional: int = 0
    is_choice: bool = False
    compares: bool = False
    order: Literal["rows", "peers", "frame"] = "frame"

    @property
    def is_aggregate(self) -> bool:
        """Whether it is an aggregate, which without the OVER clause gives one value for a group."""
        return self.order == "frame" and "{inner}" not in self.sql


def _of(sql: str, kind: str, takes: str) -> WindowFunction:
    return WindowFunction(sql, kind, takes, ("column",))


def _chosen(sql: str, *more: Kind) -> WindowFunction:
    return WindowFunction(sql, "own", "anything", ("column", *more), is_choice=True)


def _greatest(name: str) -> WindowFunction:
    sql = f"{name}({{number}}, {{value}}) {{over}}"
    return WindowFunction(sql, "own", "anything", ("column",), is_choice=True, compares=True)


def _beside(name: str) -> WindowFunction:
    sql = f"coalesce({name}({{row}}, {{parameter}} {{nulls}}) {{over}}, {{beyond}})"
    arguments: tuple[Kind, ...] = ("column", "number", "column")
    return WindowFunction(sql, "own", "anything", arguments, 2, is_choice=True, order="rows")


def _variance(name: str) -> WindowFunction:
    infinite = f"NOT isfinite(avg({_NUMBER}) {{over}})"
    finite = f"{name}({_NUMBER}) {_FINITE} {{over}}"
    variance = f"CASE WHEN {infinite} THEN 'nan'::DOUBLE ELSE {finite} END"
    return _of(f"CASE WHEN count({{value}}) {{over}} > 1 THEN {variance} END", "double", "numbers")


def _rank(call: str, kind: str = "int64") -> WindowFunction:
    return WindowFunction(f"{call} {{over}}", kind, order="peers")


#: ``count(*)``.
ROWS = WindowFunction("count(*) {over}", "int64")

FUNCTIONS: dict[str, WindowFunction] = {
    "row_number": WindowFunction("row_number() {over}", "int64", order="rows"),
    "ntile": WindowFunction(
        "ntile({parameter}) {over}", "int64", "anything", ("count",), order="rows"
    ),
    "rank": _rank("rank()"),
    "dense_rank": _rank("dense_rank()"),
    "percent_rank": _rank("percent_rank()", "double"),
    "cume_dist": _rank("cume_dist()", "double"),
    "lag": _beside("lag"),
    "lead": _beside("lead"),
    "first_value": _chosen("first_value({row} {inner} {nulls}) {over}"),
    "last_value": _chosen("last_value({row} {inner} {nulls}) {over}"),
    "nth_value": _chosen("nth_value({row}, {parameter} {inner} {nulls}) {over}", "count"),
    "min": _greatest("arg_min"),
    "max": _greatest("arg_max"),
    "count": _of("count(*) FILTER ({valid}) {over}", "int64", "anything"),
    "count_distinct": _of("count(DISTINCT {value}) {over}", "int64", "anything"),
    "sum": _of(_SUM, "sum", "numbers, booleans or durations"),
    "mean": _of(f"({_SUM})::DOUBLE / count({{value}}) {{over}}", "double", "numbers or booleans"),
    "var": _variance("var_samp"),
    "std": _variance("stddev_samp"),
    "any": _of("bool_or({value}) {over}", "bool", "booleans"),
    "all": _of("bool_and({value}) {over}", "bool", "booleans"),
    "median": _of(f"quantile_cont({_NUMBER}, 0.5) {{over}}", "double", "numbers"),
    "quantile": WindowFunction(
        f"quantile_cont({_NUMBER}, {{parameter}}) {{over}}",
        "double",
        "numbers",
        ("column", "fraction"),
    ),
}

#: Names of DuckDB and Spark for the same functions.
ALIASES = AGGREGATE_ALIASES | {"first": "first_value", "last": "last_value"}
