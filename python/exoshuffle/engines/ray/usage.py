"""The memory that the processes of a Ray have taken that was started here, and what it has spilled.

Ray itself does not tell the former. It tells the latter to clients of gRPC alone, which it does not bring. Its log
tells it too, but for the last second. So the files are counted that it writes to its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker

from exoshuffle.engines.ray.written_files import WrittenFiles

_LINES = re.compile(r"^(VmHWM|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)


def processes_peak_bytes() -> int:
    """Returns the most that the processes of the Ray that was started here have taken, each at its own time.

    The object store and libraries count once: their pages are part of every process that reads them.
    """
    peaks = list(_own_and_shared_bytes())
    return sum(own for own, _ in peaks) + max((shared for _, shared in peaks), default=0)


def watch_spilled() -> WrittenFiles | None:
    """Counts from now on the files that the Ray which was started here spills to; None if that cannot be done."""
    config = json.loads(ray_worker._global_node._object_spilling_config)
    folder = config["params"].get("directory_path")
    if not isinstance(folder, str):
        return None  # the environment names a storage, or several folders
    node = ray.get_runtime_context().get_node_id()
    spill_folder = os.path.join(folder, f"{ray_constants.DEFAULT_OBJECT_PREFIX}_{node}")
    try:
        # Ray makes the folder when it spills first.
        os.makedirs(spill_folder, exist_ok=True)
        return WrittenFiles(spill_folder)
    except OSError:  # there may be no more watches for this user
        return None


def _own_and_shared_bytes() -> Iterator[tuple[int, int]]:
    for process in _processes():
        # The file of a process that has just ended lacks these lines, or is gone.
        with contextlib.suppress(OSError, KeyError):
            text = Path(f"/proc/{process}/status").read_text()
            kilobytes = {name: int(number) for name, number in _LINES.findall(text)}
            shared = kilobytes["RssFile"] + kilobytes["RssShmem"]
            yield 1024 * max(0, kilobytes["VmHWM"] - shared), 1024 * shared


def _processes() -> Iterator[int]:
    for infos in ray_worker._global_node.all_processes.values():
        for info in infos:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(info.process.pid)
                yield process.pid
                yield from (child.pid for child in process.children(recursive=True))
