"""Price lists, and the bill of a simulation.

Guarantee: a list without a date, a currency or the source of a price is refused. Prices change, and a number without
them looks true for ever. The bill is exact: nothing is rounded before it is shown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exoshuffle.engines.sim.cluster import tables
from exoshuffle.errors import OptionsError, shown, unknown

_FOLDER = Path(__file__).parent / "price_lists"
_KEYS = ("name", "date", "currency", "region", "sources", "machine_hour", "volume_gigabyte_month",
         "storage_gigabyte_month", "thousand_reads", "thousand_writes")  # fmt: skip
HOURS_PER_MONTH = 365 * 24 / 12
_HOUR_SECONDS = 3600
_GIGABYTE = 10**9


@dataclass(frozen=True)
class PriceList:
    """The prices of things, on a day and in a currency.

    Attributes:
        date: The day.
        currency: Three letters, such as ``USD``.
        machine_hour: An hour of each kind of node.
        volume_gigabyte_month: A gigabyte of a disk volume for a month.
        storage_gigabyte_month: A gigabyte in the object storage for a month.
        thousand_reads, thousand_writes: So many requests to it.
    """

    date: dt.date
    currency: str
    machine_hour: Mapping[str, float] = field(default_factory=dict)
    volume_gigabyte_month: float = 0.0
    storage_gigabyte_month: float = 0.0
    thousand_reads: float = 0.0
    thousand_writes: float = 0.0

    def hour_of(self, machine: str) -> float:
        """Returns the price of an hour of a node.

        Raises:
            OptionsError: The list has no such node.
        """
        if machine not in self.machine_hour:
            raise OptionsError(unknown("price of a machine", machine, sorted(self.machine_hour)))
        return self.machine_hour[machine]


@dataclass(frozen=True)
class Use:
    """The machines, volumes and requests that were used, in numbers.

    Attributes:
        seconds: How long the nodes ran.
        machines: How many of each kind.
        volume_gigabytes: Gigabytes of volumes, of all nodes together.
        num_reads, num_writes: Requests to the object storage.
        stored: Bytes in the object storage, each with the seconds for which they were there.
    """

    seconds: float
    machines: Mapping[str, int]
    volume_gigabytes: float = 0.0
    num_reads: int = 0
    num_writes: int = 0
    stored: tuple[tuple[int, float], ...] = ()


def bill(prices: PriceList, use: Use) -> dict[str, float]:
    """Returns what each part of the use costs."""
    hours = use.seconds / _HOUR_SECONDS
    kept = sum(num_bytes / _GIGABYTE * seconds for num_bytes, seconds in use.stored)
    hourly = sum(prices.hour_of(name) * count for name, count in use.machines.items())
    volume = use.volume_gigabytes * prices.volume_gigabyte_month / HOURS_PER_MONTH
    return {
        "machines": hourly * hours,
        "volumes": volume * hours,
        "storage": kept / _HOUR_SECONDS / HOURS_PER_MONTH * prices.storage_gigabyte_month,
        "reads": use.num_reads / 1000 * prices.thousand_reads,
        "writes": use.num_writes / 1000 * prices.thousand_writes,
    }


def price_list_names() -> list[str]:
    """Returns the names of the price lists that the package has."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def price_list(name: str) -> PriceList:
    """Returns a price list.

    Args:
        name: A name of the package, or the path of a TOML file of your own.

    Raises:
        OptionsError: There is no such name; or a date, a currency or a source is missing.
        InputError: The file cannot be read.
    """
    path = tables.known_path(_FOLDER, "price list", name)
    table = tables.read(path)
    tables.check_keys(path.name, table, _KEYS)
    tables.check_sources(path, table)
    currency = table.get("currency")
    if not (isinstance(currency, str) and len(currency) == 3 and currency.isupper()):
        raise OptionsError(
            f'{path.name} has the currency {shown(currency)}; write three letters, as in currency = "USD"'
        )
    given = {key: table[key] for key in _KEYS[5:] if key in table}
    return PriceList(table["date"], currency, **given)
