/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* From mappings and their stand-ins to what a sandbox and the gateway are given. */
#include "policy/mappings.h"
#include "roles/vault_process.h"

typedef VEC(char *) text_list; /* owned texts; NULL-terminated when it is not empty */
void text_list_done(text_list *list);
/* Takes the text over; NULL stands for "out of memory". */
int text_list_take(text_list *list, char *taken, struct err *err);

/* "K=V": each variable of each mapping with its stand-in, what providers want beside it, and a credential helper for
 * git where it uses one. Without a process the stand-ins are empty, for a preview of the plan. -EEXIST names a variable
 * that the policy sets itself. */
int vault_env_stand_ins(const mappings *list, const struct vault_process *process, const struct policy *policy,
                        char *const *environment, text_list *ret, struct err *err);
/* "K=V": the variables by which SDKs find the API proxy ("http://127.0.0.1:3129", or "" for paths alone), but for those
 * that the host's environment sets. */
int vault_env_base_urls(const mappings *list, const char *proxy, char *const *environment, text_list *ret,
                        struct err *err);
/* Names of the variables from which values are read. */
int vault_env_sources(const mappings *list, text_list *ret, struct err *err);
/* The credential table as a sealed file. */
int vault_env_table(const mappings *list, const struct vault_process *process, int *ret_fd, struct err *err);
