/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/supervise_messages.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

/*
 * The fields of a request: a letter each, in a table, so that writing, reading and freeing cannot disagree.
 */
enum field_type { FIELD_ONE, FIELD_MANY };
static const struct field {
        char letter;
        enum field_type type;
        size_t offset;
} fields[] = {
        { 'p', FIELD_ONE, offsetof(struct supervise_request, policy) },
        { 'b', FIELD_ONE, offsetof(struct supervise_request, base) },
        { 'd', FIELD_ONE, offsetof(struct supervise_request, cwd) },
        { 'n', FIELD_ONE, offsetof(struct supervise_request, hosts_file) },
        { 'r', FIELD_ONE, offsetof(struct supervise_request, ca_bundle) },
        { 'q', FIELD_ONE, offsetof(struct supervise_request, asks) },
        { 'h', FIELD_ONE, offsetof(struct supervise_request, http) },
        { 's', FIELD_ONE, offsetof(struct supervise_request, socks) },
        { 'o', FIELD_MANY, offsetof(struct supervise_request, config) },
        { 'c', FIELD_MANY, offsetof(struct supervise_request, call) },
        { 'a', FIELD_MANY, offsetof(struct supervise_request, argv) },
        { 'j', FIELD_MANY, offsetof(struct supervise_request, judged) },
        { 'f', FIELD_MANY, offsetof(struct supervise_request, places) },
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static char **one_of(const struct supervise_request *request, const struct field *field) {
        return (char **)((char *)(uintptr_t)request + field->offset);
}
static supervise_texts *many_of(const struct supervise_request *request, const struct field *field) {
        return (supervise_texts *)((char *)(uintptr_t)request + field->offset);
}

static void texts_done(supervise_texts *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

void supervise_request_done(struct supervise_request *request) {
        for (size_t i = 0; i < FIELDS; i++)
                if (fields[i].type == FIELD_ONE)
                        free(*one_of(request, &fields[i]));
                else
                        texts_done(many_of(request, &fields[i]));
        *request = (struct supervise_request){ 0 };
}

int supervise_texts_add(supervise_texts *list, struct str text) {
        char *copy = str_dup(text);
        if (copy && vec_push(list, copy) == 0)
                return 0;
        free(copy);
        return -ENOMEM;
}

static int supervise_put(struct buf *out, char letter, const char *text) {
        int r = buf_printf(out, "%zu:%c", strlen(text) + 1, letter);
        if (r < 0)
                return r;

        r = buf_add(out, text);
        if (r < 0)
                return r;

        return buf_add_char(out, ',');
}

int supervise_encode(const struct supervise_request *request, char **ret, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(SUPERVISE_BYTES_MAX);
        char first[32];

        snprintf(first, sizeof first, "%d.%d", SUPERVISE_VERSION, (int)request->job);
        int r = supervise_put(&out, 'v', first);
        for (size_t i = 0; r == 0 && i < FIELDS; i++) {
                const supervise_texts *many = many_of(request, &fields[i]);

                if (fields[i].type == FIELD_ONE)
                        r = *one_of(request, &fields[i])
                                ? supervise_put(&out, fields[i].letter, *one_of(request, &fields[i]))
                                : 0;
                for (size_t k = 0; r == 0 && fields[i].type == FIELD_MANY && k < many->n; k++)
                        r = supervise_put(&out, fields[i].letter, many->p[k]);
        }

        char *text = r == 0 ? str_dup(buf_str(&out)) : NULL;
        if (!text && r == -EMSGSIZE)
                return err_set(err, E2BIG, "the command and its policy are larger than %d bytes", SUPERVISE_BYTES_MAX);
        if (!text)
                return err_memory(err);

        *ret = text;
        return 0;
}

/* "<length>:<letter><bytes>,"; false when it is not that. */
static bool take_field(struct str *rest, char *ret_letter, struct str *ret_text) {
        ptrdiff_t colon = str_find(str_first(*rest, 12), ':');
        uint64_t n;

        if (colon <= 0 || !str_to_u64(str_first(*rest, (size_t)colon), SUPERVISE_BYTES_MAX, &n) || n == 0)
                return false;

        *rest = str_skip(*rest, (size_t)colon + 1);
        if (rest->n < n + 1 || rest->p[n] != ',')
                return false;

        *ret_letter = rest->p[0];
        *ret_text = str_n(rest->p + 1, n - 1);
        *rest = str_skip(*rest, n + 1);

        return true;
}

static int read_first(struct str text, struct supervise_request *request, struct err *err) {
        struct str version;
        uint64_t number = 0, job = 0;
        if (!str_split(&text, '.', &version) || !str_to_u64(version, UINT32_MAX, &number) ||
            number != SUPERVISE_VERSION)
                return err_set(err, EPROTO,
                               "libbailey and the bailey executable are of different versions; install them together");

        if (!str_to_u64(text, SUPERVISE_JOBS - 1, &job))
                return err_set(err, EBADMSG, "the request is malformed");

        request->job = (enum supervise_job)job;
        return 0;
}

static int keep_field(struct supervise_request *request, char letter, struct str text) {
        for (size_t i = 0; i < FIELDS; i++) {
                if (fields[i].letter != letter)
                        continue;
                if (fields[i].type == FIELD_MANY)
                        return supervise_texts_add(many_of(request, &fields[i]), text);

                char **one = one_of(request, &fields[i]);
                if (*one)
                        return -EBADMSG;

                if ((*one = str_dup(text)))
                        return 0;

                return -ENOMEM;
        }

        return -EBADMSG;
}

int supervise_decode(struct str block, struct supervise_request *ret, struct err *err) {
        cleanup(supervise_request_done) struct supervise_request request = { 0 };
        char letter;
        struct str text;

        if (str_has_nul(block) || !take_field(&block, &letter, &text) || letter != 'v')
                return err_set(err, EBADMSG, "the request is malformed");

        int r = read_first(text, &request, err);
        if (r < 0)
                return r;

        while (r == 0 && block.n)
                r = take_field(&block, &letter, &text) ? keep_field(&request, letter, text) : -EBADMSG;

        if (r == 0 &&
            (!request.base || request.base[0] != '/' || (request.job != SUPERVISE_GATEWAY && request.argv.n == 0)))
                r = -EBADMSG;
        if (r == 0 && request.judged.n != JUDGED_TEXTS && (request.judged.n || request.job >= SUPERVISE_COMMAND))
                r = -EBADMSG;
        if (r == 0 && request.places.n % 2)
                r = -EBADMSG;
        if (r < 0)
                return err_set(err, -r, r == -ENOMEM ? "out of memory" : "the request is malformed");

        *ret = request;
        request = (struct supervise_request){ 0 };

        return 0;
}

/*
 * Messages.
 */
enum { RELOAD_FDS = 2 };

void supervise_fds_done(struct supervise_fds *fds) {
        close_fd(&fds->block);
        close_fd(&fds->judged);
}

int supervise_send(int sock, const struct supervise_message *message, const struct supervise_fds *fds) {
        struct supervise_message copy = *message;

        copy.version = SUPERVISE_VERSION;
        if (!fds)
                return fd_send(sock, str_n(&copy, sizeof copy), NULL, 0);

        const int numbers[RELOAD_FDS] = { fds->block, fds->judged };
        return fd_send(sock, str_n(&copy, sizeof copy), numbers, RELOAD_FDS);
}

static bool is_terminated(const char *text, size_t n) {
        return memchr(text, '\0', n) != NULL;
}

static ssize_t receive_bytes(int sock, struct supervise_message *message, struct supervise_fds *fds, size_t *ret_n) {
        int numbers[RELOAD_FDS] = { -1, -1 };
        ssize_t n = fd_receive(sock, message, sizeof *message, numbers, RELOAD_FDS, ret_n);

        *fds = (struct supervise_fds){ numbers[0], numbers[1] };
        return n;
}

int supervise_receive(int sock, struct supervise_message *ret, struct supervise_fds *ret_fds) {
        struct supervise_message message = { 0 };
        size_t n_fds = 0;
        cleanup(supervise_fds_done) struct supervise_fds fds = SUPERVISE_NO_FDS;
        ssize_t n = receive_bytes(sock, &message, &fds, &n_fds);

        /* The other side ended with something of ours unread. That is said once, before what it had still to say. */
        if (n == -ECONNRESET)
                n = receive_bytes(sock, &message, &fds, &n_fds);
        if (n == -ECONNRESET)
                return 0;
        if (n <= 0)
                return (int)n;

        bool whole = n == (ssize_t)sizeof message && message.version == SUPERVISE_VERSION && message.kind &&
                     message.kind < SUPERVISE_KINDS && is_terminated(message.host, sizeof message.host) &&
                     is_terminated(message.target, sizeof message.target) &&
                     is_terminated(message.rule, sizeof message.rule) &&
                     is_terminated(message.detail, sizeof message.detail) &&
                     is_terminated(message.process, sizeof message.process);
        size_t due = message.kind == SUPERVISE_RELOAD ? RELOAD_FDS : 0;
        if (!whole || n_fds != due || (due && !ret_fds))
                return -EBADMSG;

        *ret = message;
        if (ret_fds) {
                *ret_fds = fds;
                fds = SUPERVISE_NO_FDS;
        }

        return 1;
}
