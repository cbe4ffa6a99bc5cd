"""Runs the code of the README as it stands, on small data of the names that it uses.

``python -m tests.examples.readme`` does so in the current folder, with the package that is installed. It needs nothing
but what that package needs, so that a release can be tried where there is nothing else.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import exoshuffle as xs

README = (Path(__file__).parents[2] / "README.md").read_text()
#: The contents of each folder.
FOLDERS = {
    "events": "select i as id, i % 9 as user, timestamp '2020-01-01' + interval (i % 777) minute as ts, "
    "'c' || i % 4 as country from range(5000) rows(i)",
    "sales": "select i % 7 as shop, timestamp '2020-01-01' + interval (i) minute as ts, i // 1000 as day, "
    "(i % 100) / 10 - 1 as price from range(5000) rows(i)",
    "visits": "select i % 5 as page, (i % 11)::double as seconds from range(3000) rows(i)",
    "trades": "select 's' || i % 3 as symbol, timestamp '2020-01-01' + interval (i) second as ts, i as price "
    "from range(500) rows(i)",
    "quotes": "select 's' || i % 3 as symbol, timestamp '2020-01-01' + interval (2 * i) second as ts, i as bid "
    "from range(200) rows(i)",
    "samples": "select i as id from range(1000) rows(i)",
    "shops": "select i as shop, 'c' || i % 2 as country from range(7) rows(i)",
}
SHOPS = "shop,country\n" + "".join(f"{shop},c{shop % 2}\n" for shop in range(7))
NUMBERS = "id,name\n" + "".join(f"{i * 7 % 100},n{i}\n" for i in range(100))


def make_data(folder: Path) -> None:
    """Makes what the examples read."""
    for name, sql in FOLDERS.items():
        (folder / name).mkdir()
        table = duckdb.sql(sql).to_arrow_table()
        half = len(table) // 2
        pq.write_table(table.slice(0, half), folder / name / "a.parquet")
        pq.write_table(table.slice(half), folder / name / "b.parquet")
    (folder / "shops.csv").write_text(SHOPS)
    (folder / "in.csv").write_text(NUMBERS)
    (folder / "in.csv.gz").write_bytes(gzip.compress(NUMBERS.encode()))
    for name in ("a.jsonl", "b.jsonl"):
        (folder / name).write_text('{"id": 2}\n{"id": 1}\n')
    (folder / "fast").mkdir()


def run_python(folder: Path) -> str:
    """Runs the blocks of Python but that on Ray, one after the other, and returns what they print."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    local = [block for block in blocks if 'engine="ray"' not in block]
    assert len(local) == len(blocks) - 1 == 7
    names: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in local:
            code = block.replace("/mnt/fast", str(folder / "fast"))
            exec(compile(code, "README.md", "exec"), names)  # noqa: S102  code of this repository
    return printed.getvalue()


def check_printed(printed: str) -> None:
    """Compares with what the README shows, or says in comments."""
    shown = re.findall(r"```\n(\[\{.*\])\n```", README)
    assert len(shown) == 2
    assert all(output in printed for output in shown)
    assert "partitions (reduces)" in printed
    assert "[0, 1, 4, 9]" in printed
    assert "100% pyarrow.Table" in printed


def run_commands(folder: Path) -> int:
    """Runs the commands of the README, with a thousandth of the records; returns their number."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (block,) = re.findall(r"```sh\n(exoshuffle head .*?)```", README, re.DOTALL)
    commands = [line for line in block.replace("2GB records/", "2MB records/").splitlines() if line]
    for command in commands:
        environment = os.environ | {"PATH": programs}
        subprocess.run(["sh", "-ec", command], cwd=folder, env=environment, check=True)  # noqa: S607
    return len(commands)


def main() -> None:
    """Runs all of it."""
    for name in ("python", "commands"):
        Path(name).mkdir()
        make_data(Path(name))
    os.chdir("python")
    check_printed(run_python(Path.cwd()))
    xs.shutdown()
    run_commands(Path("../commands"))


if __name__ == "__main__":
    main()
