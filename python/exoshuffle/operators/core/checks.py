"""Checks that what the reduces of a shuffle hand on is what its maps read: always on, for every operator on tables.

Every slice says which map wrote it, for which partition, how many rows it has and what their hashes sum up to
(``crates/kernels/src/sections.rs``). A reduce fails unless it has such a section of every map, each once and in the
order of the maps, and unless the rows that it hands on are as many and have the same sum. Rows are looked at when they
leave for Arrow, so this covers scattering, merges, spilling, sorting and gathering, and strategies and engines above
all; what is done to batches after that is up to who does it. Users' own functions in ``exoshuffle.shuffle`` are not
checked: nobody knows what their rows are.

Who reads only some of the slices of a partition cannot tell whether there are more. A stream of runs of slices goes on
where the one before ended (``opened``); tasks that read runs at the same time each say which maps it was (``maps_of``),
and that is held together afterwards (``check_all_read``); pieces that are results of their own are told which maps they
are of (``check_each``). Results are counted where they leave for the caller, if their rows have to be as many as were
read (``dataset.write.check_rows``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from exoshuffle import _native
from exoshuffle.errors import ShuffleCheckError


@contextlib.contextmanager
def placed(place: str) -> Iterator[None]:
    """Says in errors of checks where they were found, for example "the reduce of partition 3 of sort"."""
    try:
        yield
    except ShuffleCheckError as error:
        raise ShuffleCheckError(
            f"{place} {error}; the result would be wrong, so nothing is kept: run it again, and report this if it "
            "comes back"
        ) from error


@contextlib.contextmanager
def opened(
    slices: list[Any],
    partition: int,
    first: int | None = None,
    end: int | None = None,
    tag: int | None = None,
) -> Iterator[Any]:
    """The sections of slices (``_native.Sections``), all rows of which must be handed on within the block.

    Args:
        slices: Of one partition, in order.
        partition: Its number.
        first: Number of the first map that they have the output of; None if they are of some maps only, as when a
            partition is taken in pieces: then none may come twice, but which are missing cannot be told.
        end: Number of maps, or None if all that matters is that none is missing between.
        tag: The side of a join that is read; default: all that there is.

    Raises:
        ShuffleCheckError: Output of a map is missing, repeated or misplaced; or rows were not handed on as they came,
            also if an Arrow stream has made another error of that, or somebody caught it.

    Cost: looks at headers alone; rows are hashed where they are scattered and gathered, which is 11 % of the processor
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


def maps_of(slices: list[Any], partition: int) -> range:
    """The numbers of the maps that slices of one partition have the output of; empty if there is none.

    Raises:
        ShuffleCheckError: Output of a map is missing between, repeated or misplaced.

    Cost: looks at headers alone.
    """
    first = _native.Sections(slices, partition, None).first_map
    return range(first, first + len(_native.Sections(slices, partition, first, None)))


def check_each(slices: Sequence[Any], partition: int, maps: Sequence[range]) -> None:
    """Raises unless slices of one partition have the output of these maps each.

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
    """Raises unless runs of slices, of which each has the output of these maps, together have that of all, in order.

    Args:
        runs: What ``maps_of`` said, in the order of the runs.
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
