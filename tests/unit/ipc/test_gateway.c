/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/gateway_messages.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../cmocka_all.h"

static void pair(int fds[2]) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
}

static struct authority authority(const char *text) {
        struct authority a;
        assert_int_equal(authority_parse(str_of(text), 0, &a, NULL), 0);
        return a;
}

static void each_kind_arrives(void **state) {
        (void)state;
        int s[2];
        pair(s);
        const struct {
                enum ipc_side from;
                struct ipc_message m;
                bool fd;
        } cases[] = {
                { IPC_SUPERVISOR, { .kind = IPC_SNAPSHOT, .number = 2 }, true },
                { IPC_SUPERVISOR, { .kind = IPC_AUDIT, .number = 1 }, false },
                { IPC_SUPERVISOR, { .kind = IPC_ANSWER, .id = 5, .number = DECISION_ALLOW }, false },
                { IPC_SUPERVISOR, { .kind = IPC_STOP }, false },
                { IPC_SUPERVISOR, { .kind = IPC_VAULT, .number = 3 }, true },
                { IPC_GATEWAY, { .kind = IPC_READY }, false },
                { IPC_GATEWAY, { .kind = IPC_SWAPPED, .number = 2 }, false },
                { IPC_GATEWAY,
                  { .kind = IPC_ASK, .id = 5, .number = VIA_CONNECT, .authority = authority("a.test:443") },
                  false },
                { IPC_GATEWAY,
                  { .kind = IPC_ASK, .id = 6, .number = VIA_SOCKS5, .authority = authority("[2001:db8::1]:1") },
                  false },
                { IPC_GATEWAY, { .kind = IPC_ASK_GONE, .id = 5, .number = 1 }, false },
                { IPC_GATEWAY, { .kind = IPC_FAILED, .text = "no such file" }, false },
        };
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct ipc_message got;
                cleanup(close_fd) int fd = -1;
                assert_int_equal(ipc_send(s[0], cases[i].from, &cases[i].m, cases[i].fd ? 0 : -1), 0);
                assert_int_equal(ipc_receive(s[1], cases[i].from, &got, &fd), 1);
                assert_int_equal(got.kind, cases[i].m.kind);
                assert_int_equal(got.id, cases[i].m.id);
                assert_int_equal(got.number, cases[i].m.number);
                assert_int_equal(fd >= 0, cases[i].fd);
                assert_string_equal(got.text, cases[i].m.text);
                assert_int_equal(got.authority.port, cases[i].m.authority.port);
                assert_string_equal(got.authority.host.name, cases[i].m.authority.host.name);

                /* The same message does not pass in the other direction. */
                enum ipc_side other = cases[i].from == IPC_GATEWAY ? IPC_SUPERVISOR : IPC_GATEWAY;
                assert_int_equal(ipc_send(s[0], other, &cases[i].m, cases[i].fd ? 0 : -1), -EINVAL);
                assert_int_equal(ipc_send(s[0], cases[i].from, &cases[i].m, cases[i].fd ? 0 : -1), 0);
                assert_int_equal(ipc_receive(s[1], other, &got, &fd), -EBADMSG);
        }
        struct ipc_message got;
        int fd = -1;
        assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), -EAGAIN);
        close(s[0]);
        assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), 0);
        close(s[1]);
}

/* Sent as raw bytes, as a gateway in other hands would. */
static void hostile_messages_are_refused(void **state) {
        (void)state;
        int s[2];
        pair(s);
        const struct ipc_message good = { .version = IPC_VERSION,
                                          .kind = IPC_ASK,
                                          .id = 1,
                                          .number = VIA_CONNECT,
                                          .authority = authority("a.test:443") };
        struct ipc_message bad[12];
        for (size_t i = 0; i < 12; i++)
                bad[i] = good;
        bad[0].version++;
        bad[1].kind = 0;
        bad[2].kind = IPC_KINDS;
        bad[3].kind = UINT32_MAX;
        bad[4].number = VIAS;
        bad[5].authority.port = 0;
        bad[6].authority.host.name_n = 255;
        memset(bad[7].authority.host.name, 'a', sizeof bad[7].authority.host.name);
        bad[8].authority.host.name[0] = '\x1b';
        bad[9].authority.host.name[0] = 'A';
        bad[10].authority.host.kind = HOST_ADDR;
        bad[11].kind = IPC_FAILED;
        memset(bad[11].text, '\n', 3);
        struct ipc_message got;
        int fd = -1;
        for (size_t i = 0; i < 12; i++) {
                assert_int_equal(fd_send(s[0], str_n(&bad[i], sizeof bad[i]), NULL, 0), 0);
                assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), -EBADMSG);
        }
        /* Too short, too long, and with descriptors that do not belong to it: none of which may stay open. */
        char longer[sizeof good + 1] = { 0 };
        memcpy(longer, &good, sizeof good);
        assert_int_equal(fd_send(s[0], str_n(&good, sizeof good - 1), NULL, 0), 0);
        assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), -EBADMSG);
        assert_int_equal(fd_send(s[0], str_n(longer, sizeof longer), NULL, 0), 0);
        assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), -EBADMSG);
        int lowest = dup(0);
        close(lowest);
        const int extra[2] = { 0, 1 };
        for (size_t n = 1; n <= 2; n++) {
                assert_int_equal(fd_send(s[0], str_n(&good, sizeof good), extra, n), 0);
                assert_int_equal(ipc_receive(s[1], IPC_GATEWAY, &got, &fd), -EBADMSG);
        }
        int again = dup(0);
        assert_int_equal(again, lowest);
        close(again);
        /* A snapshot without its descriptor. */
        const struct ipc_message snapshot = { .version = IPC_VERSION, .kind = IPC_SNAPSHOT };
        assert_int_equal(fd_send(s[0], str_n(&snapshot, sizeof snapshot), NULL, 0), 0);
        assert_int_equal(ipc_receive(s[1], IPC_SUPERVISOR, &got, &fd), -EBADMSG);
        assert_int_equal(fd, -1);
        close(s[0]);
        close(s[1]);
}

static void full_socket_says_again(void **state) {
        (void)state;
        int s[2], r, n = 0;
        pair(s);
        const struct ipc_message m = { .kind = IPC_STOP };
        while ((r = ipc_send(s[0], IPC_SUPERVISOR, &m, -1)) == 0 && n < 100000)
                n++;
        assert_int_equal(r, -EAGAIN);
        close(s[1]);
        assert_int_equal(ipc_send(s[0], IPC_SUPERVISOR, &m, -1), -EPIPE);
        close(s[0]);
}

static struct gateway_start valid_start(void) {
        struct gateway_start s;
        gateway_start_init(&s);
        s.n_listeners = 2;
        s.listeners[0].kind = LISTENER_HTTP;
        s.listeners[1] = (struct gateway_listener){ LISTENER_FORWARD, 8080 };
        return s;
}

static void start_block_is_checked(void **state) {
        (void)state;
        struct gateway_start s = valid_start(), got;
        struct err e = { 0 };
        cleanup(close_fd) int fd = -1;
        assert_int_equal(gateway_start_seal(&s, &fd, &e), 0);
        assert_int_equal(gateway_start_read(fd, &got, &e), 0);
        assert_memory_equal(&s, &got, sizeof s);

#define BAD(change)                                                                                                    \
        do {                                                                                                           \
                s = valid_start();                                                                                     \
                change;                                                                                                \
                err_clear(&e);                                                                                         \
                assert_true(gateway_start_check(&s, &e) < 0);                                                          \
                assert_true(e.text[0] != '\0');                                                                        \
        } while (0)
        BAD(s.version++);
        BAD(s.size--);
        BAD(s.n_listeners = 0);
        BAD(s.n_listeners = GATEWAY_LISTENERS_MAX + 1);
        BAD(s.listeners[0].kind = LISTENER_KINDS);
        BAD(s.listeners[0].forward_port = 1);
        BAD(s.listeners[1].forward_port = 0);
        BAD(s.dns_mode = DNS_MODES);
        BAD(s.workers = GATEWAY_WORKERS_MAX + 1);
        BAD(s.intercept = 2);
        BAD(s.workers = s.n_vaults = 2);
        BAD((s.intercept = 1, s.workers = 2, s.n_vaults = 1));
        BAD(s.n_servers = GATEWAY_SERVERS_MAX + 1);
        BAD(s.n_servers = 1);
        BAD(s.upstream_kind = UPSTREAM_KINDS);
        BAD(s.upstream_kind = UPSTREAM_HTTP);
        BAD(s.header_ns = 0);
        BAD(s.header_bytes = 10);
        BAD(memset(s.ca_bundle, 'x', sizeof s.ca_bundle));
        BAD(memset(s.sandbox_id, 'x', sizeof s.sandbox_id));

        /* A secret for clients: one that is long and plain, and only where each listener can ask for it. */
        BAD(memset(s.client_secret, 'x', PROXY_SECRET_MIN)); /* and a listener that forwards */
#define BAD_SECRET(change) BAD((s.n_listeners = 1, memset(s.client_secret, 'x', PROXY_SECRET_MIN), change))
        BAD_SECRET(s.client_secret[PROXY_SECRET_MIN - 1] = '\0');
        BAD_SECRET(s.client_secret[3] = '@');
        BAD_SECRET(memset(s.client_secret, 'x', sizeof s.client_secret));
        BAD_SECRET(s.listeners[0].kind = LISTENER_DNS_UDP);
        BAD_SECRET(s.listeners[0].kind = LISTENER_DNS_TCP);
        BAD_SECRET(s.listeners[0].kind = LISTENER_TRANSPARENT);
        BAD_SECRET(s.listeners[0].kind = LISTENER_API);
#undef BAD_SECRET
#undef BAD
        s = valid_start();
        s.n_listeners = 1;
        memset(s.client_secret, 'x', PROXY_SECRET_MIN);
        assert_int_equal(gateway_start_check(&s, &e), 0);
}

static void unsealed_start_block_is_refused(void **state) {
        (void)state;
        struct gateway_start s = valid_start(), got;
        struct err e = { 0 };
        FILE *f = tmpfile();
        assert_non_null(f);
        assert_int_equal(fwrite(&s, sizeof s, 1, f), 1);
        fflush(f);
        assert_int_equal(gateway_start_read(fileno(f), &got, &e), -EPROTO);
        fclose(f);
        cleanup(close_fd) int fd = -1;
        assert_int_equal(fd_sealed("short", str_n(&s, sizeof s - 1), &fd, &e), 0);
        assert_int_equal(gateway_start_read(fd, &got, &e), -EPROTO);
}

static void names(void **state) {
        (void)state;
        assert_string_equal(ipc_kind_name(IPC_SWAPPED), "swapped");
        assert_null(ipc_kind_name(IPC_KINDS));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind_arrives),
                cmocka_unit_test(hostile_messages_are_refused),
                cmocka_unit_test(full_socket_says_again),
                cmocka_unit_test(start_block_is_checked),
                cmocka_unit_test(unsealed_start_block_is_refused),
                cmocka_unit_test(names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
