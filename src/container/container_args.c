/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container_args.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "container/container_mounts.h"

#include <errno.h>
#include <stdlib.h>

enum { ENV_FILE_MAX = 1 << 20, BOTH = CONTAINER_EGRESS | CONTAINER_RUN };

/* What is done with the value. */
enum judge {
        JUDGE_REFUSE,   /* whatever it is */
        JUDGE_TRUE,     /* a switch: refused unless it is turned off */
        JUDGE_PRIVATE,  /* a namespace: only one of its own */
        JUDGE_SECURITY, /* --security-opt */
        JUDGE_GROUP,    /* a group, or those of whoever starts it */
        JUDGE_LOG,      /* a log driver: only one that keeps the log on this host */
        JUDGE_LOG_FILE, /* --log-opt: nothing that names a file, a host or a driver */
        JUDGE_VARIABLE, /* K=V or K */
        JUDGE_ENV_FILE,
        JUDGE_VOLUME, /* SOURCE:DESTINATION[:OPTIONS] */
        JUDGE_MOUNT,  /* type=...,source=... */
};

struct row {
        const char *flag; /* "--long", or "-s" */
        uint8_t judge;    /* enum judge */
        uint8_t uses;     /* enum container_use */
        const char *why;
};

static const struct row rows[] = {
        { "--privileged", JUDGE_TRUE, BOTH, "gives the container this host" },
        { "--cap-add", JUDGE_REFUSE, BOTH, "gives the container rights over its confinement" },
        { "--device", JUDGE_REFUSE, BOTH, "gives the container a device of this host" },
        { "--device-cgroup-rule", JUDGE_REFUSE, BOTH, "gives the container devices of this host" },
        { "--gpus", JUDGE_REFUSE, BOTH, "gives the container devices of this host" },
        { "--security-opt", JUDGE_SECURITY, BOTH, "takes the container's confinement away" },
        { "--seccomp-policy", JUDGE_REFUSE, BOTH, "lets the image choose its own confinement" },
        { "--annotation", JUDGE_REFUSE, BOTH, "tells the runtime what no other argument may" },
        { "--group-add", JUDGE_GROUP, BOTH, "gives the container your own groups on this host" },
        { "--systemd", JUDGE_TRUE, BOTH, "lets the container write to control groups" },
        { "--preserve-fd", JUDGE_REFUSE, BOTH, "hands the container files that are open here" },
        { "--preserve-fds", JUDGE_REFUSE, BOTH, "hands the container files that are open here" },
        { "--sdnotify", JUDGE_REFUSE, BOTH, "hands the container a socket of this host" },
        { "--log-driver", JUDGE_LOG, BOTH, "leads around the gateway: the engine sends what the container prints" },
        { "--log-opt", JUDGE_LOG_FILE, BOTH, "has the engine write what the container prints to a file of this host" },
        { "--pid", JUDGE_PRIVATE, BOTH, "shows the container other processes" },
        { "--ipc", JUDGE_PRIVATE, BOTH, "shares memory with other processes" },
        { "--uts", JUDGE_PRIVATE, BOTH, "shares this host's name" },
        { "--userns", JUDGE_PRIVATE, CONTAINER_EGRESS, "makes the container's root this host's" },
        { "--userns", JUDGE_REFUSE, CONTAINER_RUN, "changes who the container's root is" },
        { "--uidmap", JUDGE_REFUSE, CONTAINER_RUN, "changes who the container's root is" },
        { "--gidmap", JUDGE_REFUSE, CONTAINER_RUN, "changes who the container's root is" },
        { "--subuidname", JUDGE_REFUSE, CONTAINER_RUN, "changes who the container's root is" },
        { "--subgidname", JUDGE_REFUSE, CONTAINER_RUN, "changes who the container's root is" },
        { "--cgroupns", JUDGE_PRIVATE, BOTH, "shows the container this host's control groups" },
        { "--cgroup-parent", JUDGE_REFUSE, BOTH, "moves the container to another control group" },
        { "--runtime", JUDGE_REFUSE, BOTH, "starts the container by another program, which may confine less" },
        { "--init-path", JUDGE_REFUSE, BOTH, "starts a program of this host in the container" },
        { "--hooks-dir", JUDGE_REFUSE, BOTH, "has programs of this host run beside the container" },
        { "--rootfs", JUDGE_TRUE, BOTH, "makes a directory of this host the container's files" },
        { "--pod", JUDGE_REFUSE, BOTH, "joins another container's namespaces" },
        { "--pod-id-file", JUDGE_REFUSE, BOTH, "joins another container's namespaces" },
        { "--volumes-from", JUDGE_REFUSE, BOTH, "mounts what another container has, which cannot be looked at" },
        { "--volume-driver", JUDGE_REFUSE, BOTH, "mounts what cannot be looked at" },
        { "--use-api-socket", JUDGE_TRUE, BOTH, "hands the container the engine's socket, which is this host" },
        { "--volume", JUDGE_VOLUME, BOTH, NULL },
        { "-v", JUDGE_VOLUME, BOTH, NULL },
        { "--mount", JUDGE_MOUNT, BOTH, NULL },
        { "--network", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--net", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--link", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--dns", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--dns-option", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--dns-opt", JUDGE_REFUSE, BOTH, "leads around the gateway" },
        { "--env", JUDGE_VARIABLE, BOTH, NULL },
        { "-e", JUDGE_VARIABLE, BOTH, NULL },
        { "--env-merge", JUDGE_VARIABLE, BOTH, NULL },
        { "--unsetenv", JUDGE_VARIABLE, BOTH, NULL },
        { "--unsetenv-all", JUDGE_TRUE, BOTH, "takes away what the gateway sets" },
        { "--env-file", JUDGE_ENV_FILE, BOTH, NULL },
        { "--env-host", JUDGE_TRUE, BOTH, "hands the container this host's variables, with the secrets among them" },
        { "--entrypoint", JUDGE_REFUSE, CONTAINER_RUN, "replaces the program that waits for the gateway" },
        { "--name", JUDGE_REFUSE, CONTAINER_RUN, "replaces the name by which the container is removed" },
        { "--init", JUDGE_TRUE, CONTAINER_RUN, "replaces the program that waits for the gateway" },
        { "--restart", JUDGE_REFUSE, CONTAINER_RUN, "starts the container again when its gateway is gone" },
        { "--detach", JUDGE_TRUE, CONTAINER_RUN, "lets the container outlive its gateway" },
        { "-d", JUDGE_TRUE, CONTAINER_RUN, "lets the container outlive its gateway" },
};

/* Flags with one letter that take a value: the rest of the word is it, or the next word. */
#define SHORT_WITH_VALUE "acehlmpuvw"

/* In both spellings; a proxy of the user's own leads around the gateway, whether Bailey sets the variable or not. */
static const char *const proxies[] = {
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY", "RSYNC_PROXY"
};
/* Bailey appends to these (plan/env.c). */
static const char *const appended[] = { "NODE_OPTIONS", "JAVA_TOOL_OPTIONS" };

static int args_object(const struct container_args *container_args, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int args_object(const struct container_args *container_args, struct err *err, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(4096);
        va_list args;

        va_start(args, format);
        (void)buf_vprintf(&text, format, args);
        va_end(args);

        const char *reason = buf_text(&text);
        if (container_args->object)
                return container_args->object(container_args->arg, err, text_or(reason, ""));

        return err_set(err, EPERM, "%s", text_or(reason, ""));
}

static bool is_named(struct str name, const char *const *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_eq_nocase(name, str_of(list[i])))
                        return true;
        return false;
}

/* "K=V", or "K" for the value of the caller's environment. */
static int judge_variable(const struct container_args *args, struct str setting, struct err *err) {
        ptrdiff_t equals = str_find(setting, '=');
        struct str name = equals < 0 ? setting : str_first(setting, (size_t)equals);

        /* podman takes every variable of this host that begins so */
        if (equals < 0 && str_ends(name, STR("*")))
                return args_object(args, err, "your own %.*s hands the container this host's variables; take it out",
                                   STR_FMT(name));

        if (equals > 0 && is_named(name, appended, sizeof appended / sizeof *appended))
                return 0;
        if (!is_named(name, proxies, sizeof proxies / sizeof *proxies) && !(args->owns && args->owns(args->arg, name)))
                return 0;

        return args_object(args, err, "your own %.*s would undo what the gateway sets; take it out", STR_FMT(name));
}

static int judge_env_file(const struct container_args *args, struct str path, struct err *err) {
        cleanup(free_ptr) char *name = str_dup(path);
        cleanup(buf_done) struct buf text = BUF(0);
        int r = name ? path_read_file(name, ENV_FILE_MAX, &text, err) : err_memory(err);
        struct str rest = buf_str(&text), line;

        while (r == 0 && str_split(&rest, '\n', &line)) {
                line = str_trim(line);
                if (line.n > 0 && line.p[0] != '#')
                        r = judge_variable(args, line, err);
        }

        return r;
}

/* A namespace of its own, in the words of either engine. */
static bool is_private(struct str value) {
        static const char *const own[] = { "private", "none", "shareable", "auto", "nomap", "keep-id" };
        ptrdiff_t colon = str_find(value, ':');
        struct str kind = colon < 0 ? value : str_first(value, (size_t)colon);

        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
                if (str_is(kind, own[i]))
                        return true;

        return value.n == 0;
}

/* Of all security options only those that take away. */
static bool only_confines(struct str value) {
        static const char *const fine[] = { "no-new-privileges", "no-new-privileges=true", "no-new-privileges:true" };

        for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
                if (str_is(value, fine[i]))
                        return true;
        return str_starts(value, STR("mask=")) || str_starts(value, STR("label=level:"));
}

static bool is_local_log(struct str value) {
        static const char *const local[] = { "none", "json-file", "local", "journald", "k8s-file", "passthrough" };

        for (size_t i = 0; i < sizeof local / sizeof *local; i++)
                if (str_is(value, local[i]))
                        return true;
        return false;
}

/* podman takes several options in one word, with quotes, and names in either case. Those that name no file, no host and
 * no driver. */
static bool is_plain_log_option(struct str value) {
        static const char *const plain[] = { "max-size", "max-file", "max-buffer-size", "compress", "mode",
                                             "tag",      "env",      "env-regex",       "labels",   "labels-regex" };
        struct str part, name;

        if (str_find(value, '"') >= 0)
                return false;

        while (str_split(&value, ',', &part)) {
                bool known = str_find(part, '=') < 0; /* the next of a list */

                (void)str_split(&part, '=', &name);
                for (size_t i = 0; i < sizeof plain / sizeof *plain && !known; i++)
                        known = str_eq_nocase(name, str_of(plain[i]));
                if (!known)
                        return false;
        }

        return true;
}

static bool is_off(struct str value) {
        return str_eq_nocase(value, STR("false")) || str_is(value, "0") || str_eq_nocase(value, STR("f"));
}

static int judge_mount(const struct container_args *args, struct str value, bool is_long, struct err *err) {
        cleanup(buf_done) struct buf why = BUF(4096);
        struct container_bind bind = { 0 };
        int r = container_mount_judge(value, is_long, args->kept, args->seen ? &bind : NULL, &why);
        cleanup(free_ptr) char *source = bind.source;

        if (r < 0)
                return err_set(err, -r, "out of memory");
        if (r == 0 && source)
                return container_seen_note_own(args->seen, bind.destination, source, err);
        if (r == 0)
                return 0;

        const char *text = buf_text(&why);
        return args_object(args, err, "your own mount \"%.*s\" %s; take it out", STR_FMT(str_first(value, 1024)),
                           text_or(text, ""));
}

static int judge_row(const struct container_args *args, const struct row *row, struct str value, struct err *err) {
        bool refused = false;

        switch ((enum judge)row->judge) {
        case JUDGE_REFUSE:
                refused = true;
                break;
        case JUDGE_TRUE:
                refused = !is_off(value);
                break;
        case JUDGE_PRIVATE:
                refused = !is_private(value);
                break;
        case JUDGE_SECURITY:
                refused = !only_confines(value);
                break;
        case JUDGE_GROUP:
                refused = memmem(value.p, value.n, "keep-groups", strlen("keep-groups")) != NULL;
                break;
        case JUDGE_LOG:
                refused = !is_local_log(value);
                break;
        case JUDGE_LOG_FILE:
                refused = !is_plain_log_option(value);
                break;
        case JUDGE_VARIABLE:
                return judge_variable(args, value, err);
        case JUDGE_ENV_FILE:
                return judge_env_file(args, value, err);
        case JUDGE_VOLUME:
        case JUDGE_MOUNT:
                return judge_mount(args, value, row->judge == JUDGE_MOUNT, err);
        }

        if (!refused)
                return 0;

        return args_object(args, err, "your own %s%s%.*s %s; take it out", row->flag, value.n > 0 ? " " : "",
                           STR_FMT(value), row->why);
}

static const struct row *find_row(const struct container_args *args, struct str flag) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                if (str_is(flag, rows[i].flag) && (rows[i].uses & args->use))
                        return &rows[i];
        return NULL;
}

/* One word as a flag, with where its value is. */
struct flag {
        char name[3]; /* of a short one */
        struct str flag, value;
};

static bool takes_value(const struct row *row) {
        return row && row->judge != JUDGE_TRUE;
}

static struct flag read_long(const struct container_args *args, struct str word, struct str next) {
        ptrdiff_t equals = str_find(word, '=');

        if (equals > 0)
                return (struct flag){ .flag = str_first(word, (size_t)equals),
                                      .value = str_skip(word, (size_t)equals + 1) };
        return (struct flag){ .flag = word, .value = takes_value(find_row(args, word)) ? next : STR("") };
}

/* Each letter of a cluster; the first that takes a value ends it. */
static int check_short(const struct container_args *args, struct str word, struct str next, struct err *err) {
        int r = 0;

        for (size_t i = 1; r == 0 && i < word.n; i++) {
                const char name[] = { '-', word.p[i], '\0' };
                bool valued = word.p[i] != '=' && strchr(SHORT_WITH_VALUE, word.p[i]);
                struct str rest = str_skip(word, i + 1);
                if (valued && rest.n > 0 && rest.p[0] == '=')
                        rest = str_skip(rest, 1);

                struct str value = STR("");
                if (valued)
                        value = rest.n > 0 ? rest : next;

                const struct row *row = find_row(args, str_of(name));
                if (row)
                        r = judge_row(args, row, value, err);
                if (valued)
                        break;
        }

        return r;
}

/* Which other flags take a value need not be known: the word after one is looked at like any other, so nothing is
 * passed over. */
int container_args_check(const struct container_args *args, char *const *given, struct err *err) {
        int r = 0;

        for (char *const *g = given; g && *g && r == 0; g++) {
                struct str word = str_of(*g), next = str_of(text_or(g[1], ""));

                if (str_starts(word, STR("--")) && word.n > 2) {
                        struct flag flag = read_long(args, word, next);
                        const struct row *row = find_row(args, flag.flag);

                        if (row)
                                r = judge_row(args, row, flag.value, err);
                        else
                                r = 0;
                } else if (word.n > 1 && word.p[0] == '-') {
                        r = check_short(args, word, next, err);
                }
        }

        return r;
}

/* The value of a long flag, if the word is that flag. */
static const char *long_value(const char *word, const char *flag, const char *next) {
        size_t n = strlen(flag);

        if (strncmp(word, flag, n) != 0)
                return NULL;
        if (word[n] == '=')
                return word + n + 1;
        if (word[n] == '\0')
                return next;

        return NULL;
}

/* The value of -e, which may end a cluster. */
static const char *short_variable(const char *word, const char *next) {
        const char *letter = word + 1;

        while (*letter && !strchr(SHORT_WITH_VALUE, *letter))
                letter++;
        if (*letter != 'e')
                return NULL;

        letter += letter[1] == '=' ? 2 : 1;
        return *letter ? letter : next;
}

/* The last line that sets it counts. The check refuses a file that cannot be read. */
static void file_variable(const char *path, const char *name, char **found) {
        cleanup(buf_done) struct buf text = BUF(0);
        struct err unread = { 0 };
        size_t n = strlen(name);

        if (path_read_file(path, ENV_FILE_MAX, &text, &unread) < 0)
                return;

        struct str rest = buf_str(&text), line;
        while (str_split(&rest, '\n', &line)) {
                line = str_trim(line);
                if (!str_starts(line, str_of(name)) || line.n == n || line.p[n] != '=')
                        continue;

                free(*found);
                *found = str_dup(str_skip(line, n + 1));
        }
}

char *container_args_variable(char *const *given, const char *name) {
        cleanup(free_ptr) char *of_file = NULL;
        const char *found = NULL;
        size_t n = strlen(name);

        for (char *const *g = given; g && *g; g++) {
                const char *next = text_or(g[1], ""), *setting = NULL;
                bool is_long = strncmp(*g, "--", 2) == 0;
                const char *file = is_long ? long_value(*g, "--env-file", next) : NULL;

                if (is_long)
                        setting = long_value(*g, "--env", next);
                else if (**g == '-')
                        setting = short_variable(*g, next);

                if (setting && strncmp(setting, name, n) == 0 && setting[n] == '=')
                        found = setting + n + 1;
                if (file)
                        file_variable(file, name, &of_file);
        }

        if (found)
                return str_dup(str_of(found));

        return take_ptr(&of_file); /* a flag counts more than a file, wherever it stands */
}
