"""One case of the fuzz program: a seed is a table, files of it, an operation, a memory limit and a way out.

The parent process writes the files and asks DuckDB. A child of its own runs the engine, so that only the engine is
measured. Both draw the same case from the seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import exoshuffle as xs
from tests.fuzz import forms, functions, near, operations, oracle, relations, sinks, tables
from tests.fuzz.files import FORMATS, LATER_FORMATS, Format
from tests.fuzz.operations import LATER_STRATEGIES, STRATEGIES, Draw, Operation
from tests.fuzz.sinks import Sink

#: Memory limits, and how often.
LIMITS = {None: 3, "200MB": 1, "300MB": 3, "400MB": 2, "512MB": 2, "1GB": 1, "8GB": 1}
#: Numbers of rows, and how often.
ROWS = {0: 3, 1: 5, 20: 22, 300: 40, 5000: 24, 40_000: 4, 300_000: 0.5, 2_000_000: 0.15}
#: Files, and how often; 40 of them are a case for small files.
FILES = {1: 8, 2: 5, 5: 3, 40: 0.5}
#: One of so many cases runs on Ray, one on the command line if there is a command, one reads folders ``key=value``.
RAY_CASES, COMMAND_CASES, HIVE_CASES = 100, 5, 12
_Operations = dict[Callable[[Draw], Operation], float]
_OPERATIONS: _Operations = {
    operations.sort: 5,
    operations.top: 2,
    operations.limit: 1,
    operations.scan: 2,
    operations.moved: 5,
    operations.sample: 2,
    operations.union: 2,
    functions.computed: 3,
    functions.filtered: 2,
    functions.renamed: 1,
    functions.mapped: 0.7,
    relations.grouped: 6,
    relations.distinct: 3,
    relations.mapped_groups: 0.7,
    relations.join: 5,
}
#: Operations behind another. Window functions are only here, so that most seeds still draw what they drew before.
_FOLLOWING = _OPERATIONS | {relations.windows: 8}
#: Seeds from here on draw from all that there is; those before draw what they drew before.
LATER = 5_000_000
_LATER_OPERATIONS = _FOLLOWING | {near.joined_near: 8}
#: From here on there are operations that give tables another form.
FORMED = 20_000_000
_FORMED_OPERATIONS = _LATER_OPERATIONS | {
    forms.filled: 3,
    forms.dropped: 3,
    forms.cast: 3,
    forms.exploded: 4,
    forms.unpivoted: 3,
    forms.pivoted: 4,
    forms.counted: 1,
    forms.paired: 3,
}


@dataclass(frozen=True)
class Case:
    """The case that a seed stands for."""

    seed: int
    format: Format
    columns: dict[str, str]
    num_rows: int
    num_files: int
    is_hive: bool
    operation: Operation
    memory_limit: str | None
    sink: Sink
    num_cpus: int
    engine: str
    is_command: bool

    @classmethod
    def draw(cls, seed: int) -> Case:
        """Draws the case of a seed."""
        rng = random.Random(seed)
        num_rows = _weighted(rng, ROWS)
        forms = LATER_FORMATS if seed >= LATER else FORMATS
        form = rng.choice([each for each in forms if each.min_rows <= num_rows <= each.max_rows])
        columns = tables.draw_columns(rng, list(form.kinds), num_rows)
        is_late = seed >= LATER
        strategies = LATER_STRATEGIES if is_late else STRATEGIES
        draw = Draw(rng, columns, num_rows, form.has_folders, strategies)
        operation = _operation(draw, *_drawn_from(seed))
        is_hive = bool(columns) and num_rows > 0 and rng.random() < 1 / HIVE_CASES
        is_hive &= form.has_folders
        is_command = rng.random() < 1 / COMMAND_CASES and operation.command != ()
        is_command &= not form.is_text and not is_hive
        return cls(
            seed,
            form,
            columns,
            num_rows,
            _weighted(rng, FILES),
            is_hive,
            operation,
            _weighted(rng, LIMITS),
            sinks.draw(rng, columns, operation, is_command=is_command),
            rng.choice([1, 2, 3]),
            "ray" if not is_command and rng.random() < 1 / RAY_CASES else "local",
            is_command,
        )

    def __str__(self) -> str:
        """Describes the whole case in a line."""
        columns = dict(itertools.islice(self.columns.items(), 9))
        more = f" and {len(self.columns) - 9} more" if len(self.columns) > 9 else ""
        return (
            f"seed {self.seed}: {self.num_rows} rows in {self.num_files} {self.format.name} files"
            f"{' in folders' if self.is_hive else ''} of {columns}{more}; {self.operation.name}; "
            f"to {self.sink} within {self.memory_limit}, {self.num_cpus} CPUs, {self.engine}"
            f"{', command line' if self.is_command else ''}"
        )

    def write(self, folder: Path) -> pa.Table:
        """Writes the files, and returns their content in the order in which they are read."""
        table = tables.make_table(random.Random(f"{self.seed} rows"), self.columns, self.num_rows)
        table = self.format.adapted(table, self._options())
        folder.mkdir()
        parts = []
        for place, part in self._parts(table, folder):
            place.parent.mkdir(exist_ok=True)
            self.format.write(part, place, self._options())
            parts.append((place, part))
        parts.sort(key=lambda part: str(part[0]))
        places, cut = [place for place, _ in parts], [part for _, part in parts]
        try:
            return self._as_read(places, list(map(self._read_back, places, cut)))
        except (OSError, pa.ArrowException):
            # pyarrow does not read some files of Polars ("InitBlock EOF") and DuckDB ("Length spanned by list …").
            return self._as_read(places, cut)

    def dataset(self, folder: Path) -> xs.Dataset:
        """Returns the dataset that asks the engine for the result."""
        schema = self.format.adapted(
            tables.make_table(random.Random(0), self.columns, 0), self._options()
        ).schema
        hive: Any = True
        if self.is_hive:
            schema = schema.remove(schema.get_field_index("few"))
            hive = {"few": "int64"}
        rows = self.format.read(folder, schema, self._options(), hive)
        return self.operation.run(rows, rows)

    def command(self, folder: Path, output: str) -> list[str]:
        """Returns the arguments of the command line that does the same."""
        name, *rest = self.operation.command
        rest = [*rest, "--json"]
        limit = () if self.memory_limit is None else ("--memory-limit", self.memory_limit)
        spilled = ("--spill-dir", str(folder), "--num-cpus", str(self.num_cpus))
        return [name, str(folder / "in"), output, *rest, *limit, *spilled, *self.sink.options]

    def _options(self) -> random.Random:
        return random.Random(f"{self.seed} options")

    def _parts(self, table: pa.Table, folder: Path) -> Iterator[tuple[Path, pa.Table]]:
        """Yields the files, by their paths without ending, with their rows."""
        if self.is_hive:
            rest, few = table.drop_columns(["few"]), table["few"].to_pylist()
            for value in set(few):
                rows = [row for row, each in enumerate(few) if each == value]
                yield folder / sinks.folder_of(value) / "000", oracle.taken(rest, rows)
            return
        cuts = [number * self.num_rows // self.num_files for number in range(self.num_files + 1)]
        for number, (start, end) in enumerate(itertools.pairwise(cuts)):
            yield folder / f"{number:03}", table.slice(start, end - start)

    def _as_read(self, places: list[Path], found: list[pa.Table]) -> pa.Table:
        if self.is_hive:
            names = [place.parent.name for place in places]
            found = list(map(sinks.with_folder, found, names))
        return pa.concat_tables(found)

    def _read_back(self, place: Path, part: pa.Table) -> pa.Table:
        """Returns the content of a file as pyarrow reads it: some types become others on the way."""
        if self.format.is_text:
            return part
        names = (place.name, f"part-{place.name}")
        (path,) = (each for each in place.parent.iterdir() if each.name.startswith(names))
        if path.suffix == ".parquet":
            return pq.ParquetFile(path).read()
        try:
            return pa.ipc.open_file(str(path)).read_all()
        except pa.ArrowInvalid:
            return pa.ipc.open_stream(path.read_bytes()).read_all()


def _weighted(rng: random.Random, choices: dict[Any, float]) -> Any:
    return rng.choices(list(choices), list(choices.values()))[0]


def _drawn_from(seed: int) -> tuple[_Operations, _Operations]:
    """Returns what the first operation of a seed is drawn from, and one behind it."""
    if seed >= FORMED:
        return _FORMED_OPERATIONS, _FORMED_OPERATIONS
    return (_LATER_OPERATIONS, _LATER_OPERATIONS) if seed >= LATER else (_OPERATIONS, _FOLLOWING)


def _operation(draw: Draw, operations: _Operations, following: _Operations) -> Operation:
    """Draws one operation, or two of which the first keeps the columns."""
    first: Operation = _weighted(draw.rng, operations)(draw)
    if not first.is_kept or draw.rng.random() < 0.7:
        return first
    return first.then(_weighted(draw.rng, following)(replace(draw, is_read=False)))
