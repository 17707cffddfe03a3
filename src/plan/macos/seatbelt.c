/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/macos/seatbelt.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "plan/macos/seatbelt_internal.h"
#include "policy/macos.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* --- the profile as data --- */

void seatbelt_free(struct seatbelt *seatbelt) {
        if (!seatbelt)
                return;

        for (size_t i = 0; i < seatbelt->strings.n; i++)
                free(seatbelt->strings.p[i]);

        vec_done(&seatbelt->strings);
        vec_done(&seatbelt->rules);
        vec_done(&seatbelt->filters);
        vec_done(&seatbelt->parameters);
        vec_done(&seatbelt->notes);
        free(seatbelt);
}

void seatbelt_freep(struct seatbelt **seatbelt) {
        seatbelt_free(*seatbelt);
}

const char *seatbelt_keep(struct seatbelt *seatbelt, char *taken) {
        if (taken && vec_push(&seatbelt->strings, taken) == 0)
                return taken;
        free(taken);
        return NULL;
}

const char *seatbelt_format(struct seatbelt *seatbelt, const char *format, ...) {
        char *text = NULL;
        va_list args;

        va_start(args, format);
        int n = vasprintf(&text, format, args);
        va_end(args);
        return seatbelt_keep(seatbelt, n < 0 ? NULL : text);
}

int seatbelt_begin(struct seatbelt *seatbelt, bool allows, const char *section, const char *operations,
                   const char *why) {
        const struct seatbelt_rule rule = {
                .allows = allows, .section = section, .why = why, .operations = operations, .first = seatbelt->filters.n
        };

        return vec_push(&seatbelt->rules, rule);
}

static int filter_push(struct seatbelt *seatbelt, struct seatbelt_filter filter) {
        if (!filter.text || seatbelt->rules.n == 0 || vec_push(&seatbelt->filters, filter) < 0)
                return -ENOMEM;
        seatbelt->rules.p[seatbelt->rules.n - 1].n++;
        return 0;
}

int seatbelt_filter(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *text, const char *why) {
        return filter_push(seatbelt, (struct seatbelt_filter){ .kind = (uint8_t)kind, .text = text, .why = why });
}

int seatbelt_and(struct seatbelt *seatbelt, enum seatbelt_filter_kind kind, const char *text, bool negated) {
        return filter_push(seatbelt, (struct seatbelt_filter){
                                         .kind = (uint8_t)kind, .text = text, .joined = true, .negated = negated });
}

int seatbelt_note(struct seatbelt *seatbelt, const char *format, ...) {
        char *text = NULL;
        va_list args;

        va_start(args, format);
        int n = vasprintf(&text, format, args);
        va_end(args);

        const char *note = seatbelt_keep(seatbelt, n < 0 ? NULL : text);
        return note ? vec_push(&seatbelt->notes, note) : -ENOMEM;
}

/* --- paths --- */

/* Links in the root of every Mac. */
static const char *const linked[] = { "/tmp", "/var", "/etc" };
#define LINKS_LEAD_TO "/private"

char *seatbelt_canonical(const char *path) {
        for (size_t i = 0; i < sizeof linked / sizeof *linked; i++)
                if (path_is_within(path, linked[i]))
                        return str_format(LINKS_LEAD_TO "%s", path);
        return str_dup(str_of(path));
}

char *seatbelt_alias(const char *path, bool *ret_failed) {
        if (!str_starts(str_of(path), STR(LINKS_LEAD_TO "/")))
                return NULL;

        const char *rest = path + sizeof LINKS_LEAD_TO - 1;

        for (size_t i = 0; i < sizeof linked / sizeof *linked; i++) {
                if (!path_is_within(rest, linked[i]))
                        continue;

                char *alias = str_dup(str_of(rest));
                *ret_failed = *ret_failed || !alias;
                return alias;
        }

        return NULL;
}

/* --- building --- */

static int check_path(const char *path, const char *what, struct err *err) {
        cleanup(free_ptr) char *normal = NULL;

        if (!path || path[0] != '/' || path_normalise(str_of(path), NULL, &normal) < 0 || strcmp(normal, path) != 0)
                return err_set(err, EINVAL, "%s is not an absolute path without `..`", what);
        return 0;
}

static int check_tag(const char *tag, struct err *err) {
        for (const char *c = tag; c && *c; c++)
                if (!ascii_is_alnum(*c) && *c != '-' && *c != '_')
                        return err_set(err, EINVAL, "the tag of the log has a character that is none");
        if (!tag || !*tag || strlen(tag) > 64)
                return err_set(err, EINVAL, "the tag of the log is empty or too long");
        return 0;
}

static int check_host(const struct seatbelt_host *host, struct err *err) {
        int r = check_path(host->home, "the home directory", err);

        if (r == 0)
                r = check_path(host->tmpdir, "the directory for temporary files", err);
        if (r == 0 && host->own_home)
                r = check_path(host->own_home, "the directory of the sandbox's own home", err);

        for (const char *const *s = host->sockets; s && *s && r == 0; s++)
                r = check_path(*s, "the socket", err);

        return r == 0 ? check_tag(host->tag, err) : r;
}

/* Settings of a policy that macOS cannot enforce. Refused: a setting that silently does nothing is a lie. */
static int check_policy(const struct policy *policy, struct err *err) {
        if (policy->filesystem.ask.n)
                return err_set(
                    err, EOPNOTSUPP,
                    "--ask-path: on macOS nobody holds a call that opens a file; grant the path with --read");
        if (policy->filesystem.overlay)
                return err_set(err, EOPNOTSUPP,
                               "--overlay: macOS has no overlay of directories; work on a copy instead");

        if (policy->process.nesting)
                return err_set(err, EOPNOTSUPP,
                               "--nesting: a process that Seatbelt confines cannot apply a second profile; switch the "
                               "inner program's own sandbox off");

        for (size_t i = 0; i < policy->network.publish.n; i++)
                if (policy->network.publish.p[i].inside != policy->network.publish.p[i].outside)
                        return err_set(err, EOPNOTSUPP,
                                       "%s: the sandbox shares the Mac's loopback, so that a port cannot have another "
                                       "number outside; publish %u as %u",
                                       text_or(policy->network.publish.p[i].origin, "publish"),
                                       policy->network.publish.p[i].inside, policy->network.publish.p[i].inside);

        return 0;
}

static int groups_read(const struct policy *policy, unsigned *ret, struct err *err) {
        *ret = 0;

        for (size_t i = 0; i < policy->macos_allow.n; i++) {
                unsigned group = macos_word(str_of(policy->macos_allow.p[i].text));

                if (!group)
                        return err_set(err, EINVAL, "%s: macos.allow has no word %s", policy->macos_allow.p[i].origin,
                                       policy->macos_allow.p[i].text);
                *ret |= group;
        }

        return 0;
}

static int add_notes(struct seatbelt *seatbelt, const struct policy *policy, unsigned opened) {
        int r = seatbelt_note(seatbelt, "never yet run on a Mac: generated and checked on Linux (docs/macos.md)");

        if (r == 0 && policy->mode != MODE_READ_ONLY && policy->mode != MODE_WORKSPACE_WRITE)
                r = seatbelt_note(seatbelt,
                                  "a program that ignores the proxy variables reaches nothing: connections are not "
                                  "captured as on Linux");

        if (r == 0)
                r = seatbelt_note(seatbelt, "denied files answer `Operation not permitted`; they are not hidden");
        if (r == 0 && policy->process.limits.memory)
                r = seatbelt_note(seatbelt, "the limit of memory does not hold: macOS enforces none");

        for (unsigned i = 0; i < MACOS_WORDS && r == 0; i++)
                if (opened & 1U << i)
                        r = seatbelt_note(seatbelt, "opened by macos.allow: %s: %s", macos_word_name(i),
                                          macos_word_help(i));

        return r;
}

int seatbelt_build(const struct seatbelt_request *request, struct seatbelt **ret, struct err *err) {
        cleanup(seatbelt_freep) struct seatbelt *s = calloc(1, sizeof *s);
        unsigned opened = 0;

        if (!s)
                return err_memory(err);

        int r = check_host(request->host, err);
        if (r == 0)
                r = check_policy(request->policy, err);
        if (r == 0)
                r = groups_read(request->policy, &opened, err);
        if (r < 0)
                return r;

        s->tag = seatbelt_format(s, "%s", request->host->tag);
        r = s->tag ? seatbelt_add_rows(s, request, opened) : -ENOMEM;
        if (r == 0)
                r = seatbelt_add_files(s, request, opened, err);
        if (r == 0)
                r = seatbelt_add_network(s, request, opened, err);
        if (r == 0)
                r = add_notes(s, request->policy, opened);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return r;

        if (s->filters.n > SEATBELT_FILTERS_MAX)
                return err_set(err, E2BIG,
                               "the profile has %zu filters, and macOS is known to fail with many: name "
                               "directories instead of files, or fewer of them",
                               s->filters.n);

        *ret = take_ptr(&s);
        return 0;
}
