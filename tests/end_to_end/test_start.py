"""The start of a program: a tiny query imports what it uses, and starts no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

#: For functions, large outputs, commands and other systems.
NOT_FOR_TABLES = [
    "click",
    "concurrent.futures",
    "multiprocessing",
    "polars",
    "psutil",
    "subprocess",
]
RELATIONAL = ["duckdb", "pyarrow.compute"]
FEATURES = [
    "exoshuffle.engines.local.workers.processes",
    "exoshuffle.plan.planner",
    "exoshuffle.strategies.simple",
    "exoshuffle.dataset.explain.explain",
    "exoshuffle.dataset.online",
    "exoshuffle.dataset.write.write",
    "exoshuffle.operators.asof.asof",
    "exoshuffle.operators.group_by.aggregate",
]
CASES = {
    "import": (
        "",
        [
            *("pyarrow", "exoshuffle.dataset", "exoshuffle.dataset.names", "exoshuffle.engines"),
            *(*NOT_FOR_TABLES, *RELATIONAL),
        ],
    ),
    "sort": ("rows.sort('x').to_arrow()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "head": ("rows.head()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "count": ("rows.count()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "filter": ("rows.filter('x > 1').to_arrow()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "price": ("rows.filter('price > 2').to_arrow()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "both": (
        "rows.filter('x > 1 and price < 9').to_arrow()",
        [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES],
    ),
    "object": (
        "rows.filter((xs.col('x') > 1) & (xs.col('price') < 9)).to_arrow()",
        [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES],
    ),
    "expression": ("rows.filter('x > 1.5').to_arrow()", [*NOT_FOR_TABLES, *FEATURES]),
    "group": (
        "rows.group_by('text').agg(n='count', total=('x', 'sum'), mean=('x', 'mean')).to_arrow()",
        [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES[:-1]],
    ),
    "first": (
        "rows.sort('x').limit(1).to_arrow()",
        [*NOT_FOR_TABLES, *FEATURES, "pyarrow.compute"],
    ),
    "join": ("rows.join(rows, on='x').to_arrow()", [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES]),
    "distinct": (
        "rows.distinct('text').to_arrow()",
        [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES[:-1]],
    ),
    "semi": (
        "rows.join(rows, on='text', how='semi').to_arrow()",
        [*NOT_FOR_TABLES, *RELATIONAL, *FEATURES],
    ),
}


def _loaded(query: str, folder: Path, unused: list[str]) -> list[str]:
    """Returns the unused modules that a program of a query imports, and the processes that it starts."""
    program = f"""
import sys, exoshuffle as xs
if {query!r}:
    rows = xs.read_parquet({str(folder)!r})
    {query or "pass"}
print(*sorted(set({unused}) & set(sys.modules)))
children = open(f"/proc/self/task/{{__import__('os').getpid()}}/children").read().split()
print(*children)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("case", CASES)
def test_modules_that_a_query_does_not_use_are_not_imported(case: str, tmp_path: Path) -> None:
    query, unused = CASES[case]
    pa.parquet.write_table(
        pa.table({"x": [3, 1, 2], "text": ["a", "b", "c"], "price": [1.5, 2.5, 3.0]}),
        tmp_path / "x.parquet",
    )
    assert _loaded(query, tmp_path, unused) == []


def test_a_comparison_leaves_row_groups_out_without_duckdb(tmp_path: Path) -> None:
    """DuckDB took 0.1 s of a start to compare the bounds of row groups with a number."""
    num_rows = 600_000  # more than is read without a look
    pa.parquet.write_table(pa.table({"x": pa.array(range(num_rows))}), tmp_path / "x.parquet")
    query = f"assert rows.filter('x >= {num_rows - 3}').to_arrow().num_rows == 3"
    assert _loaded(query, tmp_path, [*NOT_FOR_TABLES, *RELATIONAL]) == []


def test_the_command_imports_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n3\n1\n2\n")
    program = f"""
import sys
from exoshuffle_command import main

sys.argv = ["exoshuffle", "sort", {str(tmp_path / "in.csv")!r}, {str(tmp_path / "out")!r}, "--by", "x"]
try:
    main()
finally:
    unused = ["duckdb", "multiprocessing", "polars", "psutil", "pyarrow.compute", "subprocess"]
    unused += ["exoshuffle.cloudsort.gensort", "exoshuffle.strategies.simple", "exoshuffle.plan.planner"]
    print(*sorted(set(unused) & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.split() == []
