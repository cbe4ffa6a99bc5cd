"""Reads a scenario from a TOML file; ``docs/simulating.md`` has one with all keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from exoshuffle.engines.sim.cluster import tables
from exoshuffle.engines.sim.cluster.description import Cluster, ObjectStorage
from exoshuffle.engines.sim.cluster.library import machine, with_store
from exoshuffle.engines.sim.cluster.prices import price_list
from exoshuffle.engines.sim.runs.question import Question
from exoshuffle.engines.sim.runs.scenario import Bought, Scenario
from exoshuffle.errors import OptionsError
from exoshuffle.units import option_bytes

Made = TypeVar("Made", Scenario, Question)

_KEYS = ("cluster", "storage", "shuffle", "cpu", "prices")
_TIMES = ("call_seconds", "task_seconds", "slice_seconds", "fetches_ahead")
_CLUSTER = ("machine", "num_nodes", "store_percent", "slots", *_TIMES)
_STORAGE = (
    "latency_seconds",
    "requests_per_second",
    "connection_bytes_per_second",
    "connections",
    "write_connections",
)
#: The keys of [shuffle] that a plan is made from; the others are what it decides.
_QUESTION = (
    "strategy",
    "total",
    "num_partitions",
    "reads",
    "writes",
    "read_request",
    "write_request",
)
_SHUFFLE = ("strategy", "total", "num_splits", "num_partitions", "reads", "writes", "read_request", "write_request",
            "round_size", "merge_factor", "map_memory", "reduce_memory")  # fmt: skip
_PRICES = ("list", "machines", "volume_gigabytes")
#: Keys that are sizes, with their names in ``Scenario``.
_SIZES = {
    "total": "total_bytes",
    "read_request": "read_request_bytes",
    "write_request": "write_request_bytes",
    "map_memory": "map_memory_bytes",
    "reduce_memory": "reduce_memory_bytes",
}


def scenario(path: str | Path) -> Scenario:
    """Reads a scenario.

    Raises:
        InputError: The file cannot be read.
        OptionsError: It lacks something, or has what means nothing.
    """
    return _made(
        Scenario, path, _SHUFFLE, ", or have the plan decide: exoshuffle simulate --estimate"
    )


def question(path: str | Path) -> Question:
    """Reads a shuffle to be planned: the numbers that a plan decides are left out.

    Raises:
        InputError: The file cannot be read.
        OptionsError: It lacks something, or has what means nothing.
    """
    return _made(Question, path, _QUESTION)


def _made(
    kind: type[Made], path: str | Path, known_of_shuffle: tuple[str, ...], else_: str = ""
) -> Made:
    name, options = _read(path, known_of_shuffle)
    try:
        return kind(**options)
    except TypeError as error:
        raise OptionsError(f"[shuffle] of {name} lacks a number: {error}; add it{else_}") from error


def _read(path: str | Path, known_of_shuffle: tuple[str, ...]) -> tuple[str, tables.Table]:
    """Returns the name of a file, and what it says as options."""
    file = Path(path)
    table = tables.read(file)
    tables.check_keys(file.name, table, _KEYS)
    given = {key: tables.section(file.name, table, key) for key in ("cluster", "shuffle", "cpu")}
    decided = [key for key in given["shuffle"] if key in _SHUFFLE and key not in known_of_shuffle]
    if decided:
        raise OptionsError(
            f"[shuffle] of {file.name} has {', '.join(decided)}, which an estimate plans itself; leave them out, or "
            "simulate without --estimate"
        )
    for key, known in (("cluster", _CLUSTER), ("shuffle", known_of_shuffle)):
        tables.check_keys(f"[{key}] of {file.name}", given[key], known)
    options: tables.Table = {
        _SIZES.get(key, key): option_bytes(key, value) if key in _SIZES else value
        for key, value in given["shuffle"].items()
    }
    options["cluster"] = _cluster(file.name, given["cluster"], table.get("storage"))
    options["cpu"] = given["cpu"]
    if "prices" in table:
        prices = tables.section(file.name, table, "prices")
        options["bought"] = _bought(file.name, prices, given["cluster"])
    return file.name, options


def _cluster(name: str, table: tables.Table, storage: tables.Table | None) -> Cluster:
    for key in ("machine", "num_nodes"):
        if key not in table:
            raise OptionsError(f"[cluster] of {name} has no {key}; add it")
    kind = with_store(machine(str(table["machine"])), table.get("store_percent", 100))
    if "slots" in table:
        kind = replace(kind, num_cpus=table["slots"])
    if storage is not None:
        tables.check_keys(f"[storage] of {name}", storage, _STORAGE)
    num_nodes = table["num_nodes"]
    if not isinstance(num_nodes, int) or num_nodes < 1:
        raise OptionsError(f"num_nodes is {num_nodes!r}; it must be a whole number from 1 on")
    times = {key: table[key] for key in _TIMES if key in table}
    beside = None if storage is None else ObjectStorage(**storage)
    return Cluster((kind,) * num_nodes, beside, **times)


def _bought(name: str, table: tables.Table, cluster: tables.Table) -> Bought:
    tables.check_keys(f"[prices] of {name}", table, _PRICES)
    if "list" not in table:
        raise OptionsError(f"[prices] of {name} has no list; name one, or leave [prices] out")
    prices = price_list(str(table["list"]))
    machines = table.get("machines", {str(cluster["machine"]): cluster["num_nodes"]})
    for kind in machines:
        prices.hour_of(kind)
    return Bought(prices, machines, table.get("volume_gigabytes", 0.0))
