# SPDX-License-Identifier: Apache-2.0
"""Every repository that git obeys from a writable place: what it runs or reads orders from stays as it was.

Each test ends as a person would: git is asked for its status, or commits, outside. The file `ran` shows that something of
the sandbox's choice was executed."""
import os
import pathlib
import pwd
import shutil
import subprocess

import pytest

from kit.git import ENVIRONMENT, git

pytestmark = pytest.mark.visible_home
FILES = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}


def outside(*words, cwd, **env):
    return subprocess.run(["git", *map(str, words)], cwd=cwd, env={**os.environ, **ENVIRONMENT, **FILES, **env}, capture_output=True,
                          text=True, check=False)


def monitor(home):
    return f"[core]\n\tfsmonitor = \"touch {home}/ran; false\"\n"


@pytest.fixture
def attack(sh, home, work):
    """attack(script, *options): runs it with $MON as a configuration that runs something; then nothing may have run."""
    def run(script, *options, at=None, then=("status",), **env):
        sh(f"MON='{monitor(home)}'; {script}; true", *options, **({"env": env} if env else {}))
        outside(*then, cwd=at or work, **env)
        assert not (home / "ran").exists(), script
    return run


@pytest.fixture(scope="module")
def modules_once(tmp_path_factory):
    """A repository with submodules: one of a plain name, one whose name has a slash, one inside another. Made once: that takes
    forty processes of git."""
    home = tmp_path_factory.mktemp("modules")
    work = home / "work"
    work.mkdir()
    for name in ("inner", "lib"):
        outside("init", "-q", home / name, cwd=home)
        outside("commit", "-q", "--allow-empty", "-m", "x", cwd=home / name)
    outside("submodule", "--quiet", "add", home / "inner", "inner", cwd=home / "lib")
    outside("commit", "-qm", "y", cwd=home / "lib")
    outside("init", "-q", cwd=work)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    for path in ("sub", "vendor/foo", "a/b/c"):
        outside("submodule", "--quiet", "add", home / "lib", path, cwd=work)
    outside("submodule", "--quiet", "update", "--init", "--recursive", cwd=work)
    outside("commit", "-qm", "s", cwd=work)
    assert (work / ".git/modules/vendor/foo/modules/inner/config").exists()
    return work


@pytest.fixture
def modules(modules_once, work):
    """A copy. Git writes the ways between its parts as relative paths."""
    shutil.copytree(modules_once, work, symlinks=True, dirs_exist_ok=True)
    assert outside("status", "--porcelain", cwd=work).stdout == ""
    return work


@pytest.mark.parametrize("name", ["sub", "vendor/foo", "a/b/c", "sub/modules/inner", "a/b/c/modules/inner"])
@pytest.mark.parametrize("how", [
    'echo "$MON" >> {g}/config',
    'cp -r {g} evil; echo "$MON" >> evil/config; realpath evil > {g}/commondir',
    'git config -f {g}/config extensions.worktreeConfig true; echo "$MON" > {g}/config.worktree',
    'cp -r {g} evil; echo "$MON" >> evil/config; mv {g} {g}.old && mv evil {g}',
    'mkdir -p {g}/hooks; printf "#!/bin/sh\\ntouch $HOME/ran\\n" > {g}/hooks/post-index-change; chmod +x {g}/hooks/*',
])
@pytest.mark.rows
def test_submodules(attack, modules, name, how):
    attack(how.format(g=f".git/modules/{name}"))


@pytest.mark.parametrize("place", ["sub", "vendor/foo", "sub/inner"])
def test_the_git_file_of_a_submodule(attack, modules, place):
    gitdir = outside("rev-parse", "--absolute-git-dir", cwd=modules / place).stdout.strip()
    attack(f'cp -r {gitdir} evil; git config -f evil/config core.worktree $PWD/{place}; echo "$MON" >> evil/config; '
           f'echo "gitdir: $PWD/evil" > {place}/.git; rm -f {place}/.git; echo "gitdir: $PWD/evil" > {place}/.git')


@pytest.mark.parametrize("where", ["../wt", "inside/wt"])
@pytest.mark.parametrize("how", [
    'cp -r .git evil; echo "$MON" >> evil/config; realpath evil > .git/worktrees/wt/commondir',
    'cp -r .git evil; echo "$MON" >> evil/config; rm .git/worktrees/wt/commondir; cp evil/config .git/worktrees/wt/config',
    'git config extensions.worktreeConfig true; echo "$MON" > .git/worktrees/wt/config.worktree',
    'cp -r .git/worktrees/wt w2; cp -r .git evil; echo "$MON" >> evil/config; realpath evil > w2/commondir; '
    'mv .git/worktrees/wt old; mv w2 .git/worktrees/wt',
])
@pytest.mark.rows
def test_worktrees(attack, home, work, where, how):
    outside("init", "-q", cwd=work)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    outside("worktree", "add", "-q", where, cwd=work)
    attack(how, at=work / where)


def test_the_git_file_of_a_worktree_inside(attack, work):
    outside("init", "-q", cwd=work)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    outside("worktree", "add", "-q", "wt", cwd=work)
    attack('cp -r .git evil; echo "$MON" >> evil/config; echo "gitdir: $PWD/evil" > wt/.git', at=work / "wt")


@pytest.mark.parametrize("how", ['echo "$MON" >> meta/repo/config', 'mv meta m2; cp -r m2 meta; echo "$MON" >> meta/repo/config'])
def test_a_separate_directory_inside(attack, work, how):
    (work / "meta").mkdir()
    outside("init", "-q", "--separate-git-dir=meta/repo", ".", cwd=work)
    attack(how)


def test_a_bare_repository_with_worktrees_beside_it(attack, home, work):
    outside("init", "-q", home / "src", cwd=home)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=home / "src")
    outside("clone", "-q", "--bare", home / "src", work / "repo.git", cwd=home)
    outside("worktree", "add", "-q", work / "tree", cwd=work / "repo.git")
    attack('echo "$MON" >> repo.git/config', at=work / "tree")


@pytest.mark.parametrize("where", ["nested", "projects/one", "a/b/c", "other"])
def test_repositories_below(attack, home, work, where):
    """A directory of several repositories, which is one itself or not; or another root."""
    place = home / "more" / where if where == "other" else work / where
    outside("init", "-q", place, cwd=home)
    attack(f'echo "$MON" >> {place}/.git/config; mkdir -p {place}/.git/hooks; '
           f'cp -r {place}/.git {place}/g2; echo "$MON" >> {place}/g2/config; rm -rf {place}/.git; mv {place}/g2 {place}/.git',
           "--write", home / "more" if where == "other" else work, at=place)


CONFIGURED = {
    "quoted": '[core]\n\thooksPath = "tools/hooks"\n', "one line": "[core] hooksPath = tools/hooks\n",
    "comment": "[core]\n\thooksPath = tools/hooks ; ours\n", "continued": "[core]\n\thooksPath = tools/\\\nhooks\n",
    "last": "[core]\n\thooksPath = none\n[core]\n\thooksPath = tools/hooks\n", "upper": "[CORE]\n\tHOOKSPATH=./tools/../tools/hooks\n",
    "absolute": "[core]\n\thooksPath = {work}/tools/hooks\n", "include": "[include]\n\tpath = ../tools/common\n",
    "condition": '[includeIf "gitdir:**"]\n\tpath = {work}/tools/common\n', "large": "# x\n" * 40000 + "[core]\n\thooksPath = tools/hooks\n",
    "home": "[core]\n\thooksPath = ~/{name}/tools/hooks\n",
}


PLACES = ("config", "config.worktree", "global", "environment", "xdg")
# What a file includes is followed by the same code wherever that file is: two places are enough.
NAMED = [pytest.param(where, text, id=f"{name}-{where}") for name, text in CONFIGURED.items()
         for where in PLACES if where in ("config", "global") or "tools/common" not in text]


@pytest.mark.parametrize("where, text", NAMED)
def test_what_the_configuration_names(attack, home, work, where, text):
    outside("init", "-q", cwd=work)
    (work / "tools/hooks").mkdir(parents=True)
    (work / "tools/common").write_text("")
    text = text.format(work=work, name=work.name).replace("../tools/common", str(work / "tools/common") if where == "global" else "../tools/common")
    env = {"HOME": str(home)}
    place = {"config": work / ".git/config", "config.worktree": work / ".git/config.worktree", "global": home / ".gitconfig",
             "environment": home / "gitconfig", "xdg": home / ".config/git/config"}[where]
    place.parent.mkdir(parents=True, exist_ok=True)
    if where == "config.worktree":
        outside("config", "extensions.worktreeConfig", "true", cwd=work)
    if where == "environment":
        env["GIT_CONFIG_GLOBAL"] = str(place)
    with open(place, "a", encoding="utf-8") as file:
        file.write(text)
    hook = f"printf '#!/bin/sh\\ntouch {home}/ran\\n' > tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit"
    own = {"GIT_CONFIG_GLOBAL": env.get("GIT_CONFIG_GLOBAL", str(home / ".gitconfig")) if where != "xdg" else ""}
    script = f"{hook}; echo \"$MON\" >> tools/common; mv tools t2 && cp -r t2 tools; {hook}"
    attack(script, then=("commit", "-q", "--allow-empty", "-m", "x"), **{**env, **{k: v for k, v in own.items() if v}})


@pytest.mark.parametrize("key,then", [
    ("core.fsmonitor", ("status",)), ("core.editor", ("commit", "--allow-empty")), ("alias.x", ("x",)), ("diff.external", ("diff", "HEAD~")),
    ("core.sshCommand", ("fetch", "ssh://localhost/x")), ("credential.helper", ("credential", "fill")), ("filter.f.clean", ("add", "x.f")),
    ("core.pager", ("-p", "log")),
])
@pytest.mark.parametrize("program", ["./tools/x", "sh tools/x", "tools/x --opt"])
@pytest.mark.rows
def test_programs_that_the_configuration_names(attack, home, work, key, then, program):
    outside("init", "-q", cwd=work)
    (work / "tools").mkdir()
    (work / "tools/x").write_text("#!/bin/sh\nexit 1\n")
    (work / "tools/x").chmod(0o755)
    (work / ".gitattributes").write_text("*.f filter=f\n")
    (work / "x.f").write_text("x")
    outside("config", key, ("!" if key in ("alias.x", "credential.helper") else "") + program, cwd=work)
    attack(f"printf '#!/bin/sh\\ntouch {home}/ran\\n' > tools/x; rm tools/x; printf '#!/bin/sh\\ntouch {home}/ran\\n' > tools/x; "
           "chmod +x tools/x", then=then)


# As people write aliases and hooks: from the top of the tree, from a variable, after a change of directory, with spaces.
SHELL_FORMS = ["$(git rev-parse --show-toplevel)/tools/x", "\"$(git rev-parse --show-toplevel)\"/tools/x", "`git rev-parse --show-toplevel`/tools/x",
               "$PWD/tools/x", "\"$PWD\"/tools/x", "${PWD}/tools/x", "sh \"${PWD}/tools/x\"", "$HOME/{name}/tools/x", "cd tools && ./x", "cd tools; sh x",
               "sh -c 'cd tools && exec ./x'", "'tools/with space'", "sh \"tools/with space\"", "f() { $(pwd)/tools/x; }; f",
               "cd \"$(git rev-parse --show-toplevel)/tools\" && ./x", "cd $(git rev-parse --show-toplevel)/tools; sh x"]


@pytest.mark.parametrize("form", SHELL_FORMS)
@pytest.mark.parametrize("key,then", [("alias.x", ("x",)), ("core.fsmonitor", ("status",)), ("gc.recentObjectsHook", ("gc", "--prune=now"))])
@pytest.mark.rows
def test_programs_as_shells_spell_them(attack, home, work, key, then, form):
    outside("init", "-q", cwd=work)
    (work / "tools").mkdir()
    for name in ("x", "with space"):
        (work / "tools" / name).write_text("#!/bin/sh\nexit 1\n")
        (work / "tools" / name).chmod(0o755)
    outside("config", key, ("!" if key == "alias.x" else "") + form.replace("{name}", work.name), cwd=work)
    evil = f"printf '#!/bin/sh\\ntouch {home}/ran\\n'"
    attack(f"for f in tools/x 'tools/with space'; do {evil} > \"$f\"; rm \"$f\"; {evil} > \"$f\"; chmod +x \"$f\"; done", then=then, HOME=str(home))
    assert (work / "tools/with space" if "space" in form else work / "tools/x").read_text() == "#!/bin/sh\nexit 1\n"


@pytest.mark.parametrize("setting", ["core.hooksPath={}/tools/hooks", "include.path={}/tools/common"])
def test_the_home_of_an_account(bailey, work, setting):
    """`~name/x`, as git expands it by the list of accounts."""
    account = pwd.getpwuid(os.geteuid()) if any(row.pw_uid == os.geteuid() for row in pwd.getpwall()) else pwd.getpwnam("nobody")
    place = pathlib.Path(os.path.relpath(work, account.pw_dir))
    (work / "tools/hooks").mkdir(parents=True)
    (work / "tools/common").write_text("")
    outside("init", "-q", cwd=work)
    key, value = setting.format(f"~{account.pw_name}/{place}").split("=")
    outside("config", key, value, cwd=work)
    bailey("run", "--", "sh", "-c", "echo x > tools/hooks/pre-commit; echo x > tools/common; true", cwd=work)
    if key == "core.hooksPath":
        assert not (work / "tools/hooks/pre-commit").exists() and (work / "tools/common").read_text() == "x\n"
    else:
        assert (work / "tools/common").read_text() == ""


@pytest.mark.parametrize("key,value,then", [
    ("core.fsmonitor", "./tools/x", ("status",)), ("Core.HooksPath", "tools", ("commit", "-q", "--allow-empty", "-m", "x")),
    ("include.path", "{work}/tools/common", ("status",)), ("filter.My.Own.clean", "sh tools/x", ("add", "x.f")),
])
def test_settings_in_the_environment(attack, home, work, key, value, then):
    """GIT_CONFIG_COUNT and its kin, in the shell that Bailey and git are started in."""
    outside("init", "-q", cwd=work)
    (work / "tools").mkdir()
    (work / ".gitattributes").write_text("*.f filter=My.Own\n")
    (work / "x.f").write_text("x")
    for name, text in ("common", ""), ("x", "#!/bin/sh\nexit 1\n"), ("pre-commit", "#!/bin/sh\n"):
        (work / "tools" / name).write_text(text)
        (work / "tools" / name).chmod(0o755)
    settings = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "x", "GIT_CONFIG_KEY_1": key,
                "GIT_CONFIG_VALUE_1": value.format(work=work)}
    attack(f"for f in x pre-commit; do printf '#!/bin/sh\\ntouch {home}/ran\\n' > tools/$f; done; echo \"$MON\" >> tools/common; "
           "mv tools t2 && cp -r t2 tools; true", then=then, **settings)


def test_a_program_that_is_not_there_yet(attack, home, work):
    outside("init", "-q", cwd=work)
    outside("config", "core.fsmonitor", "./tools/x", cwd=work)
    attack(f"mkdir tools; printf '#!/bin/sh\\ntouch {home}/ran\\n' > tools/x; chmod +x tools/x")


@pytest.mark.parametrize("hooks", [".git/hooks", ".githooks", "outer/hooks"])
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.rows
def test_hooks_that_are_links(attack, home, work, hooks, exists):
    outside("init", "-q", cwd=work)
    (work / "scripts").mkdir()
    if exists:
        (work / "scripts/c").write_text("#!/bin/sh\n")
        (work / "scripts/c").chmod(0o755)
    if hooks != ".git/hooks":
        outside("config", "core.hooksPath", hooks, cwd=work)
        (work / hooks).mkdir(parents=True)
    (work / hooks / "pre-commit").symlink_to(work / "scripts/c")
    attack(f"printf '#!/bin/sh\\ntouch {home}/ran\\n' > scripts/c; chmod +x scripts/c; mv scripts s2; mkdir scripts; cp s2/c scripts; true",
           then=("commit", "-q", "--allow-empty", "-m", "x"))


def test_git_goes_on_working(sh, home, modules):
    """Commits, branches, submodules' own commits, a new worktree inside."""
    sh("git config --global user.email a@b; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
       "set -e; echo x > f; git add f; git commit -qm f; git checkout -q -b new; cd vendor/foo; git checkout -q -b own; echo y > g; "
       "git add g; git commit -qm g; cd ../..; git add vendor/foo; git commit -qm bump; git status --porcelain; git worktree add -q wt2").check()
    assert "bump" in outside("log", "--oneline", cwd=modules).stdout
    assert outside("status", cwd=modules).returncode == 0


OWN = "git init -q {p}; git -C {p} commit -q --allow-empty -m x; echo \"$MON\" >> {p}/.git/config; "
ME = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "


@pytest.mark.parametrize("deep", ["own", "a/b/own", "one/two/three/four/five/six/own"])
@pytest.mark.parametrize("how", [
    OWN + "git add {p}; git commit -qm x",
    OWN + "git add {p}; git commit -qm x; git update-index --index-version 4",
    OWN + "git add {p}; git commit -qm x; git update-index --split-index",
    OWN + "git add {p}; git commit -qm x; mv {p}/.git elsewhere; echo \"gitdir: $PWD/elsewhere\" > {p}/.git; git -C {p} config core.worktree $PWD/{p}",
    OWN + "git add {p}; git commit -qm x; mv {p}/.git elsewhere; ln -s $PWD/elsewhere {p}/.git",
    "git init -q {p}; git -C {p} commit -q --allow-empty -m x; git add {p}; git commit -qm x; cp -r {p}/.git evil; echo \"$MON\" >> evil/config; "
    "echo $PWD/evil > {p}/.git/commondir",
])
@pytest.mark.rows
def test_a_repository_that_the_sandbox_made(attack, home, work, deep, how):
    """It adds it as a submodule, and `git status` at the top obeys it; or a person enters it."""
    outside("init", "-q", cwd=work)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    for i in range(70):
        (work / f"d{i}").mkdir()  # more than the search looks at
    attack(ME + how.format(p=deep))
    assert outside("status", cwd=work).returncode == 0


def test_what_the_sandbox_cloned_is_of_use(sh, home, work):
    outside("init", "-q", home / "src", cwd=home)
    outside("commit", "-q", "--allow-empty", "-m", "first", cwd=home / "src")
    result = sh(f"git clone -q {home}/src dep; cd dep; git remote set-url origin https://example.com/dep.git; git config alias.x '!evil'",
                "--read", home / "src").check()
    assert "dep/.git/config" in result.errors and "harmless" in result.errors
    assert "first" in outside("log", cwd=work / "dep").stdout
    assert outside("remote", "get-url", "origin", cwd=work / "dep").stdout.strip() == "https://example.com/dep.git"
    assert "alias" not in (work / "dep/.git/config").read_text()


def test_submodules_and_worktrees_that_the_sandbox_made_are_of_use(sh, home, work):
    outside("init", "-q", home / "lib", cwd=home)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=home / "lib")
    outside("init", "-q", cwd=work)
    outside("commit", "-q", "--allow-empty", "-m", "x", cwd=work)
    sh(ME + f"git worktree add -q wt; git -c protocol.file.allow=always submodule --quiet add {home}/lib vendor/lib; git commit -qm s; true",
       "--read", home / "lib")
    assert (work / "vendor/lib/.git").exists() and (work / ".git/modules/vendor/lib/config").exists()
    assert outside("status", cwd=work / "wt").returncode == 0
    assert outside("status", cwd=work).returncode == 0


@pytest.mark.parametrize("name", [
    ".git/modules/vendor/foo/config", ".git/modules/sub/hooks/x", ".git/modules/sub/commondir", "sub/.git", ".git/config",
])
def test_why_says_what_holds(bailey, modules, name):
    assert "not written" in bailey("why", modules / name, cwd=modules).text


def test_the_bound_is_told(bailey, work):
    for i in range(80):
        (work / f"d{i}").mkdir()
    result = bailey("plan", "--", "true", cwd=work).check()
    assert "not all directories were searched" in result.text
    for i in range(70):
        (work / f"d{i}").rmdir()
    assert "not all directories were searched" not in bailey("plan", "--", "true", cwd=work).check().text
