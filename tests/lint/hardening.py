#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every executable that is shipped and says which hardening it lacks."""
import json
import pathlib
import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def lacks(path, options):
    headers, dynamic, symbols = (output("readelf", "-W", flag, path) for flag in ("-lh", "-d", "-s"))
    if not re.search(r"Type:\s+DYN", headers) or "FLAGS_1" not in dynamic or "PIE" not in dynamic:
        yield "position independence (PIE)"
    if "GNU_RELRO" not in headers or not re.search(r"BIND_NOW|\bNOW\b", dynamic):
        yield "full RELRO"
    if not re.search(r"GNU_STACK\s.*\sRW\s", headers):
        yield "a stack that is not executable"
    if re.search(r"LOAD\s.*\sRWE\s", headers):
        yield "a separation of writable and executable memory"
    if re.search(r"\((RPATH|RUNPATH)\)", dynamic):
        yield "freedom from RPATH"
    if options["sanitized"]:
        return
    if "__stack_chk_fail" not in symbols:
        yield "the stack protector"
    if options["optimised"] and not re.search(r"__\w+_chk\b(?<!stack_chk)", symbols):
        yield "FORTIFY"


def main(build):
    values = {o["name"]: o["value"] for o in json.loads(output("meson", "introspect", "--buildoptions", build))}
    options = {"sanitized": values["b_sanitize"] != "none", "optimised": values["optimization"] not in ("0", "plain")}
    source = pathlib.Path(__file__).resolve().parent.parent.parent / "src"
    checked, failed = 0, 0
    for target in json.loads(output("meson", "introspect", "--targets", build)):
        if target["type"] != "executable" or not target["installed"] or source not in pathlib.Path(target["defined_in"]).parents:
            continue
        path = target["filename"][0]
        missing = list(lacks(path, options))
        checked, failed = checked + 1, failed + bool(missing)
        print(f"{path}: " + ("lacks " + ", ".join(missing) if missing else "hardened"))
        static = "INTERP" not in output("readelf", "-W", "-l", path)
        if target["name"] == "bailey" and values["static"] and not static:
            failed += 1
            print(f"{path}: asked to be static, and is not")
    if checked == 0:
        print("no executable was built yet")
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
