#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""act.py NAME [MODULE]: does one forbidden act and prints "done" or the name of the error. With the module that has the act, no
other is read: Python takes longer for them than for the act."""
import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from world import ACTS, world  # noqa: E402

MODULES = ["acts_files", "acts_kernel", "acts_mounts", "acts_processes", "acts_sockets"] + (["acts_x86"] if os.uname().machine == "x86_64" else [])

for module in sys.argv[2:] if __name__ == "__main__" and len(sys.argv) == 3 else MODULES:
    __import__(module)


def answer(name):
    """What became of an act: "done", or the name of an error or of a signal."""
    try:
        ACTS[name](world())
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno) or error.strerror or str(error)


def answer_in_child(name):
    """The same for many acts of one program; empty for one that ended the child."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(into, answer(name).encode())
        finally:
            os._exit(0)
    os.close(into)
    with open(out, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(pid, 0)
    return text


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(ACTS))
        return
    print(answer(sys.argv[1]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
