/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a policy says under `browser`: pages that programs inside may have opened outside, in a person's browser.
 * bridge/page.h says which addresses are pages; run/bridge/run_browser.h opens them.
 */
#include "policy/policy.h"

/* Stands for the name of a tool in the effects of a ratchet. */
#define BROWSER_TOOL "browser"
enum { BROWSER_CALLBACK_SECONDS = 600 };

/* The names by which programs open a page; NULL-terminated. The first is $BROWSER inside. */
extern const char *const browser_names[];

bool policy_has_browser(const struct policy *policy);
bool browser_is_name(struct str name);
/* Whether pages of this host may be opened; *ret_rule: the entry that says so. */
bool browser_allows(const struct policy *policy, const struct authority *target, const struct origin_text **ret_rule);
uint64_t browser_callback_ns(const struct policy *policy);

/* Of a policy's entries. */
int check_browser_host(struct str text, struct err *err);
int check_browser_program(struct str text, struct err *err);
/* Once all layers are there. */
int browser_settle(const struct policy *policy, struct err *err);
