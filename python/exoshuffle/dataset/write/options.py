"""The options of writing files: as users give them, and as the native writer takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.place import is_stream
from exoshuffle.dataset.tree.facts import dictionary_columns
from exoshuffle.dataset.tree.nodes import Node
from exoshuffle.dataset.write.partitioning import MAX_FOLDERS
from exoshuffle.errors import OptionsError
from exoshuffle.operators.core.keys import names_of, once
from exoshuffle.units import parse_bytes


@dataclass(frozen=True)
class WriteOptions:
    """The options of files that are written.

    Attributes:
        format: The name of a format that can be written, such as ``parquet``.
        compression: See ``Dataset.write_parquet``.
        target_file_size: See ``Dataset.write_parquet``.
        partition_by: See ``Dataset.write_parquet``.
    """

    format: str
    compression: str = "none"
    target_file_size: int | str | None = None
    partition_by: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.format not in tuple(FORMATS):
            raise OptionsError(f"unknown format {self.format!r}; known are {', '.join(FORMATS)}")
        if self.compression not in FORMATS[self.format].compressions:
            known = ", ".join(FORMATS[self.format].compressions)
            raise OptionsError(
                f"{self.format} cannot be compressed by {self.compression!r}; known are {known}"
            )
        target = self.target_bytes
        if target is not None and target < 1:
            raise OptionsError(f"target_file_size is {target}; it must be at least 1 byte")
        if self.partition_by is not None and not self.folders:
            raise OptionsError("partition_by names no column; name one, or leave it out")

    @property
    def folders(self) -> tuple[str, ...]:
        """The columns that become folders."""
        return (
            () if self.partition_by is None else once(names_of(self.partition_by, "partition_by"))
        )

    @property
    def target_bytes(self) -> int | None:
        """The size of a file, if one was asked for."""
        return None if self.target_file_size is None else parse_bytes(self.target_file_size)

    def native(self, node: Node, row_group_bytes: int, path: str = "") -> _native.WriteOptions:
        """Returns the options of the native writer; ``path`` is the path of a single file."""
        return _native.WriteOptions(
            self.format,
            compression=self.compression,
            target_file_bytes=self.target_bytes,
            row_group_bytes=row_group_bytes,
            dictionary_columns=dictionary_columns(node),
            ipc_stream=is_stream(path),
            csv_tabs=path.lower().endswith(".tsv"),
            partition_by=self.folders or None,
            max_folders=MAX_FOLDERS,
        )
