"""The lazy dataset."""

from exoshuffle.dataset.dataset import Aggregated, Dataset
from exoshuffle.dataset.online import Partial
from exoshuffle.dataset.read import (
    read_binary,
    read_csv,
    read_ipc,
    read_json,
    read_parquet,
    read_records,
    read_text,
)

__all__ = [
    "Aggregated",
    "Dataset",
    "Partial",
    "read_binary",
    "read_csv",
    "read_ipc",
    "read_json",
    "read_parquet",
    "read_records",
    "read_text",
]
