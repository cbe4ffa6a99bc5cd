"""Options of strategies: sizes may be text, and what is of a wrong type is refused by name, when it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from exoshuffle.errors import OptionsError
from exoshuffle.strategies import (
    BestEffort,
    FixedBlockSize,
    FixedFiles,
    MergeOptions,
    PreShuffleMerge,
    Push,
    Resources,
    ShufflePlan,
    Simple,
    Speculation,
    Streaming,
    Workload,
    plan_shuffle,
)


def planned(strategy: Any = "simple", num_partitions: Any = None) -> ShufflePlan:
    return plan_shuffle(Workload(10**6, 10), Resources(10**9, 1), strategy, num_partitions)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "a size of merges": (lambda: Push(merge_bytes="lots"), "merge_bytes is 'lots'; .* least 1 byt"),
    "a list of merges": (lambda: Push(merge_bytes=[1]), r"merge_bytes is \[1\]; it must be a size"),
    "a flag as a size": (lambda: Push(merge_bytes=True), "merge_bytes is True; it must be a size"),
    "merges of no size": (lambda: Push(merge_bytes="0MB"), "merge_bytes is '0MB'; it must be a s"),
    "a word as a flag": (
        lambda: Push("yes"),  # type: ignore[arg-type]
        "keep_map_outputs is 'yes'; write True or False",
    ),
    "a word as a flag of rounds": (
        lambda: Streaming(keep_map_outputs="no"),  # type: ignore[arg-type]
        "keep_map_outputs is 'no'; write True or False",
    ),
    "a flag as speculation": (
        lambda: Push(speculation=True),  # type: ignore[arg-type]
        r"speculation is True; give a Speculation, such as Speculation\(\)",
    ),
    "a class as best effort": (
        lambda: Push(True, best_effort=BestEffort),  # type: ignore[arg-type]
        r"best_effort is <class .*; give a BestEffort, such as BestEffort\(\)",
    ),
    "a word of files": (
        lambda: FixedFiles("a"),  # type: ignore[arg-type]
        "num_files is 'a'; a merge takes a whole number of them, at least 2",
    ),
    "no files": (lambda: FixedFiles(None), "num_files is None; a merge"),  # type: ignore[arg-type]
    "half a file": (lambda: FixedFiles(2.5), "num_files is 2.5; a merge"),  # type: ignore[arg-type]
    "slices of no size": (lambda: FixedBlockSize(None), "slice_bytes is None; it must be a size"),  # type: ignore[arg-type]
    "a flag of slices": (lambda: FixedBlockSize(True), "slice_bytes is True; it must be a size"),
    "a word of percent": (
        lambda: BestEffort("a"),  # type: ignore[arg-type]
        "percent is 'a'; choose between 0 and 100, a whole number",
    ),
    "a flag of percent": (lambda: BestEffort(True), "percent is True; choose"),
    "half a percent": (lambda: BestEffort(0.5), "percent is 0.5; choose"),  # type: ignore[arg-type]
    "a word of seconds": (
        lambda: BestEffort(50, "a"),  # type: ignore[arg-type]
        "timeout_seconds is 'a'; it must be a number from 0 on",
    ),
    "a flag of seconds": (lambda: BestEffort(50, True), "timeout_seconds is True; it must be"),
    "a number as policy": (
        lambda: MergeOptions(3),  # type: ignore[arg-type]
        r"policy is 3; give a policy, such as FixedFiles\(20\) or FixedBlockSize\('1MB'\)",
    ),
    "a class as policy": (
        lambda: MergeOptions(FixedFiles),  # type: ignore[arg-type]
        "policy is <class .*; give a policy, such as",
    ),
    "a word of percent of merges": (
        lambda: MergeOptions(percent="a"),  # type: ignore[arg-type]
        "percent is 'a'; choose",
    ),
    "no memory": (lambda: MergeOptions(memory_bytes=[]), r"memory_bytes is \[\]; .* size of at l"),  # type: ignore[arg-type]
    "a number as clock": (
        lambda: MergeOptions(clock=3),  # type: ignore[arg-type]
        "clock is 3; it must be a function",
    ),
    "a policy as options": (
        lambda: PreShuffleMerge(FixedFiles(2)),  # type: ignore[arg-type]
        r"options is FixedFiles\(num_files=2\); give a MergeOptions, such as MergeOptions\(\)",
    ),
    "speculation of a pre-shuffle merge": (
        lambda: PreShuffleMerge(speculation=3),  # type: ignore[arg-type]
        "speculation is 3; give a Speculation",
    ),
    "a class of speculation": (
        lambda: Simple(Speculation),  # type: ignore[arg-type]
        "speculation is <class .*; give a Speculation",
    ),
    "a word of the median": (
        lambda: Speculation("a"),  # type: ignore[arg-type]
        "multiple is 'a'; it must be a number from 1 on",
    ),
    "a flag of the median": (lambda: Speculation(True), "multiple is True; it must be a number"),
    "a word of the tasks": (
        lambda: Speculation(1.5, "a"),  # type: ignore[arg-type]
        "fraction is 'a'; it must be above 0 and at most 1",
    ),
    "a flag of the tasks": (lambda: Speculation(1.5, True), "fraction is True; it must be above"),
    "a word of a duration": (
        lambda: Speculation(min_seconds="a"),  # type: ignore[arg-type]
        "min_seconds is 'a'; it must be a number from 0 on",
    ),
    "a number of speculation's clock": (
        lambda: Speculation(clock=3),  # type: ignore[arg-type]
        "clock is 3; it must be a function",
    ),
    "a number to be called": (
        lambda: Streaming(3),  # type: ignore[arg-type]
        "on_round is 3; it must be a function",
    ),
    "a word of a round": (
        lambda: Streaming(round_size="a"),  # type: ignore[arg-type]
        "round_size is 'a'; it must be a whole number, at least 1",
    ),
    "a flag of a round": (lambda: Streaming(round_size=True), "round_size is True; it must be a"),
    "half a round": (
        lambda: Streaming(round_size=1.5),  # type: ignore[arg-type]
        "round_size is 1.5; it must be a",
    ),
    "speculation of a stream": (
        lambda: Streaming(speculation=1),  # type: ignore[arg-type]
        "speculation is 1; give a Speculation",
    ),
    "a plan by no strategy": (
        lambda: planned("x"),
        "unknown strategy 'x'; known are auto, simple, push, pre_shuffle_merge, streaming$",
    ),
    "a plan of a flag": (lambda: planned(num_partitions=True), "num_partitions is True; it must"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types_are_refused_by_name(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(OptionsError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_sizes_as_text() -> None:
    assert Push(merge_bytes="1MB").merge_bytes == 1_000_000
    assert MergeOptions(memory_bytes="0").memory_limit_bytes == 0
    assert MergeOptions(memory_bytes="2 GiB").memory_limit_bytes == 2 * 2**30
    plan = planned(num_partitions=3)
    for policy in (FixedBlockSize("1kB"), FixedBlockSize(1000)):
        assert not policy.is_full([2000, 1000], plan)
        assert policy.is_full([2000, 1001], plan)
        assert policy.is_large(3001, plan)
        assert not policy.is_large(3000, plan)
