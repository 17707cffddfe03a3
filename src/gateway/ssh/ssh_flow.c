/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a session: the client's as they are, the program's in frames. Each direction waits for the other side: at
 * most one piece of each is held. */
#include "gateway/load/quota.h"
#include "gateway/ssh/ssh_session_internal.h"

#include <errno.h>

int ssh_flow_flush(struct ssh_session *session) {
        while (session->out_at < session->out.n) {
                ssize_t n = stream_write(session->client.stream, str_skip(buf_str(&session->out), session->out_at));
                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return (int)n;

                session->out_at += (size_t)n;
        }

        buf_clear(&session->out);
        session->out_at = 0;

        return 1;
}

int ssh_flow_frame(struct ssh_session *session, enum ssh_frame_kind kind, struct str bytes) {
        unsigned char head[SSH_FRAME_HEAD];
        int r;

        if (bytes.n == 0)
                return 0;

        ssh_frame_head(kind, bytes.n, head);
        r = buf_append(&session->out, str_n(head, sizeof head));
        if (r < 0)
                return r;

        return buf_append(&session->out, bytes);
}

/* One read into the rest of a frame, straight behind its head. */
static int read_output(struct ssh_session *session) {
        ssize_t n;
        int r = buf_reserve(&session->out, SSH_FRAME_HEAD + SSH_PIECE);

        if (r < 0)
                return r;

        n = stream_read(session->program, session->out.p + session->out.n + SSH_FRAME_HEAD, SSH_PIECE);
        if (n <= 0)
                return (int)n;

        ssh_frame_head(SSH_FRAME_OUTPUT, (size_t)n, (unsigned char *)session->out.p + session->out.n);
        session->out.n += SSH_FRAME_HEAD + (size_t)n;
        session->bytes_in += (uint64_t)n;

        return (int)n;
}

static int read_errors(struct ssh_session *session) {
        char piece[SSH_ERRORS_MAX];
        struct buf shown = BUF(2 * SSH_ERRORS_MAX);
        ssize_t n = stream_read(session->errors, piece, sizeof piece);
        int r = 0;

        if (n == -EAGAIN)
                return -EAGAIN;

        r = ssh_errors_take(&session->said, str_n(piece, n > 0 ? (size_t)n : 0), n <= 0, &shown);
        if (r == 0)
                r = ssh_flow_frame(session, SSH_FRAME_ERRORS, buf_str(&shown));

        buf_done(&shown);
        if (r < 0)
                return r;

        return (int)n;
}

/* A stream that has ended, or failed, has nothing more to say. */
static int flow_pull(struct ssh_session *session, struct stream **stream, int (*read_some)(struct ssh_session *)) {
        int n;

        if (!*stream)
                return 0;

        n = read_some(session);
        if (n == -EAGAIN)
                return 0;
        if (n == -ENOMEM || n == -EMSGSIZE)
                return n;

        if (n <= 0) {
                stream_close(*stream);
                *stream = NULL;
        }

        return 1;
}

int ssh_flow_out(struct ssh_session *session) {
        int output, errors;

        if (session->out.n > 0)
                return 0;

        output = flow_pull(session, &session->program, read_output);
        if (output < 0)
                return output;

        errors = flow_pull(session, &session->errors, read_errors);
        if (errors < 0)
                return errors;

        return output | errors;
}

int ssh_flow_read(struct ssh_session *session, size_t max) {
        size_t room = session->in.n < max ? max - session->in.n : 0;
        ssize_t n;
        int r;

        if (session->client_ended || room == 0)
                return 0;
        if (room > SSH_PIECE)
                room = SSH_PIECE;

        r = buf_reserve(&session->in, room);
        if (r < 0)
                return r;

        n = stream_read(session->client.stream, session->in.p + session->in.n, room);
        if (n == -EAGAIN)
                return 0;

        if (n <= 0)
                session->client_ended = true;
        else
                session->in.n += (size_t)n;

        return 1;
}

/* To the program; its end too. A program that takes no more has said why, or will. */
int ssh_flow_in(struct ssh_session *session) {
        int moved = ssh_flow_read(session, SSH_PIECE);

        if (moved < 0)
                return moved;

        while (session->in.n > 0) {
                ssize_t n =
                    session->program ? stream_write(session->program, buf_str(&session->in)) : (ssize_t)session->in.n;
                if (n == -EAGAIN)
                        return moved;
                if (n < 0)
                        n = (ssize_t)session->in.n;

                session->bytes_out += (uint64_t)n;
                buf_consume(&session->in, (size_t)n);
                moved = 1;

                if (!quota_sent(session->worker->gateway->quota, session->host_bytes, (size_t)n))
                        return -EDQUOT;
        }

        if (session->client_ended && !session->finished && session->program) {
                session->finished = true;
                (void)stream_finish(session->program);
        }

        return moved;
}

bool ssh_flow_is_over(const struct ssh_session *session) {
        return session->status != SSH_STATUS_NONE && session->out.n == 0 &&
               (!session->program || !session->program->readable) && (!session->errors || !session->errors->readable);
}
