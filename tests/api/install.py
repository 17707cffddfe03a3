#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into an empty directory and builds the examples there with what pkg-config says: shared and static. Before that, what
`make`, `make install`, `make uninstall` and `make release` do where something is in their way, with a stand-in for meson."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

build, examples = map(pathlib.Path, sys.argv[1:])


def run(command, **more):
    done = subprocess.run([str(word) for word in command], check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def expect(what, told=""):
    if not what:
        sys.exit(f"line {sys._getframe(1).f_lineno}: {told}")


def write_program(path, script):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make_checkout(root):
    """The scripts, in a place that is as good as a checkout for them. `meson setup` makes what they look for."""
    top = root / "checkout"
    shutil.copytree(examples.parent / "scripts", top / "scripts")
    write_program(top / "scripts/packages", "exit 0")
    write_program(root / "bin/meson", "case $1 in\nsetup) mkdir -p $2/meson-private && touch $2/build.ninja ;;\ninstall) echo 'Error: no room' && exit 1 ;;\n"
                  "introspect) echo '{\"a\": \"/usr/local/bin/a\"}' ;;\nesac")
    write_program(root / "bin/ninja", "exit 0")
    return top


def call(command, cwd, **more):
    path = f"{cwd.resolve().parent}/bin:{os.environ['PATH']}"
    return subprocess.run(command, cwd=cwd, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, PATH=path, MAKE="true", **more))


def check_setup(top):
    """It removes a build directory of its own that was made elsewhere, but not the record of what was installed; and nothing else."""
    setup = ["sh", "scripts/setup", "build", "/usr/local"]
    (top / "build").mkdir()
    for name in ("place", ".bailey-build", "precious"):
        (top / "build" / name).write_text("hi\n")
    done = call(setup, top)
    expect(done.returncode == 0 and (top / "build/precious").exists(), done.stdout)
    (top / "build/installed").write_text("/x\n")
    (top.parent / "link").symlink_to("checkout")
    done = call(setup, top.parent / "link", PWD=str(top.parent / "link"))
    expect(done.returncode == 0 and (top / "build/precious").exists(), done.stdout)
    top = top.rename(top.parent / "moved")
    done = call(setup, top)
    expect("making it anew" in done.stdout and not (top / "build/precious").exists() and (top / "build/installed").read_text() == "/x\n", done.stdout)
    top.rename(top.parent / "checkout")


def check_install(top):
    """If it fails, it says why, and what it made belongs to the owner of the build directory."""
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(top / "build", owner, -1)
    done = call(["sh", "scripts/install", "build", "/usr/local", "to"], top)
    expect(done.returncode == 1 and "Error: no room" in done.stdout and "not finished" in done.stdout, done.stdout)
    expect((top / "build/installed").read_text() == f"{top}/to/usr/local/bin/a\n/x\n" and (top / "build/installed").stat().st_uid == owner)


def check_uninstall(top):
    """It removes what is below the prefix, however that is spelled, and nothing beside it."""
    inside, beside, odd = top / "to/usr/local/bin/a", top / "to/etc/x", f"{top}/to/usr/local/bin/../lib/b"
    for file in (inside, beside, top / "to/usr/local/lib/b"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (top / "build/installed").write_text(f"{inside}\n{odd}\n{top}/to/usr/local/../../etc/x\n")
    done = call([top / "scripts/uninstall", "build", "/usr/local", "to"], top.parent / "link")
    expect(done.returncode == 0 and not inside.exists() and not (top / "to/usr/local/lib/b").exists() and beside.exists(), done.stdout)


def check_release(top):
    """Where the other architecture cannot be built, it says so before it builds anything."""
    for name in ("l\u00e0", "a place"):
        top = top.rename(top.parent / name)
        done = call(["scripts/release"], top)
        expect(done.returncode == 1 and "cannot name libraries" in done.stdout and "building" not in done.stdout and not list(top.glob("build-*")), done.stdout)
    top.rename(top.parent / "checkout")


with tempfile.TemporaryDirectory(prefix="bailey-install.") as directory:
    root = pathlib.Path(directory).resolve()
    root.chmod(0o755)
    checkout = make_checkout(root)
    for check in (check_setup, check_install, check_uninstall, check_release):
        check(checkout)

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
