"""The examples of docs/simulating.md work, and docs/how-push-works.md says what comes out."""

from __future__ import annotations

import re
from pathlib import Path

import exoshuffle as xs
from exoshuffle.engines.sim.cluster.library import machine
from exoshuffle.engines.sim.runs.picture import drawn
from exoshuffle.engines.sim.runs.plan_file import scenario

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "simulating.md").read_text()
PUSH = (DOCS / "how-push-works.md").read_text()


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


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


def test_the_page_about_push_has_the_figures_of_a_run(tmp_path: Path):
    (plan,) = blocks("toml", PUSH)
    (tmp_path / "plan.toml").write_text(plan)
    report = xs.sim.simulate(tmp_path / "plan.toml")
    between = report.num_bytes["between nodes"] / 180e9
    assert f"| seconds | {report.seconds:.0f} |" in PUSH
    assert f"| between nodes | {between:.3f} of the bytes |" in PUSH
    # The picture has a style of its own beside what the report draws.
    picture = (DOCS / "push.svg").read_text()
    opening, drawing = re.search(r"(<svg [^>]*>)(.*</svg>)", drawn(report), re.DOTALL).groups()
    assert picture.startswith(opening)
    assert picture.rstrip().endswith(drawing)
