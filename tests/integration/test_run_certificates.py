# SPDX-License-Identifier: Apache-2.0
"""The session's CA where programs look without being told: over the system's own files inside."""
import json
import os
import pathlib

import pytest

from test_run_credentials import API, SECRETS, lab  # noqa: F401

BUNDLE = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
STORE = pathlib.Path("/etc/ssl/certs/java/cacerts")
JAVA = """
import java.net.*;
public class Get {
    public static void main(String[] a) throws Exception {
        var c = (HttpURLConnection) new URL(a[0]).openConnection();
        c.setRequestProperty("Authorization", "Bearer " + System.getenv("SERVICE_KEY"));
        System.out.println(c.getResponseCode());
    }
}
"""


@pytest.fixture
def opened(bailey, lab, home, work, authority):  # noqa: F811
    """A host whose TLS is opened, because it has a credential. opened(script, options...)"""
    (home / "hosts").write_text(f"127.0.0.1 {API}\n")
    place = f"{API}:{lab.port}"
    (home / "policy.yaml").write_text(json.dumps({
        "network": {"allow": [place], "allow_private": [place]},
        "credentials": [{"name": "service", "env": "SERVICE_KEY", "source": "env:SERVICE_KEY", "hosts": [place], "slot": "bearer"}]}))

    def run(script, *options, env=None):
        return bailey("run", "--policy", str(home / "policy.yaml"), "--hosts", str(home / "hosts"), "--ca-bundle", str(authority.file), *options,
                      "--", "bash", "-euc", script.replace("PLACE", place), cwd=work, env={**SECRETS, **(env or {})}, timeout=120)
    return run


pytestmark = pytest.mark.skipif(not BUNDLE.exists(), reason="this machine has no bundle of roots")


@pytest.mark.parametrize("client", [
    "env -i curl -sS -m 30 -o /dev/null -w '%{http_code}' -H \"Authorization: Bearer $SERVICE_KEY\" https://PLACE/page",
    'env -i HOME=/ wget -q -T 30 -t 1 --header "Authorization: Bearer $SERVICE_KEY" -O /dev/null https://PLACE/page && echo -n 200',
    'wget -q -T 30 -t 1 --header "Authorization: Bearer $SERVICE_KEY" -O /dev/null https://PLACE/page && echo -n 200',
    "env -i /usr/bin/python3 -c \"import urllib.request as r; print(r.urlopen(r.Request('https://PLACE/page', headers={'Authorization': 'Bearer $SERVICE_KEY'}), timeout=30).status, end='')\"",
    "echo | env -i openssl s_client -connect PLACE -verify_return_error -brief 2>&1 | grep -q 'Verification: OK' && echo -n 200",
    "env -i PATH=/usr/bin:/bin git -c http.proxy= ls-remote https://PLACE/r.git >/dev/null 2>out || ! grep -i certificate out; echo -n 200",
])
def test_a_clean_environment_trusts_it(opened, client):
    result = opened(client + "; true")
    assert result.text.endswith("200"), result


def test_the_files_outside_are_as_they_were(opened):
    before = (BUNDLE.read_bytes(), os.stat(BUNDLE).st_mtime_ns)
    inside = opened(f"cat {BUNDLE}; ! (echo x >> {BUNDLE}) 2>/dev/null").check().text
    assert (BUNDLE.read_bytes(), os.stat(BUNDLE).st_mtime_ns) == before
    assert inside.count("BEGIN CERTIFICATE") >= before[0].count(b"BEGIN CERTIFICATE") + 2  # the roots that were named, and the session's


def test_without_interception_nothing_is_covered(bailey, work):
    inside = bailey("run", "--", "cat", str(BUNDLE), cwd=work).check()
    assert inside.out == BUNDLE.read_bytes()


def test_roots_that_were_named_count_without_a_credential(bailey, lab, home, work, authority):  # noqa: F811
    (home / "hosts").write_text(f"127.0.0.1 {API}\n")
    place = f"{API}:{lab.port}"
    options = ("--hosts", str(home / "hosts"), "--allow", place, "--allow-private", place)
    for client in ("curl -sS -m 30 -o /dev/null -w '%{http_code}'", "env -i curl -sS -m 30 -o /dev/null -w '%{http_code}'"):
        script = f"{client} https://{place}/page"
        got = bailey("run", *options, "--ca-bundle", str(authority.file), "--", "sh", "-c", script, cwd=work).check()
        assert got.text == "401"  # it is there, and wants a key
        assert bailey("run", *options, "--", "sh", "-c", script, cwd=work).status == 60
    learned = bailey("learn", "--ca-bundle", str(authority.file), "--output", str(work / "learned.yaml"), *options, "--", "sh", "-c", script, cwd=work)
    assert learned.text == "401" and API in (work / "learned.yaml").read_text()
    missing = bailey("run", *options, "--ca-bundle", str(home / "absent.pem"), "--", "true", cwd=work)
    assert missing.status == 121 and "absent.pem" in missing.errors


def test_a_file_that_is_hidden_stays_hidden(opened):
    assert "BEGIN" not in opened(f"cat {BUNDLE} 2>/dev/null; true", "--deny-read", str(BUNDLE)).text


@pytest.mark.skipif(not STORE.exists(), reason="this machine has no store of Java's")
def test_java_trusts_it_and_says_nothing(opened, work):
    (work / "Get.java").write_text(JAVA)
    result = opened('test -z "${JAVA_TOOL_OPTIONS-}"; java -Xmx128m -XX:TieredStopAtLevel=1 Get.java https://PLACE/page').check()
    assert result.text == "200\n" and "Picked up" not in result.errors


def test_a_java_of_ones_own_is_told_by_its_variable(opened, home):
    """Its store is not the system's, and cannot be covered: it may be in a home."""
    store = home / "jdk" / "lib" / "security"
    store.mkdir(parents=True)
    (store / "cacerts").write_bytes(b"x")
    assert "trustStore=" in opened("echo $JAVA_TOOL_OPTIONS", env={"JAVA_HOME": str(home / "jdk")}).check().text


@pytest.mark.parametrize("state", [None, "elsewhere/state"])
@pytest.mark.parametrize("options", [(), ("--trace-denials",), ("--deny-read", "**/.env")])
@pytest.mark.rows
def test_they_stay_readable_while_it_runs(opened, home, state, options):
    """Masks of denied places are looked after while a command runs: the state directory is one of them, and the certificates are below it.
    In a home without one, and with one that a variable names."""
    env = {"XDG_STATE_HOME": str(home / state)} if state else {}
    script = 'for i in 1 2 3 4; do sleep 0.2; test -s "$CURL_CA_BUNDLE"; head -c 9 "$CURL_CA_BUNDLE" >/dev/null; done; echo -n readable'
    script += '; ! ls "$(dirname "$(dirname "$(dirname "$CURL_CA_BUNDLE")")")"/audit 2>/dev/null'
    assert opened(script, *options, env=env).check().text == "readable"


@pytest.mark.parametrize("where", ["option", "variable", "file"])
@pytest.mark.parametrize("kind", ["rsa2048", "RSA4096x", "ed25519"])
@pytest.mark.rows
def test_other_keys_are_refused(sh, home, work, where, kind):
    """A word that is none does not mean the default."""
    (home / "p.yaml").write_text(f"network: {{ ca_key: '{kind}' }}\n")
    options = {"option": ("--ca-key", kind), "variable": (), "file": ("--policy", home / "p.yaml")}[where]
    result = sh("touch ran", *options, env={"BAILEY_CA_KEY": kind} if where == "variable" else {})
    assert result.status in (2, 120, 121) and not (work / "ran").exists(), result


@pytest.mark.parametrize("where", ["variable", "file"])
def test_the_key_by_a_variable_and_a_file(sh, home, where):
    (home / "p.yaml").write_text("network: { ca_key: rsa4096 }\n")
    options = ("--policy", home / "p.yaml") if where == "file" else ()
    script = 'openssl crl2pkcs7 -nocrl -certfile "$NODE_EXTRA_CA_CERTS" | openssl pkcs7 -print_certs -noout -text | grep -A8 "Subject: O=Bailey"'
    env = {"OPENAI_API_KEY": "sk-proj-0123456789abcdef0123", **({"BAILEY_CA_KEY": "rsa4096"} if where == "variable" else {})}
    assert "(4096 bit)" in sh(script, "--credential", "openai", *options, env=env).text


@pytest.mark.parametrize("kind,bits", [("p256", 256), ("rsa4096", 4096)])
def test_the_key_of_the_session_s_ca(sh, kind, bits):
    script = r"""openssl crl2pkcs7 -nocrl -certfile "$NODE_EXTRA_CA_CERTS" | openssl pkcs7 -print_certs -noout -text |
        grep -A8 'Subject: O=Bailey' | grep -o '([0-9]* bit)'"""
    result = sh(script, "--credential", "openai", "--ca-key", kind, env={"OPENAI_API_KEY": "sk-proj-0123456789abcdef0123"})
    assert f"({bits} bit)" in result.text, result


@pytest.mark.visible_home
def test_the_certificates_stay_where_they_are(bailey, home, work):
    """Watching denied paths begins a moment after the launch: nothing that the sandbox has in its own home is masked then."""
    script = 'mkdir -p ~/.ssh && echo mine > ~/.ssh/x; sleep 1.5; cat "$SSL_CERT_FILE" | head -1; cat ~/.ssh/x; ls -d "$(dirname "$SSL_CERT_FILE")"/ca-bundle.pem'
    result = bailey("run", "--credential", "openai", "--", "sh", "-c", script, cwd=work, env={"OPENAI_API_KEY": "sk-" + "a1B2" * 12}).check()
    assert "BEGIN CERTIFICATE" in result.text and "mine" in result.text, result
