/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "conf/suggest.h"
#include "policy/own_commands.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/*
 * From "key=value" to the rows of a policy. Rows that no file may hold (the workspace) go by their flag.
 */
static const char *key_of(const struct option *o) {
        return o->key ? o->key : o->flag;
}

static const struct option *find_row(struct str key) {
        for (size_t i = 0; i < POLICY_ROWS; i++)
                if (str_is(key, key_of(&policy_rows[i])) && i != ROW_POLICY && i != ROW_WORKSPACE_POLICY)
                        return &policy_rows[i];
        return NULL;
}

static int read_values(const supervise_texts *texts, struct option_values *ret, struct err *e) {
        for (size_t i = 0; i < texts->n; i++) {
                struct str text = str_of(texts->p[i]), key;
                ptrdiff_t equals = str_find(text, '=');
                key = str_first(text, equals < 0 ? text.n : (size_t)equals);
                const struct option *o = equals < 0 ? NULL : find_row(key);
                if (!o)
                        return err_set(e, EINVAL, "there is no setting %s", show(key).text);
                int r = option_set(ret, o, str_skip(text, (size_t)equals + 1), key_of(o), e);
                if (r < 0)
                        return r;
        }
        return 0;
}

int link_settings_read(const struct supervise_request *q, struct link_settings *ret, struct err *e) {
        int r = read_values(&q->config, &ret->config, e);
        r = r < 0 ? r : read_values(&q->call, &ret->call, e);
        ret->policy = (struct policy_request){ .command_line = &ret->config,
                                               .call = &ret->call,
                                               .only_text = q->policy ? q->policy : "",
                                               .base = q->base };
        return r;
}

void link_settings_done(struct link_settings *s) {
        option_values_done(&s->config);
        option_values_done(&s->call);
}

/* The new policy under the old options of the call. */
static int load_policy(const struct link *l, int fd, struct policy **ret, struct err *e) {
        cleanup(buf_done) struct buf block = BUF(SUPERVISE_BYTES_MAX);
        cleanup(supervise_request_done) struct supervise_request q = { 0 };
        cleanup(link_settings_done) struct link_settings s = { 0 };
        int r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(e, "cannot read the new policy") : fd_read_all(fd, &block);
        r = r < 0 ? r : supervise_decode(buf_str(&block), &q, e);
        if (r < 0)
                return r;
        supervise_texts own = q.call; /* a policy says nothing about one call */
        q.call = l->request->call;
        r = link_settings_read(&q, &s, e);
        r = r < 0 ? r : policy_load(&s.policy, ret, e);
        if (r == 0) {
                r = own_commands_check(*ret, environ, e);
                if (r < 0)
                        policy_free(take_ptr(ret));
        }
        q.call = own;
        return r;
}

enum link_word link_hear(const struct link *l, struct link_heard *ret) {
        struct supervise_message m;
        cleanup(supervise_fds_done) struct supervise_fds fds = SUPERVISE_NO_FDS;
        struct err e = { 0 };
        int r = supervise_receive(l->fd, &m, &fds);
        if (r == -EAGAIN)
                return LINK_NOTHING;
        if (r <= 0)
                return LINK_GONE;
        *ret = (struct link_heard){ .id = m.id, .allow = m.number == 1, .judged = -1 };
        if (m.kind == SUPERVISE_ANSWER)
                return LINK_ANSWER;
        if (m.kind != SUPERVISE_RELOAD)
                return LINK_GONE;
        if (load_policy(l, fds.block, &ret->policy, &e) == 0) {
                ret->judged = take_fd(&fds.judged);
                return LINK_POLICY;
        }
        log_error("the new policy is not used: %s", err_text(&e));
        return LINK_NOTHING;
}

/*
 * What is told. The socket does not block here for long: the other side reads, and when it is gone so is this job.
 */
static bool tell(const struct link *l, const struct supervise_message *m) {
        return supervise_send(l->fd, m, NULL) == 0;
}

bool link_ask(const struct link *l, uint64_t id, const struct authority *target) {
        struct supervise_message m = { .kind = SUPERVISE_ASK, .id = id, .number = target->port };
        snprintf(m.host, sizeof m.host, "%s", target->host.name);
        return tell(l, &m);
}

void link_ask_gone(const struct link *l, uint64_t id) {
        (void)tell(l, &(struct supervise_message){ .kind = SUPERVISE_ASK_GONE, .id = id });
}

void link_ready(const struct link *l, uint16_t http_port, uint16_t socks_port) {
        (void)tell(l, &(struct supervise_message){ .kind = SUPERVISE_READY, .id = http_port, .number = socks_port });
}

void link_notice(const struct link *l, const char *lost) {
        struct supervise_message m = { .kind = SUPERVISE_NOTICE };

        snprintf(m.detail, sizeof m.detail, "%s", lost);
        (void)tell(l, &m);
}

void link_violation(const struct link *l, const struct supervise_message *violation) {
        struct supervise_message m = *violation;

        m.kind = SUPERVISE_VIOLATION;
        (void)tell(l, &m);
}

void link_end(const struct link *l, enum run_end end, int status, bool signalled, const char *why) {
        struct supervise_message m = { .kind = SUPERVISE_END, .number = end, .status = status, .signalled = signalled };
        snprintf(m.detail, sizeof m.detail, "%s", why ? why : "");
        (void)tell(l, &m);
}
