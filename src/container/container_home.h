/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The sandbox's own home in a container. An image has a home of its own, which its programs may need and which ends
 * with the container; nothing of the host's is in it. So the own home, which is kept between runs, is there when a
 * policy or a person names one (--home): at HOME_PLACE, beside the image's, with settings and sign-ins as in any run.
 */
#include "base/err.h"
#include "container/engine.h"
#include "kept/home.h"
#include "policy/policy.h"
#include "roles/vault_session.h"

#include <sys/types.h>

/* ret->directory stays NULL where the image's home is used. */
int container_home_open(const struct policy *policy, const char *id, const struct vault_session *vault,
                        struct home *ret, struct err *err);
/* Words for the engine. -ENOMEM. */
int container_home_options(const struct home *home, text_list *words);
/* When the first process is known, before the command starts: its user, as this host sees it, must be the home's. */
int container_home_check(const struct home *home, uid_t uid, struct err *err);
