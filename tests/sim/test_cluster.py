"""Descriptions of machines and price lists: dated, with sources; and the bill of a published run."""

from __future__ import annotations

from pathlib import Path

import pytest

from exoshuffle.engines.sim.cluster.library import machine, machine_names, with_store
from exoshuffle.engines.sim.cluster.prices import Use, bill, price_list, price_list_names
from exoshuffle.errors import InputError, OptionsError

PRICES = 'date = 2022-11-10\ncurrency = "USD"\nthousand_reads = 0.0004\n[sources]\nthousand_reads = "a page"\n'
MACHINE = (
    "date = 2022-11-10\nnum_cpus = 2\nmemory_bytes = 10\n"
    '[sources]\nnum_cpus = "a page"\nmemory_bytes = "a page"\n'
)


def test_all_files_of_the_package_can_be_used():
    assert machine_names() == ["d3.2xlarge", "i3.2xlarge", "i4i.4xlarge", "i7i.4xlarge"]
    for name in machine_names():
        assert machine(name).disk is not None
    for name in price_list_names():
        assert price_list(name).currency == "USD"


def test_turning_disks_are_as_fast_together_as_published():
    disk = machine("d3.2xlarge").disk
    assert disk is not None
    assert disk.num_disks * disk.read_bytes_per_second == pytest.approx(1.1e9)
    assert disk.num_disks / disk.request_seconds == pytest.approx(18_000, rel=0.01)


def test_the_bill_of_the_cloudsort_record():
    """Luan, §4.2.3.2, from its inputs; it rounds each step to four decimals and says 96.6728."""
    seconds, reduce_seconds = 3508 + 1870, 1870
    use = Use(
        seconds,
        {"i4i.4xlarge": 40, "r6i.2xlarge": 1},
        volume_gigabytes=41 * 40,
        num_reads=6_000_000,
        num_writes=1_000_000,
        stored=((10**14, seconds), (10**14, reduce_seconds)),
    )
    costs = bill(price_list("us-west-2-2022-11"), use)
    assert costs["reads"] == pytest.approx(2.4)
    assert costs["writes"] == pytest.approx(5.0)
    assert costs["storage"] == pytest.approx(4.6045 + 1.6009, abs=0.001)
    assert sum(costs.values()) == pytest.approx(96.6713, abs=0.0001)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PRICES.replace("date = 2022-11-10\n", ""), r"mine\.toml has no date"),
        (PRICES.replace("2022-11-10", '"yesterday"'), r"mine\.toml has no date"),
        (PRICES.replace('currency = "USD"\n', ""), "has the currency None; write three letters"),
        (PRICES.replace('"USD"', '"dollars"'), "has the currency 'dollars'"),
        (PRICES.replace('[sources]\nthousand_reads = "a page"', ""), "where thousand_reads comes"),
        ("thousand_read = 1\n" + PRICES, "there is no key 'thousand_read'"),
    ],
)
def test_price_lists_that_say_too_little_are_refused(tmp_path: Path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(OptionsError, match=said):
        price_list(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MACHINE.replace("num_cpus = 2", "num_cpus = 0"), "num_cpus is 0"),
        (MACHINE.replace("memory_bytes = 10\n", ""), "lacks a figure.*memory_bytes"),
        (MACHINE + "[disk]\nread_bytes_per_second = 1\n", r"where disk\.read_bytes_per_second"),
        (MACHINE.replace('num_cpus = "a page"\n', ""), "where num_cpus comes from"),
    ],
)
def test_machines_that_cannot_work_are_refused(tmp_path: Path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(OptionsError, match=said):
        machine(str(path))


def test_names_and_files_that_there_are_not():
    with pytest.raises(OptionsError, match=r"there is no machine 'i4i'; .*'d3\.2xlarge'"):
        machine("i4i")
    with pytest.raises(InputError, match=r"none\.toml cannot be read"):
        price_list("none.toml")
    with pytest.raises(OptionsError, match=r"no price of a machine 'i3\.2xlarge'"):
        price_list("us-west-2-2022-11").hour_of("i3.2xlarge")


def test_the_store_may_have_a_share():
    kind = machine("i3.2xlarge")
    assert with_store(kind, 30).memory_bytes == kind.memory_bytes * 3 // 10
    with pytest.raises(OptionsError, match="store_percent is 0"):
        with_store(kind, 0)
