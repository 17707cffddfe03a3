/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve_hosts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

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

static int add_address(struct map *answers, struct str name, const struct addr *a) {
        struct resolve_answer *old = map_get(answers, name);
        size_t n = old ? old->n : 0;
        if (n >= RESOLVE_ADDRS_MAX)
                return -E2BIG;
        struct resolve_answer *grown = malloc(sizeof *grown + (n + 1) * sizeof *a);
        if (!grown)
                return -ENOMEM;
        *grown = (struct resolve_answer){ .n = (uint16_t)(n + 1), .ttl = STATIC_TTL };
        if (old)
                memcpy(grown->addrs, old->addrs, n * sizeof *a);
        grown->addrs[n] = *a;
        void *replaced = NULL;
        int r = map_set(answers, name, grown, &replaced);
        if (r < 0)
                free(grown);
        else
                free(replaced);
        return r;
}

static int add_line(struct map *answers, struct str line, struct err *e) {
        ptrdiff_t comment = str_find(line, '#');
        if (comment >= 0)
                line = str_first(line, (size_t)comment);
        struct str word;
        if (!next_word(&line, &word))
                return 0;
        struct addr a;
        if (!addr_parse(word, &a))
                return err_set(e, EINVAL, "the line must begin with an IPv4 or IPv6 address");
        size_t names = 0;
        while (next_word(&line, &word)) {
                struct host h;
                int r = host_parse(word, &h, e);
                if (r < 0)
                        return r;
                if (h.kind != HOST_NAME)
                        return err_set(e, EINVAL, "an address cannot stand where a name belongs");
                r = add_address(answers, host_str(&h), &a);
                if (r < 0)
                        return err_set(e, -r, "cannot keep one more address for %s", h.name);
                names++;
        }
        return names ? 0 : err_set(e, EINVAL, "the address has no name behind it");
}

int resolve_hosts_load(const char *path, struct map *answers, struct err *e) {
        cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return err_errno(e, "cannot open the host file %s", path);
        cleanup(buf_done) struct buf content = BUF(FILE_MAX);
        int r = fd_read_all(fd, &content);
        if (r < 0)
                return err_set(e, -r, "cannot read the host file %s (at most %d bytes)", path, FILE_MAX);
        struct str rest = buf_str(&content), line;
        for (unsigned number = 1; str_split(&rest, '\n', &line); number++) {
                r = add_line(answers, line, e);
                if (r < 0)
                        return err_wrap(e, r, "%s:%u", path, number);
        }
        return 0;
}
