# SPDX-License-Identifier: Apache-2.0
"""OpenSSH's server on loopback with git repositories behind it. It records each command that reaches it, and what was sent to it."""
import getpass
import os
import pathlib
import subprocess

from .git import git
from .process import SLOW, wait_until

SETTINGS = """
Port {port}
ListenAddress 127.0.0.1
HostKey {dir}/host_key
PidFile {dir}/pid
AuthorizedKeysFile {dir}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
AcceptEnv GIT_PROTOCOL
LogLevel VERBOSE
AllowTcpForwarding yes
AllowAgentForwarding yes
ForceCommand {dir}/command
"""

# Paths are below the directory of repositories, as forges have them. A push goes through tee: every byte of it is kept.
COMMAND = """#!/bin/bash
echo "$SSH_ORIGINAL_COMMAND ($GIT_PROTOCOL) agent=$SSH_AUTH_SOCK" >> {dir}/commands
case "$SSH_ORIGINAL_COMMAND" in
"git-upload-pack '"* | "git-upload-archive '"* | "git-receive-pack '"*) ;;
*) exec bash -c "$SSH_ORIGINAL_COMMAND" ;;
esac
service=${{SSH_ORIGINAL_COMMAND%% *}}
path=${{SSH_ORIGINAL_COMMAND#* }}; path=${{path#\\'}}; path=${{path%\\'}}; path=${{path#/}}
cd {dir}/repositories || exit 1
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_GLOBAL=/dev/null
[ $service = git-receive-pack ] || exec git ${{service#git-}} "$path"
exec git receive-pack "$path" < <(exec tee {dir}/pushed.$$)
"""


def keygen(path, kind="ed25519"):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", pathlib.Path(path).name, "-f", str(path)], check=True, timeout=60)
    return pathlib.Path(f"{path}.pub").read_text().split()


class Sshd:
    """sshd.make("acme/app") is a bare repository; sshd.commands() what was run, sshd.pushed() what came in pushes."""

    def __init__(self, start, directory, port, host_key="ed25519"):
        self.directory, self.port, self.user = directory, port, getpass.getuser()
        self.repositories = directory / "repositories"
        self.repositories.mkdir(parents=True)
        kind, key = keygen(directory / "host_key", host_key)[:2]
        keygen(directory / "key")
        (directory / "authorized_keys").write_text((directory / "key.pub").read_text())
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
        (directory / "sshd_config").write_text(SETTINGS.format(port=port, dir=directory))
        command = directory / "command"
        command.write_text(COMMAND.format(dir=directory))
        command.chmod(0o755)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        self.daemon = start(["/usr/sbin/sshd", "-D", "-e", "-f", directory / "sshd_config"])
        wait_until(lambda: not self.daemon.running() or (directory / "pid").exists(), 30 * SLOW, "sshd")
        assert self.daemon.running(), "sshd does not start"

    @property
    def where(self):
        return f"127.0.0.1:{self.port}"

    def make(self, name, work):
        bare, seed = self.repositories / f"{name}.git", work / f"seed-{name.replace('/', '-')}"
        bare.parent.mkdir(parents=True, exist_ok=True)
        for words in (["init", "-q", "--bare", bare], ["init", "-q", seed]):
            git(*words, cwd=work, check=True)
        for key, value in {"receive.advertisePushOptions": "true", "receive.advertiseAtomic": "true", "uploadpack.allowFilter": "true",
                           "uploadpack.allowAnySHA1InWant": "true"}.items():
            git("config", key, value, cwd=bare, check=True)
        for number in range(2):
            (seed / "file").write_text(f"{number}\n" * 100)
            git("add", "file", cwd=seed, check=True)
            git("commit", "-qm", f"commit {number}", cwd=seed, check=True)
        git("push", "-q", bare, "HEAD:refs/heads/main", cwd=seed, check=True)
        return bare

    def refs(self, name):
        done = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.repositories / f"{name}.git", check=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def commands(self):
        path = self.directory / "commands"
        return path.read_text().splitlines() if path.exists() else []

    def pushed(self):
        return [path.read_bytes() for path in self.directory.glob("pushed.*")]
