/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the background gateway.
 *
 * `start` makes a process of this same executable, detached: its own session, nothing open but its log and one pipe, an
 * environment from an allow list. That process writes its pid file, loads the policy, starts vault and gateway and
 * reports through the pipe that it listens. `start` waits for that; if the process ends or takes too long, `start`
 * shows the end of the log and leaves nothing behind. Later signals go through egress_pid_find().
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"
#include "base/random.h"
#include "container/engine_network.h"
#include "egress/containers.h"
#include "egress/egress.h"
#include "egress/egress_discover.h"
#include "egress/egress_firewall.h"
#include "egress/egress_pid.h"
#include "egress/egress_state.h"
#include "egress/gateway_service.h"
#include "policy/load.h"
#include "roles/listen.h"
#include "roles/vault_session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 120000, STOP_MS = 15000, KILL_MS = 10000, TAIL_BYTES = 2000 };
#define READY "ready\n"

static int signal_by(int pidfd, int sig) {
        if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0)
                return -errno;

        return 0;
}

static bool wait_end(int pidfd, int ms) {
        uint64_t end = clock_ns() + (uint64_t)ms * NS_PER_MS;

        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd pollfd = { .fd = pidfd, .events = POLLIN };
                int r = poll(&pollfd, 1, now >= end ? 0 : (int)((end - now) / NS_PER_MS + 1));
                if (r > 0 || (r == 0 && now >= end))
                        return r > 0;
        }
}

static void service_say(const struct egress_talk *talk, bool bad, const char *text) {
        if (talk && talk->say)
                talk->say(talk->arg, bad, text);
}

static int service_load(char **ret_directory, struct egress_settings *ret, struct err *err) {
        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(true, ret_directory, err);
        if (r >= 0)
                r = egress_settings_load(*ret_directory, ret, err);
        if (r == -ENOENT) {
                err_blame(err, ERR_UNAVAILABLE);
                return err_set(err, ENOENT, "it is not set up yet; run \"bailey egress setup\"");
        }

        if (r < 0)
                err_blame(err, ERR_CONFIG);

        return r;
}

/*
 * Before the start.
 */
static int check_uncovered(const struct egress_settings *settings, const struct egress_talk *talk, struct err *err) {
        const struct egress_uncovered *uncovered;

        for (size_t at = 0; (uncovered = egress_uncovered_next(settings, environ, &at));) {
                cleanup(free_ptr) char *text = str_format("%s is not covered: %s", uncovered->variable, uncovered->why);

                if (settings->fail_on_uncovered_providers && uncovered->model)
                        return err_set(err, EPERM,
                                       "%s is set and cannot be covered: %s (fail_on_uncovered_providers is on)",
                                       uncovered->variable, uncovered->why);

                service_say(talk, true, text ? text : uncovered->variable);
        }

        return 0;
}

static bool uses_bitwarden(const struct egress_settings *settings) {
        for (size_t i = 0; i < settings->credentials.n; i++)
                if (strncmp(settings->credentials.p[i].source, "bws:", 4) == 0)
                        return true;
        return false;
}

static int check_bitwarden(const struct egress_settings *settings, struct err *err) {
        int token = uses_bitwarden(settings) ? egress_settings_token(settings, err) : 0;

        if (!uses_bitwarden(settings) || settings->allow_env_fallback) {
                err_clear(err);
                return 0;
        }

        if (settings->bitwarden && !settings->project)
                return err_set(err, EINVAL,
                               "bitwarden_project is not set, and credentials are read from Bitwarden. Set it with "
                               "\"bailey egress config bitwarden_project=ID\"");

        if (token == 0)
                return 0;

        return err_set(err, ENODATA,
                       "%s. Set it, or run \"bailey egress setup --no-bitwarden\" to read them from the environment",
                       err_text(err));
}

/*
 * The process.
 */
static int open_log(const char *directory, int *ret_fd, off_t *ret_end, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_LOG);
        cleanup(close_fd) int fd = -1;
        int r = path ? path_open_append(path, 0600, &fd, err) : err_memory(err);
        if (r < 0)
                return r;
        if (fchmod(fd, 0600) < 0)
                return err_errno(err, "cannot close %s to others", path);

        *ret_end = lseek(fd, 0, SEEK_END);
        *ret_fd = take_fd(&fd);

        return 0;
}

/* What the log says since the start, or its end, on lines of their own. */
static void service_tail(const char *directory, off_t from, const struct egress_talk *talk) {
        cleanup(free_ptr) char *path = path_join(directory, EGRESS_LOG);
        cleanup(close_fd) int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
        char text[TAIL_BYTES + 1];
        off_t end = -1;

        if (fd >= 0)
                end = lseek(fd, 0, SEEK_END);

        if (end < 0)
                return;

        if (end - from > TAIL_BYTES)
                from = end - TAIL_BYTES;
        ssize_t n = pread(fd, text, TAIL_BYTES, from);
        struct str rest = str_n(text, n > 0 ? (size_t)n : 0), line;
        while (str_split(&rest, '\n', &line)) {
                cleanup(free_ptr) char *shown = str_format("  log: %.*s", STR_FMT(line));
                if (shown && line.n > 0)
                        service_say(talk, true, shown);
        }
}

/* Waits for the ready message; false when the pipe ends or the time is over. */
static bool wait_ready(int from) {
        char text[16];
        uint64_t end = clock_ns() + START_MS * NS_PER_MS;

        for (;;) {
                uint64_t now = clock_ns();
                struct pollfd pollfd = { .fd = from, .events = POLLIN };
                int r = 0;

                if (now < end)
                        r = poll(&pollfd, 1, (int)((end - now) / NS_PER_MS + 1));

                if (r < 0 && errno == EINTR)
                        continue;

                ssize_t n = 0;

                if (r > 0)
                        n = read(from, text, sizeof text);

                return n == (ssize_t)strlen(READY) && memcmp(text, READY, strlen(READY)) == 0;
        }
}

static int daemon_spawn(char *const *environment, int log, int status, pid_t *ret_pid, struct err *err) {
        char self[PATH_MAX], nonce[EGRESS_NONCE_MAX];
        char *const argv[] = { (char *)"bailey", (char *)"egress", (char *)"serve", nonce, NULL };
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

        if (n <= 0)
                return err_errno(err, "cannot find out where this program is (/proc/self/exe)");

        self[n] = '\0';
        random_id(nonce, sizeof nonce);

        const struct spawn spawn = { .program = self,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = log,
                                     .errors = log,
                                     .fds = &status,
                                     .n_fds = 1,
                                     .flags = SPAWN_OWN_SESSION | SPAWN_AT_ROOT | SPAWN_PRIVATE };
        static_assert(EGRESS_STATUS_FD == 3, "the first descriptor after the standard ones");

        return spawn_start(&spawn, ret_pid, err);
}

static int daemon_start(const char *directory, char *const *environment, const struct egress_talk *talk,
                        struct err *err) {
        cleanup(close_fd) int log = -1, other = -1;
        struct egress_identity id;
        off_t log_end = 0;
        int ends[2], r;
        pid_t pid;

        r = open_log(directory, &log, &log_end, err);
        if (r < 0)
                return r;
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot prepare the service");

        cleanup(close_fd) int from = ends[0], to = ends[1];
        r = daemon_spawn(environment, log, to, &pid, err);
        if (r < 0)
                return r;

        close_fd(&to);
        if (wait_ready(from))
                return 0;

        kill(pid, SIGKILL); /* our own child and not reaped: nobody else has its number */
        (void)spawn_wait(pid);
        (void)egress_pid_find(directory, true, &id, &other, NULL);
        service_tail(directory, log_end, talk);

        return err_set(err, EPROTO, "the gateway did not start; its log is %s/%s", directory, EGRESS_LOG);
}

static int start_with(const char *directory, const struct egress_settings *settings, const struct egress_talk *talk,
                      struct err *err) {
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(mappings_done) mappings m = { 0 };
        cleanup(text_list_done) text_list environment = { 0 };
        int r = egress_settings_policy(directory, settings, &policy, err);

        if (r >= 0)
                r = mappings_of(policy, &m, err);
        if (r >= 0)
                r = egress_environment(&m, environ, &environment, err);
        char *const nothing[] = { NULL };

        if (r < 0)
                return r;

        return daemon_start(directory, environment.n ? environment.p : nothing, talk, err);
}

/* The settings as they are, with the environment for what Bitwarden does not have: only when they allow it. */
static int fall_back(const char *directory, struct egress_settings *settings, const struct egress_talk *talk,
                     struct err *err) {
        bool changed = false;

        for (size_t i = 0; i < settings->credentials.n; i++) {
                struct egress_credential *credential = &settings->credentials.p[i];
                const char *slash = strrchr(credential->source, '/'),
                           *name = slash ? slash + 1 : credential->source + 4;
                const char *value = strncmp(credential->source, "bws:", 4) == 0 ? getenv(name) : NULL;
                if (!value || !value[0] || egress_credential_works(directory, settings, i))
                        continue;

                cleanup(free_ptr) char *source = str_format("env:%s", name),
                                       *text = str_format(
                                           "%s is not to be had from Bitwarden; the environment's %s is "
                                           "used (allow_env_fallback)",
                                           credential->provider ? credential->provider : credential->name, name);
                int r = source ? egress_credential_source(credential, source, err) : err_memory(err);
                if (r < 0)
                        return r;

                service_say(talk, true, text ? text : name);
                changed = true;
        }

        if (!changed)
                return 0;

        int r = egress_settings_save_policy(directory, settings, err);
        if (r < 0)
                return r;

        return 1;
}

int egress_start(const struct egress_talk *talk, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        struct egress_identity id;
        cleanup(close_fd) int pidfd = -1;
        int r = service_load(&directory, &settings, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_REFUSED);
        if (!settings.enabled)
                return err_set(err, EPERM, "it is disabled; run \"bailey egress setup\" to enable it");
        if (egress_pid_find(directory, true, &id, &pidfd, NULL) == 0)
                return 1;

        r = check_uncovered(&settings, talk, err);
        if (r < 0)
                return r;

        r = check_bitwarden(&settings, err);
        if (r < 0)
                return r;

        err_blame(err, ERR_CONFIG);
        r = egress_settings_save(directory, &settings, err); /* edited by hand, perhaps: the policy must follow */
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM);
        bool may_fall_back = settings.allow_env_fallback && uses_bitwarden(&settings);
        if (may_fall_back && !getenv(BITWARDEN_TOKEN)) /* it cannot work: no log of a failure that was expected */
                r = fall_back(directory, &settings, talk, err);

        if (r >= 0)
                r = start_with(directory, &settings, talk, err);
        if (r < 0 && may_fall_back && fall_back(directory, &settings, talk, err) == 1) {
                err_clear(err);
                r = start_with(directory, &settings, talk, err);
        }

        return r;
}

/*
 * The end.
 */
int egress_stop(const struct egress_talk *talk, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(close_fd) int pidfd = -1;
        struct egress_identity id;

        err_blame(err, ERR_SYSTEM);
        int r = egress_directory(true, &directory, err);
        if (r < 0)
                return r;

        r = egress_pid_find(directory, true, &id, &pidfd, err);
        if (r == -ENOENT) {
                err_clear(err);
                return 1;
        }

        if (r < 0)
                return r;

        r = signal_by(pidfd, SIGTERM);
        if (r < 0 && r != -ESRCH)
                return err_set(err, -r, "cannot end process %d: %s", (int)id.pid, strerror(-r));

        if (!wait_end(pidfd, STOP_MS)) {
                service_say(talk, true, "it does not end when asked; it is ended by force");
                (void)signal_by(pidfd, SIGKILL);
                if (!wait_end(pidfd, KILL_MS))
                        return err_set(err, ETIMEDOUT, "process %d does not end", (int)id.pid);
        }

        egress_pid_remove(directory, &id);
        return 0;
}

int egress_disable(const struct egress_talk *talk, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        int r = service_load(&directory, &settings, err);
        if (r < 0)
                return r;

        settings.enabled = false;
        r = egress_settings_save(directory, &settings, err);
        if (r < 0)
                return r;

        r = egress_stop(talk, err);
        if (r < 0)
                return r;

        return 0;
}

/*
 * The service.
 */
struct serving {
        const char *directory;
        const struct egress_settings *settings;
        int status;
        struct egress_identity id;
        bool walled;                   /* rules on the bridge were made */
        struct engine_network network; /* that containers are in; engine NULL: none */
        struct containers *containers; /* each with a list of its own; NULL: no network for them */
};

static int write_service(const struct serving *serving, const struct service_info *info, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(EGRESS_BYTES_MAX);
        struct emit j = emit_to(&text);
        char tokens[DIGEST_HEX_MAX];

        egress_tokens_digest(serving->directory, tokens);
        emit_open(&j, '{');
        emit_put_number(&j, "pid", (uint64_t)serving->id.pid);
        emit_put_text(&j, "run_id", info->run_id);
        emit_put_text(&j, "audit", info->audit);
        emit_put_text(&j, "ca_bundle", info->ca_bundle);
        emit_put_bool(&j, "walled", serving->walled);
        emit_key(&j, "fixed"); /* settings that count when it is started */
        emit_open(&j, '{');
        emit_put_number(&j, "port", serving->settings->port);
        emit_put_text(&j, "bridge", text_or(serving->settings->bridge, ""));
        emit_put_text(&j, "hosts", text_or(serving->settings->hosts, ""));
        emit_put_text(&j, "ca_bundle", text_or(serving->settings->ca_bundle, ""));
        emit_put_text(&j, "tokens", tokens);
        emit_close(&j);
        emit_key(&j, "http");
        emit_open(&j, '[');

        for (size_t i = 0; i < info->n_listeners; i++)
                emit_text(&j, info->listeners[i].address);

        emit_close(&j);
        emit_key(&j, "env");
        emit_open(&j, '[');

        for (const char *const *v = info->stand_ins; v && *v; v++)
                emit_text(&j, *v);

        emit_close(&j);
        emit_key(&j, "base_urls");
        emit_open(&j, '[');

        for (const char *const *v = info->base_urls; v && *v; v++)
                emit_text(&j, *v);

        emit_close(&j);
        emit_close(&j);

        if (emit_status(&j) < 0)
                return err_set(err, EMSGSIZE, "too much to say about the service");

        return egress_write(serving->directory, EGRESS_SERVICE, buf_str(&text), err);
}

/* Where containers come from our own bridge: this host is closed to them but for the gateway. */
static void close_bridge(struct serving *serving, const struct service_info *info) {
        char address[ADDR_TEXT_MAX];
        struct err e = { 0 };

        if (!serving->network.engine)
                return;

        for (size_t i = 0; i < info->n_listeners; i++) {
                struct endpoint at;

                if (listen_parse(str_of(info->listeners[i].address), &at, NULL) < 0 ||
                    !addr_equal(&at.addr, &serving->network.gateway))
                        continue;

                addr_text(&at.addr, address);
                serving->walled = egress_firewall_up(serving->network.interface, address, at.port, &e) == 0;
                if (!serving->walled)
                        log_warning("egress: containers can reach what else listens on this host: %s", err_text(&e));
        }
}

static void on_reloaded(void *arg, int ticket, bool ok, const char *text) {
        const struct serving *serving = arg;
        cleanup(buf_done) struct buf out = BUF(EGRESS_BYTES_MAX);
        struct emit j = emit_to(&out);
        struct err e = { 0 };

        emit_open(&j, '{');
        emit_put_number(&j, "ticket", (uint64_t)ticket);
        emit_put_bool(&j, "ok", ok);
        emit_put_text(&j, "text", text);
        emit_close(&j);

        if (ok)
                containers_reload(serving->containers);
        if (emit_status(&j) < 0 || egress_write(serving->directory, EGRESS_RELOAD, buf_str(&out), &e) < 0)
                log_error("egress: whoever asked for the reload is not answered: %s", err_text(&e));
}

static void on_ready(void *arg, const struct service_info *info) {
        struct serving *serving = arg;
        struct err e = { 0 };

        close_bridge(serving, info);

        if (write_service(serving, info, &e) < 0)
                log_error("egress: %s", err_text(&e));
        else if (serving->status >= 0) {
                log_notice("egress: listening, run %s", info->run_id);
                (void)fd_write_all(serving->status, READY, strlen(READY));
        }

        close_fd(&serving->status);
}

static void on_message(void *arg, bool bad, const char *text) {
        (void)arg;
        if (bad)
                log_warning("egress: %s", text);
        else
                log_notice("egress: %s", text);
}

static int load_tokens(void *arg, const mappings *list, struct vault_process *process, struct err *err) {
        return egress_tokens_load(arg, list, process, false, err);
}

static int save_tokens(void *arg, const mappings *list, const struct vault_process *process, struct err *err) {
        return egress_tokens_save(arg, list, process, err);
}

/* The network that was made for the gateway, else a bridge of an engine's own. False: neither is there. */
static bool find_bridge(struct serving *serving, struct addr *ret) {
        struct err e = { 0 };
        char name[16];
        int found = engine_network_find(ENGINE_NETWORK, &serving->network, &e);

        if (found > 0 && serving->network.bridge && serving->network.internal &&
            engine_network_up(&serving->network, &e) == 0) {
                *ret = serving->network.gateway;
                return true;
        }

        if (e.text[0])
                log_warning("egress: no container can reach the gateway: %s", err_text(&e));

        serving->network.engine = NULL;
        return listen_bridge(ret, name);
}

/* Loopback always; the bridge when there is one, and then it must work. */
static int make_addresses(struct serving *serving, const struct egress_settings *settings, char ret[2][LISTEN_TEXT_MAX],
                          struct err *err) {
        struct endpoint at = { .port = (uint16_t)settings->port };

        snprintf(ret[0], LISTEN_TEXT_MAX, "127.0.0.1:%u", settings->port);
        ret[1][0] = '\0';
        if (settings->bridge && strcmp(settings->bridge, "none") == 0)
                return 0;

        if (!settings->bridge || strcmp(settings->bridge, "auto") == 0) {
                if (!find_bridge(serving, &at.addr))
                        return 0;
        } else if (!addr_parse(str_of(settings->bridge), &at.addr))
                return err_set(err, EINVAL, "bridge: not an address");

        listen_text(&at, ret[1]);
        return 0;
}

/* In the network that was made for it, we accept connections here and pass each to the list of its container. The text
 * then has the actual port. */
static int open_containers(struct serving *serving, char address[static LISTEN_TEXT_MAX], struct err *err) {
        struct containers_settings settings = { .engine = serving->network.engine, .on_message = on_message };
        int r;

        if (!serving->network.engine || !address[0])
                return 0;

        r = listen_parse(str_of(address), &settings.at, err);
        if (r == 0)
                r = containers_open(&settings, &serving->containers, err);
        if (r < 0)
                return r;

        listen_text(containers_at(serving->containers), address);
        return 0;
}

static int service_serve(struct serving *serving, const struct egress_settings *settings, struct err *err) {
        char addresses[2][LISTEN_TEXT_MAX];
        cleanup(free_ptr) char *policy = path_join(serving->directory, EGRESS_POLICY);
        int r = policy ? make_addresses(serving, settings, addresses, err) : err_memory(err);
        if (r == 0)
                r = open_containers(serving, addresses[1], err);
        if (r < 0)
                return r;

        bool apart = serving->containers;
        const struct service_handed handed = { containers_own(serving->containers), addresses[1] };
        const struct poller_part part = containers_part(serving->containers);
        const char *const http[] = { addresses[0], addresses[1][0] && !apart ? addresses[1] : NULL, NULL };
        const struct policy_request request = { .only_file = policy, .base = "/", .network_only = true };
        const struct vault_session_place place = { .directory = serving->directory,
                                                   .load = load_tokens,
                                                   .save = save_tokens,
                                                   .arg = (void *)serving->directory };
        struct service_settings service_settings = { .policy = &request,
                                                     .name = "egress",
                                                     .http = http,
                                                     .place = &place,
                                                     .hosts_file = settings->hosts,
                                                     .ca_bundle = settings->ca_bundle,
                                                     .log_level = LOG_NOTICE,
                                                     .on_ready = on_ready,
                                                     .on_message = on_message,
                                                     .on_reloaded = on_reloaded,
                                                     .arg = serving };
        if (apart) {
                service_settings.handed = &handed;
                service_settings.part = &part;
        }

        r = gateway_service_run(&service_settings, err);
        containers_close(serving->containers);

        return r;
}

int egress_serve(const char *nonce, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        cleanup(egress_settings_done) struct egress_settings settings = { 0 };
        struct serving serving = { .status = EGRESS_STATUS_FD };
        struct stat st;

        if (fstat(EGRESS_STATUS_FD, &st) < 0 || !S_ISFIFO(st.st_mode))
                return err_set(err, EINVAL, "this is for \"bailey egress start\"");

        (void)fcntl(EGRESS_STATUS_FD, F_SETFD, FD_CLOEXEC);
        umask(077);

        /* Values of the environment are in its memory until the vault has them, and in /proc/PID/environ. */
        const struct rlimit no_core = { 0 };
        if (setrlimit(RLIMIT_CORE, &no_core) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_errno(err, "cannot close this process to others");

        int r = egress_directory(true, &directory, err);
        if (r < 0)
                return r;

        r = egress_settings_load(directory, &settings, err);
        if (r < 0)
                return r;

        r = egress_identity_self(nonce, &serving.id, err);
        if (r < 0)
                return r;

        r = egress_pid_write(directory, &serving.id, err);
        if (r < 0)
                return r;

        serving.directory = directory;
        serving.settings = &settings;
        r = service_serve(&serving, &settings, err);

        if (serving.walled)
                egress_firewall_down();

        egress_pid_remove(directory, &serving.id);
        return r; /* the pipe ends with the process: the waiting `start` shows the end of the log */
}
