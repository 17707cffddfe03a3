/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container_home.h"

#include "policy/home_kind.h"
#include "policy/options.h"
#include "run/run_home.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

int container_home_open(const struct policy *policy, const char *id, const struct vault_session *vault,
                        struct home *ret, struct err *err) {
        int r;

        if (!policy->origins[ROW_HOME] || !home_is_own(policy))
                return 0;

        r = home_open(policy, id, ret, err);
        if (r < 0)
                return r;

        if (ret->files && strpbrk(ret->files, ":,\"\n"))
                return err_set(err, EINVAL,
                               "%s cannot be mounted into a container: a colon, comma, quote or line break in its name",
                               ret->files);

        return run_home_lay(ret, policy, vault, err);
}

int container_home_options(const struct home *home, text_list *words) {
        if (!home->directory)
                return 0;
        return words_add(words, "--mount=type=bind,source=%s,destination=" HOME_PLACE, home->files) |
               words_add(words, "--env=HOME=" HOME_PLACE);
}

int container_home_check(const struct home *home, uid_t uid, struct err *err) {
        if (!home->directory || uid == geteuid())
                return 0;
        return err_set(err, EOPNOTSUPP,
                       "the sandbox's own home is yours, and the container runs as another user of this host (%ju): "
                       "leave out --home, or use an engine and an image by which it runs as you (podman without "
                       "root, as root inside)",
                       (uintmax_t)uid);
}
