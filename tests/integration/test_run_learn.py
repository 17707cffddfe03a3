# SPDX-License-Identifier: Apache-2.0
"""bailey learn: what a command needed becomes a policy that permits it, and nothing sensitive is granted by it."""
import pathlib
import shutil
import tempfile

import pytest


@pytest.fixture
def places(tmp_path, home):
    """The workspace, and a directory outside it that the sandbox can see: its own /tmp hides the test's."""
    work = tmp_path / "work"
    work.mkdir()
    visible = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp", prefix="bailey-learn-"))
    cache = visible / "cache" / "tool"
    cache.mkdir(parents=True)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_test").write_text("the-private-key")
    yield work, cache
    shutil.rmtree(visible)


def learn(bailey, work, script, *options):
    return bailey("learn", "--workspace", str(work), "--output", str(work / "learned.yaml"), *options, "--", "sh", "-c", script)


def test_writes_are_learned_and_then_permitted(bailey, places):
    work, cache = places
    script = f"for i in a b c; do echo x > {cache}/$i; done"
    assert learn(bailey, work, script).status != 0, "files stay as the policy has them"
    text = (work / "learned.yaml").read_text()
    assert f'- "{cache}"' in text and "mode: workspace-write\n" in text
    bailey("policy", "check", str(work / "learned.yaml")).check()
    bailey("run", "--policy", str(work / "learned.yaml"), "--workspace", str(work), "--", "sh", "-c", script).check()
    assert sorted(p.name for p in cache.iterdir()) == ["a", "b", "c"]


def test_hosts_are_learned_by_name_and_port(bailey, places, origin, tmp_path):
    work, _ = places
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 api.learn.test\n")
    target = f"api.learn.test:{origin.port}"
    result = learn(bailey, work, f"curl -sS -m 10 --noproxy '*' http://{target}/x", "--hosts", str(hosts), "--allow-private", target)
    assert result.status == 0, result.errors
    text = (work / "learned.yaml").read_text()
    assert f'- "{target}"' in text and "mode: workspace-write-whitelist" in text


def test_what_is_sensitive_is_a_comment_that_grants_nothing(bailey, places, home):
    work, _ = places
    key = home / ".ssh" / "id_test"
    result = learn(bailey, work, f"cat {key}; curl -s -m 5 --noproxy '*' http://10.9.8.7/; true")
    assert "the-private-key" not in result.text
    text = (work / "learned.yaml").read_text()
    assert '    # - "10.9.8.7:80"' in text
    granted = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert not any(".ssh" in line or "10.9.8.7" in line for line in granted)
    bailey("policy", "check", str(work / "learned.yaml")).check()


def test_a_file_that_is_there_is_not_written_over(bailey, places):
    work, _ = places
    (work / "learned.yaml").write_text("mine")
    result = learn(bailey, work, "true")
    assert result.status != 0 and "--replace" in result.errors
    assert (work / "learned.yaml").read_text() == "mine"
    learn(bailey, work, "true", "--replace").check()


def test_names_cannot_forge_lines(bailey, places):
    work, cache = places
    learn(bailey, work, f"""printf 'x' > '{cache}/a"
  - "/etc'; true""")
    text = (work / "learned.yaml").read_text()
    assert '\n  - "/etc' not in text
    bailey("policy", "check", str(work / "learned.yaml")).check()
