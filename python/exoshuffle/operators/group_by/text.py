"""Cuts a list of aggregates, as for the command line, into names and SQL: ``"n=count(), total=sum(x * y)"``."""

from __future__ import annotations

import re

from exoshuffle.errors import OptionsError
from exoshuffle.operators.sql.listed import split_list

_NAMED = re.compile(r'\s*(?P<name>"[^"]+"|[^\s,()="]+)\s*=\s*(?P<sql>.*)', re.DOTALL)
_AS = re.compile(r'(?P<sql>.*\S)\s+as\s+(?P<name>"[^"]+"|\w+)\s*', re.DOTALL | re.IGNORECASE)


def parse_aggregate_text(text: str) -> dict[str, str]:
    """Returns the SQL of aggregates by their names. ``sum(x) AS total`` is the same as ``total=sum(x)``.

    An aggregate without a name has its text as its name. Names with spaces are quoted: ``'"my n"=count()'``.

    Raises:
        OptionsError: Nothing between two commas, or a name that is given twice.
    """
    aggregates: dict[str, str] = {}
    for part in split_list(text):
        found = _NAMED.fullmatch(part) or _AS.fullmatch(part)
        name, sql = (found["name"].strip('"'), found["sql"]) if found else (part.strip(),) * 2
        if not sql.strip():
            raise OptionsError(
                f'cannot read aggregates {text!r}; write for example "n=count(), total=sum(x), p90=quantile(x, 0.9)"'
            )
        if name in aggregates:
            raise OptionsError(f"two aggregates have the name {name!r}; names must differ")
        aggregates[name] = sql.strip()
    return aggregates
