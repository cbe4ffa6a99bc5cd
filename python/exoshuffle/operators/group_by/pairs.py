"""The aggregate functions of two columns: correlation, covariances, and the line that fits best.

Both columns are one, of pairs: a struct of two doubles, or null where either is null. So everything that knows
functions of one column knows these. As in SQL, the first column is *y* and the second *x*.

Parts are the means and the sums of squared distances from them, as for a variance, and of the products of both
distances. Merged sums are those within the parts, and those of the parts' means. Source: "Updating formulae and a
pairwise algorithm for computing sample variances", Chan and others, STAN-CS-79-773, equation 2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exoshuffle.operators.group_by.kinds import Folded, Function

if TYPE_CHECKING:
    import pyarrow as pa

_TAKES = "two columns of numbers"
_Y, _X = "{value}.y", "{value}.x"
_ANY = "FILTER ({mean_y} IS NOT NULL)"


def _center(axis: str) -> str:
    return f"sum({{count}} * {{mean_{axis}}}) / sum({{count}})"


def _mean(value: str, axis: str) -> Folded:
    return Folded("double", value, f"avg({value})", _center(axis))


def _distances(first: str, second: str) -> Folded:
    """Returns the part of products of the distances on two axes, or of the squared ones on one."""
    means = f"{{{{'n': {{count}}::DOUBLE, 'a': {{mean_{first}}}, 'b': {{mean_{second}}}}}}}"
    product = f"p.n * (p.a - {_center(first)}) * (p.b - {_center(second)})"
    between = f"list_sum(list_transform(list({means}) {_ANY}, lambda p: {product}))"
    values = {"y": _Y, "x": _X}
    within = f"covar_pop({values[first]}, {values[second]}) * count(*) FILTER ({{valid}})"
    return Folded("double", "0.0", within, f"coalesce(sum({{value}}), 0) + coalesce({between}, 0)")


PAIR_PARTS = {
    "mean_y": _mean(_Y, "y"),
    "mean_x": _mean(_X, "x"),
    "spread_y": _distances("y", "y"),
    "spread_x": _distances("x", "x"),
    "products": _distances("y", "x"),
}
_PARTS = ("count", *PAIR_PARTS)


def _function(name: str, finish: str, *, least: int = 1, direct: str = "") -> Function:
    """Returns a function of pairs: null for fewer than ``least``, NaN where a value is infinite or NaN.

    Args:
        name: DuckDB's name for it.
        finish: SQL over merged parts.
        least: Number of pairs that it needs.
        direct: SQL over rows, where DuckDB's function differs: its intercept is null where it is not a number.
    """
    is_finite = "isfinite({mean_y}) AND isfinite({mean_x})"
    known = f"CASE WHEN {is_finite} THEN {finish} ELSE 'nan'::DOUBLE END"
    merged = f"CASE WHEN {{count}} >= {least} THEN {known} END"
    return Function(_TAKES, "double", direct or f"{name}({_Y}, {_X})", _PARTS, merged)


_SLOPE = "({products} / {spread_x})"
_INTERCEPT = f"(avg({_Y}) - regr_slope({_Y}, {_X}) * avg({_X}))"
PAIR_FUNCTIONS = {
    "corr": _function("corr", "({products} / sqrt({spread_y}) / sqrt({spread_x}))"),
    "covar_pop": _function("covar_pop", "({products} / {count})"),
    "covar_samp": _function("covar_samp", "({products} / ({count} - 1))", least=2),
    "regr_slope": _function("regr_slope", _SLOPE),
    "regr_intercept": _function(
        "regr_intercept", f"({{mean_y}} - {_SLOPE} * {{mean_x}})", direct=_INTERCEPT
    ),
}


def pair_of(y: str, x: str, condition: str = "") -> str:
    """Returns SQL for the pairs of two expressions, null where a condition does not hold."""
    tests = [f"({y}) IS NOT NULL", f"({x}) IS NOT NULL", *([f"({condition})"] if condition else [])]
    return f"CASE WHEN {' AND '.join(tests)} THEN {{'y': ({y})::DOUBLE, 'x': ({x})::DOUBLE}} END"


def is_pair(kind: pa.DataType) -> bool:
    """Returns whether a type is that of pairs."""
    import pyarrow as pa

    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return False
    return all(kind.field(index).type == pa.float64() for index in range(2))
