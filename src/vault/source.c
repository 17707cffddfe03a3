/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/source.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/json.h"
#include "policy/mappings.h"
#include "policy/match/glob.h"
#include "vault/aws.h"
#include "vault/member.h"
#include "vault/source_keyring.h"
#include "vault/source_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MAX = 4 << 20 }; /* what `bws secret list` may print */

static bool source_is(const char *source, const char *scheme, const char **ret_rest) {
        size_t n = strlen(scheme);
        if (strncmp(source, scheme, n) != 0)
                return false;
        *ret_rest = source + n;
        return true;
}

void source_label(const char *source, char ret[static SOURCE_LABEL_MAX]) {
        const char *rest;

        if (source_is(source, "exec:", &rest)) {
                struct str program = str_n(rest, strcspn(rest, " \t\n"));
                const char *more = rest[program.n] ? " ..." : "";

                snprintf(ret, SOURCE_LABEL_MAX, "exec:%.*s%s", STR_FMT(str_first(program, 100)), more);
        } else {
                snprintf(ret, SOURCE_LABEL_MAX, "%s", source);
        }

        for (char *c = ret; *c; c++)
                if (*c < 0x20 || *c > 0x7e)
                        *c = '?';
}

bool source_runs_program(const char *source) {
        const char *rest;
        return source_is(source, "exec:", &rest) || source_is(source, "bws:", &rest);
}

bool source_must_be_polled(const char *source) {
        const char *rest;
        return source_runs_program(source) || source_is(source, "keyring:", &rest);
}

bool source_path(const struct vault_start *start, const char *source, char *ret, size_t size) {
        const char *rest;
        int n = 0;

        ret[0] = '\0';
        struct str file, pointer;

        if (source_is(source, "file:", &rest))
                n = snprintf(ret, size, "%s", rest);
        else if (source_is_member(str_of(source), &file, &pointer))
                n = snprintf(ret, size, "%.*s", STR_FMT(file));
        else if (source_is(source, "systemd:", &rest))
                n = snprintf(ret, size, "%s/%s", start->credentials_dir, rest);

        return n >= 0 && (size_t)n < size;
}

int source_check_place(const struct vault_mapping *mapping, const char *path, struct err *err) {
        char real[PATH_MAX];

        if (mapping->place[0] == '\0')
                return 0;
        if (!realpath(path, real))
                return err_errno(err, "cannot find %s", path);
        if (strcmp(real, path) == 0 || glob_match(str_of(mapping->place), str_of(real)))
                return 0;

        return err_set(err, EPERM,
                       "a link leads to another file than when the sandbox started, and that one is not closed to it; "
                       "start the sandbox again, or put the value into the file of before: %s",
                       real);
}

static int read_path(const char *path, char *ret, size_t *ret_n, struct err *err) {
        struct stat st;
        cleanup(close_fd) int fd = member_open(path, &st, err);

        if (fd < 0)
                return fd;

        size_t n = 0;

        for (;;) {
                ssize_t got = read(fd, ret + n, VAULT_SECRET_MAX + 1 - n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return err_errno(err, "cannot read %s", path);

                n += (size_t)got;
                if (got == 0)
                        break;
                if (n > VAULT_SECRET_MAX)
                        return err_set(err, EMSGSIZE, "%s is larger than %d bytes", path, VAULT_SECRET_MAX);
        }

        *ret_n = n;
        return 0;
}

static int read_file(const struct vault_start *start, const char *source, char *ret, size_t *ret_n, struct err *err) {
        char path[PATH_MAX];
        const char *name;

        if (source_is(source, "systemd:", &name)) {
                if (start->credentials_dir[0] == '\0')
                        return err_set(err, ENOENT,
                                       "there is no $CREDENTIALS_DIRECTORY: systemd sets it for services that have "
                                       "LoadCredential= or SetCredential=");

                if (strchr(name, '/') || name[0] == '\0' || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
                        return err_set(err, EINVAL, "a credential of systemd is given by its name, without a path");
        }

        if (!source_path(start, source, path, sizeof path))
                return err_set(err, ENAMETOOLONG, "the path is too long");

        return read_path(path, ret, ret_n, err);
}

static int read_command(const char *command, char *const *environment, char *ret, size_t *ret_n, struct err *err) {
        char *const argv[] = { (char *)"/bin/sh", (char *)"-c", (char *)command, NULL };
        cleanup(buf_done) struct buf out = BUF(VAULT_SECRET_MAX);
        int r = program_run("/bin/sh", argv, environment, &out, err);
        if (r < 0)
                return r;
        if (out.n > 0)
                memcpy(ret, out.p, out.n);

        *ret_n = out.n;
        return 0;
}

/*
 * Bitwarden Secrets Manager: "bws:ID", "bws:NAME" or "bws:PROJECT/NAME".
 */
static bool is_uuid(struct str s) {
        for (size_t i = 0; i < s.n; i++) {
                bool dash = i == 8 || i == 13 || i == 18 || i == 23;
                if (dash ? s.p[i] != '-' : ascii_hex(s.p[i]) < 0)
                        return false;
        }
        return s.n == 36;
}

static int take_value(const struct node *entry, char *ret, size_t *ret_n, struct err *err) {
        const struct node *value = node_get(entry, STR("value"));
        if (!value || value->kind != NODE_SCALAR)
                return err_set(err, EBADMSG, "what bws printed has no value");
        if (value->text.n > VAULT_SECRET_MAX)
                return err_set(err, EMSGSIZE, "the secret is larger than %d bytes", VAULT_SECRET_MAX);

        memcpy(ret, value->text.p, value->text.n);
        *ret_n = value->text.n;

        return 0;
}

static int find_by_key(const struct node *list, struct str key, const struct node **ret, struct err *err) {
        const struct node *found = NULL;

        if (!list || list->kind != NODE_LIST)
                return err_set(err, EBADMSG, "what bws printed is not a list of secrets");

        for (const struct node *node = list->first; node; node = node->next) {
                const struct node *name = node->kind == NODE_MAP ? node_get(node, STR("key")) : NULL;
                if (!name || !str_eq(name->text, key))
                        continue;

                if (found)
                        return err_set(err, ENOTUNIQ,
                                       "there are several secrets of this name; write bws:ID or bws:PROJECT/NAME");

                found = node;
        }

        if (!found)
                return err_set(err, ENOENT, "bws lists no secret of this name");

        *ret = found;
        return 0;
}

static bool has_token(char *const *environment) {
        for (char *const *v = environment; v && *v; v++)
                if (strncmp(*v, "BWS_ACCESS_TOKEN=", 17) == 0)
                        return (*v)[17] != '\0';
        return false;
}

static int read_bws(const char *what, char *const *environment, char *ret, size_t *ret_n, struct err *err) {
        struct str name = str_of(what), project = STR("");
        bool by_id = is_uuid(name);
        ptrdiff_t slash = str_find(name, '/');
        if (!by_id && slash > 0) {
                project = str_first(name, (size_t)slash);
                name = str_skip(name, (size_t)slash + 1);
        }

        cleanup(free_ptr) char *argument = str_dup(by_id ? name : project);
        if (!argument)
                return err_memory(err);

        char *const get[] = { (char *)"bws",      (char *)"secret", (char *)"get", argument,
                              (char *)"--output", (char *)"json",   NULL };
        char *const list[] = {
                (char *)"bws", (char *)"secret", (char *)"list", (char *)"--output", (char *)"json", argument, NULL
        };
        char *const list_all[] = { (char *)"bws",      (char *)"secret", (char *)"list",
                                   (char *)"--output", (char *)"json",   NULL };
        char *const *command = list_all;
        if (by_id)
                command = get;
        else if (project.n)
                command = list;

        cleanup(buf_done) struct buf out = BUF(LIST_MAX);
        int r = program_run("bws", command, environment, &out, err);
        if (r < 0) {
                if (!has_token(environment))
                        return err_wrap(err, r, "BWS_ACCESS_TOKEN is not set");
                return r;
        }

        cleanup(document_freep) struct document *document = NULL;
        if (json_read(buf_str(&out), STR("bws"), &document, NULL) < 0)
                return err_set(err, EBADMSG, "what bws printed is not JSON");

        const struct node *entry = document_root(document);
        if (!by_id)
                r = find_by_key(entry, name, &entry, err);
        if (r < 0)
                return r;

        return take_value(entry, ret, ret_n, err);
}

/* What a credential process of AWS prints becomes the lines that aws_parse() reads. */
static int lines_of_json(char *text, size_t *n, struct err *err) {
        cleanup(document_freep) struct document *document = NULL;
        if (json_read(str_n(text, *n), STR("credentials"), &document, NULL) < 0)
                return err_set(err, EBADMSG, "it begins like JSON and is none");

        const char *const names[][2] = { { "AccessKeyId", "AWS_ACCESS_KEY_ID" },
                                         { "SecretAccessKey", "AWS_SECRET_ACCESS_KEY" },
                                         { "SessionToken", "AWS_SESSION_TOKEN" } };
        cleanup(buf_done) struct buf lines = BUF(VAULT_SECRET_MAX);

        for (size_t i = 0; i < 3; i++) {
                const struct node *v = node_get(document_root(document), str_of(names[i][0]));
                if (v && v->kind == NODE_SCALAR && buf_printf(&lines, "%s=%.*s\n", names[i][1], STR_FMT(v->text)) < 0)
                        return err_set(err, EMSGSIZE, "it is too large");
        }

        if (lines.n > 0)
                memcpy(text, lines.p, lines.n);

        *n = lines.n;
        return 0;
}

/* After the reading: what was there by then was read. */
static int check_file(const struct vault_start *start, const struct vault_mapping *mapping, struct err *err) {
        char path[PATH_MAX];

        if (!source_path(start, mapping->source, path, sizeof path))
                return err_set(err, ENAMETOOLONG, "the path is too long");

        return source_check_place(mapping, path, err);
}

int source_read(const struct vault_start *start, const struct vault_mapping *mapping, char *const *environment,
                char *ret, size_t *ret_n, struct err *err) {
        const char *rest;
        size_t n = 0;
        int r;

        if (source_is(mapping->source, "json:", &rest) || source_is(mapping->source, "yaml:", &rest))
                r = member_read(mapping->source, ret, &n, err);
        else if (source_is(mapping->source, "file:", &rest) || source_is(mapping->source, "systemd:", &rest))
                r = read_file(start, mapping->source, ret, &n, err);
        else if (source_is(mapping->source, "exec:", &rest))
                r = read_command(rest, environment, ret, &n, err);
        else if (source_is(mapping->source, "bws:", &rest))
                r = read_bws(rest, environment, ret, &n, err);
        else if (source_is(mapping->source, "keyring:", &rest))
                r = source_read_keyring(rest, ret, &n, err);
        else
                r = err_set(err, EINVAL, "this kind of source is not known");

        if (r == 0 && mapping->place[0])
                r = check_file(start, mapping, err);

        while (r == 0 && n > 0 && (ret[n - 1] == '\n' || ret[n - 1] == '\r'))
                n--;

        if (r == 0 && mapping->kind == MAPPING_SIGV4 && n > 0 && ret[0] == '{')
                r = lines_of_json(ret, &n, err);
        if (r == 0)
                r = source_check(mapping, str_n(ret, n), err);
        if (r == 0)
                *ret_n = n;

        return r;
}

static int check_part(const char *what, struct str s, struct err *err) {
        if (s.n == 0)
                return err_set(err, ENODATA, "%s is empty", what);

        if (s.n < VAULT_SECRET_MIN)
                return err_set(err, EINVAL, "%s is too short: a secret has at least %d characters", what,
                               VAULT_SECRET_MIN);

        if (s.n > VAULT_SECRET_MAX)
                return err_set(err, EMSGSIZE, "%s is larger than %d bytes", what, VAULT_SECRET_MAX);

        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] == '\n' || s.p[i] == '\r')
                        return err_set(err, EINVAL, "%s has more than one line", what);
                else if (s.p[i] < 0x20 || s.p[i] > 0x7e)
                        return err_set(err, EINVAL, "%s has bytes that cannot be sent in a header", what);

        return 0;
}

int source_check(const struct vault_mapping *mapping, struct str value, struct err *err) {
        struct aws aws;
        if (mapping->kind != MAPPING_SIGV4)
                return check_part("the value", value, err);
        int r = aws_parse(value, &aws, err);
        if (r >= 0)
                r = check_part("the key id", aws.key_id, err);
        if (r >= 0)
                r = check_part("the secret key", aws.secret_key, err);
        if (r < 0 || aws.session_token.n == 0)
                return r;

        return check_part("the session token", aws.session_token, err);
}
