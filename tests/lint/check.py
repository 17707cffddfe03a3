#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One check of the sources by name: prints what is wrong and where, and fails if anything is."""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def tracked(*patterns):
    """Files of the checkout, also new ones that are not ignored."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=TOP, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return sorted({name for name in names if (TOP / name).is_file()})


def call(command):
    return subprocess.run(command, cwd=TOP, check=False).returncode


def check_layers():
    return call(["tests/layers.py"])


def check_sizes():
    return call(["scripts/sizes"])


def check_format():
    return call(["clang-format", "--dry-run", "-Werror", *tracked("*.c", "*.h")])


def included_files(build):
    """Of each object of a build: the files that its compiler read."""
    text = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return {block.split(":", 1)[0]: [line.strip() for line in block.splitlines()[1:]] for block in text.split("\n\n") if ": #deps" in block}


def run_tidy(build, entries, nodes):
    """What clang-tidy finds in these files, with nothing but their own flags to read: it takes a tenth of a second to read
    those of all files."""
    limit = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={nodes}")]
    header = "-include base/banned.h"  # not its compiled form, of which the analyzer knows less
    entries = [{**entry, "command": entry["command"].replace(header, f"-include {TOP}/src/base/banned.h")} for entry in entries]
    with tempfile.TemporaryDirectory() as place:
        (pathlib.Path(place) / "compile_commands.json").write_text(json.dumps(entries))
        done = subprocess.run(["clang-tidy", "--quiet", "-p", place, *limit, *(entry["file"] for entry in entries)], cwd=build, check=False,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout.strip() or (done.stderr if done.returncode else "")


def check_tidy():
    """.clang-tidy holds the list; what it finds is an error. A file that was clean is looked at again when it, a header of
    it, its flags or the list changed: what is remembered is a hash of all four. How far the analyzer follows a function is
    nearly all of the time that this takes, and both grow alike: `make lint` lets it go as far as it wants, `make test` a 56th of
    that. Where it gives up early, it may suspect what a longer look clears: a file with findings gets one."""
    build = pathlib.Path(os.environ["LINT_BUILD"])
    clean = build / "tidy-clean"
    clean.mkdir(exist_ok=True)
    rules = (TOP / ".clang-tidy").read_bytes()
    longest = 225000
    shortest = longest if os.environ.get("LINT_DEPTH") == "full" else 4000
    included = included_files(build)

    @functools.lru_cache(maxsize=None)
    def digest(path):
        return hashlib.sha256((build / path).read_bytes()).digest()

    def stamp_of(entry):
        known = b"".join(digest(path) for path in [entry["file"], *included.get(entry["output"], [])])
        return clean / hashlib.sha256(rules + entry["command"].encode() + known + b"%d" % shortest).hexdigest()

    def look_at(some, nodes):
        found = run_tidy(build, some, nodes)
        if found and len(some) > 1:  # once more, one by one: the others may be clean
            return "\n".join(filter(None, (look_at([entry], nodes) for entry in some)))
        if found and nodes < longest:
            return look_at(some, longest)
        for entry in [] if found else some:
            stamp_of(entry).touch()
        return found

    entries = [entry for entry in json.loads((build / "compile_commands.json").read_text())
               if (build / entry["file"]).resolve().is_relative_to(TOP / "src")]
    new = [entry for entry in entries if not included.get(entry["output"]) or not stamp_of(entry).exists()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        findings = [finding for finding in pool.map(lambda some: look_at(some, shortest), batches(new)) if finding]
    print("\n".join(findings) or f"{len(entries)} files are clean")
    return 1 if findings or not entries else 0


def batches(entries, size=12):
    """A few files for each process: it takes a while to start. A file that is compiled twice is in two of them: clang-tidy
    looks at a file with all flags that it finds for it."""
    made = []
    for entry in entries:
        fitting = next((batch for batch in made if len(batch) < size and all(entry["file"] != other["file"] for other in batch)), None)
        if fitting is None:
            made.append(fitting := [])
        fitting.append(entry)
    return made


def check_cppcheck():
    """`make lint` looks at the sources with every set of macros that they ask about, `make test` with those of one architecture."""
    macros = "--force" if os.environ.get("LINT_DEPTH") == "full" else f"-D__{os.uname().machine}__"
    return call(["cppcheck", "--quiet", "--std=c11", "--language=c", "--error-exitcode=1", "--inline-suppr", macros,
                 "--enable=warning,performance,portability", "--suppressions-list=tests/lint/cppcheck.txt", "-D_GNU_SOURCE",
                 "-Isrc", "-Iinclude", "-j", str(os.cpu_count() or 2), *tracked("src/*.c")])


def check_shellcheck():
    scripts = [name for name in tracked() if not name.endswith((".c", ".h", ".py")) and
               re.match(rb"#!\s*/(usr/)?bin/(env )?(ba|da)?sh\b", (TOP / name).open("rb").readline())]
    return call(["shellcheck", *scripts]) if scripts else 1


def check_places():
    """No file names the machine it was written on, or where its packages came from."""
    marks = re.compile("|".join([r"(?<!\w)/" + "work" + r"/", r"(?<!\w)/" + "farm" + r"/", r"\b[\w.-]+\." + "pkg" + r"\.dev\b", "artifact" + "ory",
                                 "(?:pypi|npm|apt|deb|registry|proxy)[-.]?mirror", r"\bproxy\.golang\." + "internal"]))
    found = 0
    for name in tracked():
        for number, line in enumerate((TOP / name).read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if marks.search(line):
                print(f"{name}:{number}: names a place of one machine: {line.strip()[:120]}")
                found = 1
    return found


def check_documents():
    """Files that the documents name are there: links, and paths in code spans, also those below src/ without it."""
    found = 0
    for name in tracked("*.md"):
        text = (TOP / name).read_text()
        prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        here = (TOP / name).parent
        wrong = {link for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text) if not (here / link).exists()}
        spans = re.findall(r"`([\w.-]+/[\w./-]*[\w-]\.(?:c|h|py|in|txt|yaml))`", prose)
        wrong |= {span for span in spans if not (TOP / span).exists() and not (TOP / "src" / span).exists()
                  and not re.search(r"NAME|VERB", span)}
        for path in sorted(wrong):
            print(f"{name}: {path} is not there")
            found = 1
    return found


def check_promises():
    """Every paragraph of SECURITY.md says which tests show it, they are there, and no row is about a paragraph that is not."""
    text = (TOP / "SECURITY.md").read_text()
    table = text.split("## What shows it", 1)[1].split("\n## ", 1)[0]
    rows = {cells[0].strip(): cells[1:] for cells in (line.strip("|").split("|") for line in table.splitlines() if line.startswith("| "))}
    titles = {title.rstrip(".") for title in re.findall(r"^- \*\*(.+?)\*\*(?!\w|`)", text, flags=re.M)}
    wrong = [f"no row for '{title}'" for title in sorted(titles - set(rows))]
    headings = set(re.findall(r"^### (.+)$", text, flags=re.M))
    wrong += [f"no paragraph '{title}'" for title in sorted(set(rows) - titles - headings - {"paragraph"})]
    for title, cells in rows.items():
        files = re.findall(r"`(test_\w+\.py)`", cells[0])
        wrong += [f"{title}: tests/integration/{name} is not there" for name in files if not (TOP / "tests/integration" / name).exists()]
        if title != "paragraph" and not files and not cells[1].strip():
            wrong.append(f"{title}: neither a test nor a word that it has none")
    for line in wrong:
        print(f"SECURITY.md: {line}")
    return 1 if wrong else 0


def check_macos():
    return call(["tests/macos/lists.py", os.environ["LINT_BUILD"]])


def check_types():
    """The types of the bindings: programs that use them as meant compile, wrong ones do not, and the stubs name what is there."""
    build, stubs = os.environ.get("LINT_ORDINARY") or os.environ["LINT_BUILD"], str(TOP / "bindings/python")
    library = pathlib.Path(build) / "src/api/libbailey.so.0"  # one without a sanitizer: the programs that load it have none
    env = dict(os.environ, MYPYPATH=stubs, PYTHONPATH=stubs, BAILEY_LIBRARY=str(library), PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory() as place:
        modules = pathlib.Path(place) / "node_modules"
        modules.mkdir()
        (modules / "bailey").symlink_to(TOP / "bindings/node")
        program = shutil.copy(TOP / "tests/types/node.ts", place)
        commands = [["tsc", "--noEmit", "--strict", "--target", "es2020", "--lib", "es2020", "--module", "commonjs", "--moduleResolution", "node", program],
                    ["mypy", "--strict", "--cache-dir=/dev/null", str(TOP / "tests/types/python.py")],
                    ["/usr/bin/python3", "-m", "mypy.stubtest", "bailey"]]
        return max([subprocess.run(command, cwd=place, env=env, check=False).returncode for command in commands])


if __name__ == "__main__":
    sys.exit(globals()["check_" + sys.argv[1]]())
