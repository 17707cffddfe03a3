/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/doctor.h"

#include "guest/account/firewall_compare.h"
#include "sandbox/linux/probe/probe.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
static_assert((int)DOCTOR_ROWS_MAX > (int)PROBE_ITEMS, "a row for each item, and one for the firewall of guests");

/* since: what to look for when the kernel does not have it at all. */
static const struct {
        const char *title, *gives, *lost, *since;
        bool needed;
} items[] = {
        [PROBE_USER_NS] = { "user namespaces", "an ordinary user may build a sandbox",
                            "no private mounts, processes or network; only Landlock and seccomp can confine",
                            "a kernel with CONFIG_USER_NS", true },
        [PROBE_UID_MAP] = { "user id map", "files in the sandbox keep their owner",
                            "the sandbox's namespaces cannot be set up", "a kernel with CONFIG_USER_NS", true },
        [PROBE_MOUNT_NS] = { "mount namespaces", "denied files are hidden, /tmp is private",
                             "denied files cannot be hidden, only refused", "a kernel with namespaces", true },
        [PROBE_PID_NS] = { "process namespaces", "others are invisible, all end together",
                           "processes outside stay visible, and stray ones may outlive the sandbox",
                           "a kernel with CONFIG_PID_NS", true },
        [PROBE_NET_NS] = { "network namespaces", "no packet leaves except through the gateway",
                           "programs that ignore proxy variables are not captured", "a kernel with CONFIG_NET_NS",
                           true },
        [PROBE_IPC_NS] = { "IPC namespaces", "no shared memory or queues with the host",
                           "System V and POSIX queues are shared with the host", "a kernel with CONFIG_IPC_NS", true },
        [PROBE_UTS_NS] = { "UTS namespaces", "a host name of its own", "the host's name is shown inside",
                           "a kernel with CONFIG_UTS_NS", true },
        [PROBE_CGROUP_NS] = { "cgroup namespaces", "the host's control groups are not shown",
                              "the names of the host's control groups are shown inside",
                              "Linux 4.6 with CONFIG_CGROUPS", false },
        [PROBE_PROC] = { "a /proc of its own", "/proc shows the sandbox's processes only",
                         "the sandbox cannot have a /proc, and most programs need one", "a kernel with CONFIG_PID_NS",
                         true },
        [PROBE_REDIRECT] = { "nft redirect", "any TCP connection is captured by name",
                             "only programs that honour proxy variables have a network",
                             "Linux 5.2 with nf_tables, nft_redir and nft_chain_nat", true },
        [PROBE_LANDLOCK] = { "Landlock", "a second lock on files",
                             "files are guarded by mounts alone; without user namespaces, not at all",
                             "Linux 5.13 with CONFIG_SECURITY_LANDLOCK", true },
        [PROBE_SECCOMP] = { "seccomp filters", "the kernel's attack surface is closed",
                            "every system call is open to the sandbox", "a kernel with CONFIG_SECCOMP_FILTER", true },
        [PROBE_NOTIFY] = { "seccomp notification", "** patterns in denies; --trace-denials",
                           "policies with ** patterns in denies are refused; --trace-denials is off", "Linux 5.9",
                           false },
        [PROBE_OVERLAY] = { "overlayfs", "run --overlay keeps changes apart", "run --overlay is refused",
                            "Linux 5.11 with CONFIG_OVERLAY_FS", false },
        [PROBE_CGROUP] = { "cgroup v2", "limits hold for the sandbox as a whole",
                           "limits hold for each process (rlimits), not for the sandbox as a whole",
                           "a kernel with cgroup v2", false },
        [PROBE_MOUNT_API] = { "mount by descriptor", "mounts are set up quickly and without races",
                              "the older mount call is used, where mounts work", "Linux 5.12", false },
        [PROBE_OPENAT2] = { "openat2", "paths are opened without following links",
                            "paths are opened one component at a time", "Linux 5.6", false },
        [PROBE_CLONE3] = { "clone3", "the sandbox starts in one step", "clone is used", "Linux 5.3", false },
        [PROBE_PIDFD] = { "process descriptors", "a signal never hits a recycled pid",
                          "the supervisor watches by pid; the sandbox still dies with it", "Linux 5.3", false },
        [PROBE_MEMFD_SECRET] = { "secret memory", "keys are unmapped even in the kernel",
                                 "secrets are in locked, non-dumpable memory", "Linux 5.14 with CONFIG_SECRETMEM",
                                 false },
        [PROBE_YAMA] = { "ptrace restriction", "your programs outside cannot trace each other",
                         "programs outside may trace each other; the sandbox still sees none of them",
                         "a kernel with CONFIG_SECURITY_YAMA", false },
};
static_assert(COUNT(items) == PROBE_ITEMS, "one row per item");

#define KEEP " (to keep it: a file in /etc/sysctl.d)"
#define CONTAINER                                                                                                      \
        "in docker or podman: --security-opt seccomp=unconfined --security-opt apparmor=unconfined "                   \
        "--security-opt systempaths=unconfined; or run Bailey outside and use it as the container's gateway"

static const struct {
        const char *why, *fix;
} causes[] = {
        [CAUSE_NOT_BUILT] = { "this kernel does not have it", NULL }, /* the fix is the item's `since` */
        [CAUSE_NO_MODULE] = { "the kernel's module for it is missing or not loaded", NULL },
        [CAUSE_USERNS_SYSCTL] = { "kernel.unprivileged_userns_clone is 0",
                                  "sudo sysctl -w kernel.unprivileged_userns_clone=1" KEEP },
        [CAUSE_USERNS_LIMIT] = { "user.max_user_namespaces is reached, or namespaces are nested too deep",
                                 "sudo sysctl -w user.max_user_namespaces=15000" KEEP },
        [CAUSE_NS_LIMIT] = { "one of user.max_*_namespaces is reached",
                             "raise the one that \"sysctl -a | grep max_.*_namespaces\" shows as too small" },
        [CAUSE_APPARMOR] = { "AppArmor takes all rights away in user namespaces of ordinary users",
                             "install the profile share/bailey/apparmor/bailey (see its first lines), or sudo sysctl "
                             "-w "
                             "kernel.apparmor_restrict_unprivileged_userns=0" KEEP },
        [CAUSE_CHROOT] = { "this is a chroot, and the kernel makes no user namespaces there",
                           "run Bailey outside the chroot" },
        [CAUSE_SECCOMP] = { "a seccomp filter over this process refuses it, usually a container's", CONTAINER },
        [CAUSE_NEEDS_USERNS] = { "it needs a user namespace", "get user namespaces to work first" },
        [CAUSE_LSM_ORDER] = { "it is built in but was not switched on at boot",
                              "add landlock to the lsm= list on the kernel's command line and reboot" },
        [CAUSE_PROC_COVERED] = { "parts of /proc are covered, as container engines do", CONTAINER },
        [CAUSE_CGROUP_V1] = { "the controllers are bound to the older cgroup v1",
                              "boot with systemd.unified_cgroup_hierarchy=1" },
        [CAUSE_NOT_DELEGATED] = { "the control group that this session is in does not belong to you, and there is no "
                                  "systemd user manager to ask for another",
                                  "log in so that \"systemctl --user\" works, with XDG_RUNTIME_DIR set" },
        [CAUSE_NO_SCOPE] = { "the control group that this session is in does not belong to you, and systemd's user "
                             "manager did not give another",
                             "see whether \"systemd-run --user --scope -p MemoryMax=1G true\" works and what it says" },
        [CAUSE_SECRETMEM] = { "it was switched off at boot", "boot with secretmem.enable=1" },
        [CAUSE_OFF] = { "its setting is off", "sudo sysctl -w kernel.yama.ptrace_scope=1" KEEP },
        [CAUSE_PERMISSION] = { "it is not permitted here, by a security module or a container",
                               "the kernel's log (dmesg) or the container's settings say by what" },
        [CAUSE_UNEXPECTED] = { "it failed in a way that Bailey does not know",
                               "please report this with the output of \"bailey doctor --json\"" },
};
static_assert(COUNT(causes) == PROBE_CAUSES, "one row per cause");

static const struct {
        const char *name, *text;
} modes[] = {
        [DOCTOR_FULL] = { "full", "bailey run will use the full sandbox" },
        [DOCTOR_DEGRADED] = { "degraded", "bailey run will refuse, unless --allow-degraded permits less" },
        [DOCTOR_NONE] = { "none", "bailey run will refuse: too little is left to confine a program" },
};
static_assert(COUNT(modes) == DOCTOR_MODES, "one row per mode");

const char *doctor_mode_name(enum doctor_mode mode) {
        return mode < DOCTOR_MODES ? modes[mode].name : "?";
}
const char *doctor_mode_text(enum doctor_mode mode) {
        return mode < DOCTOR_MODES ? modes[mode].text : "?";
}

static void fill_row(struct doctor_row *row, enum probe_item item, const struct probe_result *result) {
        *row = (struct doctor_row){
                .name = probe_item_name(item),
                .title = items[item].title,
                .state = probe_state_name(result->state),
                .cause = probe_cause_name(result->cause),
                .works = result->state == PROBE_WORKS,
                .needed = items[item].needed,
                .follows = result->cause == CAUSE_NEEDS_USERNS,
                .gives = items[item].gives,
        };
        if (!result->error)
                (void)snprintf(row->detail, sizeof row->detail, "%s", result->detail);
        else if (*result->detail)
                (void)snprintf(row->detail, sizeof row->detail, "%s: %s", result->detail, strerror(result->error));
        else
                (void)snprintf(row->detail, sizeof row->detail, "%s", strerror(result->error));

        if (row->works)
                return;

        row->lost = items[item].lost;
        row->why = causes[result->cause].why;
        row->fix = causes[result->cause].fix ? causes[result->cause].fix : items[item].since;
}

static bool all_work(const struct probe *probe, const enum probe_item *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (probe->items[list[i]].state != PROBE_WORKS)
                        return false;
        return true;
}

/* Full: everything needed. Degraded: files and system calls can still be confined, files by Landlock or by mounts. */
static enum doctor_mode doctor_judge(const struct probe *probe) {
        bool full = true;

        for (unsigned i = 0; i < PROBE_ITEMS; i++)
                full = full && (!items[i].needed || probe->items[i].state == PROBE_WORKS);

        if (full)
                return DOCTOR_FULL;

        static const enum probe_item landlock[] = { PROBE_LANDLOCK, PROBE_SECCOMP };
        static const enum probe_item mounts[] = { PROBE_USER_NS, PROBE_UID_MAP, PROBE_MOUNT_NS,
                                                  PROBE_PID_NS,  PROBE_PROC,    PROBE_SECCOMP };

        if (all_work(probe, landlock, COUNT(landlock)) || all_work(probe, mounts, COUNT(mounts)))
                return DOCTOR_DEGRADED;

        return DOCTOR_NONE;
}

/* Only where accounts of guests are to be protected. */
static void examine_firewall(struct doctor_report *report) {
        struct firewall_state state;
        struct err why = { 0 };
        int r = firewall_compare(&state, &why);
        struct doctor_row *row = &report->rows[report->n];

        if (!state.accounts && r == 0)
                return;

        *row = (struct doctor_row){ .name = "guest-firewall",
                                    .title = "firewall of guests",
                                    .state = "works",
                                    .cause = "none",
                                    .works = r == 0,
                                    .gives = "account guests send nothing outside their sandbox" };

        if (r == 0) {
                const char *how = state.compared ? "rules compared" : "tried as each of them";

                (void)snprintf(row->detail, sizeof row->detail, "%zu %s, %s", state.accounts,
                               state.accounts == 1 ? "account" : "accounts", how);
        } else {
                row->state = "missing";
                row->cause = "firewall";
                (void)snprintf(row->detail, sizeof row->detail, "%s", err_text(&why));
                row->lost = "account guests do not start, and what their uids send is neither refused nor recorded";
                row->why = "the rules that are loaded are not those that must be there, or nobody reads their log";
                row->fix = "sudo bailey guest fix NAME, for each account guest: it loads all rules anew and starts the "
                           "reader of the guest's log";
        }

        report->n++;
}

void doctor_examine(struct doctor_report *ret) {
        struct probe probe = { 0 };
        struct utsname name = { 0 };

        probe_all(&probe);
        uname(&name);
        *ret = (struct doctor_report){ .uid = geteuid(),
                                       .landlock_abi = (unsigned)probe.items[PROBE_LANDLOCK].value,
                                       .n = PROBE_ITEMS };
        (void)snprintf(ret->kernel, sizeof ret->kernel, "%s", name.release);
        (void)snprintf(ret->machine, sizeof ret->machine, "%s", name.machine);

        for (unsigned i = 0; i < PROBE_ITEMS; i++)
                fill_row(&ret->rows[i], (enum probe_item)i, &probe.items[i]);

        ret->mode = doctor_judge(&probe);
        examine_firewall(ret);
}
