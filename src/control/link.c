/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "conf/suggest.h"
#include "ipc/gateway_messages.h"
#include "policy/tools/own_commands.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/*
 * From "key=value" to the rows of a policy. Rows that no file may hold (the workspace) go by their flag.
 */
static const char *key_of(const struct option *option) {
        return option->key ? option->key : option->flag;
}

static const struct option *find_row(struct str key) {
        for (size_t i = 0; i < POLICY_ROWS; i++)
                if (str_is(key, key_of(&policy_rows[i])) && i != ROW_POLICY && i != ROW_WORKSPACE_POLICY)
                        return &policy_rows[i];
        return NULL;
}

static int read_values(const supervise_texts *texts, struct option_values *ret, struct err *err) {
        for (size_t i = 0; i < texts->n; i++) {
                struct str text = str_of(texts->p[i]), key;
                ptrdiff_t equals = str_find(text, '=');

                key = str_first(text, equals < 0 ? text.n : (size_t)equals);
                const struct option *o = equals < 0 ? NULL : find_row(key);
                if (!o)
                        return err_set(err, EINVAL, "there is no setting %s", show(key).text);

                int r = option_set(ret, o, str_skip(text, (size_t)equals + 1), key_of(o), err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int link_settings_read(const struct supervise_request *request, struct link_settings *ret, struct err *err) {
        int r = read_values(&request->config, &ret->config, err);
        if (r >= 0)
                r = read_values(&request->call, &ret->call, err);
        ret->policy = (struct policy_request){ .command_line = &ret->config,
                                               .call = &ret->call,
                                               .only_text = text_or(request->policy, ""),
                                               .base = request->base };
        return r;
}

void link_settings_done(struct link_settings *settings) {
        option_values_done(&settings->config);
        option_values_done(&settings->call);
}

/* The new policy under the old options of the call. */
static int load_policy(const struct link *link, int fd, struct policy **ret, struct err *err) {
        cleanup(buf_done) struct buf block = BUF(SUPERVISE_BYTES_MAX);
        cleanup(supervise_request_done) struct supervise_request request = { 0 };
        cleanup(link_settings_done) struct link_settings settings = { 0 };
        int r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(err, "cannot read the new policy") : fd_read_all(fd, &block);
        if (r < 0)
                return r;

        r = supervise_decode(buf_str(&block), &request, err);
        if (r < 0)
                return r;

        supervise_texts own = request.call; /* a policy says nothing about one call */
        request.call = link->request->call;
        r = link_settings_read(&request, &settings, err);
        if (r >= 0)
                r = policy_load(&settings.policy, ret, err);
        if (r == 0) {
                r = own_commands_check(*ret, environ, err);
                if (r < 0)
                        policy_free(take_ptr(ret));
        }

        request.call = own;
        return r;
}

enum link_word link_hear(const struct link *link, struct link_heard *ret) {
        struct supervise_message message;
        cleanup(supervise_fds_done) struct supervise_fds fds = SUPERVISE_NO_FDS;
        struct err e = { 0 };
        int r = supervise_receive(link->fd, &message, &fds);
        if (r == -EAGAIN)
                return LINK_NOTHING;
        if (r <= 0)
                return LINK_GONE;

        *ret = (struct link_heard){ .id = message.id, .allow = message.number == 1, .judged = -1 };
        if (message.kind == SUPERVISE_ANSWER)
                return LINK_ANSWER;
        if (message.kind == SUPERVISE_STAND)
                return LINK_STAND;
        if (message.kind != SUPERVISE_RELOAD)
                return LINK_GONE;

        if (load_policy(link, fds.block, &ret->policy, &e) == 0) {
                ret->judged = take_fd(&fds.judged);
                return LINK_POLICY;
        }

        log_error("the new policy is not used: %s", err_text(&e));
        return LINK_NOTHING;
}

/*
 * Messages to the program. A send does not block for long: the other side reads, and this job ends when it is gone.
 */
static bool link_tell(const struct link *link, const struct supervise_message *message) {
        return supervise_send(link->fd, message, NULL) == 0;
}

bool link_answers(const struct link *link, const char *text) {
        bool host = text[0] == '\0' || str_starts(str_of(text), STR(ASK_BECAUSE));

        return host || link->asks_all;
}

bool link_ask(const struct link *link, uint64_t id, const struct authority *target, const char *text) {
        struct supervise_message message = { .kind = SUPERVISE_ASK, .id = id, .number = target->port };

        snprintf(message.host, sizeof message.host, "%s", target->host.name);
        snprintf(message.target, sizeof message.target, "%s", text);
        return link_tell(link, &message);
}

void link_ask_gone(const struct link *link, uint64_t id, bool expired) {
        (void)link_tell(link, &(struct supervise_message){ .kind = SUPERVISE_ASK_GONE, .id = id, .number = expired });
}

void link_stood(const struct link *link, uint64_t id, int error) {
        (void)link_tell(link, &(struct supervise_message){ .kind = SUPERVISE_STOOD, .id = id, .status = error });
}

void link_ready(const struct link *link, uint16_t http_port, uint16_t socks_port) {
        (void)link_tell(link,
                        &(struct supervise_message){ .kind = SUPERVISE_READY, .id = http_port, .number = socks_port });
}

void link_notice(const struct link *link, const char *lost) {
        struct supervise_message message = { .kind = SUPERVISE_NOTICE };

        snprintf(message.detail, sizeof message.detail, "%s", lost);
        (void)link_tell(link, &message);
}

void link_violation(const struct link *link, const struct supervise_message *violation) {
        struct supervise_message message = *violation;

        message.kind = SUPERVISE_VIOLATION;
        (void)link_tell(link, &message);
}

void link_end(const struct link *link, enum run_end end, int status, bool signalled, const char *why) {
        struct supervise_message message = {
                .kind = SUPERVISE_END, .number = end, .status = status, .signalled = signalled
        };
        snprintf(message.detail, sizeof message.detail, "%s", text_or(why, ""));
        (void)link_tell(link, &message);
}
