/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What `bailey egress` knows about its service from outside: settings, its process, its own report. */
#include "conf/node.h"
#include "egress/egress.h"
#include "egress/egress_pid.h"
#include "egress/egress_state.h"

struct egress_view {
        char *directory;
        struct egress_settings settings;
        bool configured, running;
        struct egress_identity id;
        struct document *service; /* what the service says about itself; NULL: it does not run */
        struct document *tokens;  /* NULL: none */
};

int egress_view_load(struct egress_view *view, struct err *err);
void egress_view_done(struct egress_view *view);
/* The first member of a list, and a text, of what one of its files says. */
const struct node *egress_view_members(const struct document *document, const char *key);
struct str egress_view_text(const struct document *document, const char *key);
