/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The features that this machine offers a sandbox of this user. Nothing is inferred from a version number: every item
 * is tried, in a child of its own if it changes the process, and judged by the result. When something fails, the
 * settings that are known to cause it are read, so that the answer is a cause and not an errno.
 *
 * A launch does not pay for this. An item is tried when it is first asked for: the launcher asks only after a step has
 * failed, to explain it, and `bailey doctor` asks for all of them. Only probe_landlock_abi() belongs on the launch
 * path.
 */
#include <stdbool.h>
#include <stdint.h>

enum probe_item {
        PROBE_USER_NS,
        PROBE_UID_MAP,
        PROBE_MOUNT_NS,
        PROBE_PID_NS,
        PROBE_NET_NS,
        PROBE_IPC_NS,
        PROBE_UTS_NS,
        PROBE_CGROUP_NS,
        PROBE_PROC,     /* a /proc of its own in a new pid namespace */
        PROBE_REDIRECT, /* nft nat rules in a network namespace of its own */
        PROBE_LANDLOCK,
        PROBE_SECCOMP,
        PROBE_NOTIFY, /* seccomp user notification with descriptors handed in */
        PROBE_OVERLAY,
        PROBE_CGROUP, /* cgroup v2 with memory and pids delegated to this user */
        PROBE_MOUNT_API,
        PROBE_OPENAT2,
        PROBE_CLONE3,
        PROBE_PIDFD,
        PROBE_MEMFD_SECRET,
        PROBE_YAMA,
        PROBE_ITEMS
};

enum probe_state {
        PROBE_UNTRIED,
        PROBE_WORKS,
        PROBE_MISSING, /* this kernel does not have it */
        PROBE_BLOCKED, /* the kernel has it; a setting or this user's rights forbid it */
        PROBE_STATES
};

enum probe_cause {
        CAUSE_NONE,
        CAUSE_NOT_BUILT,     /* too old a kernel, or built without it */
        CAUSE_NO_MODULE,     /* the kernel module is not there or may not be loaded from here */
        CAUSE_USERNS_SYSCTL, /* kernel.unprivileged_userns_clone = 0 */
        CAUSE_USERNS_LIMIT,  /* user.max_user_namespaces reached, or nested too deep */
        CAUSE_NS_LIMIT,      /* user.max_*_namespaces of another kind */
        CAUSE_APPARMOR,      /* kernel.apparmor_restrict_unprivileged_userns = 1 */
        CAUSE_CHROOT,        /* inside a chroot no user namespace can be made */
        CAUSE_SECCOMP,       /* a filter over this process (a container's) refuses the call */
        CAUSE_NEEDS_USERNS,  /* would work inside a user namespace, which cannot be made */
        CAUSE_LSM_ORDER,     /* built, but not named by lsm= at boot */
        CAUSE_PROC_COVERED,  /* parts of /proc are covered here, so that a new one is refused */
        CAUSE_CGROUP_V1,     /* the controllers are bound to cgroup v1 */
        CAUSE_NOT_DELEGATED, /* the cgroup belongs to somebody else */
        CAUSE_NO_SCOPE,      /* and the user's systemd did not give one */
        CAUSE_SECRETMEM,     /* secretmem.enable=0 */
        CAUSE_OFF,           /* switched off by its own setting */
        CAUSE_PERMISSION,    /* refused, for a reason not known here */
        CAUSE_UNEXPECTED,    /* another error, or a wrong effect: `error` and `detail` say which */
        PROBE_CAUSES
};

struct probe_result {
        uint8_t state;   /* enum probe_state */
        uint8_t cause;   /* enum probe_cause */
        int error;       /* errno of the failing step, 0 for none */
        int value;       /* PROBE_LANDLOCK: the ABI */
        char detail[96]; /* the failing step, or a fact worth knowing ("ABI 7"); ASCII, terminated */
};

struct probe {
        struct probe_result items[PROBE_ITEMS];
};

/* Tries the item unless this struct already holds its result. Never fails: trouble is a result too. */
const struct probe_result *probe_item(struct probe *probe, enum probe_item item);
void probe_all(struct probe *probe);

/* Stable names: "user-namespace", "works", "userns-sysctl". */
const char *probe_item_name(enum probe_item item);
const char *probe_state_name(enum probe_state state);
const char *probe_cause_name(enum probe_cause cause);

/* The Landlock ABI of the running kernel, 0 when there is none. One system call. */
unsigned probe_landlock_abi(void);
/* Whether Landlock stops connect() here. Not below a sandbox whose broker performs it: there only its policy counts. */
bool probe_landlock_connect(void);
