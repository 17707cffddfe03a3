/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secrets/secret.h"

#include "base/secrets/secret_internal.h"

#include <mach/vm_inherit.h>
#include <sys/mman.h>

/* There is no way to keep single pages out of a core file: who keeps secrets allows none (RLIMIT_CORE). */
int secret_map(char *at, size_t n, struct err *err) {
        if (mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0) == MAP_FAILED)
                return err_errno(err, "cannot map memory for a secret");
        if (mlock(at, n) < 0)
                return err_errno(err, "cannot lock memory for a secret");
        if (minherit(at, n, VM_INHERIT_NONE) < 0)
                return err_errno(err, "cannot keep a secret from child processes");

        return 0;
}
