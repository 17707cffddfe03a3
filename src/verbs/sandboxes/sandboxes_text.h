/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How replies and events of the control protocol are shown to people. Everything is escaped. */
#include "base/buf.h"
#include "base/emit.h"
#include "conf/node.h"

/* "guest NAME: ", or nothing for a sandbox that is none. */
int sandboxes_guest_text(struct buf *out, const char *guest);
int sandboxes_ps_head(struct buf *out);
/* guest: its name now; "": it is none. */
int sandboxes_ps_line(struct buf *out, const struct node *status, const char *guest);
int sandboxes_pending_line(struct buf *out, const char *sandbox, const struct node *question);
/* One line with its line break, or nothing for an event that is not for people. */
int sandboxes_event_line(struct buf *out, const char *sandbox, const struct node *event);
/* The tree as JSON again. */
void sandboxes_emit_node(struct emit *json, const struct node *node);
