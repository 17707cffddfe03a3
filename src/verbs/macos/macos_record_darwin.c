/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_record.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "sandbox/darwin/os.h"
#include "store/audit_place.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define ORIGIN "built in: Bailey's own records"

/* Takes the path, which is canonical. */
static int hide_path(struct policy *policy, char *given, struct err *err) {
        cleanup(free_ptr) char *path = given;
        if (!path)
                return err_memory(err);
        if (strpbrk(path, "*?[]{}\\"))
                return err_set(err, EINVAL, "the record's place %s has a sign of patterns in its name: name another",
                               path);

        struct origin_text entry = { .text = path, .origin = str_dup(STR(ORIGIN)) };
        if (!entry.origin || vec_push(&policy->filesystem.deny_read, entry) < 0) {
                free(entry.origin);
                return err_memory(err);
        }

        take_ptr(&path);
        return 0;
}

/* The file that a person named, with its directory as the kernel spells it. */
static int named_path(const char *given, char **ret, struct err *err) {
        cleanup(free_ptr) char *cwd = getcwd(NULL, 0), *path = NULL;
        if (!cwd || path_normalise(str_of(given), cwd, &path) < 0)
                return err_set(err, EINVAL, "the audit file %s cannot be used", given);

        char *slash = strrchr(path, '/');
        cleanup(free_ptr) char *directory = str_dup(str_n(path, slash > path ? (size_t)(slash - path) : 1));
        cleanup(free_ptr) char *real = directory ? os_canonical(directory) : NULL;
        if (!real)
                return err_errno(err, "the audit cannot be written: %s", path);

        *ret = path_join(real, slash + 1);
        return *ret ? 0 : err_memory(err);
}

int macos_record_place(struct macos_record *record, struct policy *policy, const char *id, struct err *err) {
        if (!policy->audit_path)
                return audit_run_path(id, &record->path, err); /* makes the directory, which every policy closes */

        int r = named_path(policy->audit_path, &record->path, err);
        return r < 0 ? r : hide_path(policy, str_dup(str_of(record->path)), err);
}

static int check_place(const struct macos_record *record, const struct path_rules *rules, struct err *err) {
        const char *slash = strrchr(record->path, '/');
        cleanup(free_ptr) char *directory =
            str_dup(str_n(record->path, slash > record->path ? (size_t)(slash - record->path) : 1));
        cleanup(free_ptr) char *real = directory ? os_canonical(directory) : NULL;

        if (!real)
                return err_errno(err, "the audit cannot be written: %s", record->path);
        if (path_rules_host_access(rules, real, NULL) != PATH_WRITE)
                return 0;
        return err_set(err, EPERM,
                       "the audit file %s lies where the sandbox may write: it could change its own record. Name a "
                       "file elsewhere with --audit",
                       record->path);
}

int macos_record_open(struct macos_record *record, const struct policy *policy, const struct path_rules *rules,
                      const char *id, char *const *argv, struct err *err) {
        const struct audit_settings settings = { .path = record->path, .run_id = id, .sandbox = id };
        int r = check_place(record, rules, err);
        if (r < 0)
                return r;

        r = audit_open(&settings, &record->audit, err);
        if (r < 0)
                return err_wrap(err, r, "the audit cannot be written");

        (void)audit_note(record->audit, "start: mode %s, workspace %s", policy_mode_name(policy->mode),
                         policy->workspace);
        audit_note_command(record->audit, argv);
        (void)audit_note(record->audit, "lost: denials of files come from the system log, which drops some");

        r = audit_flush(record->audit, err);
        return r < 0 ? err_wrap(err, r, "the audit cannot be written") : 0;
}

static struct str access_word(const char *operation) {
        if (str_starts(str_of(operation), STR("file-read")))
                return STR("read");
        if (str_starts(str_of(operation), STR("file-")))
                return STR("write");
        return str_of(operation);
}

void macos_record_denial(struct macos_record *record, const struct violation *denial) {
        bool file = str_starts(str_of(denial->operation), STR("file-"));
        char by[VIOLATION_NAME_MAX + 32];
        struct event event = { .kind = EVENT_SYSCALL,
                               .wall_us = clock_wall_us(),
                               .rule = RULE_NONE,
                               .reason = REASON_NOT_ALLOWED,
                               .method = access_word(denial->operation),
                               .path = str_of(denial->target) };

        if (file)
                event.kind = EVENT_FILE;
        if (snprintf(by, sizeof by, "%s (process %u)", denial->process, denial->pid) > 0)
                event.detail = str_of(by);
        if (record->audit)
                (void)audit_add(record->audit, &event, NULL);
}

void macos_record_end(struct macos_record *record, int status) {
        struct err err = { 0 };

        if (!record->audit)
                return;

        (void)audit_note(record->audit, "end: status %d", status);
        if (audit_close(record->audit, &err) < 0)
                (void)fprintf(stderr, "bailey: the audit is not whole: %s\n", err_text(&err));
        record->audit = NULL;
}

void macos_record_done(struct macos_record *record) {
        audit_free(record->audit);
        free(record->path);
        *record = (struct macos_record){ 0 };
}
