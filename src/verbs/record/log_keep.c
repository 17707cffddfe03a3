/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/record/log_keep.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "policy/load.h"
#include "store/audit_keep.h"

#include <errno.h>
#include <inttypes.h>

struct keeping {
        const struct log_keep_request *request;
        struct buf *out;
        struct emit json;
        int status;
};

static void put_dropped(struct emit *json, const struct audit_dropped *dropped) {
        emit_open(json, '{');
        emit_put_text(json, "run", dropped->run_id);
        emit_put_text(json, "file", dropped->path);
        emit_put_number(json, "records", dropped->records);
        emit_put_number(json, "bytes", dropped->bytes);
        emit_put_text(json, "from", dropped->first_ts[0] ? dropped->first_ts : NULL);
        emit_put_text(json, "to", dropped->last_ts[0] ? dropped->last_ts : NULL);
        emit_put_text(json, "last_sha256", dropped->last_hash[0] ? dropped->last_hash : NULL);
        emit_put_text(json, "because", dropped->by_age ? "age" : "size");
        emit_close(json);
}

static void on_dropped(void *arg, const struct audit_dropped *dropped) {
        struct keeping *keeping = arg;

        if (keeping->request->json) {
                put_dropped(&keeping->json, dropped);
                return;
        }

        const char *until = dropped->last_ts[0] ? dropped->last_ts : "?";
        const char *why = dropped->by_age ? "too old" : "too much in all";

        if (keeping->status == 0)
                keeping->status =
                    buf_printf(keeping->out, "%s %s: %" PRIu64 " records, %" PRIu64 " bytes, until %.19s (%s)\n",
                               keeping->request->dry ? "would drop" : "dropped", dropped->run_id, dropped->records,
                               dropped->bytes, until, why);
}

/* The user's own limits; a workspace has no say in this. */
static int load_limits(struct audit_limits *ret, struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        const struct policy_request request = { .workspace = "/", .network_only = true };
        int r;

        r = policy_load(&request, &policy, err);
        if (r < 0)
                return r;

        *ret = (struct audit_limits){ policy->log.max_age_ns, policy->log.max_bytes };
        return 0;
}

static int put_end(struct keeping *keeping, const struct audit_keep *keep) {
        if (!keeping->request->json) {
                if (keeping->status < 0)
                        return keeping->status;
                return buf_printf(keeping->out, "%zu logs of %" PRIu64 " bytes %s\n", keep->runs, keep->bytes,
                                  keeping->request->dry ? "would be left" : "are left");
        }

        emit_close(&keeping->json);
        emit_put_number(&keeping->json, "runs", keep->runs);
        emit_put_number(&keeping->json, "bytes", keep->bytes);
        emit_close(&keeping->json);

        if (emit_status(&keeping->json) < 0)
                return -ENOMEM;

        return buf_add_char(keeping->out, '\n');
}

int log_keep(const struct log_keep_request *request, struct buf *out, struct err *err) {
        struct keeping keeping = { .request = request, .out = out, .json = emit_to(out) };
        struct audit_keep keep = { .dry = request->dry, .on_dropped = on_dropped, .arg = &keeping };
        int r;

        r = load_limits(&keep.limits, err);
        if (r < 0)
                return r;
        if (request->has_max_age)
                keep.limits.max_age_ns = request->max_age_ns;
        if (request->has_max_size)
                keep.limits.max_bytes = request->max_bytes;

        if (request->json) {
                emit_open(&keeping.json, '{');
                emit_key(&keeping.json, "dropped");
                emit_open(&keeping.json, '[');
        }

        r = audit_keep(&keep, err);
        if (r < 0)
                return r;

        r = put_end(&keeping, &keep);
        if (r < 0)
                return err_set(err, -r, "out of memory");

        return 0;
}
