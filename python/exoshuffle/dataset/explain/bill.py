"""The bill: the predicted cost of a shuffle, for people and for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from exoshuffle.units import counted, format_bytes


class InputLines(TypedDict):
    """The lines of a bill about the input."""

    input_files: int
    input_bytes: int
    pruned_files: int
    skipped_groups: int
    skipped_rows: int
    given_rows: int
    given_bytes: int
    tells_rows: bool


@dataclass(frozen=True, kw_only=True)
class Bill:
    """The predicted cost of a shuffle; what is left out is that of work without one.

    Attributes:
        operator: The operation.
        strategy: The strategy.
        why: The reason for this strategy.
        compared: The predicted costs of this strategy and of others.
        input_files: Number of input files.
        input_bytes: Their size on disk.
        pruned_files: Files beside these that are not read because a filter on partition columns lets none of their rows
            through.
        skipped_groups: Row groups of Parquet that are not read: statistics or Bloom filters rule out all rows.
        skipped_rows: Rows that are not read because of statistics of row groups and pages, and of Bloom filters.
        moved_filters: Filters that come before operators which they were written behind, with each of these.
        filtered_side: The side of a join that may send fewer rows, by the keys of the other one; empty for none.
        given_rows: Rows of the input that come from no file: given by the program, or numbers of ``range``.
        given_bytes: Size of these in the store.
        tells_rows: Whether all files tell how many rows they have. CSV and JSON lines do not.
        rows: Rows, exact or estimated.
        row_bytes: Size of all rows while they travel.
        splits: Map tasks.
        merges: Merge tasks.
        folds: Fold tasks of a streaming shuffle.
        partitions: Reduce tasks.
        rounds: Rounds of maps.
        merge_factor: Blocks per merge; 1 means that nothing is merged.
        blocks: Blocks that maps, merges and folds make, and results that are kept for a later shuffle.
        slices: Slices that the reduces read; with streaming, the slices that folds read, and the states.
        requests: Reads from spill directories: spilled slices, and pieces of spilled blocks that are merged.
        memory_bytes: Projected peak of the whole program.
        program_bytes: The part of it for tasks and the references to their results, where the program runs.
        spilled_bytes: Bytes of blocks that go to spill directories.
        spill_codec: How they are compressed on the way: they take less room then; None: not at all.
        read_back_bytes: Bytes read back from spill directories.
        spill_free_bytes: Free space in spill directories; None if it cannot be told.
        runs_on: Lines on the place where tasks run and on its memory, where the engine tells them.
        before: Bills of the shuffles that come before.
        output_files: Files, one for each partition: fewer where partitions are empty, more with a target size.
        output_folders: About the number of folders that ``partition_by`` makes, at the least.
        output_bytes: Size of the output: that of the input, before compression, where its rows come out as they are.
            Else it is an estimate by the size of rows.
        output_free_bytes: Free space where the output goes; None if that is not known.
        output_is_most: Whether the output may well be smaller, by compression or by dictionaries of values that repeat.
        shares_disk: Whether spilled bytes and the output go to one file system.
        seeds: Seeds of all random operations, given or fresh; see ``Dataset.seeds``.
    """

    operator: str
    strategy: str
    why: str
    compared: tuple[str, ...] = ()
    input_files: int
    input_bytes: int
    rows: int
    row_bytes: int
    splits: int
    merges: int = 0
    partitions: int = 0
    rounds: int = 1
    merge_factor: int = 1
    blocks: int = 0
    slices: int = 0
    requests: int = 0
    memory_bytes: int
    spilled_bytes: int = 0
    read_back_bytes: int = 0
    spill_free_bytes: int | None
    program_bytes: int = 0
    folds: int = 0
    pruned_files: int = 0
    skipped_groups: int = 0
    skipped_rows: int = 0
    moved_filters: tuple[str, ...] = ()
    filtered_side: str = ""
    given_rows: int = 0
    given_bytes: int = 0
    tells_rows: bool = True
    runs_on: tuple[str, ...] = ()
    before: tuple[Bill, ...] = ()
    output_files: int = 0
    output_folders: int = 0
    output_bytes: int = 0
    output_free_bytes: int | None = None
    output_is_most: bool = False
    shares_disk: bool = False
    seeds: tuple[int, ...] = ()
    spill_codec: str | None = None

    @property
    def tasks(self) -> int:
        """The number of maps, merges, folds and reduces."""
        return self.splits + self.merges + self.folds + self.partitions

    @property
    def fits_on_disk(self) -> bool:
        """Whether spilled bytes and the output have room: together, if they go to one disk."""
        return self._spill_fits and self._output_fits

    @property
    def _spill_fits(self) -> bool:
        return _fits(self.spilled_bytes, self.spill_free_bytes)

    @property
    def _output_fits(self) -> bool:
        beside = self.spilled_bytes if self.shares_disk else 0
        return _fits(self.output_bytes + beside, self.output_free_bytes)

    def to_dict(self) -> dict[str, object]:
        """Returns the bill as a dictionary, for JSON."""
        return dataclasses.asdict(self) | {"tasks": self.tasks, "fits_on_disk": self.fits_on_disk}

    def __repr__(self) -> str:
        # A notebook and a prompt show the last value of a cell so.
        return str(self)

    def __str__(self) -> str:
        rows = ("" if self.tells_rows else "about ") + counted(self.rows, "row")
        read = f"{counted(self.input_files, 'file')}, {format_bytes(self.input_bytes)}, {rows}"
        if self.given_rows or not self.input_files:
            given = f"{counted(self.given_rows, 'row')} made as they are read"
            if self.given_bytes:
                given = f"{counted(self.given_rows, 'row')} in the store, {format_bytes(self.given_bytes)}"
            read = f"{read}; {given}" if self.input_files else given
        if self.pruned_files:
            read += f"; {counted(self.pruned_files, 'file')} pruned by filters on partition columns"
        if self.skipped_rows:
            groups = counted(self.skipped_groups, "row group")
            read += f"; {counted(self.skipped_rows, 'row')} skipped by statistics and Bloom filters, {groups} whole"
        kinds = {
            "map": self.splits,
            "merge": self.merges,
            "fold": self.folds,
            "reduce": self.partitions,
        }
        tasks = ", ".join(
            counted(number, kind) for kind, number in kinds.items() if number or kind != "fold"
        )
        read_back = f"{format_bytes(self.read_back_bytes)} in {counted(self.requests, 'request')}"
        at_most, misfit = (
            ("at most ", "may not fit") if self.output_is_most else ("", "does not fit")
        )
        spill_misfit = "" if self._spill_fits else "does not fit"
        output_misfit = "" if self._output_fits else misfit
        spill = _needed_of(self.spilled_bytes, self.spill_free_bytes, spill_misfit)
        if self.spilled_bytes and self.spill_codec:
            spill = f"at most {spill}, compressed by {self.spill_codec}"
        output = _needed_of(self.output_bytes, self.output_free_bytes, output_misfit)
        files = f"{self.output_files:,}"
        if self.output_folders:
            folders = counted(self.output_folders, "folder")
            files = f"about {files}, in about {folders} (an estimate from a sample of rows)"
        lines = [
            ("operator", self.operator),
            ("input", read),
            *(("moved filter", found) for found in self.moved_filters),
            *[("filtered side", self.filtered_side)] * bool(self.filtered_side),
            ("rows in flight", format_bytes(self.row_bytes)),
            ("strategy", f"{self.strategy}: {self.why}"),
            *(("", found) for found in self.compared),
            ("tasks", f"{self.tasks:,}: {tasks}"),
            ("splits (maps)", f"{self.splits:,}"),
            ("partitions (reduces)", f"{self.partitions:,}"),
            ("rounds", f"{self.rounds:,}"),
            ("merge factor", f"{self.merge_factor:,}"),
            ("blocks", f"{self.blocks:,}"),
            ("slices to read", f"{self.slices:,}"),
            *_first_named("runs on", self.runs_on),
            ("peak memory", f"{format_bytes(self.memory_bytes)} for the whole program"),
            *[("tasks in memory", format_bytes(self.program_bytes))] * bool(self.program_bytes),
            ("spill disk", spill),
            ("read back", read_back),
            ("output files", files),
            ("output disk", at_most + output),
            *[("seed", ", ".join(map(str, self.seeds)))] * bool(self.seeds),
        ]
        bill = "\n".join(f"{name:<22}{value}" for name, value in lines)
        return "\n\n".join([*map(str, self.before), bill])


def _fits(needed_bytes: int, free_bytes: int | None) -> bool:
    return free_bytes is None or needed_bytes <= free_bytes


def _needed_of(needed_bytes: int, free_bytes: int | None, misfit: str) -> str:
    if free_bytes is None:
        return format_bytes(needed_bytes)
    free = f"{format_bytes(needed_bytes)} of {format_bytes(free_bytes)} free"
    return f"{free}  <- {misfit}" if misfit else free


def _first_named(name: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    return [(name if index == 0 else "", line) for index, line in enumerate(lines)]
