/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions of origins, of one loop: a resumed handshake costs half. The newest of each key is kept. It serves any
 * number of connections, as servers with tickets permit: single use would gain a proxy no privacy. A resumed handshake
 * does not check the certificate again, so a session expires with the certificate it was made with, and after an hour
 * at most.
 */
#include "net/tls_internal.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { SESSIONS_MAX = 1024, SESSION_SECONDS = 3600 };

struct entry {
        struct link link; /* the one used last is at the end */
        SSL_SESSION *session;
        size_t key_n;
        char key[];
};

struct tls_sessions {
        struct map entries;
        struct link order;
};

struct tls_sessions *tls_sessions_new(void) {
        struct tls_sessions *sessions = calloc(1, sizeof *sessions);
        if (sessions)
                link_init(&sessions->order);
        return sessions;
}

static void session_drop(struct tls_sessions *sessions, struct entry *entry) {
        map_remove(&sessions->entries, str_n(entry->key, entry->key_n));
        link_remove(&entry->link);
        SSL_SESSION_free(entry->session);
        free(entry);
}

void tls_sessions_free(struct tls_sessions *sessions) {
        if (!sessions)
                return;
        while (!link_is_empty(&sessions->order))
                session_drop(sessions, link_owner(sessions->order.next, struct entry, link));
        map_done(&sessions->entries, NULL);
        free(sessions);
}

static time_t session_begin(const SSL_SESSION *session) {
#if OPENSSL_VERSION_NUMBER >= 0x30300000L
        return SSL_SESSION_get_time_ex(session);
#else
        return SSL_SESSION_get_time(session);
#endif
}

static bool is_current(const SSL_SESSION *session) {
        X509 *peer = SSL_SESSION_get0_peer((SSL_SESSION *)session);
        time_t age = time(NULL) - session_begin(session);
        return SSL_SESSION_is_resumable(session) && age >= 0 && age < SESSION_SECONDS && peer &&
               X509_cmp_current_time(X509_get0_notAfter(peer)) > 0;
}

SSL_SESSION *tls_sessions_find(struct tls_sessions *sessions, struct str key) {
        struct entry *entry = map_get(&sessions->entries, key);
        if (!entry)
                return NULL;

        if (!is_current(entry->session)) {
                session_drop(sessions, entry);
                return NULL;
        }

        link_remove(&entry->link);
        link_append(&sessions->order, &entry->link);

        return entry->session;
}

void tls_sessions_store(struct tls_sessions *sessions, struct str key, SSL_SESSION *session) {
        struct entry *entry = map_get(&sessions->entries, key);
        if (entry) {
                SSL_SESSION_free(entry->session);
                entry->session = session;
                link_remove(&entry->link);
                link_append(&sessions->order, &entry->link);

                return;
        }

        if (sessions->entries.n >= SESSIONS_MAX)
                session_drop(sessions, link_owner(sessions->order.next, struct entry, link));

        entry = malloc(sizeof *entry + key.n);
        if (!entry || map_add(&sessions->entries, key, entry) < 0) {
                SSL_SESSION_free(session);
                free(entry);
                return;
        }

        entry->session = session;
        entry->key_n = key.n;
        memcpy(entry->key, key.p, key.n);
        link_append(&sessions->order, &entry->link);
}

void tls_sessions_drop(struct tls_sessions *sessions, struct str key) {
        struct entry *entry = map_get(&sessions->entries, key);
        if (entry)
                session_drop(sessions, entry);
}
