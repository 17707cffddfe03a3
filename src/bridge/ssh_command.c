/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/ssh_command.h"

#include "policy/git/git.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { HTTPS_PORT = 443 };

static const struct {
        const char *name;
        enum git_right right;
} services[] = {
        [SSH_UPLOAD_PACK] = { "git-upload-pack", GIT_RIGHT_FETCH },
        [SSH_RECEIVE_PACK] = { "git-receive-pack", GIT_RIGHT_PUSH },
        [SSH_UPLOAD_ARCHIVE] = { "git-upload-archive", GIT_RIGHT_FETCH },
};
static_assert(sizeof services / sizeof *services == SSH_SERVICES, "a row for each service");

const char *ssh_service_name(enum ssh_service service) {
        return services[service].name;
}

enum git_right ssh_service_right(enum ssh_service service) {
        return services[service].right;
}

/* --- parts --- */

bool ssh_user_is_valid(struct str user) {
        for (size_t i = 0; i < user.n; i++) {
                bool mark = user.p[i] == '_' || (i > 0 && (user.p[i] == '-' || user.p[i] == '.'));
                if (!ascii_is_alnum(user.p[i]) && !mark)
                        return false;
        }
        return user.n > 0 && user.n <= SSH_USER_MAX;
}

/* The path goes into a command that a shell reads on the other side. It is quoted; these need no quotes. */
static bool path_is_safe(struct str text) {
        for (size_t i = 0; i < text.n; i++)
                if (!ascii_is_alnum(text.p[i]) && !memchr("/._-~+@", text.p[i], 7))
                        return false;
        return text.n > 0 && text.n <= SSH_PATH_MAX;
}

bool ssh_path_parse(struct str text, struct str *ret) {
        struct str inner = text;

        if (!path_is_safe(text))
                return false;
        if (inner.p[0] == '/')
                inner = str_skip(inner, 1);
        if (inner.n > 1 && inner.p[inner.n - 1] == '/')
                inner = str_first(inner, inner.n - 1);

        return inner.n > 0 && inner.p[0] != '-' && git_path_parse(inner, ret);
}

static bool service_find(struct str name, enum ssh_service *ret) {
        for (int i = 0; i < SSH_SERVICES; i++)
                if (str_is(name, services[i].name)) {
                        *ret = (enum ssh_service)i;
                        return true;
                }
        return false;
}

/* --- git's command line --- */

static int command_take_path(struct ssh_command *command, struct str quoted, struct err *err) {
        struct str text = quoted;

        if (text.n < 3 || text.p[0] != '\'' || text.p[text.n - 1] != '\'')
                return err_set(err, EINVAL, "the repository's path is not quoted as git quotes it");

        text = str_first(str_skip(text, 1), text.n - 2);
        if (!ssh_path_parse(text, &command->path))
                return err_set(err, EINVAL,
                               "the repository's path is none that can be judged: parts of letters, digits and ._-~+@ "
                               "between single slashes, at most %d bytes",
                               SSH_PATH_MAX);

        memcpy(command->sent_path, text.p, text.n);
        command->path = str_n(command->sent_path + (command->path.p - text.p), command->path.n);

        return 0;
}

static int command_take_service(struct ssh_command *command, struct str text, struct err *err) {
        ptrdiff_t space = str_find(text, ' ');
        struct str name = space < 0 ? text : str_first(text, (size_t)space);

        if (space < 0 || !service_find(name, &command->service))
                return err_set(err, EINVAL, "only git's own commands run over this ssh, and this is none");

        return command_take_path(command, str_skip(text, (size_t)space + 1), err);
}

/* git-lfs adds options of its own, and may give the command's parts as words. */
static bool words_are_lfs(const struct str *words, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (str_starts(words[i], STR("git-lfs-authenticate")) || str_starts(words[i], STR("git-lfs-transfer")))
                        return true;
        return false;
}

static int command_take_host(struct ssh_command *command, struct str text, struct err *err) {
        char bracketed[HOST_TEXT_MAX + 3];
        ptrdiff_t at = str_rfind(text, '@');
        struct str user = at < 0 ? STR(SSH_DEFAULT_USER) : str_first(text, (size_t)at);
        struct str host = at < 0 ? text : str_skip(text, (size_t)at + 1);

        if (!ssh_user_is_valid(user))
                return err_set(err, EINVAL, "the user's name has letters that none has");

        memcpy(command->user, user.p, user.n);

        if (host.n == 0 || host.n > HOST_TEXT_MAX || host.p[0] == '-')
                return err_set(err, EINVAL, "the host's name is none");

        if (str_find(host, ':') >= 0) { /* ssh takes an address of IPv6 without brackets */
                int n = snprintf(bracketed, sizeof bracketed, "[%.*s]", STR_FMT(host));
                host = str_n(bracketed, (size_t)n);
        }

        return host_parse(host, &command->target.host, err);
}

static int command_take_protocol(struct ssh_command *command, struct str text, struct err *err) {
        if (text.n == 0 || str_is(text, "version=0"))
                return 0;
        if (!str_is(text, "version=1") && !str_is(text, "version=2"))
                return err_set(err, EINVAL, "GIT_PROTOCOL has a value that is not known here");

        command->protocol = (uint8_t)(text.p[text.n - 1] - '0');
        return 0;
}

/* The options that git gives, each once. *at is behind them. */
static int command_take_options(struct ssh_command *command, const struct str *words, size_t n, size_t *at,
                                struct err *err) {
        bool sends = false;

        for (; *at < n && words[*at].n > 0 && words[*at].p[0] == '-'; (*at)++) {
                struct str option = words[*at];
                struct str value = *at + 1 < n ? words[*at + 1] : STR("");

                if (str_is(option, "-o") && str_is(value, "SendEnv=GIT_PROTOCOL") && !sends) {
                        sends = true;
                        (*at)++;
                } else if (str_is(option, "-p") && !command->target.port) {
                        if (!port_parse(value, &command->target.port))
                                return err_set(err, EINVAL, "the port is none");
                        (*at)++;
                } else if ((str_is(option, "-4") || str_is(option, "-6")) && !command->family) {
                        command->family = (uint8_t)(option.p[1] - '0');
                } else {
                        return err_set(err, EINVAL,
                                       "options of ssh are not taken from inside; only what git itself gives is");
                }
        }

        return 0;
}

int ssh_command_parse(struct str protocol, const struct str *words, size_t n, struct ssh_command *ret,
                      struct err *err) {
        size_t at = 0;
        int r;

        *ret = (struct ssh_command){ 0 };
        if (words_are_lfs(words, n))
                return err_set(err, EINVAL,
                               "LFS over ssh would hand a token to the sandbox; use https for it: git config -f "
                               ".lfsconfig lfs.url https://HOST/PATH.git/info/lfs");

        r = command_take_protocol(ret, protocol, err);
        if (r < 0)
                return r;

        r = command_take_options(ret, words, n, &at, err);
        if (r < 0)
                return r;

        if (n - at != 2)
                return err_set(err, EINVAL,
                               "this ssh carries git and nothing else: it needs a host and one command of git's");

        r = command_take_host(ret, words[at], err);
        if (r < 0)
                return r;
        if (!ret->target.port)
                ret->target.port = SSH_DEFAULT_PORT;

        return command_take_service(ret, words[at + 1], err);
}

/* --- judging --- */

struct authority ssh_judged_target(const struct snapshot *snapshot, const struct authority *target, struct str path) {
        struct authority judged = *target;

        if (target->port != SSH_DEFAULT_PORT)
                return judged;

        /* An entry that names port 22 itself comes before those without a port. */
        struct verdict verdict = verdict_git(snapshot, target, path, GIT_RIGHT_FETCH).verdict;
        if (verdict.decision == DECISION_DENY && verdict.reason != REASON_GIT_SERVICE)
                judged.port = HTTPS_PORT;

        return judged;
}

struct git_verdict ssh_verdict(const struct snapshot *snapshot, const struct authority *target, struct str path,
                               enum git_right right) {
        struct verdict there = verdict_target(snapshot, &target->host, target->port);
        struct authority judged = ssh_judged_target(snapshot, target, path);

        if (there.decision == DECISION_DENY && there.reason == REASON_DENY_RULE)
                return (struct git_verdict){ .verdict = there };
        return verdict_git(snapshot, &judged, path, right);
}

/* --- between gateway and supervisor --- */

int ssh_request_write(const struct ssh_command *command, char *ret, size_t size) {
        int n = snprintf(ret, size, "%s %s %u %u %s", ssh_service_name(command->service), command->user,
                         command->protocol, command->family, command->sent_path);

        if (n < 0 || (size_t)n >= size)
                return -EMSGSIZE;

        return 0;
}

int ssh_request_read(struct str text, const struct authority *target, struct ssh_command *ret) {
        struct str part[5], path;
        uint64_t protocol, family;

        *ret = (struct ssh_command){ .target = *target };

        for (size_t i = 0; i < 4; i++)
                if (!str_split(&text, ' ', &part[i]))
                        return -EBADMSG;

        part[4] = text;
        if (!service_find(part[0], &ret->service) || !ssh_user_is_valid(part[1]) ||
            !str_to_u64(part[2], 2, &protocol) || !str_to_u64(part[3], 6, &family) ||
            (family != 0 && family != 4 && family != 6) || !ssh_path_parse(part[4], &path))
                return -EBADMSG;

        memcpy(ret->user, part[1].p, part[1].n);
        ret->protocol = (uint8_t)protocol;
        ret->family = (uint8_t)family;
        memcpy(ret->sent_path, part[4].p, part[4].n);
        ret->path = str_n(ret->sent_path + (path.p - part[4].p), path.n);

        return 0;
}
