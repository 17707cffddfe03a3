/* SPDX-License-Identifier: Apache-2.0 */
#include "kept/guard_registry.h"

#include "kept/kept.h"
#include "store/audit.h"

void guards_note(struct audit *audit, const char *id, const struct guard_found *found) {
        switch (found->done) {
        case GUARD_KEPT:
                (void)audit_note(audit, "moved %s away: protected, and not there before; kept as %s/%s", found->path,
                                 id, found->kept);
                break;
        case GUARD_UNFINISHED:
                (void)audit_note(audit, "moved %s away: git would run something by it; kept as %s/%s", found->path, id,
                                 found->kept);
                break;
        case GUARD_BESIDE:
                (void)audit_note(audit, "moved %s away: protected, and not there before; it is beside its place, as %s",
                                 found->path, found->kept);
                break;
        case GUARD_FILTERED:
                if (found->kept)
                        (void)audit_note(audit,
                                         "rewrote %s: protected, and not there before; only harmless settings stay, "
                                         "all of it is kept as %s/%s",
                                         found->path, id, found->kept);
                else
                        (void)audit_note(audit,
                                         "rewrote %s: protected, and not there before; only harmless settings stay",
                                         found->path);
                break;
        case GUARD_PRUNED:
                (void)audit_note(audit, "removed what was kept of %s: more than %d days old, or beyond 1 GiB in all",
                                 found->path, KEPT_DAYS_MAX);
                break;
        default:
                (void)audit_note(audit, "put the link %s back: protected, and replaced", found->path);
        }
}
