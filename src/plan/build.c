/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a plan: clone what will be shown (while the host's tree is whole), make everything read-only at once,
 * put up one small tmpfs that holds all private directories, then attach, parents before children (plan/tree.c). Then
 * Landlock says the same again for files, the filter closes the kernel's back rooms, and limits and identity follow.
 */
#include "plan/build.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "plan/degraded.h"
#include "plan/embedded.h"
#include "plan/landlock.h"
#include "plan/tree.h"
#include "policy/browser.h"
#include "policy/host.h"
#include "policy/ratchet.h"
#include "policy/ssh.h"

#include <sched.h>
#include <sys/resource.h>

const char *const plan_devices[] = { "/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                     "/dev/urandom", "/dev/tty",  NULL };
const char *const plan_system_dirs[] = { "/sys/devices/system", "/sys/kernel/mm", NULL };
const char *const plan_private_dirs[] = { "/tmp", "/run", "/dev", "/sys", NULL };

enum network_mode plan_network(const struct policy *p) {
        switch (p->mode) {
        case MODE_WORKSPACE_WRITE_WHITELIST:
                return NETWORK_FILTERED;
        case MODE_FULL_NETWORK:
                return NETWORK_OPEN;
        default:
                return NETWORK_NONE;
        }
}

static int add_listener(struct plan *p, enum plan_listener_kind kind, bool v6, uint16_t port, uint16_t forward) {
        return vec_push(&p->listeners, ((struct plan_listener){ (uint8_t)kind, v6, port, forward }));
}

static int add_standard_listeners(struct plan *p, bool ipv6) {
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
                if ((ipv6 || !standard[i].v6) && vec_push(&p->listeners, standard[i]) < 0)
                        return -ENOMEM;
        return 0;
}

/* Those that a policy asks for. */
static int add_listeners(struct plan *p, const struct policy *policy) {
        if (policy->credentials.n > 0 && add_listener(p, PLAN_LISTENER_API, false, PLAN_PORT_API, 0) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < policy->network.host_ports.n; i++) {
                const struct port_map *m = &policy->network.host_ports.p[i];
                if (add_listener(p, PLAN_LISTENER_HOST_PORT, false, m->inside, m->outside) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_socket(struct plan *p, enum plan_listener_kind kind) {
        if (vec_push(&p->sockets, plan_listener_path(kind)) < 0)
                return -ENOMEM;
        return add_listener(p, kind, false, 1, 0); /* a socket with a path has no port */
}

/* What stands for the host's ssh, gpg and agent: in every mode, so that a refusal says why. */
static int add_sockets(struct plan *p, const struct policy *policy) {
        int r = 0;

        if (policy_has_shim(policy))
                r = add_socket(p, PLAN_LISTENER_SHIM);
        if (r == 0 && policy_has_agent(policy))
                r = add_socket(p, PLAN_LISTENER_AGENT);
        return r;
}

static int add_published(struct plan *p, const struct plan_request *q) {
        for (size_t i = 0; i < q->policy->network.publish.n; i++) {
                const struct port_map *m = &q->policy->network.publish.p[i];
                char *address = plan_copy(p, str_of(m->addr ? m->addr : "127.0.0.1"));
                if (!address || vec_push(&p->publish, ((struct plan_publish){ m->outside, m->inside, address })) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Every sandbox has its own network namespace, which holds a loopback and nothing else. Without network nothing is
 * captured, but what is tried is on record all the same. */
int plan_fill_network(struct plan *p, bool captured, bool ipv6) {
        p->routes_v4 = embedded_routes_v4;
        p->routes_v6 = ipv6 ? embedded_routes_v6 : (struct str){ 0 };
        p->nft = captured ? embedded_nft : embedded_nft_closed;

        if (captured)
                return add_standard_listeners(p, ipv6);
        return add_listener(p, PLAN_LISTENER_PACKETS, false, PLAN_PACKET_GROUP, 0);
}

/* The supervisor's own come last, the bridge behind all others. */
static int add_bridge(struct plan *p, const struct plan_request *q) {
        int r = 0;

        if (!q->host->shim)
                return 0;
        if (policy_has_browser(q->policy))
                r = add_listener(p, PLAN_LISTENER_CALLBACK, false, 1, 0);
        if (r == 0 && policy_has_browser(q->policy) && q->host->ipv6)
                r = add_listener(p, PLAN_LISTENER_CALLBACK, true, 1, 0);
        return r < 0 ? r : add_listener(p, PLAN_LISTENER_BRIDGE, false, 1, 0);
}

static int plan_net(struct plan *p, const struct plan_request *q) {
        bool captured = plan_network(q->policy) != NETWORK_NONE;
        if (add_published(p, q) < 0 || plan_fill_network(p, captured, q->host->ipv6) < 0)
                return -ENOMEM;
        if (captured && add_listeners(p, q->policy) < 0)
                return -ENOMEM;
        if (add_sockets(p, q->policy) < 0)
                return -ENOMEM;
        return add_bridge(p, q);
}

int plan_capture(struct plan *p, const struct policy *policy, bool ipv6) {
        bool captured = plan_network(policy) != NETWORK_NONE;
        int r = plan_fill_network(p, captured, ipv6);

        return r < 0 || !captured ? r : add_listeners(p, policy);
}

static int add_limit(struct plan *p, uint32_t resource, uint64_t value) {
        return vec_push(&p->limits, ((struct plan_limit){ resource, value }));
}

/* A group that is made directly costs next to nothing; a scope costs a talk with its manager. So it is asked for only
 * where somebody set one of these limits, and not for those that are there by default. */
bool plan_asks_for_scope(const struct policy *policy) {
        const struct policy_limits *l = &policy->process.limits;
        return (policy->origins[ROW_MEMORY] && l->memory) || (policy->origins[ROW_PROCESSES] && l->processes) ||
               (policy->origins[ROW_CPU_PERCENT] && l->cpu_percent);
}

/* Nobody said anything. A group counts what is used, not what is reserved: half of the machine leaves the other half to
 * everybody else, and a build that needs more than the smallest default is no attack. */
static uint64_t group_memory(const struct plan_request *q) {
        uint64_t half = q->host->memory / 2;

        if (q->policy->process.limits.memory || q->policy->origins[ROW_MEMORY])
                return q->policy->process.limits.memory;
        return half > POLICY_GROUP_MEMORY ? half : POLICY_GROUP_MEMORY;
}

static uint64_t group_processes(const struct plan_request *q) {
        if (q->policy->process.limits.processes || q->policy->origins[ROW_PROCESSES])
                return q->policy->process.limits.processes;
        return POLICY_GROUP_PROCESSES;
}

/* Beside the limits of each process, which hold in any case. */
static int plan_group(struct plan *p, const struct plan_request *q) {
        const struct policy_limits *l = &q->policy->process.limits;
        bool asks = !q->host->cgroup && q->host->scope && plan_asks_for_scope(q->policy);
        if (asks)
                p->flags |= PLAN_SCOPE;
        if (q->host->cgroup || asks) {
                p->group.memory = group_memory(q);
                p->group.processes = group_processes(q);
                p->group.cpu_percent = l->cpu_percent;
                return 0;
        }
        if (!l->cpu_percent)
                return 0;
        const char *note = plan_copy(p, STR("the limit of the share of processors does not hold: it needs cgroup v2, "
                                            "delegated to this user, or a systemd user manager; `bailey doctor` says "
                                            "more"));
        return note ? vec_push(&p->notes, note) : -ENOMEM;
}

static int plan_limits(struct plan *p, const struct policy_limits *l) {
        /* Data, not address space; still it counts what a program reserves, so that it is there only if somebody asked
         * for it. */
        if ((l->processes && add_limit(p, RLIMIT_NPROC, l->processes) < 0) ||
            (l->memory && add_limit(p, RLIMIT_DATA, l->memory) < 0) ||
            (l->files && add_limit(p, RLIMIT_NOFILE, l->files) < 0) ||
            (l->cpu_seconds && add_limit(p, RLIMIT_CPU, l->cpu_seconds) < 0))
                return -ENOMEM;
        /* A core dump would be handled outside. Less than a page is no file, and one byte, other than none, also keeps
         * the kernel from starting the program that core_pattern may name. */
        return add_limit(p, RLIMIT_CORE, 1);
}

/* Globs hold for files that do not exist yet, so they are judged when a file is reached. Whoever writes none, and does
 * not ask for a trace, pays nothing: the few that are built in have a fixed place and are mounted over where they
 * match. */
bool plan_needs_broker(const struct policy *policy, const struct path_rules *rules) {
        if (policy->process.trace_denials || ratchet_has_reads(policy))
                return true;
        for (size_t i = 0; i < path_rules_count(rules); i++)
                if (path_rules_at(rules, i)->is_glob && !path_rules_at(rules, i)->built_in)
                        return true;
        return false;
}

int plan_add_path_rule(struct plan *p, const struct path_rule *rule) {
        struct plan_path_rule copy = {
                .pattern = plan_copy(p, str_of(rule->pattern)),
                .origin = plan_copy(p, str_of(rule->origin)),
                .decides_read = rule->decides_read,
                .grants = rule->grants,
                .built_in = rule->built_in,
                .protected = rule->protected,
                .own = rule->own,
        };
        return copy.pattern && copy.origin ? vec_push(&p->path_rules, copy) : -ENOMEM;
}

/* Refusals that a mount may not hold: because nothing was there, or because what is there may be replaced, and its mask
 * goes with it. Where there is a broker, it holds them as well. Not in the sandbox's own directories, whose content is
 * nobody's secret. */
static int add_late_rules(struct plan *p, const struct plan_request *q) {
        for (size_t i = 0; i < q->host->paths.n; i++) {
                const struct plan_path *path = &q->host->paths.p[i];
                if (path->access != PATH_DENIED)
                        continue;
                const struct path_rule *around = NULL;
                const char *slash = strrchr(path->path, '/');
                char *dir = plan_copy(p, str_n(path->path, slash > path->path ? (size_t)(slash - path->path) : 1));
                if (!dir)
                        return -ENOMEM;
                (void)path_rules_access(q->rules, dir, &around);
                bool inside = false;
                for (const char *const *d = plan_private_dirs; *d; d++)
                        inside |= path_is_within(path->path, *d);
                struct plan_path_rule rule = { .pattern = plan_copy(p, str_of(path->path)),
                                               .origin = plan_copy(p, str_of(path->origin)),
                                               .decides_read = 1,
                                               .late = 1 };
                if (inside && !around)
                        continue;
                if (!rule.pattern || !rule.origin || vec_push(&p->path_rules, rule) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int plan_broker(struct plan *p, const struct plan_request *q, struct err *e) {
        if (!q->observe && !plan_needs_broker(q->policy, q->rules))
                return 0;
        if (p->flags & PLAN_DEGRADED)
                return err_set(
                    e, EOPNOTSUPP,
                    "globs in denies, --trace-denials and ratchets need namespaces, which this machine does not "
                    "give; name the paths instead, or see `bailey doctor`");
        p->flags |= PLAN_BROKER | (q->policy->process.trace_denials || q->observe ? PLAN_TRACE : 0) |
                    (q->observe ? PLAN_OBSERVE : 0);
        p->reads_open = path_rules_reads_open(q->rules);
        for (size_t i = 0; i < path_rules_count(q->rules); i++)
                if (plan_add_path_rule(p, path_rules_at(q->rules, i)) < 0)
                        return -ENOMEM;
        for (size_t i = 0; i < q->host->marks.n; i++) {
                const struct plan_mark mark = { .pattern = plan_copy(p, str_of(q->host->marks.p[i].pattern)),
                                                .ratchet = q->host->marks.p[i].ratchet };
                if (!mark.pattern || vec_push(&p->marks, mark) < 0)
                        return -ENOMEM;
        }
        return add_late_rules(p, q);
}

static int add_words(struct plan *p, const struct plan_request *q) {
        for (const char *const *w = q->argv; *w; w++) {
                char *copy = plan_copy(p, str_of(*w));
                if (!copy || vec_push(&p->argv, copy) < 0)
                        return -ENOMEM;
        }
        /* $PWD is a program's short way to its directory. Of another one than the caller's it must not say otherwise.
         */
        const bool moved = q->host->cwd && strcmp(p->cwd, q->host->cwd) != 0;
        for (const char *const *w = q->env; w && *w; w++) {
                const bool stale = moved && str_starts(str_of(*w), STR("PWD="));
                char *copy = stale ? plan_format(p, "PWD=%s", p->cwd) : plan_copy(p, str_of(*w));
                if (!copy || vec_push(&p->env, copy) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/*
 * Sandboxes inside the sandbox. Masks and read-only views hold: a namespace below has them locked. What is lost is said
 * in SECURITY.md: Landlock, which refuses every mount, holds no files; connect() is not judged. The broker knows one
 * tree of files only, and root's files are the system's own.
 */
static int plan_nesting(struct plan *p, const struct plan_request *q, struct err *e) {
        if (q->host->uid == 0)
                return err_set(
                    e, EOPNOTSUPP,
                    "--nesting is for ordinary users: as root, a program with namespaces of its own could change "
                    "settings of the system");
        if (q->observe || plan_needs_broker(q->policy, q->rules))
                return err_set(e, EOPNOTSUPP,
                               "--nesting does not go with globs in denies, ratchets, --trace-denials and `bailey "
                               "learn`: they judge "
                               "paths, which mean something else in a namespace below");
        p->seccomp = embedded_seccomp_nesting;
        return 0;
}

int plan_build(const struct plan_request *q, struct plan **ret, struct err *e) {
        cleanup(plan_freep) struct plan *p = plan_new();
        if (!p)
                return err_memory(e);
        p->id = plan_copy(p, str_of(q->id ? q->id : "unknown"));
        if (!p->id)
                return err_memory(e);
        p->uid = q->host->uid;
        p->gid = q->host->gid;
        p->flags = q->host->has_terminal ? PLAN_HAS_TERMINAL : 0;
        int r = 0;
        if (q->host->namespaces) {
                p->namespaces = PLAN_NAMESPACES;
                p->hostname = plan_copy(p, STR(HOST_SANDBOX));
                p->flags |= q->host->landlock_abi < LANDLOCK_ABI_UNIX && !q->policy->process.nesting ? PLAN_SOCKETS : 0;
                p->seccomp = p->flags & PLAN_SOCKETS ? embedded_seccomp_sockets : embedded_seccomp;
                if (q->policy->process.nesting)
                        r = plan_nesting(p, q, e);
                if (r == 0)
                        r = plan_net(p, q);
        } else {
                p->flags |= PLAN_DEGRADED;
                p->seccomp = embedded_seccomp_degraded;
        }
        if (r == 0)
                r = p->flags & PLAN_DEGRADED ? plan_degraded(p, q, e) : plan_tree(p, q, e);
        if (r == 0)
                r = plan_broker(p, q, e);
        if (r == 0)
                r = plan_guards(p, q->host, q->policy->workspace);
        if (r == 0 && !q->policy->process.nesting) /* the broker, see plan_nesting() */
                r = plan_changes(p, q);
        if (r == 0)
                r = plan_limits(p, &q->policy->process.limits);
        if (r == 0)
                r = plan_group(p, q);
        if (r == 0)
                r = add_words(p, q);
        if (r == -ENOMEM)
                return err_memory(e);
        if (r < 0)
                return r;
        *ret = take_ptr(&p);
        return 0;
}
