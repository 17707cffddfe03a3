# SPDX-License-Identifier: Apache-2.0
"""Denials of a port of any host, denials with a reason, and hosts whose TLS is never opened: at every front of the gateway."""
import json

import pytest

REASON = 'Use the mirror instead; ask "ops" for access'
PLAIN = "unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; "
FRONTS = {
    "proxy": "curl -sS -m 60 -x $http_proxy --noproxy '' {url}",
    "connect": "curl -sS -m 60 -p -x $http_proxy --noproxy '' {url}",
    "socks5": PLAIN + "curl -sS -m 60 -x socks5h://127.0.0.1:1080 {url}",
    "captured": PLAIN + "curl -sS -m 60 {url}",
}


@pytest.fixture
def lab(tmp_path, bailey, work, hosts, home):
    class Lab:
        policy = tmp_path / "policy.yaml"

        def run(self, script, *options, **more):
            return bailey("run", "--policy", self.policy, "--hosts", hosts, *options, "--", "sh", "-c", script, cwd=work, **more)

        def write(self, **network):
            self.policy.write_text(json.dumps({"network": network}))

        def audit(self):
            lines = [line for file in sorted(home.glob(".local/state/bailey/**/*.jsonl")) for line in file.read_text().splitlines()]
            return [json.loads(line) for line in lines]

    return Lab()


@pytest.mark.parametrize("front", FRONTS)
def test_a_port_of_any_host_is_refused_with_its_reason(lab, front, origin, bailey):
    """The host is allowed and opened; its port is denied for every host. A name may still be asked for."""
    opened = {"allow": ["origin.test"], "allow_private": [f"origin.test:{origin.port}"]}
    lab.write(**opened)
    script = FRONTS[front].format(url=f"http://origin.test:{origin.port}/")
    assert lab.run(script).check().text == "origin\n"
    before = origin.received()

    lab.write(deny=[{"host": f"*:{origin.port}", "reason": REASON}], **opened)
    result = lab.run("getent ahostsv4 origin.test > /dev/null && echo known; " + script)
    assert origin.received() == before, "nothing reaches the origin"
    if front == "proxy":
        assert REASON in result.text, "an agent reads the reason in the body"
    else:
        assert result.status != 0
    assert REASON in result.errors, "and whoever watches reads it too"
    assert "known" in result.text
    denied = [event for event in lab.audit() if event.get("reason") == "deny-rule"]
    assert denied and all(event["because"] == REASON and event["rule"] == f"*:{origin.port}" for event in denied)

    why = bailey("why", "--policy", lab.policy, f"origin.test:{origin.port}")
    assert why.status == 1 and f"because  {REASON}" in why.text
    answer = json.loads(bailey("why", "--json", "--policy", lab.policy, f"origin.test:{origin.port}").text)
    assert answer["because"] == REASON and answer["rule"] == f"*:{origin.port}" and answer["list"] == "network.deny"
    assert json.loads(bailey("why", "--json", "--policy", lab.policy, "origin.test:1").text)["allowed"]


def test_the_reason_is_shown_and_read_again(lab, bailey, tmp_path):
    lab.write(deny=[{"host": "x.example.com", "reason": REASON}, "*:25", {"host": "@github"}])
    bailey("policy", "check", lab.policy).check()
    shown = bailey("policy", "show", "--policy", lab.policy).check().text
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    entries = json.loads(bailey("policy", "show", "--json", "--policy", again).check().text)["network.deny"]
    assert [(entry["value"], entry.get("reason")) for entry in entries] == [("x.example.com", REASON), ("*:25", None), ("@github", None)]


def test_a_port_is_denied_while_a_sandbox_runs(bailey, work):
    """What people say at the command line, and have remembered, may be a port as well."""
    bailey("deny", "*:25", "--scope", "workspace", cwd=work).check()
    assert bailey("why", "mail.example.com:25", cwd=work).text.splitlines()[0].endswith("deny, deny-rule")
    assert bailey("allow", "*:25", "--scope", "workspace", cwd=work).status != 0


@pytest.mark.parametrize("front", ["connect", "socks5", "captured"])
def test_tls_of_a_sealed_host_is_never_opened(lab, front, make_origin, authority, hosts, tmp_path):
    """Beside a host with a rule, whose TLS is opened: a client that trusts only the origin's own authority sees it."""
    origin = make_origin(tls=authority.context("origin.test", "other.test"))
    lab.write(allow=["origin.test"], allow_private=[f"127.0.0.1:{origin.port}"], no_intercept=["origin.test"],
              rules=[{"host": "other.test", "methods": ["GET"]}])
    own = f"--cacert {authority.file}"
    fetch = FRONTS[front].format(url=f"{own} https://NAME:{origin.port}/")
    sealed = lab.run(fetch.replace("NAME", "origin.test"), "--ca-bundle", authority.file, "--read", authority.file)
    assert sealed.check().text == "origin\n"
    opened = lab.run(fetch.replace("NAME", "other.test"), "--ca-bundle", authority.file, "--read", authority.file)
    assert opened.status != 0 and "certificate" in opened.errors, "its certificate is Bailey's"


@pytest.mark.parametrize("sealed, more, words", [
    ("*.example.com", {"network": {"rules": [{"host": "api.example.com", "paths": ["/x"]}]}}, "contradicts the rule for api.example.com"),
    ("api.example.com:443", {"network": {"rules": [{"host": "*.example.com", "methods": ["GET"]}]}}, "contradicts the rule for *.example.com"),
    ("api.openai.com", {"credentials": [{"provider": "openai", "source": "env:OPENAI_API_KEY"}]}, "contradicts the credential for api.openai.com:443"),
    ("api.example.com:8443", {"network": {"rules": [{"host": "api.example.com:443", "methods": ["GET"]}]}}, None),
    ("example.com", {"network": {"rules": [{"host": "*.example.com", "methods": ["GET"]}]}}, None),
])
def test_a_contradiction_is_an_error(lab, bailey, sealed, more, words):
    more = {"network": {}, **more}
    more["network"]["no_intercept"] = [sealed]
    lab.policy.write_text(json.dumps(more))
    result = bailey("policy", "check", lab.policy)
    assert (result.status, words is None or words in result.errors) == (0 if words is None else 3, True), result
    if words:
        assert lab.run("true").status == 121 and words in lab.run("true").errors
