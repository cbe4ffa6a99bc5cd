"""Aggregates from text, for the command line: ``"n=count(), total=sum(x), p90=quantile(x, 0.9)"``."""

from __future__ import annotations

import json
import re

from exoshuffle.errors import OptionsError
from exoshuffle.operators.group_by.parsing import AggregateSpec

_NAME = r'(?:"[^"]+"|[^\s,()="]+)'
_AGGREGATE = re.compile(
    rf"\s*(?P<name>{_NAME})\s*=\s*(?P<function>\w+)\s*"
    rf"\(\s*(?P<column>{_NAME})?\s*(?:,\s*(?P<parameter>[^,()]+?)\s*)?\)\s*(?:,|$)"
)


def parse_aggregate_text(text: str) -> dict[str, AggregateSpec]:
    """Returns aggregates as ``Grouped.agg`` takes them. Quote names with spaces: ``'total=sum("unit price")'``.

    Raises:
        OptionsError: Text that is not of this form, or a name that is given twice.
    """
    aggregates: dict[str, AggregateSpec] = {}
    position = 0
    while position < len(text.rstrip()):
        found = _AGGREGATE.match(text, position)
        if found is None:
            raise OptionsError(
                f"cannot read aggregates {text[position:].strip()!r}; "
                'write for example "n=count(), total=sum(x), p90=quantile(x, 0.9)"'
            )
        name = found["name"].strip('"')
        if name in aggregates:
            raise OptionsError(f"two aggregates have the name {name!r}; names must differ")
        aggregates[name] = _spec(found)
        position = found.end()
    return aggregates


def _spec(found: re.Match[str]) -> AggregateSpec:
    function, column, parameter = found["function"], found["column"], found["parameter"]
    if column is None and parameter is not None:
        raise OptionsError(
            f"{function}(, {parameter}) names no column; write {function}(x, {parameter})"
        )
    if column is None:
        return function
    column = column.strip('"')
    if parameter is None:
        return (column, function)
    try:
        return (column, function, json.loads(parameter))
    except ValueError:
        raise OptionsError(f"parameter {parameter!r} of {function} is not a number") from None
