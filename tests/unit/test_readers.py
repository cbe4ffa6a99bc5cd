"""The items that tasks read, and their names in errors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.dataset.inputs.file_input import FileInput
from exoshuffle.dataset.opening import open_dataset
from exoshuffle.operators.core.readers import FileReader
from tests.support.formats import WRITERS


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("extension", WRITERS)
def test_places_are_in_rows_where_files_are_cut_by_rows(extension: str, tmp_path: Path) -> None:
    table = pa.table({"k": range(1000)})
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    getattr(xs.read_ipc(tmp_path / "in.arrow"), WRITERS[extension])(tmp_path / "out")
    source = open_dataset(tmp_path / "out").node.source
    [split] = FileInput(source).pieces(10**9)
    reader = FileReader(source.read_options, source.schema_ipc, ("k",))
    unit = "rows" if extension in ("parquet", "arrow") else "bytes"
    assert reader.place(0, split).name.startswith(f"{unit} ")
    assert reader.place(0, split).name.endswith(f" of {tmp_path}/out/part-00000.{extension}")
