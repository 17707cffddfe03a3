/* SPDX-License-Identifier: Apache-2.0 */
/* There is no vault on macOS yet, and nobody has one to give to a gateway. */
#include "roles/vault_process.h"

uint32_t vault_process_connect_all(struct vault_process *process, int *ret_fds, uint32_t n) {
        (void)process;
        (void)ret_fds;
        (void)n;
        return 0;
}
