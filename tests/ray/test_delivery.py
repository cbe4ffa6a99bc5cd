"""Nodes that lack this package, or have another version of it: they get that of the program, or the program is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from sysconfig import get_config_var

import pytest
import ray
from ray.cluster_utils import Cluster

import exoshuffle as xs
from exoshuffle.cloudsort import gensort, valsort
from exoshuffle.engines.ray.delivery import Greeting
from exoshuffle.errors import ProtocolError
from exoshuffle.futures.engine import PROTOCOL
from tests.ray.cluster import add_node

NUM_RECORDS = 200_000


@pytest.fixture(scope="module")
def uneven(without_node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes: this program's, one where the package cannot be imported, and one that has an older version."""
    del without_node
    made = Cluster()
    add_node(made, 0)
    contents = ["raise ModuleNotFoundError('hidden')", "__version__ = '0.0.1'"]
    for number, content in enumerate(contents, start=1):
        installed = tmp_path_factory.mktemp("installed")
        (installed / "exoshuffle").mkdir()
        (installed / "exoshuffle" / "__init__.py").write_text(content)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PYTHONPATH", str(installed))
            add_node(made, number)
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture(autouse=True)
def _left() -> Iterator[None]:
    yield
    xs.shutdown()
    ray.shutdown()


def homes() -> list[str]:
    """Where each node has the package from."""

    def home() -> str:
        import exoshuffle

        return str(exoshuffle.__file__)

    run = [xs.remote(home, resources={f"node{number}": 1}).remote() for number in range(3)]
    return xs.get(run)


def join_by_ray(cluster: Cluster, **options: object) -> None:
    ray.init(cluster.address, log_to_driver=False, logging_level="error", **options)


def test_workers_get_the_package_of_the_program(uneven: Cluster, tmp_path: Path) -> None:
    xs.init(engine="ray", address=uneven.address)
    (home,) = {Path(home) for home in homes()}
    assert "py_modules_files" in home.parts
    gensort(tmp_path / "in", NUM_RECORDS, partitions=6)
    dataset = xs.read_records(tmp_path / "in").sort(strategy="push", num_partitions=6)
    dataset.write_records(tmp_path / "out")
    before, after = valsort(tmp_path / "in"), valsort(tmp_path / "out")
    assert after.is_sorted
    assert (after.records, after.checksum) == (NUM_RECORDS, before.checksum)


def test_a_ray_of_the_user_is_told_how(uneven: Cluster) -> None:
    join_by_ray(uneven)
    remedy = r"install exoshuffle .* on every node, or begin with ray\.init\(runtime_env="
    with pytest.raises(ProtocolError, match=rf"(hidden|has exoshuffle 0\.0\.1).*; {remedy}"):
        xs.init(engine="ray")
    assert ray.is_initialized()
    ray.shutdown()
    join_by_ray(uneven, runtime_env={"py_modules": [xs]})
    xs.init(engine="ray")
    assert all("py_modules_files" in home for home in homes())


# --- no cluster ----------------------------------------------------------------------------------------------------

SAME = Greeting("10.0.0.3", get_config_var("EXT_SUFFIX"), (), xs.__version__, PROTOCOL, "")


def test_the_same_lacks_nothing() -> None:
    assert not SAME.lacks


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        (SAME._replace(protocol=PROTOCOL - 1), f"protocol {PROTOCOL - 1}, this program has"),
        (SAME._replace(version="0.0.1", protocol=0), r"has exoshuffle 0\.0\.1, this program"),
        (SAME._replace(version="", error="ImportError: no"), r"cannot run .* \(ImportError: no\)"),
    ],
    ids=["protocol", "version", "error"],
)
def test_what_can_be_sent(greeting: Greeting, message: str) -> None:
    assert re.search(rf"worker on node 10\.0\.0\.3 .*{message}", greeting.lacks)
    greeting.check_deliverable()
    with pytest.raises(
        ProtocolError, match=rf"{message}.* not for \.other\.so; install exoshuffle"
    ):
        greeting._replace(abi=".other.so").check_deliverable()
    with pytest.raises(ProtocolError, match=rf"{message}.* pyarrow must be installed there too"):
        greeting._replace(missing=("pyarrow",)).check_deliverable()
