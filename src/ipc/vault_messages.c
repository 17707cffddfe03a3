/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the vault. One table says for each kind which way it goes and what it carries; sender and receiver are
 * held to the same table. On the wire: a fixed head, then the bytes of data[] one after the other. The gateway parses
 * hostile bytes and may be compromised: the vault accepts only a kind that the gateway may send, a canonical host and
 * data of the right size. On anything else it closes the channel.
 */
#include "ipc/vault_messages.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secrets/secret.h"
#include "ipc/valid.h"
#include "policy/match/pattern.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Limits of one piece of data: 0 in `most` means that the kind has no such piece. */
struct piece {
        uint32_t least, most;
        bool printable;
};
#define TEXT(least, most)                                                                                              \
        { least, most, true }
#define BYTES(least, most)                                                                                             \
        { least, most, false }

enum { KEY_MAX = 256, CERTIFICATE_MAX = 8192, VARIABLE_MAX = 8192, NOTE_MAX = 768 };

static const struct kind_row {
        const char *name;
        enum vault_way way;
        bool descriptor, id, mapping, part, host, port;
        uint64_t number_max;
        struct piece data[VAULT_DATA];
} kinds[] = {
        [VAULT_VALUE] = { "value", SUPERVISOR_TO_VAULT, .mapping = true, .data = { BYTES(0, VAULT_SECRET_MAX) } },
        [VAULT_VARIABLE] = { "variable", SUPERVISOR_TO_VAULT, .data = { BYTES(2, VARIABLE_MAX) } },
        [VAULT_SEED] = { "seed", SUPERVISOR_TO_VAULT, .mapping = true, .number_max = VAULT_OLD_MAX,
                         .data = { BYTES(VAULT_DIGEST_BYTES, VAULT_DIGEST_BYTES) } },
        [VAULT_STAND_IN_KEPT] = { "stand-in-kept", SUPERVISOR_TO_VAULT, .mapping = true, .part = true,
                                  .data = { TEXT(VAULT_SECRET_MIN, VAULT_SECRET_MAX) } },
        [VAULT_OPEN] = { "open", SUPERVISOR_TO_VAULT },
        [VAULT_CONNECT] = { "connect", SUPERVISOR_TO_VAULT, .descriptor = true },
        [VAULT_RELOAD] = { "reload", SUPERVISOR_TO_VAULT },
        [VAULT_STOP] = { "stop", SUPERVISOR_TO_VAULT },
        [VAULT_CA] = { "ca", VAULT_TO_SUPERVISOR, .data = { BYTES(1, CERTIFICATE_MAX) } },
        [VAULT_STAND_IN] = { "stand-in", VAULT_TO_SUPERVISOR, .mapping = true, .part = true,
                             .data = { TEXT(VAULT_SECRET_MIN, VAULT_SECRET_MAX) } },
        [VAULT_STAND_IN_OLD] = { "stand-in-old", VAULT_TO_SUPERVISOR, .mapping = true,
                                 .data = { TEXT(VAULT_SECRET_MIN, VAULT_SECRET_MAX) } },
        [VAULT_READY] = { "ready", VAULT_TO_SUPERVISOR },
        [VAULT_CHANGED] = { "changed", VAULT_TO_SUPERVISOR, .mapping = true, .number_max = VAULT_CHANGES - 1,
                            .data = { TEXT(0, NOTE_MAX) } },
        [VAULT_FAILED] = { "failed", VAULT_TO_SUPERVISOR, .data = { TEXT(0, NOTE_MAX) } },
        [VAULT_SIGN] = { "sign", GATEWAY_TO_VAULT, .id = true, .host = true, .data = { BYTES(1, KEY_MAX) } },
        [VAULT_RELEASE] = { "release", GATEWAY_TO_VAULT, .id = true, .mapping = true, .host = true, .port = true },
        [VAULT_SIGV4] = { "sigv4", GATEWAY_TO_VAULT, .id = true, .mapping = true, .host = true, .port = true,
                          .data = { TEXT(8, 8), TEXT(1, 64), TEXT(1, 64) } },
        [VAULT_STALE] = { "stale", GATEWAY_TO_VAULT, .mapping = true, .number_max = UINT64_MAX },
        [VAULT_RENEW] = { "renew", GATEWAY_TO_VAULT, .id = true, .mapping = true, .host = true, .port = true },
        [VAULT_KEEP] = { "keep", GATEWAY_TO_VAULT, .id = true, .mapping = true, .part = true, .host = true,
                         .port = true, .number_max = 400ULL * 86400, .data = { BYTES(1, VAULT_ANSWER_MAX) } },
        [VAULT_LEAVE] = { "leave", GATEWAY_TO_VAULT, .mapping = true },
        [VAULT_HELLO] = { "hello", VAULT_TO_GATEWAY, .descriptor = true },
        [VAULT_CERTIFICATE] = { "certificate", VAULT_TO_GATEWAY, .id = true, .data = { BYTES(1, CERTIFICATE_MAX) } },
        [VAULT_SECRET] = { "secret", VAULT_TO_GATEWAY, .id = true, .number_max = UINT64_MAX,
                           .data = { BYTES(1, VAULT_SECRET_MAX) } },
        [VAULT_SIGNING_KEY] = { "signing-key", VAULT_TO_GATEWAY, .id = true, .number_max = UINT64_MAX,
                                .data = { TEXT(1, 256), BYTES(VAULT_DIGEST_BYTES, VAULT_DIGEST_BYTES),
                                          TEXT(0, VAULT_SECRET_MAX) } },
        [VAULT_RENEWED] = { "renewed", VAULT_TO_GATEWAY, .id = true },
        [VAULT_REFUSED] = { "refused", VAULT_TO_GATEWAY, .id = true, .number_max = VAULT_REFUSALS - 1 },
};
static_assert(sizeof kinds / sizeof *kinds == VAULT_KINDS, "a row for each kind of message");

struct head {
        uint32_t version, kind;
        uint64_t id, number;
        uint32_t mapping, part;
        struct authority authority;
        uint32_t lengths[VAULT_DATA];
};
static_assert(sizeof(struct head) <= 512, "the head fits in front of the largest data");

const char *vault_kind_name(enum vault_kind kind) {
        return (unsigned)kind < VAULT_KINDS ? kinds[kind].name : NULL;
}

const char *vault_refusal_text(enum vault_refusal refusal) {
        static const char *const texts[] = {
                [VAULT_NOT_MAPPED] = "there is no such credential",
                [VAULT_WRONG_TARGET] = "the credential is not for this host and port",
                [VAULT_NO_VALUE] = "the source of the credential has no value now",
                [VAULT_BAD_KEY] = "the public key is not one on P-256",
                [VAULT_BROKEN] = "the vault cannot do it now",
        };
        static_assert(sizeof texts / sizeof *texts == VAULT_REFUSALS, "a text for each refusal");

        return (unsigned)refusal < VAULT_REFUSALS && texts[refusal] ? texts[refusal] : "?";
}

static bool piece_valid(const struct piece *piece, struct str s) {
        return s.n >= piece->least && s.n <= piece->most && (!piece->printable || ipc_text_valid(s));
}

static bool message_valid(const struct vault_message *message, enum vault_way way, bool descriptor) {
        if (message->kind >= VAULT_KINDS || !kinds[message->kind].name)
                return false;

        const struct kind_row *row = &kinds[message->kind];
        if (row->way != way || row->descriptor != descriptor || message->number > row->number_max ||
            message->mapping >= VAULT_MAPPINGS_MAX || message->part >= PARTS)
                return false;

        if (row->host && (!ipc_host_valid(&message->authority.host) || (message->authority.port != 0) != row->port))
                return false;

        for (size_t i = 0; i < VAULT_DATA; i++)
                if (!piece_valid(&row->data[i], message->data[i]))
                        return false;

        return true;
}

/* Only the fields that the kind uses; the rest is zero on the wire and for the reader. */
static void head_of(struct head *head, const struct vault_message *message) {
        const struct kind_row *row = &kinds[message->kind];

        *head = (struct head){ .version = VAULT_VERSION, .kind = message->kind, .number = message->number };
        if (row->id)
                head->id = message->id;
        if (row->mapping)
                head->mapping = message->mapping;
        if (row->part)
                head->part = message->part;
        if (row->host)
                ipc_host_copy(&head->authority.host, &message->authority.host);
        if (row->port)
                head->authority.port = message->authority.port;

        for (size_t i = 0; i < VAULT_DATA; i++)
                head->lengths[i] = (uint32_t)message->data[i].n;
}

int vault_send(int sock, enum vault_way way, const struct vault_message *message, int fd) {
        char wire[VAULT_MESSAGE_MAX];
        struct head head;
        size_t n = sizeof head;

        if (!message_valid(message, way, fd >= 0))
                return -EINVAL;

        head_of(&head, message);

        for (size_t i = 0; i < VAULT_DATA; i++) {
                if (message->data[i].n > sizeof wire - n)
                        return -EINVAL;
                if (message->data[i].n > 0)
                        memcpy(wire + n, message->data[i].p, message->data[i].n);
                n += message->data[i].n;
        }

        memcpy(wire, &head, sizeof head);
        int r = fd_send(sock, str_n(wire, n), &fd, fd >= 0 ? 1 : 0);
        secret_wipe(wire, n);

        if (r == -ECONNRESET)
                return -EPIPE; /* gone with messages unread, or without: gone */

        return r;
}

static bool vault_decode(struct str wire, enum vault_way way, bool descriptor, struct vault_message *ret) {
        struct head head;
        struct vault_message message;

        if (wire.n < sizeof head)
                return false;

        memcpy(&head, wire.p, sizeof head);
        message = (struct vault_message){ .kind = head.kind,
                                          .mapping = head.mapping,
                                          .part = head.part,
                                          .id = head.id,
                                          .number = head.number,
                                          .authority = head.authority };
        struct str rest = str_skip(wire, sizeof head);

        for (size_t i = 0; i < VAULT_DATA; i++) {
                if (head.lengths[i] > rest.n)
                        return false;
                message.data[i] = str_first(rest, head.lengths[i]);
                rest = str_skip(rest, head.lengths[i]);
        }

        if (head.version != VAULT_VERSION || rest.n > 0 || !message_valid(&message, way, descriptor))
                return false;

        struct head used;
        head_of(&used, &message);
        *ret = (struct vault_message){ .kind = used.kind,
                                       .mapping = used.mapping,
                                       .part = used.part,
                                       .id = used.id,
                                       .number = used.number,
                                       .authority = used.authority };
        memcpy(ret->data, message.data, sizeof ret->data);

        return true;
}

int vault_receive(int sock, enum vault_way way, char *room, struct vault_message *ret, int *ret_fd) {
        cleanup(close_fd) int fd = -1;
        ssize_t n = ipc_receive_bytes(sock, room, VAULT_MESSAGE_MAX, &fd);
        if (n <= 0)
                return (int)n;
        if (!vault_decode(str_n(room, (size_t)n), way, fd >= 0, ret))
                return -EBADMSG;

        *ret_fd = take_fd(&fd);
        return 1;
}

/* the start block */

void vault_start_init(struct vault_start *start) {
        memset(start, 0, sizeof *start);
        start->version = VAULT_VERSION;
        start->size = sizeof *start;
        start->mapping_size = sizeof(struct vault_mapping);
        start->log_level = LOG_NOTICE;
}

static bool vault_terminated(const char *text, size_t size) {
        return strnlen(text, size) < size;
}

static int check_mapping(const struct vault_mapping *mapping, struct err *err) {
        if (!vault_terminated(mapping->name, sizeof mapping->name) || mapping->name[0] == '\0' ||
            !ipc_text_valid(str_of(mapping->name)))
                return err_set(err, EINVAL, "a credential's name is empty, too long or not printable");
        if (mapping->kind >= MAPPING_KINDS)
                return err_set(err, EINVAL, "credential '%s' is of the unknown kind %u", mapping->name, mapping->kind);

        if (!vault_terminated(mapping->source, sizeof mapping->source) || mapping->source[0] == '\0' ||
            !vault_terminated(mapping->prefix, sizeof mapping->prefix) || !ipc_text_valid(str_of(mapping->prefix)))
                return err_set(err, EINVAL, "credential '%s': its source or prefix is empty or too long",
                               mapping->name);
        if (!vault_terminated(mapping->place, sizeof mapping->place))
                return err_set(err, EINVAL, "credential '%s': the path of its file is too long", mapping->name);

        if (!vault_terminated(mapping->form, sizeof mapping->form) ||
            !vault_terminated(mapping->answer, sizeof mapping->answer) ||
            !vault_terminated(mapping->expiry, sizeof mapping->expiry) || !ipc_text_valid(str_of(mapping->form)))
                return err_set(err, EINVAL, "credential '%s': what is said about its sign-in is too long",
                               mapping->name);

        if (mapping->timeout_ns == 0 || mapping->timeout_ns > 3600 * NS_PER_SECOND)
                return err_set(err, EINVAL, "credential '%s': its time limit is out of range", mapping->name);

        if (mapping->n_hosts == 0 || mapping->n_hosts > VAULT_HOSTS_MAX)
                return err_set(err, EINVAL, "credential '%s' has %u hosts; 1 to %d are possible", mapping->name,
                               mapping->n_hosts, VAULT_HOSTS_MAX);

        for (uint32_t i = 0; i < mapping->n_hosts; i++) {
                struct pattern pattern;
                struct err why = { 0 };

                if (!vault_terminated(mapping->hosts[i], sizeof mapping->hosts[i]))
                        return err_set(err, EINVAL, "credential '%s': a host is too long", mapping->name);
                if (pattern_parse(str_of(mapping->hosts[i]), &pattern, &why) < 0)
                        return err_set(err, EINVAL, "credential '%s': %s", mapping->name, err_text(&why));
        }

        return 0;
}

int vault_start_check(const struct vault_start *start, const struct vault_mapping *mappings, struct err *err) {
        if (start->version != VAULT_VERSION || start->size != sizeof *start || start->mapping_size != sizeof *mappings)
                return err_set(err, EPROTO,
                               "the vault's start block is of another version (%u, %u bytes): bailey and bailey-vault "
                               "must be of the same build",
                               start->version, start->size);

        if (start->n_mappings > VAULT_MAPPINGS_MAX)
                return err_set(err, EINVAL, "%u credentials; at most %d are possible", start->n_mappings,
                               VAULT_MAPPINGS_MAX);
        if (start->ca >= VAULT_CAS || start->log_level >= LOG_LEVELS)
                return err_set(err, EINVAL, "a value in the vault's start block is out of range");

        if (!vault_terminated(start->ca_dir, sizeof start->ca_dir) ||
            (start->ca_dir[0] != '\0' && start->ca_dir[0] != '/') ||
            !vault_terminated(start->credentials_dir, sizeof start->credentials_dir) ||
            (start->credentials_dir[0] != '\0' && start->credentials_dir[0] != '/') ||
            !vault_terminated(start->lock_dir, sizeof start->lock_dir) ||
            (start->lock_dir[0] != '\0' && start->lock_dir[0] != '/') ||
            !vault_terminated(start->sandbox_id, sizeof start->sandbox_id))
                return err_set(err, EINVAL, "a path in the vault's start block is relative or too long");

        for (uint32_t i = 0; i < start->n_mappings; i++) {
                int r = check_mapping(&mappings[i], err);
                if (r < 0)
                        return r;
        }

        return 0;
}

int vault_start_seal(const struct vault_start *start, const struct vault_mapping *mappings, int *ret_fd,
                     struct err *err) {
        int r = vault_start_check(start, mappings, err);
        if (r < 0)
                return r;

        size_t list = start->n_mappings * sizeof *mappings;
        cleanup(buf_done) struct buf buf = BUF(sizeof *start + list);
        if (buf_append(&buf, str_n(start, sizeof *start)) < 0 ||
            (list > 0 && buf_append(&buf, str_n(mappings, list)) < 0))
                return err_set(err, ENOMEM, "no memory for the vault's start block");

        return fd_sealed("bailey-vault-start", buf_str(&buf), ret_fd, err);
}

int vault_start_read(int fd, struct vault_start *ret, struct vault_mapping **ret_mappings, struct err *err) {
        size_t size;

        if (!fd_is_sealed(fd, &size))
                return err_set(err, EPROTO,
                               "the start block is not a sealed file; bailey-vault is started by bailey, not by hand");

        cleanup(free_ptr) struct vault_start *start = calloc(1, sizeof *start);
        if (!start)
                return err_set(err, ENOMEM, "no memory for the start block");
        if (size < sizeof *start || pread(fd, start, sizeof *start, 0) != (ssize_t)sizeof *start)
                return err_set(err, EPROTO, "the start block is too short");
        if (start->n_mappings > VAULT_MAPPINGS_MAX)
                return err_set(err, EPROTO, "the start block names too many credentials");

        size_t list = start->n_mappings * sizeof(struct vault_mapping);
        if (size != sizeof *start + list)
                return err_set(err, EPROTO, "the start block has %zu bytes, not %zu", size, sizeof *start + list);

        cleanup(free_ptr) struct vault_mapping *mappings = calloc(start->n_mappings + 1, sizeof *mappings);
        if (!mappings)
                return err_set(err, ENOMEM, "no memory for the start block");
        if (pread(fd, mappings, list, sizeof *start) != (ssize_t)list)
                return err_errno(err, "cannot read the start block");

        int r = vault_start_check(start, mappings, err);
        if (r < 0)
                return r;

        *ret = *start;
        *ret_mappings = take_ptr(&mappings);

        return 0;
}
