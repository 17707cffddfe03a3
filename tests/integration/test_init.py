# SPDX-License-Identifier: Apache-2.0
"""bailey init: what it proposes, what it refuses, and that it writes nothing without a yes."""
import json
import os
import pathlib
import pty
import socket
import stat
import subprocess

import pytest
from conftest import program

FILES = {"package.json": ("{}", "@npm"), "pyproject.toml": ("", "@pypi"), "Cargo.toml": ("", "@crates"), "go.mod": ("", "@golang"),
         "Gemfile": ("", "@rubygems"), "pom.xml": ("", "@maven"), "build.gradle.kts": ("", "@gradle"), "composer.json": ("{}", "@packagist"),
         "mix.exs": ("", "@hex"), "yarn.lock": ("", "@yarn"), "requirements.txt": ("", "@pypi"), "environment.yml": ("", "@conda")}
REMOTES = {"https://github.com/a/b": "@github", "git@github.com:a/b.git": "@github", "ssh://git@gitlab.com:22/a": "@gitlab",
           "https://bitbucket.org/a": "@bitbucket", "https://git.corp.test:8443/x": "git.corp.test:8443",
           "me@git.corp.test:x": "git.corp.test:22", "https://user:word@git.corp.test/x": "git.corp.test:443"}


def git(directory, *words):
    subprocess.run(["git", "-C", str(directory), *words], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name", FILES)
def test_a_file_brings_its_group(bailey, work, name):
    content, group = FILES[name]
    (work / name).write_text(content)
    result = bailey("init", "--print", cwd=work).check()
    assert f'- "{group}" # {name}' in result.text
    assert not (work / ".bailey.yaml").exists()


@pytest.mark.parametrize("url", REMOTES)
def test_a_remote_brings_its_host(bailey, work, url):
    git(work, "init", "-q")
    git(work, "config", "remote.origin.url", url)
    text = bailey("init", "--print", cwd=work).check().text
    assert f'- "{REMOTES[url]}" # a git remote' in text
    assert "word" not in text.replace("words", "").split("network:")[1]


@pytest.mark.parametrize("url", ["../elsewhere", "/srv/git", "file:///srv/git", "http://plain.test/x", "https://10.0.0.1/x", "https://bad host/",
                                 'https://a.test"\n  - evil.test/x', "ext::sh -c id", "evil::https://evil.test/x"])
def test_what_is_no_host_brings_nothing(bailey, work, url):
    git(work, "init", "-q")
    git(work, "config", "remote.origin.url", url)
    text = bailey("init", "--print", cwd=work).check().text
    assert "evil.test" not in text and "allow: []" in text


IMAGES = {"FROM debian:12": ["@docker"], "from --platform=$BUILDPLATFORM  node:22 AS build\nFROM build": ["@docker"],
          "FROM ghcr.io/a/b:1": ["ghcr.io:443"], "\tFROM registry.corp.test:5000/x AS y\nFROM y\nFROM scratch": ["registry.corp.test:5000"],
          "FROM scratch": [], "FROM $BASE": [], "FROM": [], "RUN echo FROM debian": [], "FROM 10.0.0.1:5000/x": [], "FROM bad host/x": ["@docker"],
          'FROM evil.test"/x': [], "FROM --platform=x": [], "\0FROM debian": [], "FROM docker.io/library/debian": ["@docker"]}


@pytest.mark.parametrize("text", IMAGES)
def test_images_bring_their_registry(bailey, work, text):
    (work / "Dockerfile").write_text(text)
    said = bailey("init", "--print", cwd=work).check().text
    for pattern in IMAGES[text]:
        assert f'- "{pattern}" # Dockerfile: images' in said
    assert said.count("# Dockerfile") == len(IMAGES[text]), said


def test_submodules_bring_their_host(bailey, work):
    (work / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = https://git.corp.test/x\n')
    assert '- "git.corp.test:443" # a submodule' in bailey("init", "--print", cwd=work).check().text
    (work / ".gitmodules").write_text('[submodule "x"\n\turl = https://git.corp.test/x\n')
    result = bailey("init", "--yes", cwd=work)
    assert result.status == 3 and ".gitmodules" in result.errors and not (work / ".bailey.yaml").exists()


def test_yes_writes_and_trusts(bailey, work):
    (work / "package.json").write_text(json.dumps({"devDependencies": {"@playwright/test": "1"}}))
    bailey("init", "--yes", cwd=work, env={"GITHUB_TOKEN": "ghp_" + "x" * 36}).check()
    policy = (work / ".bailey.yaml").read_text()
    assert '"@playwright"' in policy and "credentials:" not in policy  # no remote at GitHub: no token for it
    bailey("policy", "check", ".bailey.yaml", cwd=work).check()
    assert "@npm" in bailey("policy", "show", cwd=work).check().text
    bailey("run", "--", "true", cwd=work).check()


def test_a_token_is_offered_with_its_forge(bailey, work):
    git(work, "init", "-q")
    git(work, "config", "remote.origin.url", "https://github.com/a/b")
    secret = "ghp_" + "s" * 36
    text = bailey("init", "--print", cwd=work, env={"GH_TOKEN": secret}).check().text
    assert 'source: "env:GH_TOKEN"' in text and secret not in text


def test_without_a_yes_nothing_is_written(bailey, work):
    result = bailey("init", cwd=work)
    assert result.status == 2 and "--yes" in result.errors
    assert not (work / ".bailey.yaml").exists()


@pytest.mark.parametrize("answer,written", [(b"y\n", True), (b"yes\n", True), (b"\n", False), (b"no\n", False), (b"x y\n", False)])
def test_a_person_is_asked(environment, work, answer, written):
    master, slave = pty.openpty()
    try:
        os.write(master, answer)
        done = subprocess.run([str(program("bailey")), "init"], cwd=work, env=environment, stdin=slave, stdout=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(master)
        os.close(slave)
    assert (work / ".bailey.yaml").exists() == written
    assert done.returncode == (0 if written else 1)


def test_a_policy_that_comes_while_a_person_thinks_stays(environment, work):
    master, slave = pty.openpty()
    try:
        with subprocess.Popen([str(program("bailey")), "init"], cwd=work, env=environment, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
            while b"trust it?" not in asking.stdout.peek():
                asking.stdout.readline()
            (work / ".bailey.yaml").write_text("# mine\n")
            os.write(master, b"y\n")
            assert asking.wait(60) == 3 and b"File exists" in asking.stderr.read()
    finally:
        os.close(master)
        os.close(slave)
    assert (work / ".bailey.yaml").read_text() == "# mine\n" and [path.name for path in work.iterdir()] == [".bailey.yaml"]


def test_a_policy_that_is_there_stays(bailey, work):
    (work / ".bailey.yaml").write_text("# mine\n")
    result = bailey("init", "--yes", cwd=work)
    assert result.status == 3 and "--force" in result.errors
    assert (work / ".bailey.yaml").read_text() == "# mine\n"
    bailey("init", "--yes", "--force", cwd=work).check()
    assert "bailey init" in (work / ".bailey.yaml").read_text()


@pytest.mark.parametrize("text", ["", "{", '{"a":', "[]", "\0", '{"dependencies": 1, "dependencies": 2}', "[" * 5000, '{"dependencies": []}',
                                  '{"dependencies": "playwright"}', '{"devDependencies": null}', '{"optionalDependencies": 7}',
                                  '{"dependencies": {"playwright": ["1"]}}', '{"devDependencies": {"x": 1}}'])
def test_a_broken_package_is_an_error(bailey, work, text):
    (work / "package.json").write_text(text)
    result = bailey("init", "--yes", cwd=work)
    assert result.status == 3 and "package.json" in result.errors
    assert not (work / ".bailey.yaml").exists()


def make_socket(path):
    at = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{at}/{path.name}")  # the path itself may be too long for an address
    os.close(at)


READ = [*FILES, "setup.py", "Pipfile", "build.gradle", "Dockerfile", ".gitmodules", ".git/config", ".git"]
KINDS = {"a named pipe": os.mkfifo, "a directory": pathlib.Path.mkdir, "a socket": make_socket}


@pytest.mark.parametrize("name,kind", [(name, kind) for name in READ for kind in KINDS if (name, kind) != (".git", "a directory")])
def test_what_is_no_file_is_an_error(bailey, work, name, kind):
    """Whatever stands under a name that init looks at: it says so, waits for nobody and writes nothing."""
    (work / name).parent.mkdir(exist_ok=True)
    KINDS[kind](work / name)
    result = bailey("init", "--yes", cwd=work, timeout=20)
    assert result.status == 3 and f"{name} is {kind}, not a file" in result.errors, result
    assert not (work / ".bailey.yaml").exists()


def test_a_device_is_not_opened(bailey, work):
    try:
        os.mknod(work / "package.json", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: has no end
    except PermissionError:  # only root makes one
        os.symlink("/dev/zero", work / "package.json")
        assert "package.json is a symbolic link" in bailey("init", "--print", cwd=work).check().text
        return
    result = bailey("init", "--yes", cwd=work, timeout=20)
    assert result.status == 3 and "package.json is a device, not a file" in result.errors, result
    assert not (work / ".bailey.yaml").exists()


def test_git_is_a_file_in_a_second_working_tree(bailey, work):
    (work / ".git").write_text("gitdir: /elsewhere\n")
    assert "allow: []" in bailey("init", "--print", cwd=work).check().text


def test_links_are_not_followed_and_named(bailey, work, home):
    (home / "elsewhere").write_text("{")
    (home / "config").write_text('[remote "origin"]\n\turl = https://evil.test/x\n')
    for name in ("package.json", "Dockerfile", ".gitmodules", "Cargo.toml", "build.gradle"):
        (work / name).symlink_to(home / "elsewhere")
    (work / "go.mod").symlink_to("nowhere")
    (work / ".git").symlink_to(home)
    text = bailey("init", "--print", cwd=work).check().text
    assert "allow: []" in text and "evil.test" not in text
    for name in ("package.json", "Dockerfile", ".gitmodules", "Cargo.toml", "build.gradle", "go.mod", ".git/config"):
        assert text.count(f"# {name} is a symbolic link, or below one: it was not looked at.\n") == 1, text


def test_an_enormous_file_is_an_error(bailey, work):
    with open(work / "package.json", "wb") as file:
        file.truncate(5 << 20)
    result = bailey("init", "--yes", cwd=work)
    assert result.status == 3 and "package.json" in result.errors


def test_dev_is_what_its_groups_are(bailey, work):
    """And brings the mirrors of the groups that it stands for."""
    for host in ("github.com:443", "registry.npmjs.org:443", "pypi.org:443", "docs.python.org:443", "static.crates.io:443"):
        assert bailey("policy", "test", "--allow", "@dev", host, cwd=work).status == 0, host
    assert bailey("policy", "test", "--allow", "@dev", "evil.test:443", cwd=work).status != 0
