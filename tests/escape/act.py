#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""act.py NAME: does one forbidden act and prints "done" or the name of the error."""
import errno
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import acts_files  # noqa: E402,F401
import acts_kernel  # noqa: E402,F401
import acts_mounts  # noqa: E402,F401
import acts_processes  # noqa: E402,F401
import acts_sockets  # noqa: E402,F401
from world import ACTS, world  # noqa: E402

if os.uname().machine == "x86_64":
    import acts_x86  # noqa: F401


def answer(name):
    """What became of an act: "done", or the name of an error or of a signal."""
    try:
        ACTS[name](world())
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno) or error.strerror or str(error)


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ACTS))
        return
    print(answer(sys.argv[1]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
