# SPDX-License-Identifier: Apache-2.0
"""Real git in a sandbox, through the gate, to a real server: what the policy allows works, and of the rest nothing arrives."""
import json
import os
import pathlib
import subprocess
import threading

import pytest

from conftest import BUILD
from kit.forge import Forge, Store
from kit.git import git, no_deadlocks
from kit.process import SLOW, wait_until

HOST = "forge.ok.test"
TOP = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.turns("forge")  # by HTTP/1 or by HTTP/2


@pytest.fixture(params=["h1", "h2"])
def forge(request, start, authority, tmp_path, free_port, store):
    return Forge(start, authority, tmp_path / "forge", HOST, free_port(), lfs=store.port, http2=request.param == "h2")


@pytest.fixture
def store(closing):
    return closing(Store())


@pytest.fixture
def gated(bailey, home, work, authority, forge):
    """gated(entries, script): the script in a sandbox whose policy has these entries under git."""
    def run(entries, script, network=None, options=(), ratchet=(), **more):
        # As if the host had one root: each git and each curl inside reads all of them, which is most of its work.
        env = {"SSL_CERT_FILE": str(authority.file), **more.pop("env", {})}
        hosts, policy, audit = home / "hosts", home / "policy.yaml", home / "audit.jsonl"
        hosts.write_text(f"127.0.0.1 {HOST}\n")
        where = f"{HOST}:{forge.port}"
        entries = [{**entry, "repo": f"{where}/{entry['repo']}"} for entry in entries]
        policy.write_text(json.dumps({"network": {"allow_private": [where], **(network or {})}, "git": entries, "ratchet": list(ratchet)}))
        script = ("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_TERMINAL_PROMPT=0 "
                  f"GIT_CONFIG_GLOBAL=/dev/null URL=https://{where}; git config -f ~/.gitconfig init.defaultBranch main\n" + script)
        if audit.exists():
            audit.unlink()
        with no_deadlocks():
            done = bailey("run", "--policy", str(policy), "--hosts", str(hosts), "--ca-bundle", str(authority.file), "--audit", str(audit),
                          *options, "--", "bash", "-c", script, cwd=work, timeout=300 * SLOW, env=env, **more)
        done.records = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return done
    return run


APP = {"repo": "acme/app", "push": ["refs/heads/agent/**"]}


def test_clone_push_and_refusals(gated, forge, work):
    forge.make("acme/app", work)
    forge.make("acme/prod", work)
    before = forge.refs("acme/app")
    done = gated([APP], """
        git clone -q $URL/acme/app.git one && echo cloned; cd one
        echo text > new && git add new && git commit -qm new
        git push origin HEAD:refs/heads/agent/x 2>&1 && echo pushed
        git push origin HEAD:main 2>&1 || echo refused main
        git push origin HEAD:refs/heads/agent/y HEAD:main 2>&1 || echo refused both
        git push origin :refs/heads/agent/x 2>&1 || echo refused deletion
        git push origin HEAD:refs/tags/v1 2>&1 || echo refused tag
        git clone -q $URL/acme/prod.git two 2>&1 || echo refused prod
        """)
    text = done.text
    assert "cloned" in text and "pushed" in text, str(done)
    for line in ("refused main", "refused both", "refused deletion", "refused tag", "refused prod"):
        assert line in text, str(done)
    assert "! [remote rejected] HEAD -> main (bailey refused it: refs/heads/main: the rule allows no push to this ref)" in text, str(done)
    after = forge.refs("acme/app")
    assert after.pop("refs/heads/agent/x")
    assert after == before
    posts = [r for r in forge.requests() if r["uri"].endswith("git-receive-pack") and r["method"] == "POST"]
    assert len(posts) == 1, posts
    assert not [r for r in forge.requests() if "prod" in r["uri"]]


def test_every_way_to_fetch(gated, forge, work):
    """Protocols, shallow and partial clones, submodules, other clients' spellings of the address."""
    forge.make("acme/app", work)
    forge.make("acme/lib", work)
    done = gated([{"repo": "acme/*"}], """
        set -e
        for version in 0 1 2; do git -c protocol.version=$version clone -q $URL/acme/app.git v$version; git -C v$version fetch -q; done
        git clone -q --depth 1 $URL/acme/app.git shallow && test $(git -C shallow rev-list --count HEAD) = 1
        git -C shallow fetch -q --unshallow && test $(git -C shallow rev-list --count HEAD) = 2
        git clone -q --filter=blob:none --no-checkout $URL/acme/app partial && git -C partial checkout -q main
        git ls-remote -q $URL/acme/app HEAD | grep -q HEAD
        cd v2 && git -c protocol.file.allow=always submodule add -q $URL/acme/lib.git lib && git commit -qm sub && cd ..
        git clone -q --recurse-submodules v2 again 2>/dev/null && test -s again/lib/file
        echo all fine
        git -C v2 push $URL/acme/app.git HEAD:refs/heads/x 2>&1 || echo no push
        """)
    assert "all fine" in done.text and "no push" in done.text, str(done)
    assert "the rule allows no push" in done.text, str(done)
    assert not [r for r in forge.requests() if "receive-pack" in r["uri"]]
    kinds = {r["git"]["service"] for r in done.records if r.get("git")}
    assert kinds == {"upload-pack", "receive-pack"}, kinds
    refused = [r for r in done.records if r.get("git") and not r["allowed"]]
    assert refused and all(r["reason"] == "git-service" and r["rule"] for r in refused), refused


def test_every_way_to_push(gated, forge, work):
    """Many refs, tags, deletions, force, atomic, options; recorded with their refs."""
    forge.make("acme/app", work)
    entry = {"repo": "acme/app", "push": ["refs/heads/agent/**", "refs/tags/*"], "delete": True, "push_options": True}
    done = gated([entry], """
        set -e
        git clone -q $URL/acme/app.git one && cd one
        for i in 1 2 3; do git commit -q --allow-empty -m $i; done
        for version in 0 1 2; do git -c protocol.version=$version push -q origin HEAD~1:refs/heads/agent/p$version; done
        git push -q origin $(for i in $(seq 200); do echo HEAD:refs/heads/agent/many/$i; done)
        git tag v1 && git tag -a -m x v2 && git push -q --tags origin
        git push -q --force origin HEAD~2:refs/heads/agent/p0
        git push -q --atomic origin HEAD:refs/heads/agent/a HEAD:refs/heads/agent/b
        git push -q -o ci.skip origin HEAD:refs/heads/agent/o
        git push -q origin :refs/heads/agent/b
        head -c 3000000 /dev/urandom > big && git add big && git commit -qm big && git push -q origin HEAD:refs/heads/agent/big
        git clone -q --depth 1 $URL/acme/app.git ../shallow && cd ../shallow && git commit -q --allow-empty -m s && git push -q origin HEAD:refs/heads/agent/s
        echo all fine
        """)
    assert "all fine" in done.text, str(done)
    refs = forge.refs("acme/app")
    assert len([r for r in refs if r.startswith("refs/heads/agent/many/")]) == 200 and "refs/tags/v2" in refs
    assert "refs/heads/agent/b" not in refs and "refs/heads/agent/big" in refs and "refs/heads/agent/s" in refs
    pushes = [r["git"] for r in done.records if r.get("git", {}).get("service") == "receive-pack" and r["method"] == "POST"]
    deleted = [ref for push in pushes for ref in push["refs"] if ref["ref"] == "refs/heads/agent/b" and set(ref["new"]) == {"0"}]
    assert deleted and len(deleted[0]["old"]) == 40
    assert all(p["repository"] == f"{HOST}:{forge.port}/acme/app" for p in pushes)


def test_refused_pushes_reach_nobody(gated, forge, work):
    """Large packs, options, atomic, force, certificates, other repositories by other spellings: not a byte arrives."""
    forge.make("acme/app", work)
    forge.make("acme/prod", work)
    done = gated([APP, {"repo": "acme/prod"}], """
        git clone -q $URL/acme/app.git one && cd one && git commit -q --allow-empty -m 1
        git push origin HEAD:refs/heads/agent/probe 2>&1 || echo ALLOWED ONE FAILED
        git config core.compression 0; git config core.bigFileThreshold 1m # noise: each push would try to make it smaller
        head -c 8000000 /dev/urandom > big && git add big && git commit -qm big
        refuse() { "$@" > out 2>&1 && { echo "PASSED: $*"; cat out; }; grep -E "rejected|remote:|403|unable" out | head -3; }
        refuse git push origin HEAD:main
        refuse git -c http.postBuffer=65536 push origin HEAD:main
        refuse git -c http.version=HTTP/1.1 push origin HEAD:main
        refuse git push --force origin HEAD:main
        refuse git push --atomic origin HEAD:refs/heads/agent/z HEAD:main
        refuse git push -o x origin HEAD:refs/heads/agent/z
        refuse git push origin HEAD:refs/pull/1/head
        refuse git push origin :refs/heads/agent/probe
        refuse git push $URL/acme/prod HEAD:refs/heads/agent/x
        refuse git push $URL/acme/PROD HEAD:refs/heads/agent/x
        refuse git push $URL/acme//app HEAD:main
        refuse git push $URL/acme/./app HEAD:main
        refuse git push $URL/acme/%61pp HEAD:refs/heads/agent/x
        refuse git push $URL/acme/app.git/ HEAD:main
        refuse git push ${URL/https:\\/\\//https:\\/\\/user:pw@}/acme/app.git HEAD:main
        refuse git clone $URL/moved/ moved
        echo end
        """)
    assert "end" in done.text and "PASSED" not in done.text and "ALLOWED ONE FAILED" not in done.text, str(done)
    # Before a large push git asks with four bytes, a list without refs, whether it may; that is a request of its own.
    posts = [r for r in forge.requests() if r["method"] == "POST" and "receive-pack" in r["uri"] and r["length"] > 300]
    assert len(posts) == 1, posts
    assert set(forge.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/probe"}
    assert set(forge.refs("acme/prod")) == {"refs/heads/main"}


def test_signed_pushes(gated, forge, run, work):
    """A push certificate goes through with `signed: true` alone, as it was signed, and the refs in it are judged as any others."""
    bare = forge.make("acme/app", work)
    told, signers, hook = forge.directory / "told", forge.directory / "signers", bare / "hooks/post-receive"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", work / "key"]).check()
    signers.write_text(f"a@b {(work / 'key.pub').read_text()}")
    for key, value in (("gpg.format", "ssh"), ("gpg.ssh.allowedSignersFile", signers)):
        git("config", key, value, cwd=bare, check=True)
    hook.write_text(f"#!/bin/sh\necho signed $GIT_PUSH_CERT_STATUS $GIT_PUSH_CERT_SIGNER >> {told}\n")
    hook.chmod(0o755)

    script = """
        git clone -q $URL/acme/app.git DIRECTORY && cd DIRECTORY && git commit -q --allow-empty -m 1
        git config gpg.format ssh; git config user.signingKey $PWD/../key.pub
        try() { git push "$@" > ../out 2>&1 && echo pushed || grep -o 'bailey refused it: .*' ../out | sort -u; }
        try --signed origin HEAD:refs/heads/agent/one
        try --signed=if-asked origin HEAD:refs/heads/agent/two HEAD:refs/heads/agent/three
        try --signed origin HEAD:main
        try --signed origin HEAD:refs/heads/agent/four HEAD:main
        try --signed -o ci.skip origin HEAD:refs/heads/agent/five
        try origin HEAD:refs/heads/agent/plain
        """
    refused = gated([APP], script.replace("DIRECTORY", "refused"))
    assert refused.text.splitlines() == [f"bailey refused it: the rule allows no {what})" for what in ["signed push"] * 4 + ["push options"]] + ["pushed"], str(refused)
    posts = [r for r in forge.requests() if r["method"] == "POST" and "receive-pack" in r["uri"]]
    assert set(forge.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/plain"} and len(posts) == 1 and told.read_text() == "signed\n", (posts, told.read_text())

    told.unlink()
    main = forge.refs("acme/app")["refs/heads/main"]
    allowed = gated([{**APP, "signed": True}], script.replace("DIRECTORY", "allowed").replace("agent/plain", "agent/again"))
    lines = allowed.text.splitlines()
    assert lines[:2] == ["pushed"] * 2 and lines[-1] == "pushed" and len(lines) == 6, str(allowed)
    assert all("refs/heads/main: the rule allows no push to this ref" in line for line in lines[2:4]) and "push options" in lines[4], str(allowed)
    refs = forge.refs("acme/app")
    assert set(refs) == {"refs/heads/main", *(f"refs/heads/agent/{name}" for name in ("one", "two", "three", "plain", "again"))} and refs["refs/heads/main"] == main
    assert told.read_text().splitlines() == ["signed G a@b", "signed G a@b", "signed"], told.read_text()
    pushes = [{ref["ref"] for ref in r["git"]["refs"]} for r in allowed.records if r.get("git", {}).get("service") == "receive-pack" and r["method"] == "POST" and r["allowed"]]
    assert pushes[:2] == [{"refs/heads/agent/one"}, {"refs/heads/agent/two", "refs/heads/agent/three"}], pushes


def test_the_rest_of_the_host_falls_under_the_usual_rules(gated, forge, work):
    forge.make("acme/app", work)
    where = f"{HOST}:{forge.port}"
    fetch = "curl -s -m 20 -o /dev/null -w '%{http_code} %header{x-bailey-reason}\\n' $URL/page"
    assert "403 git-only" in gated([APP], fetch).text
    assert "200" in gated([APP], fetch, network={"allow": [where]}).text
    done = gated([APP], fetch + "; git ls-remote -q $URL/acme/app main", network={"rules": [{"host": where, "paths": ["/other"]}]})
    assert "403 path" in done.text and "refs/heads/main" in done.text, str(done)
    # Dumb files of a repository that an entry names, and WebDAV, which none does.
    done = gated([APP], "for f in HEAD info/refs objects/info/packs; do curl -s -m 20 -o /dev/null -w '%{http_code}\\n' $URL/acme/app.git/$f; done; "
                        "curl -s -m 20 -X PROPFIND -o /dev/null -w '%{http_code} %header{x-bailey-reason}\\n' $URL/acme/app.git/")
    assert done.text.split() == ["200", "200", "200", "403", "git-only"], str(done)


def test_sha256(gated, forge, work):
    forge.make("acme/app", work, "--object-format=sha256")
    done = gated([APP], """
        git clone -q $URL/acme/app.git one && cd one && git commit -q --allow-empty -m 1
        git push -q origin HEAD:refs/heads/agent/x && echo pushed
        git push origin HEAD:main 2>&1 || echo refused
        """)
    assert "pushed" in done.text and "[remote rejected] HEAD -> main" in done.text, str(done)
    assert len(forge.refs("acme/app")["refs/heads/agent/x"]) == 64


# curl 7.88 takes an answer over HTTP/2 that is complete before its own body has left for an error (92), and shows nothing of it.
PATIENT_CURL = """
patient_curl() {
    for _ in 1 2 3 4 5; do
        said=$(curl -s -m 20 -o /dev/null "$@")
        case $said in 000*) ;; *) break ;; esac
    done
    printf '%s ' "$said"
}
"""


def test_lfs(gated, forge, store, work):
    forge.make("acme/app", work)
    script = """
        git clone -q $URL/acme/app.git one && cd one && git lfs install --local >/dev/null && git lfs track '*.bin' >/dev/null
        head -c 300000 /dev/urandom > data.bin && git add . && git commit -qm lfs
        git push -q origin HEAD:refs/heads/agent/x 2>&1 && echo pushed
        git lfs push origin HEAD:refs/heads/main --all 2>&1; git push origin HEAD:main 2>&1 || echo refused
        cd .. && git clone -q -b agent/x $URL/acme/app.git two 2>&1; test $(stat -c %s two/data.bin) = 300000 || (cd two && git lfs install --local && git lfs pull); stat -c %s two/data.bin
        """
    done = gated([{**APP, "push": ["refs/heads/agent/**"]}], script)
    assert "pushed" in done.text and "refused" in done.text and "300000" in done.text, str(done)
    assert len(store.objects) == 1
    assert {r["git"]["service"] for r in done.records if r.get("git")} >= {"lfs-upload", "lfs-download", "lfs"}, str(done)
    # A clone over ssh has its LFS here, as the refusal there says.
    done = gated([APP], """cd one && git checkout -q -b agent/ssh && git remote set-url origin ssh://git@nowhere.test/acme/app.git && git config -f .lfsconfig lfs.url $URL/acme/app.git/info/lfs
        echo by-ssh > ssh.bin && git add . && git commit -qm ssh && git lfs push --object-id origin $(git lfs ls-files -l -I ssh.bin | cut -d' ' -f1) 2>&1 && echo pushed
        git remote set-url origin $URL/acme/app.git && git checkout -q main""")
    assert "pushed" in done.text and len(store.objects) == 2, str(done)
    before = len(store.seen)
    done = gated([{"repo": "acme/app"}], PATIENT_CURL + """cd one && echo more > more.bin && git add . && git commit -qm more
        git lfs push origin HEAD 2>&1 || echo refused
        patient_curl -w '%{http_code} %header{x-bailey-reason}\\n' -X PUT --data x $URL/acme/app.git/info/lfs/objects/""" + "a" * 64)
    assert "refused" in done.text and "403 git-service" in done.text, str(done)
    assert not [s for s in store.seen[before:] if s[0] == "PUT" or b"upload" in s[2]], store.seen[before:]


def test_ask(gated, forge, bailey, work, home):
    """Held until a person agrees, once for each push; a no is a refusal in git's own form."""
    forge.make("acme/app", work)
    results = []

    def person():
        # Each question by its own ref: on a fast machine the second one waits before anybody saw that the first is gone.
        for word, ref in (("allow", "refs/heads/agent/yes"), ("deny", "refs/heads/agent/no")):
            def waiting(ref=ref):
                shown = bailey("pending").text
                return shown if "waits with a push to" in shown and ref in shown else None
            results.append(wait_until(waiting, 60 * SLOW, "the question"))
            results.append(bailey(word, "--push", results[-1].split()[0]).text)
    thread = threading.Thread(target=person)
    thread.start()
    done = gated([{**APP, "ask": "push"}], """
        git clone -q $URL/acme/app.git one && cd one && git commit -q --allow-empty -m 1
        git push origin HEAD:refs/heads/agent/yes 2>&1 && echo pushed
        git push origin HEAD:refs/heads/agent/no 2>&1 || echo refused
        git push origin HEAD:main 2>&1 || echo not even asked
        """)
    thread.join(120 * SLOW)
    assert "pushed" in done.text and "refused" in done.text and "not even asked" in done.text, str(done)
    assert set(forge.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/yes"}
    assert f"{HOST}:{forge.port}/acme/app: refs/heads/agent/yes 0000000.." in results[0], results
    assert len(results) == 4 and not thread.is_alive()


def test_a_refused_push_tells_its_reason_whatever_its_size(gated, forge, work):
    """Its pack is thrown away, also beyond network.limits.body_bytes: git shows why the ref was refused."""
    forge.make("acme/app", work)
    done = gated([APP], """
        git clone -q $URL/acme/app.git one && cd one
        head -c 3000000 /dev/urandom > big && git add big && git commit -qm big
        git push origin HEAD:main 2>&1 || echo refused
        """, network={"limits": {"body_bytes": "512KiB"}})
    assert "(bailey refused it: refs/heads/main: the rule allows no push to this ref)" in done.text and "refused" in done.text.split(), str(done)
    pushes = [r for r in done.records if r.get("git", {}).get("refs")]
    assert [(r["allowed"], r["reason"]) for r in pushes] == [(False, "git-ref")], pushes


def test_what_cannot_be_shown_is_not_asked_about(gated, forge, bailey, work):
    """A question has every ref, whole: a push that does not fit is refused, and nothing of it is sent."""
    forge.make("acme/app", work)
    shown = []

    def person():
        def waiting():
            text = bailey("pending").text
            return text if "waits with a push to" in text else None
        shown.append(wait_until(waiting, 60 * SLOW, "the question"))
        bailey("allow", "--push", shown[0].split()[0])
    thread = threading.Thread(target=person)
    thread.start()
    done = gated([{**APP, "ask": "push"}], """
        git clone -q $URL/acme/app.git one && cd one && git commit -q --allow-empty -m 1
        git push origin $(for i in $(seq 1 9); do echo HEAD:refs/heads/agent/n$i; done) 2>&1 || echo many
        git push origin HEAD:refs/heads/agent/$(head -c 200 /dev/zero | tr '\\0' x) 2>&1 || echo long
        git push origin $(for i in 1 2 3 4; do echo HEAD:refs/heads/agent/$i; done) 2>&1 && echo four; git rev-parse HEAD
        """)
    thread.join(120 * SLOW)
    assert all(word in done.text.split() for word in ("many", "long", "four")) and done.text.count("push fewer at once") >= 2, str(done)
    assert set(forge.refs("acme/app")) == {"refs/heads/main", *(f"refs/heads/agent/{i}" for i in range(1, 5))}
    assert len(shown) == 1 and all(f"refs/heads/agent/{i} 0000000..{done.text.split()[-1][:12]}" in shown[0] for i in range(1, 5)), shown


def test_the_short_form(gated, forge, work):
    """--git REPO=REFS+REFS: branches by their short names; without refs nothing is pushed."""
    for name in ("acme/app", "acme/lib", "acme/other"):
        forge.make(name, work)
    where = f"{HOST}:{forge.port}"
    done = gated([], """
        git clone -q $URL/acme/app.git one && git clone -q $URL/acme/lib.git two && echo cloned; git clone -q $URL/acme/other.git 2>&1 || echo other refused
        cd one && git commit -q --allow-empty -m 1
        git push -q origin HEAD:refs/heads/agent/x/y && git push -q origin HEAD:refs/heads/fix && echo pushed
        git push origin HEAD:main 2>&1 || echo main refused
        git push $URL/acme/lib.git HEAD:refs/heads/agent/x 2>&1 || echo lib refused
        """, options=["--git", f"{where}/acme/app=agent/**+fix", "--git", f"{where}/acme/lib"])
    assert [line for line in done.text.splitlines() if line in ("cloned", "pushed") or line.endswith(" refused")] == \
        ["cloned", "other refused", "pushed", "main refused", "lib refused"], str(done)
    assert set(forge.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/x/y", "refs/heads/fix"} and set(forge.refs("acme/lib")) == {"refs/heads/main"}


def test_a_ratchet_takes_git_away(gated, forge, work):
    """Before it closes git works; after it, on kept connections and new ones, nothing of git's reaches the server."""
    forge.make("acme/app", work)
    (work / "secret").write_text("x\n")
    done = gated([APP], """
        git clone -q $URL/acme/app.git one && echo cloned; cd one; git commit -q --allow-empty -m 1
        git push -q origin HEAD:refs/heads/agent/before 2>&1 && echo pushed
        cat ../secret > taken && git add taken && git commit -qm taken
        git push origin HEAD:refs/heads/agent/after 2>&1 || echo no push
        git fetch origin 2>&1 || echo no fetch
        git ls-remote $URL/acme/app.git 2>&1 || echo no list
        """, ratchet=[{"when": {"read": ["secret"]}, "then": {"git": "none", "say": "the secret was read"}}])
    assert "cloned" in done.text and "pushed" in done.text, str(done)
    assert "no push" in done.text and "no fetch" in done.text and "no list" in done.text, str(done)
    assert set(forge.refs("acme/app")) == {"refs/heads/main", "refs/heads/agent/before"}
    posts = [r for r in forge.requests() if r["uri"].endswith("git-receive-pack") and r["method"] == "POST"]
    assert len(posts) == 1, posts
    # What the gateway has to say of the last push may be written down after the ratchet, by the time of the first refusal it is.
    narrowed = next(r["ts"] for r in done.records if r["kind"] == "ratchet")
    requests = sorted((r for r in done.records if r["kind"] == "request"), key=lambda r: r["ts"])
    refused = next(i for i, r in enumerate(requests) if not r["allowed"] and r["ts"] > narrowed)
    assert len(requests[refused:]) >= 3 and not any(r["allowed"] for r in requests[refused:]), requests


def test_graphql(gated, forge, store):
    where = f"{HOST}:{forge.port}"
    rules = [{"host": where, "methods": ["GET"], "paths": ["/page"]},
             {"host": where, "paths": ["/graphql"], "graphql": {"query": ["viewer", "repository"], "mutation": ["addComment"]}}]
    ask = "patient_curl -w '%{http_code} ' -H 'Content-Type: application/json'"
    allowed = ['{"query":"{viewer{login}}"}', '{"query":"mutation M{x: addComment(input:{}){id}}","operationName":"M","variables":{"a":1}}']
    refused = ['{"query":"mutation{deleteRef}"}', '{"query":"{viewer{login} secrets}"}', '[{"query":"{viewer}"}]',
               '{"query":"mutation{...F} fragment F on Mutation{deleteRef}"}', '{"query":"{viewer}","extensions":{"persistedQuery":{"v":1}}}',
               '{"query":"query A{viewer} mutation B{deleteRef}","operationName":"B"}', '{"query":"query A{viewer} query B{viewer}"}',
               '{"query":"{viewer}","query":"{secrets}"}']
    script = PATIENT_CURL + "\n".join(f"{ask} --data '{body}' $URL/graphql" for body in allowed + refused)
    script += f"""
        {ask} -G --data-urlencode 'query={{viewer}}' $URL/graphql
        {ask} -G --data-urlencode 'query=mutation{{addComment}}' $URL/graphql
        {ask} --data '{allowed[0]}' "$URL/graphql?query=mutation%7BdeleteRef%7D"
        {ask} -H 'Content-Type: application/graphql' --data '{{viewer}}' $URL/graphql
        {ask} --data '{allowed[0]}' $URL/graphql/
        {ask} --data '{allowed[0]}' $URL/GraphQL
        echo '{allowed[0]}' | gzip > packed
        {ask} -H 'Content-Encoding: gzip' --data-binary @packed $URL/graphql
        {ask} -H 'Transfer-Encoding: chunked' --data '{allowed[0]}' $URL/graphql
        {ask} -X PUT --data '{allowed[0]}' $URL/graphql
        """
    done = gated([], script, network={"rules": rules})
    codes = done.text.split()
    assert codes[:2] == ["200", "200"] and set(codes[2:10]) == {"403"}, str(done)
    assert codes[10] == "200" and codes[11] == "403" and set(codes[12:17]) <= {"403", "405"} and codes[17] == "200", str(done)
    assert codes[18] in ("403", "405"), str(done)
    assert len(store.seen) == 4, store.seen
    fields = [(r["graphql"]["operation"], r["graphql"]["fields"]) for r in done.records if r.get("graphql")]
    assert ("mutation", ["addComment"]) in fields and ("mutation", ["deleteRef"]) in fields, fields


def test_what_graphql_asked_for_is_learned_as_comments(bailey, forge, store, home, work, authority):
    """One rule for a person to take over, with each field by its name; and no line that opens the host for all documents."""
    where, hosts, policy, learned = f"{HOST}:{forge.port}", home / "hosts", home / "policy.yaml", work / "learned.yaml"
    hosts.write_text(f"127.0.0.1 {HOST}\n")
    policy.write_text(json.dumps({"network": {"allow_private": [where], "rules": [{"host": where, "paths": ["/graphql"], "graphql": {"query": ["viewer"]}}]}}))
    bodies = ['{"query":"{viewer{login}}"}', '{"query":"mutation{x: deleteRef addComment}"}', '{"query":"{secrets}"}', '{"query":"mutation{a\\rb"}']
    script = PATIENT_CURL + "\n".join(f"patient_curl -w '%{{http_code}} ' -H 'Content-Type: application/json' --data '{body}' https://{where}/graphql" for body in bodies)
    done = bailey("learn", "--policy", str(policy), "--hosts", str(hosts), "--ca-bundle", str(authority.file), "--output", str(learned), "--", "bash", "-c", script,
                  cwd=work, timeout=120 * SLOW)
    text = learned.read_text().split("filesystem:")[0]
    assert done.text.split() == ["200", "403", "403", "403"], str(done) + text
    rule = f'host: "{where}", paths: ["/graphql"], graphql: {{ mutation: ["addComment", "deleteRef"], query: ["secrets", "viewer"] }}'
    assert f"    # - {{ {rule} }}\n" in text and "*" not in text.split("\n", 1)[1], text  # behind the command itself
    granted = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert granted == ["mode: workspace-write-whitelist", "network:"], text
    bailey("policy", "check", str(learned), cwd=work).check()
    learned.write_text(text.replace("  # rules:", "  rules:").replace("    # - { host", "    - { host"))  # as a person takes it over
    asked = bailey("policy", "test", "--policy", str(learned), "--json", "--method", "POST", "--path", "/graphql", where, cwd=work)
    assert "queries secrets, viewer; mutations addComment, deleteRef" in asked.text, asked


def test_graphql_by_other_names(gated, forge, store):
    """A wider rule beside it opens the rest of the host, and no other spelling of GraphQL's own path."""
    where = f"{HOST}:{forge.port}"
    narrow = {"host": where, "paths": ["/graphql"], "graphql": {"query": ["viewer"]}}
    spellings = ["/%67raphql", "/graphq%6C", "/%47raphql", "/graphql;x=1", "/graphql%3Bx", "/graphql.json", "/graphql%3fx", "/graphql%23", "//graphql",
                 "/./graphql", "/page/../graphql", "/page/%2e%2e/graphql", "/graphql/.", "/GRAPHQL.JSON;a"]
    for wide in ({"host": where, "paths": ["/**"]}, {"host": where, "methods": ["GET", "POST"]}):
        script = PATIENT_CURL + "ask() { patient_curl --path-as-is -w '%{http_code} ' -H 'Content-Type: application/json' --data '{\"query\":\"mutation{deleteRef}\"}' \"$URL$1\"; }\n"
        script += "patient_curl -w '%{http_code} ' -o /dev/null $URL/page\n" + "\n".join(f"ask '{path}'" for path in spellings)
        done = gated([], script, network={"rules": [narrow, wide]})
        codes = done.text.split()
        assert codes[0] == "200" and codes[1:] == ["403"] * len(spellings), str(done)
        assert store.seen == []


# What follows a body that is no document, in the same packet, was read with it: nobody waits for an answer to that.
PIPELINED = r"""
import socket, ssl, sys
host, port = sys.argv[1].split(":")
bad = f"POST /graphql HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{{bad"
with ssl.create_default_context().wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname=host) as sock:
    sock.sendall((bad + f"GET /graphql HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").encode())
    said = b""
    while piece := sock.recv(65536):
        said += piece
head = said.decode().split("\r\n\r\n")[0].lower()
print(head.split()[1], head.split("connection: ")[1].split()[0] if "connection: " in head else "open")
"""


def test_what_does_not_leave_is_not_judged(gated, forge, store, work):
    """Connection names headers that end at the gateway: a body is judged by those that the server will see."""
    (work / "pipelined.py").write_text(PIPELINED)
    where = f"{HOST}:{forge.port}"
    body = '{"query":"{viewer{login}}","variables":{"a":"&query=mutation{deleteRef}&"}}'
    ask = f"patient_curl --http1.1 -w '%{{http_code}} ' -H 'Content-Type: application/json' --data '{body}'"
    done = gated([], PATIENT_CURL + f"""
        {ask} $URL/graphql
        {ask} -H 'Connection: content-type' $URL/graphql
        {ask} -H 'Connection: keep-alive, Content-TYPE' $URL/graphql
        {ask} -H 'Connection: x' -H 'Connection: content-type' $URL/graphql
        /usr/bin/python3 pipelined.py ${{URL#https://}}
        """, network={"rules": [{"host": where, "paths": ["/graphql"], "graphql": {"query": ["viewer"]}}]})
    assert done.text.split() == ["200", "403", "403", "403", "403", "close"], str(done)
    assert len(store.seen) == 1, store.seen


@pytest.mark.parametrize("blank", ["\t", "\n", "\r", "\xa0"])
def test_options_of_a_push_do_not_hide_in_its_capabilities(gated, forge, work, blank):
    bare = forge.make("acme/app", work)
    told = forge.directory / "told"
    hook = bare / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\necho $GIT_PUSH_OPTION_0 >> {told}\n")
    hook.chmod(0o755)
    one, line = forge.refs("acme/app")["refs/heads/main"].encode(), lambda text: b"%04x" % (len(text) + 4) + text
    for name, capabilities in (("plain", "agent=git/2"), ("hidden", f"agent=git/2{blank}push-options"), ("first", f"session-id=1{blank}push-options atomic")):
        head = line(b"0" * 40 + b" " + one + b" refs/heads/agent/x" + name.encode() + b"\0report-status " + capabilities.encode("latin-1")) + b"0000"
        (work / name).write_bytes(head + (b"" if name == "plain" else line(b"merge_request.create") + b"0000"))
    done = gated([APP], PATIENT_CURL + "".join(
        f"patient_curl -o /dev/null -w '%{{http_code}} ' -H 'Content-Type: application/x-git-receive-pack-request' --data-binary @{name} $URL/acme/app.git/git-receive-pack\n"
        for name in ("plain", "hidden", "first")))
    assert done.text.split() == ["200", "403", "403"], str(done)
    assert not told.exists() or told.read_text().strip() == ""


def test_git_by_other_paths(gated, forge, work):
    """The host is open, its git is not: steps back bring parts of a path together."""
    forge.make("acme/app", work)
    forge.make("acme/prod", work)
    paths = ["/acme/prod.git/info/x/../refs", "/acme/prod.git/info/%2e%2e/info/refs", "/acme/prod.git/info/refs/x/..",
             "/acme/prod.git/info/x/%252e%252e/refs", "/acme/prod.git/info/x/../lfs/objects/abc"]
    done = gated([APP], PATIENT_CURL + "patient_curl -o /dev/null -w '%{http_code} ' $URL/page\n" + "\n".join(
        f"patient_curl --path-as-is -o /dev/null -w '%{{http_code}} ' '$URL{path}?service=git-upload-pack'".replace("'$URL", "\"$URL").replace("-pack'", "-pack\"")
        for path in paths), network={"rules": [{"host": f"{HOST}:{forge.port}", "methods": ["GET"]}]})
    assert done.text.split() == ["200"] + ["403"] * len(paths), str(done)
    assert [r for r in forge.requests() if "prod" in r["uri"]] == []


def test_documents_are_read_as_others_read_them():
    """tests/oracle/graphql_documents.py with the parsers that are installed: many documents once, in a short form elsewhere."""
    whole = os.geteuid() == 0 and os.environ.get("BAILEY_KIND", "gcc") == "gcc"
    node = ["--node", "/usr/share/nodejs"] if pathlib.Path("/usr/share/nodejs/graphql").is_dir() else []
    done = subprocess.run(["/usr/bin/python3", TOP / "tests/oracle/graphql_documents.py", BUILD, "--count", "50000" if whole else "2000", *node],
                          capture_output=True, text=True, timeout=300 * SLOW)
    assert done.returncode == 0 and f"{2 if node else 1} others" in done.stdout, done.stdout + done.stderr


def test_what_was_learned_allows_the_same_and_no_more(forge, bailey, work, home, authority):
    """The lines that `learn` writes for git, applied: the repository that was fetched from, and no other; a push is a person's to allow."""
    where, hosts, policy, learned = f"{HOST}:{forge.port}", home / "hosts", home / "policy.yaml", work / "learned.yaml"
    for name in ("acme/app", "acme/other"):
        forge.make(name, work)
    hosts.write_text(f"127.0.0.1 {HOST}\n")
    policy.write_text(json.dumps({"network": {"allow_private": [where]}, "git": [{"repo": f"{where}/acme/*", "push": ["refs/heads/**"]}]}))
    common = ["--hosts", str(hosts), "--ca-bundle", str(authority.file)]
    setup = ("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_TERMINAL_PROMPT=0 GIT_CONFIG_GLOBAL=/dev/null\n")
    clone = setup + f"rm -rf one; git clone -q https://{where}/acme/app.git one && cd one && git commit -q --allow-empty -m 1 && "
    bailey("learn", "--policy", str(policy), *common, "--output", str(learned), "--", "bash", "-c", clone + "git push -q origin HEAD:refs/heads/agent/x", cwd=work,
           timeout=120 * SLOW).check()
    text = learned.read_text()
    assert f"{where}/acme/app" in text and "acme/other" not in text and "acme/*" not in text, text
    assert forge.refs("acme/app").get("refs/heads/agent/x")
    bailey("policy", "check", str(learned), cwd=work).check()
    script = clone + "echo cloned; git push -q origin HEAD:refs/heads/agent/y 2>&1 || echo not pushed; cd ..; " \
        f"git clone -q https://{where}/acme/other.git two 2>&1 || echo not cloned"
    done = bailey("run", "--policy", str(learned), "--allow-private", where, *common, "--", "bash", "-c", script, cwd=work, timeout=120 * SLOW)
    assert "cloned\n" in done.text and "not pushed" in done.text and "not cloned" in done.text, text + str(done)
    assert "refs/heads/agent/y" not in forge.refs("acme/app")
    pushes = [line for line in text.splitlines() if "agent/x" in line]
    assert pushes and all(line.lstrip().startswith("#") for line in pushes), text  # a proposal, and no rule

    # Of a run that only pushes, the host itself is not opened either.
    push = setup + f"git init -q solo && cd solo && git commit -q --allow-empty -m 2 && git push -q https://{where}/acme/app.git HEAD:refs/heads/agent/z"
    bailey("learn", "--replace", "--policy", str(policy), *common, "--output", str(learned), "--", "bash", "-c", push, cwd=work, timeout=120 * SLOW).check()
    text = learned.read_text()
    named = [line.lstrip() for line in text.splitlines() if where in line]
    assert forge.refs("acme/app").get("refs/heads/agent/z") and len(named) >= 3 and all(line.startswith("#") for line in named), text
