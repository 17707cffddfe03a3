/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust: the vault is trusted with its answers, yet every message is checked (ipc/vault_messages.h); one that is
 * malformed, or that answers a question which nobody asked, ends the connection, and the supervisor brings another.
 *
 * A question is named by its key: the kind, the mapping and the target, and for a signing key its scope. The same key
 * names the answer on its shelf. Questions that do not fit the socket wait in order. Each has a time limit.
 *
 * Secrets are in locked memory while they are valid (base/secrets/secret.h), at most SECRETS_MAX of them in
 * SECRETS_BYTES, and are wiped when they are dropped. If even so little memory cannot be locked, the heap is used; the
 * process is not dumpable either way. Callers wipe the copies that they make for a request.
 */
#include "gateway/creds/vault_client.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secrets/secret.h"
#include "gateway/creds/old_secrets.h"
#include "gateway/creds/vault_shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAVES_MAX = 512, SECRETS_MAX = 256, QUESTIONS_MAX = 4096, KEY_MAX = HOST_TEXT_MAX + 192 };
enum { SECRETS_BYTES = 4 * VAULT_MESSAGE_MAX };

struct question {
        struct link link; /* in the order they were asked */
        struct vault_client *client;
        struct link calls;
        struct timer limit;
        uint64_t id;
        uint32_t kind; /* enum vault_kind */
        uint32_t mapping;
        bool sent;
        struct authority to;
        struct str scope[3]; /* in the key */
        uint32_t turn;       /* of questions that are never the same */
        uint64_t number;     /* VAULT_KEEP */
        bool fresh;
        struct buf lines; /* secrets */
        size_t key_n;
        char key[KEY_MAX];
};

struct vault_client {
        struct loop *loop;
        const struct tls_context *keys;
        struct past *past;
        uint64_t ns;
        int fd;
        struct watch watch;
        unsigned interest;             /* of the watch */
        const struct vault_page *page; /* of this connection, once it has said hello */
        struct shelf leaves, secrets;
        struct map questions; /* by key */
        struct link asked;
        size_t n_asked;
        uint64_t last_id;
        uint32_t last_turn;
        struct secret *locked;
        char *heap; /* where nothing can be locked */
        char *room; /* for one message; behind it lies that of the secrets */
};

/* keys */

/* What makes two questions the same. Names hold no NUL. */
static int make_key(struct question *question) {
        struct buf key = { .p = question->key, .cap = sizeof question->key, .max = sizeof question->key };
        const struct {
                uint32_t kind, mapping, port, turn;
        } numbers = { question->kind, question->mapping, question->to.port, question->turn };
        int r = buf_append(&key, str_n(&numbers, sizeof numbers));
        if (r == 0)
                r = buf_append(&key, host_str(&question->to.host));

        for (size_t i = 0; r == 0 && i < 3; i++) {
                r = buf_add_char(&key, '\0');
                size_t at = key.n;
                if (r == 0 && question->scope[i].n > 0)
                        r = buf_append(&key, question->scope[i]);

                question->scope[i].p = question->key + at;
        }

        question->key_n = key.n;
        if (r < 0)
                return -EINVAL;

        return 0;
}

static struct str key_of(const struct question *question) {
        return str_n(question->key, question->key_n);
}

/* questions */

static void client_forget(struct question *question) {
        struct vault_client *client = question->client;

        timer_stop(&question->limit);
        map_remove(&client->questions, key_of(question));
        link_remove(&question->link);
        client->n_asked--;

        if (question->lines.p)
                secret_wipe(question->lines.p, question->lines.cap);

        buf_done(&question->lines);
        free(question);
}

static void client_finish(struct question *question, int error) {
        struct link calls;

        link_take_all(&question->calls, &calls);
        client_forget(question);

        while (!link_is_empty(&calls)) {
                struct vault_call *call = link_owner(calls.next, struct vault_call, link);

                link_remove(&call->link);
                call->done(call, error);
        }
}

static void on_limit(struct timer *timer) {
        client_finish(link_owner(timer, struct question, limit), -ETIMEDOUT);
}

/* The connection is over. Every waiting caller gets an error; its callback may ask again and is refused. */
static void client_disconnect(struct vault_client *client, const char *why) {
        if (client->fd < 0)
                return;

        log_debug("vault: %s", why);
        watch_stop(&client->watch);
        client->interest = 0;
        close(client->fd);
        client->fd = -1;
        vault_page_close(client->page);
        client->page = NULL;
        shelf_clear(&client->secrets);

        while (!link_is_empty(&client->asked))
                client_finish(link_owner(client->asked.next, struct question, link), -EPIPE);
}

/* out */

static int send_one(struct vault_client *client, struct question *question) {
        struct vault_message message = {
                .kind = question->kind, .id = question->id, .mapping = question->mapping, .authority = question->to
        };

        if (question->kind == VAULT_SIGN)
                message.data[0] = tls_context_public_key(client->keys);
        else if (question->kind == VAULT_SIGV4)
                for (size_t i = 0; i < 3; i++)
                        message.data[i] = question->scope[i];
        else if (question->kind == VAULT_KEEP) {
                message.data[0] = buf_str(&question->lines);
                message.number = question->number;
                message.part = question->fresh ? 1 : 0;
        }

        return vault_send(client->fd, GATEWAY_TO_VAULT, &message, -1);
}

static void on_watch(struct watch *w, unsigned ready);

static int listen_for(struct vault_client *client, unsigned interest) {
        if (client->interest == interest)
                return 0;
        client->interest = interest;
        return watch_start_level(client->loop, &client->watch, client->fd, interest, on_watch);
}

/* Those that were not sent yet are at the end of the list. */
static int send_waiting(struct vault_client *client) {
        int r = 0;
        for (struct link *l = client->asked.next; r == 0 && l != &client->asked; l = l->next) {
                struct question *question = link_owner(l, struct question, link);
                if (question->sent)
                        continue;

                r = send_one(client, question);
                question->sent = r == 0;
        }

        if (r == -EAGAIN)
                return listen_for(client, WATCH_READ | WATCH_WRITE);
        if (r < 0)
                return r;

        return listen_for(client, WATCH_READ);
}

static int client_ask(struct vault_client *client, const struct question *wanted, struct vault_call *call) {
        struct question key = *wanted;

        link_init(&call->link);
        int r = make_key(&key);
        if (r < 0)
                return r;
        if (client->fd < 0)
                return -EPIPE;

        struct question *question = map_get(&client->questions, key_of(&key));
        if (question) {
                link_append(&question->calls, &call->link);
                return 0;
        }

        question = client->n_asked < QUESTIONS_MAX ? malloc(sizeof *question) : NULL;
        if (!question)
                return -ENOMEM;

        *question = *wanted;
        make_key(question); /* its scope points into itself */
        question->client = client;
        question->id = ++client->last_id;
        link_init(&question->calls);
        timer_init(&question->limit, client->loop, on_limit);

        if (map_add(&client->questions, key_of(question), question) < 0) {
                free(question);
                return -ENOMEM;
        }

        link_append(&client->asked, &question->link);
        client->n_asked++;
        r = send_waiting(client);
        if (r < 0) {
                question->lines = BUF(0); /* still the caller's */
                client_forget(question);
                client_disconnect(client, "it does not listen");
                return -EPIPE;
        }

        link_append(&question->calls, &call->link);
        timer_start(&question->limit, client->ns);

        return 0;
}

int vault_ask_leaf(struct vault_client *client, const struct host *host, struct vault_call *call) {
        struct question question = { .kind = VAULT_SIGN, .to = { .host = *host } };
        return client_ask(client, &question, call);
}

int vault_ask_value(struct vault_client *client, uint32_t mapping, const struct authority *to,
                    struct vault_call *call) {
        struct question question = { .kind = VAULT_RELEASE, .mapping = mapping, .to = *to };
        return client_ask(client, &question, call);
}

int vault_ask_signing_key(struct vault_client *client, uint32_t mapping, const struct authority *to,
                          const struct vault_scope *scope, struct vault_call *call) {
        struct question question = { .kind = VAULT_SIGV4,
                                     .mapping = mapping,
                                     .to = *to,
                                     .scope = { scope->date, scope->region, scope->service } };
        return client_ask(client, &question, call);
}

int vault_ask_renew(struct vault_client *client, uint32_t mapping, const struct authority *to,
                    struct vault_call *call) {
        struct question question = { .kind = VAULT_RENEW, .mapping = mapping, .to = *to, .turn = ++client->last_turn };
        return client_ask(client, &question, call);
}

int vault_ask_keep(struct vault_client *client, uint32_t mapping, const struct authority *to, struct str lines,
                   uint64_t expires_in, bool fresh, struct vault_call *call) {
        struct question question = { .kind = VAULT_KEEP,
                                     .mapping = mapping,
                                     .to = *to,
                                     .turn = ++client->last_turn,
                                     .number = expires_in,
                                     .fresh = fresh,
                                     .lines = BUF(VAULT_ANSWER_MAX) };
        int r = buf_append(&question.lines, lines);

        if (r >= 0)
                r = client_ask(client, &question, call);
        if (r < 0 && question.lines.p) { /* nobody has taken it over */
                secret_wipe(question.lines.p, question.lines.cap);
                buf_done(&question.lines);
        }

        return r;
}

void vault_tell_leave(struct vault_client *client, uint32_t mapping) {
        struct vault_message message = { .kind = VAULT_LEAVE, .mapping = mapping };
        if (client->fd >= 0)
                (void)vault_send(client->fd, GATEWAY_TO_VAULT, &message, -1); /* it forgets by itself after a while */
}

void vault_tell_stale(struct vault_client *client, uint32_t mapping, uint64_t serial) {
        if (client->fd < 0)
                return;
        struct vault_message message = { .kind = VAULT_STALE, .mapping = mapping, .number = serial };
        (void)vault_send(client->fd, GATEWAY_TO_VAULT, &message, -1); /* a hint: the next refusal gives another one */
}

/* what is here */

static struct kept *client_find(struct shelf *shelf, struct question *question) {
        return make_key(question) < 0 ? NULL : shelf_find(shelf, key_of(question));
}

/* A secret whose serial is no longer the one on the page is dropped. */
static struct kept *find_current(struct vault_client *client, struct question *question, bool signing) {
        struct kept *kept = client_find(&client->secrets, question);
        if (!kept)
                return NULL;

        uint64_t serial = signing ? kept->signing.serial : kept->value.serial;

        if (client->page && question->mapping < client->page->n &&
            atomic_load_explicit(&client->page->serials[question->mapping], memory_order_acquire) == serial)
                return kept;

        shelf_drop(&client->secrets, kept);
        return NULL;
}

struct tls_leaf *vault_leaf(struct vault_client *client, const struct host *host) {
        struct question question = { .kind = VAULT_SIGN, .to = { .host = *host } };
        struct kept *kept = client_find(&client->leaves, &question);
        if (kept && !tls_leaf_is_current(kept->leaf)) {
                shelf_drop(&client->leaves, kept);
                kept = NULL;
        }
        return kept ? kept->leaf : NULL;
}

const struct vault_value *vault_value(struct vault_client *client, uint32_t mapping, const struct authority *to) {
        struct question question = { .kind = VAULT_RELEASE, .mapping = mapping, .to = *to };
        struct kept *kept = find_current(client, &question, false);
        return kept ? &kept->value : NULL;
}

const struct vault_signing_key *vault_signing_key(struct vault_client *client, uint32_t mapping,
                                                  const struct authority *to, const struct vault_scope *scope) {
        struct question question = { .kind = VAULT_SIGV4,
                                     .mapping = mapping,
                                     .to = *to,
                                     .scope = { scope->date, scope->region, scope->service } };
        struct kept *kept = find_current(client, &question, true);
        return kept ? &kept->signing : NULL;
}

/* in */

static int client_refusal(uint64_t number) {
        switch ((enum vault_refusal)number) {
        case VAULT_NOT_MAPPED:
        case VAULT_WRONG_TARGET:
                return -EACCES;
        case VAULT_NO_VALUE:
                return -ENOKEY;
        default:
                return -EIO;
        }
}

static int keep_leaf(struct vault_client *client, const struct question *question,
                     const struct vault_message *message) {
        struct tls_leaf *leaf;
        struct err e = { 0 };
        int r = tls_leaf_new(client->keys, message->data[0], &leaf, &e);
        if (r < 0) {
                log_warning("vault: %s", err_text(&e));
                if (r != -ENOMEM)
                        return -EIO;

                return r;
        }

        struct kept *kept = shelf_add(&client->leaves, key_of(question), 0);
        if (!kept) {
                tls_leaf_unref(leaf);
                return -ENOMEM;
        }

        kept->leaf = leaf;
        return 0;
}

static struct str put_aside(struct kept *kept, size_t *at, struct str piece) {
        char *to = kept->bytes + *at;
        if (piece.n > 0)
                memcpy(to, piece.p, piece.n);
        *at += piece.n;
        return str_n(to, piece.n);
}

static int keep_secret(struct vault_client *client, const struct question *question,
                       const struct vault_message *message) {
        size_t at = 0;
        uint64_t now = loop_now(client->loop);
        struct kept *kept =
            shelf_add(&client->secrets, key_of(question), message->data[0].n + message->data[1].n + message->data[2].n);
        if (!kept)
                return -ENOMEM;

        kept->mapping = question->mapping;

        if (question->kind == VAULT_RELEASE) {
                kept->value.bytes = put_aside(kept, &at, message->data[0]);
                kept->value.serial = message->number;
                past_add(client->past, question->mapping, PART_VALUE, kept->value.bytes, now);
        } else {
                kept->signing.key_id = put_aside(kept, &at, message->data[0]);
                kept->signing.key = put_aside(kept, &at, message->data[1]);
                kept->signing.token = put_aside(kept, &at, message->data[2]);
                kept->signing.serial = message->number;
                past_add(client->past, question->mapping, PART_KEY_ID, kept->signing.key_id, now);
                past_add(client->past, question->mapping, PART_SESSION_TOKEN, kept->signing.token, now);
        }

        return 0;
}

static struct question *find_question(struct vault_client *client, uint64_t id) {
        for (struct link *l = client->asked.next; l != &client->asked; l = l->next) {
                struct question *question = link_owner(l, struct question, link);
                if (question->id == id)
                        return question;
        }
        return NULL;
}

static uint32_t answer_to(uint32_t question) {
        switch (question) {
        case VAULT_SIGN:
                return VAULT_CERTIFICATE;
        case VAULT_RELEASE:
                return VAULT_SECRET;
        case VAULT_SIGV4:
                return VAULT_SIGNING_KEY;
        default:
                return VAULT_RENEWED;
        }
}

static int take_page(struct vault_client *client, int fd) {
        struct err e = { 0 };
        if (client->page)
                return -EPROTO;
        int r = vault_page_open(fd, &client->page, &e);
        if (r < 0)
                log_warning("vault: %s", err_text(&e));
        return r;
}

/* Negative: the connection cannot go on. */
static int client_take(struct vault_client *client, const struct vault_message *message, int fd) {
        if (message->kind == VAULT_HELLO)
                return take_page(client, fd);

        struct question *question = find_question(client, message->id);
        if (!question) {
                /* Its time was up, or nobody asked; an id that was never given out is somebody else's mistake. */
                if (message->id > 0 && message->id <= client->last_id)
                        return 0;
                return -EPROTO;
        }

        if (message->kind == VAULT_REFUSED) {
                client_finish(question, client_refusal(message->number));
                return 0;
        }

        if (message->kind != answer_to(question->kind))
                return -EPROTO;

        int r = 0;

        if (question->kind == VAULT_SIGN)
                r = keep_leaf(client, question, message);
        else if (message->kind != VAULT_RENEWED)
                r = keep_secret(client, question, message);

        client_finish(question, r);
        return 0;
}

static void on_watch(struct watch *w, unsigned ready) {
        struct vault_client *client = link_owner(w, struct vault_client, watch);
        if ((ready & WATCH_WRITE) && send_waiting(client) < 0) {
                client_disconnect(client, "it does not listen");
                return;
        }

        int mine = client->fd;
        for (int i = 0; i < 64 && client->fd == mine; i++) {
                struct vault_message message;
                cleanup(close_fd) int fd = -1;
                int r = vault_receive(client->fd, VAULT_TO_GATEWAY, client->room, &message, &fd);
                if (r == -EAGAIN)
                        return;

                bool good = r > 0 && client_take(client, &message, fd) == 0;
                secret_wipe(client->room, VAULT_MESSAGE_MAX);

                if (!good && client->fd == mine) {
                        client_disconnect(client, r == 0 ? "it has gone" : "a malformed message");
                        return;
                }
        }
}

/* beginning and end */

void vault_client_connect(struct vault_client *client, int fd) {
        client_disconnect(client, "another one takes its place");
        client->fd = fd;
        if (fd_set_nonblocking(fd, true) < 0 || listen_for(client, WATCH_READ) < 0)
                client_disconnect(client, "its socket cannot be used");
}

int vault_client_new(struct loop *loop, const struct tls_context *keys, struct past *past, uint64_t ns,
                     struct vault_client **ret) {
        struct vault_client *client = calloc(1, sizeof *client);
        struct err e = { 0 };

        if (!client)
                return -ENOMEM;

        if (secret_new_empty(VAULT_MESSAGE_MAX + SECRETS_BYTES, &client->locked, &e) < 0) {
                log_debug("vault: %s", err_text(&e));
                client->heap = malloc(VAULT_MESSAGE_MAX + SECRETS_BYTES);
        }

        if (client->locked)
                client->room = secret_bytes(client->locked);
        else
                client->room = client->heap;
        if (!client->room) {
                free(client);
                return -ENOMEM;
        }

        client->loop = loop;
        client->keys = keys;
        client->past = past;
        client->ns = ns;
        client->fd = -1;
        link_init(&client->asked);
        shelf_init(&client->leaves, LEAVES_MAX, NULL, 0);
        shelf_init(&client->secrets, SECRETS_MAX, client->room + VAULT_MESSAGE_MAX, SECRETS_BYTES);
        *ret = client;

        return 0;
}

void vault_client_free(struct vault_client *client) {
        if (!client)
                return;

        client_disconnect(client, "the worker ends");
        shelf_done(&client->leaves);
        shelf_done(&client->secrets);
        map_done(&client->questions, NULL);
        secret_free(client->locked);
        free(client->heap);
        free(client);
}
