"""Shuffle as a library: sort data larger than memory, on distributed futures.

>>> import exoshuffle as xs
>>> xs.init(memory_limit="2GB")
>>> xs.read_parquet("in/").sort("ts", descending=True).write_parquet("out/")
"""

from exoshuffle.dataset import Dataset, read_csv, read_ipc, read_json, read_parquet, read_records
from exoshuffle.errors import ExoshuffleError
from exoshuffle.futures import (
    ActorHandle,
    ActorOptions,
    Node,
    Ref,
    Refs,
    RefStream,
    TaskOptions,
    allocate_block,
    cancel,
    get,
    init,
    kill,
    locate,
    nodes,
    put,
    remote,
    shutdown,
    slice_bytes,
    wait,
)

# The function takes the place of the package as an attribute; ``from exoshuffle.shuffle import ...`` finds the package.
from exoshuffle.shuffle.functions import shuffle

__version__ = "0.1.0"

__all__ = [
    "ActorHandle",
    "ActorOptions",
    "Dataset",
    "ExoshuffleError",
    "Node",
    "Ref",
    "RefStream",
    "Refs",
    "TaskOptions",
    "__version__",
    "allocate_block",
    "cancel",
    "get",
    "init",
    "kill",
    "locate",
    "nodes",
    "put",
    "read_csv",
    "read_ipc",
    "read_json",
    "read_parquet",
    "read_records",
    "remote",
    "shuffle",
    "shutdown",
    "slice_bytes",
    "wait",
]
