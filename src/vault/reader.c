/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/reader.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secrets/secret.h"
#include "base/vec.h"
#include "vault/reader_os.h"
#include "vault/reader_places.h"
#include "vault/source.h"
#include "vault/vault_confine.h"
#include "vault/write_back.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAY_VARIABLE = 1, SAY_READ, SAY_LOCK, SAY_UNLOCK, SAY_WRITE, SAY_FOUND, SAY_FAILED, SAY_LOCKED, SAY_WRITTEN };
enum { TEXT_MAX = 3 * VAULT_SECRET_MAX + 64, JOB_ROOM = sizeof(uint32_t) + VAULT_SECRET_MAX };
enum { LOCK_STEP_MS = 20, OWED_STEP_MS = 1000 };
#define NEVER UINT64_MAX

/* On the socket: this, then the text. Both ends are the same program. */
struct head {
        uint32_t kind, mapping;
};

struct job {
        pid_t pid; /* 0: none runs */
        int from;
        uint64_t deadline_ns;
        size_t n;
        char *text; /* JOB_ROOM bytes: kind, then the text */
        bool again; /* it was asked for, or changed, while it was being read */
};

struct renewal {
        bool asked, held; /* it waits for the lock; it has it */
        struct renew_lock lock;
        char *owed; /* what the file could not take (SAY_WRITE's text), with the refresh token that it still has; or
                       NULL */
        uint64_t owed_since_ns, owed_next_ns;
};

struct state {
        const struct vault_start *start;
        const struct vault_mapping *mappings;
        struct job jobs[VAULT_MAPPINGS_MAX];
        VEC(char *) environment; /* NULL-terminated */
        int sock, notify;
        struct renewal renewals[VAULT_MAPPINGS_MAX]; /* by leader */
        uint64_t settle_ns;                          /* files changed: they are read then */
        struct watched files[VAULT_MAPPINGS_MAX];
};

static int reader_say(int sock, uint32_t kind, uint32_t mapping, struct str text) {
        char wire[sizeof(struct head) + TEXT_MAX];
        const struct head head = { kind, mapping };

        if (text.n > TEXT_MAX)
                return -EMSGSIZE;

        memcpy(wire, &head, sizeof head);
        if (text.n > 0)
                memcpy(wire + sizeof head, text.p, text.n);

        int r = fd_send(sock, str_n(wire, sizeof head + text.n), NULL, 0);
        secret_wipe(wire, sizeof head + text.n);

        return r;
}

/*
 * One reading, in a child. It writes what it found into a pipe that holds it whole, and ends.
 */
static _Noreturn void read_in_child(const struct state *state, uint32_t mapping, int to) {
        char text[VAULT_SECRET_MAX + 1];
        struct err err = { 0 };
        size_t n = 0;

        reader_end_with_parent();
        setsid();
        char *const none[] = { NULL };
        int r = source_read(state->start, &state->mappings[mapping], state->environment.n ? state->environment.p : none,
                            text, &n, &err);
        const uint32_t kind = r < 0 ? SAY_FAILED : SAY_FOUND;
        struct str told = r < 0 ? str_of(err_text(&err)) : str_n(text, n);

        if (fd_write_all(to, &kind, sizeof kind) == 0)
                (void)fd_write_all(to, told.p, told.n);

        _exit(0);
}

static void reader_begin(struct state *state, uint32_t mapping) {
        struct job *job = &state->jobs[mapping];
        int ends[2];

        if (job->pid) {
                job->again = true;
                return;
        }

        if (!job->text)
                job->text = malloc(JOB_ROOM);

        if (!job->text || pipe2(ends, O_CLOEXEC) < 0) {
                (void)reader_say(state->sock, SAY_FAILED, mapping, STR("out of memory or descriptors"));
                return;
        }

        reader_widen(ends[1]);
        pid_t pid = fork();
        if (pid == 0)
                read_in_child(state, mapping, ends[1]);

        close(ends[1]);

        if (pid < 0) {
                close(ends[0]);
                (void)reader_say(state->sock, SAY_FAILED, mapping, STR("no process could be made to read it"));
                return;
        }

        job->pid = pid;
        job->from = ends[0];
        job->n = 0;
        job->again = false;
        job->deadline_ns = clock_ns() + state->mappings[mapping].timeout_ns;
        (void)fd_set_nonblocking(job->from, true);
}

/* The reading and all that it started. */
static void end_job(struct job *job) {
        kill(-job->pid, SIGKILL);
        kill(job->pid, SIGKILL);
        while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        close(job->from);
        job->from = -1;
        job->pid = 0;
}

static void reader_finish(struct state *state, uint32_t mapping, struct str failure) {
        struct job *job = &state->jobs[mapping];
        uint32_t kind = 0;

        end_job(job);
        if (job->n >= sizeof kind)
                memcpy(&kind, job->text, sizeof kind);

        if (failure.n > 0)
                (void)reader_say(state->sock, SAY_FAILED, mapping, failure);
        else if (kind == SAY_FOUND || kind == SAY_FAILED)
                (void)reader_say(state->sock, kind, mapping, str_n(job->text + sizeof kind, job->n - sizeof kind));
        else
                (void)reader_say(state->sock, SAY_FAILED, mapping, STR("the process that read it died"));

        secret_wipe(job->text, JOB_ROOM);
        if (job->again)
                reader_begin(state, mapping);
}

static void reader_collect(struct state *state, uint32_t mapping) {
        struct job *job = &state->jobs[mapping];

        for (;;) {
                ssize_t got = 0;

                if (job->n < JOB_ROOM)
                        got = read(job->from, job->text + job->n, JOB_ROOM - job->n);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0 && errno == EAGAIN)
                        return;
                if (got <= 0)
                        break;

                job->n += (size_t)got;
        }

        reader_finish(state, mapping, STR(""));
}

/* Files that change: everything that was waiting counts as one change. */
static void read_notes(struct state *state) {
        reader_notes_read(state->notify, state->files, state->start->n_mappings);
        state->settle_ns = clock_ns() + reader_settle_ns;
}

/*
 * Renewals of sign-ins.
 *
 * A file that cannot take new tokens (its disk is full) still has the old ones, which their provider takes no more.
 * Until it can, the tokens are owed: the file is not read, so that what the vault has counts, and it is tried again.
 */

/* "EXPIRES\nOLD\nMEMBER VALUE\n..." */
static bool split_renewed(struct str text, struct write_back *back) {
        struct str number;

        if (!str_split(&text, '\n', &number) || !str_split(&text, '\n', &back->old) ||
            !str_to_u64(number, UINT64_MAX, &back->expires_in))
                return false;

        back->lines = text;
        return true;
}

static void forget_owed(struct renewal *renewal) {
        if (renewal->owed)
                secret_wipe(renewal->owed, strlen(renewal->owed));
        free(renewal->owed);
        renewal->owed = NULL;
}

/* Without memory it is forgotten, and the file counts again. */
static void note_owed(struct renewal *renewal, const struct write_back *back) {
        char *text = str_format("%llu\n%.*s\n%.*s", (unsigned long long)back->expires_in, STR_FMT(back->old),
                                STR_FMT(back->lines));

        forget_owed(renewal);
        renewal->owed = text;
        renewal->owed_since_ns = clock_ns();
        renewal->owed_next_ns = renewal->owed_since_ns + OWED_STEP_MS * NS_PER_MS;
}

/* True: nothing is owed any more. Somebody who renewed it meanwhile, or took the file away, has the last word. */
static bool pay_owed(struct state *state, uint32_t leader) {
        struct renewal *renewal = &state->renewals[leader];
        struct write_back back = { .mappings = state->mappings, .n = state->start->n_mappings, .leader = leader };
        enum write_back_result result = WRITE_BACK_DONE;
        struct err why = { 0 };

        if (!renewal->owed || !split_renewed(str_of(renewal->owed), &back))
                return true;

        uint64_t passed = (clock_ns() - renewal->owed_since_ns) / NS_PER_SECOND;
        if (back.expires_in) /* 0: it has no end */
                back.expires_in = back.expires_in > passed ? back.expires_in - passed : 1;

        renewal->owed_next_ns = clock_ns() + OWED_STEP_MS * NS_PER_MS;
        if (write_back(&back, &result, &why) < 0)
                return false;

        forget_owed(renewal);
        return true;
}

/* When it is due, and nobody else holds the file: an agent's own renewal must not be written over. True: nothing is
 * owed any more. */
static bool pay_when_due(struct state *state, uint32_t leader) {
        struct renewal *renewal = &state->renewals[leader];
        char file[4096];
        struct err why = { 0 };

        if (renewal->held)
                return pay_owed(state, leader);
        if (renewal->asked || renewal->owed_next_ns > clock_ns())
                return false;

        renew_file(&state->mappings[leader], file);
        if (file[0] && renew_lock_try(&renewal->lock, state->start->lock_dir, file, &why) == 0) {
                renew_lock_release(&renewal->lock);
                renewal->owed_next_ns = clock_ns() + OWED_STEP_MS * NS_PER_MS;
                return false;
        }

        bool paid = pay_owed(state, leader);
        renew_lock_release(&renewal->lock);
        return paid;
}

static bool is_owed(struct state *state, uint32_t mapping) {
        for (uint32_t i = 0; i < state->start->n_mappings; i++)
                if (state->renewals[i].owed && renew_same_group(&state->mappings[mapping], &state->mappings[i]) &&
                    !pay_when_due(state, i))
                        return true;
        return false;
}

static void watch_file(struct state *state, uint32_t mapping) {
        struct watched *file = &state->files[mapping];
        char directory[PATH_MAX];

        if (file->path[0] == '\0' || state->notify < 0)
                return;

        reader_directory(file->path, directory);
        reader_notes_watch(state->notify, directory, file);
}

static void read_changed(struct state *state) {
        state->settle_ns = NEVER;
        for (uint32_t i = 0; i < state->start->n_mappings; i++)
                if (state->files[i].changed) {
                        state->files[i].changed = false;
                        watch_file(state, i);
                        if (!is_owed(state, i))
                                reader_begin(state, i);
                }
}

/* What its file has now: somebody else may have renewed it. In this process: the values pass through and are wiped. */
static void tell_group(struct state *state, uint32_t leader) {
        static char text[VAULT_SECRET_MAX + 1];
        char *const none[] = { NULL };

        for (uint32_t i = 0; i < state->start->n_mappings; i++) {
                const struct vault_mapping *mapping = &state->mappings[i];
                char file[4096];
                struct err why = { 0 };
                size_t n = 0;

                renew_file(mapping, file);
                if (!renew_same_group(mapping, &state->mappings[leader]) || file[0] == '\0')
                        continue;
                if (source_read(state->start, mapping, none, text, &n, &why) == 0)
                        (void)reader_say(state->sock, SAY_FOUND, i, str_n(text, n));

                secret_wipe(text, sizeof text);
        }
}

static void try_lock(struct state *state, uint32_t leader) {
        struct renewal *renewal = &state->renewals[leader];
        char file[4096];
        struct err why = { 0 };

        renew_file(&state->mappings[leader], file);
        int r = file[0] ? renew_lock_try(&renewal->lock, state->start->lock_dir, file, &why) : 1;
        if (r == 0)
                return;
        if (r < 0) /* without a lock rather than not at all */
                log_warning("%s", err_text(&why));

        renewal->asked = false;
        renewal->held = true;
        if (pay_owed(state, leader))
                tell_group(state, leader);
        (void)reader_say(state->sock, SAY_LOCKED, leader, STR(""));
}

static void source_unlock(struct state *state, uint32_t leader) {
        renew_lock_release(&state->renewals[leader].lock);
        state->renewals[leader].asked = state->renewals[leader].held = false;
}

static void write_group(struct state *state, uint32_t leader, struct str text) {
        struct renewal *renewal = &state->renewals[leader];
        struct write_back back = { .mappings = state->mappings, .n = state->start->n_mappings, .leader = leader };
        struct write_back owed = { 0 };
        enum write_back_result result = WRITE_BACK_DONE;
        struct err why = { 0 };
        int r = -EINVAL;

        if (split_renewed(text, &back)) {
                if (renewal->owed && split_renewed(str_of(renewal->owed), &owed))
                        back.old = owed.old; /* the file has that one, not the one that was sent */

                r = write_back(&back, &result, &why);
                if (r < 0)
                        note_owed(renewal, &back);
                else
                        forget_owed(renewal);
        }

        if (r == 0 && result == WRITE_BACK_NEWER)
                tell_group(state, leader);

        source_unlock(state, leader);
        const char *said = r < 0 ? err_text(&why) : "";

        if (r == 0 && result == WRITE_BACK_NEWER)
                said = "newer";
        else if (r == 0 && result == WRITE_BACK_GONE)
                said = "gone";

        (void)reader_say(state->sock, SAY_WRITTEN, leader, str_of(said));
}

static bool obey_renewal(struct state *state, uint32_t kind, uint32_t leader, struct str text) {
        switch (kind) {
        case SAY_LOCK:
                state->renewals[leader].asked = true;
                try_lock(state, leader);
                return true;
        case SAY_UNLOCK:
                source_unlock(state, leader);

                return true;
        case SAY_WRITE:
                write_group(state, leader, text);
                return true;
        default:
                return false;
        }
}

static void step_renewals(struct state *state) {
        for (uint32_t i = 0; i < state->start->n_mappings; i++) {
                if (state->renewals[i].asked)
                        try_lock(state, i);
                if (state->renewals[i].held)
                        renew_lock_touch(&state->renewals[i].lock);
                else if (state->renewals[i].owed && pay_when_due(state, i))
                        tell_group(state, i); /* somebody else's tokens may be in the file */
        }
}

static bool renewals_wait(const struct state *state) {
        for (uint32_t i = 0; i < state->start->n_mappings; i++)
                if (state->renewals[i].asked || state->renewals[i].lock.agent[0])
                        return true;
        return false;
}

/*
 * The loop.
 */
static int add_variable(struct state *state, struct str text) {
        char *copy = str_dup(text);
        if (!copy)
                return -ENOMEM;
        if (state->environment.n > 0)
                state->environment.n--; /* the NULL at the end */
        if (vec_push(&state->environment, copy) < 0 || vec_push(&state->environment, NULL) < 0)
                return -ENOMEM;

        return 0;
}

/* False: the vault has gone, or is broken. */
static bool reader_obey(struct state *state) {
        static char room[VAULT_MESSAGE_MAX];
        struct head head;
        size_t none;
        int fd = -1;
        ssize_t n = fd_receive(state->sock, room, sizeof room, &fd, 1, &none);
        if (n == -EAGAIN)
                return true;
        if (n < (ssize_t)sizeof head || fd >= 0)
                return false;

        memcpy(&head, room, sizeof head);
        if (head.kind == SAY_VARIABLE)
                return add_variable(state, str_n(room + sizeof head, (size_t)n - sizeof head)) == 0;
        if (head.mapping >= state->start->n_mappings)
                return false;

        if (head.kind != SAY_READ) {
                bool good =
                    obey_renewal(state, head.kind, head.mapping, str_n(room + sizeof head, (size_t)n - sizeof head));

                secret_wipe(room, sizeof room);
                return good;
        }

        watch_file(state, head.mapping);
        reader_begin(state, head.mapping);

        return true;
}

static int time_left(const struct state *state) {
        uint64_t next = state->settle_ns, now = clock_ns();

        for (uint32_t i = 0; i < state->start->n_mappings; i++)
                if (state->jobs[i].pid && state->jobs[i].deadline_ns < next)
                        next = state->jobs[i].deadline_ns;

        for (uint32_t i = 0; i < state->start->n_mappings; i++) {
                const struct renewal *renewal = &state->renewals[i];
                bool pays = renewal->owed && !renewal->asked && !renewal->held; /* else the lock comes or goes first */

                if (pays && renewal->owed_next_ns < next)
                        next = renewal->owed_next_ns;
        }

        if (renewals_wait(state) && now + LOCK_STEP_MS * NS_PER_MS < next)
                next = now + LOCK_STEP_MS * NS_PER_MS;
        if (next == NEVER)
                return -1;

        if (next <= now)
                return 0;

        return (int)((next - now) / NS_PER_MS + 1);
}

static void check_deadlines(struct state *state) {
        uint64_t now = clock_ns();
        char text[96], limit[24];

        for (uint32_t i = 0; i < state->start->n_mappings; i++)
                if (state->jobs[i].pid && state->jobs[i].deadline_ns <= now) {
                        clock_duration_text(state->mappings[i].timeout_ns, limit);
                        snprintf(text, sizeof text, "it took longer than %s and was ended", limit);
                        reader_finish(state, i, str_of(text));
                }
}

static void reader_serve(struct state *state) {
        static struct pollfd fds[2 + VAULT_MAPPINGS_MAX];
        static uint32_t owners[VAULT_MAPPINGS_MAX];

        for (;;) {
                nfds_t n = 2;

                fds[0] = (struct pollfd){ .fd = state->sock, .events = POLLIN };
                fds[1] = (struct pollfd){ .fd = state->notify, .events = POLLIN };

                for (uint32_t i = 0; i < state->start->n_mappings; i++)
                        if (state->jobs[i].pid) {
                                owners[n - 2] = i;
                                fds[n++] = (struct pollfd){ .fd = state->jobs[i].from, .events = POLLIN };
                        }

                if (poll(fds, n, time_left(state)) < 0 && errno != EINTR)
                        return;

                for (nfds_t i = 2; i < n; i++)
                        if (fds[i].revents)
                                reader_collect(state, owners[i - 2]);

                check_deadlines(state);
                if (fds[1].revents)
                        read_notes(state);
                if (state->settle_ns <= clock_ns())
                        read_changed(state);

                step_renewals(state);
                if (fds[0].revents && !reader_obey(state))
                        return;
        }
}

static int give_up(const struct vault_start *start, const struct vault_mapping *mappings, bool programs,
                   struct err *err) {
        cleanup(reader_places_done) struct reader_places places = { 0 };
        int r = reader_places_of(start, mappings, &places, err);

        return r < 0 ? r : confine_reader(programs, &places, err);
}

static _Noreturn void reader_run(const struct vault_start *start, const struct vault_mapping *mappings, int sock,
                                 pid_t parent) {
        static struct state s;
        struct err e = { 0 };
        bool programs = false;

        s = (struct state){ .start = start, .mappings = mappings, .sock = 3, .settle_ns = NEVER };
        reader_end_with_parent();

        if (getppid() != parent || dup2(sock, s.sock) < 0 || fcntl(s.sock, F_SETFD, FD_CLOEXEC) < 0 ||
            fd_close_from(s.sock + 1) < 0)
                _exit(1);

        s.notify = reader_notes_new();

        for (uint32_t i = 0; i < start->n_mappings; i++) {
                struct job *job = &s.jobs[i];

                programs |= source_runs_program(mappings[i].source);
                job->from = s.files[i].at[0] = s.files[i].at[1] = -1;
                s.renewals[i].lock = RENEW_LOCK;

                if (!source_path(start, mappings[i].source, s.files[i].path, sizeof s.files[i].path))
                        s.files[i].path[0] = '\0';
        }

        if (give_up(start, mappings, programs, &e) < 0) {
                log_error("%s", err_text(&e));
                _exit(1);
        }

        reader_serve(&s);

        for (uint32_t i = 0; i < start->n_mappings; i++)
                if (s.jobs[i].pid)
                        end_job(&s.jobs[i]);

        for (uint32_t i = 0; i < start->n_mappings; i++)
                source_unlock(&s, i);

        _exit(0);
}

/*
 * The vault's side.
 */
static bool is_needed(const struct vault_start *start, const struct vault_mapping *mappings) {
        for (uint32_t i = 0; i < start->n_mappings; i++)
                if (strncmp(mappings[i].source, "env:", 4) != 0 && strcmp(mappings[i].source, "memory") != 0)
                        return true;
        return false;
}

int reader_start(const struct vault_start *start, const struct vault_mapping *mappings, struct reader *ret,
                 struct err *err) {
        int ends[2];

        *ret = (struct reader){ .sock = -1 };
        if (!is_needed(start, mappings))
                return 0;
        int r = fd_pair_blocking(ends); /* the reader has nothing else to do, and what the vault asks for fits */
        if (r < 0)
                return err_set(err, -r, "cannot make the reader's socket: %s", strerror(-r));

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make the reader");
        if (pid == 0)
                reader_run(start, mappings, its, parent);

        ret->sock = take_fd(&ours);
        ret->pid = pid;

        return 0;
}

int reader_variable(const struct reader *reader, struct str variable, struct err *err) {
        int s = 0;

        if (reader->sock >= 0)
                s = reader_say(reader->sock, SAY_VARIABLE, 0, variable);

        if (s < 0)
                return err_set(err, -s, "the reader cannot be told anything: %s", strerror(-s));

        return 0;
}

int reader_ask(const struct reader *reader, uint32_t mapping, struct err *err) {
        int s = reader_say(reader->sock, SAY_READ, mapping, STR(""));
        if (s < 0)
                return err_set(err, -s, "the reader cannot be asked: %s", strerror(-s));

        return 0;
}

int reader_lock(const struct reader *reader, uint32_t leader, struct err *err) {
        int s = reader_say(reader->sock, SAY_LOCK, leader, STR(""));
        if (s < 0)
                return err_set(err, -s, "the reader cannot be asked: %s", strerror(-s));

        return 0;
}

void reader_unlock(const struct reader *reader, uint32_t leader) {
        (void)reader_say(reader->sock, SAY_UNLOCK, leader, STR(""));
}

int reader_write(const struct reader *reader, uint32_t leader, struct str old, struct str lines, uint64_t expires_in,
                 struct err *err) {
        struct buf text = BUF(TEXT_MAX);
        int s = buf_reserve(&text, TEXT_MAX - 1);

        if (s >= 0)
                s = buf_printf(&text, "%ju\n", (uintmax_t)expires_in);
        if (s >= 0)
                s = buf_append(&text, old);
        if (s >= 0)
                s = buf_add_char(&text, '\n');
        if (s >= 0)
                s = buf_append(&text, lines);
        if (s >= 0)
                s = reader_say(reader->sock, SAY_WRITE, leader, buf_str(&text));

        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);
        if (s < 0)
                return err_set(err, -s, "the reader cannot be told: %s", strerror(-s));

        return 0;
}

int reader_receive(const struct reader *reader, size_t n_mappings, char *room, struct reading *ret) {
        struct head head;
        cleanup(close_fd) int fd = -1;
        size_t none;
        ssize_t n = fd_receive(reader->sock, room, VAULT_MESSAGE_MAX, &fd, 1, &none);
        if (n <= 0) {
                if (n == -EAGAIN)
                        return -EAGAIN;

                if (n == 0 || n == -ECONNRESET)
                        return 0;

                return -EBADMSG;
        }
        if (n < (ssize_t)sizeof head || fd >= 0)
                return -EBADMSG;

        memcpy(&head, room, sizeof head);
        if (head.kind < SAY_FOUND || head.kind > SAY_WRITTEN || head.mapping >= n_mappings)
                return -EBADMSG;

        enum reading_kind kind = READ_VALUE;
        if (head.kind >= SAY_LOCKED)
                kind = head.kind == SAY_LOCKED ? READ_LOCKED : READ_WRITTEN;

        *ret = (struct reading){ .kind = kind,
                                 .mapping = head.mapping,
                                 .found = head.kind == SAY_FOUND,
                                 .text = str_n(room + sizeof head, (size_t)n - sizeof head) };
        return 1;
}
