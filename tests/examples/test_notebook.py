"""The notebook among the examples runs in a kernel, and shows what notebooks show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_look.ipynb"
#: A program of its own, whose kernel is this interpreter: the client leaves a loop of events behind.
PROGRAM = """
import sys
import nbclient, nbformat

notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with code, after a kernel has run them."""
    folder = tmp_path_factory.mktemp("jupyter")
    places = ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")
    environment = os.environ | {name: str(folder / name) for name in places}
    environment.pop("EXOSHUFFLE_PROGRESS", None)
    command = [sys.executable, "-c", PROGRAM, str(NOTEBOOK), str(folder / "done.ipynb")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads((folder / "done.ipynb").read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cells: list[Any], source: str) -> str:
    """The output of the cell with this source, of all kinds."""
    (cell,) = (cell for cell in cells if source in "".join(cell["source"]))
    outputs = cell["outputs"]
    texts = [text for output in outputs for text in output.get("text", ())]
    data = [text for output in outputs for part in output.get("data", {}).values() for text in part]
    return "".join((*texts, *data))


def test_a_dataset_shows_its_columns_as_html(cells: list[Any]) -> None:
    text = shown(cells, "sales = xs.read_parquet")
    assert re.search(r"<table.*price.*double", text, re.DOTALL)
    assert "sale" in shown(cells, "sales.show(3)")


def test_the_bill_comes_before_the_work(cells: list[Any]) -> None:
    bill = shown(cells, "dearest.explain()")
    assert re.search(r"operator +sort", bill)
    assert re.search(r"memory", bill)
    assert "100000" in shown(cells, "dearest.write_parquet")


def test_results(cells: list[Any]) -> None:
    groups = shown(cells, "by_shop =")
    assert groups.count("'n': 20000") == 5
    assert sum(map(int, re.findall(r"'count': (\d+)", shown(cells, "join_where")))) == 100_000


def test_progress_is_shown(cells: list[Any]) -> None:
    """Where it shows, it is one line, which ends empty."""
    assert re.search(r"\d MB of [\d.]+ MB, .*/s, \d+ s left", shown(cells, "random_shuffle"))
