/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_start.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "control/client.h"
#include "guest/account/firewall_reader.h"
#include "guest/account/guest_firewall.h"
#include "guest/account/guest_groups.h"
#include "guest/agent/agent.h"
#include "guest/guest_disk.h"
#include "guest/guest_exec.h"
#include "guest/guest_home.h"
#include "guest/guest_mend.h"
#include "guest/guest_points.h"
#include "guest/guest_ports.h"
#include "guest/guest_settings.h"
#include "policy/options.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_ID_BYTES = 13, BACKLOG = 64, END_WAIT_MS = 20000, FRONT_MAX = 32 << 10 };

/*
 * Options.
 */
struct options_build {
        struct guests *guests;
        const struct guest *guest;
        struct option_values *values;
        struct err *err;
        struct buf front; /* directories for PATH */
};

static int options_setting(void *arg, const char *flag, const char *text) {
        struct options_build *build = arg;
        const struct option *row = guest_setting_row(flag);

        if (!row)
                return err_set(build->err, EINVAL, "the guest was made with --%s, which this Bailey does not know",
                               flag);

        return option_set(build->values, row, str_of(text), "guest", build->err);
}

struct grant_around {
        const char *path;
        bool write;
};

/* In the order of paths: the innermost comes last. */
static int options_around(void *arg, const struct guest_grant *grant) {
        struct grant_around *around = arg;

        if (strcmp(around->path, grant->path) != 0 && path_is_within(around->path, grant->path))
                around->write = grant->write;
        return 0;
}

/* Reading alone, inside a grant for writing. A guest with the host user's id has no access list that says so. */
static int options_narrow(struct options_build *build, const char *path) {
        struct grant_around around = { .path = path };
        int r = guests_db_grants(build->guests->db, build->guest->row.id, options_around, &around, build->err);

        if (r < 0 || !around.write)
                return r;

        return option_set(build->values, &policy_rows[ROW_DENY_WRITE], str_of(path), "guest grant", build->err);
}

/* The guest may have put a link on the way to it: what that leads to was never granted. */
static int options_grant(void *arg, const struct guest_grant *grant) {
        struct options_build *build = arg;
        cleanup(free_ptr) char *real = realpath(grant->path, NULL);

        if (!real || strcmp(real, grant->path) != 0) {
                log_warning("%s was granted, but is not given: %s", grant->path,
                            real ? "a link is on the way to it now" : strerror(errno));
                return 0;
        }

        int r = option_set(build->values, &policy_rows[grant->write ? ROW_WRITE : ROW_READ], str_of(grant->path),
                           "guest grant", build->err);
        if (r < 0 || grant->write)
                return r;

        return options_narrow(build, grant->path);
}

/* "~" at the beginning of a value stands for the home, which is the same path inside. */
static int options_variable(void *arg, const char *name, const char *value) {
        struct options_build *build = arg;
        const char *home = path_home();
        bool short_home = home && value[0] == '~' && (value[1] == '/' || !value[1]);
        cleanup(free_ptr) char *text =
            short_home ? str_format("%s=%s%s", name, home, value + 1) : str_format("%s=%s", name, value);

        if (!text)
                return err_memory(build->err);
        if (strcmp(name, VARIABLE_PATH_FRONT) != 0)
                return option_set(build->values, &policy_rows[ROW_ENV], str_of(text), "recipe", build->err);

        int r = 0;

        if (build->front.n)
                r = buf_add_char(&build->front, ':');

        if (r == 0)
                r = buf_add(&build->front, text + strlen(VARIABLE_PATH_FRONT "="));

        if (r < 0)
                return err_set(build->err, -r, "PATH is too long");

        return 0;
}

/* What recipes set: before everything else, so that the guest's own options count more. */
static int options_variables(struct guests *guests, const struct guest *guest, struct options_build *build,
                             struct err *err) {
        const char *path = getenv("PATH");
        int r = guests_db_variables(guests->db, guest->row.id, options_variable, build, err);

        if (r < 0 || !build->front.n)
                return r;

        cleanup(free_ptr) char *text = str_format("PATH=%.*s:%s", STR_FMT(buf_str(&build->front)),
                                                  path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
        if (!text)
                return err_memory(err);

        return option_set(build->values, &policy_rows[ROW_ENV], str_of(text), "recipe", err);
}

int guest_options(struct guests *guests, const struct guest *guest, const struct option_values *extra,
                  struct option_values *ret, struct err *err) {
        cleanup(option_values_done) struct option_values values = { 0 };
        struct options_build build = {
                .guests = guests, .guest = guest, .values = &values, .err = err, .front = BUF(FRONT_MAX)
        };
        int r = options_variables(guests, guest, &build, err);

        buf_done(&build.front);
        if (r == 0)
                r = guests_db_settings(guests->db, guest->row.id, options_setting, &build, err);
        if (r == 0)
                r = guests_db_grants(guests->db, guest->row.id, options_grant, &build, err);

        for (size_t i = 0; extra && i < extra->values.n && r == 0; i++) {
                const struct option_value *value = &extra->values.p[i];
                cleanup(free_ptr) char *text = NULL;

                r = guest_setting_text(value->option, value->text, &text, err);
                if (r == 0)
                        r = option_set(&values, value->option, str_of(text), value->origin, err);
        }

        if (r < 0)
                return r;

        *ret = values;
        values = (struct option_values){ 0 };

        return 0;
}

/*
 * The supervisor's process.
 */
struct start {
        const struct guest *guest;
        struct run_disk_news disk;
        char *hosts_file, *ca_bundle; /* absolute; NULL: none */
        char *groups;                 /* what is /etc/group inside; NULL: the machine's */
        struct option_values options;
        int listener, agent[2], log, run_lock, firewall;
        char id[RUN_ID_BYTES];
        char program[PATH_MAX];
};

static void start_done(struct start *start) {
        option_values_done(&start->options);
        free(start->hosts_file);
        free(start->ca_bundle);
        free(start->groups);
        start->hosts_file = start->ca_bundle = start->groups = NULL;
        close_fd(&start->listener);
        close_fd(&start->agent[0]);
        close_fd(&start->agent[1]);
        close_fd(&start->log);
        close_fd(&start->run_lock);
        close_fd(&start->firewall);
}

/* In the guest's directory, which only the host user can enter. */
static int listener_open(const struct guest *guest, int *ret, struct err *err) {
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        cleanup(close_fd) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        (void)unlinkat(guest->fd, "socket", 0);
        snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/socket", guest->fd);
        if (bind(fd, (struct sockaddr *)&name, sizeof name) < 0 || listen(fd, BACKLOG) < 0)
                return err_errno(err, "cannot listen at %s/socket", guest->directory);

        *ret = take_fd(&fd);
        return 0;
}

/* On a full disk a guest starts all the same: only what makes terminals misses it. */
static void start_groups(struct start *start) {
        struct err why = { 0 };

        if (guest_groups_write(start->guest, &start->groups, &why) < 0)
                log_notice("the guest sees this machine's groups: %s", err_text(&why));
}

static int start_prepare(struct guests *guests, struct guest *guest, const struct guest_extra *extra,
                         struct start *start, struct err *err) {
        ssize_t n = readlink("/proc/self/exe", start->program, sizeof start->program - 1);
        int r = guest_options(guests, guest, extra ? extra->options : NULL, &start->options, err);

        if (r < 0)
                return r;
        if (n <= 0)
                return err_errno(err, "cannot find out where this program is (/proc/self/exe)");

        start->program[n] = '\0';
        if (extra && ((extra->hosts_file && !(start->hosts_file = realpath(extra->hosts_file, NULL))) ||
                      (extra->ca_bundle && !(start->ca_bundle = realpath(extra->ca_bundle, NULL)))))
                return err_errno(err, "cannot open the file of --hosts or --ca-bundle");

        start->guest = guest;
        random_id(start->id, sizeof start->id);
        start_groups(start);
        r = listener_open(guest, &start->listener, err);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, start->agent) < 0)
                return err_errno(err, "cannot make a socket");

        start->log = openat(guest->fd, "run.log", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (start->log < 0)
                return err_errno(err, "cannot open %s/run.log", guest->directory);

        return 0;
}

/* The guest is at rest again; whoever looks at it next need not find that out. */
static void run_record_end(const char *id, enum run_end end, int status, const struct err *why) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        struct err err = { 0 };
        char reason[ERR_TEXT_MAX];

        if (end == RUN_ENDED)
                snprintf(reason, sizeof reason, "ended with status %d", status);
        else
                snprintf(reason, sizeof reason, "%s", err_text(why));

        if (guests_open_as_is(&guests, &err) < 0 || guest_find(&guests, id, &guest, &err) < 0 ||
            guest_hold(&guests, &guest, END_WAIT_MS, &err) < 0)
                return; /* the next command finds out */

        (void)unlinkat(guest.fd, "socket", 0);
        (void)unlinkat(guest.fd, "run.id", 0);
        if (guest.state == GUEST_RUNNING && guests_db_lose_jobs(guests.db, id, &err) == 0)
                (void)guest_move(&guests, &guest, STEP_END, reason, NULL, NULL, &err);
}

/* The agent inside inherits standard output and error: neither may be a file of the host's. What the supervisor says
 * goes into the log by a descriptor of its own. */
static int run_redirect(const struct start *start) {
        const struct log_settings settings = {
                .level = LOG_NOTICE, .fd = start->log, .program = "bailey", .per_second = 200
        };
        cleanup(close_fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (null < 0 || chdir("/") < 0 || dup2(start->agent[1], STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
            dup2(null, STDERR_FILENO) < 0)
                return -errno;

        log_setup(&settings);
        return 0;
}

/* The kernel's part in the limit of disk: no file is larger than all of them may be. */
static uint64_t start_largest_file(const struct run_disk_news *disk) {
        if (disk->cleaning)
                return 0;
        if (disk->limit)
                return disk->limit;

        return AGENT_FILE_ANY;
}

static int start_make_point(void *arg, const char *path, bool directory, struct err *err) {
        return guest_point_make(arg, path, directory, err);
}

static _Noreturn void run_main(struct start *start) {
        char idle[32], largest[32];
        struct err err = { 0 };
        int status = 0;
        const struct run_disk_start disk = {
                .calls = &guest_disk_calls, .arg = (void *)start->guest, .home = start->guest->fd, .found = start->disk
        };
        const struct run_guest guest = { .name = start->guest->row.name,
                                         .home = start->guest->home,
                                         .ids = start->guest->kind == GUEST_OWN ? NULL : &start->guest->ids,
                                         .program = start->program,
                                         .groups = start->groups,
                                         .listener = start->listener,
                                         .agent = start->agent[0],
                                         .disk = &disk,
                                         .make_point = start_make_point,
                                         .arg = (void *)start->guest,
                                         .firewall = start->firewall };

        snprintf(idle, sizeof idle, "%ju", (uintmax_t)start->guest->row.idle_s);
        snprintf(largest, sizeof largest, "%ju", (uintmax_t)start_largest_file(&start->disk));
        char *argv[] = { (char *)RUN_GUEST_PROGRAM, (char *)"guest-agent", idle, largest, NULL };
        const struct run_request request = {
                .options = &start->options,
                .argv = argv,
                .hosts_file = start->hosts_file,
                .ca_bundle = start->ca_bundle,
                .quiet = true,
                .id = start->id,
                .guest = &guest,
        };

        (void)setsid();
        (void)signal(SIGHUP, SIG_IGN);

        if (run_redirect(start) < 0)
                _exit(125);

        close_fd(&start->agent[1]);
        enum run_end end = run_command(&request, &status, &err);
        if (end != RUN_ENDED)
                dprintf(start->log, "bailey: %s\n", err_text(&err));

        close_fd(&start->listener);
        run_record_end(start->guest->row.id, end, status, &err);
        _exit(end == RUN_ENDED ? 0 : 1);
}

/* The last lines of what it said. */
static int start_failed(const struct guest *guest, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(1 << 20);
        cleanup(close_fd) int fd = openat(guest->fd, "run.log", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0)
                (void)fd_read_all(fd, &text);

        struct str tail = buf_str(&text);
        if (tail.n > 600)
                tail = str_skip(tail, tail.n - 600);

        while (tail.n && tail.p[tail.n - 1] == '\n')
                tail.n--;

        if (str_starts(tail, STR("bailey: ")))
                tail = str_skip(tail, 8);

        err_blame(err, ERR_UNAVAILABLE);
        return err_set(err, EIO, "the guest %s did not start: %.*s", guest->row.name,
                       STR_FMT(tail.n ? tail : STR("it said nothing")));
}

static int run_id_write(const struct guest *guest, const char *id, pid_t pid, struct err *err) {
        cleanup(free_ptr) char *path = path_join(guest->directory, "run.id");
        cleanup(free_ptr) char *text = str_format("%s %d\n", id, (int)pid);

        if (!path || !text)
                return err_set(err, ENOMEM, "out of memory");
        return path_replace_file(path, str_of(text), 0600, err);
}

/* In a process that nobody waits for: it belongs to init, or to whoever reaps for it. */
static pid_t start_fork(struct start *start, struct guests *guests, struct guest *guest) {
        pid_t pid = fork();

        if (pid != 0)
                return pid;

        (void)setsid();
        close_fd(&guest->lock);
        if (guests->helper)
                close(guests->helper);

        pid_t supervisor = fork();
        if (supervisor == 0)
                run_main(start);

        struct err ignored = { 0 };
        if (supervisor > 0)
                (void)run_id_write(guest, start->id, supervisor, &ignored);

        _exit(supervisor < 0);
}

int guest_start(struct guests *guests, struct guest *guest, const struct guest_extra *extra, struct err *err) {
        cleanup(start_done) struct start start = {
                .guest = guest, .listener = -1, .agent = { -1, -1 }, .log = -1, .run_lock = -1, .firewall = -1
        };
        const char *doing = extra ? extra->doing : NULL;
        enum guest_state to;
        int status;
        int r = guest->state == GUEST_RUNNING ? -EALREADY : 0;

        if (r < 0)
                return err_set(err, EALREADY, "the guest %s runs already", guest->row.name);

        r = guest_step(STEP_START, guest->state, guest->before, guest->row.name, &to, err);
        if (r == 0)
                r = guest_home_make(guest, "home", err); /* the host user's way in, whatever the guest did to it */
        if (r == 0)
                r = guest_disk_check(guest, &start.disk, err);
        if (r == 0)
                r = guest_firewall_check(guest, err);
        if (r == 0 && guest->kind == GUEST_ACCOUNT)
                r = firewall_reader_watch(guest, &start.firewall, err);
        if (r == 0)
                r = guest_take_run_lock(guest, &start.run_lock, err);
        if (r == 0)
                r = guest_ports_close(guest, err);
        if (r == 0)
                r = start_prepare(guests, guest, extra, &start, err);
        if (r == 0)
                r = guest_move(guests, guest, STEP_START, "", doing, doing ? extra->note : NULL, err);
        if (r < 0)
                return r;

        guests_pause(guests);
        pid_t pid = start_fork(&start, guests, guest);
        if (pid < 0)
                return err_errno(err, "cannot make a process");

        start_done(&start); /* what its supervisor has is closed when it ends */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (!doing)
                guest_let_go(guest);

        r = guests_resume(guests, err);
        if (r < 0)
                return r;

        r = guest_ping(guest, NULL);
        if (r < 0)
                return start_failed(guest, err);

        return 0;
}

/*
 * The end.
 */
void guest_run_id(const struct guest *guest, char ret[static 32]) {
        cleanup(close_fd) int fd = guest->fd < 0 ? -1 : openat(guest->fd, "run.id", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        ssize_t n = 0;

        if (fd >= 0)
                n = read(fd, ret, 31);

        ret[n > 0 ? n : 0] = '\0';
        ret[strcspn(ret, " \n")] = '\0';
}

static bool wait_for_end(const struct guest *guest, unsigned ms) {
        const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
        uint64_t until = clock_ns() + (uint64_t)ms * NS_PER_MS;

        while (guest_is_running(guest)) {
                if (clock_ns() >= until)
                        return false;
                nanosleep(&pause, NULL);
        }

        return true;
}

static int control_order(const struct guest *guest, enum control_do what, struct err *err) {
        struct control_client client = { .fd = -1 };
        struct control_message reply = { 0 };
        const struct control_request request = { .what = what };
        char id[32];

        guest_run_id(guest, id);
        int r = control_client_open(id, "guest", &client, err);
        if (r < 0)
                return r;

        r = control_client_call(&client, &request, &reply, err);
        control_message_done(&reply);
        control_client_done(&client);

        return r;
}

int guest_freeze(const struct guest *guest, bool on, struct err *err) {
        return control_order(guest, on ? CONTROL_PAUSE : CONTROL_RESUME, err);
}

int guest_stop(const struct guest *guest, unsigned grace_s, struct err *err) {
        struct err ignored = { 0 };
        struct run_disk_news disk;

        if (!guest_is_running(guest))
                return 0;
        if (guest_disk_seen(guest, &disk) && disk.state != RUN_DISK_WELL && !disk.cleaning)
                grace_s = 0;                        /* it is frozen until it takes less, and hears nothing */
        (void)guest_freeze(guest, false, &ignored); /* one that is frozen hears nothing */
        if (grace_s && guest_ask_stop(guest, &ignored) == 0 && wait_for_end(guest, grace_s * 1000))
                return 0;

        (void)control_order(guest, CONTROL_KILL, &ignored);
        if (wait_for_end(guest, END_WAIT_MS))
                return 0;

        err_blame(err, ERR_TIMEOUT);
        return err_set(err, ETIMEDOUT, "the guest %s does not end; `bailey ps` shows its run", guest->row.name);
}
