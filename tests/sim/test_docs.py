"""The examples of docs/simulating.md work."""

from __future__ import annotations

import re
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.sim.cluster.library import machine
from exoshuffle.engines.sim.runs.plan_file import scenario

PAGE = (Path(__file__).parents[2] / "docs" / "simulating.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_files_can_be_read(tmp_path: Path):
    plan, mine = blocks("toml")
    (tmp_path / "plan.toml").write_text(plan)
    assert scenario(tmp_path / "plan.toml").num_splits == 5000
    (tmp_path / "mine.toml").write_text(mine)
    assert machine(str(tmp_path / "mine.toml")).num_cpus == 8


def test_the_programs_run(capsys):
    first, second = blocks("python")
    # A tenth of it, since it takes a second.
    exec(first.replace("10**12", "10**11").replace("=1000", "=100"), {})  # noqa: S102  of this repository
    exec(second, {"xs": xs})  # noqa: S102  likewise
    assert capsys.readouterr().out.splitlines()[-1].startswith("6 ")
