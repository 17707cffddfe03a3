# SPDX-License-Identifier: Apache-2.0
"""Debian's docker by its built-in table, against a daemon of the test's own: reading verbs answer, and nothing else reaches the daemon."""
import json

import pytest

from kit.engine import IMAGE, Docker, Unusable
from kit.process import SLOW

pytestmark = [pytest.mark.visible_home, pytest.mark.root]


@pytest.fixture(scope="module")
def daemon():
    """One container that runs and has said something, a volume, and an image; for the whole file, since a daemon takes seconds to come."""
    try:
        engine = Docker()
    except Unusable as why:
        pytest.skip(str(why))
    try:
        made = engine("run", "--detach", "--name", "web", "--network", "none", "--env", "COLOUR=blue", IMAGE, "/busybox", "sh", "-c",
                      "/busybox touch /made; echo a line of the log; exec /busybox sleep 100000")
        assert made.returncode == 0, made.stderr
        assert engine("volume", "create", "kept").returncode == 0
        yield engine
    finally:
        engine("rm", "--force", "web")
        engine.close()


@pytest.fixture
def docker(bailey, home, work, daemon):
    socket = daemon.environment["DOCKER_HOST"].removeprefix("unix://")

    def run(script, **entry):
        # The place of the socket is the test's own; everything else of the table is as it is built in.
        own = {"program": "/usr/bin/docker", "files": [socket], "env": [f"DOCKER_HOST=unix://{socket}", "DOCKER_CLI_HINTS=false"], **entry}
        (home / "policy.yaml").write_text(json.dumps({"bridge": {"docker": own}}))
        audit = home / "audit.jsonl"
        audit.unlink(missing_ok=True)
        done = bailey("run", "--policy", str(home / "policy.yaml"), "--audit", str(audit), "--", "bash", "-c", script, cwd=work, timeout=200 * SLOW)
        done.calls = [r for r in map(json.loads, audit.read_text().splitlines()) if r.get("kind") == "command"]
        return done
    run.socket = socket
    return run


READING = [  # a call, and what its answer has
    ("ps --all --format '{{.Names}} {{.Image}}'", f"web {IMAGE}"),
    ("ps -a -q --no-trunc --filter name=web", None),
    ("images -q", None),
    (f"images {IMAGE} --format '{{{{.Repository}}}}'", IMAGE),
    ("logs web --tail 5 --timestamps", "a line of the log"),
    ("top web", "sleep 100000"),
    ("port web", ""),
    ("diff web", "A /made"),
    (f"history {IMAGE} --no-trunc", "Imported from"),
    ("stats web --no-stream --format '{{.Name}}'", "web"),
    ("inspect web --format '{{.State.Status}}'", "running"),
    ("inspect web --type container -s", '"Name": "/web"'),
    ("network ls --format '{{.Name}}'", "none"),
    ("network inspect none -f '{{.Driver}}'", "null"),
    ("volume ls -q", "kept"),
    ("volume inspect kept", '"Name": "kept"'),
    ("version --format '{{.Server.Os}}'", "linux"),
    ("info --format '{{.Driver}}'", "vfs"),
]


def words_of(lines, verbs):
    return {next(verb for verb in verbs if f"{line} ".startswith(f"{verb} ")) for line in lines}


def test_every_reading_verb(docker, bailey, daemon):
    shown = bailey("bridge", "show", "docker").check().text.partition("\nverbs ")[2].partition("\nnever ")[0]
    verbs = ["network ls", "network inspect", "volume ls", "volume inspect", *"ps images logs top port diff history stats inspect version info".split()]
    assert words_of([line.strip() for line in shown.splitlines()], verbs) == set(verbs) == words_of([words for words, _ in READING], verbs), shown
    done = docker("".join(f"echo '### {number}'; docker {words} 2>&1 || echo FAILED $?; " for number, (words, _) in enumerate(READING))).check()
    parts = [part.partition("\n")[2] for part in done.text.split("### ")[1:]]
    wrong = [(words, part) for (words, answer), part in zip(READING, parts, strict=True)
             if "FAILED" in part or (part.strip() == "") is not (answer == "") or (answer or "") not in part]
    assert not wrong, wrong
    assert [r["allowed"] for r in done.calls] == [True] * len(READING)


REFUSED = [
    "run -v /:/host lab /busybox true", "exec web /busybox true", "create lab", "build .", "buildx build .", "compose up", "cp web:/made .", "cp data web:/made", "commit web x",
    "export web", "save lab", "load -i data", "import data", "push lab", "pull lab", "login", "logout", "plugin install x", "context use x", "rm -f web", "rmi lab", "kill web",
    "stop web", "start web", "restart web", "pause web", "attach web", "update web", "rename web x", "wait web", "system prune -f", "system df", "swarm init", "secret ls",
    "volume rm kept", "volume create x", "volume prune -f", "network create x", "network rm none", "network connect none web", "container ls", "container rm -f web", "image ls",
    "image rm lab", "tag lab x", "events", "search x", "trust inspect lab", "manifest inspect lab", "builder prune -f", "checkpoint ls web",
    "-H tcp://127.0.0.1:1 ps", "-Htcp://127.0.0.1:1 ps", "--host=tcp://127.0.0.1:1 ps", "--context x ps", "--config . ps", "--tlscacert data ps", "-l debug ps", "-D ps", "-v", "--version",
    "ps -H tcp://127.0.0.1:1", "ps --host tcp://127.0.0.1:1", "ps --context x", "ps -aq", "ps --al", "ps -n5", "ps -n=5", "ps --all=true", "ps --format @data", "ps --filter=@data", "stats", "stats web",
    "logs -f web", "logs --follow web", "logs --follo web", "logs -n1 web", "inspect", "inspect -- -f", "inspect web --type secret", "help", "ps --help", "ps extra", "docker ps", "ps --",
    "--  ps", "'' ps", "PS", "top web -eo pid",
]


def test_what_the_table_refuses(docker, work, daemon):
    """None of it begins, whatever form it has; and the container, the image and the volume are as they were."""
    (work / "data").write_text("x")
    before = daemon("inspect", "web", "--format", "{{.Id}} {{.State.StartedAt}} {{.RestartCount}}").stdout
    allowed = {"ps --"}  # nothing stands behind it: the call is `docker ps`
    done = docker("".join(f"docker {words} </dev/null >/dev/null; test $? = 125 || echo RAN {words!r}; " for words in REFUSED)
                  + f"curl -s -m 10 --unix-socket {docker.socket} http://x/version && echo SPOKEN; ls -A; true")
    assert done.check().text.splitlines() == ["RAN ps --", "data"], str(done)
    assert [r["allowed"] for r in done.calls] == [words in allowed for words in REFUSED]
    assert daemon("inspect", "web", "--format", "{{.Id}} {{.State.StartedAt}} {{.RestartCount}}").stdout == before
    assert daemon("volume", "ls", "-q").stdout.split() == ["kept"] and IMAGE in daemon("images", "--format", "{{.Repository}}").stdout


def test_the_socket_is_the_tools(docker, home, work):
    """A plugin or a configuration of the caller's is not the tool's: it would speak to the daemon freely."""
    plugins = work / ".docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-ps").write_text("#!/bin/sh\necho PLUGIN\n")
    (plugins / "docker-ps").chmod(0o755)
    (work / ".docker/config.json").write_text(json.dumps({"psFormat": "CONFIGURED", "cliPluginsExtraDirs": [str(plugins)], "aliases": {"builder": "ps"}}))
    done = docker(f"export HOME={work} DOCKER_CONFIG={work}/.docker DOCKER_HOST=tcp://127.0.0.1:1 DOCKER_CONTEXT=x DOCKER_API_VERSION=1.0; docker ps").check()
    assert "web" in done.text and "PLUGIN" not in done.text and "CONFIGURED" not in done.text, str(done)
