# SPDX-License-Identifier: Apache-2.0
"""What a program inside finds in its environment: nothing that is a key, nothing that changes how clients behave."""
import json

import pytest

KEPT = {"EDITOR": "vi", "GPG_KEY": "E3FF2839C048B25C084DEBE9B26995E310250568", "SSH_PUBLIC_KEY": "ssh-ed25519 AAAA me", "USE_AUTH": "true",
        "MAX_OUTPUT_TOKENS": "32000", "SITE": "https://me@example.com/x"}
HELD = {"SMTP_PASS": "x1y2z3", "SECRET_KEY_BASE": "0a1b2c3d", "GITHUB_PAT": "0a1b", "OPENAI_KEY": "0a1b", "SIGNING_KEY": "0a1b", "SSH_KEY": "0a1b",
        "REDIS_URL": "redis://:hunter2@cache.example:6379", "NPM_CONFIG__AUTH": "0a1b2c", "npm_config__authToken": "0a1b2c",
        "HARMLESS": "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "DEPLOY": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"}


@pytest.fixture
def variables(bailey, work):
    """The variables inside, and what was said."""
    def look(*words, verb=("run",), **env):
        script = "import json, os; print(json.dumps(dict(os.environ)))"
        result = bailey(*verb, *words, "--", "/usr/bin/python3", "-c", script, cwd=work, env=env).check()
        return json.loads(result.text), result.errors
    return look


def test_what_looks_like_a_credential_is_held_back_and_named_in_one_line(variables):
    inside, said = variables(**HELD, **KEPT, AWS_REGION="eu-north-1")
    assert not set(HELD) & set(inside) and KEPT.items() <= inside.items()
    (line,) = [x for x in said.splitlines() if "held back" in x]
    assert all(f"{name}," in line or f"{name};" in line for name in HELD) and "--env-pass" in line
    assert "AWS_REGION" not in line and "hunter2" not in said and "USE_AUTH" not in line


def test_a_name_hands_it_on_and_nothing_is_said(variables):
    passed = [word for name in HELD for word in ("--env-pass", name)]
    inside, said = variables(*passed, **HELD)
    assert HELD.items() <= inside.items() and "held back" not in said


def test_a_sandbox_says_what_it_is(variables):
    inside, _ = variables()
    assert inside["SANDBOX"] == "bailey" and inside["SANDBOX_RUNTIME"] == "1" and "bailey why" in inside["BAILEY_WHY"]
    assert "ALL_PROXY" not in inside and "all_proxy" not in inside and inside["HTTPS_PROXY"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize("given, seen", [
    ({"GEMINI_API_KEY": "AIza0123456789abcdef"}, {"GEMINI_API_KEY"}),
    ({"GOOGLE_API_KEY": "AIza0123456789abcdef"}, {"GOOGLE_API_KEY"}),
    ({"GEMINI_API_KEY": "AIza0123456789abcdef", "GOOGLE_API_KEY": ""}, {"GEMINI_API_KEY"}),
    ({"GEMINI_API_KEY": "AIza0123456789abcdef", "GOOGLE_API_KEY": "AIza0123456789abcdef"}, {"GEMINI_API_KEY", "GOOGLE_API_KEY"}),
])
def test_only_the_variables_that_the_host_has(variables, given, seen):
    """Gemini complains when it finds both."""
    inside, _ = variables("--credential", "gemini", **given)
    assert {name for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY") if inside.get(name)} == seen
    assert all(inside[name] != "AIza0123456789abcdef" for name in seen) and not [name for name in inside if name.endswith("BASE_URL")]


def test_a_key_from_a_file_arrives_under_the_first_name(variables, home):
    (home / "key").write_text("AIzaFromAFile")
    inside, _ = variables("--credential", f"gemini=file:{home / 'key'}")
    assert inside["GEMINI_API_KEY"].startswith("AIza") and "GOOGLE_API_KEY" not in inside
    (home / "token").write_text("ghp_FromAFile")
    inside, _ = variables("--credential", f"github=file:{home / 'token'}")
    assert inside["GITHUB_TOKEN"] and inside["GITHUB_TOKEN"] == inside["GH_TOKEN"] != "ghp_FromAFile"


def test_the_git_helper_reads_the_variable_that_is_there(bailey, work):
    script = "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill; echo $GH_TOKEN"
    result = bailey("run", "--credential", "github", "--", "sh", "-c", script, cwd=work, env={"GH_TOKEN": "ghp_realRealReal0123"}).check()
    *_, stand_in = result.text.split()
    assert f"password={stand_in}\n" in result.text and "ghp_realRealReal0123" not in result.text


def test_httpx_starts_and_reaches_its_host(bailey, work, home, make_origin):
    """The Python SDKs of the model providers stand on it; a SOCKS proxy in the environment made its client fail at once."""
    pytest.importorskip("httpx")
    origin = make_origin(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")
    (home / "hosts").write_text("127.0.0.1 origin.test\n")
    place = f"origin.test:{origin.port}"
    script = f"import httpx; print(httpx.Client().get('http://{place}/').text, httpx.get('http://{place}/').text)"
    result = bailey("run", "--hosts", str(home / "hosts"), "--allow", place, "--allow-private", place, "--",
                    "/usr/bin/python3", "-c", script, cwd=work).check()
    assert result.text == "yes yes\n"
