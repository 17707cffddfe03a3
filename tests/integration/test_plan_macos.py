# SPDX-License-Identifier: Apache-2.0
"""bailey plan --for macos: the profile of a Mac, printed on Linux, as root and as an ordinary user."""
import json
import re

EXIT_OK, EXIT_USAGE, EXIT_CONFIG = 0, 2, 3


def test_the_profile_is_printed_and_says_what_it_is(bailey, workspace):
    text = bailey("plan", "--for", "macos", "--", "true", cwd=workspace).check().text
    assert "; command: true\n" in text
    assert "; note: never yet run on a Mac: generated and checked on Linux (docs/macos.md)\n" in text
    assert text.count("(version 1)\n(deny default (with message \"bailey-preview\"))\n") == 1
    assert all(32 <= ord(c) < 127 or c == "\n" for c in text)
    assert text.count("(") - text.count(")") in range(-40, 40)  # comments may hold a bracket
    assert f'(subpath "{workspace}' in text or f'(subpath "/private{workspace}' in text
    assert "SECRET@127.0.0.1:3128" in text and "(remote ip \"localhost:3128\")" in text


def test_json_has_the_same(bailey, workspace):
    told = json.loads(bailey("plan", "--for=macos", "--json", "-m", "workspace-write", "--", "a", "b c", cwd=workspace).check().text)
    assert told["platform"] == "macos" and told["tried_on_a_mac"] is False
    assert told["argv"] == ["a", "b c"] and told["limits"]["core"] == 0
    assert "remote ip" not in told["profile"] and "trustd" not in told["profile"]
    assert any(line.startswith("TMPDIR=/private/var/folders/") for line in told["environment"])


def test_words_open_what_they_name(bailey, workspace):
    plain = bailey("plan", "--for", "macos", "--", "true", cwd=workspace).check().text
    opened = bailey("plan", "--for", "macos", "--macos-allow", "clipboard", "--", "true", cwd=workspace).check().text
    added = set(opened.splitlines()) - set(plain.splitlines())
    assert any("com.apple.pasteboard.1" in line for line in added)
    assert not any(re.search("SecurityServer|launchservicesd", line) for line in added)
    result = bailey("plan", "--for", "macos", "--macos-allow", "clipbord", "--", "true", cwd=workspace)
    assert result.status in (EXIT_USAGE, EXIT_CONFIG) and "did you mean 'clipboard'" in result.errors, result


def test_doctor_says_what_differs(bailey, workspace):
    text = bailey("doctor", "--for", "macos", cwd=workspace).check().text
    assert "generated and checked on Linux, never yet run on a Mac" in text and "none is captured" in text
    told = json.loads(bailey("doctor", "--for", "macos", "--json", cwd=workspace).check().text)
    assert told["tried_on_a_mac"] is False and len(told["differences"]) >= 10
    assert all(row["linux"] != row["macos"] for row in told["differences"])


def test_what_macos_cannot_do_is_refused(bailey, workspace):
    for option, says in (["--overlay"], "no overlay"), (["--nesting"], "second profile"), (["--publish", "8080:80"], "number outside"):
        result = bailey("plan", "--for", "macos", *option, "--", "true", cwd=workspace)
        assert result.status == EXIT_CONFIG and says in result.errors and result.out == b"", result
    result = bailey("plan", "--for", "windows", "--", "true", cwd=workspace)
    assert result.status == EXIT_USAGE and "macos" in result.errors
