/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A list of git settings that are known to be harmless. Every other setting may run a program, lead to one, or send
 * data elsewhere, and is not examined further. Pure.
 *
 * Two readers: a repository that the sandbox made keeps the settings of GIT_NEW (sandbox/guard_git.c); of a
 * repository of the host those of GIT_CARRIED come back after a run (policy/git/git_merge.h).
 *
 * The caller must check `branch.NAME.remote` again: git takes a name that no remote has for a directory.
 */
#include "policy/git/gitconfig.h"

enum git_harmless_for {
        GIT_NEW = 1,     /* the sandbox made the repository */
        GIT_MODULE = 2,  /* with GIT_NEW: it is the repository of a submodule */
        GIT_CARRIED = 4, /* the setting was changed inside */
};

/* Whether the setting is known, and its value and its section's name are what they should be. */
bool git_harmless(const struct gitconfig_setting *setting, unsigned use);
/* Whether the key is in the list at all, so that the setting may also be taken away. */
bool git_harmless_key(const struct gitconfig_setting *setting, unsigned use);

/* The host and port of a server's address that has no password or token in it. Paths of this host, programs (ext::),
 * options and other forms that git accepts do not count. */
bool git_harmless_address(struct str value, struct str *ret_host, uint16_t *ret_port);

/* `remote`, `url` and the like in any section: settings that reveal the names of remotes. */
bool git_setting_is(const struct gitconfig_setting *setting, const char *section, const char *key);
