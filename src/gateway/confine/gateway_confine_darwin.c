/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By Seatbelt. What was opened before stays open: the listeners, the sockets to the supervisor, the log. After it the
 * gateway may make connections to other machines and ask name servers, and may do nothing else: no file, no process, no
 * listener, no socket of this Mac's services. Never yet run on a Mac.
 */
#include "gateway/confine/gateway_confine.h"

#include "base/processes/confine.h"
#include "base/str.h"
#include "gateway/confine/gateway_profile.h"

#include <errno.h>

/* In libSystem; no header has them. */
int sandbox_init_with_parameters(const char *profile, uint64_t flags, const char *const parameters[], char **error);
void sandbox_free_error(char *error);

int confine_gateway(struct err *err) {
        static const char *const none[] = { NULL };
        char *error = NULL;

        int r = confine_memory(err); /* it has values of credentials */
        if (r < 0)
                return r;
        if (sandbox_init_with_parameters(gateway_profile, 0, none, &error) == 0)
                return 0;

        err_set(err, EPERM, "while the gateway confined itself: macOS refuses the profile: %s",
                text_or(error, "no reason given"));
        if (error)
                sandbox_free_error(error);
        return -EPERM;
}
