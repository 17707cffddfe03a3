/* SPDX-License-Identifier: Apache-2.0 */
/* What guests have: jobs, options, ports, grants, files, snapshots, recipes. */
#include "api/api_guest_internal.h"
#include "api/api_report.h"
#include "api/result.h"
#include "api/rows.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Lists.
 */
static int guest_rows_in(const bailey_guests *guests, const char *const *words, struct str member, bailey_rows **ret,
                         struct bailey_error *error) {
        cleanup(result_freep) bailey_result *result = NULL;
        size_t n = 0;

        if (!ret)
                return report_null(error);
        int r = guest_verb(guests, words, NULL, &result, error);
        if (r != BAILEY_OK || !result)
                return r;

        const char *text = bailey_result_stdout(result, &n);
        while (n && text[n - 1] == '\n')
                n--;

        r = rows_parse(str_n(text, n), member, ret);
        if (r == -ENOMEM)
                return report_memory(error);
        if (r < 0)
                return report(error, BAILEY_E_SYSTEM, "what bailey guest printed is no list");

        return BAILEY_OK;
}

static int guest_rows(const bailey_guests *guests, const char *const *words, bailey_rows **ret,
                      struct bailey_error *error) {
        return guest_rows_in(guests, words, (struct str){ 0 }, ret, error);
}

static int guest_rows_of(const bailey_guests *guests, const char *verb, const char *name, bailey_rows **ret,
                         struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_rows(guests, (const char *const[]){ verb, "--json", "--", name, NULL }, ret, error);
}

static int guest_rows_shown(const bailey_guests *guests, const char *name, struct str member, bailey_rows **ret,
                            struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_rows_in(guests, (const char *const[]){ "show", "--json", "--", name, NULL }, member, ret, error);
}

int bailey_guests_list(bailey_guests *guests, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows(guests, (const char *const[]){ "ls", "--json", NULL }, ret, error);
}

int bailey_guests_recipes(bailey_guests *guests, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows(guests, (const char *const[]){ "recipes", "--json", NULL }, ret, error);
}

int bailey_guest_jobs(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_of(guests, "jobs", name, ret, error);
}

int bailey_guest_ports(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_of(guests, "ports", name, ret, error);
}

int bailey_guest_grants(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_of(guests, "grants", name, ret, error);
}

int bailey_guest_snapshots(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_of(guests, "snapshots", name, ret, error);
}

int bailey_guest_settings(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_shown(guests, name, STR("options"), ret, error);
}

int bailey_guest_steps(bailey_guests *guests, const char *name, bailey_rows **ret, struct bailey_error *error) {
        return guest_rows_shown(guests, name, STR("steps"), ret, error);
}

/*
 * Verbs with a name, and perhaps one word more.
 */
static int guest_do(const bailey_guests *guests, const char *verb, const char *name, const char *word,
                    struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ verb, "--", name, word, NULL }, NULL, NULL, error);
}

int bailey_guest_rename(bailey_guests *guests, const char *name, const char *new_name, struct bailey_error *error) {
        if (!new_name)
                return report_null(error);

        return guest_do(guests, "rename", name, new_name, error);
}

int bailey_guest_fix(bailey_guests *guests, const char *name, struct bailey_error *error) {
        return guest_do(guests, "fix", name, NULL, error);
}

int bailey_guest_archive(bailey_guests *guests, const char *name, struct bailey_error *error) {
        return guest_do(guests, "archive", name, NULL, error);
}

int bailey_guest_unarchive(bailey_guests *guests, const char *name, struct bailey_error *error) {
        return guest_do(guests, "unarchive", name, NULL, error);
}

int bailey_guest_snapshot(bailey_guests *guests, const char *name, const char *label, struct bailey_error *error) {
        return guest_do(guests, "snapshot", name, label, error);
}

int bailey_guest_restore(bailey_guests *guests, const char *name, const char *label, struct bailey_error *error) {
        if (!label)
                return report_null(error);

        return guest_do(guests, "restore", name, label, error);
}

int bailey_guest_snapshot_remove(bailey_guests *guests, const char *name, const char *label,
                                 struct bailey_error *error) {
        if (!name || !label)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ "snapshot", "--remove", "--", name, label, NULL }, NULL, NULL,
                          error);
}

int bailey_guest_provision(bailey_guests *guests, const char *name, const char *const *recipes,
                           struct bailey_error *error) {
        if (!name)
                return report_null(error);
        return guest_verb(guests, (const char *const[]){ "provision", "--", name, NULL }, recipes, NULL, error);
}

/*
 * Ports.
 */
int bailey_guest_publish(bailey_guests *guests, const char *name, uint16_t outside, uint16_t inside,
                         struct bailey_error *error) {
        char option[40];

        if (!name)
                return report_null(error);
        snprintf(option, sizeof option, "--publish=%u:%u", outside, inside);
        return guest_verb(guests, (const char *const[]){ "ports", option, "--", name, NULL }, NULL, NULL, error);
}

int bailey_guest_unpublish(bailey_guests *guests, const char *name, uint16_t outside, struct bailey_error *error) {
        char option[40];

        if (!name)
                return report_null(error);
        snprintf(option, sizeof option, "--close=%u", outside);
        return guest_verb(guests, (const char *const[]){ "ports", option, "--", name, NULL }, NULL, NULL, error);
}

/*
 * Grants. The access is always named, so that a path may end like one.
 */
int bailey_guest_grant(bailey_guests *guests, const char *name, const char *path, int writable,
                       struct bailey_error *error) {
        if (!name || !path)
                return report_null(error);
        cleanup(free_ptr) char *word = str_format("%s:%s", path, writable ? "rw" : "ro");
        if (!word)
                return report_memory(error);

        return guest_do(guests, "grant", name, word, error);
}

int bailey_guest_revoke(bailey_guests *guests, const char *name, const char *path, struct bailey_error *error) {
        if (!path)
                return report_null(error);

        return guest_do(guests, "revoke", name, path, error);
}

/*
 * Copies. A path with a slash in front of its first colon is the host's.
 */
static int guest_copy(const bailey_guests *guests, const char *name, const char *inside, const char *outside, bool out,
                      struct bailey_error *error) {
        if (!name || !inside || !outside)
                return report_null(error);
        if (!name[0] || !outside[0])
                return report(error, BAILEY_E_ARGUMENT, "a copy needs a guest and a path outside");
        if (strpbrk(name, ":/"))
                return report(error, BAILEY_E_ARGUMENT, "there is no guest %s", name);

        cleanup(free_ptr) char *there = str_format("%s:%s", name, inside);
        cleanup(free_ptr) char *here = str_format("%s%s", outside[0] == '/' ? "" : "./", outside);
        if (!there || !here)
                return report_memory(error);

        const char *words[] = { "cp", "--", here, there, NULL };
        if (out) {
                words[2] = there;
                words[3] = here;
        }

        return guest_verb(guests, words, NULL, NULL, error);
}

int bailey_guest_copy_in(bailey_guests *guests, const char *name, const char *from, const char *to,
                         struct bailey_error *error) {
        return guest_copy(guests, name, to, from, false, error);
}

int bailey_guest_copy_out(bailey_guests *guests, const char *name, const char *from, const char *to,
                          struct bailey_error *error) {
        return guest_copy(guests, name, from, to, true, error);
}
