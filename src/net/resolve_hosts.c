/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve_hosts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>

enum { FILE_MAX = 1 << 20, STATIC_TTL = 3600 };

static bool next_word(struct str *rest, struct str *ret) {
        size_t at = 0;
        while (at < rest->n && (rest->p[at] == ' ' || rest->p[at] == '\t' || rest->p[at] == '\r'))
                at++;

        size_t end = at;
        while (end < rest->n && rest->p[end] != ' ' && rest->p[end] != '\t' && rest->p[end] != '\r')
                end++;

        *ret = str_n(rest->p + at, end - at);
        *rest = str_skip(*rest, end);

        return ret->n > 0;
}

static int add_address(struct map *answers, struct str name, const struct addr *addr) {
        struct resolve_answer *old = map_get(answers, name);
        size_t n = old ? old->n : 0;
        if (n >= RESOLVE_ADDRS_MAX)
                return -E2BIG;

        struct resolve_answer *grown = malloc(sizeof *grown + (n + 1) * sizeof *addr);
        if (!grown)
                return -ENOMEM;

        *grown = (struct resolve_answer){ .n = (uint16_t)(n + 1), .ttl = STATIC_TTL };
        if (old)
                memcpy(grown->addrs, old->addrs, n * sizeof *addr);

        grown->addrs[n] = *addr;
        void *replaced = NULL;
        int r = map_set(answers, name, grown, &replaced);
        if (r < 0)
                free(grown);
        else
                free(replaced);

        return r;
}

static int add_line(struct map *answers, struct str line, struct err *err) {
        ptrdiff_t comment = str_find(line, '#');
        if (comment >= 0)
                line = str_first(line, (size_t)comment);

        struct str word;
        if (!next_word(&line, &word))
                return 0;

        struct addr addr;
        if (!addr_parse(word, &addr))
                return err_set(err, EINVAL, "the line must begin with an IPv4 or IPv6 address");

        size_t names = 0;

        while (next_word(&line, &word)) {
                struct host host;
                int r = host_parse(word, &host, err);
                if (r < 0)
                        return r;
                if (host.kind != HOST_NAME)
                        return err_set(err, EINVAL, "an address cannot stand where a name belongs");

                r = add_address(answers, host_str(&host), &addr);
                if (r < 0)
                        return err_set(err, -r, "cannot keep one more address for %s", host.name);

                names++;
        }

        if (!names)
                return err_set(err, EINVAL, "the address has no name behind it");

        return 0;
}

int resolve_hosts_load(const char *path, struct map *answers, struct err *err) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return err_errno(err, "cannot open the host file %s", path);

        cleanup(buf_done) struct buf content = BUF(FILE_MAX);
        int r = fd_read_all(fd, &content);
        if (r < 0)
                return err_set(err, -r, "cannot read the host file %s (at most %d bytes)", path, FILE_MAX);

        struct str rest = buf_str(&content), line;
        for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
                r = add_line(answers, line, err);
                if (r < 0)
                        return err_wrap(err, r, "%s:%u", path, number);
        }

        return 0;
}
