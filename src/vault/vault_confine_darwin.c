/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By Seatbelt, with no file, no process, no socket and no service of this Mac. Single system calls cannot be refused
 * there, so a bug reaches more of the kernel than on Linux. Never yet run on a Mac.
 */
#include "base/cleanup.h"
#include "base/processes/confine.h"
#include "base/str.h"
#include "vault/vault_confine.h"
#include "vault/vault_profile.h"

#include <errno.h>
#include <stdint.h>

/* In libSystem; no header has them. */
int sandbox_init_with_parameters(const char *profile, uint64_t flags, const char *const parameters[], char **error);
void sandbox_free_error(char *error);

static int confine_apply(const char *who, const char *profile, const char *const *parameters, struct err *err) {
        char *error = NULL;
        int r = confine_memory(err);

        if (r < 0 || sandbox_init_with_parameters(profile, 0, parameters, &error) == 0)
                return r;

        err_set(err, EPERM, "while the %s confined itself: macOS refuses the profile: %s", who,
                text_or(error, "no reason given"));
        if (error)
                sandbox_free_error(error);
        return -EPERM;
}

int confine_vault(struct err *err) {
        static const char *const none[] = { NULL };
        return confine_apply("vault", vault_profile, none, err);
}

/* With programs, which fetch secrets over the network, it keeps what they need. */
int confine_reader(bool programs, const struct reader_places *places, struct err *err) {
        cleanup(reader_profile_done) struct reader_profile profile = READER_PROFILE_NONE;

        if (programs)
                return confine_memory(err);

        int r = reader_profile_write(places, &profile, err);
        if (r < 0)
                return r;

        const char *text = buf_text(&profile.text);
        if (!text)
                return err_memory(err);
        return confine_apply("vault's reader", text, (const char *const *)profile.parameters.p, err);
}
