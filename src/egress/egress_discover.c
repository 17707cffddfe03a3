/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_discover.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"
#include "base/secrets/secret.h"
#include "conf/json.h"
#include "roles/vault_tell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *value_of(char *const *environment, const char *name) {
        size_t n = strlen(name);
        for (char *const *v = environment; v && *v; v++)
                if (strncmp(*v, name, n) == 0 && (*v)[n] == '=' && (*v)[n + 1])
                        return *v + n + 1;
        return NULL;
}

const char *egress_provider_variable(const struct provider *provider, char *const *environment) {
        bool aws = strcmp(provider->slots[0], "sigv4") == 0;
        if (aws)
                return value_of(environment, provider->env[0]) && value_of(environment, provider->env[1])
                           ? provider->env[0]
                           : NULL;

        for (const char *const *name = provider->env; *name; name++)
                if (value_of(environment, *name))
                        return *name;

        return NULL;
}

/* By name. A plain key in a header can be added to the settings by hand; the others are never sent as they are. */
static const struct egress_uncovered table[] = {
        { "AWS_BEARER_TOKEN_BEDROCK", "it is no signing key; add a credential with slot bearer", true },
        { "AWS_PROFILE", "its keys are in a file; export them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", false },
        { "AWS_WEB_IDENTITY_TOKEN_FILE", "the SDK trades the file for keys itself", false },
        { "AZURE_CLIENT_SECRET", "it is sent in the body of a login request", false },
        { "CEREBRAS_API_KEY", "no provider of this name; add a credential with its hosts and slot", true },
        { "COHERE_API_KEY", "no provider of this name; add a credential with its hosts and slot", true },
        { "FIREWORKS_API_KEY", "no provider of this name; add a credential with its hosts and slot", true },
        { "GOOGLE_APPLICATION_CREDENTIALS", "the SDK signs with the key in the file itself", true },
        { "PERPLEXITY_API_KEY", "no provider of this name; add a credential with its hosts and slot", true },
        { "REPLICATE_API_TOKEN", "no provider of this name; add a credential with its hosts and slot", true },
        { "WATSONX_APIKEY", "it is traded for a token in the body of a login request", true },
};

/* A credential of the user's own that reads or fills the variable covers it. */
static bool is_covered(const struct egress_settings *settings, const char *variable) {
        cleanup(free_ptr) char *source = str_format("env:%s", variable);
        cleanup(free_ptr) char *quoted = str_format("\"%s\"", variable);
        for (size_t i = 0; source && quoted && i < settings->credentials.n; i++)
                if (strcmp(settings->credentials.p[i].source, source) == 0 ||
                    strstr(settings->credentials.p[i].text, quoted))
                        return true;
        return false;
}

const struct egress_uncovered *egress_uncovered_next(const struct egress_settings *settings, char *const *environment,
                                                     size_t *cursor) {
        while (*cursor < sizeof table / sizeof *table) {
                const struct egress_uncovered *uncovered = &table[(*cursor)++];
                if (value_of(environment, uncovered->variable) && !is_covered(settings, uncovered->variable))
                        return uncovered;
        }
        return NULL;
}

/*
 * The environment of the service.
 */
static const char *const passed[] = { "PATH",
                                      "HOME",
                                      "USER",
                                      "LOGNAME",
                                      "SHELL",
                                      "LANG",
                                      "LC_ALL",
                                      "LC_CTYPE",
                                      "TZ",
                                      "TMPDIR",
                                      "XDG_CONFIG_HOME",
                                      "XDG_DATA_HOME",
                                      "XDG_CACHE_HOME",
                                      "XDG_STATE_HOME",
                                      "XDG_RUNTIME_DIR",
                                      "DBUS_SESSION_BUS_ADDRESS",
                                      "GNUPGHOME",
                                      "CREDENTIALS_DIRECTORY",
                                      "DOCKER_HOST",
                                      "DOCKER_CONTEXT",
                                      "DOCKER_CONFIG",
                                      "CONTAINER_HOST",
                                      "CONTAINERS_CONF",
                                      "SSL_CERT_FILE",
                                      "SSL_CERT_DIR",
                                      "ASAN_OPTIONS",
                                      "LSAN_OPTIONS",
                                      "UBSAN_OPTIONS",
                                      "TSAN_OPTIONS",
                                      NULL };

static bool is_passed(const mappings *list, struct str variable) {
        ptrdiff_t equals = str_find(variable, '=');
        struct str name = str_first(variable, equals < 0 ? 0 : (size_t)equals);

        for (const char *const *p = passed; *p; p++)
                if (str_is(name, *p))
                        return true;

        for (size_t i = 0; i < list->n; i++)
                for (size_t k = 0;; k++) {
                        cleanup(free_ptr) char *source = mapping_source_variable(&list->p[i], k);
                        if (!source)
                                break;
                        if (str_is(name, source))
                                return true;
                }

        return vault_tell_is_for_tool(list, name);
}

int egress_environment(const mappings *list, char *const *environment, text_list *ret, struct err *err) {
        int r = 0;
        for (char *const *v = environment; v && *v && r == 0; v++)
                if (is_passed(list, str_of(*v)))
                        r = text_list_take(ret, str_format("%s", *v), err);
        return r;
}

/*
 * Bitwarden. A child runs bws, reads what it prints, values and all, and says the names.
 */
enum { LIST_MS = 60000, LIST_BYTES = 4 << 20, NAMES_BYTES = 1 << 20 };

static int start_bws(const char *project, char *const *environment, int to, pid_t *ret_pid) {
        char *const argv[] = {
                (char *)"bws", (char *)"secret", (char *)"list", (char *)"--output", (char *)"json", (char *)project,
                NULL
        };
        char path[PATH_MAX];

        if (!spawn_find("bws", environment, path))
                return -ENOENT;

        const struct spawn spawn = { .program = path,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = to,
                                     .errors = SPAWN_KEEP,
                                     .flags = SPAWN_WITH_PARENT };
        return spawn_start(&spawn, ret_pid, NULL);
}

static int say_names(struct str json, int to) {
        cleanup(document_freep) struct document *document = NULL;
        if (json_read(json, STR("bws"), &document, NULL) < 0 || !document_root(document) ||
            document_root(document)->kind != NODE_LIST)
                return -EBADMSG;

        int r = 0;
        for (const struct node *node = document_root(document)->first; node && r == 0; node = node->next) {
                const struct node *key = node->kind == NODE_MAP ? node_get(node, STR("key")) : NULL;
                if (!key || key->kind != NODE_SCALAR || str_has_nul(key->text) || str_find(key->text, '\n') >= 0)
                        continue;

                r = fd_write_all(to, key->text.p, key->text.n);
                if (r >= 0)
                        r = fd_write_all(to, "\n", 1);
        }

        return r;
}

/* Exit codes of the child that lists. */
enum { LIST_NOT_JSON = 3, LIST_FAILED = 4, LIST_NOT_INSTALLED = 127 };

static _Noreturn void list_in_child(const char *project, char *const *environment, int to) {
        int ends[2], status = 0;
        struct buf text = BUF(LIST_BYTES);

        if (pipe2(ends, O_CLOEXEC) < 0)
                _exit(LIST_FAILED);

        pid_t pid;
        int r = start_bws(project, environment, ends[1], &pid);
        if (r < 0)
                _exit(r == -ENOENT ? LIST_NOT_INSTALLED : LIST_FAILED);

        close(ends[1]);
        if (fd_read_all(ends[0], &text) < 0)
                _exit(LIST_FAILED);

        status = spawn_wait(pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                _exit(LIST_FAILED);

        _exit(say_names(buf_str(&text), to) < 0 ? LIST_NOT_JSON : 0);
}

static int discover_judge(int status, struct err *err) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == LIST_NOT_INSTALLED)
                return err_set(err, ENOENT, "bws, Bitwarden's command for secrets, is not installed (not in PATH)");
        if (WIFEXITED(status) && WEXITSTATUS(status) == LIST_NOT_JSON)
                return err_set(err, EBADMSG, "what bws printed is not a list of secrets");
        return err_set(err, EIO, "\"bws secret list\" failed; what it says is above");
}

static int collect_names(int from, pid_t pid, struct buf *names, struct err *err) {
        int status;
        char block[4096];
        struct pollfd pollfd = { .fd = from, .events = POLLIN };

        for (;;) {
                int ready = poll(&pollfd, 1, LIST_MS);
                ssize_t n = -1;

                if (ready > 0)
                        n = read(from, block, sizeof block);

                if (n <= 0) {
                        if (ready <= 0)
                                kill(-pid, SIGKILL); /* its own group: the command too */
                        break;
                }

                if (buf_append(names, str_n(block, (size_t)n)) < 0) {
                        kill(-pid, SIGKILL);
                        break;
                }
        }

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        return discover_judge(status, err);
}

int egress_bitwarden_names(const char *project, char *const *environment, text_list *ret, struct err *err) {
        cleanup(buf_done) struct buf names = BUF(NAMES_BYTES);
        int ends[2];

        if (!value_of(environment, "BWS_ACCESS_TOKEN"))
                return err_set(err, ENODATA,
                               "BWS_ACCESS_TOKEN is not set: Bitwarden's bws needs a machine account's "
                               "token");

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int from = ends[0], to = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");

        if (pid == 0) {
                setpgid(0, 0);
                list_in_child(project, environment, to);
        }

        setpgid(pid, pid);
        close_fd(&to);
        int r = collect_names(from, pid, &names, err);
        struct str rest = buf_str(&names), name;
        while (r == 0 && str_split(&rest, '\n', &name))
                r = text_list_take(ret, str_dup(name), err);

        return r;
}
