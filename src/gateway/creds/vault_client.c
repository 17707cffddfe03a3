/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust: the vault is trusted with its answers, yet every message is checked (ipc/vault.h); one that is malformed, or
 * that answers a question which nobody asked, ends the connection, and the supervisor brings another.
 *
 * A question is named by its key: the kind, the mapping and the target, and for a signing key its scope. The same key
 * names the answer on its shelf. Questions that do not fit the socket wait in order. Each has a time limit.
 *
 * Secrets lie in locked memory while they count (base/secret.h), at most SECRETS_MAX of them in SECRETS_BYTES, and are
 * wiped when they are dropped. Where so little cannot be locked, it is the heap; the process is not dumpable either
 * way. Copies of them that others make for a request are wiped by those.
 */
#include "gateway/creds/vault_client.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
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
static int make_key(struct question *q) {
        struct buf key = { .p = q->key, .cap = sizeof q->key, .max = sizeof q->key };
        const struct { uint32_t kind, mapping, port, turn; } numbers = { q->kind, q->mapping, q->to.port, q->turn };
        int r = buf_append(&key, str_n(&numbers, sizeof numbers));
        if (r == 0)
                r = buf_append(&key, host_str(&q->to.host));
        for (size_t i = 0; r == 0 && i < 3; i++) {
                r = buf_add_char(&key, '\0');
                size_t at = key.n;
                if (r == 0 && q->scope[i].n > 0)
                        r = buf_append(&key, q->scope[i]);
                q->scope[i].p = q->key + at;
        }
        q->key_n = key.n;
        return r < 0 ? -EINVAL : 0;
}

static struct str key_of(const struct question *q) {
        return str_n(q->key, q->key_n);
}

/* questions */

static void forget(struct question *q) {
        struct vault_client *v = q->client;
        timer_stop(&q->limit);
        map_remove(&v->questions, key_of(q));
        link_remove(&q->link);
        v->n_asked--;
        if (q->lines.p)
                secret_wipe(q->lines.p, q->lines.cap);
        buf_done(&q->lines);
        free(q);
}

static void finish(struct question *q, int error) {
        struct link calls;
        link_take_all(&q->calls, &calls);
        forget(q);
        while (!link_is_empty(&calls)) {
                struct vault_call *c = link_owner(calls.next, struct vault_call, link);
                link_remove(&c->link);
                c->done(c, error);
        }
}

static void on_limit(struct timer *t) {
        finish(link_owner(t, struct question, limit), -ETIMEDOUT);
}

/* The connection is over. Whoever waits is told; the callbacks may ask again and are refused then. */
static void disconnect(struct vault_client *v, const char *why) {
        if (v->fd < 0)
                return;
        log_debug("vault: %s", why);
        watch_stop(&v->watch);
        v->interest = 0;
        close(v->fd);
        v->fd = -1;
        vault_page_close(v->page);
        v->page = NULL;
        shelf_clear(&v->secrets);
        while (!link_is_empty(&v->asked))
                finish(link_owner(v->asked.next, struct question, link), -EPIPE);
}

/* out */

static int send_one(struct vault_client *v, struct question *q) {
        struct vault_message m = { .kind = q->kind, .id = q->id, .mapping = q->mapping, .authority = q->to };
        if (q->kind == VAULT_SIGN)
                m.data[0] = tls_context_public_key(v->keys);
        else if (q->kind == VAULT_SIGV4)
                for (size_t i = 0; i < 3; i++)
                        m.data[i] = q->scope[i];
        else if (q->kind == VAULT_KEEP) {
                m.data[0] = buf_str(&q->lines);
                m.number = q->number;
                m.part = q->fresh ? 1 : 0;
        }
        return vault_send(v->fd, GATEWAY_TO_VAULT, &m, -1);
}

static void on_watch(struct watch *w, unsigned ready);

static int listen_for(struct vault_client *v, unsigned interest) {
        if (v->interest == interest)
                return 0;
        v->interest = interest;
        return watch_start_level(v->loop, &v->watch, v->fd, interest, on_watch);
}

/* Those that were not sent yet are at the end of the list. */
static int send_waiting(struct vault_client *v) {
        int r = 0;
        for (struct link *l = v->asked.next; r == 0 && l != &v->asked; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->sent)
                        continue;
                r = send_one(v, q);
                q->sent = r == 0;
        }
        return r < 0 && r != -EAGAIN ? r : listen_for(v, WATCH_READ | (r == -EAGAIN ? WATCH_WRITE : 0u));
}

static int ask(struct vault_client *v, const struct question *wanted, struct vault_call *c) {
        struct question key = *wanted;
        link_init(&c->link);
        int r = make_key(&key);
        if (r < 0)
                return r;
        if (v->fd < 0)
                return -EPIPE;
        struct question *q = map_get(&v->questions, key_of(&key));
        if (q) {
                link_append(&q->calls, &c->link);
                return 0;
        }
        q = v->n_asked < QUESTIONS_MAX ? malloc(sizeof *q) : NULL;
        if (!q)
                return -ENOMEM;
        *q = *wanted;
        make_key(q); /* its scope points into itself */
        q->client = v;
        q->id = ++v->last_id;
        link_init(&q->calls);
        timer_init(&q->limit, v->loop, on_limit);
        if (map_add(&v->questions, key_of(q), q) < 0) {
                free(q);
                return -ENOMEM;
        }
        link_append(&v->asked, &q->link);
        v->n_asked++;
        r = send_waiting(v);
        if (r < 0) {
                q->lines = BUF(0); /* still the caller's */
                forget(q);
                disconnect(v, "it does not listen");
                return -EPIPE;
        }
        link_append(&q->calls, &c->link);
        timer_start(&q->limit, v->ns);
        return 0;
}

int vault_ask_leaf(struct vault_client *v, const struct host *h, struct vault_call *c) {
        struct question q = { .kind = VAULT_SIGN, .to = { .host = *h } };
        return ask(v, &q, c);
}

int vault_ask_value(struct vault_client *v, uint32_t mapping, const struct authority *to, struct vault_call *c) {
        struct question q = { .kind = VAULT_RELEASE, .mapping = mapping, .to = *to };
        return ask(v, &q, c);
}

int vault_ask_signing_key(struct vault_client *v, uint32_t mapping, const struct authority *to,
                          const struct vault_scope *scope, struct vault_call *c) {
        struct question q = { .kind = VAULT_SIGV4,
                              .mapping = mapping,
                              .to = *to,
                              .scope = { scope->date, scope->region, scope->service } };
        return ask(v, &q, c);
}

int vault_ask_renew(struct vault_client *v, uint32_t mapping, const struct authority *to, struct vault_call *c) {
        struct question q = { .kind = VAULT_RENEW, .mapping = mapping, .to = *to, .turn = ++v->last_turn };
        return ask(v, &q, c);
}

int vault_ask_keep(struct vault_client *v, uint32_t mapping, const struct authority *to, struct str lines,
                   uint64_t expires_in, bool fresh, struct vault_call *c) {
        struct question q = { .kind = VAULT_KEEP,
                              .mapping = mapping,
                              .to = *to,
                              .turn = ++v->last_turn,
                              .number = expires_in,
                              .fresh = fresh,
                              .lines = BUF(VAULT_ANSWER_MAX) };
        int r = buf_append(&q.lines, lines);
        r = r < 0 ? r : ask(v, &q, c);
        if (r < 0 && q.lines.p) { /* nobody has taken it over */
                secret_wipe(q.lines.p, q.lines.cap);
                buf_done(&q.lines);
        }
        return r;
}

void vault_tell_leave(struct vault_client *v, uint32_t mapping) {
        struct vault_message m = { .kind = VAULT_LEAVE, .mapping = mapping };
        if (v->fd >= 0)
                (void)vault_send(v->fd, GATEWAY_TO_VAULT, &m, -1); /* it forgets by itself after a while */
}

void vault_tell_stale(struct vault_client *v, uint32_t mapping, uint64_t serial) {
        if (v->fd < 0)
                return;
        struct vault_message m = { .kind = VAULT_STALE, .mapping = mapping, .number = serial };
        (void)vault_send(v->fd, GATEWAY_TO_VAULT, &m, -1); /* a hint: the next refusal gives another one */
}

/* what is here */

static struct kept *find(struct shelf *s, struct question *q) {
        return make_key(q) < 0 ? NULL : shelf_find(s, key_of(q));
}

/* A secret whose serial is no longer the one on the page is dropped. */
static struct kept *find_current(struct vault_client *v, struct question *q, bool signing) {
        struct kept *k = find(&v->secrets, q);
        if (!k)
                return NULL;
        uint64_t serial = signing ? k->signing.serial : k->value.serial;
        if (v->page && q->mapping < v->page->n &&
            atomic_load_explicit(&v->page->serials[q->mapping], memory_order_acquire) == serial)
                return k;
        shelf_drop(&v->secrets, k);
        return NULL;
}

struct tls_leaf *vault_leaf(struct vault_client *v, const struct host *h) {
        struct question q = { .kind = VAULT_SIGN, .to = { .host = *h } };
        struct kept *k = find(&v->leaves, &q);
        if (k && !tls_leaf_is_current(k->leaf)) {
                shelf_drop(&v->leaves, k);
                k = NULL;
        }
        return k ? k->leaf : NULL;
}

const struct vault_value *vault_value(struct vault_client *v, uint32_t mapping, const struct authority *to) {
        struct question q = { .kind = VAULT_RELEASE, .mapping = mapping, .to = *to };
        struct kept *k = find_current(v, &q, false);
        return k ? &k->value : NULL;
}

const struct vault_signing_key *vault_signing_key(struct vault_client *v, uint32_t mapping, const struct authority *to,
                                                  const struct vault_scope *scope) {
        struct question q = { .kind = VAULT_SIGV4,
                              .mapping = mapping,
                              .to = *to,
                              .scope = { scope->date, scope->region, scope->service } };
        struct kept *k = find_current(v, &q, true);
        return k ? &k->signing : NULL;
}

/* in */

static int refusal(uint64_t number) {
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

static int keep_leaf(struct vault_client *v, const struct question *q, const struct vault_message *m) {
        struct tls_leaf *leaf;
        struct err e = { 0 };
        int r = tls_leaf_new(v->keys, m->data[0], &leaf, &e);
        if (r < 0) {
                log_warning("vault: %s", err_text(&e));
                return r == -ENOMEM ? r : -EIO;
        }
        struct kept *k = shelf_add(&v->leaves, key_of(q), 0);
        if (!k) {
                tls_leaf_unref(leaf);
                return -ENOMEM;
        }
        k->leaf = leaf;
        return 0;
}

static struct str put_aside(struct kept *k, size_t *at, struct str piece) {
        char *to = k->bytes + *at;
        if (piece.n > 0)
                memcpy(to, piece.p, piece.n);
        *at += piece.n;
        return str_n(to, piece.n);
}

static int keep_secret(struct vault_client *v, const struct question *q, const struct vault_message *m) {
        size_t at = 0;
        uint64_t now = loop_now(v->loop);
        struct kept *k = shelf_add(&v->secrets, key_of(q), m->data[0].n + m->data[1].n + m->data[2].n);
        if (!k)
                return -ENOMEM;
        k->mapping = q->mapping;
        if (q->kind == VAULT_RELEASE) {
                k->value.bytes = put_aside(k, &at, m->data[0]);
                k->value.serial = m->number;
                past_add(v->past, q->mapping, PART_VALUE, k->value.bytes, now);
        } else {
                k->signing.key_id = put_aside(k, &at, m->data[0]);
                k->signing.key = put_aside(k, &at, m->data[1]);
                k->signing.token = put_aside(k, &at, m->data[2]);
                k->signing.serial = m->number;
                past_add(v->past, q->mapping, PART_KEY_ID, k->signing.key_id, now);
                past_add(v->past, q->mapping, PART_SESSION_TOKEN, k->signing.token, now);
        }
        return 0;
}

static struct question *find_question(struct vault_client *v, uint64_t id) {
        for (struct link *l = v->asked.next; l != &v->asked; l = l->next) {
                struct question *q = link_owner(l, struct question, link);
                if (q->id == id)
                        return q;
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

static int take_page(struct vault_client *v, int fd) {
        struct err e = { 0 };
        if (v->page)
                return -EPROTO;
        int r = vault_page_open(fd, &v->page, &e);
        if (r < 0)
                log_warning("vault: %s", err_text(&e));
        return r;
}

/* Negative: the connection cannot go on. */
static int take(struct vault_client *v, const struct vault_message *m, int fd) {
        if (m->kind == VAULT_HELLO)
                return take_page(v, fd);
        struct question *q = find_question(v, m->id);
        if (!q) /* its time was up, or nobody asked; an id that was never given out is somebody else's mistake */
                return m->id > 0 && m->id <= v->last_id ? 0 : -EPROTO;
        if (m->kind == VAULT_REFUSED) {
                finish(q, refusal(m->number));
                return 0;
        }
        if (m->kind != answer_to(q->kind))
                return -EPROTO;
        int r = 0;
        if (q->kind == VAULT_SIGN)
                r = keep_leaf(v, q, m);
        else if (m->kind != VAULT_RENEWED)
                r = keep_secret(v, q, m);
        finish(q, r);
        return 0;
}

static void on_watch(struct watch *w, unsigned ready) {
        struct vault_client *v = link_owner(w, struct vault_client, watch);
        if ((ready & WATCH_WRITE) && send_waiting(v) < 0) {
                disconnect(v, "it does not listen");
                return;
        }
        int mine = v->fd;
        for (int i = 0; i < 64 && v->fd == mine; i++) {
                struct vault_message m;
                cleanup(close_fd) int fd = -1;
                int r = vault_receive(v->fd, VAULT_TO_GATEWAY, v->room, &m, &fd);
                if (r == -EAGAIN)
                        return;
                bool good = r > 0 && take(v, &m, fd) == 0;
                secret_wipe(v->room, VAULT_MESSAGE_MAX);
                if (!good && v->fd == mine) {
                        disconnect(v, r == 0 ? "it has gone" : "a malformed message");
                        return;
                }
        }
}

/* beginning and end */

void vault_client_connect(struct vault_client *v, int fd) {
        disconnect(v, "another one takes its place");
        v->fd = fd;
        if (fd_set_nonblocking(fd, true) < 0 || listen_for(v, WATCH_READ) < 0)
                disconnect(v, "its socket cannot be used");
}

int vault_client_new(struct loop *l, const struct tls_context *keys, struct past *past, uint64_t ns,
                     struct vault_client **ret) {
        struct vault_client *v = calloc(1, sizeof *v);
        struct err e = { 0 };
        if (!v)
                return -ENOMEM;
        if (secret_new_empty(VAULT_MESSAGE_MAX + SECRETS_BYTES, &v->locked, &e) < 0) {
                log_debug("vault: %s", err_text(&e));
                v->heap = malloc(VAULT_MESSAGE_MAX + SECRETS_BYTES);
        }
        v->room = v->locked ? secret_bytes(v->locked) : v->heap;
        if (!v->room) {
                free(v);
                return -ENOMEM;
        }
        v->loop = l;
        v->keys = keys;
        v->past = past;
        v->ns = ns;
        v->fd = -1;
        link_init(&v->asked);
        shelf_init(&v->leaves, LEAVES_MAX, NULL, 0);
        shelf_init(&v->secrets, SECRETS_MAX, v->room + VAULT_MESSAGE_MAX, SECRETS_BYTES);
        *ret = v;
        return 0;
}

void vault_client_free(struct vault_client *v) {
        if (!v)
                return;
        disconnect(v, "the worker ends");
        shelf_done(&v->leaves);
        shelf_done(&v->secrets);
        map_done(&v->questions, NULL);
        secret_free(v->locked);
        free(v->heap);
        free(v);
}
