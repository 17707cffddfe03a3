# SPDX-License-Identifier: Apache-2.0
"""The fixtures. Run by tests/run as root and as an ordinary user; by hand: BAILEY_BUILD=build py.test-3 tests/integration

`make test` runs everything as root with the build that ships, and as an ordinary user with sanitizers. The shipped build gets
a third run, by an ordinary user, of what depends on both (integration() in tests/run).

Markers: `root` needs root, `user` needs an ordinary user (each is left out of the other run), `exact_build` is about the
build that ships and is left out under sanitizers (with `anybody` it is not about who runs it), and so is `pages`: about what a
browser does with the dashboard's pages, not about C; `visible_home`: see the fixture `home`; `real_home`: Bailey runs with --home
real; `rows`: the values of its parameters are data that take the same ways through the code, see repeated_rows(); `turns`: see not_their_turn().
"""
import collections
import gc
import os
import pathlib
import re
import signal
import socket
import sys
import tempfile

import pytest

# tests/run asks once for what Python makes of the tests, and not each of its workers makes it. What the tests start still
# keeps nothing beside its sources (PYTHONDONTWRITEBYTECODE).
if os.environ.get("BAILEY_KEEP_COMPILED"):
    sys.dont_write_bytecode = False

from kit import leaks
from kit.dns import DnsServer
from kit.mac import beside_each_other
from kit.netns import Namespace
from kit.origin import Origin
from kit.process import DEFAULT_TIMEOUT, SANITIZED, Child
from kit.service import Service
from kit.tls import Authority
from kit.webhook import Receiver

BUILD = pathlib.Path(os.environ.get("BAILEY_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")).resolve()
PROGRAMS = {"bailey": "src/cli/bailey", "bailey-gateway": "src/gateway/bailey-gateway", "bailey-vault": "src/vault/bailey-vault"}


# Begun first, so that no worker is alone with one of them at the end. Each took a minute or more under sanitizers; the longest first.
LONGEST = [f"test_{name}.py" for name in ("ui_pages", "run_kept", "chat", "run_repositories", "git_gate", "run_sign_ins", "guest_files", "escape",
                                          "guest_disk", "bridge", "run_work", "run_certificates", "run_old_kernel", "run_protect", "ui_pair",
                                          "guest_life", "guest_state", "bridge_attacks", "git_ssh", "guest_accounts")]


def pytest_configure(config):
    config.addinivalue_line("markers", "root: needs root")
    config.addinivalue_line("markers", "user: needs an ordinary user")
    config.addinivalue_line("markers", "exact_build: about the build that ships, not about a sanitizer build")
    config.addinivalue_line("markers", "anybody: about the build that ships, whoever runs it; an ordinary user does where root does not")
    config.addinivalue_line("markers", "pages: about the dashboard's pages in a browser, not about C; not under sanitizers")
    config.addinivalue_line("markers", "visible_home: the home directory can be seen in a sandbox")
    config.addinivalue_line("markers", "real_home: about --home real, where the home is shown and a list hides its secrets")
    config.addinivalue_line("markers", "rows: under sanitizers each value of each of its parameters is tried once, and not all their products")
    config.addinivalue_line("markers", "turns(parameter): under sanitizers it has one value of this parameter, and the next test of the file the next one")
    config.addinivalue_line("markers", "table: long; only where BAILEY_TABLE is set (tests/run agents)")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts this in the background has it ignored, in all below
    leaks.adopt_orphans()
    if hasattr(config, "workerinput"):  # pytest-xdist's: it finds thousands of cases, and none of them is garbage
        gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def repeated_rows(items):
    """Under sanitizers: the cases of tests with the marker `rows` in which no value of a parameter is new. A few cases stay that
    try each value of each parameter, first those in which all are new. All products are tried with the build that ships."""
    tried, kept = collections.defaultdict(set), set()
    rows = [item for item in items if item.get_closest_marker("rows")] if SANITIZED else []
    for are_new in (all, any):
        for item in rows:
            known, values = tried[item.path, item.originalname], {(name, repr(value)) for name, value in item.callspec.params.items()}
            if item.nodeid not in kept and are_new(value not in known for value in values):
                kept.add(item.nodeid)
                known |= values
    return {item.nodeid for item in rows} - kept


def not_their_turn(items):
    """Under sanitizers: of a test with the marker `turns(parameter)` the cases with all values of the parameter but one. The tests of a
    file have that parameter in common, such as the protocol, and each takes the next value."""
    tests = collections.defaultdict(lambda: collections.defaultdict(list))
    for item in items if SANITIZED else []:
        marker = item.get_closest_marker("turns")
        if marker and hasattr(item, "callspec") and marker.args[0] in item.callspec.params:
            tests[item.path][item.originalname].append((item.nodeid, item.callspec.params[marker.args[0]]))
    left_out = set()
    for of_file in tests.values():
        for turn, cases in enumerate(of_file.values()):
            values = list(dict.fromkeys(value for _, value in cases))
            left_out |= {name for name, value in cases if value != values[turn % len(values)]}
    return left_out


def pytest_collection_modifyitems(config, items):
    others = {"user" if os.geteuid() == 0 else "root", "" if os.environ.get("BAILEY_TABLE") else "table"} - {""}
    left_out, kept = [], []
    repeated = repeated_rows(items) | not_their_turn(items)
    for item in items:
        leave = any(item.get_closest_marker(other) for other in others) or item.nodeid in repeated
        (left_out if leave else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))  # keeps the order within a file


_made = collections.Counter()


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """As pytest's own, which looks through the directories of all tests before for a number that is free."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    while True:
        directory = tmp_path_factory.getbasetemp() / f"{name}{_made[name]}"
        _made[name] += 1
        try:
            directory.mkdir(0o700)
            return directory
        except FileExistsError:
            pass  # a test has made it by the factory


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path):
    """Every test is watched. Temporary files of the programs under test go to `temporary`, which must end up empty."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    watch = leaks.Watch(temporary)
    yield temporary
    left = watch.check()
    assert not left, "left behind:\n" + "\n".join(left)


@pytest.fixture
def temporary(nothing_left_behind):
    return nothing_left_behind


@pytest.fixture
def home(request, tmp_path):
    """Of the programs under test. With the marker `visible_home` it is not below /tmp, which is private in a sandbox."""
    if request.node.get_closest_marker("visible_home"):
        with tempfile.TemporaryDirectory(prefix="bailey-test-", dir="/var/tmp") as directory:
            yield pathlib.Path(directory)
        return
    directory = tmp_path / "home"
    directory.mkdir()
    yield directory


@pytest.fixture
def work(home):
    """An empty workspace."""
    directory = home / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def workspace(tmp_path):
    """A directory that a program under test may work in, without a sandbox."""
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def config(home):
    """The user's own configuration file, not written yet; its directory is there."""
    file = home / ".config/bailey/config.yaml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def hosts(home):
    """A hosts file: names of the test, all on loopback."""
    file = home / "hosts"
    file.write_text("127.0.0.1 origin.test other.test\n")
    return file


@pytest.fixture
def environment(request, home, temporary):
    """What programs under test see: nothing of the tester's own settings."""
    real = {"BAILEY_HOME": "real"} if request.node.get_closest_marker("real_home") else {}
    kept = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS") or name.startswith("GCOV_")}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "TMPDIR": str(temporary),
            "LANG": "C.UTF-8", "TERM": "dumb", "XDG_RUNTIME_DIR": str(home / ".run"), **real, **kept}


def program(name):
    path = BUILD / PROGRAMS[name]
    assert path.exists(), f"{path} is not built (BAILEY_BUILD={BUILD})"
    return path


@pytest.fixture
def start(environment):
    """start(["bailey", ...]) gives a Child that is ended with the test; the names of our programs are looked up."""
    children = []

    def start_one(argv, **more):
        argv = [program(argv[0]) if argv[0] in PROGRAMS else argv[0], *argv[1:]]
        env = {**environment, **more.pop("env", {})}
        children.append(Child(argv, env=env, **more))
        return children[-1]

    yield start_one
    for child in reversed(children):
        child.stop()


@pytest.fixture
def run(start):
    """run(["bailey", ...]) gives its Result: status, out, err."""
    return lambda argv, timeout=DEFAULT_TIMEOUT, **more: start(argv, **more).wait(timeout)


@pytest.fixture
def bailey(run):
    """bailey("policy", "check", file) gives its Result."""
    return lambda *words, **more: run(["bailey", *words], **more)


@pytest.fixture(scope="session")
def mac(tmp_path_factory):
    return beside_each_other(BUILD, tmp_path_factory.mktemp("mac"))


@pytest.fixture
def sh(bailey, work):
    """sh("script", options...) runs a shell script in a sandbox, in the workspace."""
    return lambda script, *options, **more: bailey("run", *options, "--", "sh", "-c", script, **{"cwd": work, **more})


@pytest.fixture
def free_port():
    """A port that was free a moment ago on loopback. Prefer port 0 and asking where the program listens."""
    def find():
        with socket.create_server(("127.0.0.1", 0)) as sock:
            return sock.getsockname()[1]
    return find


@pytest.fixture
def closing():
    """closing(thing) returns it and closes it at the end of the test, last first."""
    things = []

    def keep(thing):
        things.append(thing)
        return thing

    yield keep
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def origin(closing):
    return closing(Origin())


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def make_origin(closing):
    return lambda *words, **more: closing(Origin(*words, **more))


@pytest.fixture
def receiver(closing):
    return closing(Receiver())


@pytest.fixture
def make_dns(closing):
    return lambda *words, **more: closing(DnsServer(*words, **more))


@pytest.fixture
def make_namespace(closing):
    return lambda *words, **more: closing(Namespace(*words, **more))


@pytest.fixture
def make_service(tmp_path, environment, closing):
    """make_service({"allow": [...]}, names=[...]): `bailey gateway` with this network policy."""
    return lambda network, **more: closing(Service([program("bailey"), "gateway"], tmp_path, environment, network, **more))


@pytest.fixture
def service(request, make_service):
    """The same, letting through the name OK of the test's module, and not EVIL."""
    good, evil = request.module.OK, request.module.EVIL
    return make_service({"allow": ["*.ok.test"], "allow_private": [f"{good}:1-65535"]}, names=[good, evil])
