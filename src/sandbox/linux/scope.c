/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/scope.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
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

static bool place(struct manager *ret, struct str directory, const char *below, bool is_bus) {
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
        return place(ret, directory, "/systemd/private", false) || place(ret, bus_path(), "", true) ||
               place(ret, directory, "/bus", true);
}

bool scope_look(void) {
        struct manager m;
        return find_manager(&m);
}

static void put_name(struct dbus_out *o, const char *name, const char *type) {
        dbus_put_struct(o);
        dbus_put_string(o, name);
        dbus_put_signature(o, type);
}

static void put_number(struct dbus_out *o, const char *name, uint64_t value) {
        put_name(o, name, "t");
        dbus_put_u64(o, value);
}

static void put_limits(struct dbus_out *o, const struct plan_group *limits) {
        if (limits->processes)
                put_number(o, "TasksMax", limits->processes + CGROUP_RESERVED_PROCESSES);
        if (limits->memory) {
                put_number(o, "MemoryMax", limits->memory);
                put_number(o, "MemorySwapMax", 0);
        }
        if (limits->cpu_percent)
                put_number(o, "CPUQuotaPerSecUSec", limits->cpu_percent * 10000);
}

int scope_call(struct dbus_out *o, uint32_t serial, const char *name, pid_t pid, const struct plan_group *limits) {
        const struct dbus_call call = { .serial = serial,
                                        .destination = "org.freedesktop.systemd1",
                                        .path = "/org/freedesktop/systemd1",
                                        .interface = "org.freedesktop.systemd1.Manager",
                                        .member = "StartTransientUnit",
                                        .signature = "ssa(sv)a(sa(sv))" };
        dbus_begin(o, &call);
        dbus_put_string(o, name);
        dbus_put_string(o, "fail"); /* rather than touch one of the same name */
        struct dbus_array properties = dbus_array_begin(o, 8);
        put_name(o, "PIDs", "au");
        struct dbus_array pids = dbus_array_begin(o, 4);
        dbus_put_u32(o, (uint32_t)pid);
        dbus_array_end(o, pids);
        put_name(o, "Delegate", "b");
        dbus_put_u32(o, 1);
        put_name(o, "Description", "s");
        dbus_put_string(o, "Bailey sandbox");
        put_name(o, "CollectMode", "s");
        dbus_put_string(o, "inactive-or-failed");
        put_limits(o, limits);
        dbus_array_end(o, properties);
        dbus_array_end(o, dbus_array_begin(o, 8)); /* no further units */
        return dbus_end(o);
}

struct talk {
        int fd;
        uint64_t deadline_ns;
        struct buf in;
        struct err *e;
};

static int left_ms(uint64_t deadline_ns) {
        uint64_t now = clock_ns();
        return now >= deadline_ns ? 0 : (int)((deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS);
}

static int await_socket(const struct talk *t, short events) {
        struct pollfd p = { .fd = t->fd, .events = events };
        int r;
        do
                r = poll(&p, 1, left_ms(t->deadline_ns));
        while (r < 0 && errno == EINTR);
        return r > 0 ? 0 : err_set(t->e, ETIMEDOUT, "systemd's user manager did not answer within a second");
}

static int say(const struct talk *t, struct str text) {
        while (text.n > 0) {
                ssize_t n = send(t->fd, text.p, text.n, MSG_NOSIGNAL);
                if (n >= 0) {
                        text = str_skip(text, (size_t)n);
                        continue;
                }
                if (errno != EINTR && errno != EAGAIN)
                        return err_set(t->e, ECONNRESET, "systemd's user manager closed the connection");
                int r = await_socket(t, POLLOUT);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Some more bytes. The time is looked at even when there are always more. */
static int hear(struct talk *t) {
        enum { CHUNK = 4096 };
        size_t room = t->in.max - t->in.n < CHUNK ? t->in.max - t->in.n : CHUNK;
        int r = await_socket(t, POLLIN);
        if (r == 0 && (room == 0 || left_ms(t->deadline_ns) == 0))
                r = err_set(t->e, EMSGSIZE, "systemd's user manager said too much");
        if (r == 0 && buf_reserve(&t->in, room) < 0)
                r = err_set(t->e, ENOMEM, "out of memory");
        if (r < 0)
                return r;
        ssize_t n = recv(t->fd, t->in.p + t->in.n, room, 0);
        if (n > 0)
                t->in.n += (size_t)n;
        if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
                return 0;
        return err_set(t->e, ECONNRESET, "systemd's user manager closed the connection");
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

static int open_talk(struct talk *t, const struct manager *m) {
        struct ucred peer;
        socklen_t n = sizeof peer;
        t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (t->fd < 0 || connect(t->fd, (const struct sockaddr *)&m->address, sizeof m->address) < 0)
                return err_errno(t->e, "cannot connect to systemd's user manager (%s)", m->address.sun_path);
        if (getsockopt(t->fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid() ||
            !is_of_this_namespace(peer.pid))
                return err_set(t->e, EPERM, "%s does not belong to a manager of this user in this pid namespace",
                               m->address.sun_path);
        return 0;
}

/* The user's number as text, each of its digits as two of hexadecimal. */
static int authenticate(struct talk *t) {
        char uid[16], line[64] = "AUTH EXTERNAL ";
        int digits = snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
        size_t n = strlen(line);
        for (int i = 0; i < digits; i++)
                n += (size_t)snprintf(line + n, sizeof line - n, "%02x", (unsigned)uid[i]);
        n += (size_t)snprintf(line + n, sizeof line - n, "\r\n");
        int r = say(t, str_n("", 1)); /* a zero byte comes first, by the protocol */
        r = r < 0 ? r : say(t, str_n(line, n));
        while (r == 0) {
                ptrdiff_t end = str_find(buf_str(&t->in), '\n');
                if (end >= 0 || t->in.n > AUTH_LINE_MAX) {
                        if (end < 0 || !str_starts(buf_str(&t->in), STR("OK ")))
                                return err_set(t->e, EACCES, "systemd's user manager does not accept this user");
                        buf_consume(&t->in, (size_t)end + 1);
                        return say(t, STR("BEGIN\r\n"));
                }
                r = hear(t);
        }
        return r;
}

/* Until the call is answered; what else arrives (signals) is passed over. */
static int await_answer(struct talk *t, uint32_t serial) {
        for (;;) {
                struct dbus_message m;
                ssize_t n = dbus_parse(buf_str(&t->in), &m);
                if (n < 0)
                        return err_set(t->e, (int)-n, "systemd's user manager answered with something malformed");
                if (n > 0 && m.type == DBUS_ERROR && m.reply_to == serial)
                        return err_set(t->e, ECANCELED, "systemd's user manager refused the scope (%.*s)",
                                       STR_FMT(m.error));
                if (n > 0 && m.type == DBUS_RETURN && m.reply_to == serial)
                        return 0;
                if (n > 0) {
                        buf_consume(&t->in, (size_t)n);
                        continue;
                }
                int r = hear(t);
                if (r < 0)
                        return r;
        }
}

static int greet(struct talk *t) {
        const struct dbus_call hello = { .serial = SERIAL_HELLO,
                                         .destination = "org.freedesktop.DBus",
                                         .path = "/org/freedesktop/DBus",
                                         .interface = "org.freedesktop.DBus",
                                         .member = "Hello" };
        struct dbus_out o = DBUS_OUT;
        dbus_begin(&o, &hello);
        int r = dbus_end(&o) < 0 ? err_set(t->e, ENOMEM, "out of memory") : say(t, buf_str(&o.bytes));
        buf_done(&o.bytes);
        return r; /* its answer is passed over: a bus that does not want us does not answer the call either */
}

static int ask(struct talk *t, const struct manager *m, const char *name, pid_t pid, const struct plan_group *limits) {
        struct dbus_out o = DBUS_OUT;
        int r = open_talk(t, m);
        r = r < 0 ? r : authenticate(t);
        if (r == 0 && m->is_bus)
                r = greet(t);
        if (r == 0 && scope_call(&o, SERIAL_START, name, pid, limits) < 0)
                r = err_set(t->e, ENOMEM, "out of memory");
        r = r < 0 ? r : say(t, buf_str(&o.bytes));
        r = r < 0 ? r : await_answer(t, SERIAL_START);
        buf_done(&o.bytes);
        return r;
}

/* The call is answered when the job is queued; the process is moved a little later. */
static int await_move(const struct talk *t, pid_t pid, const char *name, char ret[static PATH_MAX]) {
        for (;;) {
                const char *last = cgroup_path(pid, ret) == 0 ? strrchr(ret, '/') : NULL;
                if (last && strcmp(last + 1, name) == 0)
                        return 0;
                if (left_ms(t->deadline_ns) == 0)
                        return err_set(t->e, ETIMEDOUT,
                                       "systemd's user manager did not move the sandbox into its scope within a "
                                       "second");
                (void)poll(NULL, 0, LOOK_EVERY_MS);
        }
}

int scope_join(pid_t pid, const struct plan_group *limits, struct cgroup *ret, struct err *e) {
        char id[12], name[48], path[PATH_MAX];
        struct manager m;
        struct talk t = {
                .fd = -1, .deadline_ns = clock_ns() + WITHIN_MS * NS_PER_MS, .in = BUF(DBUS_MESSAGE_MAX), .e = e
        };
        if (!find_manager(&m))
                return err_set(e, ENOENT, "there is no systemd user manager to ask for a scope");
        random_id(id, sizeof id);
        snprintf(name, sizeof name, "bailey-%s.scope", id);
        int r = ask(&t, &m, name, pid, limits);
        r = r < 0 ? r : await_move(&t, pid, name, path);
        close_fd(&t.fd);
        buf_done(&t.in);
        if (r < 0)
                return r;
        struct cgroup g = CGROUP_NONE;
        g.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (g.dir < 0)
                return err_errno(e, "cannot open the scope that systemd made");
        *ret = g;
        const char *missing = cgroup_missing(&g, limits);
        return missing ? err_set(e, EOPNOTSUPP, "systemd's user manager was not given the controller for %s", missing)
                       : 0;
}
