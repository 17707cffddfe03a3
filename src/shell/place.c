/* SPDX-License-Identifier: Apache-2.0 */
/* Which places on a machine an argument names: the system's, a disk, secrets, files that others obey. Text only. */
#include "base/buf.h"
#include "shell/call.h"

#include <stdio.h>

enum { PLACE_PATH_MAX = 4096 };

struct place_path {
        char text[PLACE_PATH_MAX];
        size_t n;
};
/* Filled by clean(), and too large to be zeroed for every word of a command. */
#define PLACE_PATH_UNSET __attribute__((uninitialized))

/* Without ., .., and doubled slashes; "~" stays in front. False: longer than any path. */
static bool clean(struct str in, struct place_path *out) {
        bool absolute = in.n && in.p[0] == '/', home = in.n && in.p[0] == '~';
        const char *start = in.p;
        struct str part;
        size_t floor = absolute ? 1 : 0;
        out->n = 0;
        if (absolute)
                out->text[out->n++] = '/';
        while (str_split(&in, '/', &part)) {
                if (part.n == 0 || str_is(part, "."))
                        continue;
                if (str_is(part, "..") && home && !memchr(out->text, '/', out->n)) { /* where the homes are */
                        memcpy(out->text, "/home", 5);
                        out->n = 5;
                        home = false;
                        floor = 1;
                        continue;
                }
                if (str_is(part, "..") && (absolute || out->n > 0)) {
                        while (out->n > floor && out->text[out->n - 1] != '/')
                                out->n--;
                        if (out->n > floor)
                                out->n--;
                        continue;
                }
                if (out->n + part.n + 3 > PLACE_PATH_MAX)
                        return false;
                if (out->n && out->text[out->n - 1] != '/')
                        out->text[out->n++] = '/';
                if (out->n == 0 && part.p[0] == '~' && part.p != start) /* ./~ is not the home */
                        out->text[out->n++] = '.';
                memcpy(out->text + out->n, part.p, part.n);
                out->n += part.n;
        }
        return true;
}

/* `directory` begins with a slash and has a second letter: most paths are told apart by that one. */
static bool within(struct str path, const char *directory) {
        if (path.n < 2 || path.p[1] != directory[1])
                return false;
        struct str d = str_of(directory);
        return str_starts(path, d) && (path.n == d.n || path.p[d.n] == '/');
}

static bool is_wild(char c) {
        return c == '*' || c == '?' || c == '[';
}

static bool is_home(struct str path) {
        struct str rest = path;
        if (path.n && path.p[0] == '~')
                return str_find(path, '/') < 0;
        if (str_is(path, "/root"))
                return true;
        if (!str_starts(path, STR("/home/")) && !str_starts(path, STR("/Users/")))
                return false;
        rest = str_skip(path, str_starts(path, STR("/home/")) ? 6 : 7);
        return rest.n > 0 && str_find(rest, '/') < 0;
}

static const char *const whole[] = { "/bin",      "/boot",  "/dev",     "/etc",     "/home",  "/lib",
                                     "/lib32",    "/lib64", "/opt",     "/proc",    "/sbin",  "/srv",
                                     "/sys",      "/usr",   "/usr/bin", "/usr/lib", "/var",   "/usr/share",
                                     "/usr/sbin", "/Users", "/var/lib", "/mnt",     "/media", NULL };

static bool is_whole(struct str path) {
        return path.n == 0 || str_is(path, "/") || is_home(path) || word_in(path, whole);
}

/* The directory whole, everything in it ("/" and "*"), or a pattern that the root's entries match. */
static bool is_root(struct str path, bool pattern) {
        if (path.n == 0)
                return false;
        if (is_whole(path))
                return true;
        if (!pattern || (path.p[0] != '/' && path.p[0] != '~'))
                return false;
        ptrdiff_t slash = str_rfind(path, '/');
        struct str directory = str_first(path, slash > 0 ? (size_t)slash : 1), last = str_skip(path, (size_t)slash + 1);
        bool all = last.n && (is_wild(last.p[0]) || (last.p[0] == '.' && last.n > 1 && is_wild(last.p[1])));
        for (size_t i = 1; i < path.n && slash == 0; i++)
                all = all || is_wild(path.p[i]); /* /et? */
        return all && is_whole(directory);
}

static bool is_disk(struct str path) {
        static const char *const prefixes[] = { "sd",   "hd",   "vd", "xvd",   "nvme",    "mmcblk",
                                                "loop", "dm-",  "md", "disk/", "mapper/", "mem",
                                                "kmem", "port", "sr", "nbd",   "ram",     NULL };
        if (!str_starts(path, STR("/dev/")))
                return false;
        struct str name = str_skip(path, 5);
        for (const char *const *p = prefixes; *p; p++)
                if (str_starts(name, str_of(*p)))
                        return true;
        return false;
}

static enum sh_place device_of(struct str path) {
        static const char *const harmless[] = { "null", "zero",   "full",    "stdout", "stderr", "stdin",
                                                "tty",  "random", "urandom", "ptmx",   NULL };
        struct str name = str_skip(path, 5);
        if (within(path, "/dev/tcp") || within(path, "/dev/udp"))
                return PLACE_NETWORK;
        if (is_disk(path))
                return PLACE_DISK;
        return word_in(name, harmless) || within(path, "/dev/shm") || within(path, "/dev/fd") ||
                       within(path, "/dev/pts")
                   ? PLACE_OTHER
                   : PLACE_SYSTEM;
}

static const char *const protected_names[] = {
        ".git/hooks",
        ".git/config",
        ".git/config.worktree",
        ".git/commondir",
        ".git/remotes",
        ".git/branches",
        ".husky",
        ".githooks",
        ".pre-commit-config.yaml",
        ".lefthook.yml",
        ".gitconfig",
        ".config/git",
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".login",
        ".logout",
        ".inputrc",
        ".config/fish",
        ".envrc",
        ".xprofile",
        ".xinitrc",
        ".xsessionrc",
        ".pam_environment",
        ".local/bin",
        ".config/autostart",
        ".config/systemd",
        ".config/environment.d",
        ".vscode",
        ".idea",
        ".zed",
        ".fleet",
        ".devcontainer",
        ".vimrc",
        ".exrc",
        ".nvim.lua",
        ".nvimrc",
        ".dir-locals.el",
        ".ripgreprc",
        ".mcp.json",
        ".claude",
        ".cursor",
        ".codex",
        ".gemini",
        ".opencode",
        ".aider.conf.yml",
        ".continue",
        ".windsurf",
        ".roo",
        ".cline",
        ".amazonq",
        ".junie",
        ".kiro",
        ".github/agents",
        ".github/copilot",
        ".bailey.yaml",
        ".bailey.yml",
        ".bailey",
        ".config/bailey",
        ".ssh",
        ".gnupg",
        NULL,
};
static const char *const protected_in_sight[] = { "lefthook.yml", "opencode.json", NULL };

/* All protected_names and all secret_files begin so, and no wildcard stands for that dot. */
static bool has_hidden_component(struct str path) {
        for (size_t i = 0; i < path.n; i++)
                if (path.p[i] == '.' && (i == 0 || path.p[i - 1] == '/'))
                        return true;
        return false;
}

/* Whether the components of `name` stand anywhere in the path. */
static bool has_components(struct str path, struct str name) {
        for (size_t i = 0; i + name.n <= path.n;) {
                if (path.p[i] == name.p[0] && memcmp(path.p + i, name.p, name.n) == 0 &&
                    (i + name.n == path.n || path.p[i + name.n] == '/'))
                        return true;
                const char *slash = memchr(path.p + i, '/', path.n - i);
                if (!slash)
                        return false;
                i = (size_t)(slash - path.p) + 1;
        }
        return false;
}

/* Those of a submodule or a worktree: .git/modules/NAME/hooks, where NAME may have slashes. */
static bool is_git_inside(struct str path) {
        static const char *const names[] = { "hooks", "config", "config.worktree", "commondir", NULL };
        struct str part;
        bool inside = false;
        if (!has_components(path, STR(".git/modules")) && !has_components(path, STR(".git/worktrees")))
                return false;
        while (str_split(&path, '/', &part)) {
                if (inside && word_in(part, names))
                        return true;
                inside = inside || str_is(part, "modules") || str_is(part, "worktrees");
        }
        return false;
}

static bool is_protected(struct str path) {
        if (!memchr(path.p, '.', path.n))
                return false;
        for (const char *const *p = protected_in_sight; *p; p++)
                if (has_components(path, str_of(*p)))
                        return true;
        if (!has_hidden_component(path))
                return false;
        if (is_git_inside(path))
                return true;
        for (const char *const *p = protected_names; *p; p++)
                if (has_components(path, str_of(*p)))
                        return true;
        return false;
}

static size_t components(struct str s) {
        size_t n = 1;
        for (size_t i = 0; i < s.n; i++)
                n += s.p[i] == '/';
        return n;
}

/* Could one text match both globs? Byte by byte; a * of either side stands for anything within a component, and no
 * wildcard takes a leading dot. Bounded by the budget. */
static bool overlap(struct str a, struct str b, bool start, unsigned *budget) {
        if (*budget == 0)
                return true; /* too contrived to be harmless */
        --*budget;
        if (a.n == 0 || b.n == 0) {
                struct str rest = a.n ? a : b;
                while (rest.n && rest.p[0] == '*')
                        rest = str_skip(rest, 1);
                return rest.n == 0;
        }
        if (b.p[0] == '*') {
                struct str swap = a;
                a = b;
                b = swap;
        }
        if (a.p[0] == '*') {
                if (overlap(str_skip(a, 1), b, start, budget))
                        return true;
                bool passes = b.p[0] != '/' && !(start && b.p[0] == '.');
                return passes && overlap(a, str_skip(b, 1), false, budget);
        }
        if (a.p[0] == '[' || b.p[0] == '[') {
                struct str *class = a.p[0] == '[' ? &a : &b, *other = class == &a ? &b : &a;
                ptrdiff_t close = str_find(str_skip(*class, 2), ']');
                if (close >= 0 && !(start && other->p[0] == '.'))
                        return overlap(str_skip(*class, (size_t)close + 3), str_skip(*other, 1), false, budget);
        }
        bool any = a.p[0] == '?' || b.p[0] == '?';
        if (a.p[0] != b.p[0] && (!any || a.p[0] == '/' || b.p[0] == '/' || (start && (a.p[0] == '.' || b.p[0] == '.'))))
                return false;
        return overlap(str_skip(a, 1), str_skip(b, 1), a.p[0] == '/', budget);
}

/* /proc/self/root/etc is /etc. */
static struct str without_proc(struct str path) {
        struct str rest = path, part;
        if (!within(path, "/proc") || !str_split(&rest, '/', &part) || !str_split(&rest, '/', &part) ||
            !str_split(&rest, '/', &part) || !str_split(&rest, '/', &part) || !str_is(part, "root"))
                return path;
        return rest.n ? str_n(rest.p - 1, rest.n + 1) : STR("/");
}

static bool resolve_text(struct str text, struct place_path *out, struct str *ret) {
        if (!clean(text, out))
                return false;
        *ret = without_proc(str_n(out->text, out->n));
        return true;
}

static bool resolve_under(struct sh_arg arg, struct place_path *out, struct str *ret) {
        char text[PLACE_PATH_MAX];
        size_t n = arg.under.n;
        if (n + 1 + arg.text.n > sizeof text)
                return false;
        memcpy(text, arg.under.p, n);
        text[n] = '/';
        memcpy(text + n + 1, arg.text.p, arg.text.n);
        return resolve_text(str_n(text, n + 1 + arg.text.n), out, ret);
}

/* What the argument names, seen from where the command stands by then. */
static bool resolve(struct sh_arg arg, struct place_path *out, struct str *ret) {
        bool relative = arg.text.n && arg.text.p[0] != '/' && arg.text.p[0] != '~';
        return relative && arg.under.n ? resolve_under(arg, out, ret) : resolve_text(arg.text, out, ret);
}

/* It has a wildcard, or the directory has that it is seen from. */
static bool is_pattern(struct sh_arg arg) {
        bool pattern = arg.pattern;
        for (size_t i = 0; i < arg.under.n && !pattern; i++)
                pattern = is_wild(arg.under.p[i]);
        return pattern;
}

/* Could the pattern name something in this directory? */
static bool may_be_within(struct str path, const char *directory) {
        unsigned budget = 2000;
        struct str d = str_of(directory);
        size_t end = 0, left = components(d) - 1;
        for (; end < path.n; end++)
                if (path.p[end] == '/' && left-- == 0)
                        break;
        return overlap(str_first(path, end), d, true, &budget);
}

enum sh_place place_of(struct sh_arg arg) {
        static const char *const of_system[] = { "/etc",         "/bin",         "/sbin",      "/lib",
                                                 "/lib32",       "/lib64",       "/boot",      "/sys",
                                                 "/usr/bin",     "/usr/sbin",    "/usr/lib",   "/usr/share",
                                                 "/usr/include", "/usr/libexec", "/var/spool", NULL };
        static const char *const shared[] = { "/usr", "/opt", "/var", "/srv", "/run", NULL };
        PLACE_PATH_UNSET struct place_path out;
        struct str path;
        if (!resolve(arg, &out, &path))
                return PLACE_SYSTEM; /* nobody writes such a path */
        bool pattern = is_pattern(arg);
        if (is_root(path, pattern))
                return PLACE_ROOT;
        if (str_starts(path, STR("/dev/")))
                return device_of(path);
        if (path.n == 0)
                return PLACE_OTHER;
        if (is_protected(path))
                return PLACE_PROTECTED;
        for (const char *const *p = of_system; *p; p++)
                if (within(path, *p) || (pattern && path.p[0] == '/' && may_be_within(path, *p)))
                        return PLACE_SYSTEM;
        if (within(path, "/proc"))
                return within(path, "/proc/self") ? PLACE_OTHER : PLACE_SYSTEM;
        if (arg.under.n && arg.text.p[0] != '/')
                return PLACE_OTHER; /* a workspace may lie in any of these */
        for (const char *const *p = shared; *p; p++)
                if (within(path, *p) && !within(path, "/var/tmp") && !within(path, "/run/user"))
                        return PLACE_SHARED;
        return PLACE_OTHER;
}

bool root_when_empty(struct sh_arg arg) {
        char text[256];
        size_t n = 0;
        if (!arg.unknown || arg.text.n >= sizeof text)
                return false;
        for (size_t i = 0; i < arg.text.n; i++)
                if (arg.text.p[i])
                        text[n++] = arg.text.p[i];
        if (n == 0)
                return true;
        struct sh_arg known = { .text = str_n(text, n), .pattern = arg.pattern };
        return place_of(known) == PLACE_ROOT;
}

/* --- secrets ------------------------------------------------------------------------------------------------------ */

static const char *const secret_files[] = { /* the end of a path, whole components */
                                            ".ssh",
                                            ".ssh/id_*",
                                            ".ssh/*_key",
                                            ".ssh/identity*",
                                            ".aws", /* all of it, as tar and grep -r take it */
                                            ".gnupg",
                                            ".kube",
                                            ".password-store",
                                            ".config/gcloud",
                                            ".config/gh",
                                            ".aws/credentials",
                                            ".aws/config",
                                            ".azure/*",
                                            ".config/gcloud/*",
                                            ".boto",
                                            ".s3cfg",
                                            ".config/rclone/*",
                                            ".kube/config",
                                            ".docker/config.json",
                                            ".netrc",
                                            ".git-credentials",
                                            ".config/git/credentials",
                                            ".config/gh/*",
                                            ".config/hub",
                                            ".npmrc",
                                            ".yarnrc.yml",
                                            ".pypirc",
                                            ".cargo/credentials*",
                                            ".gem/credentials",
                                            ".vault-token",
                                            ".config/op/*",
                                            ".password-store/*",
                                            ".pgpass",
                                            ".my.cnf",
                                            ".bash_history",
                                            ".zsh_history",
                                            ".python_history",
                                            ".psql_history",
                                            ".gnupg/*",
                                            ".env",
                                            ".env.*",
                                            ".htpasswd",
                                            ".terraform.d/credentials*",
                                            ".m2/settings-security.xml",
                                            ".config/containers/auth.json",
                                            ".config/glab-cli/*",
                                            ".config/Bitwarden CLI/*",
                                            ".local/share/keyrings/*",
                                            ".local/state/bailey/*",
                                            ".local/share/bailey/*",
                                            NULL
};
static const char *const secret_system[] = {
        "/etc/shadow*",   "/etc/gshadow*",   "/etc/sudoers*",     "/etc/ssl/private/*", "/etc/ssh/ssh_host_*_key",
        "/run/secrets/*", "/proc/*/environ", "/var/lib/docker/*", "/var/run/secrets/*", NULL
};
static const char *const secret_suffixes[] = { ".pem", ".p12",  ".pfx", ".key", ".keystore",
                                               ".jks", ".kdbx", ".ppk", NULL };
static const char *const secret_names[] = { "id_rsa",         "id_dsa",           "id_ecdsa",
                                            "id_ed25519",     "credentials.json", "secrets.yml",
                                            "secrets.yaml",   "secrets.json",     "service-account.json",
                                            "cookies.sqlite", "logins.json",      "key4.db",
                                            "Login Data",     "Cookies",          NULL };
static const char *const samples[] = {
        ".example", ".sample", ".template", ".dist", ".test", ".tmpl", ".defaults", NULL
};

static bool ends_with_any(struct str s, const char *const *suffixes) {
        for (; *suffixes; suffixes++) {
                struct str end = str_of(*suffixes);
                if (s.n > end.n && s.p[s.n - 1] == end.p[end.n - 1] && str_ends(s, end))
                        return true;
        }
        return false;
}

/* The last n components. */
static struct str tail(struct str path, size_t n) {
        for (size_t i = path.n; i > 0; i--)
                if (path.p[i - 1] == '/' && --n == 0)
                        return str_skip(path, i);
        return path;
}

static bool is_secret(struct sh_arg arg) {
        PLACE_PATH_UNSET struct place_path out;
        struct str path;
        bool pattern = is_pattern(arg);
        if (arg.text.n == 0 || !resolve(arg, &out, &path))
                return false;
        struct str base = tail(path, 1);
        if (ends_with_any(base, samples))
                return false;
        if (word_in(base, secret_names) || ends_with_any(base, secret_suffixes))
                return true;
        bool look = pattern || has_hidden_component(path);
        for (const char *const *p = secret_files; *p && look; p++) {
                unsigned budget = 2000;
                struct str want = str_of(*p);
                if (!pattern && path.n < want.n - (want.p[want.n - 1] == '*'))
                        continue;
                if (overlap(tail(path, components(want)), want, true, &budget))
                        return true;
        }
        for (const char *const *p = secret_system; *p && path.n && path.p[0] == '/'; p++) {
                unsigned budget = 2000;
                if (!pattern && path.n > 1 && path.p[1] != (*p)[1] && !is_wild(path.p[1]))
                        continue;
                if (overlap(path, str_of(*p), true, &budget))
                        return true;
        }
        return false;
}

bool names_credential(struct sh_arg arg) {
        struct str text = arg.text;
        if (is_secret(arg))
                return true;
        unsigned left = 8; /* separators that are looked behind */
        for (size_t i = 0; i < text.n && left > 0; i++)
                if (text.p[i] == '=' || text.p[i] == '@' || text.p[i] == ':') {
                        left--;
                        arg.text = str_skip(text, i + 1);
                        if (is_secret(arg))
                                return true;
                }
        return false;
}

/* --- directories -------------------------------------------------------------------------------------------------- */

struct str place_behind(struct arena *arena, struct str from, struct sh_arg to) {
        PLACE_PATH_UNSET struct place_path out;
        struct str path, copy;
        to.under = from;
        if (!resolve(to, &out, &path))
                return STR("/"); /* nobody writes such a path */
        bool plain = path.n == 0 || (path.p[0] != '/' && path.p[0] != '~' && !place_is_special(path));
        if (plain)
                return STR("");
        copy = arena_copy(arena, path);
        return copy.p ? copy : STR("/");
}

bool place_is_special(struct str directory) {
        struct str rest = directory, part;
        struct sh_arg whole_one = { .text = directory }, inside = { .text = STR("x"), .under = directory };
        if (directory.n == 0)
                return false;
        while (str_split(&rest, '/', &part))
                if (part.n > 1 && part.p[0] == '.' && !str_is(part, ".."))
                        return true;
        enum sh_place place = place_of(whole_one);
        return (place != PLACE_OTHER && place != PLACE_SHARED) || names_credential(whole_one) ||
               names_credential(inside);
}
