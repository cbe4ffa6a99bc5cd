"""A small process that outlives the program, and removes its folders where the program was killed.

Guarantee: folders of a program that ended in any way are gone some seconds later, if its machine still runs. Signals to
the whole terminal or service do not end the process before.

SIGTERM ends a program without a handler, and SIGKILL any, where it stands; so the program cannot do this. A handler of
ours would be seen by the program, and SIGKILL has none. The shell starts in a millisecond. It waits for the end of what
only the program could write, which the system tells it however the program ended.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

#: How often it removes, a second apart: workers of Ray that are just starting outlive the program by seconds, and make
#: the folder again. Ray's two agents live up to a minute more, and make nothing.
_ROUNDS = 5
_SCRIPT = f"""
trap '' HUP INT QUIT TERM
read -r _
for _ in {" ".join(map(str, range(_ROUNDS)))}
do rm -rf -- "$@"; sleep 1
done
"""


class Heir:
    """The process of one program.

    Args:
        folders: The folders that the process removes.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  no input comes into the script
            ["/bin/sh", "-c", _SCRIPT, "exoshuffle-heir", *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Ends the process: the program has removed its folders itself."""
        self._process.kill()
        self._process.communicate()
