# SPDX-License-Identifier: Apache-2.0
"""The filtered ssh-agent and signing: logins to allowed hosts, commits and tags of git's, and nothing else; everything is on record."""
import json
import os
import subprocess

import pytest

from kit.process import SLOW, wait_until
from kit.sshd import Sshd, keygen

NAME = "box.ok.test"
SETUP = ("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_GLOBAL=$HOME/.gitconfig\n"
         "git config -f ~/.gitconfig init.defaultBranch main\n")


@pytest.fixture(params=["ed25519", "ecdsa", "rsa"])
def sshd(request, start, tmp_path, free_port):
    return Sshd(start, tmp_path / "sshd", free_port(), host_key=request.param)


@pytest.fixture
def agent(start, tmp_path, environment):
    """The user's own agent, with two keys: `key` of the test's sshd, if there is one, and `other`."""
    path = tmp_path / "agent"
    start(["ssh-agent", "-D", "-a", path])
    wait_until(path.exists, 20 * SLOW, "ssh-agent")
    return path


def add_key(agent, path):
    if not path.exists():
        keygen(path)
    subprocess.run(["ssh-add", "-q", str(path)], env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, check=True, timeout=30, stderr=subprocess.PIPE)
    return path


@pytest.fixture
def inside(bailey, home, work, agent):
    def run(policy, script, **more):
        file, audit = home / "policy.yaml", home / "audit.jsonl"
        (home / "hosts").write_text(f"127.0.0.1 {NAME} other.ok.test\n")
        file.write_text(json.dumps(policy))
        if audit.exists():
            audit.unlink()
        done = bailey("run", "--policy", str(file), "--hosts", str(home / "hosts"), "--audit", str(audit), "--", "bash", "-c", SETUP + script, cwd=work,
                      timeout=120, env={"SSH_AUTH_SOCK": str(agent)}, **more)
        done.records = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        done.signed = [r for r in done.records if r.get("via") == "ssh-agent"]
        return done
    return run


def test_login(inside, sshd, agent, home):
    """Plain ssh to an allowed host works with the key that is named; to the same server under another name it does not."""
    add_key(agent, sshd.directory / "key")
    other = add_key(agent, home / "other")
    with (sshd.directory / "authorized_keys").open("a") as file:
        file.write((home / "other.pub").read_text())
    key = (sshd.directory / "key.pub").read_text()
    known = sshd.known_hosts.read_text().split()
    sshd.known_hosts.write_text(f"[{NAME}]:{sshd.port} {known[1]} {known[2]}\n")
    subprocess.run(["ssh-keygen", "-H", "-q", "-f", str(sshd.known_hosts)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    where = [f"{NAME}:{sshd.port}", f"other.ok.test:{sshd.port}"]
    policy = {"network": {"allow": where, "allow_private": where},
              "ssh": {"keys": [str(sshd.directory / "key.pub")], "hosts": [where[0]], "known_hosts": [str(sshd.known_hosts)]}}
    ssh = f"timeout 60 ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -p {sshd.port} {sshd.user}@"
    done = inside(policy, f"""
        ssh-add -l; ssh-add -L | wc -l
        {ssh}{NAME} echo logged in 2>&1
        """)
    assert "logged in" in done.text and "\n1\n" in done.text, str(done)
    assert [r for r in done.signed if r["allowed"] and r["domain"] == where[0] and "a login as" in json.dumps(r)], done.signed
    # The same key of a host is the same host: without it in the list, nothing is signed.
    sshd.known_hosts.write_text("")
    done = inside(policy, f"{ssh}{NAME} echo logged in 2>&1 || echo refused")
    assert "refused" in done.text and "logged in" not in done.text, str(done)
    assert [r for r in done.signed if not r["allowed"] and r["reason"] == "signing"], done.signed
    assert key.split()[1] and other.exists()


SPEAK = r'''
import os, socket, struct, sys
def text(b): return struct.pack(">I", len(b)) + b
def ask(*messages):
    s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(os.environ["SSH_AUTH_SOCK"]); out = []
    for m in messages:
        s.sendall(text(m)); n = b""
        while len(n) < 4:
            more = s.recv(4 - len(n))
            if not more: return out + [None]
            n += more
        body = b""
        while len(body) < struct.unpack(">I", n)[0]: body += s.recv(65536)
        out.append(body)
    return out
key = __import__("base64").b64decode(KEY)
other = __import__("base64").b64decode(OTHER)
def sign(k, data, flags=0): return b"\x0d" + text(k) + text(data) + struct.pack(">I", flags)
def login(session, k, user=b"root", method=b"publickey", more=b""): return text(session) + b"\x32" + text(user) + text(b"ssh-connection") + text(method) + b"\1" + text(b"ssh-ed25519") + text(k) + more
def sshsig(name, hash=b"sha512", digest=b"x" * 64, reserved=b""): return b"SSHSIG" + text(name) + text(reserved) + text(hash) + text(digest)
bind = lambda hostkey, session, signature, forward=b"\0": b"\x1b" + text(b"session-bind@openssh.com") + text(hostkey) + text(session) + text(signature) + forward
'''


def test_only_what_git_signs(inside, agent, home):
    """Each request of the protocol, and each form of data, against an agent that would do it."""
    key, other = add_key(agent, home / "key"), add_key(agent, home / "other")
    texts = [(home / f"{path.name}.pub").read_text().split()[1] for path in (key, other)]
    requests = ["sign(key, b'')", "sign(key, b'hello')", "sign(key, sshsig(b'file'))", "sign(key, sshsig(b'git\\0'))", "sign(key, sshsig(b'gi'))",
                "sign(key, sshsig(b'git') + b'x')", "sign(key, sshsig(b'git', hash=b'md5'))", "sign(key, sshsig(b'git', digest=b'x' * 63))",
                "sign(key, sshsig(b'git', reserved=b'r'))", "sign(other, sshsig(b'git'))", "sign(b'', sshsig(b'git'))", "sign(key, sshsig(b'git')) + b'x'",
                "sign(key, login(b's' * 32, key))", "sign(key, login(b's' * 32, other))",
                "b'\\x0d'", "b'\\x11' + text(b'ssh-ed25519')", "b'\\x12' + text(key)", "b'\\x13'", "b'\\x16' + text(b'pass')", "b'\\x17' + text(b'pass')",
                "b'\\x14' + text(b'id') + text(b'pin')", "b'\\x19'", "b'\\x1a'", "b'\\x1b' + text(b'query')", "b'\\x1b' + text(b'restrict-destination-v00@openssh.com')",
                "b'\\x01'", "b'\\x09'", "b'\\xff'"]
    script = f"cat > speak.py <<'END'\nKEY = {texts[0]!r}; OTHER = {texts[1]!r}\n{SPEAK}\n"
    script += f"for number, message in enumerate([{', '.join(requests)}]): print('refused', number, ask(message)[0] == b'\\5')\n"
    script += "print('signed', ask(sign(key, sshsig(b'git')))[0][:1] == b'\\x0e')\n"
    script += "print('listed', ask(b'\\x0b')[0][:5])\n"
    script += "forged = [bind(HOSTKEY, b's' * 32, b'sig'), sign(key, login(b's' * 32, key))]\n".replace("HOSTKEY", "other")
    script += "print('forged', [a == b'\\5' for a in ask(*forged)])\n"
    script += "print('long', ask(b'')[0])\ntry: print(ask(b'\\x0d' * 300000)[0])\nexcept OSError: print(None)\nEND\npython3 speak.py\n"
    done = inside({"ssh": {"keys": [str(home / "key.pub")], "hosts": ["example.com"]}, "signing": {"ssh": True}}, script)
    for number, request in enumerate(requests):
        assert f"refused {number} True" in done.text, (request, str(done))
    assert "signed True" in done.text and "listed b'\\x0c\\x00\\x00\\x00\\x01'" in done.text and "forged [True, True]" in done.text, str(done)
    assert "long None\nNone" in done.text, str(done)
    assert len([r for r in done.signed if not r["allowed"]]) >= len(requests) and len([r for r in done.signed if r["allowed"]]) == 1, done.signed
    listed = subprocess.run(["ssh-add", "-l"], env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, capture_output=True, text=True, timeout=30).stdout
    assert len(listed.splitlines()) == 2, listed
    # Without signing.ssh nothing of git's is signed either; without keys there is no agent at all.
    done = inside({"ssh": {"keys": [str(home / "key.pub")], "hosts": ["example.com"]}}, script)
    assert "signed False" in done.text, str(done)
    assert "none" in inside({}, "echo ${SSH_AUTH_SOCK:-none}").text


def test_commit_and_tag_with_ssh(inside, agent, home, work):
    """Signed inside, verified outside. A file is not signed."""
    add_key(agent, home / "key")
    public = (home / "key.pub").read_text()
    fingerprint = subprocess.run(["ssh-keygen", "-lf", str(home / "key.pub")], capture_output=True, text=True, check=True).stdout.split()[1]
    done = inside({"ssh": {"keys": [fingerprint]}, "signing": {"ssh": True}}, f"""
        git init -q repo && cd repo && git config gpg.format ssh && git config user.signingKey "key::{public.strip()}"
        git commit -q --allow-empty -S -m signed && git tag -s -m tag v1 && echo done
        echo text > file; echo "{public.strip()}" > key.pub; ssh-keygen -Y sign -n file -f key.pub file 2>&1 || echo not a file
        """)
    assert "done" in done.text and "not a file" in done.text, str(done)
    (home / "allowed").write_text(f"a@b {public}")
    for words in (["verify-commit", "HEAD"], ["verify-tag", "v1"]):
        verified = subprocess.run(["git", "-c", "safe.directory=*", "-c", f"gpg.ssh.allowedSignersFile={home / 'allowed'}", *words], cwd=work / "repo",
                                  capture_output=True, text=True, timeout=30, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})
        assert verified.returncode == 0 and "Good \"git\" signature for a@b" in verified.stderr, verified.stderr
    assert [r["allowed"] for r in done.signed].count(True) == 2 and [r for r in done.signed if not r["allowed"]], done.signed


@pytest.fixture
def gnupg(start, environment, tmp_path_factory):
    """A home of gpg's with one key; its fingerprint."""
    directory = tmp_path_factory.mktemp("g")
    directory.chmod(0o700)
    env = {**environment, "GNUPGHOME": str(directory)}
    words = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "Test <a@b>", "ed25519", "sign", "never"]
    subprocess.run(words, env=env, check=True, timeout=120, capture_output=True)
    listed = subprocess.run(["gpg", "--with-colons", "--list-secret-keys"], env=env, check=True, capture_output=True, text=True, timeout=60).stdout
    yield directory, next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=env, timeout=60, capture_output=True)


def test_commit_and_tag_with_gpg(bailey, home, work, gnupg):
    """Signed inside, verified outside; anything else is refused, and on record. The key stays outside."""
    directory, key = gnupg
    file, audit = home / "policy.yaml", home / "audit.jsonl"
    file.write_text(json.dumps({"signing": {"gpg": [key]}}))
    commit = r"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nm\n"
    gpg = "/run/bailey-ssh/gpg"
    bad = ["mail\\n", "", "tree x\\n\\n", commit.replace("author", "hello"), "certificate version 0.1\\npusher a\\n\\n",
           commit.replace("\\n\\nm", "\\ngpgsig x\\n\\nm"), commit.replace("tree ", "tree\\0")]
    script = SETUP + f"""
        git init -q repo && cd repo && git config user.signingKey {key}
        git commit -q --allow-empty -S -m signed && git tag -s -m tag v1 && echo done
        printf '{commit}' | {gpg} --status-fd=2 -bsau {key} 2>/dev/null | grep -q BEGIN && echo by hand
        printf '{commit}' | {gpg} --status-fd=2 -bsau {key[-16:]} 2>/dev/null | grep -q BEGIN && echo by id
        for key in 0123456789abcdef0123456789abcdef01234567 a@b -x {key[-8:]} x{key}; do
            printf '{commit}' | {gpg} --status-fd=2 -bsau $key >/dev/null 2>&1 || echo no key
        done
        printf '{commit}' | {gpg} --status-fd=2 -bsau {key} --output=/tmp/x >/dev/null 2>&1 || echo no words
        printf '{commit}' | {gpg} --status-fd=2 -bsaux {key} >/dev/null 2>&1 || echo no flags
        {gpg} --export-secret-keys 2>&1 | grep -c BEGIN; {gpg} --list-secret-keys 2>&1 | grep -c {key}
        """ + "".join(f"printf '{text}' | {gpg} --status-fd=2 -bsau {key} >/dev/null 2>&1 || echo no text\n" for text in bad)
    done = bailey("run", "--policy", str(file), "--audit", str(audit), "--", "bash", "-c", script, cwd=work, timeout=120, env={"GNUPGHOME": str(directory)})
    text = done.text
    assert "done" in text and "by hand" in text and "by id" in text and "no words" in text and "no flags" in text, str(done)
    assert text.count("no key") == 5 and text.count("no text") == len(bad) and text.split("no flags")[1].split()[:2] == ["0", "0"], str(done)
    env = {**os.environ, "GNUPGHOME": str(directory), "GIT_CONFIG_GLOBAL": "/dev/null"}
    for words in (["verify-commit", "HEAD"], ["verify-tag", "v1"]):
        verified = subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=work / "repo", capture_output=True, text=True, timeout=30, env=env)
        assert verified.returncode == 0 and "Good signature" in verified.stderr, verified.stderr
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    signed = [r for r in records if r.get("via") == "gpg"]
    assert len([r for r in signed if r["allowed"]]) == 4 and len([r for r in signed if not r["allowed"]]) == 7 + len(bad), signed


def test_a_person_is_asked(bailey, start, home, work, agent):
    """signing.ask: held until somebody agrees; a no is no signature."""
    add_key(agent, home / "key")
    public = (home / "key.pub").read_text().strip()
    file = home / "policy.yaml"
    file.write_text(json.dumps({"ssh": {"keys": [str(home / "key.pub")]}, "signing": {"ssh": True, "ask": True}}))
    child = start(["bailey", "run", "--policy", str(file), "--", "bash", "-c", SETUP + f"""
        git init -q repo && cd repo && git config gpg.format ssh && git config user.signingKey "key::{public}"
        git commit -q --allow-empty -S -m one && echo first; git commit -q --allow-empty -S -m two 2>/dev/null || echo second refused"""],
                  cwd=work, env={"SSH_AUTH_SOCK": str(agent)})
    for word, said in (("allow", b"first"), ("deny", b"second refused")):
        def waiting():
            shown = bailey("pending").text
            return shown if "signature (a commit or tag of git's)" in shown else None
        question = wait_until(waiting, 60 * SLOW, "the question").split()[0]
        answer = bailey(word, "--push", question)
        assert answer.status == 0, str(answer)
        wait_until(lambda: said in child.output(), 60 * SLOW, "the answer")
    done = child.wait(60 * SLOW)
    assert "first" in done.text and "second refused" in done.text, str(done)


def test_signatures_are_learned_as_comments(bailey, agent, home, work):
    """Which keys were to sign, and for what: a person's to grant, so that nothing of it is a rule yet."""
    keys = [add_key(agent, home / name) for name in ("key", "other")]
    prints = [subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], check=True, stdout=subprocess.PIPE, text=True, timeout=30).stdout.split()[1] for key in keys]
    texts = [(home / f"{key.name}.pub").read_text().split()[1] for key in keys]
    policy, learned = home / "policy.yaml", work / "learned.yaml"
    policy.write_text(json.dumps({"ssh": {"keys": [f"{keys[0]}.pub"], "hosts": ["box.test"]}}))
    (work / "speak.py").write_text(SPEAK.replace("KEY", repr(texts[0])).replace("OTHER", repr(texts[1])) +
                                   "print([len(x) for x in ask(sign(key, sshsig(b'git')), sign(other, sshsig(b'git')), sign(key, b'hello'))])\n")
    done = bailey("learn", "--policy", str(policy), "--output", str(learned), "--", "python3", "speak.py", cwd=work, timeout=120 * SLOW,
                  env={"SSH_AUTH_SOCK": str(agent)})
    text = learned.read_text().split("filesystem:")[0]
    assert done.text.strip() == "[1, 1, 1]", str(done) + text
    assert "# ssh:\n  # keys:\n" in text and "# signing:\n  # ssh: true  # review: " in text, text
    for fingerprint, why in zip(prints, ("it was to sign a commit or tag", "it was to sign")):
        assert f'    # - "{fingerprint}"  # review: {why}\n' in text, text
    assert [line for line in text.splitlines() if not line.lstrip().startswith("#")] == ["mode: workspace-write"], text
    bailey("policy", "check", str(learned), cwd=work).check()
