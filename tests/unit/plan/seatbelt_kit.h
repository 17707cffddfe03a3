/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Profiles for tests: made from a policy, parsed by tests/sbpl, and asked. */
#include "plan/macos/seatbelt.h"
#include "sbpl.h"

struct made {
        struct seatbelt *data;
        char *text;
        struct sbpl *sbpl;
        struct sbpl_parameter *parameters;
};

/* 0 or the error of seatbelt_build(); the test fails when the text cannot be parsed. */
int made_make(struct made *made, const struct policy *policy, const struct path_rules *rules,
              const struct seatbelt_host *host, struct err *e);
void made_done(struct made *made);

/* What may be done with a file of this canonical path; the test fails when operations of one kind disagree. */
enum path_access made_access(const struct made *made, const char *path);
/* The same with two operations of each kind; which ones, goes by turns. */
enum path_access made_access_quickly(const struct made *made, const char *path, unsigned turn);
bool made_allows(const struct made *made, struct sbpl_question question);
/* The access that a Mac must give: the policy's own verdict; in places of other programs, its verdict if reads were
 * closed. */
enum path_access expected_access(const struct path_rules *rules, const struct path_rules *closed, const char *path);
/* Properties of every text; the test fails when one does not hold. */
void made_check_text(const struct made *made);
