/* SPDX-License-Identifier: Apache-2.0 */
/* git: what leaves this machine, what cannot be taken back, and what makes git run programs. */
#include "shell/rules/question.h"

static const struct sh_rule rules[] = {
        { "git-config-runs", SH_ESCALATED, "git would run what a setting given here says", .programs = WORDS("git"),
          .test = git_runs_setting,
          .match = WORDS("git -c core.pager='sh -c x' log", "git --exec-path=/tmp/x status", "git -c alias.x='!id' x",
                         "git grep -Oless x", "git clone -c core.fsmonitor=x y", "git fetch --upload-pack=x y",
                         "git bisect run ./x"),
          .no_match = WORDS("git -c color.ui=never log", "git -c user.name=x commit -m y", "git clone x") },
        { "git-remote", SH_ESCALATED, "it writes to a remote repository", .programs = WORDS("git"),
          .subcommands = WORDS("push", "send-email", "send-pack", "svn", "p4", "http-push", "request-pull", "daemon"),
          .match = WORDS("git push", "git -C x push --force origin main", "command git push"),
          .no_match = WORDS("git fetch", "git log push") },
        { "git-history", SH_ESCALATED, "it rewrites or throws away history or changes", .programs = WORDS("git"),
          .test = git_rewrites,
          .match = WORDS("git rebase main", "git reset --hard HEAD~1", "git commit --amend", "git clean -fdx",
                         "git branch -D x", "git filter-branch x", "git stash drop", "git tag -d x"),
          .no_match = WORDS("git commit -m x", "git reset HEAD x", "git branch x", "git stash", "git clean -n",
                            "git rebase --abort") },
        { "git-settings", SH_ESCALATED, "it changes settings that git obeys, outside the sandbox too",
          .programs = WORDS("git"), .test = git_sets_config,
          .match =
              WORDS("git config --global core.editor x", "git config core.hooksPath x", "git config alias.x '!id'"),
          .no_match = WORDS("git config --list", "git config user.name x", "git config --get remote.origin.url") },
        { "git-remote-settings", SH_ESCALATED, "it changes where git reads from and writes to",
          .programs = WORDS("git"),
          .subcommands = WORDS("remote", "credential", "credential-store", "credential-cache"), .test = changes_network,
          .match = WORDS("git remote add x https://x.example/y"), .no_match = WORDS("git remote -v") },
        { "git-credentials", SH_ESCALATED, "it reads or stores passwords", .programs = WORDS("git"),
          .subcommands = WORDS("credential", "credential-store", "credential-cache", "credential-manager"),
          .match = WORDS("git credential fill"), .no_match = WORDS("git status") },
};
const struct sh_rule_table rules_git = { rules, sizeof rules / sizeof rules[0] };
