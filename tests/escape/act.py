#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""act.py NAME: does one forbidden act and prints "done" or the errno's name."""
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


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ACTS))
        return
    try:
        ACTS[sys.argv[1]](world())
        print("done")
    except OSError as error:
        print(errno.errorcode.get(error.errno, str(error)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
