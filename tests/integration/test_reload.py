# SPDX-License-Identifier: Apache-2.0
"""A policy that changes while its sandbox runs: what counts at once, and what is said to count later, section by section."""
import json
import subprocess

import pytest

from kit.control import Control, sockets, wait_for
from kit.forge import Forge
from kit.process import SLOW
from kit.sshd import keygen

pytestmark = pytest.mark.visible_home
FORGE = "forge.ok.test"


@pytest.fixture
def living(home, work, start, config, closing, authority):
    """living(policy, probe): a sandbox that runs the probe as often as it is told to; .look() is what it printed."""
    class Living:
        def __init__(self, policy, probe, env=None):
            self.number = 0
            self.write(policy)
            (home / "hosts").write_text(f"127.0.0.1 {FORGE} origin.test\n")
            script = ("for i in $(seq 1 50); do for k in $(seq 1200); do test -e go$i && break; sleep 0.05; done; test -e end && exit; "
                      f"{{ {probe}; }} > out$i 2>&1; touch done$i; done")
            self.child = start(["bailey", "run", "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--", "bash", "-c", script], cwd=work, env=env or {})
            path = wait_for(lambda: sockets(home), "the control socket", 60 * SLOW)[0]
            self.control = closing(Control(path))

        @staticmethod
        def write(policy):
            config.write_text(json.dumps(policy))

        def look(self):
            self.number += 1
            (work / f"go{self.number}").touch()
            wait_for((work / f"done{self.number}").exists, "the probe", 60 * SLOW)
            return (work / f"out{self.number}").read_text().strip()

        def reload(self, policy):
            self.write(policy)
            said = [self.control("reload")["later"] for _ in range(2)]
            assert said[0] == said[1], said  # what does not count yet is said each time
            return said[0]

        def end(self):
            (work / "end").touch()
            for number in range(self.number, 51):
                (work / f"go{number}").touch()
            self.child.wait(60 * SLOW)
    return Living


@pytest.fixture
def forge(start, authority, tmp_path, free_port):
    forge = Forge(start, authority, tmp_path / "forge", FORGE, free_port())
    for name in ("acme/app", "acme/lib"):
        forge.make(name, tmp_path)
    forge.where = f"{FORGE}:{forge.port}"
    forge.probe = f"for r in app lib; do git ls-remote https://{forge.where}/acme/$r main > refs 2>/dev/null && echo $r; done; true"
    return forge


def of_git(forge, *names):
    return {"network": {"allow_private": [forge.where]}, "git": [{"repo": f"{forge.where}/acme/{name}"} for name in names]}


def test_git_counts_at_once(living, forge, bailey):
    run = living(of_git(forge, "app"), forge.probe)
    assert run.look() == "app"
    assert run.reload(of_git(forge, "lib")) == "" and run.look() == "lib"
    run.control("allow", pattern="more.example.com")  # whatever is compiled later goes by the same entries
    assert run.look() == "lib"
    assert run.reload(of_git(forge, "app", "lib")) == "" and run.look() == "app\nlib"
    run.end()


def test_git_without_a_way_to_see_it(living, forge):
    """The sandbox was started without anything that opens TLS: the host is refused, and the answer says when it counts."""
    plain = {"network": {"allow": [forge.where], "allow_private": [forge.where]}}
    run = living(plain, f"curl -sk -m 20 -o page https://{forge.where}/page && echo reached || echo refused")
    assert run.look() == "reached"
    assert run.reload({**plain, **of_git(forge, "app")}) == "git" and run.look() == "refused"
    rules = {"network": {**plain["network"], "rules": [{"host": forge.where, "methods": ["GET"]}]}}
    assert run.reload(rules) == "network.rules" and run.look() == "refused"
    assert run.reload(plain) == "" and run.look() == "reached"
    run.end()


def of_ratchet(origin, *hosts, say="a secret was read"):
    where = f"origin.test:{origin.port}"
    return {"network": {"allow": [where, *hosts], "allow_private": [where]},
            "ratchet": [{"when": {"read": ["**/secret"]}, "then": {"allow": ["none"], "say": say}}]}


def test_a_ratchet_stays_closed(living, origin, work, bailey):
    (work / "secret").write_text("s")
    run = living(of_ratchet(origin), f"test -e read && cat secret > seen; curl -sf -m 20 http://origin.test:{origin.port}/ || echo refused")
    assert run.look() == "origin"
    assert run.reload(of_ratchet(origin, say="another reason")) == "ratchet" and run.look() == "origin"
    (work / "read").touch()
    assert run.look() == "refused" and run.control("status")["state"] == "narrowed"
    for policy, later in ((of_ratchet(origin), ""), (of_ratchet(origin, "more.example.com"), ""), ({"network": of_ratchet(origin)["network"]}, "ratchet")):
        assert run.reload(policy) == later and run.look() == "refused", policy
        [closed] = run.control("status")["ratchets"]
        assert closed["say"] == "a secret was read"
    run.control("allow", pattern=f"origin.test:{origin.port}")
    assert run.look() == "refused"
    run.end()


def test_a_ratchet_that_comes_later_closes_nothing(living, origin, work):
    (work / "secret").write_text("s")
    run = living({"network": of_ratchet(origin)["network"]}, f"cat secret > seen; curl -sf -m 20 http://origin.test:{origin.port}/ || echo refused")
    assert run.reload(of_ratchet(origin)) == "ratchet" and run.look() == "origin"
    run.end()


def test_browser(living, home):
    program = home / "browser"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)

    def policy(*hosts, **more):
        return {"browser": {"hosts": list(hosts), "program": str(program), "ask": False, **more}} if hosts else {}
    probe = "for h in one two; do xdg-open https://$h.test/ > said 2>&1 && echo $h; done; true"
    run = living(policy("one.test"), probe)
    assert run.look() == "one"
    for changed in (policy("two.test"), policy("one.test", ask=True), policy("one.test", callback_timeout="5m"), {}):
        assert run.reload(changed) == "browser" and run.look() == "one", changed
    assert run.reload(policy("one.test")) == ""
    run.end()
    run.child.stop()


def test_ssh_and_signing(living, home, work, start):
    agent, keys = home / "agent", [home / "a", home / "b"]
    start(["ssh-agent", "-D", "-a", agent])
    wait_for(agent.exists, "ssh-agent")
    for key in keys:
        keygen(key)
        subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(agent), "PATH": "/usr/bin:/bin"}, check=True, timeout=30, capture_output=True)
    (work / "a.pub").write_text((home / "a.pub").read_text())
    names = [str(home / "a.pub"), str(home / "b.pub")]

    def policy(number, signs, **more):
        return {"ssh": {"keys": names[:number], **more}, "signing": {"ssh": signs}}
    probe = "ssh-add -l | wc -l; rm -f file.sig; echo x > file; ssh-keygen -q -Y sign -n git -f a.pub file > said 2>&1 && echo signed || echo not"
    run = living(policy(1, True), probe, {"SSH_AUTH_SOCK": str(agent)})
    assert run.look() == "1\nsigned"
    for changed, later in ((policy(2, True), "ssh"), (policy(1, False), "signing"), (policy(2, False), "ssh, signing"), (policy(1, True, hosts=["x.test"]), "ssh"),
                           ({**policy(1, True), "signing": {"ssh": True, "ask": True}}, "signing"), ({}, "ssh, signing")):
        assert run.reload(changed) == later and run.look() == "1\nsigned", changed
    assert run.reload(policy(1, True)) == ""
    run.end()


CORP = {"name": "corp", "env": "CORP_KEY", "source": "env:CORP_LOGIN", "hosts": ["corp.test"], "slot": "bearer"}
TOOL = {"tool": {"program": "/bin/true", "verbs": ["show"], "credentials": ["corp"]}}


@pytest.mark.parametrize("before, after, later", [
    ({}, {"network": {"publish": ["8080:80"]}}, "network.publish"),
    ({}, {"network": {"dns_servers": ["192.0.2.1"]}}, "network.dns_servers"),
    ({}, {"network": {"upstream_proxy": "http://127.0.0.1:9", "upstream_bypass": ["x.test"]}}, "network.upstream_proxy, network.upstream_bypass"),
    ({}, {"network": {"ca_key": "rsa4096"}}, "network.ca_key"),
    ({}, {"process": {"nesting": True, "timeout": "9m", "env": {"set": {"A": "1"}}}}, "process.timeout, process.env, process.nesting"),
    ({}, {"filesystem": {"deny_read": ["/srv"]}}, "filesystem"),
    ({}, {"audit": "/nowhere/x.jsonl"}, "audit"),
    ({}, {"network": {"allow": ["x.test"], "deny": ["y.test"], "ask_timeout": "9s"}, "approval": {"command": "true"}, "monitor": [{"violations": 9, "within": "1m", "action": "warn"}]}, ""),
    ({"credentials": [CORP]}, {"credentials": [{**CORP, "hosts": ["other.test"]}]}, "credentials"),
    ({"credentials": [CORP], "bridge": TOOL}, {"credentials": [{**CORP, "source": "env:HOME"}], "bridge": TOOL}, "bridge"),
    ({"credentials": [CORP], "bridge": TOOL}, {"credentials": [{**CORP, "sandbox": True}], "bridge": TOOL}, "credentials"),
])
def test_sections(living, before, after, later):
    run = living(before, "echo here", {"CORP_LOGIN": "crp-live-Zq8Yt3KpXw5Nn7Bb2Vv4"})
    assert run.look() == "here"
    assert run.reload(before) == "" and run.reload(after) == later and run.reload(before) == ""
    run.end()


def test_files_of_credentials_are_nobodys_change(living, home):
    (home / "token").write_text("crp-live-Zq8Yt3KpXw5Nn7Bb2Vv4\n")
    policy = {"credentials": [{**CORP, "source": f"file:{home}/token"}], "filesystem": {"read": [str(home / "more")], "deny_read": ["/srv"]}}
    (home / "more").mkdir()
    run = living(policy, f"cat {home}/token || echo closed")
    assert "closed" in run.look() and run.reload(policy) == ""
    assert run.reload({**policy, "filesystem": {"deny_read": ["/srv", "/opt"]}}) == "filesystem" and "closed" in run.look()
    run.end()
