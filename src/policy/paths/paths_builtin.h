/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The paths that Bailey closes without being told, each with its reason. */
#include <stddef.h>

struct builtin_path {
        const char *path; /* "~/..." or absolute; relative ones hold below the workspace and below the home directory */
        const char *reason; /* begins with BUILT_IN */
};
#define BUILT_IN "built in: "
#define BUILT_IN_OWN_STATE BUILT_IN "Bailey's own state"

/* Not readable, and so not writable. */
extern const struct builtin_path builtin_deny_read[];
extern const size_t builtin_deny_read_n;

/* Not writable even if everything around them is: these files are run or obeyed outside the sandbox later. */
extern const struct builtin_path builtin_protected[];
extern const size_t builtin_protected_n;
/* The same for the home directory alone: elsewhere these are ordinary names. */
extern const struct builtin_path builtin_home_protected[];
extern const size_t builtin_home_protected_n;

/* Settings of agents, below a directory that is granted itself: DIRECTORY/NAME. */
extern const struct builtin_path builtin_agent_settings[];
extern const size_t builtin_agent_settings_n;
/* How long the agent's directory is at the beginning of such a row. */
size_t builtin_agent_directory(const char *row);
