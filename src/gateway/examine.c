/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/examine.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "bridge/git_answer.h"
#include "gateway/gate.h"
#include "gateway/refusal.h"
#include "ipc/event.h"

#include <errno.h>
#include <stdlib.h>

enum { DETAIL_MAX = 1024, DECODE_PIECE = 16384 };

/* --- the beginning and the end --- */

void examine_free(struct examine *examine) {
        if (!examine)
                return;

        receive_pack_done(&examine->head);
        graphql_call_done(&examine->graphql);
        decoder_free(examine->decoder);
        buf_done(&examine->body);
        buf_done(&examine->act);
        buf_done(&examine->detail);
        free(examine->lfs);
        free(examine->method);
        free(examine->where);
        free(examine);
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
        struct examine *examine = alloc_zeroed(sizeof *examine);

        if (!examine)
                return NULL;

        examine->kind = (uint8_t)kind;
        examine->target = *target;
        examine->method = str_dup(head->method);
        examine->where = str_format("%.*s\n%.*s", STR_FMT(head->target), STR_FMT(head->content_type));
        examine->body = BUF(body_max(kind));
        examine->act = BUF(EVENT_TEXT_MAX);
        examine->detail = BUF(DETAIL_MAX);
        examine->coded = head->coding != CODING_IDENTITY;
        examine->bad_type = head->content_types > 1;
        if (!examine->method || !examine->where) {
                examine_free(examine);
                return NULL;
        }

        struct str target_text = str_first(str_of(examine->where), head->target.n);
        ptrdiff_t mark = str_find(target_text, '?');
        examine->path = mark < 0 ? target_text : str_first(target_text, (size_t)mark);
        examine->query = mark < 0 ? STR("") : str_skip(target_text, (size_t)mark + 1);
        examine->content_type = str_skip(str_of(examine->where), head->target.n + 1);

        return examine;
}

/* --- git --- */

static enum examine_kind kind_of(const struct git_http *git) {
        if (git->kind == GIT_HTTP_RECEIVE_PACK)
                return EXAMINE_PUSH;
        if (git->kind == GIT_HTTP_LFS_BATCH)
                return EXAMINE_LFS;

        return EXAMINE_SERVICE;
}

/* "SERVICE HOST/PATH", then a line for each ref: "REF OLD NEW". What does not fit is left out. */
static void write_git_act(struct examine *examine) {
        char where[AUTHORITY_TEXT_MAX];

        authority_text(&examine->target, where);
        struct str host = str_of(where);
        if (str_ends(host, STR(":443")))
                host.n -= 4;

        buf_clear(&examine->act);
        (void)buf_printf(&examine->act, "%s %.*s/%.*s", examine->git.service, STR_FMT(host),
                         STR_FMT(examine->git.path.n ? examine->git.path : STR("?")));

        for (size_t i = 0; i < examine->head.updates.n; i++) {
                const struct git_update *u = &examine->head.updates.p[i];
                if (buf_printf(&examine->act, "\n%.*s %.*s %.*s", STR_FMT(u->ref), STR_FMT(u->old_id),
                               STR_FMT(u->new_id)) < 0)
                        break;
        }

        if (examine->lfs && examine->lfs->ref_n)
                (void)buf_printf(&examine->act, "\n%s - -", examine->lfs->ref);
}

static int begin_git(const struct snapshot *snapshot, const struct authority *target, const struct examine_head *head,
                     struct examine **ret) {
        struct git_http git;

        git_http_recognise(head->method, head->target, &git);
        if (git.kind == GIT_HTTP_NONE)
                return 0;

        if (git.kind == GIT_HTTP_FILE &&
            verdict_git(snapshot, target, git.path, git.right).verdict.reason == REASON_GIT_REPOSITORY)
                return 0;

        struct examine *examine = examine_new(target, head, kind_of(&git));
        if (!examine)
                return -ENOMEM;

        *ret = examine;
        git_http_recognise(head->method, str_first(str_of(examine->where), head->target.n),
                           &examine->git); /* in our own copy */
        examine->open = examine->kind != EXAMINE_SERVICE;
        write_git_act(examine);

        if (examine->kind == EXAMINE_PUSH && examine->coded) {
                enum coding coding = head->coding == CODING_GZIP ? CODING_GZIP : CODING_UNKNOWN;

                if (decoder_new(coding, &examine->decoder) == -ENOMEM)
                        return -ENOMEM;
        }

        return 0;
}

int examine_ssh(const struct authority *target, struct str path, enum git_right right, const char *service,
                struct examine **ret) {
        const struct examine_head head = { .method = STR("SSH"), .target = path };
        bool push = right == GIT_RIGHT_PUSH;
        struct examine *examine = examine_new(target, &head, push ? EXAMINE_PUSH : EXAMINE_SERVICE);

        if (!examine)
                return -ENOMEM;

        examine->git = (struct git_http){ .kind = push ? GIT_HTTP_RECEIVE_PACK : GIT_HTTP_SERVICE,
                                          .right = right,
                                          .path = examine->path,
                                          .service = service };
        examine->open = push;
        write_git_act(examine);
        *ret = examine;

        return 0;
}

static void examine_explain(struct examine *examine, const char *what) {
        buf_clear(&examine->detail);
        (void)buf_add(&examine->detail, what);
}

static struct verdict judge_lfs(struct examine *examine, const struct snapshot *snapshot, struct git_verdict *verdict) {
        if (!examine->known || !examine->lfs->upload) {
                *verdict = verdict_git(snapshot, &examine->target, examine->git.path, GIT_RIGHT_FETCH);
                if (!examine->known && verdict->verdict.reason == REASON_GIT_SERVICE) /* it may be an upload */
                        *verdict = verdict_git(snapshot, &examine->target, examine->git.path, GIT_RIGHT_PUSH);

                verdict->ask = false;
                return verdict->verdict;
        }

        const struct git_update update = { .ref = str_n(examine->lfs->ref, examine->lfs->ref_n) };
        const struct git_push push = { .updates = &update, .n = examine->lfs->ref_n ? 1 : 0 };
        *verdict = verdict_git_push(snapshot, &examine->target, examine->git.path, &push);

        return verdict->verdict;
}

/* What is not seen is not approved. */
static bool question_is_whole(const struct examine *examine) {
        cleanup(buf_done) struct buf text = BUF(GATE_QUESTION_MAX - 1);

        return examine_question(examine, &text) == 0;
}

static struct verdict judge_git(struct examine *examine, const struct snapshot *snapshot) {
        struct git_verdict v = { 0 };
        const struct git_push push = receive_pack_push(&examine->head);

        if (examine->git.kind == GIT_HTTP_BAD) {
                examine_explain(examine, "its path or query is not written as git writes it");
                return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_FORM, .rule = RULE_NONE };
        }

        if (examine->kind == EXAMINE_LFS)
                (void)judge_lfs(examine, snapshot, &v);
        else if (examine->kind == EXAMINE_PUSH && examine->known)
                v = verdict_git_push(snapshot, &examine->target, examine->git.path, &push);
        else
                v = verdict_git(snapshot, &examine->target, examine->git.path, examine->git.right);

        examine->ask = v.ask && examine->known && (examine->kind == EXAMINE_LFS || push.n > 0);

        buf_clear(&examine->detail);

        if (v.verdict.decision != DECISION_DENY && examine->ask && !question_is_whole(examine)) {
                examine_explain(examine,
                                "a person must agree to it, and its refs are too many or too long to be shown: "
                                "push fewer at once");
                return (struct verdict){ .decision = DECISION_DENY, .reason = REASON_GIT_REF, .rule = v.verdict.rule };
        }

        if (v.verdict.reason == REASON_GIT_REF && examine->kind == EXAMINE_PUSH && v.at < push.n)
                (void)buf_printf(&examine->detail, "%.*s: %s", STR_FMT(push.updates[v.at].ref), v.why);
        else if (v.why)
                (void)buf_add(&examine->detail, v.why);

        return v.verdict;
}

/* --- GraphQL --- */

static void write_graphql_act(struct examine *examine) {
        const struct graphql *g = &examine->graphql.graphql;

        buf_clear(&examine->act);
        (void)buf_printf(&examine->act, "graphql %s", g->mutation ? "mutation" : "query");
        for (size_t i = 0; i < g->fields.n; i++)
                if (buf_printf(&examine->act, "\n%.*s", STR_FMT(g->fields.p[i])) < 0)
                        break;
}

static int begin_graphql(const struct authority *target, const struct examine_head *head, struct examine **ret) {
        struct examine *examine = examine_new(target, head, EXAMINE_GRAPHQL);

        if (!examine)
                return -ENOMEM;
        examine->open = true;
        *ret = examine;
        return 0;
}

static struct verdict judge_graphql(struct examine *examine, const struct snapshot *snapshot) {
        const struct graphql *g = &examine->graphql.graphql;
        const struct graphql_fields fields = { .mutation = g->mutation, .names = g->fields.p, .n = g->fields.n };
        struct verdict verdict =
            verdict_graphql(snapshot, &examine->target.host, examine->target.port, str_of(examine->method),
                            examine->path, examine->known ? &fields : NULL);

        buf_clear(&examine->detail);
        if (verdict.reason != REASON_GRAPHQL)
                return verdict;

        (void)buf_printf(&examine->detail, "it asks for the %s", g->mutation ? "mutation" : "query");
        for (size_t i = 0; i < g->fields.n && i < 8; i++)
                (void)buf_printf(&examine->detail, "%s %.*s", i ? "," : "", STR_FMT(str_first(g->fields.p[i], 64)));

        return verdict;
}

/* --- judging --- */

struct verdict examine_verdict(struct examine *examine, const struct snapshot *snapshot, struct verdict granted) {
        struct verdict verdict =
            examine->kind == EXAMINE_GRAPHQL ? judge_graphql(examine, snapshot) : judge_git(examine, snapshot);

        if (granted.decision != DECISION_ALLOW)
                return granted;
        if (verdict.decision == DECISION_ASK) /* the host itself: a person has agreed to it before */
                verdict.decision = DECISION_ALLOW;

        return verdict;
}

bool examine_was_missed(struct str method, struct str path, struct verdict granted, struct verdict verdict) {
        struct git_http git;

        if (verdict.decision != DECISION_ALLOW)
                return false;
        git_http_recognise(method, path, &git);
        return verdict.graphql || (granted.git && git.kind != GIT_HTTP_NONE && git.kind != GIT_HTTP_FILE);
}

struct verdict examine_malformed(const struct examine *examine) {
        return (struct verdict){ .decision = DECISION_DENY,
                                 .reason = examine->kind == EXAMINE_GRAPHQL ? REASON_GRAPHQL : REASON_GIT_FORM,
                                 .rule = RULE_NONE };
}

int examine_request(const struct snapshot *snapshot, const struct authority *target, const struct examine_head *head,
                    struct verdict granted, struct examine **ret, struct verdict *ret_verdict) {
        struct str path = head->target;
        ptrdiff_t mark = str_find(path, '?');
        struct examine *examine = NULL;
        int r;

        *ret = NULL;
        if (granted.git)
                r = begin_git(snapshot, target, head, &examine);
        else
                r = 0;
        if (r == 0 && !examine) {
                *ret_verdict = verdict_request(snapshot, &target->host, target->port, head->method,
                                               mark < 0 ? path : str_first(path, (size_t)mark));
                if (ret_verdict->decision == DECISION_ALLOW && ret_verdict->graphql)
                        r = begin_graphql(target, head, &examine);
        }

        if (r < 0) {
                examine_free(examine);
                return r;
        }

        if (examine && examine->kind != EXAMINE_GRAPHQL)
                *ret_verdict = examine_verdict(examine, snapshot, granted);

        *ret = examine;
        return 0;
}

const char *examine_why(struct examine *examine) {
        return examine && examine->detail.n ? buf_text(&examine->detail) : NULL;
}

/* --- the body --- */

static int refuse_body(struct examine *examine, const char *what) {
        examine_explain(examine, what);
        return -EBADMSG;
}

/* What the server will decode, decoded. A head that goes over the end of a gzip member is refused: not every server
 * reads on there. */
static int add_decoded(struct examine *examine, struct str bytes) {
        char piece[DECODE_PIECE];

        if (!examine->decoder)
                return refuse_body(examine, "its body is coded in a way that git does not use");

        while (bytes.n > 0 || decoder_owes(examine->decoder)) {
                if (decoder_is_whole(examine->decoder) && examine->body.n > 0)
                        return refuse_body(examine, "its body is compressed in several parts");

                ssize_t n = decoder_run(examine->decoder, &bytes, piece, sizeof piece);
                if (n == -ENOMEM)
                        return -ENOMEM;
                if (n < 0)
                        return refuse_body(examine, "its body is not compressed as it says");

                int r = buf_append(&examine->body, str_n(piece, (size_t)n));
                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        return 0; /* enough to judge by, or too long: the head decides */

                struct receive_pack_scan scan = examine->scan;
                if (receive_pack_scan(&scan, buf_str(&examine->body)) != 0)
                        return 0;
                if (n == 0 && bytes.n == 0)
                        return 0;
        }

        return 0;
}

static int read_head(struct examine *examine, bool end) {
        int r;

        while ((r = receive_pack_scan(&examine->scan, buf_str(&examine->body))) > 0) {
                receive_pack_done(&examine->head);
                r = receive_pack_read(buf_str(&examine->body), &examine->head);
                if (r != 0)
                        break;
        }

        if (r == -EBADMSG)
                return refuse_body(examine, text_or(examine->head.problem, "its list of refs is too long, or none"));

        if (r == 0 && end)
                return refuse_body(examine, "it ends within its list of refs");
        if (r <= 0)
                return r;

        /* Nothing to do: nothing may follow that a server could take for something. */
        if (examine->head.updates.n == 0 && examine->body.n > examine->head.bytes)
                return refuse_body(examine, "something follows a list without refs");

        if (examine->head.updates.n == 0 && !end) {
                examine->scan.at = 0;
                return 0;
        }

        return 1;
}

static int feed_push(struct examine *examine, struct str bytes, bool end) {
        int r;

        if (examine->coded) {
                r = add_decoded(examine, bytes);
        } else {
                size_t room = examine->body.max - examine->body.n;
                r = buf_append(&examine->body, str_first(bytes, room));
        }

        if (r < 0)
                return r;

        r = read_head(examine, end);
        if (r > 0)
                write_git_act(examine);

        return r;
}

static int read_lfs(struct examine *examine) {
        examine->lfs = calloc(1, sizeof *examine->lfs);
        if (!examine->lfs)
                return -ENOMEM;

        int r = lfs_batch_read(buf_str(&examine->body), examine->lfs);
        if (r == -EBADMSG)
                return refuse_body(examine, "its body is no LFS batch in a form that is known here");
        if (r < 0)
                return r;

        examine->git.service = examine->lfs->upload ? "lfs-upload" : "lfs-download";
        write_git_act(examine);

        return 1;
}

static int read_graphql(struct examine *examine) {
        const struct graphql_request request = { .method = str_of(examine->method),
                                                 .query = examine->query,
                                                 .content_type = examine->bad_type ? STR("") : examine->content_type,
                                                 .coded = examine->coded,
                                                 .body = buf_str(&examine->body) };
        int r = graphql_request_read(&request, &examine->graphql);

        if (r == -EBADMSG)
                return refuse_body(examine, examine->graphql.graphql.problem);
        if (r < 0)
                return r;

        write_graphql_act(examine);
        return 1;
}

static int feed_whole(struct examine *examine, struct str bytes, bool end) {
        int r = buf_append(&examine->body, bytes);

        if (r == -EMSGSIZE)
                return refuse_body(examine, "its body is too long to be judged");
        if (r < 0 || !end)
                return r;
        if (examine->kind == EXAMINE_LFS && examine->coded)
                return refuse_body(examine, "its body is compressed");

        if (examine->kind == EXAMINE_LFS)
                return read_lfs(examine);

        return read_graphql(examine);
}

int examine_feed(struct examine *examine, struct str bytes, bool end) {
        int r = examine->kind == EXAMINE_PUSH ? feed_push(examine, bytes, end) : feed_whole(examine, bytes, end);

        examine->known = r > 0;
        return r;
}

/* --- answers --- */

int examine_answer(struct examine *examine, const struct snapshot *snapshot, const struct verdict *verdict,
                   struct buf *out) {
        cleanup(buf_done) struct buf help = BUF(REFUSAL_TEXT_MAX), reason = BUF(REFUSAL_TEXT_MAX);
        const char *why = examine_why(examine);
        int r;

        if (examine->kind != EXAMINE_PUSH || !examine->known || examine->head.updates.n == 0)
                return -EOPNOTSUPP;

        r = refusal_text(&help, snapshot, &examine->target, verdict, 0, why);
        if (r < 0)
                return r;

        r = buf_add_char(&help, '\n');
        if (r < 0)
                return r;

        r = buf_printf(&reason, "bailey refused it: %s", why ? why : reason_text((enum reason)verdict->reason));
        if (r < 0)
                return r;

        return git_answer_push(out, &examine->head, buf_str(&reason), buf_str(&help));
}

int examine_question(const struct examine *examine, struct buf *out) {
        struct str act = buf_str(&examine->act), line;
        int r = buf_printf(out, "push to ");

        (void)str_split(&act, '\n', &line);
        if (r >= 0)
                r = buf_append(out, str_skip(line, (size_t)(str_find(line, ' ') + 1)));
        for (size_t i = 0; r == 0 && i < examine->head.updates.n; i++) {
                const struct git_update *u = &examine->head.updates.p[i];

                /* The sandbox makes the new object: seven digits could be another one's as well. */
                r = buf_printf(out, "%s %.*s %.7s..%.12s", i ? "," : ":", STR_FMT(u->ref), u->old_id.p, u->new_id.p);
        }

        if (r == 0 && examine->kind == EXAMINE_LFS)
                r = buf_add(out, ": LFS objects");

        for (size_t i = 0; i < out->n; i++) /* refs may have other letters; the message is printable ASCII */
                if (out->p[i] < 0x20 || out->p[i] > 0x7e)
                        out->p[i] = '?';

        return r;
}
