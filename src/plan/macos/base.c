/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services that every program on macOS needs to start, by need, and those that a person can open with
 * `macos.allow`. A name is here because a program failed without it. Services that reveal other programs' data or run
 * something outside are not here: the keychain, Launch Services, the clipboard, name lookup, other processes'
 * arguments.
 */
#include "plan/macos/seatbelt_internal.h"

#define GROUP(bit) ((unsigned)(bit) << SEATBELT_WHEN_GROUP)

#define NAME(value)                                                                                                    \
        { .kind = SEATBELT_GLOBAL_NAME, .text = value }
#define SYSCTL(value)                                                                                                  \
        { .kind = SEATBELT_SYSCTL_NAME, .text = value }
#define SYSCTLS(value)                                                                                                 \
        { .kind = SEATBELT_SYSCTL_NAME_PREFIX, .text = value }
#define LITERAL(value)                                                                                                 \
        { .kind = SEATBELT_LITERAL, .text = value }
#define SUBPATH(value)                                                                                                 \
        { .kind = SEATBELT_SUBPATH, .text = value }
#define FILTERS(...)                                                                                                   \
        (const struct seatbelt_filter[]) {                                                                             \
                __VA_ARGS__, {                                                                                         \
                        0                                                                                              \
                }                                                                                                      \
        }
#define REGEX(value)                                                                                                   \
        { .kind = SEATBELT_REGEX, .text = value }

const struct seatbelt_row seatbelt_rows[] = {
        { SEATBELT_ALWAYS, "processes", "programs start programs", "process-fork", NULL },
        { SEATBELT_ALWAYS, "processes", "signals and facts about processes: its own and those of this sandbox",
          "signal process-info*",
          FILTERS({ .kind = SEATBELT_TARGET, .text = "self" }, { .kind = SEATBELT_TARGET, .text = "same-sandbox" }) },

        { SEATBELT_READS_OPEN, "reading", "reads are open; what is denied follows below",
          "file-read* file-map-executable process-exec*", NULL },
        { SEATBELT_READS_CLOSED, "reading", "the system itself: sealed, and the same on every Mac",
          "file-read* file-map-executable process-exec*",
          FILTERS(SUBPATH("/System"), SUBPATH("/bin"), SUBPATH("/sbin"), SUBPATH("/usr/bin"), SUBPATH("/usr/lib"),
                  SUBPATH("/usr/libexec"), SUBPATH("/usr/sbin"), SUBPATH("/usr/share"), SUBPATH("/Library/Apple"),
                  SUBPATH("/private/var/db/dyld"), SUBPATH("/private/var/db/timezone"),
                  SUBPATH("/private/preboot/Cryptexes")) },
        { SEATBELT_READS_CLOSED, "reading", "the root itself, without which dyld ends the program, and links in it",
          "file-read*", FILTERS(LITERAL("/"), LITERAL("/etc"), LITERAL("/tmp"), LITERAL("/var"), LITERAL("/dev")) },
        { SEATBELT_READS_CLOSED, "reading",
          "public facts: accounts, names of services, the time zone, certificates, the chosen shell", "file-read*",
          FILTERS(LITERAL("/private/etc/hosts"), LITERAL("/private/etc/localtime"), LITERAL("/private/etc/passwd"),
                  LITERAL("/private/etc/group"), LITERAL("/private/etc/protocols"), LITERAL("/private/etc/services"),
                  LITERAL("/private/etc/shells"), LITERAL("/private/var/db/xcode_select_link"),
                  SUBPATH("/private/etc/ssl"), SUBPATH("/private/var/select")) },

        { SEATBELT_ALWAYS, "devices", "read and write", "file-read* file-write*",
          FILTERS(LITERAL("/dev/null"), LITERAL("/dev/zero"), LITERAL("/dev/tty"), SUBPATH("/dev/fd"),
                  LITERAL("/dev/stdin"), LITERAL("/dev/stdout"), LITERAL("/dev/stderr")) },
        { SEATBELT_ALWAYS, "devices", "read", "file-read*",
          FILTERS(LITERAL("/dev/random"), LITERAL("/dev/urandom"), LITERAL("/dev/autofs_nowait")) },
        { SEATBELT_ALWAYS, "devices", "every program opens it; refusing it only fills the log",
          "file-read* file-write-data file-ioctl", FILTERS(LITERAL("/dev/dtracehelper")) },
        { SEATBELT_ALWAYS, "devices", "new terminals", "pseudo-tty", NULL },
        { SEATBELT_ALWAYS, "devices", "new terminals: the side of the one who makes them",
          "file-read* file-write* file-ioctl", FILTERS(LITERAL("/dev/ptmx")) },
        { SEATBELT_ALWAYS, "devices", "new terminals: only those that this sandbox made", "file-read* file-write*",
          FILTERS(REGEX("^/dev/ttys[0-9]+$"),
                  { .kind = SEATBELT_EXTENSION, .text = "com.apple.sandbox.pty", .joined = true }) },
        { SEATBELT_ALWAYS, "devices", "the terminal that was inherited: raw mode and job control", "file-ioctl",
          FILTERS(REGEX("^/dev/ttys[0-9]+$"), LITERAL("/dev/tty"), LITERAL("/dev/null")) },

        { SEATBELT_ALWAYS, "system information",
          "by name, never all: another process's arguments and environment are sysctls too", "sysctl-read",
          FILTERS(SYSCTL("hw.activecpu"), SYSCTL("hw.byteorder"), SYSCTL("hw.cacheconfig"), SYSCTL("hw.cachelinesize"),
                  SYSCTL("hw.cpufamily"), SYSCTL("hw.cpufrequency"), SYSCTL("hw.cputype"), SYSCTL("hw.logicalcpu"),
                  SYSCTL("hw.logicalcpu_max"), SYSCTL("hw.machine"), SYSCTL("hw.memsize"), SYSCTL("hw.model"),
                  SYSCTL("hw.ncpu"), SYSCTL("hw.nperflevels"), SYSCTL("hw.packages"), SYSCTL("hw.pagesize"),
                  SYSCTL("hw.pagesize_compat"), SYSCTL("hw.physicalcpu"), SYSCTL("hw.physicalcpu_max"),
                  SYSCTL("hw.tbfrequency_compat"), SYSCTL("hw.vectorunit"), SYSCTLS("hw.l1"), SYSCTLS("hw.l2"),
                  SYSCTLS("hw.l3"), SYSCTLS("hw.optional."), SYSCTLS("hw.perflevel")) },
        { SEATBELT_ALWAYS, "system information", "of the kernel", "sysctl-read",
          FILTERS(SYSCTL("kern.argmax"), SYSCTL("kern.hostname"), SYSCTL("kern.maxfiles"),
                  SYSCTL("kern.maxfilesperproc"), SYSCTL("kern.maxproc"), SYSCTL("kern.ngroups"),
                  SYSCTL("kern.osproductversion"), SYSCTL("kern.osrelease"), SYSCTL("kern.ostype"),
                  SYSCTL("kern.osvariant_status"), SYSCTL("kern.osversion"), SYSCTL("kern.secure_kernel"),
                  SYSCTL("kern.sysv.semmns"), SYSCTL("kern.usrstack64"), SYSCTL("kern.version"),
                  SYSCTL("security.mac.lockdown_mode_state"), SYSCTL("sysctl.proc_cputype"), SYSCTL("vm.loadavg"),
                  SYSCTLS("machdep.cpu."), SYSCTLS("kern.proc.pid."), SYSCTLS("kern.proc.pgrp."),
                  SYSCTLS("net.routetable.")) },
        { SEATBELT_ALWAYS, "system information", "Java on Apple silicon; the threads of V8", "sysctl-write",
          FILTERS(SYSCTL("kern.grade_cputype"), SYSCTL("kern.tcsm_enable")) },

        { SEATBELT_ALWAYS, "between processes", "semaphores of Python's multiprocessing", "ipc-posix-sem", NULL },
        { SEATBELT_ALWAYS, "between processes", "notifications, read only", "ipc-posix-shm-read*",
          FILTERS({ .kind = SEATBELT_IPC_NAME, .text = "apple.shm.notification_center" }) },
        { SEATBELT_ALWAYS, "between processes", "OpenMP",
          "ipc-posix-shm-read-data ipc-posix-shm-write-create ipc-posix-shm-write-unlink",
          FILTERS({ .kind = SEATBELT_IPC_NAME_REGEX, .text = "^/__KMP_REGISTERED_LIB_[0-9]+$" }) },

        { SEATBELT_ALWAYS, "services", "accounts, temporary directories, logging, power events", "mach-lookup",
          FILTERS(NAME("com.apple.system.opendirectoryd.libinfo"), NAME("com.apple.system.opendirectoryd.membership"),
                  NAME("com.apple.bsd.dirhelper"), NAME("com.apple.system.notification_center"), NAME("com.apple.logd"),
                  NAME("com.apple.system.logger"), NAME("com.apple.diagnosticd"),
                  NAME("com.apple.PowerManagement.control")) },
        { SEATBELT_ALWAYS, "services", "programs that watch files", "mach-lookup",
          FILTERS(NAME("com.apple.FSEvents"), NAME("com.apple.fseventsd")) },
        { SEATBELT_NETWORK, "services", "certificates: programs in Go ask nobody else", "mach-lookup",
          FILTERS(NAME("com.apple.trustd"), NAME("com.apple.trustd.agent")) },
        { SEATBELT_READS_OPEN, "services",
          "preferences, read only; they hold data of other programs, so only where reads are open", "mach-lookup",
          FILTERS(NAME("com.apple.cfprefsd.daemon"), NAME("com.apple.cfprefsd.agent"),
                  { .kind = SEATBELT_LOCAL_NAME, .text = "com.apple.cfprefsd.agent" }) },
        { SEATBELT_READS_OPEN, "services", "the same", "ipc-posix-shm-read*",
          FILTERS({ .kind = SEATBELT_IPC_NAME_PREFIX, .text = "apple.cfprefs." }) },
        { SEATBELT_READS_OPEN, "services", "the same", "user-preference-read", NULL },
        { SEATBELT_ALWAYS, "services", "sleep and wake, for Node", "iokit-open",
          FILTERS({ .kind = SEATBELT_IOKIT_CLASS, .text = "RootDomainUserClient" }) },
        { SEATBELT_ALWAYS, "services", "facts about hardware", "iokit-get-properties", NULL },

        { GROUP(MACOS_KEYCHAIN), "opened: keychain", "the daemons that hold passwords", "mach-lookup",
          FILTERS(NAME("com.apple.SecurityServer"), NAME("com.apple.securityd"), NAME("com.apple.securityd.xpc"),
                  NAME("com.apple.secd"), NAME("com.apple.security.agent"), NAME("com.apple.security.keychaind")) },
        { GROUP(MACOS_KEYCHAIN), "opened: keychain", "how they answer",
          "ipc-posix-shm-read* ipc-posix-shm-write-data ipc-posix-shm-write-create",
          FILTERS({ .kind = SEATBELT_IPC_NAME, .text = "com.apple.AppleDatabaseChanged" }) },
        { GROUP(MACOS_CLIPBOARD), "opened: clipboard", "the clipboard", "mach-lookup",
          FILTERS(NAME("com.apple.pasteboard.1")) },
        { GROUP(MACOS_OPEN), "opened: open", "start programs, which run outside", "lsopen", NULL },
        { GROUP(MACOS_OPEN), "opened: open", "Launch Services and Apple events", "mach-lookup",
          FILTERS(NAME("com.apple.coreservices.launchservicesd"), NAME("com.apple.coreservices.appleevents"),
                  NAME("com.apple.lsd.mapdb"), NAME("com.apple.lsd.open")) },
        { GROUP(MACOS_BROWSER), "opened: browser", "fonts, windows and graphics", "mach-lookup",
          FILTERS(NAME("com.apple.windowserver.active"), NAME("com.apple.fonts"), NAME("com.apple.FontObjectsServer"),
                  NAME("com.apple.CoreDisplay.master"), NAME("com.apple.coreservices.launchservicesd"),
                  NAME("com.apple.lsd.mapdb")) },
        { GROUP(MACOS_BROWSER), "opened: browser", "its own services: registered and found, in pairs, or it hangs",
          "mach-register mach-lookup",
          FILTERS({ .kind = SEATBELT_GLOBAL_NAME_REGEX, .text = "^org\\.chromium\\." },
                  { .kind = SEATBELT_GLOBAL_NAME_REGEX, .text = "^com\\.google\\.Chrome\\." }) },
        { GROUP(MACOS_BROWSER), "opened: browser", "memory that its processes share", "ipc-posix-shm*",
          FILTERS({ .kind = SEATBELT_IPC_NAME_REGEX, .text = "^/?org\\.chromium\\." }) },
        { GROUP(MACOS_XCODE), "opened: xcode", "the compiler's services", "mach-lookup",
          FILTERS(NAME("com.apple.dt.xcsecurity"), NAME("com.apple.dt.CommandLineTools.installondemand"),
                  NAME("com.apple.lsd.mapdb"), NAME("com.apple.coresymbolicationd")) },
        { GROUP(MACOS_DOCKER), "opened: docker", "Docker Desktop's services", "mach-lookup",
          FILTERS({ .kind = SEATBELT_GLOBAL_NAME_REGEX, .text = "^com\\.docker\\." }) },
};
const size_t seatbelt_rows_n = sizeof seatbelt_rows / sizeof seatbelt_rows[0];

#define SESSIONS "sessions and passwords of a browser"
#define SYSTEM_SECRETS "secrets of the system"
#define STARTED "what lies there is started at the next login"
#define PROGRAMS "programs of the user"

const struct seatbelt_place seatbelt_places[] = {
        /* Places that belong to nobody in particular. On Linux a sandbox has empty ones of its own. */
        { 0, SEATBELT_HIDES, "/private/tmp", "files of other programs; $TMPDIR is the sandbox's own" },
        { 0, SEATBELT_HIDES, "/private/var/tmp", "files of other programs" },
        { 0, SEATBELT_HIDES, "/private/var/folders", "temporary files and caches of every program" },
        { 0, SEATBELT_HIDES, "/Volumes", "other disks" },
        { 0, SEATBELT_HIDES, "/Network", "other machines" },

        { 0, SEATBELT_HIDES, "~/Library/Keychains", "the keychain" },
        { 0, SEATBELT_HIDES, "~/Library/Cookies", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Safari", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Google/Chrome", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Chromium", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Firefox", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/BraveSoftware", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Microsoft Edge", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Arc", SESSIONS },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/1Password", "passwords of 1Password" },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/Bitwarden", "passwords of Bitwarden" },
        { 0, SEATBELT_HIDES, "~/Library/Application Support/com.apple.TCC", "what macOS lets which program do" },
        { 0, SEATBELT_HIDES, "~/Library/Group Containers", "data of other programs" },
        { 0, SEATBELT_HIDES, "~/Library/Containers", "data of other programs" },
        { 0, SEATBELT_HIDES, "~/Library/Messages", "messages" },
        { 0, SEATBELT_HIDES, "~/Library/Mail", "mail" },
        { 0, SEATBELT_HIDES, "~/Library/Calendars", "calendars" },
        { 0, SEATBELT_HIDES, "~/Library/Accounts", "accounts" },
        { 0, SEATBELT_HIDES, "~/Library/IdentityServices", "accounts" },
        { 0, SEATBELT_KEEPS, "~/Library/LaunchAgents", STARTED },
        { 0, SEATBELT_KEEPS, "~/Library/Services", STARTED },
        { 0, SEATBELT_KEEPS, "~/Library/Scripts", STARTED },
        { 0, SEATBELT_KEEPS, "~/Library/Preferences", "settings of other programs" },
        { 0, SEATBELT_PROGRAMS, "~/Library/Android/sdk", PROGRAMS },
        { 0, SEATBELT_PROGRAMS, "~/Library/Java/JavaVirtualMachines", PROGRAMS },
        { 0, SEATBELT_PROGRAMS, "~/Library/Python", PROGRAMS },
        { 0, SEATBELT_PROGRAMS, "~/Library/pnpm", PROGRAMS },
        { 0, SEATBELT_HIDES, "~/.zsh_sessions", "commands typed before" },

        { 0, SEATBELT_HIDES, "/Library/Keychains", SYSTEM_SECRETS },
        { 0, SEATBELT_HIDES, "/private/var/db/dslocal", SYSTEM_SECRETS },
        { 0, SEATBELT_HIDES, "/private/var/db/sudo", SYSTEM_SECRETS },
        { 0, SEATBELT_HIDES, "/private/var/root", SYSTEM_SECRETS },
        { 0, SEATBELT_HIDES, "/private/etc/master.passwd", SYSTEM_SECRETS },
        { 0, SEATBELT_HIDES, "/private/var/run/docker.sock", "the Docker daemon" },

        { MACOS_KEYCHAIN, SEATBELT_SHOWS, "~/Library/Keychains", "the keychain, opened by macos.allow" },
        { MACOS_XCODE, SEATBELT_GIVES, "~/Library/Developer/Xcode/DerivedData", "builds of Xcode" },
        { MACOS_XCODE, SEATBELT_GIVES, "~/Library/Caches/org.swift.swiftpm", "packages of Swift" },
        { MACOS_XCODE, SEATBELT_SHOWS, "~/Library/Developer/CoreSimulator", "simulators" },
        { MACOS_DOCKER, SEATBELT_SHOWS, "/private/var/run/docker.sock", "the Docker daemon, opened by macos.allow" },
        { MACOS_DOCKER, SEATBELT_SHOWS, "~/.docker/run/docker.sock", "the Docker daemon, opened by macos.allow" },
};
const size_t seatbelt_places_n = sizeof seatbelt_places / sizeof seatbelt_places[0];

static bool row_applies(const struct seatbelt_row *row, const struct seatbelt_request *request, unsigned groups) {
        bool open = path_rules_reads_open(request->rules);
        bool network = request->host->http_port || request->host->socks_port || request->host->api_port;
        unsigned wanted = row->when >> SEATBELT_WHEN_GROUP;

        if (wanted)
                return (groups & wanted) != 0;
        if (row->when & SEATBELT_READS_OPEN)
                return open;
        if (row->when & SEATBELT_READS_CLOSED)
                return !open;

        return row->when != SEATBELT_NETWORK || network;
}

int seatbelt_add_rows(struct seatbelt *seatbelt, const struct seatbelt_request *request, unsigned groups) {
        for (size_t i = 0; i < seatbelt_rows_n; i++) {
                const struct seatbelt_row *row = &seatbelt_rows[i];

                if (!row_applies(row, request, groups))
                        continue;

                int r = seatbelt_begin(seatbelt, true, row->section, row->operations, row->why);
                for (const struct seatbelt_filter *f = row->filters; r == 0 && f && f->kind != SEATBELT_END; f++) {
                        r = vec_push(&seatbelt->filters, *f);
                        seatbelt->rules.p[seatbelt->rules.n - 1].n += r == 0;
                }

                if (r < 0)
                        return r;
        }

        return 0;
}
