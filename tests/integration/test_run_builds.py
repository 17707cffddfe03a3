# SPDX-License-Identifier: Apache-2.0
"""Builds as developers start them, by `bailey run -- ...` in a fresh account: caches can be written, they are there in the next run, and
the account's own home stays as it was."""
import http.server
import json
import os
import pathlib
import shutil
import threading

import pytest

from kit.process import SLOW
from test_run_work import OK, Registry, wheel

pytestmark = [pytest.mark.visible_home, pytest.mark.exact_build]
# OpenJDK 17 cannot tell the memory of a process in a control group of version 1 that it sees from a namespace.
OLD_GROUPS = "-XX:-UseContainerSupport" if os.path.isdir("/sys/fs/cgroup/memory") else ""


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not on this machine")


@pytest.fixture
def build(bailey, home, work):
    """build(script, ...) runs it in a sandbox; the home has the same names as before."""
    def run(script, *options, **more):
        before = sorted(os.listdir(home))
        result = bailey("run", *options, "--", "sh", "-ec", script, cwd=work, timeout=240 * SLOW, **more).check()
        assert set(os.listdir(home)) - set(before) <= {".local", ".run"}, os.listdir(home)  # Bailey's own state
        return result
    return run


def put(directory, files):
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)


@needs("go")
@pytest.mark.table
def test_go(build, work):
    put(work, {"go.mod": "module x\ngo 1.19\n", "main.go": 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }\n',
               "main_test.go": 'package main\nimport "testing"\nfunc TestX(t *testing.T) {}\n'})
    result = build("go build -o x . && ./x && go vet ./... && go test ./... && go run .")
    assert result.text.splitlines()[0] == "hello" and result.text.splitlines()[-1] == "hello" and "ok" in result.text
    again = build("go build -x -o y . 2>&1 | grep -c /compile || true; ./y; ls ~/.cache/go-build | wc -l")
    compiled, said, kept = again.text.split()
    assert (compiled, said) == ("0", "hello") and int(kept) > 10, "the cache of the run before is used"


@needs("gradle")
@pytest.mark.table
def test_gradle(build, work):
    put(work, {"build.gradle": "apply plugin: 'java'\n", "src/main/java/A.java": 'public class A { public static void main(String[] a) { System.out.println("hi"); } }\n'})
    # the test's home is not the one of the password file, which Java takes for it
    script = f'export GRADLE_OPTS="-Duser.home=$HOME {OLD_GROUPS}"; gradle -q --offline --no-daemon build && java -cp build/classes/java/main A && ls -d ~/.gradle/caches'
    result = build(script)
    assert result.text.splitlines()[-2] == "hi" and result.text.rstrip().endswith(".gradle/caches"), result
    assert (work / "build/libs").is_dir()


@needs("mvn")
@pytest.mark.table
def test_maven(build, work):
    """What Debian's Maven can do without a network, with its repository in the home."""
    put(work, {"pom.xml": "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version></project>"})
    result = build("mvn -q -o -Duser.home=$HOME validate && touch ~/.m2/repository/made && echo written", env={"MAVEN_OPTS": OLD_GROUPS})
    assert result.text.rstrip().endswith("written"), result
    assert build("ls ~/.m2/repository/made").text.strip().endswith("made"), "it is there in the next run"


@needs("cargo")
@pytest.mark.table
def test_cargo(build, work):
    put(work, {"Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n', "src/main.rs": 'fn main() { println!("hello"); }\n'})
    own = pathlib.Path(shutil.which("cargo")).resolve()
    if not str(own).startswith("/usr/"):
        pytest.skip("cargo of this machine is in somebody's home")
    assert build("cargo -q run --offline").text == "hello\n"


@pytest.fixture
def registry():
    """A registry whose package has a program, for npx."""
    class Handler(Registry):
        asked = []
        described = '{"name":"greeting","version":"1.0.0","main":"index.js","bin":{"greeting":"index.js"}}'
        script = "#!/usr/bin/env node\nmodule.exports = () => 'hello from npm'\nif (require.main === module) console.log('hello from npx')\n"

        def document(self):
            described = json.loads(super().document())
            described["versions"]["1.0.0"]["bin"] = {"greeting": "index.js"}
            return json.dumps(described).encode()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield Handler
    server.shutdown()
    server.server_close()


@needs("npm")
def test_npm_and_npx_with_their_own_caches(build, home, work, tmp_path, registry):
    """The registry is the account's, from ~/.npmrc; the cache is the one that npm takes by itself."""
    names = tmp_path / "names"
    names.write_text(f"127.0.0.1 {OK}\n")
    (home / ".npmrc").write_text(f"registry=http://{OK}:{registry.port}/\naudit=false\nfund=false\nupdate-notifier=false\n")
    put(work, {"package.json": '{"name":"project","version":"1.0.0","private":true}'})
    options = ["--hosts", str(names), "--allow", f"{OK}:{registry.port}", "--allow-private", f"{OK}:{registry.port}"]
    result = build("npm install greeting && node -e \"console.log(require('greeting')())\" && rm -r node_modules && npx --yes greeting && ls -d ~/.npm/_cacache", *options)
    assert "hello from npm\nhello from npx\n" in result.text and result.text.rstrip().endswith(".npm/_cacache"), result
    asked = len(registry.asked)
    again = build("npm ci --prefer-offline && node -e \"console.log(require('greeting')())\"", *options)
    assert "hello from npm" in again.text and len([path for _, path in registry.asked[asked:] if path.endswith(".tgz")]) == 0, "from the cache"


@needs("pip3")
def test_pip_with_its_own_cache(build, work):
    (work / "wheels").mkdir()
    wheel(work / "wheels")
    result = build("/usr/bin/python3 -m venv env && env/bin/pip -q --disable-pip-version-check install --no-index --find-links wheels greeting && "
                   "env/bin/python -c 'import greeting; print(greeting.greet())' && env/bin/pip cache dir && mkdir -p $(env/bin/pip cache dir) && "
                   "touch $(env/bin/pip cache dir)/made && /usr/bin/python3 -m pip install --user --break-system-packages -q --no-index "
                   "--find-links wheels greeting && /usr/bin/python3 -c 'import greeting; print(greeting.__file__)'")
    lines = result.text.splitlines()
    assert lines[0] == "hello from a wheel" and "/.local/lib/" in lines[-1], result
