/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/ssh_rules.h"

#include "conf/suggest.h"

#include <errno.h>
#include <string.h>

enum { USER_MAX = 64, KEY_MAX = 128, FINGERPRINT_N = 43, GPG_HEX_MIN = 16, GPG_HEX_MAX = 64, SSH_PORT = 22 };
#define DEFAULT_USER "git"

int check_ssh_user(struct str text, struct err *err) {
        bool good = text.n > 0 && text.n <= USER_MAX;

        for (size_t i = 0; good && i < text.n; i++)
                good =
                    ascii_is_alnum(text.p[i]) || text.p[i] == '_' || (i > 0 && (text.p[i] == '-' || text.p[i] == '.'));

        if (good)
                return 0;

        return err_set(err, EINVAL,
                       "%s is not the name of a user: letters, digits, '_', and '-' or '.' behind the first",
                       show(text).text);
}

/* ssh reads these as words of a configuration: what ends a word there ends the file's name. */
int check_ssh_path(struct str text, struct err *err) {
        for (size_t i = 0; i < text.n; i++)
                if ((unsigned char)text.p[i] <= 0x20 || text.p[i] == '"' || text.p[i] == '\'' || text.p[i] == '\\' ||
                    text.p[i] == '%' || text.p[i] == '$')
                        return err_set(err, EINVAL,
                                       "%s: ssh takes no file whose name has blanks, quotes, '\\', '%%' or '$'",
                                       show(text).text);
        return 0;
}

int ssh_host_parse(struct str text, struct authority *ret, struct err *err) {
        return authority_parse(text, SSH_PORT, ret, err);
}

int check_ssh_host(struct str text, struct err *err) {
        struct authority target;
        int r = ssh_host_parse(text, &target, err);

        if (r < 0)
                return err_wrap(err, r, "%s is no host for ssh: write HOST or HOST:PORT", show(text).text);

        return 0;
}

static bool is_fingerprint(struct str text) {
        const struct str kind = STR("SHA256:");
        struct str digest = str_skip(text, kind.n);

        for (size_t i = 0; i < digest.n; i++)
                if (!ascii_is_alnum(digest.p[i]) && digest.p[i] != '+' && digest.p[i] != '/')
                        return false;
        return str_starts(text, kind) && digest.n == FINGERPRINT_N;
}

int check_ssh_key(struct str text, struct err *err) {
        if (is_fingerprint(text) || (text.n > 1 && (text.p[0] == '/' || str_starts(text, STR("~/")))))
                return 0;
        return err_set(err, EINVAL,
                       "%s names no key: write its fingerprint as `ssh-add -l` shows it (SHA256:...), or the path of "
                       "the file with the public key",
                       show(text).text);
}

static struct str without_0x(struct str key) {
        return str_starts(key, STR("0x")) ? str_skip(key, 2) : key;
}

static bool is_gpg_key(struct str digits) {
        for (size_t i = 0; i < digits.n; i++)
                if (ascii_hex(digits.p[i]) < 0)
                        return false;
        return digits.n >= GPG_HEX_MIN && digits.n <= GPG_HEX_MAX;
}

int check_gpg_key(struct str text, struct err *err) {
        if (is_gpg_key(without_0x(text)))
                return 0;
        return err_set(err, EINVAL,
                       "%s names no key of gpg for certain: write its fingerprint, or its long id, as `gpg "
                       "--list-secret-keys --keyid-format=long` shows it",
                       show(text).text);
}

bool policy_has_shim(const struct policy *policy) {
        return policy->ssh.git || policy->signing.gpg.n > 0;
}

bool policy_has_agent(const struct policy *policy) {
        return policy->ssh.keys.n > 0 && (policy->ssh.hosts.n > 0 || policy->signing.ssh);
}

bool policy_ssh_user(const struct policy *policy, struct str user) {
        if (policy->ssh.users.n == 0)
                return str_is(user, DEFAULT_USER);
        for (size_t i = 0; i < policy->ssh.users.n; i++)
                if (str_is(user, policy->ssh.users.p[i].text))
                        return true;
        return false;
}

const char *policy_gpg_key(const struct policy *policy, struct str key) {
        struct str wanted = without_0x(key);

        for (size_t i = 0; i < policy->signing.gpg.n; i++) {
                struct str named = without_0x(str_of(policy->signing.gpg.p[i].text));
                struct str shorter = named.n < wanted.n ? named : wanted;
                struct str longer = named.n < wanted.n ? wanted : named;
                if (is_gpg_key(wanted) && str_eq_nocase(shorter, str_skip(longer, longer.n - shorter.n)))
                        return policy->signing.gpg.p[i].text;
        }

        return NULL;
}
