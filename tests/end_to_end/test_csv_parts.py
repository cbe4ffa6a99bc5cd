"""CSV with comments, empty lines and rows that cannot be read, in all dialects, is read right in parts of any size.

Files are made of lines of which it is known what they are; so what is read needs no other reader to be compared with.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exoshuffle import _native
from exoshuffle.dataset.read import read_csv
from exoshuffle.errors import InputError
from exoshuffle.operators.core.readers import FileReader

pytestmark = pytest.mark.usefixtures("engine")

#: Sizes of the parts that files are read in.
PART_BYTES = (1, 7, 33, 1 << 30)

Row = tuple[str | None, ...]


@dataclass
class Made:
    """A file, the rows that are in it, and the lines of those that cannot be read, from 0."""

    rng: random.Random
    options: dict[str, Any]
    num_columns: int
    text: str = ""
    rows: list[Row] = field(default_factory=list)
    bad_lines: list[int] = field(default_factory=list)
    num_lines: int = 0

    def add(self, line: str) -> None:
        """Adds text, which may hold line ends, and a line end."""
        ends = ["\n", "\r\n", "\r"]
        # Behind CR, LF would be the second half of its line end.
        end = "\r" if self.text.endswith("\r") and not line else self.rng.choice(ends)
        self.num_lines += line.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
        self.text += line + end

    def value(self) -> tuple[str | None, str]:
        """A value and how it is written."""
        rng, options = self.rng, self.options
        quote, escape = options["quote"], options.get("escape")
        alphabet = "ab #é" + (f"\r\n{options['delimiter']}{quote}{escape or ''}" if quote else "")
        text = "".join(rng.choice(alphabet) for _ in range(rng.choice([0, 1, 1, 3, 6])))
        text = rng.choice([text, text, "NA"])
        special = "\r\n" + options["delimiter"] + (quote or "")
        is_plain = not any(character in special for character in text) and not text.startswith("#")
        if not quote or (is_plain and rng.random() < 0.6):
            written = text.lstrip("#") if not is_plain else text
            return self.read_as(written, quoted=False), written
        double = escape or quote
        inside = text.replace(escape, escape * 2) if escape else text
        inside = inside.replace(quote, double + quote)
        return self.read_as(text, quoted=True), quote + inside + quote

    def read_as(self, text: str, *, quoted: bool) -> str | None:
        is_null = text in self.options.get("null_values", ())
        is_nothing = not text and (not quoted or self.num_columns == 1)
        return None if is_null or is_nothing else text

    def add_row(self) -> None:
        """A row, the first of whose values is a number if there are others."""
        values = [self.value() for _ in range(self.num_columns)]
        if self.num_columns > 1:
            number = str(self.rng.randrange(100))
            values[0] = (number, number)
        line = self.options["delimiter"].join(written for _, written in values)
        if line or self.num_columns == 1:
            self.rows.append(tuple(value for value, _ in values))
        self.add(line)

    def add_bad_row(self) -> None:
        """A line that is no row: of too many values, with a number that is none, or with a quote that is wrong."""
        delimiter, quote = self.options["delimiter"], self.options["quote"]
        kinds = [delimiter.join("1" * (self.num_columns + 1))]
        if self.num_columns > 1:
            kinds += ["x" + delimiter * (self.num_columns - 1), "1"]
        if quote:
            kinds += [f"{quote}x{quote}y", f"{quote}{quote} "]
        self.bad_lines.append(self.num_lines)
        self.add(self.rng.choice(kinds))


def made(rng: random.Random) -> Made:
    quote = rng.choice(['"', '"', "'", None])
    options: dict[str, Any] = {"delimiter": rng.choice(",;\t"), "quote": quote}
    if quote and rng.random() < 0.3:
        options["escape"] = "\\"
    options |= {"comment": "#"} if rng.random() < 0.5 else {}
    options |= {"null_values": ["NA"]} if rng.random() < 0.4 else {}
    options |= {"encoding": "latin-1"} if rng.random() < 0.3 else {}
    options |= {"bad_rows": "skip"} if rng.random() < 0.6 else {}
    file = Made(rng, options, rng.choice([1, 1, 2, 3, 40]))
    names = [f"column_{column}" for column in range(file.num_columns)]
    if rng.random() < 0.4:
        options["skip_rows"] = rng.choice([1, 3])
        for _ in range(options["skip_rows"]):
            file.add(rng.choice(["left out", "1,2,3", '"', "", "#"]))
    num_empty = rng.choice([0, 0, 2])
    for _ in range(num_empty):
        file.add("")
    if rng.random() < 0.3:
        options["header"] = False
        file.rows += [(None,)] * num_empty if file.num_columns == 1 else []
        file.add_row()
        while file.rows == [(None,)] * len(file.rows):
            file.add_row()  # the first value says how many columns there are
    else:
        file.add(options["delimiter"].join(names))
    for _ in range(rng.choice([0, 3, 20])):
        kind = rng.random()
        if kind < 0.1 and "comment" in options:
            file.add(rng.choice(["#", '#"', "#,,\\"]))
        elif kind < 0.2:
            file.add("")
            file.rows += [(None,)] if file.num_columns == 1 else []
        elif kind < 0.35 and (rng.random() < 0.1 or "bad_rows" in options):
            file.add_bad_row()
        else:
            file.add_row()
    return file


def check(path: Path, file: Made) -> None:
    path.write_bytes(file.text.encode(file.options.get("encoding", "utf-8")))
    types = {f"column_{column}": pa.string() for column in range(file.num_columns)}
    types |= {"column_0": pa.int64()} if file.num_columns > 1 else {}
    try:
        dataset = read_csv(path, schema=types, **file.options)
        source = dataset.node.source
        for size in PART_BYTES:
            reader = FileReader(source.read_options, source.schema_ipc, tuple(types))
            splits = source.splits(size)
            tables = [pa.table(reader.open(split)) for split in splits]
            rows = [tuple(row.values()) for table in tables for row in table.to_pylist()]
            texts = [tuple(None if value is None else str(value) for value in row) for row in rows]
            assert texts == file.rows, (file.text, file.options, size)
            if "bad_rows" in file.options:
                found = bad_lines(source, splits)
                assert found == file.bad_lines, (file.text, file.options, size)
    except (InputError, pa.ArrowInvalid):  # the latter around one where a part is read
        assert file.bad_lines, (file.text, file.options)
        assert "bad_rows" not in file.options, (file.text, file.options)
        return
    assert "bad_rows" in file.options or not file.bad_lines, (file.text, file.options)


def bad_lines(source: Any, splits: list[_native.Split]) -> list[int]:
    lines, start, found = 0, 0, []
    for split in splits:
        stream, more = _native.bad_rows(source.read_options, source.schema_ipc, split, start)
        rows = pa.ipc.open_stream(stream).read_all()["line"].to_pylist()
        found += [lines + line for line in sorted(rows)]
        lines, start = lines + more, split.end
    return found


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_any_size_have_the_same_rows(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        check(tmp_path / "in.csv", made(rng))
