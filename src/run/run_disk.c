/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_disk.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/usage.h"
#include "run/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        LOOK_MIN_MS = 50,
        LOOK_MAX_MS = 10000,    /* so long a new limit may wait; a guest at rest costs no more wake-ups than that */
        HELD_LOOK_MS = 500,     /* while it is frozen or is cleaned */
        HELD_WALK_PART = 10,    /* and then no more than this part of the time is spent on walks */
        SURE_WALK_PART = 3,     /* and of one that is frozen only to be measured this part */
        WALK_AGAIN_MS = 60000,  /* others may have freed what this one took */
        ACTIVE_CPU_US = 20000,  /* who did less since the last walk took nothing worth one */
        HOLD_PATIENCE_MS = 8000 /* until it is frozen */
};
#define FASTEST (4ULL << 30) /* bytes a second: no disk that a guest writes to is expected to be faster */
#define FASTEST_ENTRIES 400000ULL
#define CLEANING_SLACK (16ULL << 20)
#define CLEANING_SLACK_ENTRIES 4096ULL

/*
 * Pure.
 */
uint64_t run_disk_entries(uint64_t limit) {
        uint64_t entries = limit / RUN_DISK_PER_ENTRY;

        return entries < RUN_DISK_ENTRIES_MIN ? RUN_DISK_ENTRIES_MIN : entries;
}

enum run_disk_state run_disk_judge(const struct disk_usage *usage, uint64_t limit, bool low) {
        if (limit && usage->bytes > limit)
                return RUN_DISK_OVER;
        if (limit && usage->entries > run_disk_entries(limit))
                return RUN_DISK_ENTRIES;

        return low ? RUN_DISK_LOW : RUN_DISK_WELL;
}

int run_disk_text(const struct run_disk_news *news, struct buf *out) {
        char used[DISK_TEXT_MAX], limit[DISK_TEXT_MAX];

        disk_text(news->usage.bytes, used);
        disk_text(news->limit, limit);

        switch (news->state) {
        case RUN_DISK_OVER:
                return buf_printf(out, "its home takes %s, and its limit of disk is %s", used, limit);
        case RUN_DISK_ENTRIES:
                return buf_printf(out,
                                  "its home has %" PRIu64 " files and directories, and its limit of disk, %s, "
                                  "lets it have %" PRIu64,
                                  news->usage.entries, limit, run_disk_entries(news->limit));
        case RUN_DISK_LOW:
                return buf_add(out, "the host's disk is nearly full, and the rest is not for guests");
        case RUN_DISK_UNMEASURED:
                return buf_add(out, "what its home takes cannot be measured");
        default:
                return buf_printf(out, "its home takes %s", used);
        }
}

static uint64_t lost_since(uint64_t before, uint64_t now) {
        return before > now ? before - now : 0;
}

static struct disk_usage worst_since(const struct disk_usage *usage, const struct disk_room *then,
                                     const struct disk_room *now) {
        return (struct disk_usage){ .bytes = usage->bytes + lost_since(then->bytes, now->bytes),
                                    .entries = usage->entries + lost_since(then->entries, now->entries) };
}

/* How much the guest could take at most, if everything that was taken since the last walk was taken by it. */
static struct disk_usage disk_worst(const struct run_disk *disk, const struct disk_room *now) {
        return worst_since(&disk->news.usage, &disk->room, now);
}

/* Could it have taken its limit twice, and have hidden it from walks? */
static bool disk_is_doubtful(const struct run_disk *disk, const struct disk_room *now) {
        struct disk_usage worst = worst_since(&disk->sure, &disk->sure_room, now);
        uint64_t limit = disk->news.limit;

        if (!limit || disk->news.cleaning || disk->news.state != RUN_DISK_WELL || disk->walker)
                return false;
        if (worst.bytes / 2 <= limit && worst.entries / 2 <= run_disk_entries(limit))
                return false;

        return clock_ns() - disk->sure_ns > disk->sure_took_ns * SURE_WALK_PART;
}

static uint64_t time_to_take(uint64_t bytes, uint64_t entries) {
        uint64_t by_bytes = bytes / (FASTEST / 1000), by_entries = entries * 1000 / FASTEST_ENTRIES;
        uint64_t ms = by_bytes < by_entries ? by_bytes : by_entries;

        if (ms < LOOK_MIN_MS)
                return LOOK_MIN_MS;

        return ms > LOOK_MAX_MS ? LOOK_MAX_MS : ms;
}

/* The next look comes before the guest can have used up what it has left, and before the host's room is used up. */
static uint64_t disk_pause_ms(const struct run_disk *disk, const struct disk_room *now) {
        struct disk_usage floor = disk_floor(now), worst = disk_worst(disk, now);
        uint64_t to_floor = time_to_take(lost_since(now->bytes, floor.bytes), lost_since(now->entries, floor.entries));

        if (disk->doubted)
                return LOOK_MIN_MS;
        if (disk->news.state != RUN_DISK_WELL || disk->news.cleaning)
                return HELD_LOOK_MS;
        if (!disk->news.limit)
                return to_floor;

        uint64_t to_limit = time_to_take(lost_since(disk->news.limit, worst.bytes),
                                         lost_since(run_disk_entries(disk->news.limit), worst.entries));
        return to_limit < to_floor ? to_limit : to_floor;
}

/*
 * The walker.
 */
struct walked {
        int r;
        struct disk_usage usage;
        uint64_t limit;
};

/* Init is Bailey's own and shows nothing of itself; what it started does. 1 ends the search. */
static int walker_enter_process(void *arg, pid_t pid) {
        char path[64];

        (void)arg;
        snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
        cleanup(close_fd) int users = open(path, O_RDONLY | O_CLOEXEC);

        return users >= 0 && setns(users, CLONE_NEWUSER) == 0;
}

/* Into the namespace of the guest's users, which this user owns: only there are there rights over its processes. */
static void walker_enter(pid_t root) {
        (void)usage_each_process(root, USAGE_PROCESSES_MAX, walker_enter_process, NULL);
}

static _Noreturn void walker_main(const struct run *run, int result, pid_t parent) {
        const struct run_disk_start *start = run->q->guest->disk;
        struct walked walked = { .limit = run->disk.news.limit };
        struct err err = { 0 };

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);

        (void)setpriority(PRIO_PROCESS, 0, 10);
        walked.r = start->calls->measure(start->arg, &walked.usage, &walked.limit, &err);
        if (walked.r == 0)
                walked.r = disk_usage_add_nameless(run->sandbox.pid, start->home, walker_enter, &walked.usage);

        _exit(fd_write_all(result, &walked, sizeof walked) < 0);
}

static uint64_t disk_limit_stamp(const struct run *run) {
        const struct run_disk_start *start = run->q->guest->disk;

        return start->calls->limit_stamp(start->arg);
}

/* Asked for its stamp before it reads the limit: one that is set meanwhile has another. */
static int walker_start(struct run *run, const struct disk_room *room, struct err *err) {
        struct run_disk *disk = &run->disk;
        uint64_t stamp = disk_limit_stamp(run);
        struct usage used = { 0 };
        pid_t parent = getpid();
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        (void)usage_of_tree(run->sandbox.pid, &used);
        cleanup(close_fd) int reads = ends[0], writes = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process that measures the disk");
        if (pid == 0)
                walker_main(run, writes, parent);

        disk->walker = pid;
        disk->result = take_fd(&reads);
        disk->room = *room;
        disk->sure_walk = live_stands(run->session.control);
        disk->walked_ns = clock_ns();
        disk->cpu_us = used.cpu_us;
        disk->limit_stamp = stamp;

        return 0;
}

static void walker_end(struct run_disk *disk) {
        if (disk->walker <= 0)
                return;

        (void)kill(disk->walker, SIGKILL);
        while (waitpid(disk->walker, NULL, 0) < 0 && errno == EINTR)
                ;
        disk->walker = 0;
        close_fd(&disk->result);
}

void run_disk_done(struct run_disk *disk) {
        walker_end(disk);
}

/*
 * What follows from it.
 */
static void disk_tell(struct run *run, enum run_disk_state before) {
        const struct run_disk_start *start = run->q->guest->disk;
        cleanup(buf_done) struct buf why = BUF(512);

        start->calls->tell(start->arg, &run->disk.news);
        if (run->disk.news.state == before || run_disk_text(&run->disk.news, &why) < 0 || buf_add_char(&why, '\0') < 0)
                return;

        bool well = run->disk.news.state == RUN_DISK_WELL;
        const char *then = "it is frozen";
        if (run->disk.news.cleaning)
                then = "it can be cleaned";
        if (well)
                then = "it goes on";

        log_notice("disk: %s; %s", why.p, then);
        if (run->session.audit)
                (void)audit_note(run->session.audit, "disk: %s; %s", why.p, then);
}

static void disk_hold(struct run *run) {
        cleanup(buf_done) struct buf why = BUF(512);

        if (run->disk.news.state == RUN_DISK_WELL || run->disk.news.cleaning) {
                if (run->disk.held_ns)
                        live_disk(run->session.control, NULL);
                run->disk.held_ns = 0;
                return;
        }

        if (!run->disk.held_ns)
                run->disk.held_ns = clock_ns();
        if (run_disk_text(&run->disk.news, &why) == 0 && buf_add_char(&why, '\0') == 0)
                live_disk(run->session.control, why.p);
}

/* Frozen for one walk. Nothing is wrong yet: who enters meanwhile waits a moment. */
static void disk_doubt(struct run *run) {
        run->disk.doubted = true;
        run->disk.news.state = RUN_DISK_UNMEASURED;
        disk_hold(run);
}

static void disk_use(struct run *run, enum run_disk_state state) {
        enum run_disk_state before = run->disk.doubted ? RUN_DISK_WELL : run->disk.news.state;

        run->disk.doubted = false;
        run->disk.news.state = state;
        disk_tell(run, before);
        disk_hold(run);
}

/* While it is cleaned it may shrink; what it freed it may not take again. */
static int disk_check_cleaning(struct run *run, struct err *err) {
        struct run_disk *disk = &run->disk;

        if (!disk->news.cleaning)
                return 0;
        if (disk->news.usage.bytes < disk->least.bytes)
                disk->least.bytes = disk->news.usage.bytes;
        if (disk->news.usage.entries < disk->least.entries)
                disk->least.entries = disk->news.usage.entries;

        if (disk->news.usage.bytes <= disk->least.bytes + CLEANING_SLACK &&
            disk->news.usage.entries <= disk->least.entries + CLEANING_SLACK_ENTRIES)
                return 0;

        return err_set(err, EDQUOT, "it was to be cleaned, and takes more of the disk instead");
}

/* What was measured holds for certain if it was frozen from the beginning of the walk to its end. */
static void disk_note_sure(struct run_disk *disk) {
        disk->sure = disk->news.usage;
        disk->sure_room = disk->room;
        disk->sure_ns = clock_ns();
        disk->sure_took_ns = disk->sure_ns - (disk->doubted ? disk->held_ns : disk->walked_ns);
}

static int walker_read(struct run *run, struct err *err) {
        struct run_disk *disk = &run->disk;
        struct walked walked = { .r = -EIO };
        struct disk_room room = disk->room;

        if (fd_read_exact(disk->result, &walked, sizeof walked) < 0)
                walked.r = -EIO;

        walker_end(disk);
        disk->walk_took_ns = clock_ns() - disk->walked_ns;
        disk->due_ns = clock_ns(); /* when to look next depends on what was found */
        if (walked.r < 0) {
                /* Of a frozen one nothing changes: the next walk says how much it is. */
                log_info("disk: it cannot be measured: %s", strerror(-walked.r));
                if (!disk->sure_walk && disk->news.state == RUN_DISK_WELL && !disk->news.cleaning)
                        disk_doubt(run);
                else
                        disk_use(run, RUN_DISK_UNMEASURED);
                return 0;
        }

        disk->news.usage = walked.usage;
        disk->news.limit = walked.limit;
        if (disk->sure_walk && live_stands(run->session.control))
                disk_note_sure(disk);
        (void)disk_room(run->q->guest->disk->home, &room);
        disk_use(run, run_disk_judge(&disk->news.usage, disk->news.limit, disk_is_low(&room)));

        return disk_check_cleaning(run, err);
}

static bool disk_wants_walk(const struct run *run, const struct disk_room *now) {
        const struct run_disk *disk = &run->disk;
        struct disk_usage worst = disk_worst(disk, now);
        struct usage used = { 0 };

        if (disk->walker)
                return false;
        if (disk->doubted)
                return live_stands(run->session.control);
        if (disk->news.cleaning || (disk->news.state != RUN_DISK_WELL && disk->news.state != RUN_DISK_LOW))
                return clock_ns() - disk->walked_ns > disk->walk_took_ns * HELD_WALK_PART;
        if (disk_limit_stamp(run) != disk->limit_stamp)
                return true;
        if (!disk->news.limit)
                return false;
        if (!disk->walked_ns || worst.bytes > disk->news.limit || worst.entries > run_disk_entries(disk->news.limit))
                return true;

        return clock_ns() - disk->walked_ns > WALK_AGAIN_MS * NS_PER_MS && usage_of_tree(run->sandbox.pid, &used) &&
               used.cpu_us > disk->cpu_us + ACTIVE_CPU_US;
}

static int disk_look(struct run *run, struct err *err) {
        struct run_disk *disk = &run->disk;
        struct disk_room now;

        if (disk_room(run->q->guest->disk->home, &now) < 0) {
                disk->due_ns = clock_after_ms(LOOK_MAX_MS);
                return 0;
        }

        if (!disk->sure_room.bytes_total)
                disk->sure_room = now;
        if (disk_is_doubtful(disk, &now))
                disk_doubt(run);

        bool low = disk_is_low(&now);
        if (low && disk->news.state == RUN_DISK_WELL)
                disk_use(run, RUN_DISK_LOW);
        else if (!low && disk->news.state == RUN_DISK_LOW)
                disk_use(run, RUN_DISK_WELL);

        int r = disk_wants_walk(run, &now) ? walker_start(run, &now, err) : 0;
        disk->due_ns = clock_after_ms((unsigned)disk_pause_ms(disk, &now));

        return r;
}

void run_disk_watch(void *arg, struct poller *poller) {
        const struct run *run = arg;

        if (!run->q->guest || !run->q->guest->disk)
                return;
        poller_watch(poller, run->disk.result, POLLIN);
        poller_until(poller, run->disk.due_ns);
}

int run_disk_step(void *arg, struct poller *poller, struct err *err) {
        struct run *run = arg;
        struct run_disk *disk = &run->disk;
        int r = 0;

        if (!run->q->guest || !run->q->guest->disk)
                return 0;

        if (!disk->due_ns) { /* the first time */
                disk->news = run->q->guest->disk->found;
                disk->least = disk->sure = disk->news.usage;
        }

        if (disk->result >= 0 && poller_ready(poller, disk->result))
                r = walker_read(run, err);
        if (r == 0 && clock_ns() >= disk->due_ns)
                r = disk_look(run, err);
        if (r < 0)
                return r;

        if (!disk->held_ns || live_stands(run->session.control))
                return 0;
        if (clock_ns() - disk->held_ns > HOLD_PATIENCE_MS * NS_PER_MS)
                return err_set(err, EDQUOT, "%s cannot be frozen",
                               disk->doubted ? "what it takes of the disk is not certain, and it"
                                             : "it is over its limit of disk and");

        disk_hold(run); /* the first attempt may have failed */
        return 0;
}
