"""A row of text that is a fifth of the memory limit is read and written, where what takes it has room for its copies.

Seven copies were assumed of every row, so all of these were refused.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.memory.measuring import measured

LONG_BYTES = 100_000_000
LIMIT_BYTES = 500_000_000
PROGRAM = """
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError
xs.init(memory_limit={limit}, num_cpus=2, spill_dirs=[{folder!r}])
try:
    print({made})
except MemoryLimitError as error:
    print(error)
"""
#: Each makes the number of rows.
WAYS = {
    "count lines": "xs.read_text({path!r}).count()",
    "batches of lines": "sum(batch.num_rows for batch in xs.read_text({path!r}).iter_batches())",
    "filter lines": "xs.read_text({path!r}).filter(\"text > 'a'\").count()",
    "lines to text": "xs.read_text({path!r}).write_text({out!r}).rows",
    "lines to CSV": "xs.read_text({path!r}).write_csv({out!r}).rows",
    "lines to Parquet": "xs.read_text({path!r}).write_parquet({out!r}).rows",
    "count JSON": "xs.read_json({path!r}).count()",
    "JSON to Parquet": "xs.read_json({path!r}).write_parquet({out!r}).rows",
    "CSV to Parquet": "xs.read_csv({path!r}).write_parquet({out!r}).rows",
}
#: The ending of a file, its first line, and a row, by a word in the way.
FORMS = {
    "lines": (".txt", "", "%s\n"),
    "JSON": (".jsonl", "", '{"k": 1, "text": "%s"}\n'),
    "CSV": (".csv", "k,text\n", "1,%s\n"),
}


@pytest.fixture(scope="module")
def long() -> str:
    """Returns a long text of which no compression makes less than half; it begins as the others do."""
    return "b" + Random(7).randbytes(LONG_BYTES // 2).hex()


@pytest.mark.parametrize("way", WAYS)
def test_a_long_row_that_fits_is_read(way: str, long: str, tmp_path: Path) -> None:
    ending, header, row = next(form for word, form in FORMS.items() if word in way)
    path = tmp_path / f"in{ending}"
    path.write_text(header + "".join(row % text for text in ("b1", long, "b2")))
    made = WAYS[way].format(path=str(path), out=str(tmp_path / "out"))
    printed, peak_bytes = measured(
        PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), made=made)
    )
    assert printed.strip() == "3"
    assert peak_bytes <= LIMIT_BYTES


def test_a_row_of_many_values_is_refused_with_a_limit_that_does(tmp_path: Path) -> None:
    """The decoder has 8 bytes and more for each value: a list of 30 million in 60 MB took 1.6 GB within 500 MB."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"v": [1]}\n{"v": [' + "1," * 10_000_000 + "1]}\n")
    made = f"xs.read_json({str(path)!r}).write_parquet({str(tmp_path / 'out')!r}).rows"
    printed, peak_bytes = measured(
        PROGRAM.format(limit=LIMIT_BYTES, folder=str(tmp_path), made=made)
    )
    assert "line 2: the row has 10000004 values, and the memory limit leaves no room" in printed
    assert peak_bytes <= LIMIT_BYTES
    enough = 1_000_000 * int(printed.partition("raise memory_limit to ")[2].partition(" MB")[0])
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, folder=str(tmp_path), made=made))
    assert printed.strip() == "2"
    assert peak_bytes <= enough


@pytest.mark.parametrize("sink", ["write_text", "write_csv", "write_parquet"])
def test_a_long_line_is_written_as_it_was(sink: str, tmp_path: Path) -> None:
    """A line that goes on in many windows, between others, one of which ends with a carriage return."""
    path, out = tmp_path / "in.txt", tmp_path / "out"
    path.write_bytes(b"a\r\n" + b"xyz" * 15_000_000 + b"\r\nb\nc\n" + b"w" * 5_000_000)
    program = (
        "import exoshuffle as xs\n"
        f"xs.init(memory_limit=700_000_000, num_cpus=2, spill_dirs=[{str(tmp_path)!r}])\n"
        f"xs.read_text({str(path)!r}).{sink}({str(out)!r})\n"
        f"read = xs.read_{sink.removeprefix('write_')}({str(out / '*')!r})\n"
        "texts = read.to_arrow()['text'].to_pylist()\n"
        "print(len(texts), texts[1] == 'xyz' * 15_000_000, texts[4] == 'w' * 5_000_000, [*texts[:1], *texts[2:4]])"
    )
    printed, _ = measured(program)
    assert printed.strip() == "5 True True ['a', 'b', 'c']"


def test_files_with_bad_rows_are_cut_within_the_limit(tmp_path: Path) -> None:
    """The search for ends of rows kept a line of 100 MB whole: within 200 MB, the guard measured 228."""
    path = tmp_path / "in.csv"
    path.write_text("k,text\n1,a\n2," + "x" * LONG_BYTES + "\n3,b\n")
    made = f"xs.read_csv({str(path)!r}, bad_rows='skip').write_parquet({str(tmp_path / 'out')!r})"
    program = (
        PROGRAM
        + "from exoshuffle.observe.memory import peak_resident_bytes\nprint(peak_resident_bytes())"
    )
    printed, _ = measured(program.format(limit=200_000_000, folder=str(tmp_path), made=made))
    refusal, peak_bytes = printed.splitlines()
    assert "line 3: the row has more than" in refusal
    assert int(peak_bytes) <= 160_000_000


def test_a_search_for_bad_rows_names_what_it_takes(long: str, tmp_path: Path) -> None:
    """It lets go of every row, and counted the copies of a shuffle: a line of 100 MB was refused with 946 MB."""
    path = tmp_path / "in.csv"
    path.write_text(f"k,text\n1,a\nx,b,c\n2,{long}\n")
    made = (
        f"xs.read_csv({str(path)!r}, bad_rows='skip').write_parquet({str(tmp_path / 'out')!r}).rows"
    )
    folder = str(tmp_path)
    printed, _ = measured(PROGRAM.format(limit=300_000_000, folder=folder, made=made))
    enough = 1_000_000 * int(printed.partition("raise memory_limit to ")[2].partition(" MB")[0])
    assert enough <= 1.2 * LIMIT_BYTES
    printed, peak_bytes = measured(PROGRAM.format(limit=enough, folder=folder, made=made))
    assert printed.strip() == "2"
    assert peak_bytes <= enough
