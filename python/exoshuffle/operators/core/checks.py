"""Checks that the reduces of a shuffle hand on what its maps read: always on, for every operator on tables.

Every slice says which map wrote it, for which partition, how many rows it has and the sum of their hashes
(``crates/kernels/src/slices/sections.rs``). A reduce fails unless it has such a section of every map, each once and in
the order of the maps. It also fails unless the rows that it hands on are as many and have the same sum. Rows are looked
at when they leave for Arrow. So this covers scattering, merges, spilling, sorting and gathering, and above all
strategies and engines. It does not cover what is done to batches after that. Users' own functions in
``exoshuffle.shuffle`` are not checked either: nothing is known of their rows.

A reader of some of the slices of a partition cannot tell whether there are more. A stream of runs of slices goes on
where the run before ended (``opened``). Tasks that read runs at the same time each return which maps these were
(``maps_of``), and ``check_all_read`` compares that afterwards. Pieces that are results of their own are told which maps
they are of (``check_each``). If the result must have as many rows as were read, they are counted where they leave for
the caller (``dataset.write.write.check_rows``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.errors import ShuffleCheckError

if TYPE_CHECKING:
    from typing_extensions import Buffer


@contextlib.contextmanager
def placed(place: str) -> Iterator[None]:
    """Adds to the errors of checks where they were found, for example "the reduce of partition 3 of sort"."""
    try:
        yield
    except ShuffleCheckError as error:
        raise ShuffleCheckError(
            f"{place} {error}; the result would be wrong, so nothing is kept: run it again, and report this if it "
            "comes back"
        ) from error


@contextlib.contextmanager
def opened(
    slices: list[Buffer],
    partition: int,
    first: int | None = None,
    end: int | None = None,
    tag: int | None = None,
) -> Iterator[_native.Sections]:
    """Opens slices as sections (``_native.Sections``), all rows of which must be handed on within the block.

    Args:
        slices: Those of one partition, in order.
        partition: Its number.
        first: Number of the first map whose output they have. None if they are of some maps only, such as when a
            partition is taken in pieces. Then none may come twice, but missing ones cannot be told.
        end: Number of maps, or None if none may be missing between but the last ones may.
        tag: The side of a join that is read; default: both.

    Raises:
        ShuffleCheckError: Output of a map is missing, repeated or misplaced. Or rows were not handed on as they came,
            also if an Arrow stream has made another error of this, or somebody caught it.

    Cost: looks at headers alone. Rows are hashed where they are scattered and gathered. That is 11 % of the processor
    time of a random shuffle of 4 GB within 2 GB (``benchmarks/checks.py``, three pairs).
    """
    sections = _native.Sections(slices, partition, first, end)
    try:
        yield sections
    except Exception as error:
        if sections.failure is None:
            raise
        raise ShuffleCheckError(sections.failure) from error
    sections.check(tag)


def maps_of(slices: list[Buffer], partition: int) -> range:
    """Returns the numbers of the maps whose output these slices of one partition have; empty if there is none.

    Raises:
        ShuffleCheckError: Output of a map is missing between, repeated or misplaced.

    Cost: looks at headers alone.
    """
    first = _native.Sections(slices, partition, None).first_map
    return range(first, first + len(_native.Sections(slices, partition, first, None)))


def check_each(slices: Sequence[Buffer], partition: int, maps: Sequence[range]) -> None:
    """Raises unless each slice of one partition has the output of its maps.

    Raises:
        ShuffleCheckError: Output of a map is missing, repeated or misplaced.

    Cost: looks at headers alone.
    """
    if len(slices) != len(maps):
        raise ShuffleCheckError(f"got {len(slices)} slices where {len(maps)} belong")
    for one, expected in zip(slices, maps, strict=True):
        found = maps_of([one], partition)
        if found != expected:
            raise ShuffleCheckError(f"got {_output(found)} where {_output(expected)} belongs")


def _output(maps: range) -> str:
    if not maps:
        return "nothing"
    if len(maps) == 1:
        return f"the output of map {maps[0]}"
    return f"the output of maps {maps[0]} to {maps[-1]}"


def check_all_read(runs: Iterable[range], num_maps: int) -> None:
    """Raises unless runs of slices together have the output of all maps, in order.

    Args:
        runs: The maps of each run as ``maps_of`` returned them, in the order of the runs.
        num_maps: Number of maps.

    Raises:
        ShuffleCheckError: Output of a map is missing, repeated or misplaced.
    """
    end = 0
    read: set[int] = set()
    for maps in runs:
        repeated = read.intersection(maps)
        if repeated:
            raise ShuffleCheckError(f"got the output of map {min(repeated)} twice")
        if maps and maps.start < end:
            raise ShuffleCheckError(
                f"got the output of map {maps.start} behind that of map {end - 1}, though maps go in order"
            )
        read.update(maps)
        end = maps.stop if maps else end
    missing = sorted(set(range(num_maps)) - read)
    if missing:
        which = f"map {missing[0]}"
        if len(missing) > 1:
            which = f"{len(missing)} maps, the first of them {which}"
        raise ShuffleCheckError(f"did not get the output of {which}")
    if end > num_maps:
        raise ShuffleCheckError(
            f"got the output of map {end - 1}, and there are only the maps 0 to {num_maps - 1}"
        )
