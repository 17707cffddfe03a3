# SPDX-License-Identifier: Apache-2.0
"""Git as a person outside would use it, with nothing of the tester's own configuration."""
import os
import subprocess

ENVIRONMENT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
               "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(*words, cwd, check=False):
    command = ["git", "-c", "init.defaultBranch=main", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=check)
