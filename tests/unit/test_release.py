"""The facts of a release that stand in several places are the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import exoshuffle as xs

REPOSITORY = Path(__file__).parents[2]


def text(name: str) -> str:
    return (REPOSITORY / name).read_text()


def only(pattern: str, name: str) -> str:
    found = set(re.findall(pattern, text(name), re.MULTILINE))
    assert len(found) == 1, f"{name}: {found}"
    return found.pop()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("pyproject.toml", r'^version = "(.*)"'),
        ("Cargo.toml", r'^version = "(.*)"'),
        ("Cargo.lock", r'^name = "exoshuffle-\w+"\nversion = "(.*)"'),
        ("fuzz/Cargo.lock", r'^name = "exoshuffle-(?!fuzz)\w+"\nversion = "(.*)"'),
    ],
)
def test_the_version_is_the_same_everywhere(name: str, pattern: str) -> None:
    assert only(pattern, name) == xs.__version__


def test_the_newest_changes_are_dated_and_of_this_version() -> None:
    headings = re.findall(r"^## \[(.*?)\](.*)$", text("CHANGELOG.md"), re.MULTILINE)
    released = [heading for heading in headings if heading[0] != "Unreleased"]
    version, date = released[0]
    assert version == xs.__version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)


def test_one_wheel_serves_all_pythons_from_3_11_on() -> None:
    assert 'feature = "pyo3/abi3-py311", python-version = ">=3.11"' in text("pyproject.toml")
    assert re.search(r"^WHEEL = .*-cp311-abi3-\$\(PLATFORM\)_", text("Makefile"), re.MULTILINE)
    assert only(r"^PLATFORM := (.*)", "Makefile") == "manylinux_2_28"


def test_wheels_run_on_every_processor_of_their_kind() -> None:
    """Flags for this machine's processor would end other machines' programs with an illegal instruction."""
    places = [
        *REPOSITORY.glob(".cargo/config*"),
        REPOSITORY / "Cargo.toml",
        REPOSITORY / "Makefile",
    ]
    assert not [
        place for place in places if re.search(r"target[-_](cpu|feature)", place.read_text())
    ]


def test_links_of_the_readme_work_where_packages_are_shown() -> None:
    links = re.findall(r"\]\((.*?)\)", text("README.md"))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
