/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-probe: see ipc/probe_messages.h. It knows stand-ins only; the real value passes through its origin's memory,
 * as through any origin's, and is compared there and shown nowhere.
 */
#include "base/base64.h"
#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/confine.h"
#include "base/processes/spawn_os.h"
#include "base/secrets/secret.h"
#include "ipc/probe_messages.h"
#include "vault/ca.h"
#include "vault/leaf.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 65536, SECONDS = 20 };

struct probe {
        struct probe_start start;
        struct probe_go go;
        struct probe_result result;
        SSL_CTX *server, *client;
        char head[HEAD_MAX]; /* what the origin got */
        size_t head_n;
};

static int probe_fail(struct probe *probe, const char *what) {
        if (!probe->result.text[0])
                snprintf(probe->result.text, sizeof probe->result.text, "%s", what);
        return -EPROTO;
}

static void set_limits(int fd) {
        const struct timeval limit = { .tv_sec = SECONDS };
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* The origin's identity: a CA and a leaf for the host, both for this one test. */
static int make_origin(struct probe *probe, struct err *err) {
        cleanup(ca_freep) struct ca *ca = NULL;
        cleanup(leaves_freep) struct leaves *leaves = NULL;
        EVP_PKEY *key = EVP_EC_gen("P-256");
        uint8_t *public = NULL;
        int n = key ? i2d_PUBKEY(key, &public) : 0;
        struct str leaf = { 0 };
        int r = n > 0 ? ca_new(VAULT_CA_P256, "probe", &ca, err) : err_set(err, EIO, "no key");

        if (r >= 0)
                r = leaves_new(ca, &leaves, err);
        if (r >= 0)
                r = leaves_get(leaves, &probe->start.origin.host, str_n(public, (size_t)n), &leaf, err);
        probe->server = SSL_CTX_new(TLS_server_method());

        if (r == 0 &&
            (!probe->server || SSL_CTX_use_certificate_ASN1(probe->server, (int)leaf.n, (const uint8_t *)leaf.p) != 1 ||
             SSL_CTX_use_PrivateKey(probe->server, key) != 1))
                r = err_set(err, EIO, "the origin cannot use its certificate");

        if (r == 0)
                r = fd_send(PROBE_FD_TALK, ca_certificate(ca), NULL, 0);

        OPENSSL_free(public);
        EVP_PKEY_free(key);

        return r;
}

/* One connection: takes the head, and repeats all of it in the answer. */
static void *probe_serve(void *arg) {
        struct probe *probe = arg;
        struct pollfd waiting = { .fd = PROBE_FD_LISTENER, .events = POLLIN };
        cleanup(close_fd) int fd =
            poll(&waiting, 1, SECONDS * 1000) == 1 ? accept4(PROBE_FD_LISTENER, NULL, NULL, SOCK_CLOEXEC) : -1;
        SSL *s = fd >= 0 ? SSL_new(probe->server) : NULL;
        if (!s)
                return NULL;

        set_limits(fd);
        SSL_set_fd(s, fd);

        if (SSL_accept(s) == 1)
                while (probe->head_n < HEAD_MAX && !memmem(probe->head, probe->head_n, "\r\n\r\n", 4)) {
                        int got = SSL_read(s, probe->head + probe->head_n, (int)(HEAD_MAX - probe->head_n));
                        if (got <= 0)
                                break;
                        probe->head_n += (size_t)got;
                }

        char answer[128];
        int n = snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                         probe->head_n);
        if (probe->head_n > 0 && SSL_write(s, answer, n) > 0)
                (void)SSL_write(s, probe->head, (int)probe->head_n);

        (void)SSL_shutdown(s);
        SSL_free(s);

        return NULL;
}

static int open_tunnel(struct probe *probe, int fd) {
        char text[AUTHORITY_TEXT_MAX], request[2 * AUTHORITY_TEXT_MAX + 64], answer[4096] = "";
        size_t n = 0;
        const struct sockaddr_in to = { .sin_family = AF_INET,
                                        .sin_port = htons(probe->go.proxy_port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

        authority_text(&probe->start.origin, text);
        snprintf(request, sizeof request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", text, text);
        if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 || fd_write_all(fd, request, strlen(request)) < 0)
                return probe_fail(probe, "the gateway cannot be reached");

        while (n < sizeof answer - 1 && !strstr(answer, "\r\n\r\n")) {
                ssize_t got = read(fd, answer + n, 1);
                if (got <= 0)
                        break;
                n++;
        }

        if (strncmp(answer, "HTTP/1.1 200", 12) != 0) {
                answer[strcspn(answer, "\r\n")] = '\0';
                snprintf(probe->result.text, sizeof probe->result.text, "the gateway refused: %.200s", answer);
                return -EPROTO;
        }

        return 0;
}

/* What the origin repeated must not come through: every line that has the value is compared as a whole. */
static bool is_hidden(const struct probe *probe, const char *answer, size_t n) {
        struct str rest = str_n(probe->head, probe->head_n), line;
        size_t marker = strlen(probe->start.marker);
        while (str_split(&rest, '\n', &line))
                if (line.n > marker + 8 && strncasecmp(line.p, probe->start.marker, marker) == 0 &&
                    memmem(answer, n, line.p + marker, line.n - 1 - marker))
                        return false;
        return true;
}

static int probe_ask(struct probe *probe, SSL *s) {
        static char answer[2 * HEAD_MAX];
        size_t n = 0;
        int got;

        if (SSL_connect(s) != 1)
                return probe_fail(probe, "the gateway's certificate is not accepted");

        probe->result.connected = 1;
        if (SSL_write(s, probe->start.request, (int)probe->start.request_n) <= 0)
                return probe_fail(probe, "the request could not be sent");

        while (n < sizeof answer && (got = SSL_read(s, answer + n, (int)(sizeof answer - n))) > 0)
                n += (size_t)got;

        if (n < 12 || memcmp(answer, "HTTP/1.1 200", 12) != 0) {
                size_t line = 0;
                while (line < n && answer[line] != '\r')
                        line++;
                snprintf(probe->result.text, sizeof probe->result.text, "the answer was: %.*s", (int)min_of(line, 200),
                         answer);
        }

        probe->result.hidden = is_hidden(probe, answer, n);
        return 0;
}

static int run_client(struct probe *probe) {
        const uint8_t *der = (const uint8_t *)probe->go.ca;
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        probe->client = SSL_CTX_new(TLS_client_method());
        X509 *root = d2i_X509(NULL, &der, probe->go.ca_n);
        SSL *s = probe->client ? SSL_new(probe->client) : NULL;
        int r = fd >= 0 && root && s ? 0 : probe_fail(probe, "the client cannot be made");
        if (r == 0) {
                set_limits(fd);
                X509_STORE_add_cert(SSL_CTX_get_cert_store(probe->client), root);
                SSL_set_verify(s, SSL_VERIFY_PEER, NULL);
                SSL_set1_host(s, probe->start.origin.host.name);
                SSL_set_tlsext_host_name(s, probe->start.origin.host.name);
                r = open_tunnel(probe, fd);
        }

        if (r == 0) {
                SSL_set_fd(s, fd);
                r = probe_ask(probe, s);
        }

        SSL_free(s);
        X509_free(root);

        return r;
}

/* The stand-in as it is or inside Basic; and in its place something that is as long as a secret. */
static void probe_judge(struct probe *probe) {
        struct str stand_in = str_of(probe->start.stand_in), rest = str_n(probe->head, probe->head_n), line;
        size_t marker = strlen(probe->start.marker);
        bool value = false;

        probe->result.arrived = probe->head_n > 0;
        bool present = memmem(probe->head, probe->head_n, stand_in.p, stand_in.n) != NULL;

        for (unsigned before = 0; before < 3; before++) {
                static char inner[2 * PROBE_STAND_IN_MAX];
                size_t n = base64_inner(stand_in, before, BASE64_STANDARD, inner);

                present |= n > 8 && memmem(probe->head, probe->head_n, inner, n);
        }

        while (str_split(&rest, '\n', &line))
                value |= line.n > marker + 8 && strncasecmp(line.p, probe->start.marker, marker) == 0;

        probe->result.swapped = probe->result.arrived && value && !present;
}

static int read_start(struct probe *probe, struct err *err) {
        if (pread(PROBE_FD_START, &probe->start, sizeof probe->start, 0) != (ssize_t)sizeof probe->start ||
            probe->start.version != PROBE_VERSION || probe->start.size != sizeof probe->start ||
            probe->start.request_n > sizeof probe->start.request ||
            strnlen(probe->start.stand_in, PROBE_STAND_IN_MAX) == PROBE_STAND_IN_MAX ||
            strnlen(probe->start.marker, sizeof probe->start.marker) == sizeof probe->start.marker)
                return err_set(err, EPROTO, "bailey-probe is started by bailey, not by hand");
        return 0;
}

int main(void) {
        static struct probe probe;
        struct err err = { 0 };
        pthread_t server;
        size_t none = 0;

        signal(SIGPIPE, SIG_IGN);
        spawn_end_with_parent();
        int r = confine_memory(&err);
        if (r >= 0)
                r = read_start(&probe, &err);
        if (r >= 0)
                r = make_origin(&probe, &err);
        if (r == 0 &&
            (fd_receive(PROBE_FD_TALK, &probe.go, sizeof probe.go, NULL, 0, &none) != (ssize_t)sizeof probe.go ||
             probe.go.ca_n > PROBE_CA_MAX))
                r = err_set(&err, EPROTO, "no word to go");

        if (r < 0 || pthread_create(&server, NULL, probe_serve, &probe) != 0) {
                dprintf(2, "bailey-probe: %s\n", err_text(&err));
                return 70;
        }

        (void)run_client(&probe);
        if (!probe.result.connected) /* then nobody connects to the origin either */
                shutdown(PROBE_FD_LISTENER, SHUT_RDWR);

        pthread_join(server, NULL);
        probe_judge(&probe);
        secret_wipe(probe.head, sizeof probe.head);

        for (char *c = probe.result.text; *c; c++)
                if (*c < 0x20 || *c > 0x7e)
                        *c = '?';

        r = fd_send(PROBE_FD_TALK, str_n(&probe.result, sizeof probe.result), NULL, 0);
        SSL_CTX_free(probe.server);
        SSL_CTX_free(probe.client);

        if (r < 0)
                return 70;

        return 0;
}
