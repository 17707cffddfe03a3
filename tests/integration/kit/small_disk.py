# SPDX-License-Identifier: Apache-2.0
"""A small file system for Bailey's state: full after a few files, or read-only when a test says so. Root only."""
import contextlib
import subprocess


@contextlib.contextmanager
def small_disk(home, size):
    """The state directory of this home, as a file system of `size` ("24m") that goes with the block."""
    place = home / ".local/state/bailey"
    place.mkdir(parents=True, mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def filled(place):
    """To the last page, until the block ends."""
    fill = place / "fill"
    with fill.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    yield
    fill.unlink()
