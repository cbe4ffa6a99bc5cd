"""Lines that are no JSON are refused, or left out, wherever they lie; and JSON never is, however it is written."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import InputError

pytestmark = pytest.mark.usefixtures("engine")

GOOD = '{"i": 1, "t": "x", "l": ["x"], "o": {"a": "x", "b": {"c": "x"}}, "n": [{"c": "x"}]}'
#: Rows that types are inferred from.
SAMPLE_ROWS = 10_000


def parts(text: str) -> list[str]:
    """The texts that bars separate."""
    return text.split("|")


VALUES = [
    *parts("1.2.3|01|-01|00|+1|.5|1.|1.e5|--1|-|1-2|1e|1e+|1e5e5|1e5.5|0x1|1_000|1true|1 2"),
    *parts("NaN|-NaN|Infinity|-Infinity|tru|truefalse|nulll|True|'a'|\"|{|}|]|// x|"),
    *parts(r'"\x"|"\u12"|"\u12G4"|"a" "b"|"a""b"|"a": "b"'),
    *parts('"a\tb"|"a\0b"|"a\x1fb"'),
]
LISTS = [
    *parts("[1 2]|[1,,2]|[1,]|[,1]|[,]|[1,2|1,2]|[1:2]|[1;2]|[1 -2]|[1-2]|[1.2.3]|[1}"),
    *parts('[true1]|[1true]|[truefalse]|[nullnull]|["a" "b"]|["a""b"]|[{} {}]|[[] []]'),
]
OBJECTS = [
    *parts('{"a": 1 "b": null}|{"a": 1,, "b": null}|{,"a": 1}|{"a": 1,}|{,}|{"a" 1}|{"a":: 1}'),
    *parts('{"a": "x""b": null}|{"a":}|{"a"}|{a: 1}|{1: 2}|{"a": 1; "b": null}|{"a", 1}'),
    *parts('{"b": {}{}}|{"b": {"c": 1,}}|{"b": {"c": 1 "c": 2}}|{"a": [1 2]}|{"a": 1]'),
]
LINES = [
    *parts('{"i": 1}{"i": 2}|{"i": 1} {"i": 2}|{"i": 1},{"i": 2}|{"i": 1},|,{"i": 1}|{"i": 1} x'),
    *parts('{"i": 1}}|{"i": 1|"i": 1}|{|[1]|1|"i"|null|{"i": 1}\x0c|\x0c|\0|\ufeff{}|{"i": 1:}'),
    *parts('{"i": 1 "t": "x"}|{"i": 1,, "t": "x"}|{, "i": 1}|{"i": 1,}|{"i" 1}'),
]


def malformed() -> Iterator[str]:
    yield from LINES
    for value in VALUES:
        yield f'{{"i": 1, "t": {value}}}'
        yield f'{{"i": 1, "l": ["x", {value}]}}'
        yield f'{{"i": 1, "o": {{"a": {value}, "b": null}}}}'
    for value in LISTS:
        yield f'{{"l": {value}, "i": 1}}'
    for value in OBJECTS:
        yield f'{{"o": {value}, "i": 1}}'
        yield f'{{"i": 1, "n": [{value.replace("a", "c").replace("b", "c")}]}}'


MALFORMED = list(dict.fromkeys(malformed()))


def is_json(line: str) -> bool:
    """Whether RFC 8259 has the line as an object."""
    try:
        return isinstance(json.loads(line, parse_constant=int), dict)
    except ValueError:
        return False


def bad_rows(path: Path) -> dict[int, str]:
    """Lines that were left out, with their reasons."""
    with path.open(newline="") as file:
        return {int(row["line"]): row["reason"] for row in csv.DictReader(file)}


def test_the_lines_here_are_malformed() -> None:
    assert len(MALFORMED) > 200
    assert [line for line in MALFORMED if is_json(line)] == []
    assert is_json(GOOD)


@pytest.mark.parametrize("columns", [None, ["i"]], ids=["all columns", "another column"])
@pytest.mark.parametrize("before", [1, SAMPLE_ROWS + 1], ids=["in the sample", "behind it"])
def test_a_malformed_line_is_an_error(
    before: int, columns: list[str] | None, tmp_path: Path
) -> None:
    head = (GOOD + "\n" + "{}\n" * (before - 1)).encode()
    for number, line in enumerate(MALFORMED):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(head + line.encode() + b"\n" + GOOD.encode())
        with pytest.raises(InputError) as error:  # noqa: PT012  some are refused at once
            read = xs.read_json(path)
            (read if columns is None else read.select(*columns)).to_arrow()
            pytest.fail(f"{line} was read")
        message = str(error.value)
        assert f"{path}' line {before + 1}: it is not one JSON object" in message, message
        assert "\n" not in message
        path.unlink()


@pytest.mark.parametrize("before", [1, SAMPLE_ROWS + 1], ids=["in the sample", "behind it"])
@pytest.mark.parametrize("columns", [None, ["i"]], ids=["all columns", "another column"])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_malformed_lines_are_left_out(
    before: int, columns: list[str] | None, ending: str, tmp_path: Path
) -> None:
    lines = [GOOD] * before
    for line in MALFORMED:
        lines += [line, GOOD]
    text = "\n".join(lines).encode()
    path = tmp_path / f"in.{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    read = xs.read_json(path, bad_rows=tmp_path / "bad.csv")
    table = (read if columns is None else read.select(*columns)).to_arrow()
    assert table["i"].to_pylist() == [1] * (before + len(MALFORMED))
    found = bad_rows(tmp_path / "bad.csv")
    assert list(found) == [before + 1 + 2 * number for number in range(len(MALFORMED))]
    assert {reason.split(":")[0] for reason in found.values()} == {"it is not one JSON object"}
    assert xs.read_json(path, bad_rows="skip").write_json(tmp_path / "out").bad_rows == len(found)


def test_a_malformed_line_is_found_in_any_split(tmp_path: Path) -> None:
    lines = ['{"i": 1, "t": "%s"}' % ("x" * 900)] * 60_000
    lines[50_000] = '{"i": 1 "t": "x"}'
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    read = xs.read_json(tmp_path / "in.jsonl")
    with pytest.raises(InputError, match=r"line 50001: .*expected `,` or `}` in column 9"):
        read.sort("i").write_csv(tmp_path / "out")


@pytest.mark.parametrize("before", [1, SAMPLE_ROWS + 1], ids=["in the sample", "behind it"])
@pytest.mark.parametrize("columns", [["t"], ["i"]], ids=["its column", "another column"])
def test_half_a_surrogate_pair_is_no_text(before: int, columns: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    for half in ("\\ud800", "\\udc00", "\\ud800\\ud800", "\\ud800x"):
        bad = f'{{"i": 1, "t": "{half}"}}'
        path.write_text("\n".join([GOOD] * before + [bad, GOOD]))
        with pytest.raises(InputError, match=f"line {before + 1}: ") as error:
            xs.read_json(path).select(*columns).to_arrow()
        assert "column 'i'" not in str(error.value)
        read = xs.read_json(path, bad_rows=tmp_path / "bad.csv")
        assert read.to_arrow().num_rows == before + 1
        assert list(bad_rows(tmp_path / "bad.csv")) == [before + 1]


#: Values of text as they are written, with what they are.
RIGHT: dict[str, Any] = {
    '"\\u00e9\\ud83d\\ude00\\"\\\\\\/\\b\\f\\n\\r\\t"': 'é😀"\\/\b\f\n\r\t',
    '"é😀,,:{}[]\x7f"': "é😀,,:{}[]\x7f",
    '"\\\\"': "\\",
    '"\\\\\\""': '\\"',
    '""': "",
    "null": None,
    "true": "true",
    "-0": "-0",
    "0": "0",
    "1e5": "1e5",
    "-1.5E+05": "-1.5E+05",
    "0.0e-0": "0.0e-0",
    "123456789012345678901234567890": "123456789012345678901234567890",
    "1e999": "1e999",
    "0." + "1" * 200: "0." + "1" * 200,
}


@pytest.mark.parametrize("bad", [None, "skip"])
def test_json_is_read_however_it_is_written(bad: str | None, tmp_path: Path) -> None:
    lines, expected = [GOOD] * (SAMPLE_ROWS + 1), []
    for blank in ("", " ", "\t", "\r", " \t\r" * 30):
        for value, text in RIGHT.items():
            row = ["{", '"t"', ":", value, ",", '"l"', ":", "[", value, ",", value, "]", ","]
            row += ['"o"', ":", "{", "}", ",", '"n"', ":", "[", "]", "}"]
            lines += ["", blank + blank.join(row) + blank]
            expected.append({"i": None, "t": text, "l": [text, text], "n": []})
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines), newline="")
    options = {} if bad is None else {"bad_rows": bad}
    rows = xs.read_json(path, **options).to_arrow().to_pylist()[SAMPLE_ROWS + 1 :]
    assert [{name: row[name] for name in ("i", "t", "l", "n")} for row in rows] == expected


def test_values_may_be_nested_deeply_where_they_are_not_used(tmp_path: Path) -> None:
    opening, closing = '[{"a":' * 5_000, "}]" * 5_000
    deep = f'{{"i": 1, "t": {opening}1{closing}}}'
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join([GOOD] * (SAMPLE_ROWS + 1) + [deep]))
    assert xs.read_json(path).select("i").to_arrow().num_rows == SAMPLE_ROWS + 2
    path.write_text("\n".join([GOOD] * (SAMPLE_ROWS + 1) + [deep, deep.replace("1}", "1,}")]))
    with pytest.raises(InputError, match=f"line {SAMPLE_ROWS + 3}: it is not one JSON object"):
        xs.read_json(path).select("i").to_arrow()


CHANGES = [
    *parts(r',|0|7|-|+|.|e|E|"|\|\"|{|}|[|]|:|true|false|null|tru|NaN|é|"a"|"a":|\u00e9|\x'),
    *parts("| |\t|\0|\x1f|\x7f|\x0c"),
]


def changed(line: str, rng: random.Random) -> str:
    """The line with another part here or there."""
    for _ in range(rng.randint(0, 2)):
        start = rng.randrange(len(line) + 1)
        line = line[:start] + rng.choice(CHANGES) + line[start + rng.randint(0, 2) :]
    return line


def test_what_python_reads_as_json_is_json(tmp_path: Path) -> None:
    rng = random.Random(7)
    values = ["-1.50e+7", '"a\\"b\\\\"', '{"a":[1,2.5,{}],"b":null}', "[true,false,[]]", "12"]
    rows = [f'{{"i": 1, "t": {rng.choice(values)}}}' for _ in range(20_000)]
    lines = [changed(row, rng) for row in rows]
    lines = [line for line in lines if line.strip(" \t")]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join([GOOD] * (SAMPLE_ROWS + 1) + lines), newline="")
    assert xs.read_json(path, bad_rows=tmp_path / "bad.csv").to_arrow().num_rows > SAMPLE_ROWS
    reasons = bad_rows(tmp_path / "bad.csv")
    start = "it is not one JSON object"
    refused = [n for n, reason in reasons.items() if reason.startswith(start)]
    expected = [n for n, line in enumerate(lines, SAMPLE_ROWS + 2) if not is_json(line)]
    assert refused == expected
    assert 2_000 < len(refused) < len(lines) - 2_000


@pytest.mark.parametrize("is_sampled", [True, False])
def test_a_cr_by_itself_ends_no_line(is_sampled: bool, tmp_path: Path) -> None:
    """It is a space within a line, here of line 2; the line at fault is the third."""
    good = "" if is_sampled else '{"i": 1}\n' * SAMPLE_ROWS
    text = '{"i": 1}\n{"i":\r1\r\r}\r\n{"i": x}\n'
    path = tmp_path / "in.jsonl"
    path.write_bytes(f"{good}{text}".encode())
    line = 3 + good.count("\n")
    with pytest.raises(InputError, match=rf"line {line}:"):
        xs.read_json(path).to_arrow()
    rejected = tmp_path / "bad.csv"
    found = xs.read_json(path, bad_rows=rejected).to_arrow()
    assert found.num_rows == line - 1
    with rejected.open() as file:
        assert [row["line"] for row in csv.DictReader(file)] == [str(line)]


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_values_are_as_deep_as_arrow_reads_them_or_refused(pair: str, tmp_path: Path) -> None:
    def written(depth: int) -> xs.Dataset:
        opened = pair[0] if pair == "[]" else '{"b":'
        path = tmp_path / f"{depth}.jsonl"
        path.write_text(f'{{"a": {opened * depth}1{pair[1] * depth}}}\n{{"a": null}}\n')
        return xs.read_json(path)

    deepest = written(60)
    found = deepest.to_arrow()
    deepest.write_parquet(tmp_path / "out")
    assert xs.read_parquet(tmp_path / "out").to_arrow().equals(found)
    for depth in (61, 126, 127, 5000):
        with pytest.raises(
            InputError, match=r"line 1: column 'a': values are nested deeper than 61 levels"
        ):
            _ = written(depth).schema
