"""The README's Python examples run as they stand, on data of the names that they use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import exoshuffle as xs
from tests.support.generated import query
from tests.support.oracle import write_files

README = Path(__file__).parents[2] / "README.md"
#: What each folder holds.
FOLDERS = {
    "events": "select i as id, i % 9 as user, timestamp '2020-01-01' + interval (i % 777) minute as ts, "
    "'c' || i % 4 as country from range(5000) rows(i)",
    "sales": "select i % 7 as shop, (i % 100) / 10 - 1 as price, timestamp '2020-01-01' + interval (i) minute as ts "
    "from range(5000) rows(i)",
    "visits": "select i % 5 as page, (i % 11)::double as seconds from range(3000) rows(i)",
    "trades": "select 's' || i % 3 as symbol, timestamp '2020-01-01' + interval (i) second as ts, i as price "
    "from range(500) rows(i)",
    "quotes": "select 's' || i % 3 as symbol, timestamp '2020-01-01' + interval (2 * i) second as ts, i as bid "
    "from range(200) rows(i)",
    "samples": "select i as id from range(1000) rows(i)",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, sql in FOLDERS.items():
        write_files(tmp_path / name, query(sql), 2)
    shops = "".join(f"{shop},c{shop % 2}\n" for shop in range(7))
    (tmp_path / "shops.csv").write_text("shop,country\n" + shops)
    (tmp_path / "fast").mkdir()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    xs.shutdown()


def test_examples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    local = [block for block in blocks if 'engine="ray"' not in block]
    assert len(local) == len(blocks) - 1 == 7
    names: dict[str, object] = {}
    for block in local:
        code = block.replace("/mnt/fast", str(folder / "fast"))
        exec(compile(code, "README.md", "exec"), names)  # noqa: S102  code of this repository
    printed = capsys.readouterr().out
    shown = re.findall(r"```\n(\[\{.*\])\n```", README.read_text())
    assert len(shown) == 2
    assert all(output in printed for output in shown)
    assert "partitions (reduces)" in printed
    assert "[0, 1, 4, 9]" in printed
    assert "100% pyarrow.Table" in printed
    assert {path.name for path in folder.iterdir()} >= {"sorted", "by-user"}
