/* SPDX-License-Identifier: Apache-2.0 */
/* bailey guest: snapshots, archives, copies, grants, ssh. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/verb_guest_internal.h"
#include "guest/guest_files.h"
#include "guest/guest_mend.h"
#include "guest/guest_pack.h"
#include "guest/guest_ssh.h"
#include "guest/guest_start.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DATA_JSON, DATA_ROWS };
static const struct option json_rows[] = {
        [DATA_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print for programs" },
};
static const struct option_table json_table = { "Options", json_rows, DATA_ROWS };

static void print_size(uint64_t bytes) {
        if (bytes >= 10 << 20)
                printf("%ju MiB", (uintmax_t)(bytes >> 20));
        else if (bytes >= 10 << 10)
                printf("%ju KiB", (uintmax_t)(bytes >> 10));
        else
                printf("%ju bytes", (uintmax_t)bytes);
}

/*
 * Snapshots.
 */
enum { SNAPSHOT_REMOVE, SNAPSHOT_ROWS };
static const struct option snapshot_rows[] = {
        [SNAPSHOT_REMOVE] = { .flag = "remove", .type = OPTION_FLAG, .help = "remove the snapshot with this label" },
};
static_assert(sizeof snapshot_rows / sizeof *snapshot_rows == SNAPSHOT_ROWS, "one row each");
static const struct option_table snapshot_table = { "Options", snapshot_rows, SNAPSHOT_ROWS };

static int run_snapshot(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        char now[CLOCK_TEXT_MAX];
        uint64_t bytes = 0;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        clock_text(clock_wall_us(), now);

        for (char *c = now; *c; c++)
                if (*c == ':')
                        *c = '-';

        now[19] = '\0';
        const char *label = call->argc > 1 ? call->argv[1] : now;

        if (option_get_flag(&call->options, &snapshot_rows[SNAPSHOT_REMOVE])) {
                if (call->argc < 2) {
                        err_set(err, EINVAL, "which snapshot? bailey guest snapshot --remove NAME LABEL");
                        return EXIT_USAGE;
                }

                return exit_of_guest(guest_snapshot_remove(&guests, &guest, label, err), err);
        }

        int r = guest_snapshot(&guests, &guest, label, &bytes, err);
        if (r < 0)
                return exit_of_guest(r, err);

        printf("%s: snapshot %s, ", guest.row.name, label);
        print_size(bytes);
        printf("\n");

        return EXIT_OK;
}

const struct verb verb_guest_snapshot = {
        .name = "snapshot",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME [LABEL]",
        .help = "keep a copy of a guest's home as it is now",
        .about =
            "A guest that runs stands still meanwhile. The copy is a tar file, compressed by zstd, beside the home. "
            "Without a label it gets the time as one.",
        .tables = { &snapshot_table },
        .min_words = 1,
        .max_words = 2,
        .run = run_snapshot,
};

static int show_snapshot(void *arg, const struct guest_snapshot *snapshot) {
        struct emit *j = arg;
        char at[CLOCK_TEXT_MAX];

        clock_text(snapshot->at_us, at);

        if (j) {
                emit_open(j, '{');
                emit_put_text(j, "label", snapshot->label);
                emit_put_text(j, "at", at);
                emit_put_number(j, "bytes", snapshot->bytes);
                emit_close(j);

                return 0;
        }

        at[19] = '\0';
        printf("%-24s %s  ", snapshot->label, at);
        print_size(snapshot->bytes);
        printf("\n");

        return 0;
}

static int show_grant(void *arg, const struct guest_grant *grant) {
        struct emit *j = arg;

        if (j) {
                emit_open(j, '{');
                emit_put_text(j, "path", grant->path);
                emit_put_text(j, "access", grant->write ? "rw" : "ro");
                emit_close(j);

                return 0;
        }

        printf("%s  %s\n", grant->write ? "rw" : "ro", grant->path);
        return 0;
}

static int list_print(const struct call *call, bool grants, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(buf_done) struct buf out = BUF(16 << 20);
        struct emit j = emit_to(&out);
        bool json = option_get_flag(&call->options, &json_rows[DATA_JSON]);
        int code = guest_open(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;
        if (json)
                emit_open(&j, '[');

        struct emit *to = json ? &j : NULL;
        int r = grants ? guests_db_grants(guests.db, guest.row.id, show_grant, to, err)
                       : guests_db_snapshots(guests.db, guest.row.id, show_snapshot, to, err);
        if (json)
                emit_close(&j);
        if (r == 0 && json && emit_status(&j) == 0)
                printf("%.*s\n", STR_FMT(buf_str(&out)));

        return exit_of_guest(r, err);
}

static int run_snapshots(const struct call *call, struct err *err) {
        return list_print(call, false, err);
}

const struct verb verb_guest_snapshots = {
        .name = "snapshots",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "list the snapshots of a guest",
        .tables = { &json_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_snapshots,
};

static int run_restore(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        int r = guest_restore(&guests, &guest, &guest, call->argv[1], err);
        if (r == 0)
                printf("%s: its home is that of %s\n", guest.row.name, call->argv[1]);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_restore = {
        .name = "restore",
        .flags = VERB_GUEST,
        .synopsis = "NAME LABEL",
        .help = "put a guest's home back to what a snapshot has",
        .about = "The home changes in one step, when the snapshot is whole beside it; what it was before is gone then. "
                 "The guest must not run. For a new guest with this home: bailey guest create --from NAME:LABEL.",
        .min_words = 2,
        .max_words = 2,
        .run = run_restore,
};

/*
 * Archives.
 */
static int run_archive(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        uint64_t bytes = 0;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        int r = guest_archive(&guests, &guest, &bytes, err);
        if (r < 0)
                return exit_of_guest(r, err);

        printf("%s: archived, ", guest.row.name);
        print_size(bytes);
        printf("\n");

        return EXIT_OK;
}

const struct verb verb_guest_archive = {
        .name = "archive",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "pack a guest's home away; unarchive brings it back",
        .min_words = 1,
        .max_words = 1,
        .run = run_archive,
};

static int run_unarchive(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        int r = guest_unarchive(&guests, &guest, err);
        if (r == 0)
                printf("%s: stopped\n", guest.row.name);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_unarchive = {
        .name = "unarchive",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "bring the home of an archived guest back",
        .min_words = 1,
        .max_words = 1,
        .run = run_unarchive,
};

/*
 * Files.
 */
/* "NAME:PATH": the part before the colon names a guest; a path with a slash before its colon is the host's. */
static char *copy_split(const char *word, const char **ret_path) {
        const char *colon = strchr(word, ':'), *slash = strchr(word, '/');

        if (!colon || (slash && slash < colon))
                return NULL;
        *ret_path = colon + 1;
        return str_dup(str_n(word, (size_t)(colon - word)));
}

static int run_cp(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        const char *from_path = NULL, *to_path = NULL;
        cleanup(free_ptr) char *from = copy_split(call->argv[0], &from_path);
        cleanup(free_ptr) char *to = copy_split(call->argv[1], &to_path);

        if (!from == !to) {
                err_set(err, EINVAL, "one of the two is in a guest: NAME:PATH");
                return EXIT_USAGE;
        }

        struct guest_copy copy = { .inside = to_path, .outside = call->argv[0] };
        if (from)
                copy = (struct guest_copy){ .inside = from_path, .outside = call->argv[1], .out = true };

        int r = guests_open(&guests, err);
        if (r == 0)
                r = guest_find(&guests, from ? from : to, &guest, err);
        if (r == 0)
                r = guest_hold(&guests, &guest, HOLD_MS, err);
        if (r == 0)
                r = guest_copy(&guest, &copy, err);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_cp = {
        .name = "cp",
        .synopsis = "NAME:PATH PATH | PATH NAME:PATH",
        .help = "copy files and directories into a guest's home or out of it",
        .about = "No link is followed, on neither side: a link is copied as a link. What is there already is not "
                 "replaced. Sockets, devices and the like are left out.",
        .min_words = 2,
        .max_words = 2,
        .run = run_cp,
};

static int run_grant(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(free_ptr) char *path = str_dup(str_of(call->argv[1]));
        bool write = false;
        int code = path ? guest_open_held(call, &guests, &guest, err) : EXIT_SYSTEM;

        if (code != EXIT_OK)
                return code;

        char *colon = strrchr(path, ':');
        if (colon && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
                write = colon[2] == 'w';
                *colon = '\0';
        }

        int r = guest_grant(&guests, &guest, path, write, err);
        const char *when = guest.state == GUEST_RUNNING ? " from its next start on" : "";
        if (r == 0)
                printf("%s may %s %s%s\n", guest.row.name, write ? "read and write" : "read", path, when);

        return exit_of_guest(r, err);
}

const struct verb verb_guest_grant = {
        .name = "grant",
        .flags = VERB_GUEST,
        .synopsis = "NAME PATH[:ro|:rw]",
        .help = "give a guest a directory of this machine, for reading or for writing as well",
        .about =
            "Inside it has the same path, from the next start on. A guest with a user id of its own is named in the "
            "access lists of what lies there, and of what comes later; directories on the way to it stay closed. A "
            "whole home, places of keys and Bailey's own files cannot be granted. What is protected in a workspace "
            "(.git/hooks and the like) is protected there too.",
        .min_words = 2,
        .max_words = 2,
        .run = run_grant,
};

static int run_revoke(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;
        return exit_of_guest(guest_revoke(&guests, &guest, call->argv[1], err), err);
}

const struct verb verb_guest_revoke = {
        .name = "revoke",
        .flags = VERB_GUEST,
        .synopsis = "NAME PATH",
        .help = "take a granted directory back",
        .about =
            "At once for a guest with a user id of its own, but for files that it has open; one with yours keeps it "
            "until it is stopped. What the guest made there belongs to you afterwards, and nobody else may write "
            "it; access lists of what was there are as they were before.",
        .min_words = 2,
        .max_words = 2,
        .run = run_revoke,
};

static int run_grants(const struct call *call, struct err *err) {
        return list_print(call, true, err);
}

const struct verb verb_guest_grants = {
        .name = "grants",
        .flags = VERB_GUEST,
        .synopsis = "[OPTIONS] NAME",
        .help = "list what a guest was given",
        .tables = { &json_table },
        .min_words = 1,
        .max_words = 1,
        .run = run_grants,
};

static int run_ssh_config(const struct call *call, struct err *err) {
        cleanup(guests_close) struct guests guests = { 0 };
        cleanup(guest_done) struct guest guest = GUEST_NONE;
        cleanup(buf_done) struct buf out = BUF(64 << 10);
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        int code = guest_open_held(call, &guests, &guest, err);

        if (code != EXIT_OK)
                return code;

        self[n > 0 ? n : 0] = '\0';
        int r = guest_ssh_config(&guest, self, &out, err);
        if (r == 0)
                printf("%.*s", STR_FMT(buf_str(&out)));

        return exit_of_guest(r, err);
}

const struct verb verb_guest_ssh_config = {
        .name = "ssh-config",
        .flags = VERB_GUEST,
        .synopsis = "NAME",
        .help = "print an entry for ssh, so that editors connect to a guest",
        .about =
            "Append it to ~/.ssh/config; then \"ssh NAME.bailey\", and editors that connect by ssh, work inside the "
            "guest. "
            "No port is opened: ssh runs \"bailey guest exec\", which runs sshd inside on its standard input. The keys "
            "are for this guest alone.",
        .min_words = 1,
        .max_words = 1,
        .run = run_ssh_config,
};
