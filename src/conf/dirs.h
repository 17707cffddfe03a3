/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where Bailey's own files are, by the XDG rules: a variable counts only when it is absolute.
 * Heap text, NULL when there is no home directory or no memory.
 */

char *dirs_config(void); /* $XDG_CONFIG_HOME/bailey, ~/.config/bailey */
char *dirs_state(void);  /* $XDG_STATE_HOME/bailey, ~/.local/state/bailey */
