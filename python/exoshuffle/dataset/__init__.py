"""The lazy dataset."""

from exoshuffle.dataset.dataset import Dataset
from exoshuffle.dataset.read import read_csv, read_ipc, read_json, read_parquet, read_records

__all__ = ["Dataset", "read_csv", "read_ipc", "read_json", "read_parquet", "read_records"]
