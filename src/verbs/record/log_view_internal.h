/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/clock.h"
#include "store/audit_line.h"
#include "verbs/record/log_view.h"

struct view {
        const struct log_request *request;
        char since[CLOCK_TEXT_MAX]; /* "": everything */
        char day[16];               /* shown last */
        struct buf line, text;
};

void log_view_done(struct view *view);
/* "10m" ago, or "2026-11-15T03:00", as the time of a record; "" for NULL. */
int log_parse_time(const char *option, const char *text, char ret[static CLOCK_TEXT_MAX], struct err *err);
/* The record as the request wants it, with its line break, in v->line. */
int log_view_record(struct view *view, struct str line, const struct audit_record *rec);

/* A descriptor that can be read when something happens in the directory, non-blocking; -1: nobody can tell. */
int log_watch(const char *directory);
