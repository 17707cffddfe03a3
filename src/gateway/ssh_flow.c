/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a session: the client's as they are, the program's in frames. Each direction waits for the other side: at
 * most one piece of each is held. */
#include "gateway/quota.h"
#include "gateway/ssh_session_internal.h"

#include <errno.h>

int ssh_flow_flush(struct ssh_session *s) {
        while (s->out_at < s->out.n) {
                ssize_t n = stream_write(s->client.stream, str_skip(buf_str(&s->out), s->out_at));
                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return (int)n;
                s->out_at += (size_t)n;
        }
        buf_clear(&s->out);
        s->out_at = 0;
        return 1;
}

int ssh_flow_frame(struct ssh_session *s, enum ssh_frame_kind kind, struct str bytes) {
        unsigned char head[SSH_FRAME_HEAD];
        int r;

        if (bytes.n == 0)
                return 0;
        ssh_frame_head(kind, bytes.n, head);
        r = buf_append(&s->out, str_n(head, sizeof head));
        return r < 0 ? r : buf_append(&s->out, bytes);
}

/* One read into the rest of a frame, straight behind its head. */
static int read_output(struct ssh_session *s) {
        ssize_t n;
        int r = buf_reserve(&s->out, SSH_FRAME_HEAD + SSH_PIECE);

        if (r < 0)
                return r;
        n = stream_read(s->program, s->out.p + s->out.n + SSH_FRAME_HEAD, SSH_PIECE);
        if (n <= 0)
                return (int)n;
        ssh_frame_head(SSH_FRAME_OUTPUT, (size_t)n, (unsigned char *)s->out.p + s->out.n);
        s->out.n += SSH_FRAME_HEAD + (size_t)n;
        s->bytes_in += (uint64_t)n;
        return (int)n;
}

static int read_errors(struct ssh_session *s) {
        char piece[SSH_ERRORS_MAX];
        struct buf shown = BUF(2 * SSH_ERRORS_MAX);
        ssize_t n = stream_read(s->errors, piece, sizeof piece);
        int r = 0;

        if (n == -EAGAIN)
                return -EAGAIN;
        r = ssh_errors_take(&s->said, str_n(piece, n > 0 ? (size_t)n : 0), n <= 0, &shown);
        if (r == 0)
                r = ssh_flow_frame(s, SSH_FRAME_ERRORS, buf_str(&shown));
        buf_done(&shown);
        return r < 0 ? r : (int)n;
}

/* A stream that has ended, or failed, has nothing more to say. */
static int pull(struct ssh_session *s, struct stream **stream, int (*read_some)(struct ssh_session *)) {
        int n;

        if (!*stream)
                return 0;
        n = read_some(s);
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

int ssh_flow_out(struct ssh_session *s) {
        int output, errors;

        if (s->out.n > 0)
                return 0;
        output = pull(s, &s->program, read_output);
        if (output < 0)
                return output;
        errors = pull(s, &s->errors, read_errors);
        return errors < 0 ? errors : output | errors;
}

int ssh_flow_read(struct ssh_session *s, size_t max) {
        size_t room = s->in.n < max ? max - s->in.n : 0;
        ssize_t n;
        int r;

        if (s->client_ended || room == 0)
                return 0;
        if (room > SSH_PIECE)
                room = SSH_PIECE;
        r = buf_reserve(&s->in, room);
        if (r < 0)
                return r;
        n = stream_read(s->client.stream, s->in.p + s->in.n, room);
        if (n == -EAGAIN)
                return 0;
        if (n <= 0)
                s->client_ended = true;
        else
                s->in.n += (size_t)n;
        return 1;
}

/* To the program; its end too. A program that takes no more has said why, or will. */
int ssh_flow_in(struct ssh_session *s) {
        int moved = ssh_flow_read(s, SSH_PIECE);

        if (moved < 0)
                return moved;
        while (s->in.n > 0) {
                ssize_t n = s->program ? stream_write(s->program, buf_str(&s->in)) : (ssize_t)s->in.n;
                if (n == -EAGAIN)
                        return moved;
                if (n < 0)
                        n = (ssize_t)s->in.n;
                s->bytes_out += (uint64_t)n;
                buf_consume(&s->in, (size_t)n);
                moved = 1;
                if (!quota_sent(s->worker->gateway->quota, s->host_bytes, (size_t)n))
                        return -EDQUOT;
        }
        if (s->client_ended && !s->finished && s->program) {
                s->finished = true;
                (void)stream_finish(s->program);
        }
        return moved;
}

bool ssh_flow_is_over(const struct ssh_session *s) {
        return s->status != SSH_STATUS_NONE && s->out.n == 0 && (!s->program || !s->program->readable) &&
               (!s->errors || !s->errors->readable);
}
