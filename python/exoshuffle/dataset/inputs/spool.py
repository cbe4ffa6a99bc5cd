"""Copies inputs that cannot be cut or read at any place, so that they can be: compressed text, and standard input.

Each such input is decompressed or copied once, when the dataset is made, into a file without a name in the spill
directories. The file goes with the dataset, or with the process. So tasks read it side by side, and memory holds the
windows of the decoders and no more. An input that is cut off or damaged is found before anything is made of it.

Tasks in other processes find the files below ``/proc``, by the number of this process, so only on this machine.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from exoshuffle import _native
from exoshuffle.dataset.files.formats import FORMATS
from exoshuffle.dataset.files.place import STANDARD
from exoshuffle.errors import DiskFullError, InputError, OutputError
from exoshuffle.futures import current_engine
from exoshuffle.late_dataclasses import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

#: The name of standard input in messages.
NAME = "standard input"
PIECE_BYTES = 1 << 20
#: Longest wait: without it, an interrupt would wait for the end of a file.
LOOK_UP_SECONDS = 0.1
#: All decoders together may take this share of the memory limit.
MEMORY_SHARE = 4
#: A line above this share of the memory limit is refused, because memory has several copies of a row that is read.
LINE_SHARE = 4
#: Descriptors that are left for everything else.
OTHER_DESCRIPTORS = 256


class Kept:
    """A file without a name, mode 0600, which is closed with the last reference to this object.

    Args:
        folder: The directory that it is in.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it stays open
        self.descriptor = self.file.fileno()
        # Closes the file before it is collected, also if both are part of a cycle with the traceback of an error.
        weakref.finalize(self, self.file.close)

    def located(self, name: str) -> str:
        """Returns a path that has the name which people know, and the place of the bytes."""
        return _native.located(name, f"/proc/{os.getpid()}/fd/{self.descriptor}")

    def start(self, num_bytes: int) -> bytes:
        """Returns its first bytes."""
        return os.pread(self.descriptor, num_bytes, 0)


@dataclass
class Spool:
    """Files without a name, and how to read them.

    Attributes:
        paths: Paths of all files of the input, with the places of those that were copied; None if none was.
        format: The format of all files, if that is known.
        files: The copies, which stay open as long as they are read.
    """

    paths: list[str] | None = None
    format: str | None = None
    files: list[Kept] = field(default_factory=list)

    def add(self) -> Kept:
        """Makes a new file."""
        # An engine that spills by itself may name no directory.
        folders = current_engine().spill_dirs or [tempfile.gettempdir()]
        self.files.append(Kept(folders[len(self.files) % len(folders)]))
        return self.files[-1]


def spooled(names: Sequence[str], file_format: str | None) -> Spool:
    """Copies the files of an input that have to be copied.

    Args:
        names: Files, directories and patterns; ``-`` is standard input, which may be compressed itself.
        file_format: The format of all files; None if their names tell it, or the first bytes of standard input.

    Raises:
        InputError: A file is cut off or damaged; or formats differ.
        DiskFullError: The spill directories have no room.
        MemoryLimitError: The window that a file was compressed with, or a line, takes more memory than there is.

    Cost: decompresses each file once, as many at once as there are CPUs, and writes the text to the spill directories.
    """
    spool = Spool(format=file_format)
    if STANDARD in names:
        if list(names) != [STANDARD]:
            raise InputError("- is standard input, which is read alone; leave out the other paths")
        _keep_standard_input(spool)
        return spool
    if file_format is not None and not FORMATS[file_format].is_text:
        return spool
    listed = _native.list_compressed(list(names), file_format)
    packed = [(path, codec) for path, codec, _ in listed if codec is not None]
    if not packed:
        return spool
    spool.format = _common_format([(path, said) for path, _, said in listed])
    _allow_descriptors(len(packed))
    copies = dict(zip((path for path, _ in packed), _decompressed(spool, packed), strict=True))
    spool.paths = [copies.get(path, path) for path, _, _ in listed]
    return spool


def _common_format(files: Sequence[tuple[str, str | None]]) -> str:
    first, said = files[0]
    for path, other in files:
        if other is None:
            raise InputError(
                f"the format of {path!r} cannot be told from its name; pass the format, csv or jsonl"
            )
        if other != said:
            raise InputError(
                f"{first!r} looks like {said} but {path!r} looks like {other}; pass the format if all files have the "
                "same, or read them separately"
            )
    assert said is not None
    return said


def _decompressed(spool: Spool, packed: Sequence[tuple[str, str]]) -> list[str]:
    """Decompresses files side by side; returns their located paths."""
    engine = current_engine()
    threads = min(engine.num_cpus, len(packed))
    bounds = engine.memory_limit // (MEMORY_SHARE * threads), engine.memory_limit // LINE_SHARE
    from concurrent.futures import ThreadPoolExecutor

    stop = _native.Stop()

    def unpack(path: str, codec: str, to: Kept) -> str:
        _native.decompress(path, codec, (to.descriptor, to.folder), bounds, stop)
        return to.located(_native.shown_path(path))

    with ThreadPoolExecutor(threads) as pool:
        made = [pool.submit(unpack, path, codec, spool.add()) for path, codec in packed]
        try:
            return list(_results(made))
        except BaseException as error:
            stop.set()
            pool.shutdown(cancel_futures=True)
            if isinstance(
                error, OutputError
            ):  # a spill directory without room is what it is anywhere else
                raise DiskFullError(f"{error}, which spill_dirs names") from error
            raise


def _results(made: Sequence[Future[str]]) -> Iterator[str]:
    """Yields the results in order, or raises the first failure. Wakes up now and then: a wait may miss a signal."""
    from concurrent.futures import wait

    for future in made:
        while not wait([future], LOOK_UP_SECONDS).done:
            failed = next((each for each in made if each.done() and each.exception()), None)
            if failed is not None:
                failed.result()
        yield future.result()


def _keep_standard_input(spool: Spool) -> None:
    descriptor = _standard_input()
    kept = spool.add()
    while piece := os.read(descriptor, PIECE_BYTES):
        _write_all(kept, piece)
    path = kept.located(NAME)
    codec = _native.codec_of(kept.start(4))
    if codec is not None:
        (path,) = _decompressed(spool, [(path, codec)])
        kept = spool.files[-1]
    spool.paths = [path]
    spool.format = spool.format or _native.format_of_start(kept.start(PIECE_BYTES))


def _standard_input() -> int:
    try:
        return sys.stdin.fileno()
    except (
        AttributeError,
        OSError,
        ValueError,
    ) as error:  # it was closed, or is none of the system's
        raise InputError(
            "standard input is closed, or is no stream of the system, as in a notebook; name a file"
        ) from error


def _write_all(kept: Kept, data: bytes) -> None:
    try:
        kept.file.write(data)
        kept.file.flush()
    except OSError as error:
        raise DiskFullError(
            f"standard input cannot be kept in {kept.folder}: {error.strerror}; name spill_dirs with more room"
        ) from error


def _allow_descriptors(count: int) -> None:
    """Raises the limit of open files to make room for ``count`` more.

    Raises:
        InputError: The system does not allow so many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + len(os.listdir("/dev/fd")) + OTHER_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise InputError(
            f"{count} compressed files take a descriptor each, and the system allows {hard} to a process; raise the "
            "limit (ulimit -n), or decompress them first"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
