/* SPDX-License-Identifier: Apache-2.0 */
/* bailey log --all: records of every run, found by the index and shown from the logs themselves. */
#include "base/cleanup.h"
#include "store/audit_index.h"
#include "verbs/record/log_view_internal.h"

#include <errno.h>
#include <stdio.h>

struct search {
        struct view view;
        VEC(char *) held; /* lines of a search for the newest, which comes from behind */
        struct err *err;
};

static void search_done(struct search *search) {
        log_view_done(&search->view);
        for (size_t i = 0; i < search->held.n; i++)
                free(search->held.p[i]);
        vec_done(&search->held);
}

static bool is_network(struct str kind) {
        return str_is(kind, event_kind_name(EVENT_REQUEST)) || str_is(kind, event_kind_name(EVENT_TUNNEL_OPEN)) ||
               str_is(kind, event_kind_name(EVENT_DNS)) || str_is(kind, event_kind_name(EVENT_PACKET));
}

static int show_hit(struct search *search, struct str line) {
        const struct log_request *request = search->view.request;
        struct audit_record record;
        int r;

        r = audit_line_parse(line, &record, search->err);
        if (r < 0)
                return r;
        if (request->requests && !is_network(record.kind))
                return 0;

        r = log_view_record(&search->view, line, &record);
        if (r < 0)
                return err_set(search->err, -r, "a record cannot be shown");

        return request->on_line(request->arg, buf_str(&search->view.line));
}

static int on_hit(void *arg, const struct audit_hit *hit) {
        struct search *s = arg;

        if (!s->view.request->limit)
                return show_hit(s, hit->line);

        char *copy = str_dup(hit->line);
        if (!copy || vec_push(&s->held, copy) < 0) {
                free(copy);
                return err_memory(s->err);
        }

        return 0;
}

static uint64_t time_of(const char text[static CLOCK_TEXT_MAX]) {
        char whole[CLOCK_TEXT_MAX + 4];
        uint64_t at_us;

        if (audit_time(str_of(text), &at_us))
                return at_us;
        snprintf(whole, sizeof whole, "%s%s", text, strlen(text) == 16 ? ":00" : "");
        if (clock_parse_text(str_of(whole), &at_us))
                return at_us;

        return 0;
}

static int parse_times(const struct log_request *request, struct audit_query *ret, struct err *err) {
        char since[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];
        int r;

        r = log_parse_time("--since", request->since, since, err);
        if (r < 0)
                return r;

        r = log_parse_time("--until", request->until, until, err);
        if (r < 0)
                return r;

        ret->since_us = time_of(since);
        ret->until_us = time_of(until);

        return 0;
}

int log_search(const struct log_request *request, struct err *err) {
        cleanup(audit_index_freep) struct audit_index *ix = NULL;
        cleanup(search_done) struct search search = {
                .view = { .request = request, .line = BUF(AUDIT_LINE_MAX), .text = BUF(AUDIT_LINE_MAX) }, .err = err
        };
        cleanup(free_ptr) char *run = NULL;
        int r = log_name_run(request->file, request->run, &run, err);

        if (r < 0)
                return r;

        struct audit_query query = { .run = run,
                                     .host = request->host,
                                     .path = request->path,
                                     .rule = request->rule,
                                     .credential = request->credential,
                                     .verdict = request->denied ? VERDICT_REFUSED : VERDICT_ANY,
                                     .newest_first = request->limit != 0,
                                     .limit = request->limit };

        r = parse_times(request, &query, err);
        if (r < 0)
                return r;

        r = audit_index_open(&ix, err);
        if (r < 0)
                return r;

        r = audit_index_update(ix, err);
        if (r < 0)
                return r;

        r = audit_index_search(ix, &query, on_hit, &search, err);
        for (size_t i = search.held.n; i-- > 0 && r == 0;)
                r = show_hit(&search, str_of(search.held.p[i]));

        return r;
}
