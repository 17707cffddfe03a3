/* SPDX-License-Identifier: Apache-2.0 */
/* vault/vault_confine.h for bailey-vault-as-macos: Seatbelt is not here. */
#include "vault/vault_confine.h"

int confine_vault(struct err *err) {
        (void)err;
        return 0;
}

int confine_reader(bool programs, const struct reader_places *places, struct err *err) {
        (void)places;
        (void)programs;
        (void)err;
        return 0;
}
