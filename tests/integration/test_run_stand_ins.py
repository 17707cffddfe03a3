# SPDX-License-Identifier: Apache-2.0
"""Stand-ins stay the same from run to run, differ between workspaces, credentials and users' keys, and are rotated on demand;
one of before a rotation is refused and never reaches an origin."""
import base64
import concurrent.futures
import json
import stat

import pytest

REAL = "sk-proj-Rea1OpenAiVa1ue0123456789abcdefXYZ"
OTHER = "sk-proj-0therOpenAiVa1ue876543210fedcbaZYX"


@pytest.fixture
def world(tmp_path, home, authority, make_origin, run):
    class World:
        origin = make_origin(tls=authority.context("api.ok.test"))
        hosts, policy = tmp_path / "hosts", tmp_path / "policy.yaml"
        state = home / ".local/state/bailey"

        def __init__(self):
            self.hosts.write_text("127.0.0.1 api.ok.test\n")
            self.policy.write_text(json.dumps({
                "network": {"allow_private": [f"127.0.0.1:{self.origin.port}"]},
                "credentials": [{"name": name, "env": name.upper(), "source": f"env:{name.upper()}", "slot": "bearer",
                                 "hosts": [f"api.ok.test:{self.origin.port}"]} for name in ("one", "two")]}))
            self.url = f"https://api.ok.test:{self.origin.port}/"

        def run(self, script, workspace="ws", **env):
            place = tmp_path / workspace
            place.mkdir(exist_ok=True)
            return run(["bailey", "run", "--quiet", "--policy", self.policy, "--workspace", place, "--hosts", self.hosts,
                        "--ca-bundle", authority.file, "--", "sh", "-c", script],
                       env={"ONE": REAL, "TWO": OTHER, **env}, timeout=90)

        def fakes(self, workspace="ws", **env):
            result = self.run("echo $ONE; echo $TWO", workspace, **env)
            assert result.status == 0, result
            return result.text.split()

        def send(self, token, *more):
            return self.run(f"curl -sS -o /dev/null -w '%{{http_code}} %header{{x-bailey-reason}}' -H 'Authorization: {token}' {self.url}").text

    return World()


def test_the_same_in_each_run_and_others_elsewhere(world):
    first = world.fakes()
    assert world.fakes() == first and len(set(first)) == 2
    assert all(f.startswith("sk-proj-") and len(f) == len(REAL) and f not in (REAL, OTHER) for f in first)
    elsewhere = world.fakes("other")
    assert not set(elsewhere) & set(first), "a stand-in of one workspace is not that of another"
    # Another value of the same form keeps its stand-in: what an agent has approved stays approved.
    assert world.fakes(ONE="sk-proj-New1OpenAiVa1ue5555555555aaaaaaXYZ")[0] == first[0]
    assert world.fakes(ONE=OTHER, TWO=REAL) == first, "it tells nothing about the value"
    key = world.state / "stand-ins"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.unlink()
    assert not set(world.fakes()) & set(first), "another key, other stand-ins"


def test_workspaces_that_share_a_home_share_stand_ins(world, tmp_path, run):
    """What an agent stored in a shared home in one workspace is good in the other."""
    def fakes(workspace, *options):
        (tmp_path / workspace).mkdir(exist_ok=True)
        result = run(["bailey", "run", "--quiet", "--policy", world.policy, "--workspace", tmp_path / workspace, *options, "--", "sh", "-c",
                      "echo $ONE; echo $TWO"], env={"ONE": REAL, "TWO": OTHER}, timeout=90)
        assert result.status == 0, result
        return result.text.split()
    shared = fakes("a", "--home", "both")
    assert fakes("b", "--home", "both") == shared and fakes("a") != shared and fakes("a", "--home", "other") != shared


def test_many_first_starts_at_once_agree(world):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: tuple(world.fakes()), range(6)))
    assert len(set(results)) == 1, results
    assert {p.name for p in world.state.iterdir() if p.name.startswith("stand-ins")} == {"stand-ins", "stand-ins.lock"}


def test_the_sandbox_cannot_read_what_they_are_made_of(world):
    world.fakes()
    key = (world.state / "stand-ins").read_text().split()[4]
    result = world.run(f"cat {world.state}/stand-ins; env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert key not in result.text + result.errors


def test_rotated_ones_are_refused(world, run):
    old = world.fakes()
    assert run(["bailey", "secrets", "rotate", "--policy", world.policy, "one"]).status == 0
    new = world.fakes()
    assert new[0] != old[0] and new[1] == old[1]
    assert world.send(f"Bearer {new[0]}").startswith("200")
    assert world.send(f"Bearer {old[0]}") == "403 credential"
    basic = base64.b64encode(f"x:{old[0]}".encode()).decode()
    assert world.send(f"Basic {basic}") == "403 credential"
    for _ in range(3):
        assert run(["bailey", "secrets", "rotate"]).status == 0
    newest = world.fakes()
    assert not set(newest) & set(old + new)
    for gone in (old[0], old[1], new[0]):
        assert world.send(f"Bearer {gone}") == "403 credential", gone
    said = world.run(f"curl -sS -H 'Authorization: Bearer {old[1]}' {world.url}").text
    assert "rotated" in said
    sent = b"".join(world.origin.requests())
    assert not any(fake.encode() in sent for fake in old + new + newest)


def test_rotate_says_what_is_wrong(world, run):
    wrong = run(["bailey", "secrets", "rotate", "--policy", world.policy, "onee"])
    assert wrong.status == 4 and "one" in wrong.errors, wrong
    assert run(["bailey", "secrets", "rotate", "openai"]).status == 0
    world.fakes()
    key = world.state / "stand-ins"
    for damage in ("nonsense\n", "bailey stand-ins 1\nkey 12\n", "bailey stand-ins 1\n", key.read_text() + "rotated x\n"):
        key.write_text(damage)
        result = world.run("true")
        assert result.status == 121 and str(key) in result.errors, result
        assert key.read_text() == damage, "a damaged file is a person's to look at"
    key.unlink()
    key.symlink_to("/dev/null")
    assert world.run("true").status == 121
    key.unlink()
    world.fakes()
    key.chmod(0o644)
    assert "chmod 600" in world.run("true").errors


def test_secrets_know_the_option_credential(world, run):
    """README's --credential can be listed and proved without a policy file; a source without a value ends as in run."""
    listed = run(["bailey", "secrets", "list", "--credential", "openai"], env={"OPENAI_API_KEY": REAL})
    assert listed.status == 0 and "openai" in listed.text and "env:OPENAI_API_KEY" in listed.text, listed
    proved = run(["bailey", "secrets", "test", "--credential", "openai", "openai"], env={"OPENAI_API_KEY": REAL}, timeout=90)
    assert proved.status == 0 and "works" in proved.text and REAL not in proved.text, proved
    for words in (["list"], ["test", "openai"]):
        none = run(["bailey", "secrets", *words], env={"OPENAI_API_KEY": REAL})
        assert none.text == "" and "has no credential" in none.errors and "--credential NAME" in none.errors, none
    unset = run(["bailey", "secrets", "test", "--credential", "openai", "openai"], timeout=90)
    assert unset.status == 3 and "OPENAI_API_KEY is not set" in unset.errors, unset
