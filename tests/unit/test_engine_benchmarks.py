"""The engine's experiments run, check what they compute, and leave nothing behind; their counts are what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.experiments.inlining import crossover
from benchmarks.experiments.pinning import GaveUpError, Lru, Pinned, Program

ROOT = Path(__file__).parents[2]
#: Settings of a tiny run by experiment, and what it prints, whatever the machine: patterns.
TINY = {
    "pinning": ("--iterations 2 --updates 20", ["0 calls made again beside 46"]),
    "inlining": ("--kib 1 200 --calls 3 --chain 5", ["latency, 200 KiB"]),
    "spilling": (
        "--gb 0.06 --sizes 200000 1000000",
        ["300 objects in 1 files", "through a store of 1/1.03 of that"],
    ),
    "sharing": ("--mb 2", ["by reference"]),
    "recovery": (
        "--seconds 0.1 --task-ms 20 --result-mb 1",
        [
            "worker killed: [^;]*; 1 of 5 tasks ran again",
            "object lost: [^;]*; 2 of 5 tasks ran again",
        ],
    ),
    "partitions": (
        "--rows 32 --frames 64",
        [
            r"4 rows a partition +[01]\.[0-9]+",
            "one video, a block at a time +[0-9.]+x",
            "the best pair",
        ],
    ),
    "killing": ("--gb 0.2 --every 0.3 --only local", ["[1-9][0-9]* deaths in 1 sorts"]),
}


def run(name: str, settings: list[str]) -> str:
    program = [sys.executable, "-m", f"benchmarks.experiments.{name}", "--rounds", "1", *settings]
    result = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return " ".join(result.stdout.replace("│", " ").split())


@pytest.mark.parametrize("name", TINY)
def test_experiment_prints_its_figures_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    settings, expected = TINY[name]
    output = run(name, [*settings.split(), "--root", str(tmp_path)])
    for pattern in expected:
        assert re.search(pattern, output)
    assert "The original's: " in output
    assert list(tmp_path.iterdir()) == []


def test_noop_runs_without_the_peer() -> None:
    output = run("noop", ["--tasks", "20", "--only", "thread", "--only", "process"])
    assert output.count("tasks/s") == 2


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("chained", [False, True])
def test_pinned_makes_no_call_again(chained: bool) -> None:
    program = Program(num_iterations=3, num_updates=100, chained=chained)
    objects = Pinned()
    program.run(objects)
    assert objects.num_calls == program.num_calls


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("chained", [False, True])
def test_lru_makes_no_call_again_while_everything_fits(chained: bool) -> None:
    program = Program(num_iterations=3, num_updates=20, chained=chained)
    objects = Lru(capacity=23, most_calls=program.num_calls)
    program.run(objects)
    assert objects.num_calls == program.num_calls


@pytest.mark.usefixtures("engine")
def test_lru_makes_every_object_of_an_iteration_again_that_does_not_fit() -> None:
    program = Program(num_iterations=3, num_updates=20, chained=False)
    objects = Lru(capacity=20, most_calls=1000)
    program.run(objects)
    assert objects.num_calls == program.num_calls + 3 * (1 + 20)


@pytest.mark.usefixtures("engine")
def test_lru_gives_up_when_calls_are_made_again_and_again() -> None:
    program = Program(num_iterations=5, num_updates=20, chained=True)
    with pytest.raises(GaveUpError):
        program.run(Lru(capacity=20, most_calls=3 * program.num_calls))


@pytest.mark.parametrize(
    ("inline", "expected"),
    [
        ({1: 1.0, 10: 1.0, 100: 3.0}, "between 10 and 100 KiB"),
        ({1: 3.0, 10: 1.0, 100: 3.0}, "between 10 and 100 KiB"),
        ({1: 1.0, 10: 1.0, 100: 1.0}, "above 100 KiB"),
        ({1: 3.0, 10: 3.0, 100: 3.0}, "below 1 KiB"),
    ],
)
def test_crossover_is_where_inlining_ceases_for_good_to_be_better(
    inline: dict[int, float], expected: str
) -> None:
    assert crossover(inline, dict.fromkeys(inline, 2.0)) == expected
