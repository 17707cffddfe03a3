/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/chat.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/signals.h"
#include "chat/chat_internal.h"
#include "store/audit_place.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_NS NS_PER_SECOND

void chat_note(struct chat *chat, const char *format, ...) {
        char text[2048];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        (void)audit_note(chat->audit, "%s", text);
        (void)audit_flush(chat->audit, NULL); /* answers go on; the log says what it lost */
}

/*
 * Settings.
 */
static int chat_need(const char *value, const char *key, const char *service, struct err *err) {
        if (value && value[0])
                return 0;
        return err_set(err, EINVAL, "approval.chat.%s is missing: %s needs it; see docs/chat.md", key, service);
}

static int check_account(const struct policy *policy, const struct chat_service *service, struct err *err) {
        int r = 0;

        if (!service->url)
                r = chat_need(policy->approval.chat.url, "url", service->name, err);
        if (r == 0)
                r = chat_need(policy->approval.chat.room, "room", service->name, err);
        if (r == 0 && service->needs_account)
                r = chat_need(policy->approval.chat.account, "account", service->name, err);
        if (r == 0 && service->needs_token)
                r = chat_need(policy->approval.chat.token, "token", service->name, err);
        if (r == 0 && service->needs_app_token)
                r = chat_need(policy->approval.chat.app_token, "app_token", service->name, err);
        if (r == 0 && !policy->approval.chat.approvers.n)
                r = err_set(err, EINVAL, "approval.chat.approvers is empty: nobody could answer");

        return r;
}

static struct chat_account account_of(const struct policy *policy, const struct chat_service *service) {
        return (struct chat_account){ .kind = policy->approval.chat.service,
                                      .url = text_or(policy->approval.chat.url, service->url),
                                      .account = text_or(policy->approval.chat.account, ""),
                                      .room = policy->approval.chat.room,
                                      .approvers = &policy->approval.chat.approvers,
                                      .has_token = policy->approval.chat.token != NULL };
}

int chat_check(const struct policy *policy, struct err *err) {
        const struct chat_service *service = chat_service_of(policy->approval.chat.service);
        int r;

        if (!service)
                return err_set(err, EINVAL,
                               "no chat is configured: set approval.chat.service and what it needs in your own "
                               "configuration; see docs/chat.md");

        r = check_account(policy, service, err);
        if (r < 0)
                return r;

        const struct chat_account account = account_of(policy, service);
        if (service->check)
                return service->check(&account, err);

        return 0;
}

/*
 * Opening.
 */
static int chat_open_audit(struct chat *chat, struct err *err) {
        int r = audit_open_service("chat", &chat->audit, err);
        if (r == -EBUSY)
                return err_set(err, EBUSY, "a chat is running already");

        return r;
}

static void chat_watch_places(struct chat *chat) {
        cleanup(free_ptr) char *directory = NULL;

        chat->places = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (chat->places >= 0 && control_make_directory(&directory, NULL) == 0)
                (void)inotify_add_watch(chat->places, directory, IN_MOVED_TO | IN_CREATE);
}

static void on_notice(void *arg, const char *text) {
        chat_note(arg, "vault: %s", text);
}

static int chat_start_courier(struct chat *chat, struct err *err) {
        const struct policy *policy = chat->settings->policy;
        struct authority to;
        char host[AUTHORITY_TEXT_MAX];
        struct str url = str_of(chat->account.url);
        int r;

        if (str_starts(url, STR("https://")))
                r = authority_parse(str_skip(url, 8), 443, &to, err);
        else
                r = authority_parse(str_skip(url, 7), 80, &to, err);
        if (r < 0)
                return r;

        authority_text(&to, host);
        const struct courier_token tokens[] = {
                { "chat", policy->approval.chat.token, host },
                { "chat-app", policy->approval.chat.app_token, host },
        };
        const struct courier_settings settings = { .tokens = tokens,
                                                   .n_tokens = (size_t)(policy->approval.chat.token != NULL) +
                                                               (size_t)(policy->approval.chat.app_token != NULL),
                                                   .environment = environ,
                                                   .on_message = line_message,
                                                   .on_notice = on_notice,
                                                   .arg = chat };

        return courier_process_start(&settings, &chat->courier, err);
}

static int chat_open(struct chat *chat, struct err *err) {
        const struct policy *policy = chat->settings->policy;
        int r;

        r = chat_check(policy, err);
        if (r < 0)
                return r;

        chat->service = chat_service_of(policy->approval.chat.service);
        chat->account = account_of(policy, chat->service);
        chat_judge_init(&chat->judge, &policy->approval.chat.approvers);
        r = chat_open_audit(chat, err);
        if (r < 0)
                return r;

        chat->signals = signals_catch_end();
        if (chat->signals < 0)
                return err_errno(err, "cannot watch signals");

        r = chat_start_courier(chat, err);
        if (r < 0)
                return r;

        chat_watch_places(chat);
        chat_note(chat, "the chat begins: %s, room %s, %zu approvers", chat->service->name, chat->account.room,
                  chat->account.approvers->n);
        chat->settings->on_ready(chat->settings->arg, chat->service->name, chat->account.room);

        if (chat->settings->test)
                line_say(chat, "Hello from bailey: messages arrive here.");

        return 0;
}

static void chat_close(struct chat *chat) {
        courier_process_free(chat->courier);
        peers_done(chat);
        questions_forget(chat);
        line_done(chat);
        close_fd(&chat->signals);
        close_fd(&chat->places);

        if (chat->audit)
                (void)audit_close(chat->audit, NULL); /* nothing depends on it any more */

        free(chat);
}

static void chat_closep(struct chat **chat) {
        if (*chat)
                chat_close(*chat);
}

/*
 * The loop.
 */
static void chat_read_places(struct chat *chat) {
        char events[4096];

        while (read(chat->places, events, sizeof events) > 0)
                chat->look_ns = 0;
}

static void chat_watch(void *arg, struct poller *poller) {
        struct chat *chat = arg;

        if (!chat->settings->test && clock_ns() >= chat->look_ns) {
                chat->look_ns = clock_ns() + LOOK_NS;
                peers_look(chat);
        }

        poller_until(poller, line_tick(chat));
        poller_until(poller, clock_ns() + LOOK_NS);
        poller_watch(poller, chat->signals, POLLIN);
        poller_watch(poller, chat->places, POLLIN);

        for (size_t i = 0; i < chat->peers.n; i++)
                poller_watch(poller, chat->peers.p[i]->client.fd, POLLIN);

        courier_process_watch(chat->courier, poller);
}

static int chat_step(void *arg, struct poller *poller, struct err *err) {
        struct chat *chat = arg;

        (void)err;
        chat->ended = chat->ended || poller_ready(poller, chat->signals);
        if (poller_ready(poller, chat->places))
                chat_read_places(chat);

        /* Sandboxes first: an answer from the chat meets what is open now. */
        for (size_t i = 0; i < chat->peers.n; i++)
                if (poller_ready(poller, chat->peers.p[i]->client.fd))
                        peers_step(chat, chat->peers.p[i]);

        courier_process_step(chat->courier, poller);
        peers_sweep(chat);

        return 0;
}

int chat_run(const struct chat_settings *settings, struct err *err) {
        cleanup(chat_closep) struct chat *chat = calloc(1, sizeof *chat);
        int r;

        if (!chat)
                return err_memory(err);

        chat->settings = settings;
        chat->signals = chat->places = -1;
        r = chat_open(chat, err);
        if (r < 0)
                return r;

        cleanup(poller_done) struct poller poller = { 0 };
        poller_add(&poller, &(struct poller_part){ chat_watch, chat_step, chat });

        while (!chat->ended && !chat->failed) {
                r = poller_round(&poller, err);
                if (r < 0)
                        return r;
        }

        chat_note(chat, "the chat ends");
        if (chat->failed)
                *err = chat->failure;

        if (chat->failed)
                return -EREMOTEIO;

        return 0;
}
