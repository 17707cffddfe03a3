/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/macos/macos_launch.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/escape.h"
#include "plan/env.h"

#include <assert.h>
#include <errno.h>

static const char *const limit_names[] = {
        [MACOS_LIMIT_PROCESSES] = "processes",
        [MACOS_LIMIT_FILES] = "files",
        [MACOS_LIMIT_CPU] = "cpu-seconds",
        [MACOS_LIMIT_CORE] = "core",
};
static_assert(sizeof limit_names / sizeof *limit_names == MACOS_LIMITS, "a name for each limit");

const char *macos_limit_name(enum macos_limit_kind kind) {
        return (unsigned)kind < MACOS_LIMITS ? limit_names[kind] : "?";
}

char *macos_proxy_address(const char *secret) {
        return str_format(PROXY_USER ":%s@127.0.0.1", secret);
}

static void words_free(char **words) {
        for (char **w = words; w && *w; w++)
                free(*w);
        free(words);
}

void macos_launch_free(struct macos_launch *launch) {
        if (!launch)
                return;

        seatbelt_free(launch->profile);
        words_free(launch->environment);
        words_free(launch->argv);
        free(launch->cwd);
        vec_done(&launch->limits);
        free(launch);
}

void macos_launch_freep(struct macos_launch **launch) {
        macos_launch_free(*launch);
}

/* --- environment --- */

/* What makes the loader and the allocator of macOS run code, write files or print. plan/env.c takes the rest. */
static const char *const stripped[] = {
        "DYLD_", "Malloc", "NSZombie", "OBJC_", "CFNETWORK_", "XPC_", "__XPC_", "LaunchInstanceID", "SECURITYSESSIONID",
};

static bool is_stripped(const char *line) {
        for (size_t i = 0; i < sizeof stripped / sizeof *stripped; i++)
                if (str_starts(str_of(line), str_of(stripped[i])))
                        return true;
        return false;
}

static void strip_variables(char **block) {
        char **to = block;

        for (char **from = block; *from; from++) {
                if (is_stripped(*from))
                        free(*from);
                else
                        *to++ = *from;
        }

        *to = NULL;
}

/* Java asks for ::ffff:127.0.0.1, which a rule for localhost does not cover. */
static int force_ipv4(char ***block) {
        static const char name[] = "JAVA_TOOL_OPTIONS=", option[] = "-Djava.net.preferIPv4Stack=true";
        size_t n = 0;

        for (; (*block)[n]; n++) {
                if (strncmp((*block)[n], name, sizeof name - 1) != 0)
                        continue;

                char *longer = str_format("%s %s", (*block)[n], option);
                if (!longer)
                        return -ENOMEM;

                free((*block)[n]);
                (*block)[n] = longer;
                return 0;
        }

        char **grown = reallocarray(*block, n + 2, sizeof *grown);
        if (!grown)
                return -ENOMEM;

        *block = grown;
        grown[n] = str_format("%s%s", name, option);
        grown[n + 1] = NULL;

        return grown[n] ? 0 : -ENOMEM;
}

static const char **pointers_to(const origin_texts *texts) {
        const char **list = calloc(texts->n + 1, sizeof *list);

        for (size_t i = 0; list && i < texts->n; i++)
                list[i] = texts->p[i].text;
        return list;
}

static int build_environment(const struct macos_request *request, char ***ret, struct err *err) {
        cleanup(free_ptr) const char **pass = pointers_to(&request->policy->process.env_pass);
        cleanup(free_ptr) const char **set = pointers_to(&request->policy->process.env_set);
        cleanup(free_ptr) char *address = request->secret ? macos_proxy_address(request->secret) : NULL;
        cleanup(env_done) struct env env = { 0 };
        struct env_input in = {
                .host = request->environment,
                .sandbox_id = request->id,
                .http_port = request->host->http_port,
                .socks_port = request->host->socks_port,
                .proxy_address = address,
                .inside = true,
                .tmpdir = request->host->tmpdir,
                .home = request->host->own_home,
                .pass = pass,
                .set = set,
        };

        if (!pass || !set || (request->secret && !address))
                return err_memory(err);

        if (request->vault) {
                in.ca_bundle = request->vault->ca_bundle;
                in.java_trust_store = request->vault->java_trust_store;
                in.stand_ins = request->vault->stand_ins;
                in.strip = request->vault->strip;
        }

        int r = env_build(&in, &env, err);
        if (r == 0)
                r = env_block(&env, ret, err);
        if (r < 0)
                return r;

        strip_variables(*ret);
        if (request->host->http_port && force_ipv4(ret) < 0)
                return err_memory(err);

        return 0;
}

/* --- building --- */

static char **copy_words(char *const *words) {
        size_t n = 0;

        while (words[n])
                n++;

        char **copy = calloc(n + 1, sizeof *copy);
        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = str_dup(str_of(words[i]));
                if (!copy[i]) {
                        words_free(copy);
                        return NULL;
                }
        }

        return copy;
}

/* The limit of processes counts all of the user's, so it is set only when somebody asked for it. */
static int add_limits(struct macos_launch *launch, const struct policy_limits *wanted) {
        const struct macos_limit rows[] = { { MACOS_LIMIT_PROCESSES, wanted->processes },
                                            { MACOS_LIMIT_FILES, wanted->files },
                                            { MACOS_LIMIT_CPU, wanted->cpu_seconds } };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                if (rows[i].value && vec_push(&launch->limits, rows[i]) < 0)
                        return -ENOMEM;

        return vec_push(&launch->limits, ((struct macos_limit){ MACOS_LIMIT_CORE, 0 }));
}

static int check_request(const struct macos_request *request, struct err *err) {
        bool gateway = request->host->http_port || request->host->socks_port || request->host->api_port;

        if (gateway && !request->secret)
                return err_set(err, EINVAL, "a gateway on the Mac's own loopback needs the secret of the run");

        for (const char *c = request->secret; c && *c; c++)
                if (!ascii_is_alnum(*c))
                        return err_set(err, EINVAL, "the secret of the run has a character that a URL would escape");

        return request->argv && request->argv[0] ? 0 : err_set(err, EINVAL, "there is no command");
}

int macos_launch_build(const struct macos_request *request, struct macos_launch **ret, struct err *err) {
        cleanup(macos_launch_freep) struct macos_launch *launch = calloc(1, sizeof *launch);
        const struct seatbelt_request profile = { .policy = request->policy,
                                                  .rules = request->rules,
                                                  .host = request->host };

        if (!launch)
                return err_memory(err);

        int r = check_request(request, err);
        if (r == 0)
                r = seatbelt_build(&profile, &launch->profile, err);
        if (r == 0)
                r = build_environment(request, &launch->environment, err);
        if (r < 0)
                return r;

        launch->argv = copy_words(request->argv);
        launch->cwd = str_dup(str_of(request->cwd));
        if (!launch->argv || !launch->cwd || add_limits(launch, &request->policy->process.limits) < 0)
                return err_memory(err);

        *ret = take_ptr(&launch);
        return 0;
}

/* --- printing --- */

/* The value of a variable as it may be shown: not the secret of the run. */
static int show_variable(struct buf *out, const char *line) {
        const char *user = strstr(line, "://" PROXY_USER ":"), *at = user ? strchr(user + 3, '@') : NULL;

        if (!at)
                return buf_add(out, line);

        return buf_printf(out, "%.*sSECRET%s", (int)(user + 3 + sizeof PROXY_USER - line), line, at);
}

static int add_variable(struct buf *out, const char *line) {
        cleanup(buf_done) struct buf shown = BUF(1 << 20);
        int r = show_variable(&shown, line);
        if (r < 0)
                return r;

        return escape_text(out, buf_str(&shown), 4096);
}

static int add_words(struct buf *out, char *const *words) {
        int r = 0;

        for (size_t i = 0; words[i] && r == 0; i++) {
                r = buf_add(out, i ? " " : "");
                if (r == 0)
                        r = escape_text(out, str_of(words[i]), 4096);
        }

        return r;
}

/* Comments are ASCII, and so is what is shown of names that are not. */
static void make_ascii(struct buf *out, size_t from) {
        for (size_t i = from; i < out->n; i++)
                if ((unsigned char)out->p[i] >= 0x80 || out->p[i] == '"')
                        out->p[i] = '?';
}

int macos_launch_text(const struct macos_launch *launch, struct buf *out) {
        size_t from = out->n;
        int r = buf_add(out, "; command: ");

        if (r == 0)
                r = add_words(out, launch->argv);
        if (r == 0)
                r = buf_add(out, "\n; directory: ");
        if (r == 0)
                r = escape_text(out, str_of(launch->cwd), 4096);

        for (size_t i = 0; i < launch->limits.n && r == 0; i++)
                r = buf_printf(out, "\n; limit: %s %llu", macos_limit_name(launch->limits.p[i].kind),
                               (unsigned long long)launch->limits.p[i].value);

        for (char **line = launch->environment; *line && r == 0; line++) {
                r = buf_add(out, "\n; environment: ");
                if (r == 0)
                        r = add_variable(out, *line);
        }

        if (r == 0)
                r = buf_add(out, "\n;\n");
        if (r < 0)
                return r;

        make_ascii(out, from);
        return seatbelt_text(launch->profile, out);
}

static void json_words(struct emit *json, const char *key, char *const *words) {
        emit_key(json, key);
        emit_open(json, '[');

        for (size_t i = 0; words[i]; i++) {
                cleanup(buf_done) struct buf shown = BUF(1 << 20);
                int failed = show_variable(&shown, words[i]);

                emit_string(json, buf_str(&shown));
                if (failed < 0)
                        json->status = failed;
        }

        emit_close(json);
}

static void json_pairs(struct emit *json, const struct macos_launch *launch) {
        emit_key(json, "parameters");
        emit_open(json, '{');
        for (size_t i = 0; i < launch->profile->parameters.n; i++)
                emit_put_text(json, launch->profile->parameters.p[i].name, launch->profile->parameters.p[i].value);
        emit_close(json);

        emit_key(json, "limits");
        emit_open(json, '{');
        for (size_t i = 0; i < launch->limits.n; i++)
                emit_put_number(json, macos_limit_name(launch->limits.p[i].kind), launch->limits.p[i].value);
        emit_close(json);
}

int macos_launch_json(const struct macos_launch *launch, struct buf *out) {
        cleanup(buf_done) struct buf profile = BUF(8 << 20);
        struct emit json = { .out = out, .spaced = true };
        int r = seatbelt_text(launch->profile, &profile);
        if (r < 0)
                return r;

        emit_open(&json, '{');
        emit_put_text(&json, "platform", "macos");
        emit_put_bool(&json, "tried_on_a_mac", false);
        emit_put_text(&json, "directory", launch->cwd);
        json_words(&json, "argv", launch->argv);
        json_words(&json, "environment", launch->environment);
        json_pairs(&json, launch);

        emit_key(&json, "notes");
        emit_open(&json, '[');
        for (size_t i = 0; i < launch->profile->notes.n; i++)
                emit_text(&json, launch->profile->notes.p[i]);
        emit_close(&json);

        emit_put_string(&json, "profile", buf_str(&profile));
        emit_close(&json);

        r = emit_status(&json);
        if (r < 0)
                return r;

        return buf_add_char(out, '\n');
}
