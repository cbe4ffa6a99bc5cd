"""The program that holds virtual time against published figures: its cheap part, and what it says of errors."""

from __future__ import annotations

import pytest

from benchmarks import published
from exoshuffle.strategies import Simple


def test_riffles_reducers_read_as_often_as_published() -> None:
    assert published.riffle_reads(Simple()) == 8_000
    assert published.riffle_reads(published.COMPLETE) == 200


def test_a_rung_of_the_ladder() -> None:
    report = published.simulate(published.cloudsort(10, 2))
    assert report.seconds == pytest.approx(402, rel=0.07)
    assert report.num_bytes["read from storage"] == 2 * published.TB


def test_flash_disks() -> None:
    rows = [
        (published.sort("i3.2xlarge", "push*", 500).seconds, 596),
        (published.sort("i3.2xlarge", "push", 500).seconds, 602),
    ]
    assert all(found == pytest.approx(measured, rel=0.05) for found, measured in rows)


def test_errors_leave_out_what_was_fitted() -> None:
    rows = [
        published.Row("a", 100, 110),
        published.Row("b", 200, 100),
        published.Row("c", 300, 900, is_fitted=True),
    ]
    told = published.summary(rows)
    assert "median error 30.0 %, largest 50.0 %" in told
    assert "of 1 pairs that differ by more than 15 %, 1 in the wrong order" in told
    assert str(rows[2]).endswith("+200.0 %  fitted")
