/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/examine.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "bridge/git_answer.h"
#include "gateway/refusal.h"
#include "ipc/event.h"

#include <errno.h>
#include <stdlib.h>

enum { DETAIL_MAX = 1024, DECODE_PIECE = 16384, QUESTION_REFS = 3 };

/* --- the beginning and the end --- */

void examine_free(struct examine *e) {
        if (!e)
                return;
        receive_pack_done(&e->head);
        graphql_call_done(&e->graphql);
        decoder_free(e->decoder);
        buf_done(&e->body);
        buf_done(&e->act);
        buf_done(&e->detail);
        free(e->lfs);
        free(e->method);
        free(e->where);
        free(e);
}

static size_t body_max(enum examine_kind kind) {
        switch (kind) {
        case EXAMINE_PUSH:
                return EXAMINE_MAX;
        case EXAMINE_LFS:
                return LFS_BATCH_MAX;
        case EXAMINE_GRAPHQL:
                return GRAPHQL_BODY_MAX;
        default:
                return 0;
        }
}

static struct examine *examine_new(const struct authority *target, const struct examine_head *head,
                                   enum examine_kind kind) {
        struct examine *e = alloc_zeroed(sizeof *e);

        if (!e)
                return NULL;
        e->kind = (uint8_t)kind;
        e->target = *target;
        e->method = str_dup(head->method);
        e->where = str_format("%.*s\n%.*s", STR_FMT(head->target), STR_FMT(head->content_type));
        e->body = BUF(body_max(kind));
        e->act = BUF(EVENT_TEXT_MAX);
        e->detail = BUF(DETAIL_MAX);
        e->coded = head->coding != CODING_IDENTITY;
        e->bad_type = head->content_types > 1;
        if (!e->method || !e->where) {
                examine_free(e);
                return NULL;
        }
        struct str target_text = str_first(str_of(e->where), head->target.n);
        ptrdiff_t mark = str_find(target_text, '?');
        e->path = mark < 0 ? target_text : str_first(target_text, (size_t)mark);
        e->query = mark < 0 ? STR("") : str_skip(target_text, (size_t)mark + 1);
        e->content_type = str_skip(str_of(e->where), head->target.n + 1);
        return e;
}

/* --- git --- */

static enum examine_kind kind_of(const struct git_http *git) {
        if (git->kind == GIT_HTTP_RECEIVE_PACK)
                return EXAMINE_PUSH;
        return git->kind == GIT_HTTP_LFS_BATCH ? EXAMINE_LFS : EXAMINE_SERVICE;
}

/* "SERVICE HOST/PATH", then a line for each ref: "REF OLD NEW". What does not fit is left out. */
static void write_git_act(struct examine *e) {
        char where[AUTHORITY_TEXT_MAX];

        authority_text(&e->target, where);
        struct str host = str_of(where);
        if (str_ends(host, STR(":443")))
                host.n -= 4;
        buf_clear(&e->act);
        (void)buf_printf(&e->act, "%s %.*s/%.*s", e->git.service, STR_FMT(host),
                         STR_FMT(e->git.path.n ? e->git.path : STR("?")));
        for (size_t i = 0; i < e->head.updates.n; i++) {
                const struct git_update *u = &e->head.updates.p[i];
                if (buf_printf(&e->act, "\n%.*s %.*s %.*s", STR_FMT(u->ref), STR_FMT(u->old_id), STR_FMT(u->new_id)) <
                    0)
                        break;
        }
        if (e->lfs && e->lfs->ref_n)
                (void)buf_printf(&e->act, "\n%s - -", e->lfs->ref);
}

static int begin_git(const struct snapshot *s, const struct authority *target, const struct examine_head *head,
                     struct examine **ret) {
        struct git_http git;

        git_http_recognise(head->method, head->target, &git);
        if (git.kind == GIT_HTTP_NONE)
                return 0;
        if (git.kind == GIT_HTTP_FILE &&
            verdict_git(s, target, git.path, git.right).verdict.reason == REASON_GIT_REPOSITORY)
                return 0;

        struct examine *e = examine_new(target, head, kind_of(&git));
        if (!e)
                return -ENOMEM;
        *ret = e;
        git_http_recognise(head->method, str_first(str_of(e->where), head->target.n), &e->git); /* in our own copy */
        e->open = e->kind != EXAMINE_SERVICE;
        write_git_act(e);
        if (e->kind == EXAMINE_PUSH && e->coded)
                return decoder_new(head->coding == CODING_GZIP ? CODING_GZIP : CODING_UNKNOWN, &e->decoder) == -ENOMEM
                           ? -ENOMEM
                           : 0;
        return 0;
}

int examine_ssh(const struct authority *target, struct str path, enum git_right right, const char *service,
                struct examine **ret) {
        const struct examine_head head = { .method = STR("SSH"), .target = path };
        bool push = right == GIT_RIGHT_PUSH;
        struct examine *e = examine_new(target, &head, push ? EXAMINE_PUSH : EXAMINE_SERVICE);

        if (!e)
                return -ENOMEM;
        e->git = (struct git_http){ .kind = push ? GIT_HTTP_RECEIVE_PACK : GIT_HTTP_SERVICE,
                                    .right = right,
                                    .path = e->path,
                                    .service = service };
        e->open = push;
        write_git_act(e);
        *ret = e;
        return 0;
}

static void explain(struct examine *e, const char *what) {
        buf_clear(&e->detail);
        (void)buf_add(&e->detail, what);
}

static struct verdict judge_lfs(struct examine *e, const struct snapshot *s, struct git_verdict *v) {
        if (!e->known || !e->lfs->upload) {
                *v = verdict_git(s, &e->target, e->git.path, GIT_RIGHT_FETCH);
                if (!e->known && v->verdict.reason == REASON_GIT_SERVICE) /* it may be an upload */
                        *v = verdict_git(s, &e->target, e->git.path, GIT_RIGHT_PUSH);
                v->ask = false;
                return v->verdict;
        }
        const struct git_update update = { .ref = str_n(e->lfs->ref, e->lfs->ref_n) };
        const struct git_push push = { .updates = &update, .n = e->lfs->ref_n ? 1 : 0 };
        *v = verdict_git_push(s, &e->target, e->git.path, &push);
        return v->verdict;
}

static struct verdict judge_git(struct examine *e, const struct snapshot *s) {
        struct git_verdict v = { 0 };
        const struct git_push push = receive_pack_push(&e->head);

        if (e->git.kind == GIT_HTTP_BAD) {
                explain(e, "its path or query is not written as git writes it");
                return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_FORM, .rule = RULE_NONE };
        }
        if (e->kind == EXAMINE_LFS)
                (void)judge_lfs(e, s, &v);
        else if (e->kind == EXAMINE_PUSH && e->known)
                v = verdict_git_push(s, &e->target, e->git.path, &push);
        else
                v = verdict_git(s, &e->target, e->git.path, e->git.right);
        e->ask = v.ask && e->known && (e->kind == EXAMINE_LFS || push.n > 0);

        buf_clear(&e->detail);
        if (v.verdict.reason == REASON_GIT_REF && e->kind == EXAMINE_PUSH && v.at < push.n)
                (void)buf_printf(&e->detail, "%.*s: %s", STR_FMT(push.updates[v.at].ref), v.why);
        else if (v.why)
                (void)buf_add(&e->detail, v.why);
        return v.verdict;
}

/* --- GraphQL --- */

static void write_graphql_act(struct examine *e) {
        const struct graphql *g = &e->graphql.graphql;

        buf_clear(&e->act);
        (void)buf_printf(&e->act, "graphql %s", g->mutation ? "mutation" : "query");
        for (size_t i = 0; i < g->fields.n; i++)
                if (buf_printf(&e->act, "\n%.*s", STR_FMT(g->fields.p[i])) < 0)
                        break;
}

static int begin_graphql(const struct authority *target, const struct examine_head *head, struct examine **ret) {
        struct examine *e = examine_new(target, head, EXAMINE_GRAPHQL);

        if (!e)
                return -ENOMEM;
        e->open = true;
        *ret = e;
        return 0;
}

static struct verdict judge_graphql(struct examine *e, const struct snapshot *s) {
        const struct graphql *g = &e->graphql.graphql;
        const struct graphql_fields fields = { .mutation = g->mutation, .names = g->fields.p, .n = g->fields.n };
        struct verdict v =
            verdict_graphql(s, &e->target.host, e->target.port, str_of(e->method), e->path, e->known ? &fields : NULL);

        buf_clear(&e->detail);
        if (v.reason != REASON_GRAPHQL)
                return v;
        (void)buf_printf(&e->detail, "it asks for the %s", g->mutation ? "mutation" : "query");
        for (size_t i = 0; i < g->fields.n && i < 8; i++)
                (void)buf_printf(&e->detail, "%s %.*s", i ? "," : "", STR_FMT(str_first(g->fields.p[i], 64)));
        return v;
}

/* --- judging --- */

struct verdict examine_verdict(struct examine *e, const struct snapshot *s, struct verdict granted) {
        struct verdict v = e->kind == EXAMINE_GRAPHQL ? judge_graphql(e, s) : judge_git(e, s);

        if (granted.decision != DECISION_ALLOW)
                return granted;
        if (v.decision == DECISION_ASK) /* the host itself: a person has agreed to it before */
                v.decision = DECISION_ALLOW;
        return v;
}

bool examine_was_missed(struct str method, struct str path, struct verdict granted, struct verdict v) {
        struct git_http git;

        if (v.decision != DECISION_ALLOW)
                return false;
        git_http_recognise(method, path, &git);
        return v.graphql || (granted.git && git.kind != GIT_HTTP_NONE && git.kind != GIT_HTTP_FILE);
}

struct verdict examine_malformed(const struct examine *e) {
        return (struct verdict){ .decision = DECISION_DENY,
                                 .reason = e->kind == EXAMINE_GRAPHQL ? REASON_GRAPHQL : REASON_GIT_FORM,
                                 .rule = RULE_NONE };
}

int examine_request(const struct snapshot *s, const struct authority *target, const struct examine_head *head,
                    struct verdict granted, struct examine **ret, struct verdict *ret_verdict) {
        struct str path = head->target;
        ptrdiff_t mark = str_find(path, '?');
        struct examine *e = NULL;
        int r;

        *ret = NULL;
        r = granted.git ? begin_git(s, target, head, &e) : 0;
        if (r == 0 && !e) {
                *ret_verdict = verdict_request(s, &target->host, target->port, head->method,
                                               mark < 0 ? path : str_first(path, (size_t)mark));
                if (ret_verdict->decision == DECISION_ALLOW && ret_verdict->graphql)
                        r = begin_graphql(target, head, &e);
        }
        if (r < 0) {
                examine_free(e);
                return r;
        }
        if (e && e->kind != EXAMINE_GRAPHQL)
                *ret_verdict = examine_verdict(e, s, granted);
        *ret = e;
        return 0;
}

const char *examine_why(struct examine *e) {
        return e && e->detail.n ? buf_text(&e->detail) : NULL;
}

/* --- the body --- */

static int refuse_body(struct examine *e, const char *what) {
        explain(e, what);
        return -EBADMSG;
}

/* What the server will decode, decoded. A head that goes over the end of a gzip member is refused: not every server
 * reads on there. */
static int add_decoded(struct examine *e, struct str bytes) {
        char piece[DECODE_PIECE];

        if (!e->decoder)
                return refuse_body(e, "its body is coded in a way that git does not use");
        while (bytes.n > 0 || decoder_owes(e->decoder)) {
                if (decoder_is_whole(e->decoder) && e->body.n > 0)
                        return refuse_body(e, "its body is compressed in several parts");
                ssize_t n = decoder_run(e->decoder, &bytes, piece, sizeof piece);
                if (n < 0)
                        return n == -ENOMEM ? -ENOMEM : refuse_body(e, "its body is not compressed as it says");
                int r = buf_append(&e->body, str_n(piece, (size_t)n));
                if (r < 0)
                        return r == -ENOMEM ? r : 0; /* enough to judge by, or too long: the head decides */
                struct receive_pack_scan scan = e->scan;
                if (receive_pack_scan(&scan, buf_str(&e->body)) != 0)
                        return 0;
                if (n == 0 && bytes.n == 0)
                        return 0;
        }
        return 0;
}

static int read_head(struct examine *e, bool end) {
        int r;

        while ((r = receive_pack_scan(&e->scan, buf_str(&e->body))) > 0) {
                receive_pack_done(&e->head);
                r = receive_pack_read(buf_str(&e->body), &e->head);
                if (r != 0)
                        break;
        }
        if (r == -EBADMSG)
                return refuse_body(e, e->head.problem ? e->head.problem : "its list of refs is too long, or none");
        if (r == 0 && end)
                return refuse_body(e, "it ends within its list of refs");
        if (r <= 0)
                return r;
        /* Nothing to do: nothing may follow that a server could take for something. */
        if (e->head.updates.n == 0 && e->body.n > e->head.bytes)
                return refuse_body(e, "something follows a list without refs");
        if (e->head.updates.n == 0 && !end) {
                e->scan.at = 0;
                return 0;
        }
        return 1;
}

static int feed_push(struct examine *e, struct str bytes, bool end) {
        int r;

        if (e->coded) {
                r = add_decoded(e, bytes);
        } else {
                size_t room = e->body.max - e->body.n;
                r = buf_append(&e->body, str_first(bytes, room));
        }
        if (r < 0)
                return r;
        r = read_head(e, end);
        if (r > 0)
                write_git_act(e);
        return r;
}

static int read_lfs(struct examine *e) {
        e->lfs = calloc(1, sizeof *e->lfs);
        if (!e->lfs)
                return -ENOMEM;
        int r = lfs_batch_read(buf_str(&e->body), e->lfs);
        if (r == -EBADMSG)
                return refuse_body(e, "its body is no LFS batch in a form that is known here");
        if (r < 0)
                return r;
        e->git.service = e->lfs->upload ? "lfs-upload" : "lfs-download";
        write_git_act(e);
        return 1;
}

static int read_graphql(struct examine *e) {
        const struct graphql_request request = { .method = str_of(e->method),
                                                 .query = e->query,
                                                 .content_type = e->bad_type ? STR("") : e->content_type,
                                                 .coded = e->coded,
                                                 .body = buf_str(&e->body) };
        int r = graphql_request_read(&request, &e->graphql);

        if (r == -EBADMSG)
                return refuse_body(e, e->graphql.graphql.problem);
        if (r < 0)
                return r;
        write_graphql_act(e);
        return 1;
}

static int feed_whole(struct examine *e, struct str bytes, bool end) {
        int r = buf_append(&e->body, bytes);

        if (r == -EMSGSIZE)
                return refuse_body(e, "its body is too long to be judged");
        if (r < 0 || !end)
                return r;
        if (e->kind == EXAMINE_LFS && e->coded)
                return refuse_body(e, "its body is compressed");
        return e->kind == EXAMINE_LFS ? read_lfs(e) : read_graphql(e);
}

int examine_feed(struct examine *e, struct str bytes, bool end) {
        int r = e->kind == EXAMINE_PUSH ? feed_push(e, bytes, end) : feed_whole(e, bytes, end);

        e->known = r > 0;
        return r;
}

/* --- answers --- */

int examine_answer(struct examine *e, const struct snapshot *s, const struct verdict *v, struct buf *out) {
        cleanup(buf_done) struct buf help = BUF(REFUSAL_TEXT_MAX), reason = BUF(REFUSAL_TEXT_MAX);
        const char *why = examine_why(e);
        int r;

        if (e->kind != EXAMINE_PUSH || !e->known || e->head.updates.n == 0)
                return -EOPNOTSUPP;
        r = refusal_text(&help, s, &e->target, v, 0, why);
        r = r < 0 ? r : buf_add_char(&help, '\n');
        r = r < 0 ? r : buf_printf(&reason, "bailey refused it: %s", why ? why : reason_text((enum reason)v->reason));
        return r < 0 ? r : git_answer_push(out, &e->head, buf_str(&reason), buf_str(&help));
}

int examine_question(const struct examine *e, struct buf *out) {
        struct str act = buf_str(&e->act), line;
        int r = buf_printf(out, "push to ");

        (void)str_split(&act, '\n', &line);
        r = r < 0 ? r : buf_append(out, str_skip(line, (size_t)(str_find(line, ' ') + 1)));
        for (size_t i = 0; r == 0 && i < e->head.updates.n && i < QUESTION_REFS; i++) {
                const struct git_update *u = &e->head.updates.p[i];
                r = buf_printf(out, "%s %.*s %.7s..%.7s", i ? "," : ":", STR_FMT(str_first(u->ref, 60)), u->old_id.p,
                               u->new_id.p);
        }
        if (r == 0 && e->head.updates.n > QUESTION_REFS)
                r = buf_printf(out, " and %zu more", e->head.updates.n - QUESTION_REFS);
        if (r == 0 && e->kind == EXAMINE_LFS)
                r = buf_add(out, ": LFS objects");
        for (size_t i = 0; i < out->n; i++) /* refs may have other letters; the message is printable ASCII */
                if (out->p[i] < 0x20 || out->p[i] > 0x7e)
                        out->p[i] = '?';
        return r;
}
