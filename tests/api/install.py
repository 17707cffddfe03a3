#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into an empty directory and builds the examples there with what pkg-config says: shared and static."""
import os
import pathlib
import subprocess
import sys
import tempfile

build, examples = map(pathlib.Path, sys.argv[1:])


def run(command, **more):
    done = subprocess.run([str(word) for word in command], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


with tempfile.TemporaryDirectory(prefix="bailey-install.") as directory:
    root = pathlib.Path(directory)
    run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root])
    pkgconfig = next(root.rglob("libbailey.pc"))
    libdir = pkgconfig.parent.parent
    env = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=str(root), LD_LIBRARY_PATH=str(libdir),
               PKG_CONFIG_PATH=f"{pkgconfig.parent}:{os.environ.get('PKG_CONFIG_PATH', '')}")

    def flags(*options):
        words = run(["pkg-config", *options, "libbailey"], env=env).split()
        # The sysroot is put before the paths of the other libraries as well; those are the system's.
        return [word for word in words if not (word.startswith(("-I", "-L")) and str(root) in word and not pathlib.Path(word[2:]).exists())]

    for example in sorted(examples.glob("*.c")):
        for kind, options in (("shared", []), ("static", ["-static"])):
            program = root / f"{example.stem}-{kind}"
            link = flags("--static", "--libs") if kind == "static" else flags("--libs")
            run(["cc", "-Wall", "-Werror", example, *flags("--cflags"), "-o", program, *options, *link])
    for kind in ("shared", "static"):
        said = run([root / f"filter-{kind}", "*.ok.test"], input="a.ok.test 443\nok.test 443\n10.0.0.1 80\n", env=env)
        expected = "a.ok.test 443: allowed (allowed)\nok.test 443: refused (not-allowed)\n10.0.0.1 80: refused (address-class)\n"
        if said != expected:
            sys.exit(f"filter-{kind} says:\n{said}")
    # The installed library finds the installed executable by where it is.
    work = root / "work"
    work.mkdir()
    state = dict(env, XDG_STATE_HOME=str(root / "state"), HOME=str(root))
    if run([root / "exec-shared", "echo $SANDBOX_RUNTIME; pwd"], env=state, cwd=work) != f"1\n{work}\n":
        sys.exit("exec-shared did not run its command in a sandbox")
print("installed, built and run")
