/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/scope.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "sandbox/linux/dbus.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WITHIN_MS = 1000, LOOK_EVERY_MS = 2, AUTH_LINE_MAX = 512, STATUS_MAX = 65536 };
enum { SERIAL_HELLO = 1, SERIAL_START };

struct manager {
        struct sockaddr_un address;
        bool is_bus; /* between us and the manager: it wants to be greeted */
};

static bool scope_place(struct manager *ret, struct str directory, const char *below, bool is_bus) {
        *ret = (struct manager){ .address.sun_family = AF_UNIX, .is_bus = is_bus };
        int n = snprintf(ret->address.sun_path, sizeof ret->address.sun_path, "%.*s%s", STR_FMT(directory), below);
        return directory.n > 0 && directory.p[0] == '/' && n > 0 && (size_t)n < sizeof ret->address.sun_path &&
               access(ret->address.sun_path, F_OK) == 0;
}

/* Of $DBUS_SESSION_BUS_ADDRESS the form that sessions have: unix:path=/run/user/1000/bus, options behind a comma. */
static struct str bus_path(void) {
        struct str rest = str_of(getenv("DBUS_SESSION_BUS_ADDRESS")), path = { 0 };
        if (!str_starts(rest, STR("unix:path=")) || str_find(rest, '%') >= 0 || str_find(rest, ';') >= 0)
                return path;
        rest = str_skip(rest, strlen("unix:path="));
        (void)str_split(&rest, ',', &path);
        return path;
}

static bool find_manager(struct manager *ret) {
        char usual[32];
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        snprintf(usual, sizeof usual, "/run/user/%u", (unsigned)geteuid());
        struct str directory = str_of(runtime ? runtime : usual);
        return scope_place(ret, directory, "/systemd/private", false) || scope_place(ret, bus_path(), "", true) ||
               scope_place(ret, directory, "/bus", true);
}

bool scope_look(void) {
        struct manager manager;
        return find_manager(&manager);
}

static void put_name(struct dbus_out *out, const char *name, const char *type) {
        dbus_put_struct(out);
        dbus_put_string(out, name);
        dbus_put_signature(out, type);
}

static void put_number(struct dbus_out *out, const char *name, uint64_t value) {
        put_name(out, name, "t");
        dbus_put_u64(out, value);
}

static void put_limits(struct dbus_out *out, const struct plan_group *limits) {
        if (limits->processes)
                put_number(out, "TasksMax", limits->processes + CGROUP_RESERVED_PROCESSES);

        if (limits->memory) {
                put_number(out, "MemoryMax", limits->memory);
                put_number(out, "MemorySwapMax", 0);
        }

        if (limits->cpu_percent)
                put_number(out, "CPUQuotaPerSecUSec", limits->cpu_percent * 10000);
}

int scope_call(struct dbus_out *out, uint32_t serial, const char *name, pid_t pid, const struct plan_group *limits) {
        const struct dbus_call call = { .serial = serial,
                                        .destination = "org.freedesktop.systemd1",
                                        .path = "/org/freedesktop/systemd1",
                                        .interface = "org.freedesktop.systemd1.Manager",
                                        .member = "StartTransientUnit",
                                        .signature = "ssa(sv)a(sa(sv))" };

        dbus_begin(out, &call);
        dbus_put_string(out, name);
        dbus_put_string(out, "fail"); /* rather than touch one of the same name */

        struct dbus_array properties = dbus_array_begin(out, 8);
        put_name(out, "PIDs", "au");
        struct dbus_array pids = dbus_array_begin(out, 4);
        dbus_put_u32(out, (uint32_t)pid);
        dbus_array_end(out, pids);
        put_name(out, "Delegate", "b");
        dbus_put_u32(out, 1);
        put_name(out, "Description", "s");
        dbus_put_string(out, "Bailey sandbox");
        put_name(out, "CollectMode", "s");
        dbus_put_string(out, "inactive-or-failed");
        put_limits(out, limits);
        dbus_array_end(out, properties);
        dbus_array_end(out, dbus_array_begin(out, 8)); /* no further units */

        return dbus_end(out);
}

struct talk {
        int fd;
        uint64_t deadline_ns;
        struct buf in;
        struct err *e;
};

static int left_ms(uint64_t deadline_ns) {
        uint64_t now = clock_ns();
        if (now >= deadline_ns)
                return 0;

        return (int)((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS);
}

static int await_socket(const struct talk *talk, short events) {
        struct pollfd pollfd = { .fd = talk->fd, .events = events };
        int r;
        do
                r = poll(&pollfd, 1, left_ms(talk->deadline_ns));
        while (r < 0 && errno == EINTR);
        if (r <= 0)
                return err_set(talk->e, ETIMEDOUT, "systemd's user manager did not answer within a second");

        return 0;
}

static int scope_say(const struct talk *talk, struct str text) {
        while (text.n > 0) {
                ssize_t n = send(talk->fd, text.p, text.n, MSG_NOSIGNAL);
                if (n >= 0) {
                        text = str_skip(text, (size_t)n);
                        continue;
                }

                if (errno != EINTR && errno != EAGAIN)
                        return err_set(talk->e, ECONNRESET, "systemd's user manager closed the connection");

                int r = await_socket(talk, POLLOUT);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Some more bytes. The time is looked at even when there are always more. */
static int scope_hear(struct talk *talk) {
        enum { CHUNK = 4096 };
        size_t room = talk->in.max - talk->in.n < CHUNK ? talk->in.max - talk->in.n : CHUNK;
        int r = await_socket(talk, POLLIN);
        if (r == 0 && (room == 0 || left_ms(talk->deadline_ns) == 0))
                r = err_set(talk->e, EMSGSIZE, "systemd's user manager said too much");
        if (r == 0 && buf_reserve(&talk->in, room) < 0)
                r = err_set(talk->e, ENOMEM, "out of memory");
        if (r < 0)
                return r;

        ssize_t n = recv(talk->fd, talk->in.p + talk->in.n, room, 0);
        if (n > 0)
                talk->in.n += (size_t)n;
        if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
                return 0;

        return err_set(talk->e, ECONNRESET, "systemd's user manager closed the connection");
}

/* Numbers mean the same processes on both sides only within one pid namespace: one that shows several numbers for the
 * peer is above the peer's, and a peer without a number is above ours. */
static bool is_of_this_namespace(pid_t peer) {
        char path[64];
        cleanup(buf_done) struct buf status = BUF(0);

        snprintf(path, sizeof path, "/proc/%d/status", (int)peer);
        if (peer <= 0 || path_read_file(path, STATUS_MAX, &status, NULL) < 0)
                return false;

        struct str rest = buf_str(&status), line;
        while (str_split(&rest, '\n', &line))
                if (str_starts(line, STR("NSpid:")))
                        return str_find(str_trim(str_skip(line, strlen("NSpid:"))), '\t') < 0;

        return false;
}

static int open_talk(struct talk *talk, const struct manager *manager) {
        struct ucred peer;
        socklen_t n = sizeof peer;

        talk->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (talk->fd < 0 || connect(talk->fd, (const struct sockaddr *)&manager->address, sizeof manager->address) < 0)
                return err_errno(talk->e, "cannot connect to systemd's user manager (%s)", manager->address.sun_path);

        if (getsockopt(talk->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid() ||
            !is_of_this_namespace(peer.pid))
                return err_set(talk->e, EPERM, "%s does not belong to a manager of this user in this pid namespace",
                               manager->address.sun_path);

        return 0;
}

/* The user's number as text, each of its digits as two of hexadecimal. */
static int scope_authenticate(struct talk *talk) {
        char uid[16], line[64] = "AUTH EXTERNAL ";
        int digits = snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
        size_t n = strlen(line);

        for (int i = 0; i < digits; i++)
                n += (size_t)snprintf(line + n, sizeof line - n, "%02x", (unsigned)uid[i]);

        n += (size_t)snprintf(line + n, sizeof line - n, "\r\n");
        int r = scope_say(talk, str_n("", 1)); /* a zero byte comes first, by the protocol */
        if (r >= 0)
                r = scope_say(talk, str_n(line, n));
        while (r == 0) {
                ptrdiff_t end = str_find(buf_str(&talk->in), '\n');
                if (end >= 0 || talk->in.n > AUTH_LINE_MAX) {
                        if (end < 0 || !str_starts(buf_str(&talk->in), STR("OK ")))
                                return err_set(talk->e, EACCES, "systemd's user manager does not accept this user");
                        buf_consume(&talk->in, (size_t)end + 1);
                        return scope_say(talk, STR("BEGIN\r\n"));
                }

                r = scope_hear(talk);
        }

        return r;
}

/* Until the call is answered; what else arrives (signals) is passed over. */
static int await_answer(struct talk *talk, uint32_t serial) {
        for (;;) {
                struct dbus_message m;
                ssize_t n = dbus_parse(buf_str(&talk->in), &m);
                if (n < 0)
                        return err_set(talk->e, (int)-n, "systemd's user manager answered with something malformed");

                if (n > 0 && m.type == DBUS_ERROR && m.reply_to == serial)
                        return err_set(talk->e, ECANCELED, "systemd's user manager refused the scope (%.*s)",
                                       STR_FMT(m.error));

                if (n > 0 && m.type == DBUS_RETURN && m.reply_to == serial)
                        return 0;

                if (n > 0) {
                        buf_consume(&talk->in, (size_t)n);
                        continue;
                }

                int r = scope_hear(talk);
                if (r < 0)
                        return r;
        }
}

static int scope_greet(struct talk *talk) {
        const struct dbus_call hello = { .serial = SERIAL_HELLO,
                                         .destination = "org.freedesktop.DBus",
                                         .path = "/org/freedesktop/DBus",
                                         .interface = "org.freedesktop.DBus",
                                         .member = "Hello" };
        struct dbus_out out = DBUS_OUT;

        dbus_begin(&out, &hello);
        int r = dbus_end(&out) < 0 ? err_set(talk->e, ENOMEM, "out of memory") : scope_say(talk, buf_str(&out.bytes));
        buf_done(&out.bytes);

        return r; /* its answer is passed over: a bus that does not want us does not answer the call either */
}

static int scope_ask(struct talk *talk, const struct manager *manager, const char *name, pid_t pid,
                     const struct plan_group *limits) {
        struct dbus_out out = DBUS_OUT;
        int r = open_talk(talk, manager);

        if (r >= 0)
                r = scope_authenticate(talk);
        if (r == 0 && manager->is_bus)
                r = scope_greet(talk);
        if (r == 0 && scope_call(&out, SERIAL_START, name, pid, limits) < 0)
                r = err_set(talk->e, ENOMEM, "out of memory");

        if (r >= 0)
                r = scope_say(talk, buf_str(&out.bytes));
        if (r >= 0)
                r = await_answer(talk, SERIAL_START);
        buf_done(&out.bytes);

        return r;
}

/* The call is answered when the job is queued; the process is moved a little later. */
static int await_move(const struct talk *talk, pid_t pid, const char *name, char ret[static PATH_MAX]) {
        for (;;) {
                const char *last = cgroup_path(pid, ret) == 0 ? strrchr(ret, '/') : NULL;
                if (last && strcmp(last + 1, name) == 0)
                        return 0;

                if (left_ms(talk->deadline_ns) == 0)
                        return err_set(talk->e, ETIMEDOUT,
                                       "systemd's user manager did not move the sandbox into its scope within a "
                                       "second");

                (void)poll(NULL, 0, LOOK_EVERY_MS);
        }
}

int scope_join(pid_t pid, const struct plan_group *limits, struct cgroup *ret, struct err *err) {
        char id[12], name[48], path[PATH_MAX];
        struct manager manager;
        struct talk talk = {
                .fd = -1, .deadline_ns = clock_ns() + WITHIN_MS * NS_PER_MS, .in = BUF(DBUS_MESSAGE_MAX), .e = err
        };

        if (!find_manager(&manager))
                return err_set(err, ENOENT, "there is no systemd user manager to ask for a scope");

        random_id(id, sizeof id);
        snprintf(name, sizeof name, "bailey-%s.scope", id);
        int r = scope_ask(&talk, &manager, name, pid, limits);
        if (r >= 0)
                r = await_move(&talk, pid, name, path);
        close_fd(&talk.fd);
        buf_done(&talk.in);

        if (r < 0)
                return r;

        struct cgroup cgroup = CGROUP_NONE;
        cgroup.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (cgroup.dir < 0)
                return err_errno(err, "cannot open the scope that systemd made");

        *ret = cgroup;
        const char *missing = cgroup_missing(&cgroup, limits);

        if (missing)
                return err_set(err, EOPNOTSUPP, "systemd's user manager was not given the controller for %s", missing);

        return 0;
}
