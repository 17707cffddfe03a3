# SPDX-License-Identifier: Apache-2.0
"""Real git over ssh from inside a sandbox, by the host's own ssh, to a real sshd: judged as over https, and nothing of a refusal arrives."""
import json
import os
import pathlib
import signal
import threading
import time

import pytest

from kit.process import SLOW, wait_until
from kit.sshd import Sshd

APP = {"repo": "acme/app", "push": ["refs/heads/agent/**"]}
SETUP = ("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_TERMINAL_PROMPT=0 "
         "GIT_CONFIG_GLOBAL=$HOME/.gitconfig URL={url}; git config -f ~/.gitconfig init.defaultBranch main; "
         "git config -f ~/.gitconfig protocol.file.allow always\n")


@pytest.fixture
def sshd(start, tmp_path, free_port):
    return Sshd(start, tmp_path / "sshd", free_port())


@pytest.fixture
def inside(bailey, home, work, sshd):
    """inside(entries, script): the script in a sandbox whose policy lets git use ssh for these entries."""
    def run(entries, script, policy=None, options=(), setup=True, env=None, **more):
        file, audit = home / "policy.yaml", home / "audit.jsonl"
        entries = [{**entry, "repo": f"{sshd.where}/{entry['repo']}"} for entry in entries]
        whole = {"network": {"allow_private": [sshd.where]}, "git": entries,
                 "ssh": {"git": True, "users": [sshd.user], "known_hosts": [str(sshd.known_hosts)],
                         "identities": [str(sshd.directory / "key")]}}
        for section, values in (policy or {}).items():
            whole[section] = {**whole.get(section, {}), **values} if isinstance(values, dict) else values
        file.write_text(json.dumps(whole))
        if audit.exists():
            audit.unlink()
        if setup:
            script = SETUP.format(url=f"ssh://{sshd.user}@{sshd.where}") + script
        done = bailey("run", "--policy", str(file), "--audit", str(audit), *options, "--", "bash", "-c", script, cwd=work, timeout=120,
                      **({"env": env} if env else {}), **more)
        done.records = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return done
    return run


def of_ssh(done):
    return [r for r in done.records if r.get("via") == "ssh"]


def test_clone_push_and_refusals(inside, sshd, work):
    sshd.make("acme/app", work)
    sshd.make("acme/prod", work)
    before = sshd.refs("acme/app")
    done = inside([APP], """
        git clone -q $URL/acme/app.git one && echo cloned; cd one
        head -c 300000 /dev/urandom > new && git add new && git commit -qm new
        git push origin HEAD:refs/heads/agent/x 2>&1 && echo pushed
        git push origin HEAD:refs/heads/agent/x 2>&1 && echo up to date
        git push origin HEAD:main 2>&1 || echo refused main
        git push origin HEAD:refs/heads/agent/y HEAD:main 2>&1 || echo refused both
        git push origin :refs/heads/agent/x 2>&1 || echo refused deletion
        git push origin HEAD:refs/tags/v1 2>&1 || echo refused tag
        git clone -q $URL/acme/prod.git two 2>&1 || echo refused prod
        ls -la /run/bailey-ssh; env | grep -i ssh
        """)
    text = done.text
    assert "cloned" in text and "pushed" in text and "up to date" in text, str(done)
    for line in ("refused main", "refused both", "refused deletion", "refused tag", "refused prod"):
        assert line in text, str(done)
    assert "! [remote rejected] HEAD -> main (bailey refused it: refs/heads/main: the rule allows no push to this ref)" in text, str(done)
    assert "fatal: remote error: bailey: policy refused" in text, str(done)
    after = sshd.refs("acme/app")
    assert after.pop("refs/heads/agent/x")
    assert after == before
    assert len([data for data in sshd.pushed() if b"PACK" in data]) == 1 and all(b"refs/heads/main" not in data for data in sshd.pushed())
    assert not [line for line in sshd.commands() if "prod" in line]
    refused = [r for r in of_ssh(done) if not r["allowed"]]
    assert {r["reason"] for r in refused} == {"git-ref", "git-repository"}, refused
    assert [ref["ref"] for r in refused for ref in r["git"]["refs"]].count("refs/heads/main") == 2, refused


def test_every_way_to_fetch(inside, sshd, work):
    """Protocols, shallow and partial clones, archives, submodules."""
    sshd.make("acme/app", work)
    sshd.make("acme/lib", work)
    done = inside([{"repo": "acme/*"}], """
        set -e
        for version in 0 1 2; do git -c protocol.version=$version clone -q $URL/acme/app.git v$version; git -C v$version fetch -q; done
        git clone -q --depth 1 $URL/acme/app.git shallow && test $(git -C shallow rev-list --count HEAD) = 1
        git -C shallow fetch -q --unshallow && test $(git -C shallow rev-list --count HEAD) = 2
        git clone -q --filter=blob:none --no-checkout $URL/acme/app.git partial && git -C partial checkout -q main
        git ls-remote -q $URL/acme/app.git HEAD | grep -q HEAD
        git archive --remote=$URL/acme/app.git main file | tar t | grep -q file
        cd v2 && git submodule add -q $URL/acme/lib.git lib && git commit -qm sub && cd ..
        git clone -q --recurse-submodules v2 again 2>/dev/null && test -s again/lib/file
        echo all fine
        git -C v2 push $URL/acme/app.git HEAD:refs/heads/x 2>&1 || echo no push
        """)
    assert "all fine" in done.text and "no push" in done.text, str(done)
    assert "the rule allows no push" in done.text, str(done)
    assert not [line for line in sshd.commands() if "receive-pack" in line]
    for version in (1, 2):
        assert [line for line in sshd.commands() if f"(version={version})" in line], sshd.commands()
    assert all(line.endswith("agent=") for line in sshd.commands()), sshd.commands()
    assert {r["git"]["service"] for r in of_ssh(done)} == {"upload-pack", "receive-pack", "upload-archive"}


def test_every_way_to_push(inside, sshd, work):
    """Many refs, tags, deletions, force, atomic, options; recorded with their refs. What an entry does not name is refused."""
    sshd.make("acme/app", work)
    sshd.make("acme/strict", work)
    entries = [{"repo": "acme/app", "push": ["refs/heads/agent/**", "refs/tags/*"], "delete": True, "push_options": True},
               {"repo": "acme/strict", "push": ["refs/heads/**"], "create": False}]
    done = inside(entries, """
        set -e
        git clone -q $URL/acme/app.git one && cd one
        for i in 1 2 3; do git commit -q --allow-empty -m $i; done
        git push -q origin HEAD:refs/heads/agent/a HEAD~1:refs/heads/agent/b HEAD~2:refs/heads/agent/c
        git tag v1 && git tag -a -m x v2 && git push -q origin v1 v2
        git push -q --force origin HEAD~2:refs/heads/agent/a
        git push -q --atomic origin HEAD:refs/heads/agent/d HEAD:refs/heads/agent/e
        git push -q -o ci.skip origin HEAD:refs/heads/agent/f
        git push -q origin :refs/heads/agent/b :refs/tags/v1
        for version in 0 1 2; do git -c protocol.version=$version push -q origin HEAD:refs/heads/agent/v$version; done
        git push -q $(for i in $(seq 60); do echo origin; break; done) $(for i in $(seq 60); do echo HEAD:refs/heads/agent/many/$i; done)
        echo all fine
        set +e
        git push --atomic origin HEAD:refs/heads/agent/g HEAD:refs/heads/main 2>&1 || echo no 1
        git push --force origin HEAD:refs/heads/main 2>&1 || echo no 2
        git push $URL/acme/strict.git HEAD:refs/heads/new 2>&1 || echo no 3
        git push --force -o ci.skip $URL/acme/strict.git HEAD:refs/heads/main 2>&1 || echo no 4
        git push --mirror $URL/acme/strict.git 2>&1 || echo no 5
        git push --force $URL/acme/strict.git HEAD:refs/heads/main 2>&1 && echo yes 6
        """)
    assert "all fine" in done.text and all(f"no {i}" in done.text for i in range(1, 6)) and "yes 6" in done.text, str(done)
    refs = sshd.refs("acme/app")
    names = {"refs/heads/main", "refs/tags/v2", *(f"refs/heads/agent/{name}" for name in ["a", "c", "d", "e", "f", "v0", "v1", "v2"]),
             *(f"refs/heads/agent/many/{i}" for i in range(1, 61))}
    assert set(refs) == names
    assert set(sshd.refs("acme/strict")) == {"refs/heads/main"}
    data = b"".join(sshd.pushed())
    assert b"agent/g" not in data and b"refs/heads/new" not in data
    pushed = [ref for r in of_ssh(done) if r["allowed"] and r["git"]["service"] == "receive-pack" for ref in r["git"]["refs"]]
    assert {ref["ref"] for ref in pushed} >= {"refs/heads/agent/a", "refs/tags/v2", "refs/heads/agent/f"}
    assert [ref for ref in pushed if ref["ref"] == "refs/heads/agent/b" and set(ref["new"]) == {"0"}], pushed


# One case for each way to make ssh do something else: words of the program, none of which may reach the host's ssh.
HOSTILE = [
    "-oProxyCommand=CANARY {host} GIT", "-o ProxyCommand=CANARY {host} GIT", "-o SendEnv=GIT_PROTOCOL -o SendEnv=GIT_PROTOCOL {host} GIT",
    "-o SendEnv=PATH {host} GIT", "-F /tmp/config {host} GIT", "-i /tmp/key {host} GIT", "-J other {host} GIT", "-W x:1 {host} GIT",
    "-L 1:x:1 {host} GIT", "-R 1:x:1 {host} GIT", "-D 1 {host} GIT", "-A {host} GIT", "-X {host} GIT", "-S /tmp/s {host} GIT",
    "-E /tmp/log {host} GIT", "-I /tmp/lib.so {host} GIT", "-w any {host} GIT", "-G {host} GIT", "-V", "-Q key", "-p 0 {host} GIT", "-p 22x {host} GIT",
    "-p {port} -p {port} {host} GIT", "-- {host} GIT", "{port_only} -oProxyCommand=CANARY GIT", "{port_only} -lroot@127.0.0.1 GIT",
    "{port_only} 'a@b c' GIT", "{port_only} -x@127.0.0.1 GIT", "{port_only} nobody@127.0.0.1 GIT", "{port_only} $USER@127.0.0.1;CANARY GIT",
    "{port_only} $USER@127.0.0.1%0aCANARY GIT", "{host}", "{host} ls", "{host} 'sh -c CANARY'", "{host} GIT extra", "{host} git-shell",
    "{host} \"git-upload-pack 'acme/app.git' ; CANARY\"", "{host} \"git-upload-pack 'acme/app.git';CANARY\"", "{host} 'git-upload-pack acme/app.git'",
    "{host} \"git-upload-pack  'acme/app.git'\"", "{host} \"git-upload-pack 'acme/../prod/x.git'\"", "{host} \"git-upload-pack '../acme/app.git'\"",
    "{host} \"git-upload-pack 'acme//app.git'\"", "{host} \"git-upload-pack '-x'\"", "{host} \"git-upload-pack '--exec=CANARY'\"",
    "{host} \"git-upload-pack '/-x/app.git'\"", "{host} \"git-upload-pack 'acme/a%70p.git'\"", "{host} \"git-upload-pack 'acme/app.git\\n'\"",
    "{host} \"git-upload-pack 'acme/\\$(CANARY)'\"", "{host} \"git-upload-pack 'ACME/app.git'\"", "{host} \"git-upload-pack '~root/acme/app.git'\"",
    "{host} \"git-upload-pack ''\"", "{host} \"git upload-pack 'acme/app.git'\"", "{host} \"git-upload-pack --strict 'acme/app.git'\"",
    "{host} \"git-lfs-authenticate 'acme/app.git' upload\"", "{host} \"git-lfs-transfer acme/app.git upload\"", "{host} \"GIT_DIR=/ git-upload-pack 'acme/app.git'\"",
    "{host} \"git-receive-pack 'acme/prod.git'\"", "",
]


def test_hostile_command_lines(inside, sshd, work, home):
    sshd.make("acme/app", work)
    script = "touch ran-inside; "
    for number, words in enumerate(HOSTILE):
        words = words.format(host=f"-p {sshd.port} {sshd.user}@127.0.0.1", port=sshd.port, port_only=f"-p {sshd.port}")
        words = words.replace("GIT", "\"git-upload-pack 'acme/app.git'\"", 1) if "GIT_" not in words else words
        words = words.replace("CANARY", f"touch${{IFS}}{home}/canary")
        script += f"USER={sshd.user}; timeout 20 /run/bailey-ssh/ssh {words} </dev/null >/dev/null 2>&1; echo {number}:$?\n"
    script += "printf 'BSH1\\001\\377\\377\\377' | timeout 20 python3 -c 'import socket,sys; s=socket.socket(socket.AF_UNIX); " \
              "s.connect(\"/run/bailey-ssh/socket\"); s.sendall(sys.stdin.buffer.read()); print(\"left\", s.recv(10))'\n"
    script += "GIT_PROTOCOL='version=2:x' /run/bailey-ssh/ssh -p %d %s@127.0.0.1 \"git-upload-pack 'acme/app.git'\" </dev/null >/dev/null 2>&1; echo env:$?\n" % (
        sshd.port, sshd.user)
    done = inside([{"repo": "acme/app"}], script, setup=False)
    codes = dict(line.split(":") for line in done.text.splitlines() if ":" in line and line.split(":")[0].isalnum())
    assert all(int(codes[str(number)]) not in (0, 124) for number in range(len(HOSTILE))), {HOSTILE[int(k)]: v for k, v in codes.items() if k.isdigit() and v in ("0", "124")}
    assert codes["env"] not in ("0", "124") and "left b''" in done.text, str(done)
    assert not (home / "canary").exists() and sshd.commands() == [], sshd.commands()
    assert len([r for r in of_ssh(done) if not r["allowed"]]) >= len(HOSTILE) - 3


def test_attempts_to_change_the_programs_are_on_record(inside, sshd, work):
    """What stands for ssh, and the socket that it speaks to: nothing inside takes their place, and who tries is seen."""
    sshd.make("acme/app", work)
    done = inside([{"repo": "acme/app"}], """
        cd /run/bailey-ssh; rm -f ssh socket; mv ssh /tmp/ssh; mv socket x; echo x > ssh; cd /; mv /run/bailey-ssh /run/other; chmod 777 /run/bailey-ssh/ssh
        git ls-remote -q $URL/acme/app.git > /dev/null && echo reached
        """)
    assert done.text.split() == ["reached"], str(done)
    tried = {(r["method"], r["path"]) for r in done.records if r.get("kind") == "file" and r["reason"] == "deny-rule" and not r["allowed"]}
    place = "/run/bailey-ssh"
    assert tried >= {("unlink", f"{place}/ssh"), ("unlink", f"{place}/socket"), ("rename", f"{place}/ssh"), ("open-write", f"{place}/ssh"),
                     ("rename", place), ("chmod", f"{place}/ssh")}, str(done)


def test_lfs_over_ssh_says_what_to_do_instead(inside, sshd, work):
    """Its login would hand out a token: refused before anything runs outside, in words that git-lfs prints."""
    sshd.make("acme/app", work)
    done = inside([APP], """
        git clone -q $URL/acme/app.git one && cd one && git lfs install --local > /dev/null && git lfs track '*.bin' > /dev/null
        echo data > a.bin && git add . && git commit -qm lfs && git lfs push origin HEAD 2>&1 || echo refused
        for verb in "git-lfs-authenticate 'acme/app.git' upload" "git-lfs-authenticate acme/app.git download" "git-lfs-transfer 'acme/app.git' upload"; do
            /run/bailey-ssh/ssh -p %d %s@127.0.0.1 "$verb" < /dev/null 2>&1 || echo "status $?"
        done
        """ % (sshd.port, sshd.user))
    says = "LFS over ssh would hand a token to the sandbox; use https for it: git config -f .lfsconfig lfs.url https://HOST/PATH.git/info/lfs"
    assert done.text.count(says) >= 4 and "refused" in done.text and done.text.count("\nstatus 128") == 3, str(done)
    assert not [command for command in sshd.commands() if "lfs" in command], sshd.commands()
    forms = [r for r in of_ssh(done) if r["reason"] == "git-form"]
    assert len(forms) >= 4 and all("LFS over ssh" in json.dumps(r) for r in forms), forms


def test_host_keys(inside, sshd, work):
    """A host that is not known, or has another key than before, gets nothing; a person reads what to compare."""
    sshd.make("acme/app", work)
    real = sshd.known_hosts.read_text()
    for text in ("", real.replace("ssh-ed25519 AAAA", "ssh-ed25519 AAAB"), f"@revoked {real}"):
        sshd.known_hosts.write_text(text)
        done = inside([{"repo": "acme/app"}], "git clone -q $URL/acme/app.git one 2>&1 || echo refused")
        assert "refused" in done.text and "Host key verification failed" in done.text, str(done)
    assert sshd.commands() == []
    sshd.known_hosts.write_text("")
    done = inside([{"repo": "acme/app"}], "git clone -q $URL/acme/app.git one 2>&1")
    assert "It has shown ssh-ed25519 SHA256:" in done.text and "ssh-keyscan -p" in done.text, str(done)


def test_policy_comes_first(inside, sshd, work):
    """Off by default; a deny rule, another user, a mode without network, a repository that is not named."""
    sshd.make("acme/app", work)
    ask = "git ls-remote $URL/acme/app.git 2>&1 && echo reached"
    entry = [{"repo": "acme/app"}]
    for policy, options in (({"ssh": {"git": False}}, ()), ({"network": {"deny": [sshd.where]}}, ()), ({"ssh": {"users": ["git"]}}, ()),
                            ({}, ("--mode", "workspace-write"))):
        done = inside(entry, ask, policy=policy, options=options)
        assert "reached" not in done.text, (policy, str(done))
    assert "reached" not in inside([{"repo": "acme/other"}], ask).text
    assert sshd.commands() == []
    assert "reached" in inside(entry, ask).text


def test_ask(inside, sshd, bailey, work):
    sshd.make("acme/app", work)
    results = []

    def person():
        for word in ("allow", "deny"):
            def waiting():
                shown = bailey("pending").text
                return shown if "waits with a push to" in shown else None
            results.append(wait_until(waiting, 60 * SLOW, "the question"))
            bailey(word, "--push", results[-1].split()[0])
            wait_until(lambda: "waits with a push" not in bailey("pending").text, 60 * SLOW, "the answer")
    thread = threading.Thread(target=person)
    thread.start()
    done = inside([{**APP, "ask": "push"}], """
        git clone -q $URL/acme/app.git one && cd one && git commit -q --allow-empty -m 1
        git push origin HEAD:refs/heads/agent/yes 2>&1 && echo pushed
        git push origin HEAD:refs/heads/agent/no 2>&1 || echo refused
        """)
    thread.join(120)
    assert "pushed" in done.text and "refused" in done.text, str(done)
    assert set(sshd.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/yes"}
    assert "/acme/app: refs/heads/agent/yes 0000000.." in results[0], results


def children(pid):
    found = []
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in task.read_text().split():
                found += [int(child), *children(child)]
    except OSError:  # it has ended meanwhile
        pass
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("victim", ["-F /dev/null", "bailey-gateway", "/run/bailey-ssh/ssh", "bailey run"])
def test_killed_at_any_moment(inside, sshd, start, home, work, victim):
    """Whoever dies, whenever: nothing hangs, and nothing is left."""
    sshd.make("acme/app", work)
    inside([APP], "true")
    script = SETUP.format(url=f"ssh://{sshd.user}@{sshd.where}") + "for i in $(seq 500); do [ -e enough ] && break; git ls-remote -q $URL/acme/app.git >/dev/null 2>&1; done; echo end"
    enough = work / "enough"
    for delay in (0.0, 0.05, 0.3):
        enough.unlink(missing_ok=True)
        child = start(["bailey", "run", "--policy", str(home / "policy.yaml"), "--", "bash", "-c", script], cwd=work)
        killed, seen = False, set()
        end = time.monotonic() + 20 * SLOW
        while not killed and time.monotonic() < end and child.running():
            everyone = [child.pid, *children(child.pid)]
            seen |= set(everyone)
            if not any(victim in command_of(pid) for pid in everyone):
                time.sleep(0.005)
                continue
            time.sleep(delay)  # a short one may be gone by then; the next one is as good
            everyone = [child.pid, *children(child.pid)]
            seen |= set(everyone)
            for pid in [pid for pid in everyone if victim in command_of(pid)][:1]:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed = True
                except ProcessLookupError:
                    pass
        enough.touch()
        assert killed, victim
        child.wait(60 * SLOW)
        wait_until(lambda: not [pid for pid in seen if str(home) in command_of(pid) or "-F /dev/null" in command_of(pid)], 20 * SLOW, "the end of all")


def test_a_ratchet_takes_git_away(inside, sshd, work):
    """A session that is open at the moment of narrowing is ended before the file is shown; later ones are refused."""
    sshd.make("acme/app", work)
    (work / "secret").write_text("of-customers\n")
    before = sshd.refs("acme/app")
    done = inside([APP], f"""
        git clone -q $URL/acme/app.git one && echo cloned
        mkfifo pipe; exec 7<>pipe
        $GIT_SSH_COMMAND -p {sshd.port} {sshd.user}@127.0.0.1 "git-receive-pack 'acme/app.git'" < pipe > answer 2>&1 & session=$!
        for i in $(seq 200); do test -s answer && break; sleep 0.05; done; test -s answer && echo open
        cat secret > taken; cat taken >&7; cat taken >&7
        for i in $(seq 200); do kill -0 $session 2>/dev/null || break; sleep 0.05; done; kill -0 $session 2>/dev/null || echo ended
        cd one; cp ../taken . && git add taken && git commit -qm taken
        git push origin HEAD:refs/heads/agent/x 2>&1 || echo no push
        git fetch origin 2>&1 || echo no fetch
        """, policy={"ratchet": [{"when": {"read": ["secret"]}, "then": {"git": "none", "say": "customer data was read"}}]})
    for word in ("cloned", "open", "ended", "no push", "no fetch"):
        assert word in done.text.splitlines(), str(done)
    assert sshd.refs("acme/app") == before and not any(b"of-customers" in data for data in sshd.pushed())
    assert [r for r in done.records if r["kind"] == "ratchet"] and len(sshd.commands()) == 2, sshd.commands()


def test_what_is_learned(bailey, sshd, home, work):
    """Git's ssh and the repository, not the port for every program; what was refused is a comment."""
    for name in ("acme/app", "acme/prod"):
        sshd.make(name, work)
    policy, learned = home / "policy.yaml", work / "learned.yaml"
    policy.write_text(json.dumps({
        "network": {"allow_private": [sshd.where]}, "git": [{"repo": f"{sshd.where}/acme/app", "push": ["refs/heads/agent/**"]}],
        "ssh": {"git": True, "users": [sshd.user], "known_hosts": [str(sshd.known_hosts)], "identities": [str(sshd.directory / "key")]}}))
    script = SETUP.format(url=f"ssh://{sshd.user}@{sshd.where}") + """
        git ls-remote -q $URL/acme/app.git >/dev/null && echo reached; git ls-remote -q $URL/acme/prod.git 2>/dev/null || echo refused"""
    done = bailey("learn", "--policy", str(policy), "--output", str(learned), "--", "bash", "-c", script, cwd=work, timeout=120 * SLOW)
    text = learned.read_text().split("filesystem:")[0]
    assert done.text.split() == ["reached", "refused"], str(done) + text
    granted = "\n".join(line.split("#")[0].rstrip() for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert granted.strip() == f'mode: workspace-write-whitelist\ngit:\n  - {{ repo: "{sshd.where}/acme/app" }}\nssh:\n  git: true', text
    assert f'  # - {{ repo: "{sshd.where}/acme/prod" }}  # review: this run was refused a fetch from it\n' in text, text
    bailey("policy", "check", str(learned), cwd=work).check()
