/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_jobs.h"

#include "base/bounds.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMAND_TEXT_MAX = 4096 };

struct job {
        const struct guest *guest;
        const struct guest_command *command;
        uint64_t number;
        int word; /* to whoever started it; -1: told */
};

/* What the keeper says, once. */
struct first_word {
        int result, status;
        struct err err;
};

static void job_tell(struct job *job, int result, int status, const struct err *err) {
        struct first_word word = { .result = result, .status = status };

        if (job->word < 0)
                return;
        if (err)
                word.err = *err;

        (void)fd_write_all(job->word, &word, sizeof word);
        close_fd(&job->word);
}

static void job_started(void *arg) {
        job_tell(arg, 0, 0, NULL);
}

static int job_open_log(const struct guest *guest, uint64_t number, int flags, struct err *err) {
        char path[64];

        snprintf(path, sizeof path, "jobs/%ju.log", (uintmax_t)number);
        int fd = guest->fd < 0 ? -1 : openat(guest->fd, path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return err_errno(err, "cannot open %s/%s", guest->directory, path);
        return fd;
}

/* With a connection of its own to the database: that of whoever started it is not for two processes. */
static void job_record(const struct job *job, int result, int status) {
        cleanup(guests_close) struct guests guests = { 0 };
        struct err err = { 0 };

        if (guests_open_as_is(&guests, &err) < 0)
                return;

        if (result < 0)
                (void)guests_db_end_job(guests.db, job->guest->row.id, job->number, "lost", 137, &err);
        else
                (void)guests_db_end_job(guests.db, job->guest->row.id, job->number, "ended", status, &err);
}

static _Noreturn void keeper_main(struct job *job) {
        struct guest_command command = *job->command;
        struct err err = { 0 };
        int status = 0;

        (void)setsid();
        (void)signal(SIGHUP, SIG_IGN);
        int log = job_open_log(job->guest, job->number, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, &err);
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (log < 0 || nothing < 0 || chdir("/") < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 ||
            dup2(nothing, 2) < 0) {
                job_tell(job, -EIO, 0, &err);
                _exit(1);
        }

        command.input = -1;
        command.output = command.errors = log;
        command.output_max = JOB_LOG_MAX;
        command.terminal = false;

        int r = guest_exec(job->guest, &command, job_started, job, &status, &err);
        job_record(job, r, status);
        job_tell(job, r, status, &err); /* it never ran */
        _exit(0);
}

static int command_text(char *const *argv, struct buf *ret) {
        int r = 0;

        for (char *const *word = argv; *word && r == 0; word++) {
                if (word == argv)
                        r = 0;
                else
                        r = buf_add_char(ret, ' ');
                struct str text = str_of(*word);
                if (r == 0)
                        r = buf_append(ret, str_first(text, min_of(text.n, 1000)));
        }

        if (r == -EMSGSIZE)
                return 0;

        return r;
}

static int job_spawn(struct job *job, int *ret_status, struct err *err) {
        struct first_word word;
        int ends[2], status;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int reads = ends[0], writes = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");

        if (pid == 0) {
                job->word = take_fd(&writes);
                close_fd(&reads);
                if (fork() == 0)
                        keeper_main(job);

                _exit(0);
        }

        close_fd(&writes);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;

        if (fd_read_exact(reads, &word, sizeof word) < 0)
                return err_set(err, ECHILD, "the job's keeper ended early");

        word.err.text[sizeof word.err.text - 1] = '\0';
        *ret_status = word.status;
        if (word.result < 0 || word.status)
                (void)err_set(err, word.err.code ? word.err.code : EIO, "%s", err_text(&word.err));

        return word.result;
}

int guest_job_start(struct guests *guests, const struct guest *guest, const struct guest_command *command,
                    uint64_t *ret_number, int *ret_status, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(COMMAND_TEXT_MAX);
        struct job job = { .guest = guest, .command = command, .word = -1 };

        if (mkdirat(guest->fd, "jobs", 0700) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s/jobs", guest->directory);
        if (command_text(command->argv, &text) < 0 || !buf_text(&text))
                return err_set(err, ENOMEM, "out of memory");

        int r = guests_db_add_job(guests->db, guest->row.id, buf_text(&text), &job.number, err);
        if (r < 0)
                return r;

        *ret_number = job.number;
        guests_pause(guests);
        r = job_spawn(&job, ret_status, err);

        struct err ignored = { 0 };
        int resumed = guests_resume(guests, r < 0 ? &ignored : err);
        if (resumed < 0 && r < 0)
                return r;
        if (resumed < 0)
                return resumed;

        if (r < 0) {
                (void)guests_db_end_job(guests->db, guest->row.id, job.number, "lost", 137, &ignored);
        }

        return r;
}

int guest_job_log(const struct guest *guest, uint64_t number, int *ret_fd, struct err *err) {
        int fd = job_open_log(guest, number, O_RDONLY, err);

        if (fd == -ENOENT)
                return err_set(err, ENOENT, "job %ju never began: the command that started it was ended",
                               (uintmax_t)number);
        if (fd < 0)
                return fd;
        *ret_fd = fd;
        return 0;
}
