"""A limit that is refused as too small names one that works: the command is run with it, as a program."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exoshuffle.cloudsort import gensort
from tests.support.oracle import write_files
from tests.support.tables import distributed

#: Sizes as messages have them.
SIZE = r"(\d[\d.]* [kMG]B)"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("inputs")
    gensort(root / "records", 600_000)
    write_files(root / "table", distributed("uniform", 20_000), 2)
    return root


#: Name: (command, inputs, and the rest; which of the limits in the message they need).
COMMANDS = {
    "records": ("sort", "records", [], 0),
    "table": ("sort", "table", ["--by", "key desc"], 0),
    "shuffle": ("shuffle", "table", [], 0),
    "groups": ("groupby", "table", ["--by", "key", "--agg", "n=count()"], 1),
    "push": ("sort", "table", ["--by", "key", "--strategy", "push"], 0),
    "join": ("join", "table table", ["--on", "key"], 1),
}


#: Those whose engine and whose plan are refused by different limits; and others, with the first of these.
LIMITS = [("100MB", 2), ("140MB", 2), ("100MB", 4)]
CASES = [
    *((name, *limit) for name in ("records", "shuffle", "groups") for limit in LIMITS),
    # 20,000 rows are sorted in one piece within 140 MB.
    *(("table", *limit) for limit in LIMITS if limit[0] != "140MB"),
    *((name, *LIMITS[0]) for name in ("push", "join")),
]


@pytest.mark.parametrize(("name", "limit", "num_cpus"), CASES)
def test_the_first_limit_that_is_named_works(
    name: str, limit: str, num_cpus: int, inputs: Path, process: Callable[..., Any], tmp_path: Path
) -> None:
    command, source, options, needed = COMMANDS[name]
    paths = [*(inputs / name for name in source.split()), tmp_path / "out"]
    arguments = [command, *paths, *options, "--num-cpus", num_cpus]
    first = process(*arguments, "--memory-limit", limit)
    assert first.code == 2, first.err
    named = re.findall(SIZE, first.sentence().split("smallest that works is ")[1])
    again = process(*arguments, "--memory-limit", named[min(needed, len(named) - 1)])
    assert again.code == 0, again.err


#: Prints the limit that its refusal names for groups, if it is refused.
MAP_GROUPS = """
import re, sys
import exoshuffle as xs
from exoshuffle.errors import MemoryLimitError
try:
    xs.init(memory_limit=sys.argv[1], num_cpus=2)
    rows = xs.read_parquet(sys.argv[2]).group_by("key").map_groups(lambda group: group.slice(0, 1))
    rows.write_parquet(sys.argv[3])
except MemoryLimitError as error:
    print(re.findall(r"smallest that works is .*?(\\d[\\d.]* [kMG]B)(?: for groups|$)", str(error))[0])
"""


def test_the_limit_that_is_named_for_functions_of_groups_works(
    inputs: Path, tmp_path: Path
) -> None:
    """Beside a worker nothing was left within 150 MB; 155 MB were named, and 191 were needed."""
    arguments = [sys.executable, "-c", MAP_GROUPS]
    places = [str(inputs / "table" / "*"), str(tmp_path / "out")]

    def printed(limit: str) -> str:
        done = subprocess.run(
            [*arguments, limit, *places], capture_output=True, text=True, check=True, timeout=100
        )
        return done.stdout.strip()

    named = printed("150MB")
    assert named
    assert printed(named) == ""
