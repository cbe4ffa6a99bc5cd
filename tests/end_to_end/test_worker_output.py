"""Output and records of tasks in worker processes: in the program's output and loggers, in order, with their names."""
# ruff: noqa: T201, TRY301  what the tasks print and raise is what it is about

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time

import pytest

import exoshuffle as xs
from exoshuffle.errors import TaskError
from exoshuffle.testing.meeting import PATIENCE_SECONDS

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]


def test_printed_lines_come_with_task_and_process(capsys: pytest.CaptureFixture[str]) -> None:
    def tells() -> int:
        print("one", 1)
        print("two\nthree")
        print(file=sys.stderr)
        sys.stderr.write("no end")
        sys.stdout.flush()
        return os.getpid()

    pid = xs.get(xs.remote(tells, name="teller").remote())
    out, err = capsys.readouterr()
    prefix = f"(teller pid={pid}) "
    assert out == "".join(f"{prefix}{line}\n" for line in ("one 1", "two", "three"))
    assert err == f"{prefix}\n{prefix}no end\n"


def test_what_was_printed_before_a_death_is_out(capsys: pytest.CaptureFixture[str]) -> None:
    def dies() -> None:
        for number in range(300):
            print(number)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(TaskError):
        xs.get(xs.remote(dies, max_retries=0).remote())
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[-1]) for line in lines] == [*range(300)]


def test_many_lines_of_many_threads_while_the_task_asks(capsys: pytest.CaptureFixture[str]) -> None:
    def tells() -> None:
        def count(number: int) -> None:
            for line in range(2000):
                sys.stdout.write(f"{number} {line}\n")

        threads = [threading.Thread(target=count, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            xs.get(xs.put(b"x"))
        for thread in threads:
            thread.join()

    xs.get(xs.remote(tells).remote(), timeout=PATIENCE_SECONDS)
    lines = [line.split()[-2:] for line in capsys.readouterr().out.splitlines()]
    for number in range(3):
        mine = [int(line) for thread, line in lines if thread == str(number)]
        assert sorted(mine) == [*range(2000)]


def test_records_reach_the_loggers_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    def logs() -> None:
        logger = logging.getLogger("of.the.user")
        logger.info("not wanted")
        try:
            raise KeyError("inside")
        except KeyError:
            logger.exception("it failed: %s", "so")
        logging.getLogger().warning("plain")

    with caplog.at_level(logging.WARNING):
        xs.get(xs.remote(logs, name="logger").remote())
    first, second = caplog.records
    assert re.fullmatch(r"\(logger pid=\d+\) it failed: so", first.getMessage())
    assert (first.name, first.levelno, first.funcName) == ("of.the.user", logging.ERROR, "logs")
    assert first.process != os.getpid()
    assert "KeyError: 'inside'" in (first.exc_text or "")
    assert second.getMessage().endswith(" plain")


class Failing(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(record.getMessage())


class FailingStream:
    def write(self, text: str) -> None:
        raise RuntimeError(text)


@pytest.mark.parametrize("executor", ["task", "actor"])
def test_a_handler_that_fails_leaves_every_task_its_own_result(
    executor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(number: int) -> int:
        logging.getLogger("failing").error("said %d", number)
        print("on a stream that fails")
        return number

    class Speaker:
        def says(self, number: int) -> int:
            return says(number)

    logger = logging.getLogger("failing")
    handler = Failing()
    logger.addHandler(handler)
    monkeypatch.setattr(sys, "stdout", FailingStream())
    call = xs.remote(says).remote if executor == "task" else xs.remote(Speaker).remote().says.remote
    try:
        assert [xs.get(call(number)) for number in range(6)] == [*range(6)]
    finally:
        logger.removeHandler(handler)
    told = capsys.readouterr().err
    assert "said 3" in told
    assert "RuntimeError" in told


def test_a_line_in_many_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    def tells() -> float:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        begun = time.process_time()
        for _ in range(200_000):
            print(".", end="")
        return time.process_time() - begun

    # 18 s where each piece had all before it copied, 0.2 s now.
    assert xs.get(xs.remote(tells).remote(), timeout=PATIENCE_SECONDS) < 5
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.count(".") for line in lines) == 200_000
    assert len(lines) < 20


def test_printing_where_values_are_unpickled(capsys: pytest.CaptureFixture[str]) -> None:
    xs.get(xs.remote(tell_when_loaded).remote(Talker()))
    assert re.search(r"\(tell_when_loaded pid=\d+\) loaded\n", capsys.readouterr().out)


class Talker:
    def __setstate__(self, state: object) -> None:
        print("loaded")

    def __getstate__(self) -> object:
        return (1,)


def tell_when_loaded(talker: Talker) -> None:
    """Has it unpickled."""
