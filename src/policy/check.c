/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/check.h"

#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/git/forges.h"
#include "policy/groups.h"
#include "policy/judge/snapshot.h"
#include "policy/mappings.h"
#include "policy/match/pattern.h"
#include "policy/profile/profile_names.h"

#include <errno.h>

int check_profile(struct str text, struct err *err) {
        return profile_check_name(text, err);
}

/* True when every byte is a letter, a digit or one of `more`. */
static bool consists_of(struct str text, const char *more) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && !(text.p[i] && strchr(more, text.p[i])))
                        return false;
        return text.n > 0;
}

int check_name(struct str text, struct err *err) {
        if (text.n <= 64 && consists_of(text, "-_."))
                return 0;
        return err_set(err, EINVAL, "%s is not a name: 1 to 64 letters, digits, '-', '_' or '.'", show(text).text);
}

int check_plain_pattern(struct str text, struct err *err) {
        struct pattern pattern;
        return pattern_parse_user(text, &pattern, err);
}

int check_host_pattern(struct str text, struct err *err) {
        if (group_is_reference(text)) {
                if (!group_find(text, err))
                        return -ENOENT;
                return 0;
        }
        return check_plain_pattern(text, err);
}

/* Refuses here what the gateway would refuse: it starts only at the first connection, when the program has run for a
 * while. */
static int check_listed(enum rule_list list, struct str text, struct err *err) {
        struct pattern pattern;
        int r = pattern_parse_user(text, &pattern, err);

        if (r < 0)
                return r;

        return snapshot_check_pattern(list, &pattern, err);
}

int check_allowed_entry(struct str text, struct err *err) {
        if (forge_is_reference(text))
                return check_forge(text, err);
        if (group_is_reference(text))
                return check_host_pattern(text, err);

        return check_listed(LIST_ALLOW, text, err);
}

int check_private_entry(struct str text, struct err *err) {
        return check_listed(LIST_ALLOW_PRIVATE, text, err);
}

int check_denied_pattern(struct str text, struct err *err) {
        struct pattern pattern;

        if (group_is_reference(text))
                return check_host_pattern(text, err);
        return pattern_parse_refusal(text, &pattern, err);
}

/* It is printed to terminals, written to logs and sent in answers: one line, nothing that steers. */
int check_reason(struct str text, struct err *err) {
        enum { REASON_BYTES_MAX = 400 };

        if (text.n == 0 || text.n > REASON_BYTES_MAX)
                return err_set(err, EINVAL, "a reason is a line of 1 to %d bytes", REASON_BYTES_MAX);

        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
                        return err_set(err, EINVAL, "a reason is one line of text, without control characters");

        return 0;
}

int check_command_word(struct str text, struct err *err) {
        enum { COMMAND_WORD_BYTES_MAX = 4096 };

        if (text.n == 0 || text.n > COMMAND_WORD_BYTES_MAX)
                return err_set(err, EINVAL, "a word of a command has 1 to %d bytes, this one %zu",
                               COMMAND_WORD_BYTES_MAX, text.n);
        return 0;
}

int check_network(struct str text, struct err *err) {
        struct cidr net;
        if (cidr_parse(text, &net))
                return 0;
        return err_set(err, EINVAL, "%s is not an address or a network such as 10.0.0.0/8 (host bits zero)",
                       show(text).text);
}

static bool parse_port(struct str text, uint16_t *ret) {
        uint64_t port;
        if (text.n > 5 || !str_to_u64(text, UINT16_MAX, &port) || port == 0)
                return false;
        *ret = (uint16_t)port;
        return true;
}

/* The part before the ports: "127.0.0.1:" or "[::1]:". */
static int parse_publish_address(struct str text, struct port_map *map, struct err *err) {
        struct addr addr;
        bool bracketed = text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']';
        struct str plain = bracketed ? str_n(text.p + 1, text.n - 2) : text;
        if (!addr_parse(plain, &addr) || bracketed != (addr.family == ADDR_V6))
                return err_set(err, EINVAL, "%s is not an address to publish on, such as 127.0.0.1 or [::1]",
                               show(text).text);

        if (addr_classify(&addr) == ADDR_CLASS_UNSPECIFIED)
                return err_set(err, EINVAL, "%s is every address of this host; name the one to publish on",
                               show(text).text);

        map->addr = str_dup(plain);
        if (!map->addr)
                return err_memory(err);

        return 0;
}

int check_parse_ports(struct str text, struct port_map *ret, struct err *err) {
        struct port_map map = { 0 };
        ptrdiff_t last = str_rfind(text, ':');
        struct str inside = str_skip(text, (size_t)(last + 1)), outside = str_first(text, last < 0 ? 0 : (size_t)last);
        ptrdiff_t before = str_rfind(outside, ':');
        struct str address = str_first(outside, before < 0 ? 0 : (size_t)before);

        if (last >= 0)
                outside = str_skip(outside, (size_t)(before + 1));

        if (!parse_port(inside, &map.inside) || (last >= 0 && !parse_port(outside, &map.outside)))
                return err_set(err, EINVAL, "%s: ports are whole numbers from 1 to 65535, as in 8080:80",
                               show(text).text);

        if (last < 0)
                map.outside = map.inside;

        int r = 0;

        if (before >= 0)
                r = parse_publish_address(address, &map, err);

        if (r < 0)
                return r;

        *ret = map;
        return 0;
}

int check_publish(struct str text, struct err *err) {
        struct port_map map = { 0 };
        if (str_find(text, ':') < 0)
                return err_set(err, EINVAL, "%s needs two ports: outside and inside, as in 8080:80", show(text).text);
        int r = check_parse_ports(text, &map, err);
        if (r == 0)
                free(map.addr);
        return r;
}

int check_port(struct str text, struct err *err) {
        uint16_t port;
        if (!parse_port(text, &port))
                return err_set(err, EINVAL, "%s is not a port from 1 to 65535", show(text).text);

        return 0;
}

int check_proxy_url(struct str text, struct err *err) {
        static const char *const schemes[] = { "http://", "socks5://" };
        struct str rest = { 0 };

        for (size_t i = 0; i < 2; i++)
                if (str_starts(text, str_of(schemes[i])))
                        rest = str_skip(text, strlen(schemes[i]));

        if (rest.n == 0)
                return err_set(err, EINVAL, "a proxy is written http://HOST:PORT or socks5://HOST:PORT");
        if (rest.p[rest.n - 1] == '/')
                rest.n--;

        ptrdiff_t at = str_rfind(rest, '@');
        struct str target = str_skip(rest, (size_t)(at + 1));
        struct authority authority;

        /* The text may hold a password: the message names only what follows it. */
        int r = authority_parse(target, 0, &authority, err);
        if (r < 0)
                return err_wrap(err, r, "the proxy's host and port %s", show(target).text);

        return 0;
}

int check_webhook(struct str text, struct err *err) {
        bool tls = str_starts(text, STR("https://"));
        if (!tls && !str_starts(text, STR("http://")))
                return err_set(err, EINVAL, "a webhook is an http:// or https:// URL");

        struct str rest = str_skip(text, tls ? 8 : 7);

        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] <= 0x20 || (unsigned char)text.p[i] >= 0x7f)
                        return err_set(err, EINVAL, "a webhook's URL is printable ASCII without blanks");

        ptrdiff_t slash = str_find(rest, '/');
        struct authority to;

        /* The path often is a secret: the message names the host only. */
        struct str host = slash < 0 ? rest : str_first(rest, (size_t)slash);
        int r = authority_parse(host, tls ? 443 : 80, &to, err);

        if (r < 0)
                return err_wrap(err, r, "the webhook's host %s", show(host).text);

        return 0;
}

/* A token goes there: plain HTTP only where nobody can listen. */
int check_chat_url(struct str text, struct err *err) {
        bool tls = str_starts(text, STR("https://"));
        struct str host = str_skip(text, tls ? 8 : 7);
        struct authority to;
        int r;

        if (!tls && !str_starts(text, STR("http://")))
                return err_set(err, EINVAL, "a chat's server is written https://HOST or https://HOST:PORT");
        if (host.n && host.p[host.n - 1] == '/')
                host.n--;

        r = authority_parse(host, tls ? 443 : 80, &to, err);
        if (r < 0)
                return err_wrap(err, r, "the chat's server %s (https://HOST, without a path)", show(host).text);

        bool loopback = to.host.kind == HOST_ADDR ? addr_classify(&to.host.addr) == ADDR_CLASS_LOOPBACK
                                                  : host_is_loopback_name(&to.host);
        if (!tls && !loopback)
                return err_set(err, EINVAL, "a chat's server is reached by https: a token and approvals go there");

        return 0;
}

/* If a person pastes the token itself, it is not repeated. */
int check_chat_source(struct str text, struct err *err) {
        if (check_source(text, NULL) == 0)
                return 0;
        return err_set(err, EINVAL,
                       "this is no source of a token; write env:NAME, file:PATH, exec:COMMAND, keyring:NAME "
                       "or another source of credentials, never the token itself");
}

/* Rooms and accounts stand in requests; some have blanks and letters of any script in them. */
int check_chat_word(struct str text, struct err *err) {
        if (text.n == 0 || text.n > 250)
                return err_set(err, EINVAL, "it must have between 1 and 250 bytes");
        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f)
                        return err_set(err, EINVAL, "it must not hold control characters");
        return 0;
}

int check_dns_server(struct str text, struct err *err) {
        struct addr addr;
        struct authority authority;
        if (addr_parse(text, &addr))
                return 0;
        if (authority_parse(text, 53, &authority, NULL) == 0 && authority.host.kind == HOST_ADDR)
                return 0;
        return err_set(err, EINVAL, "%s is not an address, or an address with a port, of a resolver", show(text).text);
}

int check_plain_path(struct str text, struct err *err) {
        for (size_t i = 0; i < text.n; i++)
                if (strchr("*?[", text.p[i]))
                        return err_set(err, EINVAL,
                                       "%s: '%c' makes it a glob; globs can take away, but a grant names its path",
                                       show(text).text, text.p[i]);
        return 0;
}

int check_variable_name(struct str text, struct err *err) {
        if (consists_of(text, "_") && !ascii_is_digit(text.p[0]))
                return 0;
        return err_set(err, EINVAL, "%s is not the name of a variable: letters, digits and '_'", show(text).text);
}

int check_variable(struct str text, struct err *err) {
        ptrdiff_t at = str_find(text, '=');
        return check_variable_name(str_first(text, at < 0 ? text.n : (size_t)at), err);
}

int check_method(struct str text, struct err *err) {
        for (size_t i = 0; i < text.n; i++)
                if (ascii_lower(text.p[i]) == text.p[i] && text.p[i] != '-')
                        return err_set(err, EINVAL, "%s is not a method: GET, HEAD, POST, in capitals",
                                       show(text).text);
        if (!consists_of(text, "-"))
                return err_set(err, EINVAL, "%s is not a method", show(text).text);

        return 0;
}

int check_graphql_field(struct str text, struct err *err) {
        bool name = consists_of(text, "_") && !ascii_is_digit(text.p[0]);

        if (name || str_is(text, "*"))
                return 0;
        return err_set(err, EINVAL, "%s is not the name of a GraphQL field, as addComment, or * for all",
                       show(text).text);
}

int check_request_path(struct str text, struct err *err) {
        if (text.n == 0 || text.p[0] != '/')
                return err_set(err, EINVAL, "%s: a path pattern starts with '/', as in /repos/acme/**",
                               show(text).text);
        if (str_find(text, '?') >= 0 || str_find(text, '#') >= 0)
                return err_set(err, EINVAL, "%s: only the path is matched, without '?' or '#'", show(text).text);
        return 0;
}

/* "word:rest" by a table of words; a word that ends in ':' needs the rest. */
static int check_prefixed(const char *what, const char *const *forms, struct str text, struct err *err) {
        cleanup(buf_done) struct buf all = BUF(512);

        for (size_t i = 0; forms[i]; i++) {
                struct str form = str_of(forms[i]);
                bool needs_rest = form.p[form.n - 1] == ':';
                if (needs_rest ? str_starts(text, form) && text.n > form.n : str_eq(text, form))
                        return 0;

                if (i > 0)
                        buf_add(&all, ", ");
                buf_printf(&all, "%s%s", forms[i], needs_rest ? "..." : "");
        }

        return err_set(err, EINVAL, "%s is not a %s; accepted are %.*s", show(text).text, what, STR_FMT(buf_str(&all)));
}

int check_form(struct str text, struct err *err) {
        static const char *const forms[] = { "opaque:", "opaque", "jwt", NULL };
        return check_prefixed("form of a stand-in", forms, text, err);
}

int check_member(struct str text, struct err *err) {
        if (!consists_of(text, "_-"))
                return err_set(err, EINVAL, "%s is not the name of a member: letters, digits, '_', '-'",
                               show(text).text);

        return 0;
}

int check_expiry(struct str text, struct err *err) {
        static const char *const forms[] = { "ms:/", "now:/", NULL };
        for (const char *const *form = forms; *form; form++)
                if (str_starts(text, str_of(*form)))
                        return 0;
        return err_set(err, EINVAL, "%s is not a time in a file; accepted are ms:/POINTER and now:/POINTER",
                       show(text).text);
}

static int check_member_source(struct str text, struct err *err) {
        struct str file, pointer;
        if (!source_is_member(text, &file, &pointer))
                return err_set(err, EINVAL,
                               "%s: a member of a file is written as json:FILE#/POINTER, as in "
                               "json:~/.agent/auth.json#/tokens/access_token",
                               show(text).text);

        return 0;
}

int check_source(struct str text, struct err *err) {
        static const char *const forms[] = { "env:",     "file:", "exec:", "bws:",   "systemd:",
                                             "keyring:", "json:", "yaml:", "memory", NULL };
        if (str_starts(text, STR("json:")) || str_starts(text, STR("yaml:")))
                return check_member_source(text, err);
        return check_prefixed("source of a secret", forms, text, err);
}

int check_slot(struct str text, struct err *err) {
        static const char *const forms[] = { "bearer", "header:", "basic", "basic:user", "basic:password",
                                             "query:", "path",    "sigv4", "body:",      NULL };
        struct str one;
        int r = 0;

        if (text.n <= 0)
                r = check_prefixed("place for a secret", forms, text, err);

        while (r == 0 && str_split(&text, ',', &one))
                r = check_prefixed("place for a secret", forms, one, err);
        return r;
}
