/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mcp_ask.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/gateway_messages.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Together with the words around it the header has at most 255 bytes (ASK_WANTS). */
enum { ANSWER_MAX = 16384, WANTS_MAX = 160, HEADER_MAX = 230, BACK_SECONDS = 5 };

bool mcp_target(struct str given, char *ret, size_t size) {
        ptrdiff_t colon = str_find(given, ':');
        uint64_t port = 443;

        if (colon >= 0 && (!str_to_u64(str_skip(given, (size_t)colon + 1), 65535, &port) || port == 0))
                return false;

        struct str host = colon < 0 ? given : str_first(given, (size_t)colon);
        if (host.n == 0 || host.n > 253)
                return false;

        for (size_t i = 0; i < host.n; i++)
                if (!ascii_is_alnum(host.p[i]) && host.p[i] != '.' && host.p[i] != '-' && host.p[i] != '_')
                        return false;

        int n = snprintf(ret, size, "%.*s:%u", STR_FMT(host), (unsigned)port);
        return n > 0 && (size_t)n < size;
}

/* http://127.0.0.1:3128, as the sandbox's environment has it. */
static int proxy_connect(struct err *err) {
        const char *proxy = getenv("HTTPS_PROXY");
        struct sockaddr_in to = { .sin_family = AF_INET };
        struct str rest = str_of(proxy), host;
        char address[64];
        uint64_t port;

        if (!proxy || !str_starts(rest, STR("http://")))
                return err_set(err, ENXIO, "there is no proxy of Bailey here (HTTPS_PROXY)");

        rest = str_skip(rest, 7);
        if (!str_split(&rest, ':', &host) || host.n >= sizeof address || !str_to_u64(rest, 65535, &port))
                return err_set(err, ENXIO, "HTTPS_PROXY does not name a proxy of Bailey");

        snprintf(address, sizeof address, "%.*s", STR_FMT(host));
        if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
                return err_set(err, ENXIO, "HTTPS_PROXY does not name a proxy of Bailey");

        to.sin_port = htons((uint16_t)port);

        cleanup(close_fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
                return err_errno(err, "the proxy cannot be reached");

        return take_fd(&fd);
}

static int64_t now_ms(void) {
        struct timespec timespec;
        clock_gettime(CLOCK_MONOTONIC, &timespec);
        return (int64_t)timespec.tv_sec * 1000 + timespec.tv_nsec / 1000000;
}

/* The length of the head with its empty line; 0: it is not whole yet. */
static size_t head_length(struct str answer) {
        for (size_t i = 0; i + 4 <= answer.n; i++)
                if (memcmp(answer.p + i, "\r\n\r\n", 4) == 0)
                        return i + 4;
        return 0;
}

/* The proxy keeps the connection after a refusal, so its end is where the head says. */
static bool answer_is_whole(struct str answer) {
        size_t head = head_length(answer);
        struct str lines = str_first(answer, head), line, name;
        uint64_t length;

        if (str_starts(answer, STR("HTTP/1.1 200")))
                return true;

        while (str_split(&lines, '\r', &line)) /* a line break of two: the second is before the next name */
                if (str_split(&line, ':', &name) && str_eq_nocase(name, STR("\ncontent-length")) &&
                    str_to_u64(str_trim(line), ANSWER_MAX, &length))
                        return answer.n - head >= length;

        return false;
}

/* Until the head is whole, and for a refusal until its end. False: the time is over. */
static bool read_answer(int fd, int64_t until, struct buf *into) {
        for (;;) {
                struct pollfd pollfd = { .fd = fd, .events = POLLIN };
                int64_t left = until - now_ms();
                char bytes[4096];

                if (left <= 0 || poll(&pollfd, 1, (int)left) <= 0)
                        return into->n > 0;

                ssize_t n = read(fd, bytes, sizeof bytes);
                if (n <= 0 || buf_append(into, str_n(bytes, (size_t)n)) < 0)
                        return true;
                if (answer_is_whole(buf_str(into)))
                        return true;
        }
}

static void take_text(struct str answer, struct mcp_answered *ret) {
        struct str line = answer;
        size_t body = head_length(answer), n = 0;

        if (body && body < answer.n)
                line = str_skip(answer, body);

        for (size_t i = 0; i < line.n && n + 1 < sizeof ret->text; i++)
                ret->text[n++] = line.p[i] >= ' ' && line.p[i] < 127 ? line.p[i] : ' ';

        ret->text[n] = '\0';
}

/* In letters that a header may have; anything else as %XX. At most `max` bytes of it, whole letters. */
static void put_plain(struct buf *out, const char *text, size_t max) {
        size_t end = out->n + max;

        for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
                bool plain = *p >= ' ' && *p < 127;
                if (out->n + (plain ? 1 : 3) > end)
                        break;
                (void)(plain ? buf_add_char(out, (char)*p) : buf_printf(out, "%%%02X", *p));
        }
}

/* The header that a person reads; see ASK_WANTS. */
static int put_header(struct buf *out, const struct mcp_question *question, struct err *err) {
        cleanup(buf_done) struct buf wants = BUF(4 * WANTS_MAX);

        if (question->wants) {
                put_plain(&wants, question->wants, 4 * WANTS_MAX);

                if (wants.n > WANTS_MAX)
                        return err_set(err, E2BIG,
                                       "it is longer than %d bytes: nobody is asked about what is not shown whole",
                                       WANTS_MAX);
        }

        if (!question->wants && !question->reason)
                return 0;

        const char *kind = question->back ? ASK_AGREED : ASK_WANTS;
        int r = question->wants ? buf_printf(out, "bailey-ask: %s%zu %.*s ", kind, wants.n, STR_FMT(buf_str(&wants)))
                                : buf_add(out, "bailey-ask: " ASK_BECAUSE);
        if (r < 0)
                return err_set(err, ENOMEM, "out of memory");

        put_plain(out, text_or(question->reason, ""), HEADER_MAX - wants.n);
        return buf_add(out, "\r\n");
}

int mcp_ask(const struct mcp_question *question, struct mcp_answered *ret, struct err *err) {
        cleanup(buf_done) struct buf answer = BUF(ANSWER_MAX), request = BUF(ANSWER_MAX);
        const char *target = question->target ? question->target : ASK_ACCESS_NAME ":443";
        int64_t until = now_ms() + (int64_t)question->timeout_seconds * 1000;
        struct mcp_answered said = { .what = MCP_UNANSWERED };

        int r = buf_printf(&request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", target, target);
        if (r < 0)
                return r;

        r = put_header(&request, question, err);
        if (r < 0)
                return r;

        r = buf_add(&request, "\r\n");
        if (r < 0)
                return r;

        cleanup(close_fd) int fd = proxy_connect(err);
        if (fd < 0)
                return fd;
        if (fd_write_all(fd, request.p, request.n) < 0)
                return err_errno(err, "the proxy does not listen");

        if (read_answer(fd, until, &answer)) {
                struct str text = buf_str(&answer);
                uint64_t status = 0;

                (void)str_to_u64(str_first(str_skip(text, 9), 3), 999, &status);
                bool refused = status == 403 || status == 407 || status == 451;
                said.what = refused || (question->wants && status != 200) ? MCP_REFUSED : MCP_ALLOWED;

                if (status < 100)
                        said.what = MCP_UNANSWERED;

                take_text(text, &said);
        }

        *ret = said;
        return 0;
}

bool mcp_agreed(const char *wants) {
        const struct mcp_question question = { .wants = wants, .back = true, .timeout_seconds = BACK_SECONDS };
        struct mcp_answered said = { .what = MCP_REFUSED };
        struct err unheard = { 0 };

        return mcp_ask(&question, &said, &unheard) == 0 && said.what == MCP_ALLOWED;
}
