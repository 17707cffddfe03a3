/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The terminal is lent to the command's process group, as a shell does for a job, and taken back when the command stops
 * or ends. So Ctrl-C and Ctrl-Z reach the command and not us, and the shell that started us sees one job.
 */
#include "base/str.h"

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
        int fd;      /* -1: there is none */
        bool lent;   /* the command's group is in the foreground */
        pid_t group; /* ours */
};

/* Finds the controlling terminal. `lent` says whether it is ours to lend: we were started in the foreground. */
void terminal_open(struct terminal *terminal);
/* Takes it back if it is lent. */
void terminal_take(struct terminal *terminal);
/* After we were continued: true when the shell put us into the foreground, so that it can be lent again. */
bool terminal_ours(const struct terminal *terminal);
/* Standard error is the terminal, and a program reads keys instead of lines there: text would land in its picture. */
bool terminal_is_drawn_on(const struct terminal *terminal);
/* For a line that must not block: whether there is room for it now, and writing it, also from the background. */
bool terminal_can_write(int fd);
void terminal_write(int fd, struct str line);
void terminal_close(struct terminal *terminal);
