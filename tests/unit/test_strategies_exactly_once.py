"""Whatever comes late, twice, cancelled, lost or not at all, every row arrives once, in the order of the maps.

``SteppedEngine`` runs nothing at the same time: tasks end in the order of a clock of its own. This goes on only while
the program waits. A seed decides how long each takes, where it runs, whether it fails, whether it can be cancelled and
whether its result is lost. The seed is printed when a test fails.
"""

from __future__ import annotations

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from exoshuffle.futures import TaskOptions
from exoshuffle.strategies import (
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Simple,
    Speculation,
    Strategy,
    Streaming,
)
from exoshuffle.testing import assert_every_row_arrives
from tests.unit.stepped import NEVER, Call, Script, SteppedEngine, stepped


def troubled(seed: int, num_nodes: int) -> Script:
    """Much goes wrong: merges are late, fail, are lost or cannot be cancelled; maps are slow or stray."""
    seeded = random.Random(seed)
    often, seldom = seeded.random(), seeded.random() / 4

    def decide(what: str, call: Call) -> random.Random:
        return random.Random(f"{seed} {what} {call}")

    def seconds(call: Call) -> float:
        draw = decide("seconds", call)
        if call.name == "merge" and draw.random() < seldom:
            return draw.choice([50.0, 500.0, NEVER])
        if call.name == "map" and draw.random() < seldom:
            return 100.0
        return draw.uniform(0.1, 3)

    def node(options: TaskOptions) -> str:
        stray = seeded.random() < seldom or options.node is None
        return f"node{seeded.randrange(num_nodes)}" if stray else str(options.node)

    return Script(
        seconds,
        fails=lambda call: call.name == "merge" and decide("fails", call).random() < seldom,
        is_lost=lambda call: call.name == "merge" and decide("lost", call).random() < seldom,
        node=node,
        can_cancel=lambda call: decide("cancel", call).random() < often,
    )


def strategies(engine: SteppedEngine, draw: random.Random) -> list[Strategy]:
    """Each strategy and mechanism, with options as they come; none that may wait for what never comes."""
    speculation = draw.choice(
        [
            None,
            Speculation(draw.uniform(1, 3), draw.choice([0.1, 0.5, 0.75]), 0.5, engine.clock),
        ]
    )
    options = MergeOptions(
        draw.choice([FixedFiles(draw.randint(2, 6)), FixedBlockSize(draw.randint(20, 400))]),
        percent=draw.choice([0, 50, 95, 100]),
        timeout_seconds=draw.choice([0, 1, 20]),
        memory_bytes=draw.choice([None, 0, 5_000, 100_000_000]),
        clock=engine.clock,
    )
    return [
        PreShuffleMerge(options, speculation),
        Simple(speculation),
        Streaming(round_size=3, speculation=speculation),
        Push(True, draw.choice([None, 200, 2_000]), speculation, options.effort),
    ]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 3),
    num_splits=st.integers(0, 30),
    num_partitions=st.integers(1, 4),
)
def test_every_row_arrives_once_and_in_order(
    seed: int, num_nodes: int, num_splits: int, num_partitions: int
) -> None:
    for number in range(4):
        with stepped(troubled(seed, num_nodes), num_nodes) as engine:
            strategy = strategies(engine, random.Random(seed))[number]
            assert_every_row_arrives(strategy, num_splits, num_partitions)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), num_splits=st.integers(0, 20), limit=st.integers(1, 2_000))
def test_pushing_with_limits_and_copies_keeps_every_row(
    seed: int, num_splits: int, limit: int
) -> None:
    trouble = troubled(seed, 1)
    # Pushing awaits its merges: these may be late, but have to come.
    script = dataclasses.replace(
        trouble, fails=lambda _: False, seconds=lambda call: min(trouble.seconds(call), 500.0)
    )
    with stepped(script) as engine:
        speculation = Speculation(1, 0.1, 0.5, engine.clock)
        for keep in (False, True):
            assert_every_row_arrives(Push(keep, limit, speculation), num_splits, 3)
