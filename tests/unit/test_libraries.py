"""Libraries that are loaded after the engine has started are taken off its budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from exoshuffle.engines.local.memory.libraries import LIBRARY_BYTES, NEEDED_BYTES

#: In a process of its own, because libraries are loaded once.
PROGRAM = """
import json
import exoshuffle as xs
engine = xs.init(memory_limit="400MB", num_cpus=1)
found = [engine.budget_bytes]
import pyarrow as pa
found += [engine.budget_bytes, engine.budget_bytes, pa.default_memory_pool().backend_name]
import duckdb
found += [engine.budget_bytes, engine.stats()["reserved_bytes"]]
import sys, types
for name in ("pandas", "polars"):  # not all environments have them
    sys.modules[name] = types.ModuleType(name)
    found.append(engine.budget_bytes)
print(json.dumps(found))
"""


def run(**variables: str) -> list[int | str]:
    """The output of the program."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("ARROW_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=known | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: list[int | str] = json.loads(done.stdout)
    return found


def test_each_is_taken_off_once() -> None:
    full, with_arrow, again, allocator, with_both, reserved, with_pandas, with_polars = run()
    assert isinstance(full, int)
    assert with_arrow == again == full - LIBRARY_BYTES["pyarrow"]
    assert with_both == full - sum(NEEDED_BYTES.values())
    assert reserved == sum(NEEDED_BYTES.values())
    assert with_pandas == with_both - LIBRARY_BYTES["pandas"]
    assert with_polars == full - sum(LIBRARY_BYTES.values())
    assert allocator == "jemalloc"


def test_the_users_choice_of_an_allocator_stays() -> None:
    assert run(ARROW_DEFAULT_MEMORY_POOL="system")[3] == "system"


#: The limit leaves DuckDB no room beside pyarrow.
NO_ROOM = """
import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from exoshuffle.engines.local.memory.libraries import NEEDED_BYTES
engine = xs.init(memory_limit=limits.limit_for(sum(NEEDED_BYTES.values()) - 10_000_000), num_cpus=2)
import pyarrow
engine.budget_bytes
import duckdb
for _ in range(2):
    try:
        engine.budget_bytes
    except xs.ExoshuffleError as error:
        print(type(error).__name__, error)
xs.shutdown()
"""


def test_one_that_has_no_room_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM], capture_output=True, text=True, timeout=60, check=True
    )
    first, again = done.stdout.splitlines()
    assert first.startswith("MemoryLimitError memory limit ")
    assert "the smallest that works is" in first
    assert again.startswith("MemoryLimitError memory limit ")


#: A task has set apart for itself what the library would take.
IN_A_TASK = """
import json
import exoshuffle as xs
engine = xs.init(memory_limit="400MB", num_cpus=1)
import pyarrow
full = engine.budget_bytes
def load():
    import duckdb
    return engine.budget_bytes
loading = xs.remote(load, executor="thread", memory=full - 10_000_000)
print(json.dumps([full, xs.get(loading.remote()), engine.budget_bytes]))
"""


def test_a_task_does_not_wait_for_room() -> None:
    """Memory that it has itself, or that a task has which waits for it, would never come."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_TASK], capture_output=True, text=True, timeout=60, check=True
    )
    full, in_task, behind = json.loads(done.stdout)
    assert in_task == behind == full - LIBRARY_BYTES["duckdb"]
