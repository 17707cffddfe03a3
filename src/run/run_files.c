/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_files.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "control/live.h"
#include "plan/embedded.h"
#include "plan/plan.h"
#include "policy/paths/deep_settings.h"
#include "run/learn.h"
#include "sandbox/named.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { BATCHES_AT_ONCE = 64, BATCHES_AT_THE_END = 4096 /* more than a socket holds */, PER_SECOND = 20, BURST = 2000 };

static struct snapshot_rule files_shown(const struct path_rule *rule) {
        return (
            struct snapshot_rule){ .text = str_of(rule->pattern), .origin = str_of(rule->origin), .list = LIST_DENY };
}

static void record_counted(const struct run_files *files) {
        struct event many = { .wall_us = clock_wall_us(),
                              .rule = RULE_NONE,
                              .reason = REASON_NOT_ALLOWED,
                              .detail = STR("too many to be recorded one by one") };

        for (unsigned kind = 0; kind < EVENT_KINDS; kind++) {
                many.kind = (uint16_t)kind;
                many.count = files->share->counted[kind];
                if (many.count)
                        (void)audit_add(files->audit, &many, NULL);

                files->share->counted[kind] = 0;
        }
}

static bool take_share(struct run_files_share *share) {
        const uint64_t each = NS_PER_SECOND / PER_SECOND, now = clock_ns();
        uint64_t next = (share->due_ns > now ? share->due_ns : now) + each;
        if (next - now > each * BURST)
                return false;
        share->due_ns = next;
        return true;
}

/* Recorded first, then passed to the monitor and the subscribers. */
static void files_refused(const struct run_files *files, const struct event *ev, const struct snapshot_rule *rule) {
        if (!take_share(files->share)) {
                files->share->counted[ev->kind] += ev->count ? ev->count : 1;
        } else {
                record_counted(files);
                (void)audit_add(files->audit, ev, rule);
        }
        live_event(files->control, ev, rule);
}

/* A Unix socket that somebody outside listens on: whatever the rules say about the file, it is none of the sandbox's.
 */
static void socket_refused(const struct run_files *files, struct event *ev, const char *path) {
        struct stat st;

        /* It is not there inside. Only if it is there outside was anything refused. */
        if (ev->status == ENOENT && (stat(path, &st) < 0 || !S_ISSOCK(st.st_mode)))
                return;

        ev->reason = REASON_NOT_ALLOWED;
        ev->swapped = STR("");
        files_refused(files, ev, NULL);
        run_report_socket(files->report, path, ev->detail);
}

/* No rule of a policy says it, and none can change it. */
static const struct path_rule *programs_rule(const char *path) {
        static const struct path_rule tools = { .pattern = PLAN_BRIDGE_PLACE, .origin = PLAN_PROGRAMS_WHY },
                                      ssh = { .pattern = PLAN_SHIM_PLACE, .origin = PLAN_PROGRAMS_WHY };

        return path_is_within(path, PLAN_SHIM_PLACE) ? &ssh : &tools;
}

static bool guard_is_known(const struct plan *plan, struct str path, struct path_rule *ret) {
        for (size_t i = 0; plan && i < plan->guards.n; i++) {
                const struct plan_guard *guard = &plan->guards.p[i];

                if (!str_is(path, guard->path))
                        continue;
                *ret = (struct path_rule){ .pattern = guard->path, .origin = guard->why };
                return true;
        }

        return false;
}

static bool name_is_known(const struct plan_host *named, struct str path, struct path_rule *ret) {
        for (size_t i = 0; named && i < named->paths.n; i++) {
                if (!str_is(path, named->paths.p[i].path))
                        continue;
                *ret = (struct path_rule){ .pattern = named->paths.p[i].path, .origin = NAMED_WHY };
                return true;
        }

        return false;
}

/* The path itself may be written, and the broker names what refused it: a guard (below it, for a directory that is to
 * be moved; or of the same file under another name), a glob, a repository. Whether there is such a rule is decided
 * here. */
static bool named_rule(const struct run_files *files, struct str name, const char *path, struct path_rule *ret) {
        static const char *const reasons[] = { PLAN_REPOSITORY_WHY, PLAN_SHARED_WHY, DEEP_SETTINGS_WHY };

        if (guard_is_known(files->plan, name, ret) || name_is_known(files->named, name, ret))
                return true;

        for (size_t i = 0; i < path_rules_count(files->rules); i++) {
                const struct path_rule *rule = path_rules_at(files->rules, i);

                if (rule->grants || !str_is(name, rule->pattern))
                        continue;
                *ret = *rule;
                return true;
        }

        for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
                if (!str_is(name, reasons[i]))
                        continue;
                *ret = (struct path_rule){ .pattern = path, .origin = reasons[i] };
                return true;
        }

        return false;
}

/* A path may be refused by its own permissions too: only what policy refuses is a violation. */
static void file_refused(const struct run_files *files, struct event *ev) {
        cleanup(free_ptr) char *path = str_dup(ev->path);
        if (!path || path[0] != '/')
                return;

        bool write = !str_is(ev->method, "open");

        if (str_is(ev->method, "connect")) {
                socket_refused(files, ev, path);
                return;
        }

        const struct path_rule *rule = NULL;
        enum path_access access = path_rules_access(files->rules, path, &rule);
        bool program = write && str_is(ev->swapped, PLAN_PROGRAMS_WHY);
        if (program) {
                access = PATH_READ;
                rule = programs_rule(path);
        }

        struct path_rule refused;
        if (write && !program && access == PATH_WRITE && ev->reason == REASON_DENY_RULE &&
            named_rule(files, ev->swapped, path, &refused)) {
                access = PATH_READ;
                rule = &refused;
        }

        bool judged = ev->reason == REASON_NOT_ALLOWED; /* trust the watcher here: it knows the real paths */
        if (!judged && (access == PATH_WRITE || (access == PATH_READ && !write)))
                return;

        ev->reason = rule && !rule->grants ? REASON_DENY_RULE : REASON_NOT_ALLOWED;
        ev->swapped = STR("");
        struct snapshot_rule decided;

        if (rule)
                decided = files_shown(rule);

        files_refused(files, ev, rule ? &decided : NULL);
        const struct path_rule *refusing = rule && !rule->grants ? rule : NULL;
        run_report_file(files->report, path, write, refusing, ev->detail);

        if (files->learn && !program)
                learn_file(files->learn, path, write, refusing);
}

static const char *call_name(uint64_t nr) {
        for (const struct embedded_call *call = embedded_refused_calls; call->name; call++)
                if ((uint64_t)call->nr == nr)
                        return call->name;
        return NULL;
}

static void call_refused(const struct run_files *files, const struct event *told) {
        struct event ev = *told;
        uint64_t nr;

        if (!str_to_u64(ev.path, 65535, &nr))
                return;

        const char *name = call_name(nr);
        char number[32];
        snprintf(number, sizeof number, "number %u", (unsigned)nr);
        ev.path = str_of(name ? name : number);
        ev.reason = REASON_NOT_ALLOWED;
        ev.swapped = STR("");
        files_refused(files, &ev, NULL);
        run_report_call(files->report, name ? name : number, ev.detail);
}

/* Without namespaces: a connection past the gateway, or a server that others could reach. */
static void address_refused(const struct run_files *files, const struct event *ev) {
        files_refused(files, ev, NULL);
        run_report_event(files->report, ev, NULL);
}

static bool read_batch(const struct run_files *files, struct str batch) {
        struct event ev;
        int r;

        while ((r = event_decode(&batch, &ev)) > 0) {
                if (ev.kind == EVENT_FILE && !ev.allowed)
                        file_refused(files, &ev);
                else if (ev.kind == EVENT_SYSCALL && !ev.allowed)
                        call_refused(files, &ev);
                else if (ev.kind == EVENT_RATCHET)
                        files->on_ratchet(files->run, &ev);
                else if (ev.kind == EVENT_HELD)
                        files->on_held(files->run, &ev);
                else if (ev.kind == EVENT_NAMED && files->on_named)
                        files->on_named(files->run, &ev);
                else if (ev.kind == EVENT_PACKET && !ev.allowed)
                        address_refused(files, &ev);
        }

        return r == 0;
}

static bool read_batches(const struct run_files *files, int fd, int max) {
        static char batch[EVENT_BATCH_MAX];
        bool more = true;
        for (int i = 0; i < max && more; i++) {
                ssize_t n = recv(fd, batch, sizeof batch, MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        break;

                more = n > 0 && read_batch(files, str_n(batch, (size_t)n));
                if (n > 0 && !more)
                        log_error("the sandbox's broker sent something malformed: its reports are no longer read");
        }

        struct err e = { 0 };
        if (audit_flush(files->audit, &e) < 0)
                log_error("%s", err_text(&e));

        return more;
}

bool run_files_read(const struct run_files *files, int fd) {
        return read_batches(files, fd, BATCHES_AT_ONCE);
}

void run_files_end(const struct run_files *files, int fd) {
        if (fd >= 0)
                (void)read_batches(files, fd, BATCHES_AT_THE_END);
        record_counted(files);
}
