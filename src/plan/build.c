/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a plan: clone what will be shown (while the host's tree is whole), make everything read-only at once,
 * put up one small tmpfs that holds all private directories, then attach, parents before children (plan/mount_tree.c).
 * Then Landlock enforces the same rules for files once more, the filter closes risky system calls, and limits and
 * identity follow.
 */
#include "plan/build.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "plan/degraded.h"
#include "plan/embedded.h"
#include "plan/landlock.h"
#include "plan/mount_tree.h"
#include "policy/git/ssh_rules.h"
#include "policy/judge/ratchet.h"
#include "policy/match/host.h"
#include "policy/tools/browser.h"

#include <sched.h>
#include <sys/resource.h>

const char *const plan_devices[] = { "/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                     "/dev/urandom", "/dev/tty",  NULL };
const char *const plan_system_dirs[] = { "/sys/devices/system", "/sys/kernel/mm", NULL };
const char *const plan_private_dirs[] = { "/tmp", "/run", "/dev", "/sys", NULL };

static int add_listener(struct plan *plan, enum plan_listener_kind kind, bool v6, uint16_t port, uint16_t forward) {
        return vec_push(&plan->listeners, ((struct plan_listener){ (uint8_t)kind, v6, port, forward }));
}

static int add_standard_listeners(struct plan *plan, bool ipv6) {
        static const struct plan_listener standard[] = {
                { PLAN_LISTENER_TRANSPARENT, 0, PLAN_PORT_TRANSPARENT, 0 },
                { PLAN_LISTENER_TRANSPARENT, 1, PLAN_PORT_TRANSPARENT, 0 },
                { PLAN_LISTENER_DNS_UDP, 0, PLAN_PORT_DNS, 0 },
                { PLAN_LISTENER_DNS_UDP, 1, PLAN_PORT_DNS, 0 },
                { PLAN_LISTENER_DNS_TCP, 0, PLAN_PORT_DNS, 0 },
                { PLAN_LISTENER_DNS_TCP, 1, PLAN_PORT_DNS, 0 },
                { PLAN_LISTENER_HTTP, 0, PLAN_PORT_HTTP, 0 },
                { PLAN_LISTENER_SOCKS5, 0, PLAN_PORT_SOCKS5, 0 },
                { PLAN_LISTENER_PACKETS, 0, PLAN_PACKET_GROUP, 0 },
        };
        for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
                if ((ipv6 || !standard[i].v6) && vec_push(&plan->listeners, standard[i]) < 0)
                        return -ENOMEM;

        return 0;
}

/* Those that a policy asks for. */
static int add_listeners(struct plan *plan, const struct policy *policy) {
        if (policy->credentials.n > 0 && add_listener(plan, PLAN_LISTENER_API, false, PLAN_PORT_API, 0) < 0)
                return -ENOMEM;

        for (size_t i = 0; i < policy->network.host_ports.n; i++) {
                const struct port_map *map = &policy->network.host_ports.p[i];
                if (add_listener(plan, PLAN_LISTENER_HOST_PORT, false, map->inside, map->outside) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int add_socket(struct plan *plan, enum plan_listener_kind kind) {
        if (vec_push(&plan->sockets, plan_listener_path(kind)) < 0)
                return -ENOMEM;
        return add_listener(plan, kind, false, 1, 0); /* a socket with a path has no port */
}

/* What stands for the host's ssh, gpg and agent: in every mode, so that a refusal says why. */
static int add_sockets(struct plan *plan, const struct policy *policy) {
        int r = 0;

        if (policy_has_shim(policy))
                r = add_socket(plan, PLAN_LISTENER_SHIM);
        if (r == 0 && policy_has_agent(policy))
                r = add_socket(plan, PLAN_LISTENER_AGENT);
        return r;
}

static int add_published(struct plan *plan, const struct plan_request *request) {
        for (size_t i = 0; i < request->policy->network.publish.n; i++) {
                const struct port_map *m = &request->policy->network.publish.p[i];
                char *address = plan_copy(plan, str_of(text_or(m->addr, "127.0.0.1")));
                if (!address || vec_push(&plan->publish, ((struct plan_publish){ m->outside, m->inside, address })) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Every sandbox has its own network namespace, which holds a loopback and nothing else. Without network nothing is
 * captured, but attempts are still recorded. */
int plan_fill_network(struct plan *plan, bool captured, bool ipv6) {
        plan->routes_v4 = embedded_routes_v4;
        plan->routes_v6 = ipv6 ? embedded_routes_v6 : (struct str){ 0 };
        plan->nft = captured ? embedded_nft : embedded_nft_closed;

        if (captured)
                return add_standard_listeners(plan, ipv6);
        return add_listener(plan, PLAN_LISTENER_PACKETS, false, PLAN_PACKET_GROUP, 0);
}

/* The supervisor's own come last, the bridge behind all others. */
static int add_bridge(struct plan *plan, const struct plan_request *request) {
        int r = 0;

        if (!request->host->shim)
                return 0;
        if (policy_has_browser(request->policy))
                r = add_listener(plan, PLAN_LISTENER_CALLBACK, false, 1, 0);
        if (r == 0 && policy_has_browser(request->policy) && request->host->ipv6)
                r = add_listener(plan, PLAN_LISTENER_CALLBACK, true, 1, 0);
        if (r < 0)
                return r;

        return add_listener(plan, PLAN_LISTENER_BRIDGE, false, 1, 0);
}

static int plan_net(struct plan *plan, const struct plan_request *request) {
        bool captured = plan_network(request->policy) != NETWORK_NONE;
        if (add_published(plan, request) < 0 || plan_fill_network(plan, captured, request->host->ipv6) < 0)
                return -ENOMEM;
        if (captured && add_listeners(plan, request->policy) < 0)
                return -ENOMEM;
        if (add_sockets(plan, request->policy) < 0)
                return -ENOMEM;

        return add_bridge(plan, request);
}

int plan_capture(struct plan *plan, const struct policy *policy, bool ipv6) {
        bool captured = plan_network(policy) != NETWORK_NONE;
        int r = plan_fill_network(plan, captured, ipv6);

        if (r < 0 || !captured)
                return r;

        return add_listeners(plan, policy);
}

static int add_limit(struct plan *plan, uint32_t resource, uint64_t value) {
        return vec_push(&plan->limits, ((struct plan_limit){ resource, value }));
}

/* A group that is made directly costs next to nothing; a scope costs a round trip to systemd. So a scope is requested
 * only if somebody set one of these limits, not for the defaults. */
bool plan_asks_for_scope(const struct policy *policy) {
        const struct policy_limits *limits = &policy->process.limits;
        return (policy->origins[ROW_MEMORY] && limits->memory) ||
               (policy->origins[ROW_PROCESSES] && limits->processes) ||
               (policy->origins[ROW_CPU_PERCENT] && limits->cpu_percent);
}

/* The default. A group counts used memory, not reserved memory: half of the machine leaves the other half to everybody
 * else, and a build that needs more than the smallest default is no attack. */
static uint64_t group_memory(const struct plan_request *request) {
        uint64_t half = request->host->memory / 2;

        if (request->policy->process.limits.memory || request->policy->origins[ROW_MEMORY])
                return request->policy->process.limits.memory;
        if (half > POLICY_GROUP_MEMORY)
                return half;

        return POLICY_GROUP_MEMORY;
}

static uint64_t group_processes(const struct plan_request *request) {
        if (request->policy->process.limits.processes || request->policy->origins[ROW_PROCESSES])
                return request->policy->process.limits.processes;
        return POLICY_GROUP_PROCESSES;
}

/* Beside the limits of each process, which hold in any case. */
static int plan_group(struct plan *plan, const struct plan_request *request) {
        const struct policy_limits *limits = &request->policy->process.limits;
        bool asks = !request->host->cgroup && request->host->scope && plan_asks_for_scope(request->policy);
        if (asks)
                plan->flags |= PLAN_SCOPE;

        if (request->host->cgroup || asks) {
                plan->group.memory = group_memory(request);
                plan->group.processes = group_processes(request);
                plan->group.cpu_percent = limits->cpu_percent;
                return 0;
        }

        if (!limits->cpu_percent)
                return 0;

        const char *note =
            plan_copy(plan, STR("the limit of the share of processors does not hold: it needs cgroup v2, "
                                "delegated to this user, or a systemd user manager; `bailey doctor` says "
                                "more"));
        if (!note)
                return -ENOMEM;

        return vec_push(&plan->notes, note);
}

static int plan_limits(struct plan *plan, const struct policy_limits *limits) {
        /* Data, not address space. It still counts reserved memory, so it is set only if somebody asked for it. */
        if ((limits->processes && add_limit(plan, RLIMIT_NPROC, limits->processes) < 0) ||
            (limits->memory && add_limit(plan, RLIMIT_DATA, limits->memory) < 0) ||
            (limits->files && add_limit(plan, RLIMIT_NOFILE, limits->files) < 0) ||
            (limits->cpu_seconds && add_limit(plan, RLIMIT_CPU, limits->cpu_seconds) < 0))
                return -ENOMEM;

        /* A core dump would be handled outside. Less than a page is no file, and one byte, other than none, also keeps
         * the kernel from starting the program that core_pattern may name. */
        return add_limit(plan, RLIMIT_CORE, 1);
}

/* Globs also cover files that do not exist yet, so they are judged at access time. A policy without globs and without a
 * trace pays nothing: the few built-in ones have a fixed place and are masked by mounts where they match. */
bool plan_needs_broker(const struct policy *policy, const struct path_rules *rules) {
        if (policy->process.trace_denials || ratchet_has_reads(policy) || policy->filesystem.ask.n)
                return true;
        for (size_t i = 0; i < path_rules_count(rules); i++)
                if (path_rules_at(rules, i)->is_glob && !path_rules_at(rules, i)->built_in)
                        return true;
        return false;
}

int plan_add_path_rule(struct plan *plan, const struct path_rule *rule) {
        struct plan_path_rule copy = {
                .pattern = plan_copy(plan, str_of(rule->pattern)),
                .origin = plan_copy(plan, str_of(rule->origin)),
                .decides_read = rule->decides_read,
                .grants = rule->grants,
                .built_in = rule->built_in,
                .protected = rule->protected,
                .own = rule->own,
        };
        if (copy.pattern && copy.origin)
                return vec_push(&plan->path_rules, copy);

        return -ENOMEM;
}

/* Refusals that a mount may fail to enforce: nothing was there, or the file may be replaced and lose its mask. A
 * broker, if there is one, enforces them as well. Not in the sandbox's own directories, which hold no secrets. */
static int add_late_rules(struct plan *plan, const struct plan_request *request) {
        for (size_t i = 0; i < request->host->paths.n; i++) {
                const struct plan_path *path = &request->host->paths.p[i];
                if (path->access != PATH_DENIED)
                        continue;

                const struct path_rule *around = NULL;
                const char *slash = strrchr(path->path, '/');
                char *dir = plan_copy(plan, str_n(path->path, slash > path->path ? (size_t)(slash - path->path) : 1));
                if (!dir)
                        return -ENOMEM;

                (void)path_rules_access(request->rules, dir, &around);
                bool inside = false;
                for (const char *const *d = plan_private_dirs; *d; d++)
                        inside |= path_is_within(path->path, *d);

                struct plan_path_rule rule = { .pattern = plan_copy(plan, str_of(path->path)),
                                               .origin = plan_copy(plan, str_of(path->origin)),
                                               .decides_read = 1,
                                               .late = 1 };
                if (inside && !around)
                        continue;
                if (!rule.pattern || !rule.origin || vec_push(&plan->path_rules, rule) < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int plan_broker(struct plan *plan, const struct plan_request *request, struct err *err) {
        if (!request->observe && !plan_needs_broker(request->policy, request->rules))
                return 0;

        if (plan->flags & PLAN_DEGRADED)
                return err_set(err, EOPNOTSUPP,
                               "globs in denies, --trace-denials, ratchets and --ask-path need namespaces, which this "
                               "machine does not "
                               "give; name the paths instead, or see `bailey doctor`");

        plan->flags |= PLAN_BROKER;
        if (request->policy->process.trace_denials)
                plan->flags |= PLAN_TRACE;
        if (request->observe)
                plan->flags |= PLAN_TRACE | PLAN_OBSERVE;

        plan->reads_open = path_rules_reads_open(request->rules);

        for (size_t i = 0; i < path_rules_count(request->rules); i++)
                if (plan_add_path_rule(plan, path_rules_at(request->rules, i)) < 0)
                        return -ENOMEM;

        for (size_t i = 0; i < request->host->marks.n; i++) {
                const struct plan_mark mark = { .pattern = plan_copy(plan, str_of(request->host->marks.p[i].pattern)),
                                                .ratchet = request->host->marks.p[i].ratchet };
                if (!mark.pattern || vec_push(&plan->marks, mark) < 0)
                        return -ENOMEM;
        }

        for (size_t i = 0; i < request->host->asks.n; i++) {
                const char *copy = plan_copy(plan, str_of(request->host->asks.p[i]));
                if (!copy || vec_push(&plan->asks, copy) < 0)
                        return -ENOMEM;
        }

        return add_late_rules(plan, request);
}

static int add_words(struct plan *plan, const struct plan_request *request) {
        for (const char *const *w = request->argv; *w; w++) {
                char *copy = plan_copy(plan, str_of(*w));
                if (!copy || vec_push(&plan->argv, copy) < 0)
                        return -ENOMEM;
        }

        /* $PWD is a program's short way to its directory. Of another one than the caller's it must not say otherwise.
         */
        const bool moved = request->host->cwd && strcmp(plan->cwd, request->host->cwd) != 0;

        for (const char *const *w = request->env; w && *w; w++) {
                const bool stale = moved && str_starts(str_of(*w), STR("PWD="));
                char *copy = stale ? plan_format(plan, "PWD=%s", plan->cwd) : plan_copy(plan, str_of(*w));
                if (!copy || vec_push(&plan->env, copy) < 0)
                        return -ENOMEM;
        }

        return 0;
}

/*
 * Sandboxes inside the sandbox. Masks and read-only views hold: a nested namespace has them locked. SECURITY.md lists
 * the losses: Landlock, which refuses every mount, protects no files; connect() is not judged. The broker knows one
 * tree of files only, and root's files are the system's own.
 */
static int plan_nesting(struct plan *plan, const struct plan_request *request, struct err *err) {
        if (request->host->uid == 0)
                return err_set(
                    err, EOPNOTSUPP,
                    "--nesting is for ordinary users: as root, a program with namespaces of its own could change "
                    "settings of the system");

        if (request->observe || plan_needs_broker(request->policy, request->rules))
                return err_set(err, EOPNOTSUPP,
                               "--nesting does not go with globs in denies, ratchets that read files, --ask-path, "
                               "--trace-denials and `bailey "
                               "learn`: they judge "
                               "paths, which mean something else in a namespace below");

        plan->seccomp = embedded_seccomp_nesting;
        return 0;
}

int plan_build(const struct plan_request *request, struct plan **ret, struct err *err) {
        cleanup(plan_freep) struct plan *p = plan_new();
        if (!p)
                return err_memory(err);

        p->id = plan_copy(p, str_of(text_or(request->id, "unknown")));
        if (!p->id)
                return err_memory(err);

        p->uid = request->host->uid;
        p->gid = request->host->gid;
        p->flags = request->host->has_terminal ? PLAN_HAS_TERMINAL : 0;

        int r = 0;

        if (request->host->namespaces) {
                p->namespaces = PLAN_NAMESPACES;
                p->hostname = plan_copy(p, STR(HOST_SANDBOX));
                p->flags |= request->host->landlock_abi < LANDLOCK_ABI_UNIX && !request->policy->process.nesting
                                ? PLAN_SOCKETS
                                : 0;
                p->seccomp = p->flags & PLAN_SOCKETS ? embedded_seccomp_sockets : embedded_seccomp;

                if (request->policy->process.nesting)
                        r = plan_nesting(p, request, err);
                if (r == 0)
                        r = plan_net(p, request);
        } else {
                p->flags |= PLAN_DEGRADED;
                p->seccomp = embedded_seccomp_degraded;
        }

        if (r == 0)
                r = p->flags & PLAN_DEGRADED ? plan_degraded(p, request, err) : plan_tree(p, request, err);
        if (r == 0)
                r = plan_broker(p, request, err);
        if (r == 0)
                r = plan_guards(p, request->host, request->policy->workspace);
        if (r == 0 && !request->policy->process.nesting) /* the broker, see plan_nesting() */
                r = plan_changes(p, request);
        if (r == 0)
                r = plan_limits(p, &request->policy->process.limits);
        if (r == 0)
                r = plan_group(p, request);
        if (r == 0)
                r = add_words(p, request);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return r;

        *ret = take_ptr(&p);
        return 0;
}
