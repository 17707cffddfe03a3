/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/agent/agent_wire.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

/* On the wire: these, then the directory, the words and the variables. */
struct head {
        uint32_t what, flags;
        uint16_t rows, columns;
        uint32_t n_argv, n_environment;
};

void agent_request_done(struct agent_request *request) {
        vec_done(&request->argv);
        vec_done(&request->environment);
}

static int text_write(struct buf *ret, const char *text) {
        return buf_append(ret, str_n(text, strlen(text) + 1));
}

int agent_request_write(const struct agent_request *request, struct buf *ret) {
        struct head head = { .what = request->what,
                             .flags = request->flags,
                             .rows = request->rows,
                             .columns = request->columns,
                             .n_argv = (uint32_t)request->argv.n,
                             .n_environment = (uint32_t)request->environment.n };
        int r = buf_append(ret, str_n(&head, sizeof head));

        if (r == 0)
                r = text_write(ret, request->directory ? request->directory : "");

        for (size_t i = 0; i < request->argv.n && r == 0; i++)
                r = text_write(ret, request->argv.p[i]);

        for (size_t i = 0; i < request->environment.n && r == 0; i++)
                r = text_write(ret, request->environment.p[i]);

        return r;
}

static const char *text_read(struct str *rest) {
        const char *text = rest->p, *end = rest->n ? memchr(rest->p, 0, rest->n) : NULL;

        if (!end)
                return NULL;
        *rest = str_skip(*rest, (size_t)(end - text) + 1);
        return text;
}

static int texts_read(struct str *rest, uint32_t n, struct agent_request *request, bool words) {
        for (uint32_t i = 0; i < n; i++) {
                const char *text = text_read(rest);
                if (!text || (!words && !strchr(text, '=')))
                        return -EBADMSG;

                int r = words ? vec_push(&request->argv, text) : vec_push(&request->environment, text);
                if (r < 0)
                        return r;
        }

        return 0;
}

int agent_request_parse(struct str bytes, struct agent_request *ret) {
        cleanup(agent_request_done) struct agent_request request = { 0 };
        struct head head;

        if (bytes.n < sizeof head || bytes.n > AGENT_REQUEST_MAX)
                return -EBADMSG;

        memcpy(&head, bytes.p, sizeof head);
        bytes = str_skip(bytes, sizeof head);

        if (head.what >= AGENT_DOS || head.flags & ~(uint32_t)(AGENT_TERMINAL | AGENT_LOGIN) ||
            head.n_argv > AGENT_WORDS_MAX || head.n_environment > AGENT_WORDS_MAX)
                return -EBADMSG;

        request.what = head.what;
        request.flags = head.flags;
        request.rows = head.rows;
        request.columns = head.columns;
        request.directory = text_read(&bytes);
        if (!request.directory)
                return -EBADMSG;

        int r = texts_read(&bytes, head.n_argv, &request, true);
        if (r == 0)
                r = texts_read(&bytes, head.n_environment, &request, false);
        if (r == 0 && (bytes.n || (head.what == AGENT_EXEC && head.n_argv == 0)))
                r = -EBADMSG;
        if (r == 0 && vec_push(&request.argv, NULL) < 0)
                r = -ENOMEM;
        if (r < 0)
                return r;

        request.argv.n--;
        *ret = request;
        request = (struct agent_request){ 0 };

        return 0;
}
