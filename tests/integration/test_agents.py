# SPDX-License-Identifier: Apache-2.0
"""Real coding agents, as npm has them, in `bailey run -- AGENT`: from a fresh account with a key, against stand-ins of their model
APIs that ask them to work and to do what they must not. The real key reaches the provider and never the inside. The whole table, with
subscriptions, renewed tokens and terminals, is in test_agents_table.py (tests/run agents), and there root runs each agent: in `make
test` an ordinary user does, and root one of them."""
import os
import subprocess

import pytest

from kit.agents import AGENTS, KEY, REFUSED, SECRET, STEPS, World

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]


EACH = [name if name == "claude" or os.environ.get("BAILEY_TABLE") else pytest.param(name, marks=pytest.mark.user) for name in AGENTS]


@pytest.mark.parametrize("name", EACH)
def test_an_agent_works_and_is_confined(name, start, home, work, tmp_path, closing):
    world = World(name, start, home, work, tmp_path, closing).sign_in("key")
    result, said, models = world.run(), world.said(), world.models
    everything = str(result) + "\n".join(f"{k}: {v[-600:]}" for k, v in said.items()) + str([(h, m, p) for h, m, p, *_ in models.requests]) + str(models.offered)
    assert result.status == 0 and set(said) == set(STEPS), everything

    # it can work
    assert "WROTE=0" in said["wrote"] and (work / "made.txt").read_text() == "made\n", everything
    assert "42" in said["ran"] and "RAN=0" in said["ran"] and "COMMITTED=0" in said["committed"], everything
    assert "ALLOWED=200" in said["allowed"], said["allowed"]
    log = subprocess.run(["git", "-C", work, "log", "--format=%an %s"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "made" in log

    # and it is confined
    assert "REFUSED=0" not in said["refused"], said["refused"]
    assert not [host for host, *_ in models.requests if host == REFUSED]
    assert SECRET not in said["key"] and "KEY=0" not in said["key"]
    assert not (work / ".git/hooks/pre-commit").exists() or "evil" not in (work / ".git/hooks/pre-commit").read_text()
    assert "ENVIRONMENT=" in said["environment"] and world.row["variable"] in said["environment"]

    # the real key went to the provider, and was nowhere inside
    key = world.row.get("key", KEY)
    assert any(key in value for _, _, headers in world.provider_requests() for value in headers.values())
    world.check_secrets(result)
