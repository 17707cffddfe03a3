/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings of git that say nothing but what they seem to say, as a list of what is known to be harmless. Everything
 * else may run a program, lead to one, or send something elsewhere: it is not looked at further. Pure.
 *
 * Two readers: a repository that the sandbox made keeps the settings of GIT_NEW (sandbox/linux/guard_git.c); of a
 * repository of the host those of GIT_CARRIED come back after a run (policy/git_merge.h).
 *
 * `branch.NAME.remote` needs a second look by whoever asks: git takes a name that no remote has for a directory.
 */
#include "policy/gitconfig.h"

enum git_harmless_for {
        GIT_NEW = 1,     /* the sandbox made the repository */
        GIT_MODULE = 2,  /* with GIT_NEW: it is the repository of a submodule */
        GIT_CARRIED = 4, /* the setting was changed inside */
};

/* Whether the setting is known, and its value and its section's name are what they should be. */
bool git_harmless(const struct gitconfig_setting *setting, unsigned use);
/* Whether the key is in the list at all, so that the setting may also be taken away. */
bool git_harmless_key(const struct gitconfig_setting *setting, unsigned use);

/* An address of a server, without a password or a token in it: its host and port. Paths of this host, programs
 * (ext::), options and whatever else git understands as an address are none. */
bool git_harmless_address(struct str value, struct str *ret_host, uint16_t *ret_port);

/* `remote`, `url` and the like in any section: what the names of remotes are told by. */
bool git_setting_is(const struct gitconfig_setting *setting, const char *section, const char *key);
