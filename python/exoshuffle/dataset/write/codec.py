"""The compression of Parquet files where none is named: that of the input, or zstd where the input has none.

Files that grow when they are only sorted surprise, and so do files that were small as CSV in a program before.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exoshuffle.dataset.tree.nodes import Node, sources

if TYPE_CHECKING:
    from exoshuffle import _native

#: The compression where the input has none, or one that is not written here (Brotli, LZO).
OTHERWISE = "zstd"
#: The compressions by the names that footers have for them.
_NAMES = {"SNAPPY": "snappy", "ZSTD": "zstd", "LZ4": "lz4", "LZ4_RAW": "lz4", "GZIP": "gzip"}


def default_compression(node: Node, file_format: str) -> str:
    """Returns the compression for files of a tree's result.

    Cost: reads the footer of the first Parquet file.
    """
    if file_format != "parquet":
        return "none"
    read = [source for source in sources(node) if source.format == "parquet" and source.places]
    return _codec_of(read[0]) if read else OTHERWISE


def _codec_of(source: _native.Source) -> str:
    """Returns the codec of most bytes of the first row group of a source's first file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sizes: Counter[str] = Counter()
    try:
        with pq.ParquetFile(source.places[0]) as file:
            if file.metadata.num_row_groups:
                group = file.metadata.row_group(0)
                chunks = [group.column(index) for index in range(group.num_columns)]
                for chunk in chunks:
                    sizes[_NAMES.get(chunk.compression, OTHERWISE)] += chunk.total_compressed_size
    except (OSError, pa.ArrowException):
        # Whoever reads the rows says what is wrong with the file.
        return OTHERWISE
    return sizes.most_common(1)[0][0] if sizes else OTHERWISE
