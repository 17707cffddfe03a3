/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/question.h"

static bool is_recursive(const struct sh_call *c) {
        return call_has_option(c, "-r") || call_has_option(c, "-R") || call_has_option(c, "--recursive");
}

static bool has_root_operand(const struct sh_call *c, size_t from) {
        const struct sh_arg *a;
        for (size_t i = from; (a = call_operand(c, i)); i++) {
                if (place_of(*a) == PLACE_ROOT)
                        return true;
                if (a->fed && (c->pipe_facts & FACT_NAMES_ROOT))
                        return true;
        }
        return false;
}

bool deletes_root(const struct sh_call *c) {
        if (str_is(c->name, "find") || str_is(c->name, "gfind"))
                return call_has_option(c, "-delete") && has_root_operand(c, 0);
        bool fed = c->n && c->p[c->n - 1].fed;
        if (str_is(c->name, "rm") && !is_recursive(c) && !fed)
                return false;
        if (str_is(c->name, "mv")) { /* sources */
                const struct sh_arg *a;
                for (size_t i = 0; (a = call_operand(c, i)) && call_operand(c, i + 1); i++)
                        if (place_of(*a) == PLACE_ROOT)
                                return true;
                return false;
        }
        return has_root_operand(c, 0);
}

/* ../../..: how far up that is depends on where it runs. */
static bool only_climbs(struct str path) {
        struct str part;
        unsigned up = 0;
        while (str_split(&path, '/', &part)) {
                if (part.n && !str_is(part, ".") && !str_is(part, "..") && !str_is(part, "*"))
                        return false;
                up += str_is(part, "..");
        }
        return up >= 2;
}

bool deletes_unknown(const struct sh_call *c) {
        const struct sh_arg *a;
        if (!is_recursive(c))
                return false;
        for (size_t i = 0; (a = call_operand(c, i)); i++)
                if (a->fed ? !(c->pipe_facts & FACT_LISTS) : root_when_empty(*a) || only_climbs(a->text))
                        return true;
        return false;
}

bool changes_root(const struct sh_call *c) {
        return is_recursive(c) && has_root_operand(c, str_is(c->name, "setfacl") ? 0 : 1);
}

/* The argument, or what stands behind of= in dd's. */
static struct sh_arg target_of(struct sh_arg a) {
        if (str_starts(a.text, STR("of=")))
                a.text = str_skip(a.text, 3);
        return a;
}

static bool any_arg_at(const struct sh_call *c, enum sh_place place) {
        for (size_t i = 1; i < c->n; i++)
                if (c->p[i].text.n && place_of(target_of(c->p[i])) == place)
                        return true;
        return false;
}

static const struct sh_arg *last_operand(const struct sh_call *c) {
        const struct sh_arg *a, *last = NULL;
        for (size_t i = 0; (a = call_operand(c, i)); i++)
                last = a;
        return last;
}

bool writes_disk(const struct sh_call *c) {
        if (!str_is(c->name, "dd"))
                return any_arg_at(c, PLACE_DISK);
        for (size_t i = 1; i < c->n; i++)
                if (str_starts(c->p[i].text, STR("of=")) && place_of(target_of(c->p[i])) == PLACE_DISK)
                        return true;
        return false;
}

/* The system's places, or the protected ones. */
static bool lies(struct sh_arg a, bool protected_place) {
        enum sh_place place = place_of(a);
        if (protected_place)
                return place == PLACE_PROTECTED;
        return place == PLACE_SYSTEM || place == PLACE_SHARED || (place == PLACE_ROOT && a.text.p[0] == '/');
}

/* cp, mv, ln, install: the last operand, or the directory given by an option; mv takes its source away too. */
static bool copies_to(const struct sh_call *c, bool protected_place) {
        for (size_t i = 1; i < c->n; i++) {
                struct sh_arg a = c->p[i];
                bool option = str_is(a.text, "-t") || str_is(a.text, "--target-directory");
                if (option && i + 1 < c->n && lies(c->p[i + 1], protected_place))
                        return true;
                if (str_starts(a.text, STR("--target-directory="))) {
                        a.text = str_skip(a.text, 19);
                        if (lies(a, protected_place))
                                return true;
                }
        }
        const struct sh_arg *first = call_operand(c, 0), *to = call_operand(c, 1) ? last_operand(c) : NULL;
        return (to && lies(*to, protected_place)) || (first && str_is(c->name, "mv") && lies(*first, protected_place));
}

static bool writes_to(const struct sh_call *c, bool protected_place) {
        static const char *const copies[] = { "cp", "mv", "ln", "install", "rsync", NULL };
        if (word_in(c->name, copies))
                return copies_to(c, protected_place);
        bool dd = str_is(c->name, "dd");
        for (size_t i = 1; i < c->n; i++)
                if (c->p[i].text.n && (!dd || str_starts(c->p[i].text, STR("of="))) &&
                    lies(target_of(c->p[i]), protected_place))
                        return true;
        return false;
}

/* sed and perl read their operands unless they edit in place. */
static bool reads_operands(const struct sh_call *c) {
        return (str_is(c->name, "sed") || str_is(c->name, "perl")) && !edits_in_place(c);
}

bool writes_system(const struct sh_call *c) {
        return !reads_operands(c) && writes_to(c, false);
}

bool writes_protected(const struct sh_call *c) {
        return !reads_operands(c) && writes_to(c, true);
}

bool reads_credential(const struct sh_call *c) {
        static const char *const names_only[] = { "ls",     "stat",     "test",     "[",       "cd",       "echo",
                                                  "printf", "touch",    "mkdir",    "rm",      "rmdir",    "which",
                                                  "find",   "chmod",    "chown",    "du",      "tree",     "exa",
                                                  "eza",    "realpath", "basename", "dirname", "readlink", "ssh-keygen",
                                                  "type",   "[[",       NULL };
        static const char *const copies[] = { "cp", "mv", "install", "ln", NULL };
        if (word_in(c->name, names_only))
                return false;
        const struct sh_arg *last = word_in(c->name, copies) ? last_operand(c) : NULL;
        for (size_t i = 1; i < c->n; i++) {
                bool git_ignored =
                    str_is(c->name, "git") && (call_has_word(c, "check-ignore") || call_has_word(c, "rm"));
                bool written = last && last == &c->p[i];
                if (!written && !git_ignored && names_credential(c->p[i]))
                        return true;
                if (c->p[i].fed && (c->pipe_facts & FACT_NAMES_SECRET))
                        return true;
        }
        return false;
}

static bool text_contains(struct str text, const char *word) {
        struct str w = str_of(word);
        for (size_t i = 0; i + w.n <= text.n; i++)
                if (str_eq_nocase(str_n(text.p + i, w.n), w))
                        return true;
        return false;
}

/* A pattern that people use to look for keys and passwords. */
static bool is_secret_pattern(struct str text) {
        static const char *const words[] = { "id_rsa",   "id_dsa", "id_ecdsa", "id_ed25519", ".ssh",
                                             ".aws",     ".gnupg", ".kube",    "secret",     "credential",
                                             "password", "passwd", ".netrc",   "keystore",   "wallet",
                                             "htpasswd", ".kdbx",  ".npmrc",   NULL };
        static const char *const ends[] = { ".pem", ".key", ".p12", ".pfx", ".jks", ".ppk", ".env", "id_*", NULL };

        if (str_ends(text, STR("$"))) /* fd takes an expression */
                text = str_first(text, text.n - 1);
        for (const char *const *w = words; *w; w++)
                if (text_contains(text, *w))
                        return true;
        for (const char *const *e = ends; *e; e++)
                if (str_ends(text, str_of(*e)))
                        return true;
        return false;
}

static bool looks_everywhere(const struct sh_call *c) {
        for (size_t i = 1; i < c->n; i++)
                if (c->p[i].text.n && c->p[i].text.p[0] != '-' && place_of(c->p[i]) == PLACE_ROOT)
                        return true;
        return false;
}

bool searches_secrets(const struct sh_call *c) {
        static const char *const tests[] = { "-name",      "-iname", "-path",   "-ipath",
                                             "-wholename", "-regex", "-iregex", NULL };
        if (str_is(c->name, "locate") || str_is(c->name, "plocate") || str_is(c->name, "mlocate")) {
                const struct sh_arg *what = call_operand(c, 0);
                return what && is_secret_pattern(what->text);
        }
        if (!looks_everywhere(c))
                return false;
        for (size_t i = 1; i < c->n; i++) {
                bool pattern = word_in(c->p[i - 1].text, tests) || c->name.p[0] == 'f';
                if (pattern && c->p[i].text.n && c->p[i].text.p[0] != '-' && place_of(c->p[i]) != PLACE_ROOT &&
                    is_secret_pattern(c->p[i].text))
                        return true;
        }
        return false;
}

/* /, a home, all homes, /etc: where secrets are among the rest. */
static bool holds_secrets(struct sh_arg arg) {
        static const char *const whole[] = { "/usr",  "/usr/bin", "/usr/lib", "/usr/share", "/usr/sbin", "/bin",
                                             "/sbin", "/lib",     "/lib32",   "/lib64",     "/opt",      "/srv",
                                             "/dev",  "/boot",    "/sys",     "/mnt",       "/media",    NULL };
        if (arg.text.n > 1 && arg.text.p[arg.text.n - 1] == '/')
                arg.text = str_first(arg.text, arg.text.n - 1);
        return arg.text.n && place_of(arg) == PLACE_ROOT && !word_in(arg.text, whole);
}

bool reads_everything(const struct sh_call *c) {
        static const char *const always[] = { "rg", "ag", "ack", NULL };
        bool tar = str_ends(c->name, STR("tar"));
        bool old_style = tar && c->n > 1 && c->p[1].text.p && str_find(str_first(c->p[1].text, 1), '-') < 0 &&
                         str_find(c->p[1].text, 'c') >= 0;
        const struct sh_arg *a;

        if (tar ? !old_style && !call_has_any(c, WORDS("-c", "--create"))
                : !word_in(c->name, always) && !is_recursive(c) && !call_has_any(c, WORDS("-a", "--archive")))
                return false;
        if (call_has_any(c, WORDS("--files", "--type-list")))
                return false;
        bool copies = str_is(c->name, "cp");
        for (size_t i = 0; (a = call_operand(c, i)); i++)
                if (holds_secrets(*a) && !(copies && !call_operand(c, i + 1)))
                        return true;
        return false;
}

bool listens_or_runs(const struct sh_call *c) {
        if (!str_is(c->name, "socat"))
                return call_has_option(c, "-e") || call_has_option(c, "-c") || call_has_option(c, "--exec") ||
                       call_has_option(c, "--sh-exec") || call_has_option(c, "--lua-exec");
        for (size_t i = 1; i < c->n; i++) {
                struct str a = str_first(c->p[i].text, 7);
                if (str_eq_nocase(str_first(a, 5), STR("EXEC:")) || str_eq_nocase(a, STR("SYSTEM:")))
                        return true;
        }
        return false;
}

bool scans(const struct sh_call *c) {
        return call_has_option(c, "-z");
}

bool init_stops(const struct sh_call *c) {
        return c->n > 1 && (str_is(c->p[1].text, "0") || str_is(c->p[1].text, "6") || str_is(c->p[1].text, "1"));
}

bool lists_only(const struct sh_call *c) {
        return call_has_option(c, "-l") || call_has_option(c, "--list") || call_has_option(c, "-p") ||
               call_has_option(c, "--print");
}

bool changes_partitions(const struct sh_call *c) {
        return !lists_only(c);
}

static bool output_is_null(const struct sh_call *c, const char *letter, const char *word) {
        for (size_t i = 1; i + 1 < c->n; i++)
                if ((str_is(c->p[i].text, letter) || str_is(c->p[i].text, word)) &&
                    (str_is(c->p[i + 1].text, "/dev/null") || str_is(c->p[i + 1].text, "-")))
                        return true;
        return false;
}

static bool redirects_to_file(const struct sh_call *c) {
        for (const struct sh_redirect *r = c->redirects; r; r = r->next)
                if ((r->kind == SH_WRITE || r->kind == SH_APPEND || r->kind == SH_WRITE_BOTH ||
                     r->kind == SH_APPEND_BOTH) &&
                    r->fd != 2 && !str_is(r->target->raw, "/dev/null"))
                        return true;
        return false;
}

bool saves_download(const struct sh_call *c) {
        if (redirects_to_file(c))
                return true;
        if (str_is(c->name, "curl"))
                return call_has_any(
                           c, WORDS("-o", "-O", "--output", "--remote-name", "--remote-name-all", "--output-dir")) &&
                       !output_is_null(c, "-o", "--output") && !output_is_null(c, "-so", "-sSo");
        if (!str_is(c->name, "wget"))
                return true;
        for (size_t i = 1; i < c->n; i++)
                if (str_is(c->p[i].text, "-O-") || str_is(c->p[i].text, "-qO-") || str_is(c->p[i].text, "-nvO-"))
                        return false;
        return !output_is_null(c, "-O", "--output-document") && !output_is_null(c, "-qO", "-nvO") &&
               !call_has_option(c, "--spider") && c->n > 1;
}

bool kills_others(const struct sh_call *c) {
        const struct sh_arg *a;
        if (!str_is(c->name, "kill"))
                return true;
        if (call_has_word(c, "-0") || call_has_word(c, "-l") || call_has_word(c, "-L"))
                return false;
        for (size_t i = 1; i < c->n; i++) {
                a = &c->p[i];
                bool option = a->text.n > 1 && a->text.p[0] == '-' && i == 1;
                if (!option && !(a->text.n && a->text.p[0] == '%'))
                        return true;
        }
        return false;
}

/* 4755, 777, 666, u+s, a+w, o+w. */
static bool mode_opens(struct str mode) {
        if (mode.n && ascii_is_digit(mode.p[0])) {
                bool special = mode.n == 4 && mode.p[0] != '0' && mode.p[0] != '1';
                char others = mode.p[mode.n - 1];
                return special || others == '2' || others == '3' || others == '6' || others == '7';
        }
        ptrdiff_t plus = str_find(mode, '+');
        plus = plus < 0 ? str_find(mode, '=') : plus;
        if (plus < 0)
                return false;
        struct str who = str_first(mode, (size_t)plus), what = str_skip(mode, (size_t)plus + 1);
        bool everyone = str_find(who, 'o') >= 0 || str_find(who, 'a') >= 0;
        return str_find(what, 's') >= 0 || (everyone && str_find(what, 'w') >= 0);
}

/* Also when it closes them: without / readable nothing works any more. */
static bool has_system_operand(const struct sh_call *c, size_t from) {
        const struct sh_arg *a;
        for (size_t i = from; (a = call_operand(c, i)); i++)
                if (place_of(*a) == PLACE_ROOT || place_of(*a) == PLACE_SYSTEM)
                        return true;
        return false;
}

bool opens_permissions(const struct sh_call *c) {
        const struct sh_arg *mode = call_operand(c, 0);
        return has_system_operand(c, call_has_option(c, "--reference") ? 0 : 1) || call_has_option(c, "-R") ||
               call_has_option(c, "--recursive") || (mode && mode_opens(mode->text)) || (mode && mode->unknown);
}

bool installs_globally(const struct sh_call *c) {
        return call_has_option(c, "-g") || call_has_option(c, "--global") || str_is(call_subcommand(c), "global") ||
               str_is(call_subcommand(c), "link") || call_has_word(c, "--location=global");
}

static bool in_virtual_environment(const struct sh_call *c) {
        struct str program = c->p[0].text;
        for (size_t i = 0; i + 4 <= program.n; i++)
                if (str_starts(str_skip(program, i), STR("env/")))
                        return true;
        return c->venv;
}

bool pip_without_venv(const struct sh_call *c) {
        bool module = str_starts(c->name, STR("python"));
        bool pip = str_starts(c->name, STR("pip")) && (c->name.n == 3 || ascii_is_digit(c->name.p[3]));
        bool runs_pip = call_has_word(c, "-mpip") ||
                        (call_has_word(c, "-m") && (call_has_word(c, "pip") || call_has_word(c, "pip3")));
        if (!pip && !(module && runs_pip))
                return false;
        if (!call_has_word(c, "install") && !call_has_word(c, "uninstall"))
                return false;
        return !in_virtual_environment(c) && !call_has_any(c, WORDS("--target", "-t", "--dry-run"));
}

bool edits_crontab(const struct sh_call *c) {
        return !call_has_option(c, "-l");
}

bool edits_in_place(const struct sh_call *c) {
        if (str_is(c->name, "awk") || str_is(c->name, "gawk"))
                return call_has_word(c, "inplace");
        for (size_t i = 1; i < c->n; i++) {
                struct str a = c->p[i].text;
                if (a.n < 2 || a.p[0] != '-')
                        continue;
                if (str_starts(a, STR("--in-place")))
                        return true;
                if (a.p[1] == '-')
                        continue;
                for (size_t k = 1; k < a.n; k++) { /* behind these, the rest is a value */
                        if (a.p[k] == 'i')
                                return true;
                        if (strchr("efMmIdl", a.p[k]))
                                break;
                }
        }
        return false;
}

bool changes_network(const struct sh_call *c) {
        static const char *const verbs[] = { "add",     "del", "delete", "set",    "flush", "change",
                                             "replace", "up",  "down",   "append", "exec",  NULL };
        for (size_t i = 1; i < c->n; i++)
                if (word_in(c->p[i].text, verbs))
                        return true;
        return false;
}

bool has_operand(const struct sh_call *c) {
        return call_operand(c, 0) != NULL;
}

bool sqlite_runs(const struct sh_call *c) {
        for (size_t i = 1; i < c->n; i++)
                if (str_starts(c->p[i].text, STR(".sh")) || str_starts(c->p[i].text, STR(".sys")))
                        return true;
        return false;
}

bool asks_version(const struct sh_call *c) {
        static const char *const version[] = { "--version", "--help", "-version", "version", NULL };
        static const char *const short_version[] = { "node",  "npm",  "python", "python3", "ruby",  "java",  "yarn",
                                                     "pnpm",  "php",  "perl",   "gcc",     "rustc", "cargo", "make",
                                                     "cmake", "deno", "bun",    "lua",     "go",    "javac", NULL };
        if (c->n != 2)
                return false;
        return word_in(c->p[1].text, version) ||
               (word_in(c->name, short_version) && (str_is(c->p[1].text, "-v") || str_is(c->p[1].text, "-V")));
}

/* Options of plain readers that write or run something. */
static const struct {
        const char *const *programs, *const *options;
} active[] = {
        { WORDS("sort"), WORDS("-o", "--output", "--compress-program", "-T", "--temporary-directory") },
        { WORDS("date"), WORDS("-s", "--set") },
        { WORDS("man"), WORDS("-P", "--pager", "-H", "--html") },
        { WORDS("printf"), WORDS("-v") },
        { WORDS("file"), WORDS("-C", "--compile") },
        { WORDS("tree"), WORDS("-o") },
        { WORDS("rg"), WORDS("--pre", "--hostname-bin", "-z", "--search-zip") },
        { WORDS("bat", "batcat"), WORDS("--pager") },
        { WORDS("fd", "fdfind"), WORDS("-x", "-X", "--exec", "--exec-batch") },
        { WORDS("hostname"), WORDS("-F", "--file", "-b") },
        { WORDS("xxd"), WORDS("-r") },
        { WORDS("ps"), WORDS("e") },
        { WORDS("yq"), WORDS("-i", "--inplace") },
};

bool only_reads(const struct sh_call *c) {
        for (size_t i = 0; i < sizeof active / sizeof active[0]; i++)
                if (word_in(c->name, active[i].programs) && call_has_any(c, active[i].options))
                        return false;
        if (str_is(c->name, "uniq") || str_is(c->name, "xxd"))
                return call_operand(c, 1) == NULL; /* the second is written */
        if (str_is(c->name, "hostname"))
                return call_operand(c, 0) == NULL;
        return true;
}

bool find_only_reads(const struct sh_call *c) {
        return !call_has_any(
            c, WORDS("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"));
}

bool find_writes(const struct sh_call *c) {
        static const char *const writing[] = { "-fprint", "-fprint0", "-fprintf", "-fls", NULL };
        for (size_t i = 1; i + 1 < c->n; i++) {
                if (!word_in(c->p[i].text, writing))
                        continue;
                enum sh_place place = place_of(c->p[i + 1]);
                if (place != PLACE_OTHER || c->p[i + 1].unknown)
                        return true;
        }
        return false;
}

/* A makefile that comes through a pipe or a descriptor, or stands on the command line, is a program nobody has seen. */
bool makes_from_input(const struct sh_call *c) {
        const struct sh_option file = { .letters = "f", .words = WORDS("--file", "--makefile") };
        for (size_t i = 1; i < c->n; i++) {
                struct sh_arg value;
                if (str_starts(c->p[i].text, STR("--eval")))
                        return true;
                if (!call_option_value(c, i, &file, &value))
                        continue;
                if (value.unknown || str_is(value.text, "-") || str_starts(value.text, STR("/dev/")) ||
                    str_starts(value.text, STR("/proc/")))
                        return true;
        }
        return false;
}

bool is_compressor(struct str program) {
        static const char *const known[] = { "gzip",  "pigz", "bzip2",  "pbzip2",   "lbzip2", "xz",   "pxz",
                                             "pixz",  "zstd", "zstdmt", "pzstd",    "lz4",    "lzop", "lzip",
                                             "plzip", "lzma", "brotli", "compress", "unzstd", NULL };
        struct str first;
        return str_split(&program, ' ', &first) && word_in(first, known);
}

bool archiver_runs(const struct sh_call *c) {
        const struct sh_option compressor = { .letters = "I", .words = WORDS("--use-compress-program") };
        if (call_has_any(c, WORDS("--to-command", "--rsh-command", "--info-script", "--new-volume-script", "-F")))
                return true;
        for (size_t i = 1; i < c->n; i++) {
                struct sh_arg value;
                /* --checkpoint-action=exec=COMMAND, abbreviated as far as it is unique */
                if (str_starts(c->p[i].text, STR("--checkpoint-")))
                        return true;
                if (call_option_value(c, i, &compressor, &value) && (value.unknown || !is_compressor(value.text)))
                        return true;
        }
        return false;
}

bool lists_archive(const struct sh_call *c) {
        if (str_is(c->name, "zipinfo") || str_is(c->name, "lsar"))
                return true;
        if (str_is(c->name, "unzip"))
                return call_has_option(c, "-l") || call_has_option(c, "-Z");
        if (str_is(c->name, "7z"))
                return c->n > 1 && str_is(c->p[1].text, "l");
        if (call_has_any(c, WORDS("--to-command", "--checkpoint-action", "-I", "--use-compress-program",
                                  "--rsh-command", "-F", "--info-script", "--new-volume-script")))
                return false;
        /* tar tf, tar -tzf, jar tf: t and no other action */
        struct str first = c->n > 1 ? c->p[1].text : STR("");
        bool old_style = first.n && first.p[0] != '-';
        bool list = call_has_option(c, "--list") || (old_style && str_find(first, 't') >= 0) ||
                    (!old_style && call_has_option(c, "-t"));
        bool other = call_has_any(c, WORDS("-x", "-c", "-r", "-u", "--extract", "--create", "--append", "--delete")) ||
                     (old_style && (str_find(first, 'x') >= 0 || str_find(first, 'c') >= 0));
        return list && !other;
}

bool runs_module(const struct sh_call *c) {
        static const char *const modules[] = { "pytest", "unittest", "mypy",    "ruff",       "flake8",     "black",
                                               "pylint", "isort",    "doctest", "py_compile", "compileall", "json.tool",
                                               "build",  "coverage", "tox",     "nox",        NULL };
        return c->n > 2 && str_is(c->p[1].text, "-m") && word_in(c->p[2].text, modules);
}
