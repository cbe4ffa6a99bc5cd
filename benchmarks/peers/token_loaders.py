"""Loaders for training on lists of 2,048 tokens in Parquet: an epoch in random order, as NumPy or PyTorch.

    python -m benchmarks.peers.token_loaders FOLDER --amount 60000 --rounds 3

It needs NumPy and PyTorch, and Hugging Face's ``datasets`` for its line. Tokens have 4 bytes in lists, and 2 in lists
of a fixed size. See ``paces.py`` for what is printed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.peers.paces import Loader, Race, run

TOKENS, BATCH = 2048, 64
#: Rows that are made at once.
_PIECE = 4000
_FILES = {"lists": "lists.parquet", "fixed": "fixed.parquet"}


def exoshuffle(kind: str, array: str, folder: Path) -> Callable[[], Iterator[int]]:
    """Our loader; nothing is converted. Lists are cast for PyTorch, which has tensors of one length only."""
    import pyarrow as pa

    import exoshuffle as xs

    xs.init(memory_limit="2GB", num_cpus=2)
    rows = xs.read_parquet(folder / _FILES[kind])
    if (kind, array) == ("lists", "torch"):
        rows = rows.cast({"tokens": pa.list_(pa.int32(), TOKENS)})
    loader = xs.DataLoader(rows, batch_size=BATCH, seed=1, format=array)
    return lambda: (sum(map(len, batch["tokens"])) for batch in loader)


def datasets(folder: Path) -> Callable[[], Iterator[int]]:
    """Hugging Face's dataset of the lists, in its own copy of the file, shuffled by indices."""
    library = importlib.import_module("datasets")
    source = str(folder / _FILES["lists"])
    rows = library.Dataset.from_parquet(source, cache_dir=str(folder / "datasets"))

    def epoch() -> Iterator[int]:
        for batch in rows.shuffle().with_format("numpy").iter(BATCH):
            yield sum(map(len, batch["tokens"]))

    return epoch


def make(folder: Path, num_rows: int) -> None:
    """Writes both files, of random tokens below 50,000."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numpy = importlib.import_module("numpy")
    folder.mkdir(parents=True)
    types = {"lists": pa.list_(pa.int32()), "fixed": pa.list_(pa.uint16(), TOKENS)}
    drawn = numpy.random.default_rng(1)
    for kind, of_column in types.items():
        schema = pa.schema({"tokens": of_column})
        with pq.ParquetWriter(folder / _FILES[kind], schema, compression="none") as written:
            for begin in range(0, num_rows, _PIECE):
                count = min(_PIECE, num_rows - begin)
                flat = pa.array(drawn.integers(0, 50_000, count * TOKENS), of_column.value_type)
                written.write_table(pa.table({"tokens": _listed(flat, count, kind)}, schema))


def _listed(flat: object, count: int, kind: str) -> object:
    import pyarrow as pa

    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, TOKENS)
    return pa.ListArray.from_arrays(
        pa.array(range(0, (count + 1) * TOKENS, TOKENS), pa.int32()), flat
    )


def _num_tokens(folder: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(folder / _FILES["fixed"]).num_rows) * TOKENS


LOADERS: dict[str, Loader] = {
    f"exoshuffle {kind} {array}": functools.partial(exoshuffle, kind, array)
    for kind in _FILES
    for array in ("numpy", "torch")
}
if importlib.util.find_spec("datasets") is not None:
    LOADERS["datasets lists"] = datasets
RACE = Race("benchmarks.peers.token_loaders", "tokens", LOADERS, make, _num_tokens)

if __name__ == "__main__":
    run(RACE, str(__doc__), 60_000)
