# SPDX-License-Identifier: Apache-2.0
"""Commands of a policy that run outside (credentials, approvals) never run what the sandbox can write: they run in "/", and a
policy whose words lead into a writable place, by a link, a quoted word, a variable or PATH, is refused before anything runs."""
import json
import os

import pytest

VALUE = "sk-0123456789abcdefABCD"


@pytest.fixture
def place(work, home):
    (work / "tools").mkdir()
    script = work / "tools/t"
    script.write_text(f"#!/bin/sh\ntouch {home}/ran\necho {VALUE}\n")
    script.chmod(0o755)
    (home / "bin").mkdir()
    return script


def policy(home, command, kind="credential"):
    file = home / "own.yaml"
    body = ({"credentials": [{"provider": "openai", "source": f"exec:{command}"}]} if kind == "credential"
            else {"approval": {"command": command}, "network": {"ask": "control"}})
    file.write_text(json.dumps({"mode": "workspace-write-whitelist", **body}))
    return file


FORMS = ["sh -c '{work}/tools/t'", "A={work}/tools/t; $A", "echo $({work}/tools/t)", "true;{work}/tools/t", "true\t&&\t{work}/tools/t",
         "sh -c \"sh -c '{work}/tools/t'\"", "`{work}/tools/t`", "cd {work} && tools/t", "sh < {work}/tools/t", "{work}/./tools/../tools/t",
         "{home}/bin/link", "sh {home}/bin/link", "{home}/bin/step", "$HOME/bin/link", "${{HOME}}/bin/link", "~/bin/link", "\"$HOME\"/bin/'link'",
         "{home}/bin/script", "env -C {work} sh tools/t", "python3 -c 'import os; os.system(\"{work}/tools/t\")'", "t", "$TMPDIR/t",
         # from where the command has gone
         "cd && {work.name}/tools/t", "cd ~ && sh {work.name}/tools/t", "sh -c 'cd; {work.name}/tools/t'", "cd {home}; cd {work.name}; sh t",
         "env -C {home} sh {work.name}/tools/t", "cd {home}/.. && {home.name}/{work.name}/tools/t",
         "cd {home}/..; cd ..; {home.parent.name}/{home.name}/{work.name}/tools/t",
         "cd {home.parent.parent}; cd {home.parent.name}; {home.name}/{work.name}/tools/t", "perl -I{work}/tools -MT -e 1",
         # options with their value in one word
         "env -C{home} sh {work.name}/tools/t", "env --chdir={home} {work.name}/tools/t", "env '--chdir={home}' {work.name}/tools/t",
         "env --chdir=$HOME {work.name}/tools/t", "env \"--chdir=$HOME\" sh {work.name}/tools/t", "cd && perl -I{work.name}/tools -MT -e 1",
         "cd && env -C{work.name} sh tools/none", "cc -isystem{work}/tools -E -", "make --directory={home} -f {work.name}/tools/t",
         "python3 -c 'import os; os.chdir(\"{home}\"); os.system(\"sh {work.name}/tools/t\")'",
         # patterns, braces, and variables that the command sets itself
         "{home}/{work.name[0]}*/tools/t", "sh {home}/[!x]*/none/*", "$HOME/*/t*/t", "cd {home}/*; tools/t", "cd; sh */t", "{home}/bin/s?ep",
         "{home}/{{{work.name},x}}/tools/t", "bash -c '{home}/{{x,{work.name}/tools}}/t'", "{home}/{{y,{{{work.name},x}}}}/tools/t", "{home}/{work.name}{{.x,}}/t",
         "A={home}; $A/{work.name}/tools/t", "sh -c 'A=\"$HOME\"; B=$A/{work.name}; \"$B\"/tools/t'", "${{NONE:-$HOME/{work.name}}}/tools/t",
         "{home}/$(echo {work.name})/tools/t", "sh \"{home}/`echo {work.name}`/tools/t\"", "for d in a b; do sh {home}/$d/tools/t; done",
         # an assignment may hold for one command only, or from the next round of a loop on
         "HOME=/root true; $HOME/{work.name}/tools/t", "PATH=/usr/bin true; t", "(HOME=/root; true); $HOME/{work.name}/tools/t",
         "env HOME=/root true; sh $HOME/{work.name}/tools/t", "HOME=/; $HOME/a; HOME={home}; $HOME/{work.name}/tools/t", "HOME=/root true; ~/{work.name}/t",
         "A={home}/{work.name[0]}; A+={end}; $A/tools/t", "A=/x; for i in 1 2; do ${{A}}{end}/tools/t; A={home}/{work.name[0]}; done",
         # commands in values, in each other, and texts behind operators
         "A={home.parent}/$(echo {home.name}); $A/{work.name}/tools/t", "A={home.parent}/`echo {home.name}`; $A/{work.name}/tools/t",
         "${{NONE:-{home.parent}/$(echo {home.name})}}/{work.name}/tools/t", "echo $({home.parent}/$(echo {home.name})/{work.name}/tools/t)",
         "${{HOME:+{work}/tools/t}}", "B=$(true); ${{B:-{work}/tools/t}}", "B=x; ${{B/x/{work}/tools/t}}", "{home.parent}/$(true)/{home.name}/{work.name}/tools/t", "$'{work}/tools/t'",
         "sh -c '${{1:-{work}/tools/t}}'", "bash -c '${{@:-{work}/tools/t}}'", "{home}/{work.name[0]}\\\n{end}/tools/t",
         # patterns with what cuts elsewhere
         "{home}/[[:lower:]]{end}/tools/t", "{home}/[{work.name[0]},x]{end}/tools/t", "{home}/bin/$(echo .dot)/tools/t",
         "bash -c '{home}/{{{work.name},\"a b\"}}/tools/t'", "python3 -c 'import os; [os.system(x) for x in [\"{home}/bin/link\", \"\"]]'"]

UNKNOWN = ["$(echo {home})/{work.name}/tools/t", "`echo {home}`/{work.name}/tools/t", "\"$(echo {home})/{work.name}/tools/t\"", "A=$(pwd); $A/tools/t", "$NONE/tools/t",
           "for d in a b; do $d/{work.name}/tools/t; done", "read d; $d/tools/t", "${{HOME%/*}}/{home.name}/{work.name}/tools/t", "sh -c '$1/tools/t' x y",
           "~nobody/x", "$( $(pwd)/tools/t )", "cd {home}; cd $(echo {work.name[0]}){end}; sh tools/t", "PATH=$(pwd)/tools; t", "LC_ALL=C sh $(pwd)/tools/t",
           "awk -f $(pwd)/tools/t", "awk -f$(pwd)/tools/t", ">/dev/null echo $(pwd)/tools/t", "printf -v HOME /x; $HOME/tools/t", "sh -c '${{1:-/x}}/tools/t' x y", "cd ${{NONE:-$(pwd)}}; sh t", "echo x; . $(pwd)/tools/t", "echo \"$(sh $(pwd)/tools/t)\"", "$PWD/tools/t", "sed p x | sh $(pwd)/tools/t", "if true; then `pwd`/tools/t; fi"]


JSON = "{{" + ",".join(f'"{name}":"x/{name}"' for name in "abcdefgh") + "}}"

# as people write them; the program is not here
COMMON = [f"true{command} 2>/dev/null; echo {{value}}" for command in (
    "; op read op://vault/item/field", "; op read \"op://$USER/item/field\"", "; pass show x | head -n1", "; gh auth token", "; jq -r .a </dev/null", "; vault kv get -field=token secret/x",
    "; aws secretsmanager get-secret-value --secret-id a/b --query 'SecretString' --output text", "; aws ssm describe --query 'P[?N==`x`].V | [0]'",
    "; security find-generic-password -w -s \"my service\" -a $USER", "; pass show x | awk '{{print $2}}'", "; curl -d '{{\"a\":1}}' \"$(echo http)://127.0.0.1:1/x\"",
    "; [ -n \"$(id -u)\" ] && pass show $(id -un)/x | sed -n 's/^token: *//p'")]


@pytest.mark.parametrize("kind", ["credential", "approval"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.rows
def test_a_command_that_leads_into_the_workspace_is_refused(form, kind, place, bailey, work, home):
    (home / "bin/link").symlink_to(place)
    (work / "hop").symlink_to("/bin/echo")
    (home / "bin/step").symlink_to(work / "hop")
    (home / "bin/script").write_text(f"#!{work}/tools/t\n")
    (home / "bin/script").chmod(0o755)
    (home / "bin/.dot").symlink_to(work)
    command = form.format(work=work, home=home, end=work.name[1:])
    env = {"PATH": f"{os.environ['PATH']}:{work}/tools", "TMPDIR": str(work / "tools")}
    result = bailey("run", "--policy", policy(home, command, kind), "--", "true", cwd=work, env=env)
    assert result.status == 121 and "sandbox may write" in result.errors, result
    assert not (home / "ran").exists()


@pytest.mark.parametrize("form", UNKNOWN)
def test_a_path_that_is_known_only_when_it_runs_is_refused(form, place, bailey, work, home):
    result = bailey("run", "--policy", policy(home, form.format(work=work, home=home, end=work.name[1:])), "--", "true", cwd=work)
    assert result.status == 121 and "known only when it runs" in result.errors and "\x01" not in result.errors, result
    assert not (home / "ran").exists()


@pytest.mark.parametrize("command", ["./tools/t", "sh ./tools/t", "sh -c './tools/t'", "../x/t", "perl -I../x -e 1", "perl -I./x -e 1",
                                     "env '--chdir=../x' true"])
def test_a_relative_path_is_told(command, place, bailey, work, home):
    result = bailey("run", "--policy", policy(home, command), "--", "true", cwd=work)
    assert result.status == 121 and 'runs in "/"' in result.errors, result
    assert not (home / "ran").exists()


def test_too_many_directories_are_refused(place, bailey, work, home):
    """Where a relative path begins cannot be told any more, and is not guessed."""
    for i in range(10):
        (home / f"d{i}").mkdir()
    far = [f"cd {home}/d{i}" for i in range(10)]
    result = bailey("run", "--policy", policy(home, "; ".join([*far, f"cd {home}/..", f"{home.name}/{work.name}/tools/t"])), "--", "true", cwd=work)
    assert result.status == 121 and "names more than 8 directories" in result.errors, result
    result = bailey("run", "--policy", policy(home, "; ".join([*far[:3] * 5, f"echo {VALUE}"])), "--", "true", cwd=work)
    assert result.status == 0, result  # the same ones again
    assert not (home / "ran").exists()


@pytest.mark.parametrize("command", ["env -C/ echo {value}", "env --chdir=/ echo {value}", "perl -Ilib/none -le 'print q({value})'",
                                     "cd && ls -lt >/dev/null && echo {value}", "v=$(echo {value}); echo \"$v\"", "cat /etc/*.none {{/usr,/etc}}/none; echo {value}",
                                     "echo {value} | sed \"s/y$NONE/$(echo x)/; s/x*$//; s/^x//\"", "ls ${{XDG_CONFIG_HOME:-$HOME/.config}}/none /proc/$(id -u)/none; echo {value}",
                                     "echo {value} | awk '{{print $NF}}'",
                                     "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 a b c d e f g h i j k l m n o p q r; do echo $i; done >/dev/null; echo {value}",
                                     "echo 1 2 | awk '{{print $1\"/\"$2}}' >/dev/null; echo $(date +%s)/$(id -u) $((1+2))/3 $(($(id -u)/2)) >/dev/null; echo {value}",
                                     "echo x | LC_ALL=C sed -E \"s|$(echo a)/b|c|\" >/dev/null; if true; then echo \"$(id -u)/x\" >/dev/null; fi; echo {value}",
                                     "PATH=/usr/bin:/bin; HOME=/ A=x env B=y true; echo {value}",
                                     f"false && curl -d '[{JSON},{JSON}]' -H \"X: $(id -u)/x\" https://a.example; false && curl -d '{JSON}{JSON}'; echo {{value}}", *COMMON])
def test_options_that_lead_elsewhere_are_no_matter(command, place, bailey, work, home):
    env = {"PATH": f"{os.environ['PATH']}:{work}/tools"}
    result = bailey("run", "--policy", policy(home, command.format(value=VALUE)), "--", "true", cwd=work, env=env)
    assert result.status == 0, result


def test_it_runs_in_the_root_directory(place, bailey, work, home):
    """A word without a slash is no file of the workspace; what is outside it works as before."""
    safe = home / "bin/safe"
    safe.write_text(f"#!/bin/sh\npwd > {home}/where\necho {VALUE}\n")
    safe.chmod(0o755)
    (work / "token.sh").write_text(f"touch {home}/ran; echo {VALUE}\n")
    result = bailey("run", "--policy", policy(home, "sh token.sh"), "--", "true", cwd=work)
    assert result.status == 121 and not (home / "ran").exists(), result
    result = bailey("run", "--policy", policy(home, f"sh -c 'exec \"$HOME/bin/safe\"'"), "--", "sh", "-c", "echo ${#OPENAI_API_KEY}", cwd=work)
    assert result.status == 0 and result.text.strip() == str(len(VALUE)), result
    assert (home / "where").read_text() == "/\n"
    denied = bailey("run", "--policy", policy(home, str(place)), "--deny-write", place.parent, "--", "true", cwd=work)
    assert denied.status == 0, denied  # nothing inside can change it


def test_secrets_test_and_the_plan_refuse_it_too(place, bailey, work, home):
    file = policy(home, str(place))
    for words in (["secrets", "test", "--policy", file, "openai"], ["plan", "--policy", file, "--", "true"]):
        result = bailey(*words, cwd=work)
        assert result.status == 3 and "sandbox may write" in result.errors, result
    assert not (home / "ran").exists()
