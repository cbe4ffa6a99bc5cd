"""Installs a wheel or a source distribution in a new environment, and runs the examples of the README there.

Usage: ``python .ci/clean_install.py dist/NAME``. Guarantee: programs in that environment find no compiler and no cargo,
and import the package that was installed, not that of this tree. A wheel is installed without them, too, and so are
the packages that it needs; a source distribution is built with what the machine has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: Fails where the package comes from elsewhere.
ITS_OWN = "import sys; from exoshuffle import _native; assert _native.__file__.startswith(sys.prefix), _native.__file__"


def main() -> None:
    """Makes the environment, installs, and runs the examples."""
    (name,) = sys.argv[1:]
    artifact = Path(name).resolve(strict=True)
    with tempfile.TemporaryDirectory(prefix="exoshuffle-") as made:
        folder = Path(made)
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        programs = environment / "bin"
        for program in ("sh", "cat", "head"):
            (programs / program).symlink_to(str(shutil.which(program)))
        bare = {"PATH": str(programs), "HOME": made, "TMPDIR": made}
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
        if artifact.suffix == ".whl":
            run([*pip, "--only-binary", ":all:", str(artifact)], folder, bare | network())
        else:
            run([*pip, str(artifact)], folder, dict(os.environ))
        # From a folder of their own: beside the tree's files Python would import some of them.
        (folder / "data").mkdir()
        python = [str(programs / "python"), "-X", "faulthandler"]
        run([*python, "-c", ITS_OWN], folder / "data", bare)
        run(
            [*python, "-m", "tests.examples.readme"],
            folder / "data",
            bare | {"PYTHONPATH": str(REPOSITORY)},
        )
    print(f"{artifact.name}: installed alone, it runs the examples of the README")


def network() -> dict[str, str]:
    """How this machine reaches packages: variables of pip, and of proxies and certificates."""
    words = ("PIP_", "SSL_CERT", "REQUESTS_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if name.upper().startswith(words)}


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Runs a command, and ends this program where it fails."""
    if code := subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
        sys.exit(f"{' '.join(command)} ended with {code}")


if __name__ == "__main__":
    main()
