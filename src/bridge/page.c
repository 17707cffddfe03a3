/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/page.h"

#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>

static int page_refuse(struct err *err, const char *why) {
        return err_set(err, EINVAL, "%s", why);
}

/* --- queries --- */

/* Percent forms and '+' are resolved; only visible ASCII may come out. */
static int value_decode(struct str text, char *ret, size_t size) {
        size_t n = 0;

        for (size_t i = 0; i < text.n; i++) {
                char c = text.p[i];

                if (c == '+')
                        return -EINVAL; /* a space: no address and no state of a sign-in has one */
                if (c == '%') {
                        int high = i + 2 < text.n ? ascii_hex(text.p[i + 1]) : -1;
                        int low = -1;

                        if (high >= 0)
                                low = ascii_hex(text.p[i + 2]);

                        if (low < 0)
                                return -EINVAL;
                        c = (char)(high * 16 + low);
                        i += 2;
                }
                if (c <= ' ' || c > '~' || n + 1 >= size)
                        return -EINVAL;
                ret[n++] = c;
        }
        ret[n] = '\0';
        return 1;
}

/* Keys are compared as they are written: a key in percent form is another key, and names nothing here. */
int page_query_value(struct str query, const char *key, char *ret, size_t size) {
        struct str part, rest = query;
        int found = 0;

        while (str_split(&rest, '&', &part)) {
                ptrdiff_t equals = str_find(part, '=');
                struct str name = equals < 0 ? part : str_first(part, (size_t)equals);

                if (!str_is(name, key))
                        continue;
                if (found)
                        return -EINVAL;
                found = value_decode(equals < 0 ? str_n("", 0) : str_skip(part, (size_t)equals + 1), ret, size);
                if (found < 0)
                        return found;
        }
        return found;
}

/* --- the callback --- */

static bool path_is_plain(struct str path) {
        for (size_t i = 0; i < path.n; i++)
                if (!ascii_is_alnum(path.p[i]) && !strchr("-._~/", path.p[i]))
                        return false;
        return path.n > 0 && path.n <= PAGE_PATH_MAX;
}

/* "localhost:8085" and what follows. 0: it is not of the loopback address, so there is nothing to carry. */
static int redirect_read(struct str rest, struct page_callback *ret, struct err *err) {
        static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]" };
        ptrdiff_t slash = str_find(rest, '/');
        struct str authority = slash < 0 ? rest : str_first(rest, (size_t)slash);
        struct str path = slash < 0 ? STR("/") : str_skip(rest, (size_t)slash);
        ptrdiff_t question = str_find(path, '?'), colon = str_rfind(authority, ':');
        const char *host = NULL;
        uint16_t port = 0;

        for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
                struct str known = str_of(hosts[i]);
                bool same = str_starts(authority, known);

                if (same && (authority.n == known.n || authority.p[known.n] == ':'))
                        host = hosts[i];
        }
        if (!host)
                return 0;
        if (question >= 0)
                path = str_first(path, (size_t)question);
        if (colon < (ptrdiff_t)strlen(host) || !port_parse(str_skip(authority, (size_t)colon + 1), &port) ||
            port < PAGE_PORT_FIRST)
                return page_refuse(err, "its redirect_uri names no port of this machine from 1024 on");
        if (!path_is_plain(path))
                return page_refuse(err, "its redirect_uri has a path that is not plain");

        ret->wanted = true;
        ret->v6 = host[0] == '[';
        ret->port = port;
        memcpy(ret->host, host, strlen(host) + 1);
        memcpy(ret->path, path.p, path.n);
        ret->path[path.n] = '\0';
        return 0;
}

/* One that cannot be read could be it as well. */
static bool answers_by_post(struct str query) {
        char mode[64] = "";
        int r = page_query_value(query, "response_mode", mode, sizeof mode);

        return r < 0 || (r > 0 && strstr(mode, "form_post") != NULL);
}

static int callback_read(struct str query, struct page_callback *ret, struct err *err) {
        char redirect[PAGE_PATH_MAX + 64], state[PAGE_STATE_MAX + 1] = "";
        int r = page_query_value(query, "redirect_uri", redirect, sizeof redirect);

        if (r < 0)
                return page_refuse(err, "its redirect_uri is there twice, too long, or cannot be read");
        if (r == 0 || !str_starts(str_of(redirect), STR("http://")))
                return 0;
        if (page_query_value(query, "state", state, sizeof state) < 0)
                return page_refuse(err, "its state is there twice, too long, or cannot be read");

        r = redirect_read(str_skip(str_of(redirect), strlen("http://")), ret, err);
        if (r == 0 && ret->wanted && answers_by_post(query))
                return page_refuse(err,
                                   "its answer would come by POST (response_mode=form_post), and only a GET is carried "
                                   "inside; have the program ask for response_mode=query");
        if (r == 0 && ret->wanted)
                memcpy(ret->state, state, strlen(state) + 1);
        return r;
}

/* --- the address --- */

/* What a shell, a desktop file or a terminal could take for its own goes in percent form; an address means the same
 * with it. What no address has is refused. */
static int url_rebuild(struct str rest, struct buf *out) {
        for (size_t i = 0; i < rest.n; i++) {
                char c = rest.p[i];
                int r;

                if (c <= ' ' || c > '~' || strchr("\"<>\\^`{|}", c))
                        return -EINVAL;
                if (c == '%' && (i + 2 >= rest.n || ascii_hex(rest.p[i + 1]) < 0 || ascii_hex(rest.p[i + 2]) < 0))
                        return -EINVAL;
                if (strchr("$'()*;!", c))
                        r = buf_printf(out, "%%%02X", (unsigned char)c);
                else
                        r = buf_add_char(out, c);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int target_read(struct str authority, struct authority *ret, struct err *err) {
        if (str_find(authority, '@') >= 0)
                return page_refuse(err, "it has a name or a password before the host");
        if (authority_parse(authority, 443, ret, NULL) < 0)
                return page_refuse(err, "its host is not one");
        if (ret->host.kind != HOST_NAME || host_is_loopback_name(&ret->host) || str_find(host_str(&ret->host), '.') < 0)
                return page_refuse(err, "its host is an address, or a name of this machine or of a local network");
        return 0;
}

int page_parse(struct str text, struct page *ret, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(PAGE_URL_MAX);
        struct str scheme = STR("https://"), rest = str_skip(text, min_of(text.n, scheme.n));
        size_t host_n = 0;
        int r;

        *ret = (struct page){ 0 };
        if (text.n > PAGE_URL_MAX)
                return page_refuse(err, "it is longer than a person would read (3500 characters)");
        if (!str_eq_nocase(str_first(text, min_of(text.n, scheme.n)), scheme))
                return page_refuse(err, "only https:// pages are opened");
        while (host_n < rest.n && !strchr("/?#", rest.p[host_n]))
                host_n++;
        r = target_read(str_first(rest, host_n), &ret->target, err);
        if (r < 0)
                return r;

        rest = str_skip(rest, host_n);
        r = buf_printf(&out, "https://%s", ret->target.host.name);
        if (r == 0 && ret->target.port != 443)
                r = buf_printf(&out, ":%u", ret->target.port);
        if (r == 0 && (rest.n == 0 || rest.p[0] != '/'))
                r = buf_add(&out, "/");
        if (r == 0)
                r = url_rebuild(rest, &out);
        if (r == -EINVAL)
                return page_refuse(err, "it has a character that no address has");
        if (r < 0)
                return page_refuse(err, "it is longer than a person would read (3500 characters)");

        ptrdiff_t fragment = str_find(rest, '#');
        struct str before = fragment < 0 ? rest : str_first(rest, (size_t)fragment);
        ptrdiff_t question = str_find(before, '?');
        memcpy(ret->url, out.p, out.n);
        if (question < 0)
                return 0;

        return callback_read(str_skip(before, (size_t)question + 1), &ret->callback, err);
}
