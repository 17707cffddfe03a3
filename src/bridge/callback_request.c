/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/callback_request.h"

#include <assert.h>
#include <stdio.h>

static const char *const texts[] = {
        [CALLBACK_CARRY] = "carried inside",
        [CALLBACK_MORE] = "it ended within its head",
        [CALLBACK_FORM] = "it is no plain request",
        [CALLBACK_METHOD] = "its method is not GET",
        [CALLBACK_HOST] = "it is for another host or port",
        [CALLBACK_PATH] = "nobody announced this path",
        [CALLBACK_STATE] = "its state is not the one that was announced",
        [CALLBACK_SECOND] = "the callback was carried inside before",
        [CALLBACK_LATE] = "the time for the callback is over",
};
static_assert(sizeof texts / sizeof *texts == CALLBACK_VERDICTS, "a text for every verdict");

const char *callback_verdict_text(enum callback_verdict verdict) {
        return verdict < CALLBACK_VERDICTS ? texts[verdict] : "?";
}

/* One line, without its end. False: there is no more, or it has a lone CR or LF or a control character. */
static bool line_take(struct str *rest, struct str *ret) {
        ptrdiff_t end = str_find(*rest, '\n');

        if (end < 1 || rest->p[end - 1] != '\r')
                return false;
        *ret = str_first(*rest, (size_t)end - 1);
        *rest = str_skip(*rest, (size_t)end + 1);
        for (size_t i = 0; i < ret->n; i++)
                if ((unsigned char)ret->p[i] < ' ' && ret->p[i] != '\t')
                        return false;
        return true;
}

static bool target_is_plain(struct str target) {
        for (size_t i = 0; i < target.n; i++)
                if (target.p[i] <= ' ' || target.p[i] > '~' || strchr("\"<>\\^`{|}#", target.p[i]))
                        return false;
        return target.n > 0 && target.p[0] == '/';
}

/* Exactly one Host, no body. */
static bool headers_read(struct str rest, struct str *ret_host) {
        struct str line, seen = { 0 };

        while (line_take(&rest, &line)) {
                if (line.n == 0) {
                        *ret_host = seen;
                        return seen.p != NULL;
                }
                ptrdiff_t colon = str_find(line, ':');
                if (colon < 1 || line.p[0] == ' ' || line.p[0] == '\t')
                        return false;
                struct str name = str_first(line, (size_t)colon), value = str_trim(str_skip(line, (size_t)colon + 1));
                if (str_eq_nocase(name, STR("content-length")) || str_eq_nocase(name, STR("transfer-encoding")))
                        return false;
                if (!str_eq_nocase(name, STR("host")))
                        continue;
                if (seen.p)
                        return false;
                seen = value;
        }
        return false;
}

static bool head_is_whole(struct str head) {
        for (size_t i = 3; i < head.n; i++)
                if (memcmp(head.p + i - 3, "\r\n\r\n", 4) == 0)
                        return true;
        return false;
}

static enum callback_verdict state_judge(struct str query, const struct page_callback *callback) {
        char state[PAGE_STATE_MAX + 1] = "";

        if (!callback->state[0])
                return CALLBACK_CARRY;
        if (page_query_value(query, "state", state, sizeof state) != 1 || strcmp(state, callback->state) != 0)
                return CALLBACK_STATE;
        return CALLBACK_CARRY;
}

enum callback_verdict callback_judge(struct str head, const struct page_callback *callback, struct buf *out) {
        struct str rest = head, line, method, target, host;
        char wanted[32];

        if (!head_is_whole(head))
                return head.n >= CALLBACK_HEAD_MAX ? CALLBACK_FORM : CALLBACK_MORE;
        if (!line_take(&rest, &line) || !str_split(&line, ' ', &method) || !str_split(&line, ' ', &target))
                return CALLBACK_FORM;
        if ((!str_is(line, "HTTP/1.1") && !str_is(line, "HTTP/1.0")) || !target_is_plain(target))
                return CALLBACK_FORM;
        if (!str_is(method, "GET"))
                return CALLBACK_METHOD;
        if (!headers_read(rest, &host))
                return CALLBACK_FORM;
        snprintf(wanted, sizeof wanted, "%s:%u", callback->host, callback->port);
        if (!str_eq_nocase(host, str_of(wanted)))
                return CALLBACK_HOST;

        ptrdiff_t question = str_find(target, '?');
        struct str path = question < 0 ? target : str_first(target, (size_t)question);
        struct str query = question < 0 ? str_n("", 0) : str_skip(target, (size_t)question + 1);
        if (!str_is(path, callback->path))
                return CALLBACK_PATH;
        if (state_judge(query, callback) != CALLBACK_CARRY)
                return CALLBACK_STATE;
        if (buf_printf(
                out, "GET %.*s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bailey\r\nAccept: */*\r\nConnection: close\r\n\r\n",
                STR_FMT(target), wanted) < 0)
                return CALLBACK_FORM;
        return CALLBACK_CARRY;
}
