/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of a sandbox, in four steps: start from the host's; remove some (a table, unless the policy grants
 * the name); add Bailey's, so that ordinary clients find the gateway and trust its certificates; add the policy's,
 * which win. The gateway captures connections with or without these variables: they are a courtesy to clients, not a
 * boundary. Removing credentials is a boundary: a program cannot read what is not there.
 */
#include "plan/env.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/map.h"
#include "plan/env_secret.h"

#include <assert.h>
#include <errno.h>

static const char *const action_names[] = {
        [ENV_KEPT] = "kept",
        [ENV_SET] = "set",
        [ENV_CHANGED] = "changed",
        [ENV_STRIPPED] = "stripped",
};
static_assert(sizeof action_names / sizeof *action_names == ENV_ACTIONS, "a name for each action");

const char *env_action_name(enum env_action action) {
        return (unsigned)action < ENV_ACTIONS ? action_names[action] : "?";
}

/*
 * Variables to remove. The first matching row gives the reason; case is ignored. Variables that look like credentials
 * are removed too: plan/env_secret.c.
 */
enum match { NAME, PREFIX };

static const char account[] = "credential by name";

static const struct strip_row {
        enum match match;
        struct str text;
        const char *why;
} strip_rows[] = {
        { NAME, STR("LD_PRELOAD"), "loader" },
        { NAME, STR("LD_LIBRARY_PATH"), "loader" },
        { NAME, STR("LD_AUDIT"), "loader" },
        { PREFIX, STR("DYLD_"), "loader" },
        { NAME, STR("BASH_ENV"), "code that every shell runs" },
        { NAME, STR("ENV"), "code that every shell runs" },
        { NAME, STR("PROMPT_COMMAND"), "code that every shell runs" },
        { PREFIX, STR("BASH_FUNC_"), "code that every shell runs" },
        { PREFIX, STR("BAILEY_"), "settings of Bailey itself" },
        /* Ways to other processes of the user. */
        { NAME, STR("SSH_AUTH_SOCK"), "agent socket" },
        { NAME, STR("SSH_AGENT_PID"), "agent socket" },
        { NAME, STR("SSH_ASKPASS"), "agent socket" },
        { NAME, STR("GIT_ASKPASS"), "agent socket" },
        { NAME, STR("SUDO_ASKPASS"), "agent socket" },
        { NAME, STR("GPG_AGENT_INFO"), "agent socket" },
        { PREFIX, STR("GNOME_KEYRING_"), "agent socket" },
        { PREFIX, STR("DBUS_"), "session bus" },
        { NAME, STR("XDG_RUNTIME_DIR"), "session sockets" },
        { NAME, STR("DISPLAY"), "session display" },
        { NAME, STR("XAUTHORITY"), "session display" },
        { PREFIX, STR("WAYLAND_"), "session display" },
        { NAME, STR("TMUX"), "terminal multiplexer" },
        { NAME, STR("TMUX_PANE"), "terminal multiplexer" },
        { NAME, STR("STY"), "terminal multiplexer" },
        { PREFIX, STR("VSCODE_"), "editor's control socket" },
        { NAME, STR("NOTIFY_SOCKET"), "service manager" },
        { PREFIX, STR("LISTEN_"), "service manager" },
        { NAME, STR("JOURNAL_STREAM"), "service manager" },
        { NAME, STR("DOCKER_HOST"), "container engine" },
        { NAME, STR("CONTAINER_HOST"), "container engine" },
        { NAME, STR("PODMAN_SOCK"), "container engine" },
        /* Not each of them is a secret (AWS_REGION), but together they lead to one. */
        { PREFIX, STR("AWS_"), account },
        { PREFIX, STR("AZURE_"), account },
        { PREFIX, STR("TWINE_"), account },
        /* The host's proxy cannot be reached from inside; the gateway's is set below. */
        { NAME, STR("HTTP_PROXY"), "proxy of the host" },
        { NAME, STR("HTTPS_PROXY"), "proxy of the host" },
        { NAME, STR("FTP_PROXY"), "proxy of the host" },
        { NAME, STR("ALL_PROXY"), "proxy of the host" },
        { NAME, STR("NO_PROXY"), "proxy of the host" },
        { NAME, STR("TMPDIR"), "directory of the host" },
};

static bool row_matches(const struct strip_row *row, struct str name) {
        const struct str text = row->text;
        if (name.n < text.n)
                return false;
        return (row->match != NAME || name.n == text.n) && str_eq_nocase(str_first(name, text.n), text);
}

static const char *why_stripped(struct str name) {
        for (size_t i = 0; i < sizeof strip_rows / sizeof *strip_rows; i++)
                if (row_matches(&strip_rows[i], name))
                        return strip_rows[i].why;
        return NULL;
}

static bool env_granted(const char *const *pass, struct str name) {
        for (; pass && *pass; pass++) {
                struct str p = str_of(*pass);
                if (str_eq(p, name))
                        return true;
                if (p.n > 1 && p.p[p.n - 1] == '*' && str_starts(name, str_first(p, p.n - 1)))
                        return true;
        }

        return false;
}

static bool env_listed(const char *const *names, struct str name) {
        for (; names && *names; names++)
                if (str_is(name, *names))
                        return true;
        return false;
}

/*
 * Building.
 */
struct work {
        struct env env;
        struct map places; /* name: index + 1 */
        struct err *e;
};

static void work_done(struct work *work) {
        map_done(&work->places, NULL);
        env_done(&work->env);
}

static struct env_entry *env_find(const struct work *work, struct str name) {
        uintptr_t place = (uintptr_t)map_get(&work->places, name);
        return place ? &work->env.entries.p[place - 1] : NULL;
}

/* Takes the value over, also when it fails; NULL stands for "out of memory". */
static int env_put(struct work *work, struct str name, char *value, enum env_action action, const char *why) {
        cleanup(free_ptr) char *owned = value;

        if (!value && action != ENV_STRIPPED)
                return err_memory(work->e);

        struct env_entry *old = env_find(work, name);
        if (old) {
                free(old->value);
                old->value = take_ptr(&owned);
                old->action = action;
                old->why = why;

                return 0;
        }

        cleanup(free_ptr) char *copy = str_dup(name);
        if (!copy || vec_reserve(&work->env.entries, 1) < 0 ||
            map_add(&work->places, name, (void *)(uintptr_t)(work->env.entries.n + 1)) < 0)
                return err_memory(work->e);

        work->env.entries.p[work->env.entries.n++] =
            (struct env_entry){ take_ptr(&copy), take_ptr(&owned), action, why, false };
        return 0;
}

static int env_set(struct work *work, const char *name, char *value, const char *why) {
        return env_put(work, str_of(name), value, ENV_SET, why);
}

static bool name_valid(struct str name) {
        for (size_t i = 0; i < name.n; i++)
                if (!ascii_is_alnum(name.p[i]) && name.p[i] != '_')
                        return false;
        return name.n > 0 && !ascii_is_digit(name.p[0]);
}

/* Why a variable of the host is not handed on, or NULL. */
static const char *host_objection(struct str name, struct str value, bool *ret_secret) {
        const char *why = why_stripped(name), *secret;

        *ret_secret = false;
        if (why && why != account)
                return why;
        if (!name_valid(name))
                return "not a variable's name";

        secret = env_secret_name(name, value);
        if (!secret)
                secret = env_secret_value(value);

        *ret_secret = secret != NULL;
        return why ? why : secret;
}

/* With a home of its own: what says that a part of the user's home lies elsewhere is not true inside. */
static bool leads_out_of_home(const struct env_input *in, struct str name, struct str value) {
        static const char *const places[] = { "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
                                              NULL };

        if (!in->home || !env_listed(places, name))
                return false;
        size_t n = strlen(in->home);
        return value.n <= n || memcmp(value.p, in->home, n) != 0 || value.p[n] != '/';
}

static int take_one(struct work *work, const struct env_input *in, struct str name, struct str value) {
        bool secret;
        const char *why = host_objection(name, value, &secret);

        if (!why && leads_out_of_home(in, name, value))
                why = "not in the sandbox's own home";
        if (env_listed(in->strip, name))
                return env_put(work, name, NULL, ENV_STRIPPED, "source of a credential");
        if (!why)
                return env_put(work, name, str_dup(value), ENV_KEPT, "host");
        if (env_granted(in->pass, name))
                return env_put(work, name, str_dup(value), ENV_KEPT, "granted");

        int r = env_put(work, name, NULL, ENV_STRIPPED, why);
        struct env_entry *entry = env_find(work, name);
        if (r == 0 && entry)
                entry->secret = secret;

        return r;
}

static int take_host(struct work *work, const struct env_input *in) {
        int r = 0;

        for (char *const *at = in->host; at && *at && r == 0; at++) {
                struct str line = str_of(*at);
                ptrdiff_t equals = str_find(line, '=');
                struct str name = str_first(line, equals < 0 ? 0 : (size_t)equals);

                if (name.n == 0 || env_find(work, name))
                        continue; /* the first of two is the one that getenv() shows */

                r = take_one(work, in, name, str_skip(line, name.n + 1));
        }

        return r;
}

/* Two shells read it (git's and ssh's), and ssh reads '%': if the path needs quoting, the program is found by PATH
 * instead. */
static bool is_plain_word(const char *path) {
        return path && path[0] == '/' &&
               strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-@") == strlen(path);
}

static int set_proxy(struct work *work, const struct env_input *in) {
        static const char *const http_names[] = { "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY",
                                                  "http_proxy", "https_proxy", "ftp_proxy" };
        static const char *const all_names[] = { "ALL_PROXY", "all_proxy" }, *const none_names[] = { "NO_PROXY",
                                                                                                     "no_proxy" };
        const char *address = text_or(in->proxy_address, "127.0.0.1");
        const char *direct = in->container ? "localhost,127.0.0.1,::1"
                                           : "localhost,127.0.0.1,::1,*.local,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";
        int r = 0;
        for (size_t i = 0; in->http_port && r == 0 && i < 6; i++)
                r = env_set(work, http_names[i], str_format("http://%s:%u", address, in->http_port), "proxy");

        /* Where connections are captured nobody needs it, and clients without SOCKS (Python's httpx) fail over it. */
        for (size_t i = 0; in->socks_port && !in->transparent && r == 0 && i < 2; i++)
                r = env_set(work, all_names[i], str_format("socks5h://%s:%u", address, in->socks_port), "proxy");

        for (size_t i = 0; r == 0 && i < 2; i++)
                r = env_set(work, none_names[i], str_format("%s", direct), "proxy");

        if (r == 0 && in->http_port && !in->transparent) /* node 22 warns about it, in every process */
                r = env_set(work, "NODE_USE_ENV_PROXY", str_format("1"), "proxy");

        if (r == 0 && in->socks_port && !in->transparent)
                r = env_set(work, "GIT_SSH_COMMAND",
                            str_format("ssh -o ProxyCommand='%s relay %%h %%p'",
                                       is_plain_word(in->bailey) ? in->bailey : "bailey"),
                            "proxy");

        return r;
}

/* Adds an option to a variable that holds a list of them; the host's own stay. */
static int append_option(struct work *work, const char *name, const char *option) {
        const struct env_entry *old = env_find(work, str_of(name));
        if (!old || !old->value || !old->value[0])
                return env_set(work, name, str_format("%s", option), "interception");
        if (strstr(old->value, option))
                return 0;
        return env_put(work, str_of(name), str_format("%s %s", old->value, option), ENV_CHANGED, "interception");
}

/* Variables that these tools prefer to the above. Unset they do no harm; set on the host they name a bundle without the
 * session's CA. SSL_CERT_DIR and GIT_SSL_CAPATH stay: they are read in addition, not instead. */
static int replace_certificates(struct work *work, const struct env_input *in) {
        static const char *const bundles[] = {
                "NIX_SSL_CERT_FILE",                  /* everything from nixpkgs, before SSL_CERT_FILE */
                "BUNDLE_SSL_CA_CERT",                 /* bundler */
                "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", /* gcloud */
                "COMPOSER_CAFILE",                    /* composer */
                "CONDA_SSL_VERIFY",                   /* conda: a bundle, or whether to verify */
                "HEX_CACERTS_PATH",                   /* mix */
                "HTTPLIB2_CA_CERTS",                  /* python */
                "HTTPS_CA_FILE",                      /* perl, older */
                "JULIA_SSL_CA_ROOTS_PATH",
                "NPM_CONFIG_CAFILE", /* either case counts */
                "PERL_LWP_SSL_CA_FILE",
                "SYSTEM_CERTIFICATE_PATH", /* cabal, stack */
                "WEBSOCKET_CLIENT_CA_BUNDLE",
                "YARN_HTTPS_CA_FILE_PATH",
        };
        int r = 0;
        for (size_t i = 0; r == 0 && i < sizeof bundles / sizeof *bundles; i++) {
                const struct env_entry *old = env_find(work, str_of(bundles[i]));
                if (old && old->value)
                        r = env_put(work, str_of(bundles[i]), str_format("%s", in->ca_bundle), ENV_CHANGED,
                                    "interception");
        }

        return r;
}

static int set_certificates(struct work *work, const struct env_input *in) {
        static const char *const bundles[] = {
                "SSL_CERT_FILE",       "CURL_CA_BUNDLE",
                "REQUESTS_CA_BUNDLE",  "PIP_CERT",
                "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
                "AWS_CA_BUNDLE",       "CARGO_HTTP_CAINFO",
                "DENO_CERT",           "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
                "npm_config_cafile",
        };
        int r = 0;
        for (size_t i = 0; r == 0 && i < sizeof bundles / sizeof *bundles; i++)
                r = env_set(work, bundles[i], str_format("%s", in->ca_bundle), "interception");

        if (r == 0)
                r = replace_certificates(work, in);
        if (r == 0)
                r = append_option(work, "NODE_OPTIONS", "--use-openssl-ca");

        if (r == 0 && in->java_trust_store) {
                cleanup(free_ptr) char *option = str_format(
                    "-Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStoreType=JKS", in->java_trust_store);
                if (option)
                        r = append_option(work, "JAVA_TOOL_OPTIONS", option);
                else
                        r = err_memory(work->e);
        }

        return r;
}

static int set_lines(struct work *work, const char *const *lines) {
        int r = 0;
        for (const char *const *at = lines; at && *at && r == 0; at++) {
                struct str line = str_of(*at);
                size_t name = (size_t)str_find(line, '=');
                r = env_put(work, str_first(line, name), str_dup(str_skip(line, name + 1)), ENV_SET, "credential");
        }
        return r;
}

static int set_own(struct work *work, const struct env_input *in) {
        int r = env_set(work, "SANDBOX_RUNTIME", str_format("1"), "sandbox");
        if (r == 0 && in->inside) {
                r = env_set(work, "SANDBOX", str_format("bailey"), "sandbox");
                if (r == 0)
                        r = env_set(work, "BAILEY_WHY", str_format("bailey why HOST-OR-PATH"), "sandbox");
        }

        if (r == 0)
                r = env_set(work, "BAILEY_SANDBOX", str_format("%s", text_or(in->sandbox_id, "")), "sandbox");
        if (r == 0 && in->tmpdir)
                r = env_set(work, "TMPDIR", str_format("%s", in->tmpdir), "sandbox");
        if (r == 0 && in->home)
                r = env_set(work, "HOME", str_format("%s", in->home), "sandbox");
        if (r == 0)
                r = set_proxy(work, in);
        if (r == 0 && in->ca_bundle)
                r = set_certificates(work, in);
        if (r == 0)
                r = set_lines(work, in->base_urls);
        if (r == 0)
                r = set_lines(work, in->stand_ins);

        return r;
}

static int set_policy(struct work *work, const struct env_input *in) {
        int r = 0;
        for (const char *const *at = in->set; at && *at && r == 0; at++) {
                struct str line = str_of(*at);
                ptrdiff_t equals = str_find(line, '=');
                struct str name = str_first(line, equals < 0 ? 0 : (size_t)equals);
                if (!name_valid(name)) {
                        cleanup(buf_done) struct buf shown = BUF(400);

                        (void)escape_text(&shown, line, 40);
                        const char *text = buf_text(&shown);
                        return err_set(work->e, EINVAL, "\"%s\" is not NAME=VALUE (a name has letters, digits and '_')",
                                       text_or(text, ""));
                }

                r = env_put(work, name, str_dup(str_skip(line, name.n + 1)), ENV_SET, "policy");
        }

        return r;
}

/* Also before those that the policy names. */
static int set_front(struct work *work, const struct env_input *in) {
        const struct env_entry *path = in->front ? env_find(work, STR("PATH")) : NULL;
        const char *rest = path && path->value ? path->value : "/usr/local/bin:/usr/bin:/bin";

        if (in->front)
                return env_set(work, "PATH", str_format("%s:%s", in->front, rest), "bridge");

        return 0;
}

static int by_name(const void *a, const void *b) {
        return strcmp(((const struct env_entry *)a)->name, ((const struct env_entry *)b)->name);
}

int env_build(const struct env_input *in, struct env *ret, struct err *err) {
        cleanup(work_done) struct work work = { .e = err };
        int r = take_host(&work, in);
        if (r == 0)
                r = set_own(&work, in);
        if (r == 0)
                r = set_policy(&work, in);
        if (r == 0)
                r = set_front(&work, in);
        if (r < 0)
                return r;
        if (work.env.entries.n)
                qsort(work.env.entries.p, work.env.entries.n, sizeof *work.env.entries.p, by_name);

        *ret = work.env;
        work.env = (struct env){ 0 };

        return 0;
}

void env_done(struct env *env) {
        for (size_t i = 0; i < env->entries.n; i++) {
                free(env->entries.p[i].name);
                free(env->entries.p[i].value);
        }
        vec_done(&env->entries);
}

int env_held_back(const struct env *env, struct buf *out) {
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < env->entries.n && r == 0; i++) {
                const struct env_entry *entry = &env->entries.p[i];

                if (entry->action == ENV_STRIPPED && entry->secret)
                        r = buf_printf(out, "%s%s", n++ ? ", " : "", entry->name);
        }

        return r;
}

int env_block(const struct env *env, char ***ret, struct err *err) {
        cleanup(env_block_freep) char **block = calloc(env->entries.n + 1, sizeof *block);
        size_t n = 0;

        if (!block)
                return err_memory(err);

        for (size_t i = 0; i < env->entries.n; i++) {
                const struct env_entry *entry = &env->entries.p[i];
                if (entry->action == ENV_STRIPPED)
                        continue;

                block[n] = str_format("%s=%s", entry->name, entry->value);
                if (!block[n++])
                        return err_memory(err);
        }

        *ret = take_ptr(&block);
        return 0;
}

void env_block_free(char **block) {
        for (size_t i = 0; block && block[i]; i++)
                free(block[i]);
        free(block);
}

void env_block_freep(char ***block) {
        env_block_free(*block);
}
