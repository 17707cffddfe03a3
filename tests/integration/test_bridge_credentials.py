# SPDX-License-Identifier: Apache-2.0
"""Credentials of the policy that bridged tools have: the tool's requests carry them, and the sandbox that calls it has no part in them."""
import json
import re

import pytest

from kit.process import SLOW

pytestmark = pytest.mark.visible_home
SECRET, OTHER = "crp-live-Zq8Yt3KpXw5Nn7Bb2Vv4", "crp-live-Mn4Bv6Cx8Zl1Kj3Hg5Fd"
HOST, ELSEWHERE = "corp.ok.test", "other.ok.test"
ASK = 'curl -sS -m 20 -o /dev/null -w "%{http_code}\\n" -H "Authorization: Bearer $TOKEN" https://'

TOOL = f"""#!/bin/sh
case $1 in
ask) TOKEN=$CORP_KEY; {ASK}$2/tool 2>&1;;
provider) TOKEN=$GITHUB_TOKEN; {ASK}$2/tool 2>&1;;
show) echo "$CORP_KEY";;
esac
"""
VERBS = ["ask <word>", "provider <word>", "show"]


@pytest.fixture
def corp(bailey, home, work, authority, make_origin):
    """corp(script, tool={}, credentials=[...]): the script in a sandbox with a tool that has the credential `corp`."""
    origin = make_origin(tls=authority.context(HOST, ELSEWHERE))
    program = home / "outside" / "tool"
    program.parent.mkdir()
    program.write_text(TOOL)
    program.chmod(0o755)
    (home / "hosts").write_text(f"127.0.0.1 {HOST} {ELSEWHERE}\n")
    where, elsewhere = f"{HOST}:{origin.port}", f"{ELSEWHERE}:{origin.port}"

    class Corp:
        file = home / "policy.yaml"

        def write(self, credentials, tool=None, **policy):
            own = {"program": str(program), "verbs": VERBS, "credentials": ["corp"], **(tool or {})}
            self.file.write_text(json.dumps({"network": {"allow_private": [where, elsewhere]}, "bridge": {"tool": own}, "credentials": credentials, **policy}))

        def __call__(self, script, *, entry=None, credentials=None, tool=None, env=None, check=True, options=(), **policy):
            self.write([self.entry(**(entry or {}))] if credentials is None else credentials, tool, **policy)
            origin.connections.clear()
            done = bailey("run", "--policy", str(self.file), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), "--audit", str(home / "audit.jsonl"), *options,
                          "--", "bash", "-c", script, cwd=work, timeout=120 * SLOW, env={"CORP_LOGIN": SECRET, **(env or {})})
            assert SECRET not in done.text + done.errors, str(done)
            return done.check() if check else done

        @staticmethod
        def entry(**more):
            return {"name": "corp", "env": "CORP_KEY", "source": "env:CORP_LOGIN", "hosts": [where], "slot": "bearer", **more}

        @property
        def seen(self):
            """(path, authorization) of every request that arrived."""
            heads = [request.decode() for request in origin.requests()]
            return [(head.split()[1], (re.search(r"(?im)^authorization: *(.*?)\r$", head) or [None, None])[1]) for head in heads]
    corp = Corp()
    corp.where, corp.elsewhere, corp.origin = where, elsewhere, origin
    return corp


def own(where):
    return f"TOKEN=$CORP_KEY; {ASK}{where}/own 2>&1; "


def test_the_tool_has_it_and_its_caller_does_not(corp):
    done = corp(f"env | grep -c CORP_; tool ask {corp.where}; {own(corp.where)}")
    lines = done.text.splitlines()
    assert lines[0] == "0" and lines[1] == "200", str(done)
    assert corp.seen == [("/tool", f"Bearer {SECRET}"), ("/own", "Bearer ")], (corp.seen, str(done))


def test_what_stands_for_it_is_worthless_to_the_caller(corp):
    """Though the sandbox may reach the host, and the tool tells it what it holds."""
    done = corp(f"CORP_KEY=$(tool show); echo $CORP_KEY; {own(corp.where)}", network={"allow": [corp.where], "allow_private": [corp.where]})
    shown = done.text.splitlines()[0]
    assert shown and shown != SECRET and not any(SECRET in (value or "") for _, value in corp.seen), (corp.seen, str(done))
    assert all(path == "/own" for path, _ in corp.seen)


def test_the_policy_grants_it_to_both(corp):
    done = corp(f"tool ask {corp.where}; {own(corp.where)}", entry={"sandbox": True})
    assert done.text.split() == ["200", "200"] and corp.seen == [("/tool", f"Bearer {SECRET}"), ("/own", f"Bearer {SECRET}")], (corp.seen, str(done))


def test_only_to_its_hosts(corp):
    """The tool may reach another host; what it holds is worth nothing there."""
    done = corp(f"tool ask {corp.elsewhere}; tool ask {corp.where}", tool={"hosts": [corp.elsewhere]})
    assert done.text.split()[-1] == "200", str(done)
    assert [value for path, value in corp.seen if value == f"Bearer {SECRET}"] == [f"Bearer {SECRET}"] and len(corp.seen) <= 2, (corp.seen, str(done))


@pytest.mark.parametrize("kind", ["file", "relative", "json"])
def test_its_source_is_closed_to_the_caller(corp, home, work, kind):
    (home / "place").mkdir()
    file = home / "place/token" if kind == "file" else work / "token"
    file.write_text(json.dumps({"key": SECRET}) if kind == "json" else SECRET + "\n")
    source = {"file": f"file:{file}", "relative": "file:token", "json": f"json:{file}#/key"}[kind]
    done = corp(f"tool ask {corp.where}; cat {file} && echo READ; true", entry={"source": source}, tool={"credentials": ["corp"]},
                filesystem={"read": [str(home / "place")]} if kind == "file" else {})
    assert done.text.split() == ["200"] and corp.seen == [("/tool", f"Bearer {SECRET}")], (corp.seen, str(done))


def test_a_command_that_the_sandbox_could_change(corp, work):
    (work / "get").write_text("#!/bin/sh\necho x\n")
    (work / "get").chmod(0o755)
    for entry, words in (({"source": f"exec:{work}/get"}, ["corp"]), ({}, ["corp", f"github=exec:{work}/get"])):
        done = corp("touch ran", entry=entry, tool={"credentials": words}, check=False)
        assert done.status != 0 and "the command of" in done.errors and str(work / "get") in done.errors and not (work / "ran").exists(), str(done)


def test_a_command_outside(corp, home):
    (home / "outside" / "get").write_text(f"#!/bin/sh\necho {SECRET}\n")
    (home / "outside" / "get").chmod(0o755)
    done = corp(f"tool ask {corp.where}", entry={"source": f"exec:{home}/outside/get"})
    assert done.text.split() == ["200"] and corp.seen == [("/tool", f"Bearer {SECRET}")], (corp.seen, str(done))


def test_an_entry_without_a_name(corp):
    """A provider's name means the policy's entry for it; the sandbox keeps that one, unless the entry says otherwise."""
    entry = {"provider": "github", "source": "env:CORP_LOGIN", "hosts": [corp.where], "slot": "bearer"}
    script = f"tool provider {corp.where}; TOKEN=$GITHUB_TOKEN; {ASK}{corp.where}/own 2>&1"
    done = corp(script, credentials=[entry], tool={"credentials": ["github"]})
    assert done.text.split() == ["200", "200"] and [value for _, value in corp.seen] == [f"Bearer {SECRET}"] * 2, (corp.seen, str(done))
    corp(f"{script}; true", credentials=[{**entry, "sandbox": False}], tool={"credentials": ["github"]})
    assert corp.seen == [("/tool", f"Bearer {SECRET}"), ("/own", "Bearer ")], corp.seen


def test_one_variable_and_two_credentials(corp):
    """The sandbox's own, and another of the tool's in a variable of the same name: each has its own."""
    entries = [corp.entry(), corp.entry(name="weak", source="env:WEAK_LOGIN")]
    done = corp(f"tool ask {corp.where}; {own(corp.where)}", credentials=entries, env={"WEAK_LOGIN": OTHER})
    assert done.text.split() == ["200", "200"] and corp.seen == [("/tool", f"Bearer {SECRET}"), ("/own", f"Bearer {OTHER}")], (corp.seen, str(done))


HEAD = """bridge:
  tool:
    program: /bin/true
    verbs: [show]
    credentials:
      - %s
credentials:
  - { name: corp, env: CORP_KEY, source: "env:CORP_LOGIN", hosts: [corp.ok.test], slot: bearer%s }
%s"""


@pytest.mark.parametrize("word, more, rest, says", [
    ("crop", "", "", r"policy.yaml:6:9: the tool 'tool' names the credential .crop., which is neither an entry under `credentials` \(corp\) nor a provider; did you mean 'corp'"),
    ("gitub", "", "", r"policy.yaml:6:9: .*did you mean 'github'"),
    ("corp=env:X", "", "", r"policy.yaml:6:9: .*there is no provider"),
    ("claude-sign-in", "", "", r"policy.yaml:6:9: claude-sign-in is an agent's sign-in"),
    ('"a b"', "", "", r"policy.yaml:6:9: .*is not a name"),
    ("github", ", sandbox: false", "", r"policy.yaml:8:5: `sandbox: false` leaves this credential to tools, and no tool under `bridge` names it"),
    ("corp", ", sandbox: maybe", "", r"policy.yaml:8:\d+: "),
    ("corp", "", '  - { name: corp, env: K, source: "env:X", hosts: [x.test], slot: bearer }\n', r"policy.yaml:9:5: another credential \(.*policy.yaml:8:5\) is called 'corp' too"),
    ("file", "", '  - { name: file, source: "json:/x#/y", hosts: [x.test], slot: bearer }\n', r"policy.yaml:6:9: the tool 'tool' has the credential 'file' by a variable: write `env`"),
])
def test_bad_names_are_named(bailey, home, work, word, more, rest, says):
    file = home / "policy.yaml"
    file.write_text(HEAD % (word, more, rest))
    for verb in (["policy", "check", str(file)], ["run", "--policy", str(file), "--", "touch", "ran"]):
        done = bailey(*verb, cwd=work, env={"CORP_LOGIN": SECRET})
        assert done.status not in (0, 1) and re.search(says, done.errors + done.text) and not (work / "ran").exists(), str(done)


PASSING = """process: { env: { pass: [EDITOR, %s] } }
bridge:
  tool: { program: /bin/true, verbs: [show], credentials: [%s], env_pass: [%s] }
credentials:
  - { name: corp, env: CORP_KEY, source: "env:CORP_LOGIN", hosts: [corp.ok.test], slot: bearer }
"""


@pytest.mark.parametrize("outer, word, inner, says", [
    ("GITHUB_TOKEN", "github", "LANG", r"policy.yaml:1:34: GITHUB_TOKEN goes to the sandbox, and the tool 'tool' has it as a credential \(.*policy.yaml:3:60\)"),
    ("GH_TOKEN", "github", "LANG", r"policy.yaml:1:34: GH_TOKEN goes to the sandbox"),
    ("LANG", "github", "GITHUB_TOKEN", r"policy.yaml:3:80: the tool 'tool' has a stand-in in GITHUB_TOKEN, by the credential github \(.*policy.yaml:3:60\)"),
    ("LANG", "corp", "CORP_KEY", r"policy.yaml:3:78: the tool 'tool' has a stand-in in CORP_KEY, by the credential corp"),
    ("GH_TOKEN", "github=env:STRONG", "LANG", None), ("LANG", "github", "LANG", None), ("CORP_KEY", "corp", "LANG", None),
])
def test_a_variable_is_passed_or_kept(bailey, home, work, outer, word, inner, says):
    """Where the tool has a provider's own variable, the sandbox would have had the value."""
    file = home / "policy.yaml"
    file.write_text(PASSING % (outer, word, inner))
    for verb in (["policy", "check", str(file)], ["run", "-q", "--policy", str(file), "--", "touch", "ran"]):
        done = bailey(*verb, cwd=work, env={"CORP_LOGIN": SECRET, "GITHUB_TOKEN": SECRET})
        assert (done.status == 0) == (says is None) and (work / "ran").exists() == (says is None and verb[0] == "run"), str(done)
        assert not says or re.search(says, done.errors + done.text), str(done)


@pytest.mark.parametrize("tool, hosts", [({"credentials": [], "hosts": [HOST]}, None), ({}, "*.ok.test:{port}"), ({"credentials": [], "hosts": ["*.ok.test:{port}"]}, None), ({}, "*.ok.test:1-65535")])
def test_private_addresses_of_what_the_tool_reaches(corp, tool, hosts):
    """allow_private names the host with its port; the tool's entry may say the same in another way."""
    port = corp.where.rpartition(":")[2]
    tool = {key: [value.format(port=port) for value in values] for key, values in tool.items()}
    entry = corp.entry(**({"hosts": [hosts.format(port=port)]} if hosts else {}), sandbox=True)
    done = corp(f"tool ask {corp.where}", credentials=[entry], tool=tool)
    assert done.text.split() == ["200"], str(done)


def test_private_addresses_of_nothing_else(corp):
    done = corp(f"tool ask {corp.elsewhere}; tool ask {corp.where}", credentials=[corp.entry(sandbox=True)], tool={"credentials": [], "hosts": [f"{HOST}:1"]}, check=False)
    assert "200" not in done.text and not corp.seen, str(done)


def test_a_link_that_leads_elsewhere_later_is_not_followed(corp, home, work):
    """The file that it leads to now is open to the caller."""
    for name, value in (("one", SECRET), ("two", OTHER)):
        (work / name).write_text(value)
    (home / "outer").symlink_to(work / "link")
    (work / "link").symlink_to("one")  # the sandbox may turn this one
    done = corp(f"tool ask {corp.where}; rm link; ln -s two link; tool ask {corp.where}", credentials=[corp.entry(source=f"file:{home}/outer")], check=False)
    assert done.text.split()[:1] == ["200"] and [seen[1] for seen in corp.seen] == [f"Bearer {SECRET}"], (corp.seen, str(done))
    assert "a link leads to another file" in done.text + done.errors and str(work / "two") in done.text + done.errors and OTHER not in done.text + done.errors, str(done)


def test_verbs_know_it(corp, bailey, work):
    corp.write([corp.entry(), corp.entry(name="weak", env="WEAK", source="env:WEAK_LOGIN")])
    options = ["--policy", str(corp.file)]
    shown = bailey("policy", "show", *options, cwd=work).check().text
    assert re.search(r"# credentials of bridged tools, which the sandbox has no part in:\n#   corp: ", shown) and "name: corp" in shown, shown
    mappings = json.loads(bailey("policy", "show", "--json", *options, cwd=work).check().text)["mappings"]
    assert [(m["name"], m["sandbox"]) for m in mappings] == [("weak", True), ("corp", False)]
    listed = bailey("secrets", "list", *options, cwd=work).check().text
    assert re.search(r"(?m)^corp .*\(bridged tools alone\)$", listed) and not re.search(r"(?m)^weak .*alone", listed), listed
    assert [(m["name"], m["sandbox"]) for m in json.loads(bailey("secrets", "list", "--json", *options, cwd=work).check().text)] == [("weak", True), ("corp", False)]
    tested = bailey("secrets", "test", *options, "corp", cwd=work, env={"CORP_LOGIN": SECRET}).check()
    assert SECRET not in tested.text + tested.errors
    bailey("secrets", "rotate", *options, "corp", cwd=work).check()
    assert "corp" in bailey("bridge", "show", *options, "tool", cwd=work).check().text
