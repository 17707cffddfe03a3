# SPDX-License-Identifier: Apache-2.0
"""Nothing in an imported policy allows a host, a read or a write that its source does not: sources by chance, for every format, judged
by what the other tool does (written down here a second time) and by the policy that came of them."""
import functools
import itertools
import json
import random
import re
import subprocess

import pytest

from conftest import BUILD

SOURCES, QUESTIONS = 60, 40
NAMES = ["example.com", "a.example.com", "b.a.example.com", "example.org", "x.example.org", "other.test", "xn--bcher-kva.example"]
PORTS = [22, 80, 443, 8443]
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt"]


class Importer:
    """import-lines, asked in turn."""

    def __init__(self, workspace, home, environment):
        self.process = subprocess.Popen([BUILD / "tests/tools/import-lines", workspace, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**environment, "HOME": str(home)})

    def ask(self, *lines, body=b""):
        self.process.stdin.write("".join(line + "\n" for line in lines).encode() + body)
        self.process.stdin.flush()
        return [self.process.stdout.readline().decode().strip() for _ in lines]

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


# --- what the other tools mean

@functools.lru_cache(maxsize=None)
def glob_regex(glob):
    out, i = "", 0
    while i < len(glob):
        if glob.startswith("**/", i) and (i == 0 or glob[i - 1] == "/"):
            out, i = out + "(?:.*/)?", i + 3
        elif glob.startswith("**", i):
            out, i = out + ".*", i + 2
        elif glob[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif glob[i] == "?":
            out, i = out + "[^/]", i + 1
        elif glob[i] == "{" and "}" in glob[i:]:
            end = glob.index("}", i)
            out, i = out + "(?:" + "|".join(map(re.escape, glob[i + 1:end].split(","))) + ")", end + 1
        else:
            out, i = out + re.escape(glob[i]), i + 1
    return re.compile(out + r"\Z")


def covers(pattern, path):
    """Whether the pattern (absolute) holds for the path or for a directory around it."""
    pattern = re.sub(r"(?<=.)/(\*\*)?$", "", pattern)
    while pattern.endswith("/**"):
        pattern = pattern[:-3] or "/"
    if pattern == "/":
        return True
    parts = path.split("/")
    return any(glob_regex(pattern).match("/".join(parts[:n])) for n in range(2, len(parts) + 1))


def covered(patterns, path):
    return any(covers(pattern, path) for pattern in patterns)


def host_matches(pattern, name, port):
    host, _, ports = pattern.partition(":")
    if ports and port != int(ports):
        return False
    if host == "*":
        return True
    if host.startswith("**."):
        return name == host[3:] or name.endswith(host[2:])
    if host.startswith("*."):
        return name.endswith(host[1:])
    if "*" in host:
        return bool(re.fullmatch(host.replace(".", r"\.").replace("*", ".*"), name))
    return name == host


class World:
    def __init__(self, workspace, home, chance):
        self.work, self.home, self.chance = str(workspace), str(home), chance
        bases = [self.work, self.work, str(workspace.parent), "/data", "/data/a"]
        tails = ["", "/a", "/b", "/a/b", "/a/b/secret", "/secret", "/secret/a", "/x.env", "/a/x.env", "/.git", "/.git/a", "/a/.codex/b"]
        self.paths = sorted({base + tail for base, tail in itertools.product(bases, tails)}) + ["/usr/bin/a", "/etc/x.conf", self.home + "/a"]

    def some(self, values, most=3):
        return [self.chance.choice(values) for _ in range(self.chance.randrange(most + 1))]

    def written(self, path):
        """A way in which the path can be written, and what it means."""
        forms = [path]
        if path == self.work:
            forms.append(".")
        if path.startswith(self.work + "/"):
            forms += [path[len(self.work) + 1:] or ".", "./" + path[len(self.work) + 1:]]
        return self.chance.choice(forms), path

    def grants(self, most=3):
        return [self.written(self.chance.choice(self.paths) + self.chance.choice(["", "", "", "/**", "/"])) for _ in range(self.chance.randrange(most + 1))]

    def denials(self, most=3):
        made = [(self.written(self.chance.choice(self.paths) + self.chance.choice(["", "", "/**", "/*", "/**/x.env", "/**.env", "/{a,b}", "/?", "/s*t/a"])))
                for _ in range(self.chance.randrange(most + 1))]
        if self.chance.random() < 0.2:
            made.append(("**/" + "secret", self.work + "/**/secret"))
        return made

    def hosts(self, most=4):
        ports = ["", "", "", ":443", ":22"]
        names = NAMES + ["*.example.com", "*.a.example.com", "*.example.org"]
        return [self.chance.choice(names) + self.chance.choice(ports) for _ in range(self.chance.randrange(most + 1))]

    def denied_hosts(self):
        return self.hosts(2) + self.some(["*:22", "*:8443"], 1) + (["ex*ple.com"] if self.chance.random() < 0.1 else []) + (
            ["*"] if self.chance.random() < 0.05 else [])


def words(pairs):
    return [pair[0] for pair in pairs]


def meant(pairs):
    return [pair[1] for pair in pairs]


def srt(w):
    files = {key: make() for key, make in [("denyRead", w.denials), ("allowRead", w.grants), ("allowWrite", w.grants), ("denyWrite", w.denials)]}
    allowed, denied, everything = w.hosts(), w.denied_hosts(), w.chance.random() < 0.1
    text = {"network": {"allowedDomains": allowed, "deniedDomains": denied, "allowAllDomains": everything},
            "filesystem": {key: words(value) for key, value in files.items()}}
    if w.chance.random() < 0.5:
        text["credentials"] = {"envVars": [{"name": "API_KEY", "mode": "mask", "injectHosts": w.hosts(2)}]}
    f = {key: meant(value) for key, value in files.items()}
    return "jsonc", json.dumps(text), {
        "host": lambda name, port: not any(host_matches(d, name, port) for d in denied) and (everything or any(host_matches(a, name, port) for a in allowed)),
        "read": lambda path: not covered(f["denyRead"], path) or covered(f["allowRead"], path),
        "write": lambda path: covered(f["allowWrite"], path) and not covered(f["denyWrite"], path)}


def claude(w):
    def rule(tool, path):
        return f"{tool}(/{path})"  # //absolute

    def relative(tool, name):
        return f"{tool}({name})", f"{w.work}/**/{name}"

    boxed = {key: make(2) for key, make in [("denyRead", w.denials), ("allowRead", w.grants), ("allowWrite", w.grants), ("denyWrite", w.denials)]}
    lists, judged = {}, {}
    for kind in ("allow", "ask", "deny"):
        lists[kind] = []
        for tool in ("Read", "Edit"):
            paths = meant(w.denials(2) if kind != "allow" else w.grants(2))
            lists[kind] += [rule(tool, path) for path in paths]
            if w.chance.random() < 0.3:
                text, path = relative(tool, w.chance.choice(["secret", "x.env", "*.env"]))
                lists[kind].append(text)
                paths.append(path)
            judged[kind, tool] = paths
        hosts = [host for host in w.hosts(2) if ":" not in host]
        lists[kind] += [f"WebFetch(domain:{host})" for host in hosts]
        judged[kind, "WebFetch"] = hosts
    whole = {(kind, tool) for kind in ("ask", "deny") for tool in ("Edit", "WebFetch") if w.chance.random() < 0.1}
    for kind, tool in sorted(whole):
        lists[kind].append(tool)
    rules = {tool: [] if {("ask", tool), ("deny", tool)} & whole else judged["allow", tool] for tool in ("Edit", "WebFetch")}
    more = w.grants(1)
    lists["additionalDirectories"] = words(more)
    if w.chance.random() < 0.1:
        lists["defaultMode"] = "plan"
    allowed, denied = w.hosts(), w.denied_hosts()
    text = {"permissions": lists, "sandbox": {"network": {"allowedDomains": allowed, "deniedDomains": denied},
                                              "filesystem": {key: words(value) for key, value in boxed.items()}}}
    f = {key: meant(value) for key, value in boxed.items()}
    no_hosts = denied + judged["deny", "WebFetch"] + judged["ask", "WebFetch"]

    def read(path):
        if covered(judged["deny", "Read"] + judged["ask", "Read"], path):
            return False
        return not covered(f["denyRead"], path) or covered(f["allowRead"], path)

    def write(path):
        if ("deny", "Edit") in whole or covered(judged["deny", "Edit"] + judged["ask", "Edit"] + f["denyWrite"], path):
            return False
        base = [] if lists.get("defaultMode") == "plan" else [w.work]
        return covered(base + meant(more) + f["allowWrite"] + rules["Edit"], path)

    return "jsonc", json.dumps(text), {
        "host": lambda name, port: not any(host_matches(d, name, port) for d in no_hosts) and any(
            host_matches(a, name, port) for a in allowed + rules["WebFetch"]),
        "read": read, "write": write}


def codex_profile(w):
    places = {path: w.chance.choice(["read", "write", "none"]) for path in w.some(w.paths, 6)}
    if w.chance.random() < 0.7:
        places[":minimal"] = "read"
    ground = w.chance.choice([None, "read", "write"])
    if ground:
        places[":workspace_roots"] = ground
        places.pop(w.work, None)
    domains = {host: w.chance.choice(["allow", "allow", "deny"]) for host in w.hosts() + ["**.example.net"] if ":" not in host}
    on, limited = w.chance.random() < 0.8, w.chance.random() < 0.3
    text = 'default_permissions = "mine"\n[permissions.mine.filesystem]\n' + "".join(f'"{k}" = "{v}"\n' for k, v in places.items())
    text += f"[permissions.mine.network]\nenabled = {str(on).lower()}\nmode = \"{'limited' if limited else 'full'}\"\n[permissions.mine.network.domains]\n"
    text += "".join(f'"{k}" = "{v}"\n' for k, v in domains.items())
    real = {w.work if k == ":workspace_roots" else k: v for k, v in places.items() if k != ":minimal"}

    def access(path):
        held = [place for place in real if covers(place, path)]
        if not held:
            return "read" if ":minimal" in places and covered(SYSTEM, path) else "none"
        return real[max(held, key=len)]

    def write(path):
        roots = [place for place, value in real.items() if value == "write"]
        kept = [f"{root}/{name}" for root in roots for name in (".git", ".codex", ".agents")]
        return access(path) == "write" and not covered(kept, path)

    return "toml", text, {
        "host": lambda name, port: on and not any(v == "deny" and host_matches(k, name, port) for k, v in domains.items()) and any(
            v == "allow" and host_matches(k, name, port) for k, v in domains.items()),
        "read": lambda path: access(path) != "none", "write": write}


def codex_mode(w):
    mode, net, roots = w.chance.choice(["read-only", "workspace-write", "workspace-write"]), w.chance.random() < 0.5, w.grants()
    text = f'sandbox_mode = "{mode}"\n[sandbox_workspace_write]\nnetwork_access = {str(net).lower()}\nwritable_roots = {json.dumps(words(roots))}\n'
    writable = [w.work] + [re.sub(r"/(\*\*)?$", "", root) for root in meant(roots)]
    kept = [f"{root}/{name}" for root in writable for name in (".git", ".codex", ".agents")]
    active = mode == "workspace-write"
    return "toml", text, {"host": lambda name, port: active and net, "read": lambda path: True,
                          "write": lambda path: active and covered(writable, path) and not covered(kept, path)}


def codex(w):
    return codex_profile(w) if w.chance.random() < 0.6 else codex_mode(w)


def fence(w):
    files = {key: make() for key, make in [("denyRead", w.denials), ("allowRead", w.grants), ("allowWrite", w.grants), ("denyWrite", w.denials)]}
    allowed, denied = w.hosts() + w.some(["*"], 1) * (w.chance.random() < 0.2), w.denied_hosts()
    closed, strict = w.chance.random() < 0.4, w.chance.random() < 0.3
    text = "// settings\n" + json.dumps({
        "network": {"allowedDomains": allowed, "deniedDomains": denied},
        "filesystem": {"defaultDenyRead": closed, "strictDenyRead": strict, **{key: words(value) for key, value in files.items()}}})
    f = {key: meant(value) for key, value in files.items()}

    def read(path):
        if covered(f["denyRead"], path):
            return False
        if not closed and not strict:
            return True
        return covered(f["allowRead"] + f["allowWrite"] + ([] if strict else SYSTEM), path)

    return "jsonc", text, {
        "host": lambda name, port: not any(host_matches(d, name, port) for d in denied) and any(host_matches(a, name, port) for a in allowed),
        "read": read, "write": lambda path: covered(f["allowWrite"], path) and not covered(f["denyWrite"], path)}


def gemini(w):
    net, allowed, more = w.chance.random() < 0.5, w.grants(), w.grants()
    text = json.dumps({"tools": {"sandbox": True, "sandboxAllowedPaths": words(allowed), "sandboxNetworkAccess": net},
                       "context": {"includeDirectories": words(more)}})
    return "jsonc", text, {"host": lambda name, port: net, "read": lambda path: True,
                           "write": lambda path: covered([w.work] + meant(allowed) + meant(more), path)}


def devcontainer(w):
    hosts = [host for host in w.hosts() if ":" not in host] or ["example.com"]
    loop = w.chance.random() < 0.5
    body = " \\\n    ".join(f'"{host}"' for host in hosts)
    text = "#!/bin/bash\n" + (f"for domain in \\\n    {body}; do\n  dig +short $domain\ndone\n" if loop else
                              "ALLOWED_DOMAINS=(\n" + "\n".join(f"  '{host}' # why" for host in hosts) + "\n)\n")
    return "sh", text, {"host": lambda name, port: any(host_matches(h, name, port) for h in hosts),
                        "read": lambda path: covered([w.work] + SYSTEM, path), "write": lambda path: covered([w.work], path)}


@pytest.mark.parametrize("tool", [srt, claude, codex, fence, gemini, devcontainer], ids=lambda f: f.__name__)
def test_nothing_is_allowed_that_the_source_does_not_allow(tool, tmp_path, home, environment, closing):
    work = tmp_path / "w/proj"
    work.mkdir(parents=True)
    asked, chance = closing(Importer(work, home, environment)), random.Random(f"{tool.__name__} 1")
    made = granted = refused = 0
    for number in range(SOURCES):
        world = World(work, home, chance)
        kind, text, allows = tool(world)
        body = text.encode()
        (answer,) = asked.ask(f"source {tool.__name__} {kind} {len(body)}", body=body)
        if answer.startswith("error"):
            assert "cannot be said" in answer or "no policy can say" in answer, (answer, text)
            continue
        made += 1
        questions = []
        for _ in range(QUESTIONS):
            path = chance.choice(world.paths) + chance.choice(["", "/deep", "/x.env", "/a/secret/q"])
            questions += [("host", chance.choice(NAMES), chance.choice(PORTS)), ("read", path), ("write", path)]
        answers = asked.ask(*(" ".join(map(str, question)) for question in questions))
        for question, yes in zip(questions, answers):
            granted += yes == "yes"
            refused += yes == "no"
            assert yes == "no" or allows[question[0]](*question[1:]), f"source {number}: {question} is allowed, and the source does not:\n{text}"
    assert made > SOURCES * 0.8 and granted > SOURCES and refused > SOURCES, (made, granted, refused)
