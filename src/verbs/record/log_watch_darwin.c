/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of macOS tells of a directory's names and not of what is written to its files: the log is looked at every
 * second. */
#include "verbs/record/log_view_internal.h"

int log_watch(const char *directory) {
        (void)directory;
        return -1;
}
