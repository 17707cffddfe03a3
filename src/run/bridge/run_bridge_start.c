/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"
#include "bridge/tool_policy.h"
#include "ipc/supervise_messages.h"
#include "policy/tools/tool_credentials.h"
#include "policy/tools/tools.h"
#include "run/bridge/run_bridge_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POLICY_MAX = 1 << 20, ENV_MAX = 64 };

extern char **environ;

static int no_memory(struct err *err) {
        return err_set(err, ENOMEM, "out of memory");
}

/* The tool sees the workspace by the same names, so it starts where its caller is; only there, and by no link. */
static int choose_start(const struct run *run, const struct bridge_start *start, const char *directory, char **ret,
                        struct err *err) {
        const char *workspace = run->session.policy->workspace;
        cleanup(free_ptr) char *wanted = str_dup(start->directory);
        cleanup(close_fd) int top = -1;

        if (!wanted)
                return no_memory(err);

        if (!tool_is(start->tool->workspace, "read", false)) {
                *ret = str_dup(str_of(directory));
                return *ret ? 0 : no_memory(err);
        }

        if (!path_is_within(wanted, workspace))
                return err_set(err, EPERM, "it can be called from inside the workspace (%s) alone", workspace);

        top = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
        const char *below = wanted + strlen(workspace);
        while (*below == '/')
                below++;

        cleanup(close_fd) int at =
            path_open_at(top, *below ? below : ".", O_PATH | O_DIRECTORY, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        if (at < 0)
                return err_set(err, -at, "the current directory is not to be found in the workspace outside");

        *ret = take_ptr(&wanted);
        return 0;
}

void bridge_place_done(struct bridge_place *place) {
        free(place->program);
        free(place->home);
        free(place->git);
        free(place->directory);
        *place = (struct bridge_place){ 0 };
}

int bridge_place_find(const struct run *run, const struct bridge_start *start, struct bridge_place *ret,
                      struct err *err) {
        cleanup(bridge_place_done) struct bridge_place place = { 0 };
        int r;

        place.program = bridge_program(start->tool, run->session.policy, err);
        if (!place.program)
                return -ENOENT;

        r = bridge_home(run, start->tool, &place.home, &place.git, err);
        if (r < 0)
                return r;
        r = choose_start(run, start, place.home, &place.directory, err);
        if (r < 0)
                return r;

        *ret = place;
        place = (struct bridge_place){ 0 };

        return 0;
}

static void texts_done(supervise_texts *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

static int encode_block(const struct run *run, const struct bridge_start *start, char **ret, struct err *err) {
        cleanup(bridge_place_done) struct bridge_place place = { 0 };
        cleanup(buf_done) struct buf policy = BUF(POLICY_MAX);
        struct supervise_request request = { .job = SUPERVISE_RUN };
        static char asks[] = SUPERVISE_ASKS_ALL;
        int r = bridge_place_find(run, start, &place, err);

        if (r < 0)
                return r;

        const struct tool_place_facts facts = { .directory = place.home, .program = place.program, .git = place.git };
        if (tool_policy_write(run->session.policy, start->tool, &facts, &policy) < 0 || !buf_text(&policy))
                return no_memory(err);

        request.policy = policy.p;
        request.base = place.home;
        request.cwd = place.directory;
        request.hosts_file = (char *)(uintptr_t)run->q->hosts_file;
        request.ca_bundle = (char *)(uintptr_t)run->q->ca_bundle;
        request.asks = asks;
        r = supervise_texts_add(&request.argv, str_of(place.program));
        for (size_t i = 1; r == 0 && i < start->call->argv.n; i++)
                r = supervise_texts_add(&request.argv, str_of(start->call->argv.p[i]));

        const text_list *places = &run->session.vault->tool_places;
        for (size_t i = 0; r == 0 && i < places->n; i++)
                r = supervise_texts_add(&request.places, str_of(places->p[i]));

        r = r < 0 ? no_memory(err) : supervise_encode(&request, ret, err);
        texts_done(&request.argv);
        texts_done(&request.places);

        return r;
}

/* --- the environment of the tool's supervisor: built from nothing --- */

static char *variable_of(const char *name) {
        size_t n = strlen(name);

        for (char **v = environ; v && *v; v++)
                if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
                        return *v;
        return NULL;
}

static void pass_variable(char **environment, size_t *n, const char *name) {
        char *there = variable_of(name);

        if (there && *n + 1 < ENV_MAX)
                environment[(*n)++] = there;
}

/* Variables that an entry of the policy reads. */
static void pass_entry(char **environment, size_t *n, const struct policy *policy, const struct credential *own) {
        cleanup(mappings_done) mappings one = { 0 };

        if (mappings_add(&one, policy, own, NULL) < 0)
                return;

        for (size_t i = 0;; i++) {
                cleanup(free_ptr) char *name = mapping_source_variable(&one.p[0], i);
                if (!name)
                        return;
                pass_variable(environment, n, name);
        }
}

/* Of "env:NAME", the name; and those of a provider, where nothing else is said. */
static void pass_credential(char **environment, size_t *n, const struct policy *policy, struct str word) {
        struct tool_credential found;

        if (!tool_credential_find(policy, word, &found))
                return;

        if (found.own) {
                pass_entry(environment, n, policy, found.own);
                return;
        }

        cleanup(free_ptr) char *name =
            str_starts(found.source, STR("env:")) ? str_dup(str_skip(found.source, 4)) : NULL;
        if (name)
                pass_variable(environment, n, name);

        for (size_t i = 0; found.source.n == 0 && found.provider->env[i]; i++)
                pass_variable(environment, n, found.provider->env[i]);
}

static void fill_environment(const struct policy *policy, const struct bridge_tool *tool, char **environment) {
        static const char *const own[] = { "HOME",
                                           "USER",
                                           "LOGNAME",
                                           "TERM",
                                           "XDG_RUNTIME_DIR",
                                           "XDG_STATE_HOME",
                                           "XDG_CACHE_HOME",
                                           "XDG_CONFIG_HOME",
                                           "DBUS_SESSION_BUS_ADDRESS" };
        static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        static char language[] = "LANG=C.UTF-8";
        size_t n = 0;

        environment[n++] = path;
        environment[n++] = language;
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
                pass_variable(environment, &n, own[i]);

        for (size_t i = 0; i < tool->credentials.n; i++)
                pass_credential(environment, &n, policy, str_of(tool->credentials.p[i].text));

        for (size_t i = 0; i < tool->env_pass.n; i++)
                pass_variable(environment, &n, tool->env_pass.p[i].text);

        environment[n] = NULL;
}

int bridge_start(const struct run *run, const struct bridge_start *start, struct bridge_call *ret, struct err *err) {
        cleanup(free_ptr) char *block = NULL, *self = realpath("/proc/self/exe", NULL);
        cleanup(close_fd) int request = -1, ours = -1, theirs = -1;
        static char name[] = "bailey", verb[] = "supervise";
        char *const argv[] = { name, verb, NULL };
        char *environment[ENV_MAX + 1] = { 0 };
        int link[2];
        int r = encode_block(run, start, &block, err);

        if (r < 0)
                return r;
        if (!self || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
                return err_errno(err, "cannot start the tool's sandbox");

        ours = link[0];
        theirs = link[1];
        r = fd_sealed("bailey-bridge", str_of(block), &request, err);
        if (r < 0)
                return r;

        fill_environment(run->session.policy, start->tool, environment);
        const int fds[] = { theirs, request };
        const struct spawn spawn = { .program = self,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = start->fds[0],
                                     .output = start->fds[1],
                                     .errors = start->fds[2],
                                     .fds = fds,
                                     .n_fds = 2,
                                     .flags = SPAWN_WITH_PARENT | SPAWN_OWN_SESSION };
        r = spawn_start(&spawn, &ret->pid, err);
        if (r < 0)
                return r;

        ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
        ret->link = take_fd(&ours);
        (void)fd_set_nonblocking(ret->link, true);

        return 0;
}
