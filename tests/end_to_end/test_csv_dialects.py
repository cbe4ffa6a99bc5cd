"""CSV of all dialects is read as it is meant, or refused with line and column; the csv module of Python says how."""

from __future__ import annotations

import csv
import datetime as dt
import random
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError, OptionsError

pytestmark = pytest.mark.usefixtures("engine")

#: Rows that types are not inferred from follow these.
LATER = "".join(f"{i},x\n" for i in range(10_001))


def read(path: Path, content: str | bytes, **options: Any) -> list[dict[str, Any]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return xs.read_csv(path, **options).to_arrow().to_pylist()


@pytest.mark.parametrize(
    "content",
    [
        "id,name\r1,a\r2,b\r",
        "id,name\r1,a\n2,b\n",
        "id,name\n1,a\r2,b",
        "id,name\r\n1,a\r\n2,b\r\n",
        "\r\n\rid,name\n\n\r1,a\r\r2,b\r\n\r",
    ],
)
def test_lines_end_in_cr_lf_or_both(content: str, tmp_path: Path) -> None:
    assert read(tmp_path / "in.csv", content) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_files_of_many_splits_with_other_line_ends(end: str, tmp_path: Path) -> None:
    rows = [f'{i},"a{end}{"x" * 300}"' for i in range(50_000)]
    path = tmp_path / "in.csv"
    path.write_bytes(("i,s" + end + end.join(rows)).encode())
    result = xs.read_csv(path).sort("i").to_arrow()
    assert result["i"].to_pylist() == list(range(50_000))
    assert set(result["s"].to_pylist()) == {f"a{end}{'x' * 300}"}


@pytest.mark.parametrize(
    ("rows", "line", "what"),
    [
        ('2,"oops\n' + LATER, 2, "column 3 is never closed"),
        (
            '1,"x,1\n2,"y,2\n',
            2,
            "column 3 closes, and text stands behind it, in column 4 of the next line",
        ),
        ('1,a\n2,"x"y\n', 3, "column 3 closes, and text stands behind it, in column 6"),
        ('1,a\r2,"x" \r', 3, "behind it, in column 6"),
        ("1,a\n2\n", 3, "values: 1"),
        ("1,a\n2,b,c\n", 3, "values: 3"),
    ],
)
@pytest.mark.parametrize("before", ["", LATER])
def test_what_is_no_row_is_named(
    before: str, rows: str, line: int, what: str, tmp_path: Path
) -> None:
    lines = before.count("\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "in.csv", "i,s\n" + before + rows)
    assert f"in.csv' line {line + lines}: " in str(caught.value)
    assert what in str(caught.value)
    with pytest.raises(InputError, match=f"line {line + lines}: "):
        xs.read_csv(tmp_path / "in.csv").sort("i").to_arrow()


def test_characters_have_the_meaning_that_is_given(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    content = "made by hand\n# i;s\ni|s\n#'\n1|'a|''b\\'\n'\n2|\"x\"y\n"
    rows = read(path, content, delimiter="|", quote="'", escape="\\", comment="#", skip_rows=1)
    assert rows == [{"i": 1, "s": "a|'b'\n"}, {"i": 2, "s": '"x"y'}]
    assert read(path, 'a,b\n"x,1\n', quote=None) == [{"a": '"x', "b": 1}]
    assert read(tmp_path / "in.tsv", "a\tb\n1,5\t2\n") == [{"a": "1,5", "b": 2}]
    assert read(tmp_path / "in.tsv", "a,b\n1\t5,2\n", delimiter=",") == [{"a": "1\t5", "b": 2}]


def test_a_mark_of_a_byte_order_is_one_at_the_start_only(tmp_path: Path) -> None:
    rows = read(tmp_path / "in.csv", "\ufeff\ufeffs,i\n\ufeffx,1\n")
    assert rows == [{"\ufeffs": "\ufeffx", "i": 1}]


@pytest.mark.parametrize("quote", ["", '"'])
def test_null_values_are_null_in_every_type(quote: str, tmp_path: Path) -> None:
    content = 'i,s,f\n1,a,0.5\nNA,"",-\n,n/a,2\n'.replace("NA", f"{quote}NA{quote}")
    path = tmp_path / "in.csv"
    rows = read(path, content, null_values=["NA", "-", "n/a"])
    assert rows[1:] == [{"i": None, "s": "", "f": None}, {"i": None, "s": None, "f": 2.0}]
    assert read(path, content, null_values=["NA", "-", ""])[1]["s"] is None
    assert read(path, content, null_values="NA")[1]["f"] == "-"


def test_encodings_are_those_given_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    content = "näme,i\nÄpfel €,1\n" * 1
    assert read(path, content.encode("cp1252"), encoding="windows-1252")[0]["näme"] == "Äpfel €"
    plain = content.replace("€", "ß")
    rows = "".join(f"{'é' * (i % 40)},{i}\n" for i in range(30_000))
    result = read(path, (plain + rows).encode("latin-1"), encoding="latin-1")
    assert [row["i"] for row in result] == [1, *range(30_000)]
    assert result[0]["näme"] == "Äpfel ß"
    assert all(row["näme"] == ("é" * (row["i"] % 40) or None) for row in result[1:])
    with pytest.raises(InputError, match=r"line 1: it is no UTF-8; .*encoding='latin-1'"):
        read(path, content.encode("cp1252"))
    with pytest.raises(InputError, match=r"line 10003: it is no UTF-8"):
        read(path, ("s,i\n" + LATER).encode() + b"\xe4,1\n", schema={"s": "text", "i": "text"})
    with pytest.raises(InputError, match="line 3: it is no UTF-8"):
        read(path, b"s,i\na,1\n\xff,2\n\xff,3\n", quote=None)
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        with pytest.raises(InputError, match=r"UTF-16[LB]E.*iconv"):
            read(path, content.encode(encoding))
    with pytest.raises(OptionsError, match=r"'utf-16'.*iconv -f utf-16"):
        read(path, content, encoding="utf-16")


@pytest.mark.parametrize(
    "options",
    [
        {"quote": "ab"},
        {"quote": 1},
        {"escape": "\n"},
        {"comment": ","},
        {"delimiter": '"'},
        {"skip_rows": -1},
        {"skip_rows": "1"},
        {"null_values": 5},
        {"null_values": [5]},
        {"encoding": None},
        {"bad_rows": "/"},
        {"bad_rows": None},
        {"bad_rows": "/no/such/directory/bad.csv"},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=next(iter(options))):
        read(tmp_path / "in.csv", "a,b\n1,2\n", **options)


def test_dates_and_times_are_inferred_as_duckdb_does(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    names = ("date", "time", "fraction", "timestamp", "milliseconds", "ambiguous")
    values = (
        "2024-01-02,12:34:56,23:59:59.123456,2024-01-02 03:04:05,2024-01-02 03:04:05.123,01/02/2024"
    )
    [row] = read(path, f"{','.join(names)}\n{values}\n")
    relation = duckdb.read_csv(str(path), dtype={"ambiguous": "VARCHAR"})
    [expected] = relation.fetchall()
    assert row == dict(zip(names, expected, strict=True))
    assert row["time"] == dt.time(12, 34, 56)
    later = "t\n" + "12:34:56\n" * 10_001
    with pytest.raises(InputError, match="line 10003, column 't': '24:00:00' is not"):
        read(path, later + "24:00:00\n")


def test_times_are_written_as_they_are_read(tmp_path: Path) -> None:
    content = "t,i\n12:34:56,1\n00:00:00.500,2\n"
    rows = read(tmp_path / "in.csv", content)
    out = tmp_path / "out"
    xs.read_csv(tmp_path / "in.csv").sort("i").write_csv(out)
    assert xs.read_csv(out).to_arrow().to_pylist() == rows


def test_a_file_of_tabs_is_written_with_tabs(tmp_path: Path) -> None:
    rows = read(tmp_path / "in.tsv", 'a\tb\n2\tx,"\n1\t"y\tz"\n')
    xs.read_csv(tmp_path / "in.tsv").sort("b").write_csv(tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().startswith("a\tb\n")
    assert xs.read_csv(tmp_path / "out.tsv").to_arrow().to_pylist() == rows


def text_of(rng: random.Random) -> str:
    """Text in which everything that has a meaning occurs."""
    return "".join(rng.choice("ab\",;\r\n'#\t é") for _ in range(rng.choice([0, 1, 1, 2, 3, 8])))


def test_what_other_writers_quote_is_read(tmp_path: Path) -> None:
    rng = random.Random(11)
    for case in range(25):
        delimiter, quote = rng.choice(",;\t|"), rng.choice("\"'")
        # With one of both as line end, this writer does not quote the other.
        quoting, end = rng.choice(
            [(csv.QUOTE_MINIMAL, "\r\n"), *((csv.QUOTE_ALL, end) for end in ("\n", "\r"))]
        )
        rows = [[f"{i}", text_of(rng), text_of(rng)] for i in range(rng.choice([1, 5, 300]))]
        path = tmp_path / f"{case}.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(
                file,
                delimiter=delimiter,
                quotechar=quote,
                quoting=quoting,
                lineterminator=end,
            )
            writer.writerows([["i", "s", "t"], *rows])
        schema = {"s": "text", "t": "text"}
        table = xs.read_csv(path, delimiter=delimiter, quote=quote, schema=schema).to_arrow()
        assert [[row["i"], row["s"] or "", row["t"] or ""] for row in table.to_pylist()] == [
            [int(i), s, t] for i, s, t in rows
        ], path.read_bytes()


def oracle(content: str, delimiter: str, quote: str) -> list[list[str]] | None:
    """The rows that the csv module makes of a text, strictly; None if that is nothing."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", content)
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True)
    try:
        return [row for row in reader if row]
    except csv.Error:
        return None


def check_as_oracle(path: Path, rng: random.Random) -> None:
    """Whatever is in a file is read as the csv module does, or is an error where it has one."""
    delimiter, quote = rng.choice(",;"), rng.choice("\"'")
    alphabet = f"ab{delimiter}{delimiter}{quote}{quote}\r\n\n"
    size = rng.choice([3, 8, 20, 60])
    content = f"h{delimiter}k\n" + "".join(rng.choice(alphabet) for _ in range(size))
    path.write_text(content, newline="")
    expected = oracle(content, delimiter, quote)
    if expected is not None and any(len(row) != 2 for row in expected):
        expected = None
    schema = pa.schema([("h", pa.string()), ("k", pa.string())])
    try:
        dataset = xs.read_csv(path, delimiter=delimiter, quote=quote, schema=schema)
        rows = [
            [h or "", k or ""]
            for h, k in zip(*dataset.to_arrow().to_pydict().values(), strict=True)
        ]
    except InputError:
        assert expected is None, content
        return
    assert expected is not None, content
    assert rows == expected[1:], content


def test_any_text_is_read_as_the_csv_module_does_or_refused(tmp_path: Path) -> None:
    rng = random.Random(3)
    for _ in range(150):
        check_as_oracle(tmp_path / "in.csv", rng)


def test_lines_are_left_out_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    content = "left out\r\nout\rby\n" * 10_000 + "a,b\n1,2"
    assert read(path, content, skip_rows=30_000) == [{"a": 1, "b": 2}]
    assert read(path, content, skip_rows=30_001, header=False) == [{"column_0": 1, "column_1": 2}]
    for skipped in (30_003, 10**12):
        with pytest.raises(InputError, match=f"30002 lines, and skip_rows={skipped} .*30002 or f"):
            read(path, content, skip_rows=skipped)
    with pytest.raises(InputError, match="is empty: it has no columns"):
        read(path, content, skip_rows=30_002)
    read_before = bytes_read()
    xs.read_csv(path, skip_rows=30_000)
    assert bytes_read() - read_before < 20 * len(content)


def bytes_read() -> int:
    """The bytes that this process has read so far."""
    [line] = [line for line in Path("/proc/self/io").read_text().splitlines() if "rchar" in line]
    return int(line.split()[1])


def test_what_an_error_says_is_one_line_whatever_names_are(tmp_path: Path) -> None:
    """Behind a character 0 nothing was left of it."""
    (tmp_path / "in.csv").write_bytes(b'"a\n\0b","a\n\0b"\n1,2\n')
    with pytest.raises(InputError, match=r"named 'a\\n\\u\{0\}b'; rename one of them") as caught:
        xs.read_csv(tmp_path / "in.csv").to_arrow()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_file_that_seems_to_have_another_delimiter_is_refused(
    tmp_path: Path, delimiter: str
) -> None:
    """It was read as one column of text without a word."""
    path = tmp_path / "in.csv"
    path.write_text('a;b\n1;"x;y"\n\n2;"p q"\n3;z\n'.replace(";", delimiter))
    shown = delimiter.encode("unicode_escape").decode()
    with pytest.raises(InputError, match=re.escape(f'write delimiter="{shown}" (--delimiter')):
        xs.read_csv(path)
    assert xs.read_csv(path, delimiter=delimiter).to_pydict()["a"] == [1, 2, 3]
    assert xs.read_csv(path, delimiter=",", quote=None).columns == [f"a{delimiter}b"]
    assert xs.read_csv(path, schema={f"a{delimiter}b": "text"}).columns == [f"a{delimiter}b"]


@pytest.mark.parametrize(
    "content",
    [
        "a;b\n",  # no row tells
        "a;b\n1;2\n3\n",  # a row has another number
        "a;b\nx;y;z\n1;2\n",
        "note\nfirst; then\nsecond; then\n",  # the header has none
    ],
)
def test_text_with_semicolons_is_one_column(tmp_path: Path, content: str) -> None:
    (tmp_path / "in.csv").write_text(content)
    lines = content.splitlines()
    assert xs.read_csv(tmp_path / "in.csv").to_pydict() == {lines[0]: lines[1:]}
