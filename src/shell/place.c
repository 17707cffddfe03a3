/* SPDX-License-Identifier: Apache-2.0 */
/* Which places on a machine an argument names: the system's, a disk, secrets, files that others obey. Text only. */
#include "base/buf.h"
#include "shell/place_path.h"

/* Without ., .., and doubled slashes; "~" stays in front. False: longer than any path. */
static bool place_clean(struct str in, struct place_path *out) {
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

                bool climbs = !absolute && (str_is(str_n(out->text, out->n), "..") ||
                                            str_ends(str_n(out->text, out->n), STR("/..")));
                if (str_is(part, "..") && (absolute || out->n > 0) && !climbs) {
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
static bool place_within(struct str path, const char *directory) {
        if (path.n < 2 || path.p[1] != directory[1])
                return false;
        struct str d = str_of(directory);
        return str_starts(path, d) && (path.n == d.n || path.p[d.n] == '/');
}

bool path_is_wild(char c) {
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
        bool all = last.n && (path_is_wild(last.p[0]) || (last.p[0] == '.' && last.n > 1 && path_is_wild(last.p[1])));

        for (size_t i = 1; i < path.n && slash == 0; i++)
                all = all || path_is_wild(path.p[i]); /* /et? */

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

        if (place_within(path, "/dev/tcp") || place_within(path, "/dev/udp"))
                return PLACE_NETWORK;
        if (is_disk(path))
                return PLACE_DISK;

        if (word_in(name, harmless) || place_within(path, "/dev/shm") || place_within(path, "/dev/fd") ||
            place_within(path, "/dev/pts"))
                return PLACE_OTHER;

        return PLACE_SYSTEM;
}

static const char *const protected_names[] = { ".git/hooks",
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
                                               ".git-hooks",
                                               ".pre-commit-config.yml",
                                               ".overcommit.yml",
                                               ".local-overcommit.yml",
                                               ".rusty-hook.toml",
                                               ".huskyrc",
                                               ".huskyrc.json",
                                               ".huskyrc.js",
                                               ".lefthook",
                                               ".lefthook-local",
                                               ".lefthook.yaml",
                                               ".lefthook.toml",
                                               ".lefthook.json",
                                               ".lefthook.jsonc",
                                               ".config/lefthook.yaml",
                                               ".config/lefthook.toml",
                                               ".config/lefthook.json",
                                               ".config/lefthook.jsonc",
                                               ".lefthook-local.yml",
                                               ".lefthook-local.yaml",
                                               ".lefthook-local.toml",
                                               ".lefthook-local.json",
                                               ".lefthook-local.jsonc",
                                               ".config/lefthook-local.yml",
                                               ".config/lefthook-local.yaml",
                                               ".config/lefthook-local.toml",
                                               ".config/lefthook-local.json",
                                               ".config/lefthook-local.jsonc",
                                               ".hg/hgrc",
                                               ".hg/hgrc-not-shared",
                                               ".hg/sharedpath",
                                               ".hgrc",
                                               ".sl/config",
                                               ".sl/sharedpath",
                                               ".jj/repo/config.toml",
                                               ".jj/repo/config-id",
                                               ".jj/repo/workspace-config.toml",
                                               ".jj/workspace-config.toml",
                                               ".jj/workspace-config-id",
                                               ".pijul/config",
                                               ".mkshrc",
                                               ".autoenv",
                                               ".autoenv.zsh",
                                               ".mise.toml",
                                               ".mise.local.toml",
                                               ".mise",
                                               ".config/mise",
                                               ".config/mise.toml",
                                               ".tool-versions",
                                               ".run",
                                               ".nova",
                                               ".vs",
                                               ".devcontainer.json",
                                               ".helix",
                                               ".vim",
                                               ".lvimrc",
                                               ".local.vimrc",
                                               ".dir-locals-2.el",
                                               ".gdbinit",
                                               ".lldbinit",
                                               ".irbrc",
                                               ".pryrc",
                                               ".Rprofile",
                                               ".ghci",
                                               ".octaverc",
                                               ".tmuxinator.yml",
                                               ".tmuxinator.yaml",
                                               ".tmuxp.yaml",
                                               ".tmuxp.yml",
                                               ".tmuxp.json",
                                               ".claude-plugin",
                                               ".cursorrules",
                                               ".qwen",
                                               ".aider.model.settings.yml",
                                               ".continuerc.json",
                                               ".windsurfrules",
                                               ".roomodes",
                                               ".roorules",
                                               ".clinerules",
                                               ".kilocode",
                                               ".kilocodemodes",
                                               ".rules",
                                               ".goose",
                                               ".crush",
                                               ".crush.json",
                                               ".factory",
                                               ".augment",
                                               ".trae",
                                               ".agents",
                                               ".agent",
                                               ".pi",
                                               ".openhands",
                                               ".copilot",
                                               ".github/hooks",
                                               ".github/prompts",
                                               ".github/chatmodes",
                                               ".github/instructions",
                                               ".github/copilot-instructions.md",
                                               ".github/mcp.json",
                                               ".github/lsp.json",
                                               ".github/extensions",
                                               ".github/skills",
                                               ".github/plugin",
                                               ".kilo",
                                               ".simple-git-hooks.js",
                                               ".simple-git-hooks.cjs",
                                               ".simple-git-hooks.mjs",
                                               ".simple-git-hooks.json",
                                               ".lintstagedrc",
                                               ".lintstagedrc.json",
                                               ".goosehints",
                                               ".augment-guidelines",
                                               ".lintstagedrc.ts",
                                               ".lintstagedrc.mts",
                                               ".lintstagedrc.cts",
                                               ".commitlintrc.ts",
                                               ".commitlintrc.cts",
                                               ".commitlintrc.mts",
                                               ".lintstagedrc.yaml",
                                               ".lintstagedrc.yml",
                                               ".lintstagedrc.js",
                                               ".lintstagedrc.cjs",
                                               ".lintstagedrc.mjs",
                                               ".commitlintrc.js",
                                               ".commitlintrc.cjs",
                                               ".commitlintrc.mjs",
                                               ".gitlint",
                                               ".trunk",
                                               ".qlty",
                                               ".nano-staged.js",
                                               ".nano-staged.json",
                                               ".nano-staged.mjs",
                                               ".bzr/branch/branch.conf",
                                               ".bzr/branch/location",
                                               ".bzr/control.conf",
                                               ".repo/repo",
                                               ".gclient",
                                               ".arcconfig",
                                               ".arclint",
                                               ".envrc.local",
                                               ".envrc.private",
                                               ".autoenv_leave.zsh",
                                               ".autoenv.leave",
                                               ".shadowenv.d",
                                               ".xonshrc",
                                               ".rtx.toml",
                                               ".rtx",
                                               ".theia",
                                               ".lazy.lua",
                                               ".nvim",
                                               ".vimrc.local",
                                               ".vimlocal",
                                               ".gvimrc",
                                               ".neoconf.json",
                                               ".luarc.json",
                                               ".luarc.jsonc",
                                               ".kakrc",
                                               ".project",
                                               ".externalToolBuilders",
                                               ".bsp",
                                               ".rust-analyzer.toml",
                                               ".ccls",
                                               ".gitpod.yml",
                                               ".gitpod.Dockerfile",
                                               ".codesandbox",
                                               ".stackblitzrc",
                                               ".idx",
                                               ".gdbearlyinit",
                                               ".pdbrc",
                                               ".pdbrc.py",
                                               ".iex.exs",
                                               ".erlang",
                                               ".ocamlinit",
                                               ".Renviron",
                                               ".RData",
                                               ".perldb",
                                               ".cargo/config",
                                               ".cargo/config.toml",
                                               ".npmrc",
                                               ".pnpmfile.cjs",
                                               ".yarnrc",
                                               ".yarnrc.yml",
                                               ".yarn/releases",
                                               ".yarn/plugins",
                                               ".mvn/extensions.xml",
                                               ".mvn/jvm.config",
                                               ".mvn/maven.config",
                                               ".mvn/wrapper",
                                               ".amp",
                                               ".zencoder",
                                               ".void",
                                               ".codeium",
                                               ".tabnine",
                                               ".cody",
                                               ".serena",
                                               ".forge",
                                               ".warp",
                                               ".antigravity",
                                               ".qoder",
                                               ".rovodev",
                                               ".iflow",
                                               ".kimi",
                                               ".codebuddy",
                                               ".letta",
                                               ".aider",
                                               NULL };
static const char *const protected_in_sight[] = { "lefthook.yml",
                                                  "opencode.json",
                                                  "prek.toml",
                                                  "hk.pkl",
                                                  "hk.local.pkl",
                                                  "captainhook.json",
                                                  "grumphp.yml",
                                                  "rusty-hook.toml",
                                                  "lefthook.yaml",
                                                  "lefthook.toml",
                                                  "lefthook.json",
                                                  "lefthook.jsonc",
                                                  "lefthook-local.yml",
                                                  "lefthook-local.yaml",
                                                  "lefthook-local.toml",
                                                  "lefthook-local.json",
                                                  "lefthook-local.jsonc",
                                                  "_darcs/prefs",
                                                  "mise.toml",
                                                  "mise.local.toml",
                                                  "opencode.jsonc",
                                                  "tui.json",
                                                  "tui.jsonc",
                                                  "kilo.json",
                                                  "kilo.jsonc",
                                                  "crush.json",
                                                  "simple-git-hooks.js",
                                                  "simple-git-hooks.cjs",
                                                  "simple-git-hooks.mjs",
                                                  "simple-git-hooks.json",
                                                  "lint-staged.config.js",
                                                  "lint-staged.config.cjs",
                                                  "lint-staged.config.mjs",
                                                  "commitlint.config.js",
                                                  "commitlint.config.cjs",
                                                  "commitlint.config.mjs",
                                                  "grumphp.yml.dist",
                                                  "grumphp.yaml",
                                                  "lint-staged.config.ts",
                                                  "lint-staged.config.mts",
                                                  "lint-staged.config.cts",
                                                  "commitlint.config.ts",
                                                  "commitlint.config.cts",
                                                  "commitlint.config.mts",
                                                  "mise/config.toml",
                                                  "devbox.json",
                                                  "_vimrc",
                                                  "rust-analyzer.toml",
                                                  NULL };
static const char *const protected_ends[] = { ".code-workspace", ".sublime-project", ".sublime-workspace",
                                              ".nova-workspace", NULL };

/* All protected_names and all secret_files begin so, and no wildcard stands for that dot. */
bool path_has_hidden(struct str path) {
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

/* Whether one of the names stands at the beginning of `rest`, whole components. Most differ in the letter at `at`. */
static bool begins_with_name(struct str rest, const char *const *names, size_t at) {
        if (rest.n <= at)
                return false;

        for (const char *const *p = names; *p; p++) {
                if ((*p)[at] != rest.p[at])
                        continue;
                struct str name = str_of(*p);
                if (str_starts(rest, name) && (rest.n == name.n || rest.p[name.n] == '/'))
                        return true;
        }

        return false;
}

/* mise.production.toml and its like. */
static bool is_of_mise(struct str path) {
        ptrdiff_t slash = str_rfind(path, '/');
        struct str name = str_skip(path, (size_t)(slash + 1));

        if (str_starts(name, STR(".")))
                name = str_skip(name, 1);
        return str_starts(name, STR("mise.")) && str_ends(name, STR(".toml"));
}

static bool is_protected(struct str path) {
        if (!memchr(path.p, '.', path.n) && !memchr(path.p, '_', path.n))
                return false;

        for (const char *const *p = protected_ends; *p; p++)
                if (path.n > strlen(*p) && str_ends(path, str_of(*p)))
                        return true;

        if (is_of_mise(path))
                return true;

        for (size_t i = 0; i < path.n;) {
                struct str rest = str_skip(path, i);
                bool hidden = rest.p[0] == '.';
                if (begins_with_name(rest, hidden ? protected_names : protected_in_sight, hidden))
                        return true;

                const char *slash = memchr(rest.p, '/', rest.n);
                i = slash ? (size_t)(slash - path.p) + 1 : path.n;
        }

        return path_has_hidden(path) && is_git_inside(path);
}

size_t path_components(struct str s) {
        size_t n = 1;
        for (size_t i = 0; i < s.n; i++)
                n += s.p[i] == '/';
        return n;
}

/* Could one text match both globs? Byte by byte; a * of either side stands for anything within a component, and no
 * wildcard takes a leading dot. Bounded by the budget. */
bool path_overlap(struct str a, struct str b, bool start, unsigned *budget) {
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
                if (path_overlap(str_skip(a, 1), b, start, budget))
                        return true;
                bool passes = b.p[0] != '/' && !(start && b.p[0] == '.');
                return passes && path_overlap(a, str_skip(b, 1), false, budget);
        }

        if (a.p[0] == '[' || b.p[0] == '[') {
                struct str class = a, other = b;
                if (a.p[0] != '[') {
                        class = b;
                        other = a;
                }

                ptrdiff_t close = str_find(str_skip(class, 2), ']');
                if (close >= 0 && !(start && other.p[0] == '.'))
                        return path_overlap(str_skip(class, (size_t)close + 3), str_skip(other, 1), false, budget);
        }

        bool any = a.p[0] == '?' || b.p[0] == '?';
        if (a.p[0] != b.p[0] && (!any || a.p[0] == '/' || b.p[0] == '/' || (start && (a.p[0] == '.' || b.p[0] == '.'))))
                return false;

        return path_overlap(str_skip(a, 1), str_skip(b, 1), a.p[0] == '/', budget);
}

/* /proc/self/root/etc is /etc. */
static struct str without_proc(struct str path) {
        struct str rest = path, part;
        if (!place_within(path, "/proc") || !str_split(&rest, '/', &part) || !str_split(&rest, '/', &part) ||
            !str_split(&rest, '/', &part) || !str_split(&rest, '/', &part) || !str_is(part, "root"))
                return path;
        if (rest.n)
                return str_n(rest.p - 1, rest.n + 1);

        return STR("/");
}

static bool resolve_text(struct str text, struct place_path *out, struct str *ret) {
        if (!place_clean(text, out))
                return false;
        *ret = without_proc(str_n(out->text, out->n));
        return true;
}

static bool resolve_under(struct sh_arg arg, struct place_path *out, struct str *ret) {
        PLACE_PATH_UNSET char text[PLACE_PATH_MAX];
        size_t n = arg.under.n;
        if (n + 1 + arg.text.n > sizeof text)
                return false;

        memcpy(text, arg.under.p, n);
        text[n] = '/';
        memcpy(text + n + 1, arg.text.p, arg.text.n);

        return resolve_text(str_n(text, n + 1 + arg.text.n), out, ret);
}

/* What the argument names, seen from where the command stands by then. */
bool path_resolve(struct sh_arg arg, struct place_path *out, struct str *ret) {
        bool relative = arg.text.n && arg.text.p[0] != '/' && arg.text.p[0] != '~';
        if (relative && arg.under.n)
                return resolve_under(arg, out, ret);

        return resolve_text(arg.text, out, ret);
}

/* It has a wildcard, or the directory has that it is seen from. */
bool path_is_pattern(struct sh_arg arg) {
        bool pattern = arg.pattern;
        for (size_t i = 0; i < arg.under.n && !pattern; i++)
                pattern = path_is_wild(arg.under.p[i]);
        return pattern;
}

/* --- where the command runs --------------------------------------------------------------------------------------- */

/* As the shell would see it: absolute, from the directory in which the command began. */
static bool setting_absolute(const struct sh_setting *setting, struct str path, struct place_path *out) {
        char text[PLACE_PATH_MAX];
        struct str base = STR(""), rest = path;

        if (path.n && path.p[0] == '~') {
                base = setting->home;
                rest = str_skip(path, 1);
                if (rest.n && rest.p[0] != '/')
                        return false; /* somebody else's home */
        } else if (path.n == 0 || path.p[0] != '/')
                base = setting->directory;

        if ((base.n == 0 && (path.n == 0 || path.p[0] != '/')) || base.n + rest.n + 2 > sizeof text)
                return false;

        memcpy(text, base.p, base.n);
        text[base.n] = '/';
        memcpy(text + base.n + 1, rest.p, rest.n);

        return place_clean(str_n(text, base.n + 1 + rest.n), out);
}

static bool is_above(struct str directory, struct str path) {
        if (str_is(directory, "/"))
                return true;
        return path.n > directory.n && str_starts(path, directory) && path.p[directory.n] == '/';
}

/* The last component takes everything in its directory: *, .*, [!x]*. */
static bool takes_all(struct str last) {
        size_t dot = last.n > 1 && last.p[0] == '.';
        return last.n > dot && path_is_wild(last.p[dot]);
}

/* The home, the root or a directory above the workspace, whole or everything in it, by whatever name. */
static bool is_root_here(const struct sh_setting *setting, struct str path, bool pattern) {
        PLACE_PATH_UNSET struct place_path out;
        struct str full;

        if (!setting_absolute(setting, path, &out))
                return false;

        full = str_n(out.text, out.n);

        if (pattern) {
                ptrdiff_t slash = str_rfind(full, '/');
                if (slash >= 0 && takes_all(str_skip(full, (size_t)slash + 1)))
                        full = str_first(full, slash > 0 ? (size_t)slash : 1);
        }

        return str_is(full, "/") || str_eq(full, setting->home) ||
               (setting->workspace.n && is_above(full, setting->workspace)) ||
               (path.n && path.p[0] == '.' && is_whole(full));
}

struct str place_at_start(const struct sh_setting *setting) {
        if (!setting || setting->directory.n == 0)
                return STR("");
        if (str_eq(setting->directory, setting->home))
                return STR("~");

        struct sh_arg whole_one = { .text = setting->directory };
        enum sh_place place = place_of(whole_one);
        bool special = place == PLACE_ROOT || place == PLACE_SYSTEM || place == PLACE_DISK;

        return special || names_credential(whole_one) ? setting->directory : STR("");
}

/* Could the pattern name something in this directory? */
static bool may_be_within(struct str path, const char *directory) {
        unsigned budget = 2000;
        struct str d = str_of(directory);
        size_t end = 0, left = path_components(d) - 1;
        for (; end < path.n; end++)
                if (path.p[end] == '/' && left-- == 0)
                        break;
        return path_overlap(str_first(path, end), d, true, &budget);
}

enum sh_place place_of(struct sh_arg arg) {
        static const char *const of_system[] = { "/etc",         "/bin",         "/sbin",      "/lib",
                                                 "/lib32",       "/lib64",       "/boot",      "/sys",
                                                 "/usr/bin",     "/usr/sbin",    "/usr/lib",   "/usr/share",
                                                 "/usr/include", "/usr/libexec", "/var/spool", NULL };
        static const char *const shared[] = { "/usr", "/opt", "/var", "/srv", "/run", NULL };
        PLACE_PATH_UNSET struct place_path out;
        struct str path;

        if (!path_resolve(arg, &out, &path))
                return PLACE_SYSTEM; /* nobody writes such a path */

        bool pattern = path_is_pattern(arg);
        if (is_root(path, pattern) || (arg.setting && is_root_here(arg.setting, path, pattern)))
                return PLACE_ROOT;
        if (str_starts(path, STR("/dev/")))
                return device_of(path);
        if (path.n == 0)
                return PLACE_OTHER;
        if (is_protected(path))
                return PLACE_PROTECTED;

        for (const char *const *p = of_system; *p; p++)
                if (place_within(path, *p) || (pattern && path.p[0] == '/' && may_be_within(path, *p)))
                        return PLACE_SYSTEM;

        if (place_within(path, "/proc"))
                return place_within(path, "/proc/self") ? PLACE_OTHER : PLACE_SYSTEM;
        if (arg.under.n && arg.text.p[0] != '/')
                return PLACE_OTHER; /* a workspace may lie in any of these */

        for (const char *const *p = shared; *p; p++)
                if (place_within(path, *p) && !place_within(path, "/var/tmp") && !place_within(path, "/run/user"))
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

/* --- directories -------------------------------------------------------------------------------------------------- */

/* Below the directory where the command began, or nobody knows where that is. */
static bool stays_below(const struct sh_setting *setting, struct str path) {
        return !setting || setting->directory.n == 0 || !(str_is(path, "..") || str_starts(path, STR("../")));
}

struct str place_behind(struct arena *arena, struct str from, struct sh_arg to) {
        PLACE_PATH_UNSET struct place_path out, full;
        struct str path, copy;

        to.under = from;
        if (!path_resolve(to, &out, &path))
                return STR("/"); /* nobody writes such a path */

        if (!stays_below(to.setting, path)) {
                if (!setting_absolute(to.setting, path, &full))
                        return STR("/");
                path = str_n(full.text, full.n);
                if (str_eq(path, to.setting->home))
                        path = STR("~");
        }

        bool plain = path.n == 0 || (path.p[0] != '/' && path.p[0] != '~' && !place_is_special(path));
        if (path.n == 0 || (plain && !to.setting)) /* a relative path means the same in each of them */
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
