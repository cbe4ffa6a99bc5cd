"""Shuffle as a library: sort data larger than memory, on distributed futures.

>>> import exoshuffle as xs
>>> xs.init(memory_limit="2GB")
>>> xs.read_parquet("in/").sort("ts", descending=True).write_parquet("out/")
"""

import importlib
from typing import TYPE_CHECKING, Any

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
    get_gpu_ids,
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
from exoshuffle.version import __version__

if TYPE_CHECKING:
    from exoshuffle import pipelines
    from exoshuffle.dataset import read as _read
    from exoshuffle.dataset.names import (
        Dataset,
        coalesce,
        col,
        concat,
        corr,
        cov,
        cume_dist,
        dense_rank,
        from_arrow,
        from_dict,
        from_generator,
        from_items,
        from_pandas,
        from_polars,
        from_pydict,
        len,  # noqa: A004, F401  called as xs.len
        lit,
        merge,
        ntile,
        percent_rank,
        range,  # noqa: A004, F401  called as xs.range
        rank,
        read_images,
        row_number,
        sql,
        when,
    )
    from exoshuffle.dataset.read import *  # noqa: F403  its ``__all__`` is the list of readers
    from exoshuffle.strategies.functions import shuffle
    from exoshuffle.training import DataLoader, mix

# Without ``len`` and ``range``, so that a star import leaves Python's.
__all__ = [
    "ActorHandle",
    "ActorOptions",
    "DataLoader",
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
    "coalesce",
    "col",
    "concat",
    "corr",
    "cov",
    "cume_dist",
    "dense_rank",
    "from_arrow",
    "from_dict",
    "from_generator",
    "from_items",
    "from_pandas",
    "from_polars",
    "from_pydict",
    "get",
    "get_gpu_ids",
    "init",
    "kill",
    "lit",
    "locate",
    "merge",
    "mix",
    "nodes",
    "ntile",
    "percent_rank",
    "pipelines",
    "put",
    "rank",
    "read_images",
    "remote",
    "row_number",
    "shuffle",
    "shutdown",
    "slice_bytes",
    "sql",
    "wait",
    "when",
]
_OURS = __all__
if TYPE_CHECKING:
    __all__ += _read.__all__
else:
    # Completed when it is asked for: only the module of readers knows their names, and it takes long to import.
    del __all__

#: Names that ``exoshuffle.dataset.names`` has are imported when first used: those of ``__all__``, and these two. They
#: would take half of the package's import, and worker processes need none.
_OF_PYTHON = ("len", "range")
#: Likewise, each with its module.
_HOMES = {
    "DataLoader": "exoshuffle.training",
    "mix": "exoshuffle.training",
    "shuffle": "exoshuffle.strategies.functions",
}
#: Modules that are names of the package, too.
_ROOMS = {"pipelines": "exoshuffle.pipelines", "sim": "exoshuffle.engines.sim"}


def __getattr__(name: str) -> Any:
    """Imports the module of datasets late, and so those of what fewer programs use."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name == "__all__":
        return _all()
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _all() or name in _OF_PYTHON:
        return getattr(importlib.import_module("exoshuffle.dataset.names"), name)
    elsewhere = importlib.import_module("exoshuffle.dataset.elsewhere")
    if name in elsewhere.TYPES:
        return elsewhere.TYPES[name]
    remedy = f"; {elsewhere.ON_PACKAGE[name]}" if name in elsewhere.ON_PACKAGE else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{remedy}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_all(), *_OF_PYTHON, *_ROOMS})


def _all() -> list[str]:
    """Returns ``__all__``."""
    return sorted([*_OURS, *importlib.import_module("exoshuffle.dataset.read").__all__])
