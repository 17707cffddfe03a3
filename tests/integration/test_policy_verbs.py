# SPDX-License-Identifier: Apache-2.0
"""bailey policy check, show, test; bailey why; bailey trust: from outside, as root and as an ordinary user."""
import json
import os
import stat

import pytest

EXIT_OK, EXIT_NO, EXIT_USAGE, EXIT_CONFIG, EXIT_UNAVAILABLE, EXIT_REFUSED = 0, 1, 2, 3, 4, 5


@pytest.fixture
def at(bailey, workspace):
    """at("policy", ...) runs bailey in the workspace."""
    return lambda *words, **more: bailey(*words, cwd=workspace, **more)


def verdicts(result):
    return [json.loads(line) for line in result.text.splitlines()]


def test_check_says_what_is_valid(at, workspace):
    good = workspace / "good.yaml"
    good.write_text('mode: read-only\nnetwork: { allow: ["@github", "*.example.org:443"] }\n')
    assert "good.yaml: valid (mode read-only, " in at("policy", "check", "good.yaml").check().text
    told = json.loads(at("policy", "check", "--json", str(good)).check().text)
    assert told["valid"] is True and told["mode"] == "read-only" and told["network_rules"] >= 6


@pytest.mark.parametrize("content, says", [
    (b"mode: read-only\nnetwrok: {}\n", "p.yaml:2:1: unknown key 'netwrok'; did you mean 'network'?"),
    (b"mode: read-only\nmode: read-only\n", "p.yaml:2:1: key 'mode' is there twice"),
    (b"\x7fELF\x02\x01\x01\x00", "p.yaml:1:1: control character 0x7f"),
    (b"mode: \xff\xfe", "p.yaml:1:7: byte 0xff is not UTF-8"),
    (b"a: " + b"[" * 100000, "p.yaml:1:35: nested deeper than 32 levels"),
    (b"- x.example.com\n" * 655360, "p.yaml:1:1: the file has more than 4194304 bytes"),
    (b"network: { allow: [" + b"a.example.com, " * 270000 + b"] }", "more than 262144 values"),
    (b"network: { allow: ['" + b"a" * 300 + b".example.com'] }", "p.yaml:1:20: network.allow: "),
    (b"network: { allow_private: [10.0.0.1] }", "p.yaml:1:28: "),
], ids=["unknown-key", "duplicate-key", "binary", "not-utf8", "deep", "huge", "many", "long-name", "no-port"])
def test_check_points_at_the_mistake(at, workspace, content, says):
    (workspace / "p.yaml").write_bytes(content)
    result = at("policy", "check", "p.yaml")
    assert result.status == EXIT_CONFIG and says in result.errors, result
    assert result.errors.count("\n") == 1 and result.out == b""
    told = json.loads(at("policy", "check", "--json", "p.yaml").text)
    assert told["valid"] is False and says in told["error"]


def test_check_of_nothing(at, workspace):
    assert at("policy", "check", "none.yaml").status == EXIT_CONFIG
    os.mkfifo(workspace / "pipe")
    result = at("policy", "check", "pipe")
    assert result.status == EXIT_CONFIG and "not a regular file" in result.errors


def test_check_reads_long_lists(at, workspace):
    (workspace / "hosts.txt").write_text("# hosts\n" + "".join(f"h{i}.example.com\n" for i in range(20000)))
    (workspace / "p.yaml").write_text("network: { allow_file: hosts.txt }\n")
    told = json.loads(at("policy", "check", "--json", "p.yaml").check().text)
    assert told["network_rules"] == 20000
    with (workspace / "hosts.txt").open("a") as file:
        file.write("not/a/host\n")
    result = at("policy", "check", "p.yaml")
    assert result.status == EXIT_CONFIG and "hosts.txt:20002: " in result.errors


def test_show_knows_every_origin(at, workspace, config):
    config.write_text('network:\n  allow: ["@docs", a.example.com]\n')
    (workspace / ".bailey.yaml").write_text("network: { deny: [b.example.com] }\n")
    told = json.loads(at("policy", "show", "--json", "--allow", "c.example.com", "--mode", "read-only",
                         env={"BAILEY_DENY": "d.example.com"}).check().text)
    assert told["network.allow"] == [
        {"value": "@docs", "origin": "~/.config/bailey/config.yaml:2:11"},
        {"value": "a.example.com", "origin": "~/.config/bailey/config.yaml:2:20"},
        {"value": "c.example.com", "origin": "--allow"}]
    assert told["network.deny"] == [{"value": "b.example.com", "origin": ".bailey.yaml:1:19"},
                                    {"value": "d.example.com", "origin": "BAILEY_DENY"}]
    assert told["mode"] == {"value": "read-only", "origin": "--mode"}
    assert told["process.limits.memory"] == {"value": "0", "origin": "default"}
    assert told["workspace"] == str(workspace)
    text = at("policy", "show", "--expand").check().text
    assert '# @docs in ~/.config/bailey/config.yaml:2:11' in text and "developer.mozilla.org" in text


def test_show_is_a_policy_again(at, workspace, config):
    config.write_text('profile: codex\nnetwork: { allow: ["@github"], publish: ["8080:80"] }\nprocess: { env: { set: { CI: "1" } } }\n')
    (workspace / "shown.yaml").write_text(at("policy", "show", "--all").check().text)
    at("policy", "check", "shown.yaml").check()


def test_show_keeps_secrets(at):
    result = at("policy", "show", "--env", "API_TOKEN=hunter2", "--upstream-proxy", "http://u:hunter2@p.example:3128")
    assert "hunter2" not in result.check().text and "API_TOKEN" in result.text and "p.example:3128" in result.text


def test_user_mirrors_belong_to_the_group(at, home, config):
    (home / ".npmrc").write_text("registry=https://u:hunter2@npm.corp.example:8443/x/\n")
    config.write_text('network: { allow: ["@npm"] }\n')
    verdict, other = verdicts(at("policy", "test", "--json", "npm.corp.example:8443", "npm.corp.example:443"))
    assert verdict["allowed"] and verdict["rule"] == "npm.corp.example:8443" and "~/.npmrc:1" in verdict["origin"]
    assert not other["allowed"]
    assert "hunter2" not in at("policy", "show", "--expand").check().text
    private, = verdicts(at("policy", "test", "--json", "--address", "10.0.0.5", "npm.corp.example:8443").check())
    assert private["allowed"]  # a mirror in the local network is what such settings are for


ATTACKS = [
    # target, decision, reason
    ("api.ok.test:443", "allow", "allowed"),
    ("API.OK.TEST.:443", "allow", "allowed"),
    ("x.y.ok.test", "allow", "allowed"),
    ("ok.test", "deny", "not-allowed"),
    ("evilok.test", "deny", "not-allowed"),
    ("api.ok.test:80", "deny", "not-allowed"),
    ("bad.ok.test", "deny", "deny-rule"),
    ("127.0.0.1:443", "deny", "address-class"),
    ("[::1]:443", "deny", "address-class"),
    ("0.0.0.0:443", "deny", "address-class"),
    ("[::]:443", "deny", "address-class"),
    ("[::ffff:169.254.169.254]:80", "deny", "address-class"),
    ("[64:ff9b::a9fe:a9fe]:80", "deny", "address-class"),
    ("0x7f000001:443", "deny", "bad-name"),
    ("127.1:443", "deny", "bad-name"),
    ("2130706433", "deny", "bad-name"),
    ("[api.ok.test]:443", "deny", "bad-name"),
    ("api.ok.test@evil.test:443", "deny", "bad-name"),
    ("api.ok.test:0", "deny", "bad-name"),
    ("api.ok.test:443443", "deny", "bad-name"),
    ("api.ok.test:-1", "deny", "bad-name"),
    ("арі.ok.test", "allow", "allowed"),  # another name below *.ok.test, shown in its true form
    ("api.ok.tеst", "deny", "not-allowed"),  # a Cyrillic letter
    ("10.9.8.7:5432", "allow", "allowed-private"),
    ("10.9.8.7:5433", "deny", "address-class"),
]


def test_verdicts_on_attacks(at):
    policy = ["--allow", "api.ok.test:443", "--allow", "*.ok.test:443", "--deny", "bad.ok.test", "--allow-private", "10.9.8.7:5432"]
    result = at("policy", "test", "--json", *policy, "--", *[target for target, _, _ in ATTACKS])
    assert result.status == EXIT_NO
    told = verdicts(result)
    assert [(v["asked"], v["decision"], v["reason"]) for v in told] == ATTACKS
    by_name = {v["asked"]: v for v in told}
    assert by_name["API.OK.TEST.:443"]["target"] == "api.ok.test:443"
    assert by_name["bad.ok.test"]["rule"] == "bad.ok.test" and by_name["bad.ok.test"]["origin"] == "--deny"
    assert by_name["арі.ok.test"]["target"].startswith("xn--")
    assert by_name["[::ffff:169.254.169.254]:80"]["detail"] == "metadata"
    text = at("policy", "test", *policy, "bad.ok.test").text
    assert "bad.ok.test:443: deny, deny-rule" in text and "from     --deny" in text


def test_verdicts_on_requests_and_answers(at, config):
    config.write_text("network:\n  rules:\n    - { host: api.ok.test, methods: [GET], paths: ['/repos/acme/**'] }\n")
    def ask(*words):
        return verdicts(at("policy", "test", "--json", *words))[0]
    assert ask("api.ok.test")["needs_request"]
    assert ask("--method", "GET", "--path", "/repos/acme/x", "api.ok.test")["allowed"]
    assert ask("--method", "POST", "--path", "/repos/acme/x", "api.ok.test")["reason"] == "method"
    assert ask("--method", "GET", "--path", "/repos/other", "api.ok.test")["reason"] == "path"
    assert ask("--address", "127.0.0.1", "api.ok.test")["reason"] == "address-class"
    assert ask("--address", "192.0.2.1", "api.ok.test")["reason"] == "address-class"
    assert at("policy", "test", "--address", "localhost", "api.ok.test").status == EXIT_USAGE


# Of a group for a forge: its hosts, requests that it lets through, requests that it does not, and what may be pushed.
GITHUB_READS = ["GET api.github.com/repos/acme/app/pulls/5", "GET api.github.com/repos/other/lib/issues", "HEAD api.github.com/user", "POST api.github.com/graphql",
                "GET raw.githubusercontent.com/acme/app/main/x", "GET objects.githubusercontent.com/x", "GET codeload.github.com/acme/app/zip/main"]
GITHUB_CONTRIBUTES = ["POST api.github.com/repos/acme/app/pulls", "POST api.github.com/repos/acme/app/issues", "POST api.github.com/repos/acme/app/issues/5/comments",
                      "POST api.github.com/repos/acme/app/pulls/5/comments", "POST api.github.com/repos/acme/app/pulls/5/comments/7/replies"]
GITHUB_NEVER = ["PUT api.github.com/repos/acme/app/pulls/5/merge", "POST api.github.com/repos/acme/app/merges", "PATCH api.github.com/repos/acme/app/pulls/5",
                "PATCH api.github.com/repos/acme/app", "DELETE api.github.com/repos/acme/app", "PUT api.github.com/repos/acme/app/collaborators/me",
                "POST api.github.com/repos/acme/app/hooks", "POST api.github.com/repos/acme/app/keys", "PUT api.github.com/repos/acme/app/branches/main/protection",
                "PUT api.github.com/repos/acme/app/actions/secrets/X", "DELETE api.github.com/repos/acme/app/actions/secrets/X", "POST api.github.com/repos/acme/app/actions/variables",
                "POST api.github.com/repos/acme/app/dispatches", "POST api.github.com/repos/acme/app/actions/workflows/ci.yml/dispatches",
                "POST api.github.com/repos/acme/app/actions/runs/1/rerun", "POST api.github.com/repos/acme/app/git/refs", "PATCH api.github.com/repos/acme/app/git/refs/heads/main",
                "PUT api.github.com/repos/acme/app/contents/x", "POST api.github.com/repos/acme/app/pulls/5/reviews", "POST api.github.com/repos/acme/app/releases",
                "POST api.github.com/repos/acme/other/pulls", "POST api.github.com/repos/evil/app/issues/5/comments", "POST api.github.com/repos/acme/app/pulls/../merges",
                "POST api.github.com/repos/acme/app/issues/5/lock/comments", "POST api.github.com/repos/acme/app/pulls/", "POST api.github.com/repos/acme/app/pulls/5",
                "POST api.github.com/user/repos", "POST api.github.com/gists", "POST github.com/login/oauth/access_token", "GET github.com/acme/app/settings", "GET gitlab.com/acme/app",
                "POST uploads.github.com/repos/acme/app/releases/1/assets", "POST raw.githubusercontent.com/x"]
GITLAB_READS = ["GET gitlab.com/api/v4/projects/1/merge_requests", "HEAD gitlab.com/acme/app", "POST gitlab.com/api/graphql"]
GITLAB_NEVER = ["PUT gitlab.com/api/v4/projects/1/merge_requests/5/merge", "POST gitlab.com/api/v4/projects/1/merge_requests", "PUT gitlab.com/api/v4/projects/1",
                "DELETE gitlab.com/api/v4/projects/1", "POST gitlab.com/api/v4/projects/1/variables", "POST gitlab.com/api/v4/projects/1/pipeline",
                "POST gitlab.com/api/v4/projects/1/trigger/pipeline", "POST gitlab.com/api/v4/projects/1/hooks", "POST gitlab.com/api/v4/projects/1/deploy_keys",
                "POST gitlab.com/oauth/token", "GET github.com/acme/app", "POST api.github.com/graphql"]
FORGES = [
    ("@github-read", GITHUB_READS, GITHUB_CONTRIBUTES + GITHUB_NEVER, [], []),
    ("@github-contribute acme/app", GITHUB_READS + GITHUB_CONTRIBUTES, GITHUB_NEVER, ["agent/x", "refs/heads/agent/x/y"],
     ["createPullRequest", "createIssue", "addComment", "addPullRequestReviewThreadReply"]),
    ("@github-contribute github.com/acme/app.git", GITHUB_CONTRIBUTES, GITHUB_NEVER[-12:], ["agent/x", "refs/heads/agent/x/y"],
     ["createPullRequest", "createIssue", "addComment", "addPullRequestReviewThreadReply"]),
    ("@gitlab-read", GITLAB_READS, GITLAB_NEVER, [], []),
    ("@gitlab-contribute acme/app", GITLAB_READS, GITLAB_NEVER, ["agent/x", "refs/heads/agent/x/y"], ["mergeRequestCreate", "createIssue", "createNote"]),
]


@pytest.mark.parametrize("group, allowed, refused, pushes, mutations", FORGES, ids=[group for group, *_ in FORGES])
def test_groups_for_forges(at, group, allowed, refused, pushes, mutations):
    """A group lets through what its name says; merging, settings, secrets, workflows, main and other repositories stay closed."""
    def ask(line):
        method, where = line.split(" ")
        host, _, path = where.partition("/")
        told, = verdicts(at("policy", "test", "--json", "--allow", group, "--method", method, "--path", "/" + path, host))
        return told["decision"], told["reason"]
    assert [line for line in allowed if ask(line) != ("allow", "allowed")] == []
    assert [line for line in refused if ask(line)[0] != "deny"] == []

    forge = f"{group[1:7]}.com"
    refs = ["agent/x", "refs/heads/agent/x/y", "main", "agent", "agentx", "refs/tags/v1", "refs/agent/x", "refs/heads/main"]
    targets = [f"{forge}/{name}={ref}" for name in ("acme/app", "acme/other", "evil/app") for ref in refs]
    told = verdicts(at("policy", "test", "--json", "--allow", group, *targets))
    assert [v["asked"] for v in told if v["allowed"]] == [f"{forge}/acme/app={ref}" for ref in refs if ref in pushes], told
    assert all(v["reason"] in ("git-service", "git-ref") for v in told if not v["allowed"]), told
    for target, status in ((f"{forge}/acme/app=agent/x", EXIT_OK if pushes else EXIT_NO), (f"{forge}/acme/app=main", EXIT_NO), (f"{forge}/evil/app", EXIT_OK)):
        assert at("why", "--allow", group, target).status == status, target

    rules = json.loads(at("policy", "show", "--json", "--expand", "--allow", group).check().text)["network.rules"]
    graphql, = [rule for rule in rules if rule["graphql.query"]]
    assert graphql["graphql.query"] == ["*"] and graphql["graphql.mutation"] == mutations, graphql
    assert all(set(rule["methods"]) == {"GET", "HEAD"} for rule in rules if not rule["graphql.query"] and not rule["paths"]), rules


@pytest.mark.parametrize("words, status, says", [
    (["--allow", "https://x"], EXIT_USAGE, "--allow: pattern 'https://x': a scheme does not belong here"),
    (["--allow", "@githbu"], EXIT_USAGE, "--allow: there is no group '@githbu'; did you mean '@github'?"),
    (["--mode", "open"], EXIT_USAGE, "--mode: 'open' is not one of"),
    (["--policy", "none.yaml"], EXIT_CONFIG, "cannot open none.yaml"),
    (["--workspace", "none"], EXIT_CONFIG, "the workspace 'none' cannot be used"),
    (["--agent", "x"], EXIT_CONFIG, "there is no role 'x'"),
])
def test_wrong_options(at, words, status, says):
    result = at("policy", "test", *words, "a.example.com")
    assert result.status == status and says in result.errors, result


def test_wrong_variable(at):
    result = at("policy", "show", env={"BAILEY_MODE": "open"})
    assert result.status == EXIT_CONFIG and "BAILEY_MODE: 'open' is not one of" in result.errors


def test_why_for_hosts_and_paths(at, workspace, home):
    (workspace / "Makefile").touch()
    (workspace / "link").symlink_to(home / ".ssh")
    (home / ".ssh").mkdir()
    def ask(*words):
        return json.loads(at("why", "--json", *words).text)
    assert ask("./Makefile")["decision"] == "write"
    assert ask("--deny-write", "Makefile", "./Makefile")["origin"] == "--deny-write"
    hooks = ask("./.git/hooks/pre-commit")
    assert hooks["decision"] == "read" and hooks["origin"].startswith("built in: ")
    key = ask("./link/id_ed25519")  # the rule holds for what is reached
    assert key["decision"] == "denied" and key["path"] == str(home / ".ssh" / "id_ed25519")
    assert "--read" in key["change"]
    assert ask("~/.ssh")["decision"] == "denied" and ask("/usr/bin")["decision"] == "read"
    host = ask("a.example.com")
    assert host["reason"] == "not-allowed" and "--allow a.example.com:443" in host["change"]
    assert at("why", "/etc/shadow").status == EXIT_NO
    assert at("why", "/usr/bin").status == EXIT_OK
    assert "\033" not in at("why", "a\033[31m.example.com").text


def test_why_for_repositories_over_ssh(at, workspace):
    def ask(*words, status):
        result = at("why", "--json", "--git", "github.com/a/b=agent/**", *words)
        told = json.loads(result.text)
        assert result.status == status and told["allowed"] == (status == EXIT_OK), result
        return told
    for word in ("git@github.com:a/b.git", "ssh://git@github.com/a/b", "git@github.com:a/b.git=agent/x"):
        closed = ask(word, status=EXIT_NO)
        assert (closed["decision"], closed["reason"]) == ("deny", "git-service") and "--git-ssh" in closed["change"], closed
        assert not closed["rule"] and not closed["origin"], closed  # the entry allows it: it has not decided
        assert ask("--git-ssh", word, status=EXIT_OK)["reason"] == "allowed"
    assert "github.com/a/b: deny, git-service" in at("why", "--git", "github.com/a/b", "ssh://git@github.com/a/b").text
    # As the gateway and the supervisor judge it: the port of ssh, the user, the ref.
    assert ask("--git-ssh", "--deny", "github.com:22", "git@github.com:a/b", status=EXIT_NO)["reason"] == "deny-rule"
    other = ask("--git-ssh", "root@github.com:a/b", status=EXIT_NO)
    assert other["reason"] == "git-service" and "ssh.users" in other["change"], other
    assert ask("--git-ssh", "git@github.com:a/b=main", status=EXIT_NO)["reason"] == "git-ref"
    assert ask("--git-ssh", "git@github.com:a/c", status=EXIT_NO)["reason"] == "git-repository"
    (workspace / "asks.yaml").write_text('git: [{ repo: github.com/x/y, push: ["refs/heads/**"], ask: push }]\n')
    held = ask("--policy", "asks.yaml", "github.com/x/y=main", status=EXIT_OK)
    assert (held["decision"], held["reason"]) == ("ask", "ask"), held


ADDRESSES = {  # as git writes them: what is asked about
    "git@h.test:a/b.git": "h.test/a/b.git", "git@h.test:/a/b.git": "h.test/a/b.git", "h.test:a/b.git": "h.test/a/b.git",
    "h.test:b.git": "h.test/b.git", "git@h.test:b": "h.test/b", "git@h.test:2222/b": "h.test/2222/b", "h.test:~me/b": "h.test/~me/b",
    "ssh://git@h.test/a/b.git": "h.test/a/b.git", "ssh://h.test/a/b/": "h.test/a/b", "ssh://git@h.test:2222/a/b.git": "h.test:2222/a/b.git",
    "git+ssh://git@h.test/a/b": "h.test/a/b", "ssh+git://h.test/a/b": "h.test/a/b", "[git@h.test:2222]:a/b": "h.test:2222/a/b",
    "git@[h.test:2222]:a/b": "h.test:2222/a/b", "git@[2606:4700::1]:a/b": "[2606:4700::1]/a/b",
}


@pytest.mark.parametrize("word", ADDRESSES)
def test_an_address_for_ssh_is_a_repository_without_any_git_in_the_policy(at, word):
    name = ADDRESSES[word]
    for verb in (("why",), ("policy", "test")):
        result = at(*verb, "--json", word)
        told = json.loads(result.text)
        assert result.status == EXIT_NO and (told["decision"], told["reason"]) == ("deny", "git-service"), result
        assert told["target"] == f"fetch from {name}" and told["text"] == "The policy grants no git over ssh.", told
    hint = told["change"].split("for it: ")[1].split(", or ")[0]
    assert "--git " in hint and hint.endswith(" --git-ssh") and name in hint, hint
    granted = at("why", "--json", *(part.strip("'") for part in hint.split()), word).check()  # the hint is true
    assert json.loads(granted.text)["reason"] == "allowed"


def test_what_else_looks_like_an_address_for_ssh(at, workspace):
    def ask(*words):
        return json.loads(at("why", "--json", *words).text)
    pushed = ask("git@h.test:a/b=agent/x+y")
    assert pushed["target"] == "push to h.test/a/b refs/heads/agent/x+y" and "--git h.test/a/b=REFS --git-ssh" in pushed["change"], pushed
    assert "--git h.test/a/b=refs/heads/main --git-ssh" in ask("git@h.test:a/b=main")["change"]
    # No spelling of it is a path or a page.
    for word in ("git@h.test:a/../b", "git@h.test:a//b", "ssh://git@h.test", "ssh://", "ssh:///a/b", "ssh://h.test/a b", "git@-x:a/b", "ssh://h.test:0/a", "git@h.test:a/*",
                 "ssh://h.test/" + "a" * 2000, "git@h.test:a/\033b"):
        told = ask(word)
        assert (told["decision"], told["reason"]) == ("deny", "git-form") and told["detail"], told
    # Other repositories have entries, this one has none.
    other = ask("--git-ssh", "--git", "i.test/a/b", "git@h.test:a/b")
    assert other["decision"] == "deny" and "--git h.test/a/b, or" in other["change"], other
    # Ports, paths and drives stay what they are.
    assert ask("h.test:443")["target"] == "h.test:443" and ask("h.test:https")["reason"] == "bad-name" and ask("ok.test@h.test:443")["reason"] == "bad-name"
    for word in ("./git@h.test:a/b", "a/git@h.test:b", "C:/a/b", "h.test:443/a", "/x:y/z", "ext::sh/x", "2001:db8::/32"):
        assert ask(word)["decision"] in ("read", "write", "denied"), word
    assert ask("--git", "h.test:2222/a", "h.test:2222/a")["target"] == "fetch from h.test:2222/a"
    # What is there is meant first, as git does it.
    (workspace / "git@h.test:a").mkdir()
    (workspace / "h.test:x.git").touch()
    (workspace / "git@h.test:dead").symlink_to("nothing")
    for word in ("git@h.test:a", "h.test:x.git", "git@h.test:dead"):
        assert ask(word)["decision"] == "write", word
    assert ask("git@h.test:a/b")["reason"] == "git-service"


def test_ssh_that_is_open_for_every_program(at):
    """The network rules may open the port: then a key of the sandbox's own is judged by nothing."""
    def notes(*words):
        return json.loads(at("why", "--json", *words).text)["notes"]
    assert "no repository is judged" in notes("--allow", "h.test:22", "git@h.test:a/b")
    assert notes("--allow", "h.test:443", "git@h.test:a/b") is None
    assert notes("--allow", "h.test:22", "--git", "h.test/a/b", "--git-ssh", "git@h.test:a/b") is None  # and the gateway lets only git through


def test_why_for_a_repository_of_gits_own_daemon(at):
    def ask(*words):
        return json.loads(at("why", "--json", *words).text)
    told = ask("git://h.test/a/b.git")
    assert (told["target"], told["reason"]) == ("h.test:9418", "not-allowed") and "no repository is judged" in told["notes"], told
    assert ask("--git", "h.test/a/b", "git://h.test/a/b.git")["decision"] == "deny"
    opened = ask("--allow", "h.test:9500", "git://h.test:9500/a/b=main")
    assert opened["allowed"] and opened["target"] == "h.test:9500" and "no repository is judged" in opened["notes"], opened
    assert ask("git://h.test:x/a")["reason"] == "bad-name" and ask("git://")["reason"] == "bad-name"


def test_what_is_still_decided_behind_a_verdict(at, workspace):
    def notes(*words):
        return (json.loads(at(*words).text)["notes"] or "").splitlines()
    request = ("--json", "--method", "POST", "--path", "/graphql", "api.github.com")
    read = ["GraphQL at /graphql: queries *; mutations none (@github-read in --allow)"]
    assert notes("policy", "test", "--allow", "@github-read", *request) == read
    assert notes("why", "--json", "--allow", "@github-read", "api.github.com") == read
    assert f"note     {read[0]}" in at("policy", "test", "--allow", "@github-read", *request[1:]).check().text
    assert notes("policy", "test", "--json", "--allow", "@github-read", "--method", "GET", "--path", "/user", "api.github.com") == []
    assert notes("policy", "test", "--allow", "api.github.com", *request) == []
    assert notes("policy", "test", "--allow", "@github-read", "--deny", "api.github.com", *request) == []
    (workspace / "two.yaml").write_text("network:\n  rules:\n"
        "    - { host: api.ok.test, paths: [/graphql], graphql: { query: [viewer, node] } }\n"
        "    - { host: api.ok.test, methods: [POST], paths: [/graphql, /v2], graphql: { query: ['*'], mutation: [addComment] } }\n")
    first, second = notes("policy", "test", "--json", "--policy", "two.yaml", "--method", "POST", "--path", "/graphql", "api.ok.test")
    assert first.startswith("GraphQL at /graphql: queries viewer, node; mutations none (") and "two.yaml:3:" in first
    assert second.startswith("GraphQL at /graphql, /v2: queries *; mutations addComment (") and "two.yaml:4:" in second
    assert len(notes("policy", "test", "--json", "--policy", "two.yaml", "--method", "GET", "--path", "/graphql", "api.ok.test")) == 1

    key = ("--ssh-key", "SHA256:" + "a" * 43)
    logs_in = "ssh.hosts names it (--ssh-host): ssh inside logs in there with the keys of ssh.keys"
    assert notes("why", "--json", "--ssh-host", "h.test", *key, "--allow", "h.test:22", "h.test:22") == [logs_in]
    assert notes("why", "--json", "--ssh-host", "h.test:2222", *key, "h.test:2222") == [logs_in]
    assert notes("why", "--json", "--ssh-host", "h.test", *key, "--allow", "i.test:22", "i.test:22") == [
        "ssh.hosts does not name it: no key of ssh.keys logs in there"]
    assert notes("why", "--json", "--ssh-host", "h.test", *key, "--allow", "h.test", "h.test") == []
    assert notes("why", "--json", "--allow", "i.test:22", "i.test:22") == []


def test_a_workspace_file_must_be_trusted(at, workspace, home):
    policy = workspace / ".bailey.yaml"
    policy.write_text('network:\n  deny: [a.example.com]\n  allow: ["@github", b.example.com]\nmode: full-network\n')
    result = at("policy", "test", "b.example.com")
    assert result.status == EXIT_REFUSED, result
    for words in (".bailey.yaml:3:11: network.allow '@github'", ".bailey.yaml:4:7: mode 'full-network'", "'bailey trust'"):
        assert words in result.errors
    assert at("policy", "test", "--no-workspace-policy", "b.example.com").status == EXIT_NO
    shown = at("trust", "--show")
    assert shown.status == EXIT_NO and ".bailey.yaml:3:22  network.allow: b.example.com" in shown.text
    assert "Trusted" in at("trust").check().text
    at("policy", "test", "b.example.com").check()
    assert str(policy) in at("trust", "--list").check().text
    state = home / ".local" / "state" / "bailey"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "trust").stat().st_mode) == 0o600
    policy.write_text(policy.read_text() + "\n")
    assert at("policy", "test", "b.example.com").status == EXIT_REFUSED
    at("trust").check()
    at("trust", "--remove").check()
    assert at("policy", "test", "b.example.com").status == EXIT_REFUSED
    assert at("trust", "--remove").status == EXIT_UNAVAILABLE


def test_trust_elsewhere(bailey, at, workspace, tmp_path):
    assert at("trust").status == EXIT_UNAVAILABLE
    (workspace / ".bailey.yaml").write_text("mode: [\n")
    assert at("trust").status == EXIT_CONFIG
    (workspace / ".bailey.yaml").write_text("network: { allow: [a.example.com] }\n")
    bailey("trust", str(workspace), cwd=tmp_path).check()
    at("policy", "test", "a.example.com").check()
    # The same content elsewhere is another file.
    other = tmp_path / "other"
    other.mkdir()
    (other / ".bailey.yaml").write_text("network: { allow: [a.example.com] }\n")
    assert bailey("policy", "test", "a.example.com", cwd=other).status == EXIT_REFUSED


def test_a_damaged_record_trusts_nothing(at, workspace, home):
    (workspace / ".bailey.yaml").write_text("network: { allow: [a.example.com] }\n")
    at("trust").check()
    record = home / ".local" / "state" / "bailey" / "trust"
    record.write_text("nonsense\n")
    result = at("policy", "test", "a.example.com")
    assert result.status == EXIT_CONFIG and "trust:1: damaged" in result.errors
    record.unlink()
    record.symlink_to(workspace / "elsewhere")
    assert at("policy", "test", "a.example.com").status == EXIT_CONFIG


def test_hostile_workspace_text_is_escaped(at, workspace):
    (workspace / ".bailey.yaml").write_text('network: { allow: ["a\\e[31m.example.com"] }\n"\\e[2J": 1\n')
    for words in (["policy", "show"], ["trust", "--show"], ["policy", "check"]):
        result = at(*words)
        assert result.status != EXIT_OK and b"\033" not in result.out + result.err


def test_settings_by_xdg(at, tmp_path):
    (tmp_path / "xdg" / "bailey").mkdir(parents=True)
    (tmp_path / "xdg" / "bailey" / "config.yaml").write_text("mode: read-only\n")
    told = json.loads(at("policy", "show", "--json", env={"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).check().text)
    assert told["mode"]["value"] == "read-only"


def test_groups_and_profiles_are_listed(at):
    told = json.loads(at("policy", "groups", "--json").check().text)
    assert told["groups"]["npm"]["patterns"] == ["*.npmjs.org"] and told["groups"]["npm"]["mirrors"]
    assert {"claude", "codex", "gemini", "opencode", "aider"} <= set(told["profiles"])
    text = at("policy", "groups").check().text
    assert "@github" in text and "profile claude" in text
    for group in told["groups"]:  # every group is a valid one
        at("policy", "check", "--allow", f"@{group}").check()
    for profile in told["profiles"]:
        at("policy", "check", "--profile", profile).check()


def test_every_line_of_the_groups_has_a_name(at):
    assert "(null)" not in at("policy", "groups").check().text
    listed = json.loads(at("policy", "groups", "--json").check().out)
    assert all(entry["key"] for profile in listed["profiles"].values() for entry in profile)


@pytest.mark.parametrize("network, says", [({"allow": ["127.0.0.1"]}, "127.0.0.1 under allow opens nothing"), ({"allow": ["10.0.0.0/8"]}, "allow_private"),
                                           ({"allow": ["192.168.1.1:443"]}, "private"), ({"allow_private": ["169.254.169.254:80"]}, "metadata"),
                                           ({"allow": ["[::1]:80"]}, "loopback"), ({"allow": ["fd00::/8"]}, "allow_private"), ({"allow": ["169.254.169.254"]}, "opens nothing"),
                                           ({"allow_private": ["[fd00:ec2::254]:80"]}, "metadata"), ({"allow": ["api.example.com", "127.0.0.0/8"]}, "loopback")])
def test_grants_that_open_nothing_are_named(at, workspace, network, says):
    (workspace / "p.yaml").write_text(json.dumps({"network": network}))
    done = at("policy", "check", "p.yaml").check()
    assert says in done.errors and "p.yaml:1" in done.errors


@pytest.mark.parametrize("option, value", [("--allow", "127.0.0.1"), ("--allow", "10.0.0.0/8"), ("--allow-private", "169.254.169.254:80")])
def test_options_that_open_nothing_are_named(at, option, value):
    """As the entries of a file are, where they are checked and where they are used."""
    for words in (["policy", "check", option, value], ["run", option, value, "--", "true"]):
        done = at(*words)
        assert done.status == 0 and "opens nothing" in done.errors and option in done.errors, done


@pytest.mark.parametrize("network", [{"allow": ["10.0.0.5"], "allow_private": ["10.0.0.0/8:443"]}, {"allow": ["10.0.0.0/8"], "deny_cidrs": ["192.168.0.0/16"]},
                                     {"allow": ["1.1.1.1", "localhost:80", "api.example.com"]}])
def test_grants_that_count_are_not(at, workspace, network):
    (workspace / "p.yaml").write_text(json.dumps({"network": network}))
    assert at("policy", "check", "p.yaml").check().errors == ""


@pytest.mark.parametrize("rule, line", [
    ("{name: mine, decision: forbid, argv: [rm], match: [ls]}", 2), ("{name: mine, decision: forbid, argv: [rm], no_match: [rm x]}", 2),
    ("{name: fine, decision: forbid, argv: [dd], match: [dd x]}\n  - {name: mine, decision: escalate, argv: [ls, -l], match: [ls -l, ls]}", 3),
    ("{name: mine, decision: allow, argv: [make, test], match: ['make test', 'make tests']}", 2),
])
def test_wrong_examples_are_wrong_policies(at, workspace, rule, line):
    """check, exec and policy check say the same, and where it stands; nothing is run."""
    (workspace / "p.yaml").write_text(f"commands:\n  - {rule}\n")
    for words, status in ((["policy", "check", "p.yaml"], (3,)), (["check", "--policy", "p.yaml", "touch ran"], (3,)), (["exec", "--policy", "p.yaml", "touch ran"], (3, 121))):
        done = at(*words)
        assert done.status in status and f"p.yaml:{line}" in done.errors and "example" in done.errors, done
    assert not (workspace / "ran").exists()
