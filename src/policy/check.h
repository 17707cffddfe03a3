/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Checks of values that a type alone does not describe. Each says what is wrong and what to write instead.
 */
#include "policy/policy.h"

int check_profile(struct str text, struct err *err);
int check_name(struct str text, struct err *err);         /* letters, digits, '-', '_', '.' */
int check_host_pattern(struct str text, struct err *err); /* a pattern or "@group" */
/* In network.allow: also a group that stands for rules (policy/git/forges.h). */
int check_allowed_entry(struct str text, struct err *err);
int check_private_entry(struct str text, struct err *err);  /* in network.allow_private: no wildcard, and a port */
int check_denied_pattern(struct str text, struct err *err); /* the same, or "*:PORT" */
int check_reason(struct str text, struct err *err);         /* for a refusal: one line of text */
int check_command_word(struct str text, struct err *err);   /* of a rule about commands */
int check_plain_pattern(struct str text, struct err *err);  /* a pattern */
int check_network(struct str text, struct err *err);        /* address or CIDR */
int check_port(struct str text, struct err *err);
int check_publish(struct str text, struct err *err); /* [ADDR:]PORT:PORT */
int check_proxy_url(struct str text, struct err *err);
int check_webhook(struct str text, struct err *err);
int check_chat_url(struct str text, struct err *err);
int check_chat_source(struct str text, struct err *err);
int check_chat_word(struct str text, struct err *err);
int check_dns_server(struct str text, struct err *err);
int check_plain_path(struct str text, struct err *err); /* a grant names places: no glob */
int check_variable_name(struct str text, struct err *err);
int check_variable(struct str text, struct err *err); /* NAME=VALUE */
int check_method(struct str text, struct err *err);
int check_graphql_field(struct str text, struct err *err);
int check_request_path(struct str text, struct err *err);
int check_source(struct str text, struct err *err); /* of a credential: "env:NAME", "file:PATH", ... */
int check_form(struct str text, struct err *err);   /* of a stand-in: "opaque:PREFIX", "jwt" */
int check_member(struct str text, struct err *err); /* of an answer: "access_token" */
int check_expiry(struct str text, struct err *err); /* "ms:POINTER", "now:POINTER" */
int check_slot(struct str text, struct err *err);   /* of a credential: "bearer", "header:NAME", ... */

/* PORT or [ADDR:]PORT:PORT. ret->addr is allocated; origin is left alone. */
int check_parse_ports(struct str text, struct port_map *ret, struct err *err);
