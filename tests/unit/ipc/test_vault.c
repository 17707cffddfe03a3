/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/vault_messages.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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

static struct authority host_only(const char *text) {
        struct authority a = authority(text);
        a.port = 0;
        return a;
}

static char room[VAULT_MESSAGE_MAX];

struct sample {
        enum vault_way way;
        struct vault_message m;
        bool fd;
};

static void assert_same(const struct vault_message *a, const struct vault_message *b) {
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->id, b->id);
        assert_int_equal(a->number, b->number);
        assert_int_equal(a->mapping, b->mapping);
        assert_int_equal(a->part, b->part);
        assert_int_equal(a->authority.port, b->authority.port);
        assert_string_equal(a->authority.host.name, b->authority.host.name);
        for (size_t i = 0; i < VAULT_DATA; i++)
                assert_true(str_eq(a->data[i], b->data[i]));
}

static void each_kind_arrives(void **state) {
        (void)state;
        int s[2];
        pair(s);
        static char key[32], longest[VAULT_SECRET_MAX];
        memset(longest, 'x', sizeof longest);
        const struct authority target = authority("api.test:443"), name = host_only("api.test:1"),
                               address = host_only("[2001:db8::1]:1");
        const struct sample cases[] = {
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_VALUE, .mapping = 3, .data = { STR("sk-\xff\n") } }, false },
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_VARIABLE, .data = { STR("PATH=/bin") } }, false },
                { SUPERVISOR_TO_VAULT,
                  { .kind = VAULT_STAND_IN_KEPT, .mapping = 1, .part = PART_KEY_ID, .data = { STR("AKIAFAKEFAKE") } },
                  false },
                { SUPERVISOR_TO_VAULT,
                  { .kind = VAULT_SEED, .mapping = 1, .number = 2, .data = { str_n(key, sizeof key) } },
                  false },
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_OPEN }, false },
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_CONNECT }, true },
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_RELOAD }, false },
                { SUPERVISOR_TO_VAULT, { .kind = VAULT_STOP }, false },
                { VAULT_TO_SUPERVISOR, { .kind = VAULT_CA, .data = { STR("\x30\x00") } }, false },
                { VAULT_TO_SUPERVISOR,
                  { .kind = VAULT_STAND_IN, .mapping = 2, .data = { STR("ghp_12345678") } },
                  false },
                { VAULT_TO_SUPERVISOR,
                  { .kind = VAULT_STAND_IN_OLD, .mapping = 2, .data = { STR("ghp_87654321") } },
                  false },
                { VAULT_TO_SUPERVISOR, { .kind = VAULT_READY }, false },
                { VAULT_TO_SUPERVISOR, { .kind = VAULT_CHANGED, .mapping = 2, .number = 1 }, false },
                { VAULT_TO_SUPERVISOR, { .kind = VAULT_FAILED, .data = { STR("why") } }, false },
                { GATEWAY_TO_VAULT, { .kind = VAULT_SIGN, .id = 7, .authority = name, .data = { STR("key") } }, false },
                { GATEWAY_TO_VAULT,
                  { .kind = VAULT_SIGN, .id = 8, .authority = address, .data = { STR("key") } },
                  false },
                { GATEWAY_TO_VAULT,
                  { .kind = VAULT_RELEASE, .id = UINT64_MAX, .mapping = 1, .authority = target },
                  false },
                { GATEWAY_TO_VAULT,
                  { .kind = VAULT_SIGV4,
                    .id = 9,
                    .mapping = 1,
                    .authority = target,
                    .data = { STR("20260101"), STR("us-east-1"), STR("bedrock") } },
                  false },
                { GATEWAY_TO_VAULT, { .kind = VAULT_STALE, .mapping = 1, .number = UINT64_MAX }, false },
                { GATEWAY_TO_VAULT, { .kind = VAULT_RENEW, .id = 10, .mapping = 1, .authority = target }, false },
                { GATEWAY_TO_VAULT,
                  { .kind = VAULT_KEEP,
                    .id = 11,
                    .mapping = 1,
                    .part = 1,
                    .number = 3600,
                    .authority = target,
                    .data = { STR("access_token x\n") } },
                  false },
                { GATEWAY_TO_VAULT, { .kind = VAULT_LEAVE, .mapping = 1 }, false },
                { VAULT_TO_GATEWAY, { .kind = VAULT_RENEWED, .id = 10 }, false },
                { VAULT_TO_GATEWAY, { .kind = VAULT_HELLO }, true },
                { VAULT_TO_GATEWAY, { .kind = VAULT_CERTIFICATE, .id = 7, .data = { STR("\x30") } }, false },
                { VAULT_TO_GATEWAY,
                  { .kind = VAULT_SECRET, .id = 7, .number = 4, .data = { { longest, sizeof longest } } },
                  false },
                { VAULT_TO_GATEWAY,
                  { .kind = VAULT_SIGNING_KEY,
                    .id = 7,
                    .number = 4,
                    .data = { STR("AKIAREAL"), { key, sizeof key }, { longest, sizeof longest } } },
                  false },
                { VAULT_TO_GATEWAY, { .kind = VAULT_REFUSED, .id = 7, .number = VAULT_WRONG_TARGET }, false },
        };
        assert_int_equal(sizeof cases / sizeof *cases, VAULT_KINDS - 1 + 1); /* every kind, one of them twice */
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const struct sample *c = &cases[i];
                struct vault_message got;
                cleanup(close_fd) int fd = -1;
                assert_int_equal(vault_send(s[0], c->way, &c->m, c->fd ? 0 : -1), 0);
                assert_int_equal(vault_receive(s[1], c->way, room, &got, &fd), 1);
                assert_same(&got, &c->m);
                assert_int_equal(fd >= 0, c->fd);
                /* With a descriptor too many or too few it is not sent, and it passes no other way. */
                assert_int_equal(vault_send(s[0], c->way, &c->m, c->fd ? -1 : 0), -EINVAL);
                for (int way = 0; way < VAULT_WAYS; way++) {
                        if (way == (int)c->way)
                                continue;
                        int none = -1;
                        assert_int_equal(vault_send(s[0], (enum vault_way)way, &c->m, c->fd ? 0 : -1), -EINVAL);
                        assert_int_equal(vault_send(s[0], c->way, &c->m, c->fd ? 0 : -1), 0);
                        assert_int_equal(vault_receive(s[1], (enum vault_way)way, room, &got, &none), -EBADMSG);
                        assert_int_equal(none, -1);
                }
        }
        struct vault_message got;
        int fd = -1;
        assert_int_equal(vault_receive(s[1], GATEWAY_TO_VAULT, room, &got, &fd), -EAGAIN);
        close(s[0]);
        assert_int_equal(vault_receive(s[1], GATEWAY_TO_VAULT, room, &got, &fd), 0);
        close(s[1]);
}

/* A message as it is on the wire, to be spoilt. */
static size_t wire_of(const struct vault_message *m, enum vault_way way, char *ret) {
        int s[2];
        pair(s);
        assert_int_equal(vault_send(s[0], way, m, -1), 0);
        ssize_t n = recv(s[1], ret, VAULT_MESSAGE_MAX, 0);
        assert_true(n > 0);
        close(s[0]);
        close(s[1]);
        return n > 0 ? (size_t)n : 0;
}

/* Every bit of a message's head turned: what is accepted is a message that may be sent, and nothing crashes. */
static void spoilt_messages_are_refused(void **state) {
        (void)state;
        static char good[VAULT_MESSAGE_MAX], bad[VAULT_MESSAGE_MAX + 1];
        const struct vault_message m = { .kind = VAULT_SIGV4,
                                         .id = 9,
                                         .mapping = 1,
                                         .authority = authority("api.test:443"),
                                         .data = { STR("20260101"), STR("us-east-1"), STR("bedrock") } };
        size_t n = wire_of(&m, GATEWAY_TO_VAULT, good);
        int s[2], refused = 0;
        pair(s);
        for (size_t bit = 0; bit < n * 8; bit++) {
                struct vault_message got;
                int fd = -1;
                memcpy(bad, good, n);
                bad[bit / 8] = (char)(bad[bit / 8] ^ 1 << bit % 8);
                assert_int_equal(fd_send(s[0], str_n(bad, n), NULL, 0), 0);
                int r = vault_receive(s[1], GATEWAY_TO_VAULT, room, &got, &fd);
                if (r == 1)
                        assert_int_equal(vault_send(s[1], GATEWAY_TO_VAULT, &got, -1), 0);
                else {
                        assert_int_equal(r, -EBADMSG);
                        refused++;
                }
                while (recv(s[0], bad, sizeof bad, MSG_DONTWAIT) > 0)
                        ;
        }
        assert_true(refused > 200);
        for (size_t cut = 1; cut <= n; cut++) {
                struct vault_message got;
                int fd = -1;
                memcpy(bad, good, n);
                bad[n] = 'x';
                size_t length = cut == n ? n + 1 : n - cut;
                if (length == 0)
                        continue;
                assert_int_equal(fd_send(s[0], str_n(bad, length), NULL, 0), 0);
                assert_int_equal(vault_receive(s[1], GATEWAY_TO_VAULT, room, &got, &fd), -EBADMSG);
        }
        close(s[0]);
        close(s[1]);
}

static void page_is_read_only_for_others(void **state) {
        (void)state;
        struct vault_page *mine;
        const struct vault_page *theirs;
        struct err e = { 0 };
        cleanup(close_fd) int fd = -1;
        assert_int_equal(vault_page_new(5, &mine, &fd, &e), 0);
        assert_int_equal(vault_page_open(fd, &theirs, &e), 0);
        assert_int_equal(theirs->n, 5);
        atomic_store(&mine->serials[4], 77);
        assert_int_equal(atomic_load(&((struct vault_page *)theirs)->serials[4]), 77);
        assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        assert_int_equal(pwrite(fd, "x", 1, 0), -1);
        assert_int_equal(ftruncate(fd, 0), -1);
        vault_page_close(theirs);
        vault_page_close(mine);
        assert_true(vault_page_new(VAULT_MAPPINGS_MAX + 1, &mine, &fd, &e) < 0);
        cleanup(close_fd) int other = -1;
        assert_int_equal(fd_sealed("not-a-page", STR("x"), &other, &e), 0);
        assert_int_equal(vault_page_open(other, &theirs, &e), -EPROTO);
}

static struct vault_start valid_start(struct vault_mapping m[2]) {
        struct vault_start s;
        vault_start_init(&s);
        memset(m, 0, 2 * sizeof *m);
        s.n_mappings = 2;
        for (int i = 0; i < 2; i++) {
                snprintf(m[i].name, sizeof m[i].name, "m%d", i);
                snprintf(m[i].source, sizeof m[i].source, "env:NAME");
                snprintf(m[i].hosts[0], sizeof m[i].hosts[0], "*.api.test:443");
                m[i].n_hosts = 1;
                m[i].timeout_ns = 1;
        }
        return s;
}

static void start_block_is_checked(void **state) {
        (void)state;
        struct vault_mapping m[2];
        cleanup(free_ptr) struct vault_mapping *list = NULL;
        struct vault_start s = valid_start(m), got;
        struct err e = { 0 };
        cleanup(close_fd) int fd = -1;
        assert_int_equal(vault_start_seal(&s, m, &fd, &e), 0);
        assert_int_equal(vault_start_read(fd, &got, &list, &e), 0);
        assert_memory_equal(&s, &got, sizeof s);
        assert_memory_equal(m, list, sizeof m);

#define BAD(change)                                                                                                    \
        do {                                                                                                           \
                s = valid_start(m);                                                                                    \
                change;                                                                                                \
                err_clear(&e);                                                                                         \
                assert_true(vault_start_check(&s, m, &e) < 0);                                                         \
                assert_true(e.text[0] != '\0');                                                                        \
        } while (0)
        BAD(s.version++);
        BAD(s.size--);
        BAD(s.mapping_size--);
        BAD(s.n_mappings = VAULT_MAPPINGS_MAX + 1);
        BAD(s.ca = VAULT_CAS);
        BAD(m[1].timeout_ns = 0);
        BAD(snprintf(s.ca_dir, sizeof s.ca_dir, "relative"));
        BAD(memset(s.ca_dir, '/', sizeof s.ca_dir));
        BAD(memset(s.sandbox_id, 'x', sizeof s.sandbox_id));
        BAD(m[1].name[0] = '\0');
        BAD(m[1].name[0] = '\n');
        BAD(memset(m[1].name, 'x', sizeof m[1].name));
        BAD(m[1].kind = MAPPING_KINDS);
        BAD(m[1].source[0] = '\0');
        BAD(memset(m[1].place, '/', sizeof m[1].place));
        BAD(m[1].n_hosts = 0);
        BAD(m[1].n_hosts = VAULT_HOSTS_MAX + 1);
        BAD(m[1].hosts[0][0] = '/');
        BAD(memset(m[1].hosts[0], 'a', sizeof m[1].hosts[0]));
#undef BAD
        s = valid_start(m);
        s.n_mappings = 3; /* one more than there are bytes */
        cleanup(close_fd) int small = -1;
        assert_int_equal(fd_sealed("short", str_n(&s, sizeof s), &small, &e), 0);
        free(take_ptr(&list));
        assert_int_equal(vault_start_read(small, &got, &list, &e), -EPROTO);
        cleanup(close_fd) int open_file = memfd_create("unsealed", MFD_CLOEXEC);
        assert_int_equal(vault_start_read(open_file, &got, &list, &e), -EPROTO);
}

static void names(void **state) {
        (void)state;
        assert_string_equal(vault_kind_name(VAULT_SIGNING_KEY), "signing-key");
        assert_null(vault_kind_name(VAULT_KINDS));
        for (int i = 1; i < VAULT_REFUSALS; i++)
                assert_string_not_equal(vault_refusal_text((enum vault_refusal)i), "?");
        assert_string_equal(vault_refusal_text(VAULT_REFUSALS), "?");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_kind_arrives),
                cmocka_unit_test(spoilt_messages_are_refused),
                cmocka_unit_test(page_is_read_only_for_others),
                cmocka_unit_test(start_block_is_checked),
                cmocka_unit_test(names),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
