/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ssh says to people, line by line. One kind of line is for us: the key that the host has shown, which the
 * supervisor has ssh print (run/run_programs.c). It becomes advice when ssh does not know that key.
 */
#include "gateway/ssh/ssh_session_internal.h"

#include <stdio.h>

static const struct str key_mark = { "bailey-host-key ", 16 };

static int line_take(struct ssh_errors *errors, struct str line, struct buf *out) {
        if (str_starts(line, key_mark)) {
                struct str key = str_skip(line, key_mark.n);
                while (key.n > 0 && (unsigned char)key.p[key.n - 1] <= ' ')
                        key.n--;

                (void)snprintf(errors->host_key, sizeof errors->host_key, "%.*s",
                               STR_FMT(str_first(key, sizeof errors->host_key - 1)));
                return 0;
        }

        if (memmem(line.p, line.n, "ost key verification failed", 27))
                errors->unverified = true;

        return buf_append(out, line);
}

int ssh_errors_take(struct ssh_errors *errors, struct str bytes, bool last, struct buf *out) {
        int r = 0;

        while (r == 0 && bytes.n > 0) {
                ptrdiff_t end = str_find(bytes, '\n');
                struct str piece = end < 0 ? bytes : str_first(bytes, (size_t)end + 1);
                if (errors->line.n + piece.n > errors->line.max)
                        piece = str_first(piece, errors->line.max - errors->line.n);

                r = buf_append(&errors->line, piece);
                bytes = str_skip(bytes, piece.n);

                if (r == 0 &&
                    ((end >= 0 && errors->line.p[errors->line.n - 1] == '\n') || errors->line.n == errors->line.max)) {
                        r = line_take(errors, buf_str(&errors->line), out);
                        buf_clear(&errors->line);
                }
        }

        if (r == 0 && last && errors->line.n > 0) {
                r = line_take(errors, buf_str(&errors->line), out);
                buf_clear(&errors->line);
        }

        return r;
}

int ssh_errors_advise(const struct ssh_errors *errors, const struct authority *target, struct buf *out) {
        if (!errors->unverified || !errors->host_key[0])
                return 0;

        return buf_printf(
            out,
            "bailey: the key of %s is not known on this host, or is another one than before. It has shown "
            "%s. If a person has compared that with what the server's owner says, outside: ssh-keyscan -p "
            "%u %s >> ~/.ssh/known_hosts\n",
            target->host.name, errors->host_key, target->port, target->host.name);
}
