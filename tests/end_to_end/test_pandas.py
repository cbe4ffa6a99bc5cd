"""Where pandas is installed, neither the program nor its workers import it for values that are not the user's."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

PROGRAM = Path(__file__).with_name("pandas_free_program.py")
COMMAND = "from exoshuffle.cli import main; main()"

#: Notes who imports it, and is not there. Fork servers may: they import it once for all workers, whose functions do.
FALSE_PANDAS = """
    import os, traceback

    stack = "".join(traceback.format_stack())
    if "fork_server.py" not in stack:
        with open(os.environ["PANDAS_NOTE"], "a") as note:
            note.write(stack)
    raise ImportError("a false pandas")
"""
#: Arrow looks for pandas at conversions to a type only where NumPy is installed; so that this is tested without NumPy,
#: all conversions look.
ALL_CONVERSIONS = """
    import pyarrow as pa

    def looking(convert):
        def converted(value, *arguments, **options):
            if not hasattr(value, "__arrow_c_array__") and not hasattr(value, "__arrow_c_stream__"):
                try:
                    import pandas
                except ImportError:
                    pass
            return convert(value, *arguments, **options)

        return converted

    for name in ("array", "scalar"):
        made = looking(getattr(pa.lib, name))
        for module in (pa, pa.lib):
            setattr(module, name, made)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the programs read."""
    root = tmp_path_factory.mktemp("pandas")
    count = range(200)
    columns = {
        "id": pa.array(count, pa.int64()),
        "g": pa.array([number % 7 for number in count], pa.int32()),
        "t": pa.array([None if number % 9 == 0 else f"text {number}" for number in count]),
        "amount": pa.array([None if number % 8 == 0 else number / 4 for number in count]),
        "yes": pa.array([None if number % 5 == 0 else number % 2 == 0 for number in count]),
        "at": pa.array([number * 3_600_000_000 for number in count], pa.timestamp("us")),
        "ns": pa.array([number * 1001 for number in count], pa.timestamp("ns")),
        "zone": pa.array(
            [number * 1_000_003 for number in count], pa.timestamp("us", "Europe/Rome")
        ),
        "kind": pa.array([f"kind {number % 3}" for number in count]).dictionary_encode(),
        "list": pa.array([list(range(number % 4)) for number in count]),
    }
    table = pa.table(columns)
    pa.parquet.write_table(table, root / "rows.parquet")
    rare = {
        "id": columns["id"],
        "bytes": pa.array([bytes([number]) for number in count]),
        "row": pa.array([{"a": number, "b": f"{number}"} for number in count]),
    }
    pa.parquet.write_table(pa.table(rare), root / "rare.parquet")
    few = table.select(["id", "g", "t"])
    pa.csv.write_csv(few, root / "rows.csv")
    with pa.ipc.new_file(str(root / "rows.arrow"), table.schema) as writer:
        writer.write_table(table)
    (root / "rows.jsonl").write_text('{"id": 1, "t": "a"}\n{"id": 2, "t": null}\n')
    (root / "bad.csv").write_text('id,t\n1,a\n2,"b\n3,c,d\n4,e\n')
    (root / "records").write_bytes(bytes(range(200)))
    (root / "out").mkdir()
    return root


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the false pandas, which programs find from now on, notes who imports it."""
    modules = tmp_path / "modules"
    (modules / "pandas").mkdir(parents=True)
    (modules / "pandas" / "__init__.py").write_text(textwrap.dedent(FALSE_PANDAS))
    (modules / "sitecustomize.py").write_text(textwrap.dedent(ALL_CONVERSIONS))
    note = tmp_path / "note"
    paths = [str(modules), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("PANDAS_NOTE", str(note))
    return note


def run(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def imported_by(note: Path) -> list[str]:
    """Returns where in this project pandas was imported."""
    lines = note.read_text().splitlines() if note.exists() else []
    return [line.strip() for line in lines if "exoshuffle" in line and "File" in line][-4:]


@pytest.mark.parametrize("made", ["pa.array([1])", "pa.scalar(1, pa.int64())"])
def test_the_false_pandas_sees_conversions(made: str, note: Path) -> None:
    run("-c", f"import pyarrow as pa; {made}")
    assert "<string>" in note.read_text()


def test_the_false_pandas_sees_conversions_inside_arrow(note: Path) -> None:
    run("-c", "import pyarrow as pa; pa.schema([('x', pa.int64())]).empty_table()")
    assert note.exists()


def test_the_false_pandas_sees_workers(note: Path) -> None:
    program = """
        import exoshuffle as xs

        def convert():
            import pyarrow as pa
            pa.scalar(1)

        xs.get(xs.remote(convert).remote())
    """
    run("-c", textwrap.dedent(program))
    assert "convert" in note.read_text()


def test_no_operator_imports_pandas(folder: Path, note: Path) -> None:
    run(PROGRAM, folder)
    assert imported_by(note) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "sort rows.csv c/sort --by t",
        "sort rows.parquet c/top --by g,t --limit 3",
        "explain rows.parquet c/none --by id",
        "shuffle rows.parquet c/shuffle --seed 1",
        "sample rows.parquet c/sample --rows 5",
        "repartition rows.parquet c/repartition --partitions 2",
        "groupby rows.parquet c/groupby --by g --agg n=count(),m=median(id)",
        "distinct rows.parquet c/distinct --on g",
        "join rows.parquet rows.csv c/join --on id",
        "join-asof rows.parquet rows.parquet c/asof --on at",
        "gensort 100 c/records",
    ],
)
def test_no_command_imports_pandas(
    arguments: str, folder: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    run("-c", COMMAND, *arguments.split())
    assert imported_by(note) == []
