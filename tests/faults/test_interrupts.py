"""Ctrl-C and kill -9 in the middle of a sort: nothing half-written stays, at the latest after the next run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from exoshuffle.units import parse_bytes

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
#: A size that takes 0.7 s to write, long after a signal at its first byte, and that small disks have room for.
LARGE = "2GB"
PROGRAM = [sys.executable, "-c", "from exoshuffle_command import main; main()"]


class Sort:
    """``exoshuffle sort`` of the records as a process of its own."""

    def __init__(self, records: Path, *options: str) -> None:
        self.folder = records.parent
        self.output = self.folder / "output"
        self.spill = self.folder / "spill"
        self.spill.mkdir(exist_ok=True)
        arguments = ["sort", str(records), str(self.output), "--spill-dir", str(self.spill)]
        limit = ["--memory-limit", "190MB", "--num-cpus", "2"]
        self.process = subprocess.Popen(
            [*PROGRAM, *arguments, *limit, *options], stderr=subprocess.PIPE, text=True
        )

    def staging(self) -> list[Path]:
        return list(self.folder.glob(".output.exoshuffle-*"))

    def await_state(self, reached: Callable[[], bool]) -> None:
        """Polls until the process has come so far; it must not have ended before."""
        deadline = time.monotonic() + 60
        while not reached():
            assert self.process.poll() is None, self.process.stderr
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def has_begun(self) -> bool:
        return bool(self.staging())

    def has_spilled(self) -> bool:
        """Whether the process has an unlinked spill file with something in it."""
        folder = f"/proc/{self.process.pid}/fd"
        for descriptor in os.listdir(folder):
            try:
                link = os.readlink(f"{folder}/{descriptor}")
                if link.startswith(f"{self.spill}/") and os.stat(f"{folder}/{descriptor}").st_size:
                    return True
            except OSError:
                continue
        return False

    def has_written(self) -> bool:
        return any(
            path.suffix == ".records" for folder in self.staging() for path in folder.iterdir()
        )


@pytest.mark.parametrize("state", ["has_begun", "has_spilled", "has_written"])
@pytest.mark.parametrize("signal_number", ENDING)
def test_interrupted_sorts_clean_up(records: Path, state: str, signal_number: int) -> None:
    sort = Sort(records)
    sort.await_state(getattr(sort, state))
    sent = time.monotonic()
    sort.process.send_signal(signal_number)
    _, err = sort.process.communicate(timeout=30)
    assert time.monotonic() - sent < 3
    assert sort.process.returncode == 128 + signal_number, err
    assert err.splitlines()[-1] == "exoshuffle: interrupted; nothing was written"
    assert "Traceback" not in err
    assert sort.staging() == []
    assert not sort.output.exists()
    assert list(sort.spill.iterdir()) == []


@pytest.mark.parametrize("state", ["has_spilled", "has_written"])
def test_what_a_killed_sort_left_is_removed_by_the_next(
    records: Path, check_sorted: Callable[[Path], None], state: str
) -> None:
    killed = Sort(records)
    killed.await_state(getattr(killed, state))
    killed.process.kill()
    killed.process.communicate()
    assert list(killed.spill.iterdir()) == []
    assert len(killed.staging()) == 1
    assert not killed.output.exists()
    again = Sort(records)
    _, err = again.process.communicate(timeout=60)
    assert again.process.returncode == 0, err
    assert again.staging() == []
    assert list(again.spill.iterdir()) == []
    check_sorted(again.output)


def test_a_running_sort_keeps_its_files(records: Path) -> None:
    first = Sort(records)
    first.await_state(first.has_written)
    (staging,) = first.staging()
    first.process.send_signal(signal.SIGSTOP)
    second = Sort(records, "--overwrite")
    second.await_state(lambda: len(second.staging()) == 2)
    assert staging in second.staging()
    for sort in (second, first):
        sort.process.kill()
        sort.process.communicate()


INTERRUPTED = """
import signal, sys

class Finder:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder)
from exoshuffle_command import main
main()
"""


@pytest.mark.parametrize(
    "module",
    ["exoshuffle", "exoshuffle.futures", "exoshuffle.dataset.dataset", "exoshuffle.cli.main"],
)
def test_interrupts_while_the_program_is_imported(module: str) -> None:
    arguments = [sys.executable, "-c", INTERRUPTED, module]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nexoshuffle: interrupted; nothing was written\n"


AGAIN = """
import signal, sys
from exoshuffle.cli import main as cli
from exoshuffle.futures import shutdown
main = sys.modules["exoshuffle.cli.main"]

def interrupted():
    signal.raise_signal(signal.SIGINT)
    shutdown()

main.shutdown = interrupted
cli()
"""


def test_an_interrupt_while_the_program_shuts_down() -> None:
    arguments = [sys.executable, "-c", AGAIN, "valsort", "nowhere"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 130
    assert done.stderr.startswith("exoshuffle: ")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def _interrupted(arguments: list[str], has_begun: Callable[[int], bool], number: int) -> str:
    """Starts a program, sends it a signal when it has begun, and returns what it said, long before its work is done."""
    with subprocess.Popen([*PROGRAM, *arguments], stderr=subprocess.PIPE, text=True) as running:
        while not has_begun(running.pid):
            assert running.poll() is None, running.communicate()[1]
            os.sched_yield()
        running.send_signal(number)
        _, err = running.communicate(timeout=20)
        assert running.returncode == 128 + number
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle_of_a_large_file_of_records(number: int, tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        files: list[BinaryIO] = []

        def has_begun(pid: int) -> bool:
            del pid
            found = tmp_path.glob(".out.exoshuffle-*/part-*")
            files.extend(held.enter_context(path.open("rb")) for path in found)
            return bool(files)

        arguments = ["gensort", LARGE, str(tmp_path / "out"), "--partitions", "1"]
        err = _interrupted(arguments, has_begun, number)
        assert os.fstat(files[0].fileno()).st_size < parse_bytes(LARGE)
    assert err.splitlines()[-1] == "exoshuffle: interrupted; nothing was written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_a_large_file_is_checked(number: int, tmp_path: Path) -> None:
    file = tmp_path / "zeros.dat"
    with file.open("wb") as stream:
        stream.truncate(100_000_000_000)  # a hole: takes no room

    def has_begun(pid: int) -> bool:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(descriptor) == str(file):
                    return True
        return False

    err = _interrupted(["valsort", str(file)], has_begun, number)
    assert err.splitlines()[-1] == "exoshuffle: interrupted"


def test_a_signal_that_was_ignored_stays_so(tmp_path: Path) -> None:
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + PROGRAM[2]
    arguments = [sys.executable, "-c", script, "gensort", LARGE, str(tmp_path / "out")]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as running:
        while not list(tmp_path.glob(".out.exoshuffle-*/part-*")):
            assert running.poll() is None
            os.sched_yield()
        running.send_signal(signal.SIGHUP)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=20)
        assert running.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("unread", [{"stdout"}, {"stderr"}, {"stdout", "stderr"}])
@pytest.mark.parametrize("output", ["out", "in-the-way"])
def test_nobody_reads_what_is_printed(tmp_path: Path, unread: set[str], output: str) -> None:
    (tmp_path / "in-the-way").touch()
    reading, writing = os.pipe()
    os.close(reading)
    streams = {
        name: writing if name in unread else subprocess.PIPE for name in ("stdout", "stderr")
    }
    arguments = [*PROGRAM, "gensort", "1000", str(tmp_path / output)]
    done = subprocess.run(arguments, **streams, text=True, timeout=60, check=False)
    os.close(writing)
    # A program that has something to print, and cannot, ends as others do then. One that has nothing does not notice.
    is_said_on = "stdout" if output == "out" else "stderr"
    usual = 0 if output == "out" else 1
    assert done.returncode == (128 + signal.SIGPIPE if is_said_on in unread else usual)
    assert not done.stderr or (output == "in-the-way" and len(done.stderr.splitlines()) == 1)
    assert list((tmp_path / output).glob("part-*")) != [] if output == "out" else True


LIBRARY = """
import os, signal, sys
import pyarrow as pa
import exoshuffle as xs

def leave(number, frame):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    raise SystemExit(7)

def stop(table):
    if table.num_rows:
        os.kill(driver, signal.SIGHUP)
        signal.pause()
    return table

if __name__ == "__main__":
    driver = os.getpid()
    signal.signal(signal.SIGHUP, leave)
    xs.init(memory_limit="400MB", num_cpus=2, spill_dirs=sys.argv[1])
    rows = xs.read_csv(sys.argv[1] + "/in.csv").map_batches(stop, schema=pa.schema({"a": pa.int64()}))
    rows.write_parquet(sys.argv[1] + "/out")
"""


def test_a_program_with_a_handler_of_its_own_leaves_by_it(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n2\n")
    arguments = [sys.executable, "-c", LIBRARY, str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
