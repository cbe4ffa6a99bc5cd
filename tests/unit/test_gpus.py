"""Which GPUs a task gets: whole ones alone, shares together."""

from __future__ import annotations

from exoshuffle.engines.local.tasks.gpus import Gpus


def test_whole_ones_are_given_once():
    gpus = Gpus(3)
    assert gpus.take(2) == (0, 1)
    assert gpus.take(1) == (2,)
    assert not gpus.fits(0.1)
    gpus.give_back(2, (0, 1))
    assert gpus.take(1) == (0,)


def test_shares_go_together_and_leave_others_whole():
    gpus = Gpus(2)
    assert [gpus.take(share) for share in (0.25, 0.5, 0.25)] == [(0,), (0,), (0,)]
    assert gpus.take(0.6) == (1,)
    # One GPU in all is free, but none is whole.
    gpus.give_back(0.5, (0,))
    assert gpus.fits(0.5)
    assert not gpus.fits(0.6)
    assert not gpus.fits(1)
    gpus.give_back(0.6, (1,))
    assert gpus.take(1) == (1,)


def test_a_third_three_times_is_one():
    gpus = Gpus(1)
    assert [gpus.take(1 / 3) for _ in range(3)] == [(0,)] * 3
    for _ in range(3):
        gpus.give_back(1 / 3, (0,))
    assert gpus.take(1) == (0,)


def test_whole_ones_and_a_share():
    gpus = Gpus(2.5)
    assert gpus.take(1.5) == (0, 2)
    assert gpus.take(1) == (1,)
    assert not gpus.fits(0.25)
    assert not Gpus(0).fits(0.5)
    assert Gpus(0).fits(0)
