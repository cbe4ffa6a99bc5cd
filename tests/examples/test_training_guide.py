"""The examples of the guide to training run as they stand, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import exoshuffle as xs
from tests.support.limits import large_memory_limit

GUIDE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
ROWS = 2000


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Labels that are three times x, sorted."""
    samples = tmp_path / "samples"
    samples.mkdir()
    x = [place / ROWS for place in range(ROWS)]
    table = pa.table({"id": range(ROWS), "x": x, "label": [3 * value for value in x]})
    pq.write_table(table.slice(0, ROWS // 2), samples / "a.parquet")
    pq.write_table(table.slice(ROWS // 2), samples / "b.parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    yield
    xs.shutdown()


@pytest.mark.usefixtures("_folder")
def test_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        # The suite's process may have more resident than the limit of the guide.
        code = block.replace('"1GB"', str(large_memory_limit()))
        exec(compile(code, "training.md", "exec"), names)  # noqa: S102  code of this repository
    weight, mixture, rows, is_shared, is_whole, place = capsys.readouterr().out.splitlines()
    assert 2 < float(weight) < 3
    assert mixture == "13 1250"
    assert (rows, is_shared, is_whole) == (str(ROWS), "True", "True")
    assert re.fullmatch(r"[ab]\.parquet \d+", place)
