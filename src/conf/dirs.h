/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where Bailey's own files are, by the XDG rules: a variable counts only when it is absolute.
 * Heap text in *ret; -ENOENT when there is no home directory, -ENOMEM. The two must not be mixed up: a file that cannot
 * be looked for is not a file that is not there.
 */

int dirs_config(char **ret); /* $XDG_CONFIG_HOME/bailey, ~/.config/bailey */
int dirs_state(char **ret);  /* $XDG_STATE_HOME/bailey, ~/.local/state/bailey */
