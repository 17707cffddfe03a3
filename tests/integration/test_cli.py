# SPDX-License-Identifier: Apache-2.0
"""The frame around the verbs: help, errors, exit codes, completions in the real shells, man pages through the real tools."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import program

TOP = pathlib.Path(__file__).resolve().parents[2]
SCREEN = 58  # lines; `bailey --help` must stay readable at a glance


def overview_verbs(text):
    return re.findall(r"^  ([a-z][a-z-]*) ", text, re.M)


def test_overview_fits_a_screen(bailey):
    result = bailey("--help").check()
    lines = result.text.splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) <= 80
    assert {"doctor", "version", "help"} <= set(overview_verbs(result.text))
    assert bailey("help").text == bailey("-h").text == result.text


def test_hidden_verbs_are_hidden_and_work(bailey):
    assert "completion" not in bailey("--help").text
    bailey("completion", "bash").check()


def test_every_verb_explains_itself(bailey):
    for verb in overview_verbs(bailey("--help").text):
        by_help = bailey("help", verb).check().text
        assert bailey(verb, "--help").check().text == by_help
        assert by_help.startswith(f"Usage: bailey {verb} ")
        assert "--log-level LEVEL" in by_help
        assert max(map(len, by_help.splitlines())) <= 80, by_help
        for sub in re.findall(r"^  ([a-z][a-z-]*) ", by_help.split("\nGlobal options")[0], re.M):
            assert bailey("help", verb, sub).check().text.startswith(f"Usage: bailey {verb} {sub} ")


def test_help_has_every_exit_code(bailey):
    text = bailey("help", "exit-codes").check().text
    assert [line.split("  ")[1] for line in text.splitlines() if not line.startswith("   ")] == [
        "0", "1", "2", "3", "4", "5", "6", "7", "10, 20", "120 to 125", "126, 127", "128+n"]


@pytest.mark.parametrize("words, says", [
    (["versoin"], "did you mean 'version'?"),
    (["xyzzy"], "there is no verb 'xyzzy'"),
    (["version", "--jsn"], "did you mean '--json'?"),
    (["version", "--json=maybe"], "--json"),
    (["version", "extra"], '"extra" is one word too many'),
    (["completion"], "something is missing: bailey completion bash|zsh|fish"),
    (["completion", "csh"], "bash, zsh and fish"),
    (["help", "doctr"], "did you mean 'doctor'?"),
    (["help", "version", "x"], "there is no verb 'x'"),
    (["--log-level", "loud", "version"], "--log-level"),
    (["--color"], "--color"),
    (["a\033[31mred\nbailey: fine"], "there is no verb"),
])
def test_a_wrong_command_line(bailey, words, says):
    result = bailey(*words)
    assert result.status == 2 and result.out == b"", result
    assert re.fullmatch(r"bailey: error: [^\n]*\n", result.errors), result
    assert says in result.errors and "\033" not in result.errors


def test_no_words_at_all(bailey):
    result = bailey()
    assert result.status == 2 and result.out == b"" and "Usage: bailey VERB" in result.errors


def test_wrong_variable_is_named(bailey):
    result = bailey("version", env={"BAILEY_LOG_LEVEL": "loud"})
    assert result.status == 2 and "BAILEY_LOG_LEVEL" in result.errors


def test_errors_as_json(bailey):
    result = bailey("--log-format", "json", "nosuchverb")
    line = json.loads(result.errors)
    assert line["level"] == "error" and line["program"] == "bailey" and "nosuchverb" in line["message"]
    after = bailey("version", "extra", env={"BAILEY_LOG_FORMAT": "json"})
    assert "one word too many" in json.loads(after.errors)["message"]


def test_version(bailey):
    text = bailey("version").check().text
    assert re.fullmatch(r"bailey \d+\.\d+\.\d+\S*\n", text)
    assert bailey("--version").check().text == bailey("-V").check().text == text
    assert json.loads(bailey("version", "--json").check().text) == {"name": "bailey", "version": text.split()[1]}


def test_options_may_follow_words_but_not_a_double_dash(bailey):
    bailey("help", "version", "--color", "never").check()
    assert bailey("version", "--", "--json").status == 2


def test_output_that_cannot_be_written(environment):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program("bailey"), "version"], stdout=full, stderr=subprocess.PIPE, env=environment,
                              timeout=30, check=False)
    assert done.returncode == 7
    assert done.stderr.startswith(b"bailey: error: version: cannot write the output: No space left")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(run, closed):
    """They are replaced before anything is opened, so that no file ever gets their numbers."""
    result = run(["sh", "-c", f'exec "$0" version {closed}', program("bailey")])
    assert result.status == 0, result


# Completions

def test_bash_completes(bailey, run, tmp_path):
    script = tmp_path / "bailey.bash"
    script.write_bytes(bailey("completion", "bash").check().out)
    (tmp_path / "file.yaml").touch()

    def complete(*words):
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bailey; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        return run(["bash", "--norc", "-uc", code, "bash", script, *words], cwd=tmp_path).check().text.split()

    assert complete("bailey", "doc") == ["doctor"]
    assert complete("bailey", "help", "ver") == ["version"]
    assert complete("bailey", "doctor", "--js") == ["--json"]
    assert complete("bailey", "--color", "a") == ["auto", "always"]
    assert complete("bailey", "version", "--color", "=", "ne") == ["never"]
    assert complete("bailey", "--log-level", "debug", "versi") == ["version"]
    assert complete("bailey", "version", "") == []
    assert complete("bailey", "policy", "ch") == ["check"]
    assert complete("bailey", "policy", "test", "--expa") == []
    assert complete("bailey", "policy", "show", "--expa") == ["--expand"]
    assert complete("bailey", "run", "--mode", "read") == ["read-only"]
    assert complete("bailey", "run", "--policy", "fi") == ["file.yaml"]
    assert complete("bailey", "run", "--bridge", "ku") == ["kubectl"] and complete("bailey", "bridge", "che") == ["check"]
    assert complete("bailey", "run", "--brow") == ["--browser"] and complete("bailey", "run", "--git-s") == ["--git-ssh"]
    assert complete("bailey", "allow", "--pa") == ["--page", "--path"]
    assert complete("bailey", "run", "--mode", "read-only", "mkfi")[:1] == ["mkfifo"]  # a command
    assert complete("bailey", "run", "--", "mkfi")[:1] == ["mkfifo"]
    assert complete("bailey", "run", "cat", "fi") == ["file.yaml"]  # its words
    assert complete("bailey", "run", "cat", "--mo") == []  # no longer ours
    assert "completion" not in complete("bailey", "")
    run(["shellcheck", "--shell=bash", script]).check()


def test_names_of_guests_complete(bailey, run, home, tmp_path):
    """Those that are there, where a guest is named: as the first word of a verb, and behind --guest."""
    for shell in ("bash", "fish"):
        (tmp_path / shell).write_bytes(bailey("completion", shell).check().out)

    def bash(*words):
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bailey; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        return run(["bash", "--norc", "-uc", code, "bash", tmp_path / "bash", program("bailey"), *words], cwd=tmp_path).check().text.split()

    def fish(line):
        script = f"set -p PATH {program('bailey').parent}; source {tmp_path}/fish; complete --do-complete '{line}'"
        return [entry.split("\t")[0] for entry in run(["fish", "--no-config", "-c", script]).check().text.splitlines()]
    (tmp_path / "granted").touch()
    assert bash("guest", "start", "") == [] and fish("bailey guest start ") == []
    assert not (home / ".local/state/bailey").exists(), "who completes makes nothing"
    for name in ("anna", "anton", "berta"):
        bailey("guest", "create", name).check()
    try:
        for words in (("guest", "start"), ("g", "stop"), ("guest", "exec"), ("guest", "exec", "-d"), ("guest", "grant"), ("guest", "logs", "-f"), ("allow", "--guest")):
            assert bash(*words, "an") == ["anna", "anton"], words
        assert fish("bailey guest start an") == fish("bailey guest exec an") == fish("bailey allow --guest an") == ["anna", "anton"]
        assert bash("guest", "grant", "anna", "gr") == ["granted"] and bash("guest", "exec", "anna", "--", "mkfi")[:1] == ["mkfifo"]
        assert bash("guest", "exec", "anna", "mkfi")[:1] == ["mkfifo"] and bash("guest", "create", "an") == []
        assert fish(f"bailey guest grant anna {tmp_path}/gran") == [f"{tmp_path}/granted"] and "mkfifo" in fish("bailey guest exec anna mkfi")
    finally:
        for name in ("anna", "anton", "berta"):
            bailey("guest", "delete", "--force", name)


def test_bash_registers_itself(bailey, run, tmp_path):
    script = tmp_path / "bailey.bash"
    script.write_bytes(bailey("completion", "bash").check().out)
    assert "-F _bailey bailey" in run(["bash", "--norc", "-c", 'source "$1"; complete -p bailey', "bash", script]).check().text


def test_fish_completes(bailey, run, tmp_path):
    script = tmp_path / "bailey.fish"
    script.write_bytes(bailey("completion", "fish").check().out)

    def complete(line):
        text = run(["fish", "--no-config", "-c", f"source {script}; complete --do-complete '{line}'"]).check().text
        return [entry.split("\t")[0] for entry in text.splitlines()]

    assert complete("bailey doc") == ["doctor"]
    assert complete("bailey doctor --js") == ["--json"]
    assert complete("bailey doctor --color a") == ["always", "auto"]
    assert complete("bailey help ver") == ["version"]
    assert complete("bailey policy sh") == ["show"]
    assert complete("bailey policy show --expa") == ["--expand"]
    assert complete("bailey run --mode read") == ["read-only"]


def read_until(fd, wanted, seconds=20):
    seen, end = b"", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 4096)
            except OSError:
                break
    assert wanted in seen, seen
    return seen


def test_zsh_completes_at_its_prompt(bailey, environment, tmp_path):
    (tmp_path / "_bailey").write_bytes(bailey("completion", "zsh").check().out)
    master, slave = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, start_new_session=True,
                             env={**environment, "TERM": "vt100", "PS1": "ready> "})
    os.close(slave)
    try:
        read_until(master, b"ready> ")
        setup = (f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; "
                 "bailey() { print -r -- \"got:$*:\" }; print -r -- is''set\n")
        os.write(master, setup.encode())
        read_until(master, b"isset")
        os.write(master, b"bailey doc\t--js\t\n")
        read_until(master, b"got:doctor --json:")
    finally:
        shell.kill()
        shell.wait(10)
        os.close(master)


# Man pages

def pages(bailey):
    """(page, section, source) as man/meson.build has them."""
    yield "bailey", 1, "bailey.1.in"
    for verb in overview_verbs(bailey("--help").text):
        own = f"bailey-{verb}.1.in"
        yield f"bailey-{verb}", 1, own if (TOP / "man" / own).exists() else "verb.1.in"
    for source in sorted((TOP / "man").glob("*.5.in")):
        yield source.name.removesuffix(".5.in"), 5, source.name


def test_man_pages_render_without_a_warning(bailey, run, tmp_path):
    for page, section, source in pages(bailey):
        text = bailey("man-page", page, TOP / "man" / source).check().out
        file = tmp_path / f"{page}.{section}"
        file.write_bytes(text)
        assert b"@" not in re.sub(rb"@[a-z]+\b(?!@)", b"", text), f"{page}: a directive was left"
        lint = run(["mandoc", "-T", "lint", "-W", "warning", file])
        assert lint.status == 0 and not lint.out, f"{page}: {lint.text}"
        groff = run(["groff", "-man", "-ww", "-Tutf8", file]).check()
        assert not groff.err, f"{page}: {groff.errors}"
        assert page.upper().encode() in groff.out.replace("‐".encode(), b"-").replace("−".encode(), b"-")


def test_the_example_in_the_manual_is_a_policy(bailey, tmp_path):
    source = (TOP / "man/bailey-policy.5.in").read_text()
    block = re.search(r"^\.SH EXAMPLE\n\.nf\n(.*?)^\.fi$", source, re.M | re.S).group(1)
    file = tmp_path / "policy.yaml"
    file.write_text(block.replace("\\-", "-"))
    bailey("policy", "check", file).check()


def test_the_examples_are_valid(bailey):
    examples = sorted((TOP / "examples").glob("*.yaml"))
    assert examples
    for file in examples:
        bailey("policy", "check", file).check()


def test_a_broken_man_source_is_an_error(bailey, tmp_path):
    source = tmp_path / "x.1.in"
    source.write_text('.\\" @nonsense@\n')
    result = bailey("man-page", "bailey", source)
    assert result.status == 3 and f"{source}:1:" in result.errors
    assert bailey("man-page", "bailey", tmp_path / "none").status == 7


def test_tools_are_there():
    """The tests above would say little if the tools were missing; scripts/packages lists them."""
    for tool in ("bash", "zsh", "fish", "mandoc", "groff", "shellcheck"):
        assert shutil.which(tool), f"{tool}: run scripts/packages test"
