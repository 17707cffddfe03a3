/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAILEY_H
#define BAILEY_H
/*
 * libbailey: run commands that nobody has read (those of an AI agent) so that they touch only what a policy grants.
 *
 * Life cycle:
 *
 *     bailey_config *config;
 *     bailey_manager *manager;
 *     bailey_result *result;
 *     struct bailey_error error;
 *
 *     bailey_config_new("default", &config, &error);                   1. a config, from a preset
 *     bailey_config_workspace(config, "/srv/project", &error);            and what this program grants
 *     bailey_config_allow(config, "api.example.com", &error);
 *     bailey_config_on_approval(config, ask_the_user, NULL, &error);
 *     bailey_manager_new(config, &manager, &error);                    2. a manager: validated, machine tried
 *
 *     if (bailey_manager_exec(manager, "make test", NULL, &result, &error) == BAILEY_OK) {
 *             use(bailey_result_exit_code(result), bailey_result_stdout(result, NULL));
 *             bailey_result_free(result);                              3. commands, from any number of threads
 *     } else
 *             report(error.code, error.message);
 *
 *     bailey_manager_update(manager, config, &error);                  4. a changed config, at any time
 *     bailey_manager_cleanup(manager, &error);                         5. the end: what runs is killed
 *     bailey_manager_free(manager);
 *     bailey_config_free(config);
 *
 * The library starts no sandbox inside the program that loads it: it starts `bailey`, with descriptors and signals of
 * its own, and talks to it. It installs no signal handlers, changes no directory, mask or environment, leaves no
 * descriptor open to children, and waits only for processes that it started. A program with a SIGCHLD handler that
 * reaps everything, or that ignores SIGCHLD, works.
 *
 * Everything but configs and options may be used by several threads at once. Handles are opaque; the layout of the
 * structs in these headers does not change within one soname. After fork() a child must not use the library before it
 * executes another program.
 */
#include "bailey/config.h"
#include "bailey/error.h"
#include "bailey/filter.h"
#include "bailey/gateway.h"
#include "bailey/guest.h"
#include "bailey/manager.h"
#include "bailey/version.h"

#endif
