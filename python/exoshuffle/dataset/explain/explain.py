"""Explains what a result would take: the bill of its tree, and the files that it would make."""

from __future__ import annotations

import dataclasses

from exoshuffle._native import StoredPath
from exoshuffle.dataset.explain.bill import Bill
from exoshuffle.dataset.explain.bills import Estimation, bill_of
from exoshuffle.dataset.files.place import kind_of
from exoshuffle.dataset.tree.lowering import moved_filters
from exoshuffle.dataset.tree.needed import pruned
from exoshuffle.dataset.tree.nodes import Node, ShuffleNode
from exoshuffle.dataset.tree.seeds import seeds_of
from exoshuffle.dataset.write.existing import Existing
from exoshuffle.dataset.write.options import WriteOptions
from exoshuffle.dataset.write.output import OutputSize, Result, estimated_size
from exoshuffle.dataset.write.partitioning import estimated_folders, partitioned
from exoshuffle.dataset.write.write import check_format, output_of
from exoshuffle.futures import DescribedEngine, Engine
from exoshuffle.late_dataclasses import dataclass
from exoshuffle.observe.disks import free_bytes, is_same_disk
from exoshuffle.plan.workload import ResultPlace


@dataclass(frozen=True)
class Destination:
    """The place where a result would go.

    Attributes:
        results: Files, or the other place of the result.
        path: The directory of the files, if that is known.
        options: How the files are written.
        overwrite: Says which output may be replaced, or added to.
    """

    results: ResultPlace
    path: str | None
    options: WriteOptions
    overwrite: Existing = False


def explain_node(node: Node, engine: Engine, to: Destination) -> Bill:
    """Plans the last shuffle of a tree, and estimates those below it; without a shuffle, bills the reading.

    Args:
        node: The tree.
        engine: The engine that would run it.
        to: Where its result would go.

    Raises:
        ExoshuffleError: Any error that writing it there would raise before its first task, except for a full disk.
    """
    if to.results != "files":
        return dataclasses.replace(
            bill_of(pruned(node), engine, to.results)[0],
            moved_filters=moved_filters(node),
            seeds=seeds_of(node),
            runs_on=_described(engine),
        )
    check_format(node, to.options)
    folder: StoredPath | None = None
    place: ResultPlace = "files"
    if to.path is not None:
        output = output_of(node, to.path, to.options, to.overwrite)
        folder = None if output is None else output.existing_folder
        place = "files" if kind_of(to.path) == "directory" else "file"
    folders = to.options.folders
    node = partitioned(node, folders)
    bill, result = bill_of(pruned(node), engine, place)
    size = estimated_size(node, result, to.options)
    num_folders = _folders(node, engine, folders) if folders else 0
    return dataclasses.replace(
        bill,
        output_files=_files(size, num_folders, result) if place == "files" else 1,
        output_folders=num_folders,
        output_bytes=size.num_bytes,
        output_is_most=size.is_most,
        output_free_bytes=None if folder is None else free_bytes([str(folder)]),
        moved_filters=moved_filters(node),
        shares_disk=folder is not None and is_same_disk(str(folder), engine.spill_dirs),
        seeds=seeds_of(node),
        runs_on=_described(engine),
    )


def _described(engine: Engine) -> tuple[str, ...]:
    return tuple(engine.described()) if isinstance(engine, DescribedEngine) else ()


def _folders(node: Node, engine: Engine, names: tuple[str, ...]) -> int:
    assert isinstance(node, ShuffleNode)
    return estimated_folders(Estimation(engine).shuffle_job(node, "files"), names)


def _files(size: OutputSize, num_folders: int, result: Result) -> int:
    """Returns the number of files: parts are cut into folders, and the rows of a folder at the size of a file."""
    if not num_folders:
        return size.num_files
    return num_folders + max(0, size.num_files - max(result.num_parts, num_folders))
