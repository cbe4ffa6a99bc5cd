"""Tasks, actors and stages know the GPUs that they occupy; nobody looks for hardware, so these are only declared."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import exoshuffle as xs
from exoshuffle.engines.local.memory import limits
from tests.support.limits import ROOMY_BUDGET_BYTES

pytestmark = pytest.mark.shares_engine


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xs.futures.Engine]:
    yield xs.init(
        memory_limit=limits.limit_for(ROOMY_BUDGET_BYTES),
        spill_dirs=str(tmp_path_factory.mktemp("spill")),
        num_cpus=2,
        num_gpus=2,
    )
    xs.shutdown()


def seen():
    begun = time.monotonic()
    time.sleep(0.05)
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return xs.get_gpu_ids(), shown, begun, time.monotonic()


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_tasks_that_overlap_have_different_gpus(executor):
    run = xs.remote(seen, num_gpus=1, num_cpus=0.5, executor=executor)
    runs = xs.get([run.remote() for _ in range(6)])
    assert {tuple(ids) for ids, *_ in runs} <= {(0,), (1,)}
    for number, (ids, shown, begun, ended) in enumerate(runs):
        if executor == "process":
            assert shown == str(ids[0])
        for others, _, other_begun, other_ended in runs[:number]:
            assert ids != others or ended <= other_begun or other_ended <= begun


def test_a_task_without_gpus_sees_what_the_program_sees():
    assert xs.get(xs.remote(seen, num_gpus=2).remote())[:2] == ([0, 1], "0,1")
    assert xs.get(xs.remote(seen).remote())[:2] == ([], os.environ.get("CUDA_VISIBLE_DEVICES"))
    assert xs.get_gpu_ids() == []


def test_an_actor_keeps_its_gpu_until_it_ends():
    class Model:
        def __init__(self):
            self.made = seen()[:2]

        def ids(self):
            return self.made, seen()[:2]

    first, second = (xs.remote(Model, num_gpus=1, num_cpus=0).remote() for _ in range(2))
    told = xs.get([first.ids.remote(), second.ids.remote()])
    assert sorted(told) == [(([n], str(n)), ([n], str(n))) for n in range(2)]
    del first, second
    assert xs.get(xs.remote(seen, num_gpus=2).remote())[0] == [0, 1]


def test_a_process_that_has_seen_other_gpus_is_not_taken():
    def pid(others):
        time.sleep(0.1)
        return os.getpid(), xs.get_gpu_ids(), others

    run = xs.remote(pid, num_gpus=1)
    by_process = {}
    for process, ids, _ in xs.get([run.remote(number) for number in range(8)]):
        assert by_process.setdefault(process, ids) == ids


def test_a_failed_attempt_gives_its_gpus_back(tmp_path: Path):
    def dying(mark):
        if not os.path.exists(mark):
            with open(mark, "w"):
                os._exit(3)
        return xs.get_gpu_ids()

    run = xs.remote(dying, num_gpus=2, max_retries=1)
    assert xs.get(run.remote(str(tmp_path / "mark"))) == [0, 1]
    assert xs.get(run.remote(str(tmp_path / "mark"))) == [0, 1]


def test_objects_of_a_stage_have_different_gpus():
    class Tell:
        def __init__(self):
            self.ids = xs.get_gpu_ids()

        def __call__(self, batch):
            time.sleep(0.02)
            return {"gpu": self.ids * batch.num_rows, "pid": [os.getpid()] * batch.num_rows}

    rows = xs.range(20_000).repartition(16)
    schema = pa.schema({"gpu": pa.int64(), "pid": pa.int64()})
    tell = rows.map_batches(Tell, schema=schema, num_gpus=1, concurrency=2, batch_size=500)
    told = tell.to_arrow()
    pairs = set(zip(*told.to_pydict().values(), strict=True))
    gpus, pids = zip(*pairs, strict=True)
    assert len(set(gpus)) == len(set(pids)) == len(pairs)
    assert set(gpus) <= {0, 1}


def test_the_first_gpu_is_the_first_that_the_program_sees():
    program = """
import os, exoshuffle as xs
xs.init(num_gpus=2, num_cpus=1, memory_limit="500MB")
told = lambda: (xs.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"])
print(xs.get([xs.remote(told, num_gpus=2).remote(), xs.remote(told).remote()]))
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "5, GPU-8"}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == "[([0, 1], '5,GPU-8'), ([], '5, GPU-8')]"
