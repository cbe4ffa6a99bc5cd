"""Byte quantities as people write and read them."""

from __future__ import annotations

import re

from exoshuffle.arguments import is_number
from exoshuffle.errors import OptionsError, shown

_UNITS = {"": 1, "B": 1}
for _exponent, _letter in enumerate("KMGTP", start=1):
    _UNITS[_letter] = _UNITS[_letter + "B"] = 1000**_exponent
    _UNITS[_letter + "IB"] = 1024**_exponent

_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: float | str) -> int:
    """Returns the bytes of ``"2GB"`` (decimal), ``"512MiB"`` (binary), ``"1.5 g"`` or a plain number.

    Raises:
        OptionsError: Not a size.
    """
    if is_number(text) and not isinstance(text, str):
        if not 0 <= text < float("inf"):
            raise OptionsError(f"size is {text}; it must be a number of bytes, not negative")
        return int(text)
    match = _PATTERN.fullmatch(str(text))
    factor = _UNITS.get(match.group(2).upper()) if match else None
    size = float(match.group(1)) * factor if match and factor else float("inf")
    if size == float("inf"):
        raise OptionsError(f"{text!r} is not a size; write for example 500MB, 2GB or 2GiB")
    return int(size)


def option_bytes(name: str, size: float | str, least: int = 1) -> int:
    """Returns the bytes of an option of this name, a number or a size as text.

    Raises:
        OptionsError: Not a size, or less than ``least``.
    """
    try:
        num_bytes = parse_bytes(size)
    except OptionsError:
        num_bytes = -1
    if num_bytes < least:
        raise OptionsError(
            f"{name} is {shown(size)}; it must be a size of at least {least} bytes, for example 500MB, 2GB or 2GiB"
        )
    return num_bytes


def counted(number: int, noun: str) -> str:
    """Returns ``"1 row"`` for ``1`` and ``"row"``, ``"2,000 rows"`` for ``2000``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_bytes(count: float) -> str:
    """Returns ``"1.23 MB"`` for ``1234567`` (decimal units, three digits)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            break
        count /= 1000
    if unit == "B":
        return f"{count:.0f} B"
    digits = 2 if abs(count) < 10 else 1 if abs(count) < 100 else 0
    return f"{count:.{digits}f} {unit}"
