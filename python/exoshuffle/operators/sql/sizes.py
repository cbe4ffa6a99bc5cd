"""Estimates how much expressions make of a row, as SQL, so that it is known before they are computed.

Guarantee: the functions below make much of little, and DuckDB does not count their memory (lists, padded and replaced
text). For these the estimate is about the bytes that a value takes, or more. Their arguments are bounded likewise
before.

Other functions make at most a few times their arguments, of text that DuckDB counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from exoshuffle.late_dataclasses import dataclass
from exoshuffle.operators.sql.syntax import (
    Node,
    arguments,
    column_names,
    function_name,
    lambda_parameters,
    nodes,
    text_of,
)

#: A list has 8 to 16 bytes for each value.
_ITEM = "16.0"
#: Widths may also be arguments: "%*d", "{:{}}".
_PADDED = (
    "coalesce(list_sum(list_transform(regexp_extract_all("
    "array_to_string(regexp_extract_all({0}, 'SPEC'), ' '), '[0-9]+'), "
    "lambda n: try_cast(n AS DOUBLE))), 0) + "
    "CASE WHEN regexp_matches({0}, 'DYNAMIC') THEN {rest} ELSE 0 END"
)
_PLACE = re.compile(r"\{(\d|rest)\}")


def _padded(spec: str, dynamic: str) -> tuple[str, ...]:
    return (_PADDED.replace("SPEC", spec).replace("DYNAMIC", dynamic),)


_NUMBERS = (
    "8.0 * {0}",
    "8.0 * ({1} - {0})",
    "8.0 * ({1} - {0}) / nullif({2}, 0)",
    "8.0 * (epoch({1}) - epoch({0})) / nullif(epoch({2}), 0)",
)
_PADDING = ("4.0 * {1}",)
_RESIZED = (f"{_ITEM} * {{1}}",)
_SPLIT = (f"{_ITEM} * strlen({{0}})",)
_JOINED = ("len({0}) * (strlen({1}) + 1.0)",)
_MADE = (f"{_ITEM} * len({{0}})",)

#: By the name of a function, how many bytes it may make: several forms for several types and numbers of arguments. {0}
#: is its first argument; {rest} is the sum of the further arguments that are numbers.
_GROWING: dict[str, tuple[str, ...]] = {
    # DuckDB counts text.
    "repeat": (f"CASE WHEN typeof({{0}}) LIKE '%]' THEN {_ITEM} ELSE 1 END * len({{0}}) * {{1}}",),
    "range": _NUMBERS,
    "generate_series": _NUMBERS,
    "lpad": _PADDING,
    "rpad": _PADDING,
    "list_resize": _RESIZED,
    "array_resize": _RESIZED,
    "bar": ("4.0 * {3}",),
    "bitstring": ("{1} / 8.0",),
    "equi_width_bins": (f"{_ITEM} * {{2}}",),
    "printf": _padded("%[^a-zA-Z%]*", r"\*"),
    "format": _padded(r"\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}", r"\{[^{}]*\{"),
    "replace": ("strlen({0}) / greatest(strlen({1}), 1.0) * strlen({2})",),
    "regexp_replace": (
        # Every place can match; without options only one does.
        "CASE WHEN contains({3}, 'g') THEN strlen({0}) + 1.0 ELSE 1.0 END * strlen({2})",
        "strlen({2}) + 0.0",
    ),
    **dict.fromkeys(("split", "str_split", "string_split", "string_to_array"), _SPLIT),
    **dict.fromkeys(("str_split_regex", "string_split_regex", "regexp_split_to_array"), _SPLIT),
    "regexp_extract_all": _SPLIT,
    **dict.fromkeys(("array_to_string", "list_to_string"), _JOINED),
    **dict.fromkeys(
        (
            f"{kind}_{verb}"
            for kind in ("list", "array")
            for verb in ("transform", "apply", "filter")
        ),
        _MADE,
    ),
    **dict.fromkeys(("apply", "filter"), _MADE),
}


#: Functions that make one list of several.
_CONCATENATING = ("||", "list_concat", "list_cat", "array_concat", "array_cat", "list_value")


@dataclass
class Growth:
    """The bytes that growing functions of an expression may make of a row.

    Attributes:
        lists: Columns of lists, in small letters.
        levels: SQL of numbers of bytes, each in several forms. The numbers of a level can be computed if those of
            the levels before it have been found to be bounded.
    """

    lists: frozenset[str]
    levels: list[list[tuple[str, ...]]] = field(default_factory=list)

    def add(self, level: int, forms: tuple[str, ...]) -> None:
        """Adds a number of bytes to a level."""
        while len(self.levels) <= level:
            self.levels.append([])
        self.levels[level].append(forms)


def growth_of(node: Node, lists: frozenset[str]) -> Growth:
    """Returns the growth of an expression. Cost: a few ms for each growing function, nothing without any."""
    growth = Growth(lists)
    _visit(node, growth, _Within(str))
    return growth


@dataclass(frozen=True)
class _Within:
    """The place of a part within an expression.

    Attributes:
        wrap: Makes SQL about a row from SQL about this part, which may be in a lambda or in a branch of a CASE.
        level: The level of the values that it may mention.
    """

    wrap: Callable[[str], str]
    level: int = 0

    def at(self, level: int) -> _Within:
        return _Within(self.wrap, max(level, self.level))

    def inside(self, wrap: Callable[[str], str], level: int) -> _Within:
        outer = self.wrap
        return _Within(lambda sql: outer(wrap(sql)), max(level, self.level))


def _visit(node: object, growth: Growth, within: _Within) -> int:
    """Adds what a part of an expression may make; returns the level at which its value may be mentioned."""
    if isinstance(node, list):
        return max((_visit(part, growth, within) for part in node), default=within.level)
    if not isinstance(node, dict):
        return within.level
    if node.get("class") == "CASE":
        return _visit_case(node, growth, within)
    if function_name(node):
        return _visit_function(node, growth, within)
    return max((_visit(part, growth, within) for part in node.values()), default=within.level)


def _visit_case(node: Node, growth: Growth, within: _Within) -> int:
    """Adds the branches of a CASE; each counts for the rows that come to it."""
    level = within.level
    before: list[Node] = []
    branches = [(check["when_expr"], check["then_expr"]) for check in node["case_checks"]]
    for condition, branch in [*branches, (None, node["else_expr"])]:
        if condition is not None:
            level = _visit(condition, growth, within.at(level))
        wrap = _branch(before, condition)
        level = max(level, _visit(branch, growth, within.inside(wrap, level)))
        before = [*before, condition] if condition is not None else before
    return level


def _branch(before: list[Node], condition: Node | None) -> Callable[[str], str]:
    def wrap(sql: str) -> str:
        others = "".join(f" WHEN {text_of(other)} THEN 0" for other in before)
        chosen = "TRUE" if condition is None else text_of(condition)
        return f"CASE{others} WHEN {chosen} THEN {sql} ELSE 0 END"

    return wrap


def _visit_function(node: Node, growth: Growth, within: _Within) -> int:
    given = arguments(node)
    plain = [part for part in given if part.get("class") != "LAMBDA"]
    level = _visit(plain, growth, within)
    for part in given:
        if part.get("class") == "LAMBDA" and plain:
            inner = _in_lambda(part, plain[0], within, level)
            level = max(level, _visit(part["expr"], growth, inner))
    forms = _forms(node, plain) or _forms_of_reduce(given)
    if not forms:
        return level
    # A list that a lambda mentions is repeated for each item.
    repeated = [
        f"len({_quoted(name)})"
        for part in given
        if part.get("class") == "LAMBDA"
        for name in sorted(set(column_names(part["expr"])))
        if name.lower() in growth.lists and name.lower() not in lambda_parameters(part)
    ]
    times = f" * (1 + {' + '.join(repeated)})" if repeated else ""
    growth.add(level, tuple(within.wrap(_whole(sql + times)) for sql in forms))
    return level + 1


def _forms(node: Node, given: list[Node]) -> list[str]:
    """Returns the forms that these arguments suffice for and that mention the most of them."""
    known = _GROWING.get(function_name(node), ())
    fitting = [form for form in known if _num_mentioned(form) <= len(given)]
    most = max(map(_num_mentioned, fitting), default=0)
    if not most:
        return []
    texts = {str(index): text_of(part) for index, part in enumerate(given)}
    numbers = [f"coalesce(abs(try_cast({text} AS DOUBLE)), 0)" for text in [*texts.values()][1:]]
    texts["rest"] = " + ".join(numbers) or "0"
    return [
        _PLACE.sub(lambda place: texts[place[1]], form)
        for form in fitting
        if _num_mentioned(form) == most
    ]


def _forms_of_reduce(given: list[Node]) -> list[str]:
    """Returns the form for a lambda of several values that makes lists of its first one, repeating it for each item."""
    for part in given:
        parameters = lambda_parameters(part) if part.get("class") == "LAMBDA" else []
        if len(parameters) < 2:
            continue
        joined = [inner for inner in nodes(part["expr"]) if function_name(inner) in _CONCATENATING]
        times = max(
            ([*map(str.lower, column_names(inner))].count(parameters[0]) for inner in joined),
            default=0,
        )
        if times > 1:
            return [f"{_ITEM} * pow({times}, least(len({text_of(given[0])}), 100))"]
    return []


def _num_mentioned(form: str) -> int:
    names = _PLACE.findall(form)
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def _in_lambda(part: Node, items: Node, within: _Within, level: int) -> _Within:
    """Returns the place in a lambda: values are summed over the items; of two parameters, as in reduce, one is seen."""
    parameters = ", ".join(map(_quoted, lambda_parameters(part)))

    def wrap(sql: str) -> str:
        each = f"list_transform({text_of(items)}, lambda {parameters}: {sql})"
        return f"coalesce(list_sum({each}), 0)"

    return within.inside(wrap, level)


def _whole(sql: str) -> str:
    return f"coalesce(greatest(CAST({sql} AS DOUBLE), 0), 0)"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
