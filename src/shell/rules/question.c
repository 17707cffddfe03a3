/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/rules/question.h"

static bool is_recursive(const struct sh_call *call) {
        return call_has_option(call, "-r") || call_has_option(call, "-R") || call_has_option(call, "--recursive");
}

static bool has_root_operand(const struct sh_call *call, size_t from) {
        const struct sh_arg *arg;

        for (size_t i = from; (arg = call_operand(call, i)); i++) {
                if (place_of(*arg) == PLACE_ROOT)
                        return true;
                if (arg->fed && (call->pipe_facts & FACT_NAMES_ROOT))
                        return true;
        }

        return false;
}

bool deletes_root(const struct sh_call *call) {
        if (str_is(call->name, "find") || str_is(call->name, "gfind"))
                return call_has_option(call, "-delete") && has_root_operand(call, 0);

        bool fed = call->n && call->p[call->n - 1].fed;
        if (str_is(call->name, "rm") && !is_recursive(call) && !fed)
                return false;

        if (str_is(call->name, "mv")) { /* sources */
                const struct sh_arg *arg;

                for (size_t i = 0; (arg = call_operand(call, i)) && call_operand(call, i + 1); i++)
                        if (place_of(*arg) == PLACE_ROOT)
                                return true;
                return false;
        }

        return has_root_operand(call, 0);
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

bool deletes_unknown(const struct sh_call *call) {
        const struct sh_arg *arg;
        bool listed = (call->pipe_facts & FACT_NAMES_ROOT) && (call->pipe_facts & FACT_LISTS);

        for (size_t i = 0; listed && (arg = call_operand(call, i)); i++)
                if (arg->unknown && !arg->fed) /* find / | while read f; do rm "$f"; done */
                        return true;

        if (!is_recursive(call))
                return false;

        for (size_t i = 0; (arg = call_operand(call, i)); i++)
                if (arg->fed ? !(call->pipe_facts & FACT_LISTS) : root_when_empty(*arg) || only_climbs(arg->text))
                        return true;

        return false;
}

bool changes_root(const struct sh_call *call) {
        return is_recursive(call) && has_root_operand(call, str_is(call->name, "setfacl") ? 0 : 1);
}

/* The argument, or what stands behind of= in dd's. */
static struct sh_arg target_of(struct sh_arg arg) {
        if (str_starts(arg.text, STR("of=")))
                arg.text = str_skip(arg.text, 3);
        return arg;
}

static bool any_arg_at(const struct sh_call *call, enum sh_place place) {
        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n && place_of(target_of(call->p[i])) == place)
                        return true;
        return false;
}

static const struct sh_arg *last_operand(const struct sh_call *call) {
        const struct sh_arg *arg, *last = NULL;
        for (size_t i = 0; (arg = call_operand(call, i)); i++)
                last = arg;
        return last;
}

bool writes_disk(const struct sh_call *call) {
        if (!str_is(call->name, "dd"))
                return any_arg_at(call, PLACE_DISK);
        for (size_t i = 1; i < call->n; i++)
                if (str_starts(call->p[i].text, STR("of=")) && place_of(target_of(call->p[i])) == PLACE_DISK)
                        return true;
        return false;
}

/* The system's places, or the protected ones. */
static bool question_lies(struct sh_arg arg, bool protected_place) {
        enum sh_place place = place_of(arg);
        if (protected_place)
                return place == PLACE_PROTECTED;
        return place == PLACE_SYSTEM || place == PLACE_SHARED || (place == PLACE_ROOT && arg.text.p[0] == '/');
}

/* cp, mv, ln, install: the last operand, or the directory given by an option; mv takes its source away too. */
static bool copies_to(const struct sh_call *call, bool protected_place) {
        for (size_t i = 1; i < call->n; i++) {
                struct sh_arg arg = call->p[i];
                bool option = str_is(arg.text, "-t") || str_is(arg.text, "--target-directory");
                if (option && i + 1 < call->n && question_lies(call->p[i + 1], protected_place))
                        return true;

                if (str_starts(arg.text, STR("--target-directory="))) {
                        arg.text = str_skip(arg.text, 19);
                        if (question_lies(arg, protected_place))
                                return true;
                }
        }

        const struct sh_arg *first = call_operand(call, 0), *to = call_operand(call, 1) ? last_operand(call) : NULL;
        return (to && question_lies(*to, protected_place)) ||
               (first && str_is(call->name, "mv") && question_lies(*first, protected_place));
}

static bool writes_to(const struct sh_call *call, bool protected_place) {
        static const char *const copies[] = { "cp", "mv", "ln", "install", "rsync", NULL };
        if (word_in(call->name, copies))
                return copies_to(call, protected_place);

        bool dd = str_is(call->name, "dd");

        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n && (!dd || str_starts(call->p[i].text, STR("of="))) &&
                    question_lies(target_of(call->p[i]), protected_place))
                        return true;

        return false;
}

/* sed and perl read their operands unless they edit in place. */
static bool reads_operands(const struct sh_call *call) {
        return (str_is(call->name, "sed") || str_is(call->name, "perl")) && !edits_in_place(call);
}

bool writes_system(const struct sh_call *call) {
        return !reads_operands(call) && writes_to(call, false);
}

bool writes_protected(const struct sh_call *call) {
        return !reads_operands(call) && writes_to(call, true);
}

bool reads_credential(const struct sh_call *call) {
        static const char *const names_only[] = { "ls",     "stat",     "test",     "[",       "cd",       "echo",
                                                  "printf", "touch",    "mkdir",    "rm",      "rmdir",    "which",
                                                  "find",   "chmod",    "chown",    "du",      "tree",     "exa",
                                                  "eza",    "realpath", "basename", "dirname", "readlink", "ssh-keygen",
                                                  "type",   "[[",       NULL };
        static const char *const copies[] = { "cp", "mv", "install", "ln", NULL };

        if (word_in(call->name, names_only))
                return false;

        const struct sh_arg *last = word_in(call->name, copies) ? last_operand(call) : NULL;
        bool found_secret = (call->inner_facts & FACT_NAMES_SECRET) && (call->inner_facts & FACT_LISTS);

        for (size_t i = 1; i < call->n; i++) {
                bool git_ignored =
                    str_is(call->name, "git") && (call_has_word(call, "check-ignore") || call_has_word(call, "rm"));
                bool written = last && last == &call->p[i];
                if (!written && !git_ignored && names_credential(call->p[i]))
                        return true;
                if (call->p[i].fed && (call->pipe_facts & FACT_NAMES_SECRET))
                        return true;
                if (call->p[i].unknown && found_secret) /* cat $(find / -name .pgpass) */
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
                                             "htpasswd", ".kdbx",  ".npmrc",   ".pgpass",    NULL };
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

static bool looks_everywhere(const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++)
                if (call->p[i].text.n && call->p[i].text.p[0] != '-' && place_of(call->p[i]) == PLACE_ROOT)
                        return true;
        return false;
}

bool searches_secrets(const struct sh_call *call) {
        static const char *const tests[] = { "-name",      "-iname", "-path",   "-ipath",
                                             "-wholename", "-regex", "-iregex", NULL };

        if (str_is(call->name, "locate") || str_is(call->name, "plocate") || str_is(call->name, "mlocate")) {
                const struct sh_arg *what = call_operand(call, 0);
                return what && is_secret_pattern(what->text);
        }

        if (!looks_everywhere(call))
                return false;

        for (size_t i = 1; i < call->n; i++) {
                bool pattern = word_in(call->p[i - 1].text, tests) || call->name.p[0] == 'f';
                if (pattern && call->p[i].text.n && call->p[i].text.p[0] != '-' && place_of(call->p[i]) != PLACE_ROOT &&
                    is_secret_pattern(call->p[i].text))
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

bool reads_everything(const struct sh_call *call) {
        static const char *const always[] = { "rg", "ag", "ack", NULL };
        bool tar = str_ends(call->name, STR("tar"));
        bool old_style = tar && call->n > 1 && call->p[1].text.p && str_find(str_first(call->p[1].text, 1), '-') < 0 &&
                         str_find(call->p[1].text, 'c') >= 0;
        const struct sh_arg *arg;

        if (tar ? !old_style && !call_has_any(call, WORDS("-c", "--create"))
                : !word_in(call->name, always) && !is_recursive(call) && !call_has_any(call, WORDS("-a", "--archive")))
                return false;

        if (call_has_any(call, WORDS("--files", "--type-list")))
                return false;

        bool copies = str_is(call->name, "cp");

        for (size_t i = 0; (arg = call_operand(call, i)); i++)
                if (holds_secrets(*arg) && !(copies && !call_operand(call, i + 1)))
                        return true;

        return false;
}

bool listens_or_runs(const struct sh_call *call) {
        if (!str_is(call->name, "socat"))
                return call_has_option(call, "-e") || call_has_option(call, "-c") || call_has_option(call, "--exec") ||
                       call_has_option(call, "--sh-exec") || call_has_option(call, "--lua-exec");

        for (size_t i = 1; i < call->n; i++) {
                struct str a = str_first(call->p[i].text, 7);
                if (str_eq_nocase(str_first(a, 5), STR("EXEC:")) || str_eq_nocase(a, STR("SYSTEM:")))
                        return true;
        }

        return false;
}

bool scans(const struct sh_call *call) {
        return call_has_option(call, "-z");
}

bool init_stops(const struct sh_call *call) {
        return call->n > 1 &&
               (str_is(call->p[1].text, "0") || str_is(call->p[1].text, "6") || str_is(call->p[1].text, "1"));
}

bool lists_only(const struct sh_call *call) {
        return call_has_option(call, "-l") || call_has_option(call, "--list") || call_has_option(call, "-p") ||
               call_has_option(call, "--print");
}

bool changes_partitions(const struct sh_call *call) {
        return !lists_only(call);
}

static bool output_is_null(const struct sh_call *call, const char *letter, const char *word) {
        for (size_t i = 1; i + 1 < call->n; i++)
                if ((str_is(call->p[i].text, letter) || str_is(call->p[i].text, word)) &&
                    (str_is(call->p[i + 1].text, "/dev/null") || str_is(call->p[i + 1].text, "-")))
                        return true;
        return false;
}

static bool redirects_to_file(const struct sh_call *call) {
        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if ((redirect->kind == SH_WRITE || redirect->kind == SH_APPEND || redirect->kind == SH_WRITE_BOTH ||
                     redirect->kind == SH_APPEND_BOTH) &&
                    redirect->fd != 2 && !str_is(redirect->target->raw, "/dev/null"))
                        return true;
        return false;
}

bool saves_download(const struct sh_call *call) {
        if (redirects_to_file(call))
                return true;

        if (str_is(call->name, "curl"))
                return call_has_any(
                           call, WORDS("-o", "-O", "--output", "--remote-name", "--remote-name-all", "--output-dir")) &&
                       !output_is_null(call, "-o", "--output") && !output_is_null(call, "-so", "-sSo");

        if (!str_is(call->name, "wget"))
                return true;

        for (size_t i = 1; i < call->n; i++)
                if (str_is(call->p[i].text, "-O-") || str_is(call->p[i].text, "-qO-") ||
                    str_is(call->p[i].text, "-nvO-"))
                        return false;

        return !output_is_null(call, "-O", "--output-document") && !output_is_null(call, "-qO", "-nvO") &&
               !call_has_option(call, "--spider") && call->n > 1;
}

bool kills_others(const struct sh_call *call) {
        const struct sh_arg *arg;

        if (!str_is(call->name, "kill"))
                return true;
        if (call_has_word(call, "-0") || call_has_word(call, "-l") || call_has_word(call, "-L"))
                return false;

        for (size_t i = 1; i < call->n; i++) {
                arg = &call->p[i];
                bool option = arg->text.n > 1 && arg->text.p[0] == '-' && i == 1;
                if (!option && !(arg->text.n && arg->text.p[0] == '%'))
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
        if (plus < 0)
                plus = str_find(mode, '=');
        if (plus < 0)
                return false;

        struct str who = str_first(mode, (size_t)plus), what = str_skip(mode, (size_t)plus + 1);
        bool everyone = str_find(who, 'o') >= 0 || str_find(who, 'a') >= 0;

        return str_find(what, 's') >= 0 || (everyone && str_find(what, 'w') >= 0);
}

/* Also when it closes them: without / readable nothing works any more. */
static bool has_system_operand(const struct sh_call *call, size_t from) {
        const struct sh_arg *arg;
        for (size_t i = from; (arg = call_operand(call, i)); i++)
                if (place_of(*arg) == PLACE_ROOT || place_of(*arg) == PLACE_SYSTEM)
                        return true;
        return false;
}

bool opens_permissions(const struct sh_call *call) {
        const struct sh_arg *mode = call_operand(call, 0);
        return has_system_operand(call, call_has_option(call, "--reference") ? 0 : 1) || call_has_option(call, "-R") ||
               call_has_option(call, "--recursive") || (mode && mode_opens(mode->text)) || (mode && mode->unknown);
}

bool installs_globally(const struct sh_call *call) {
        return call_has_option(call, "-g") || call_has_option(call, "--global") ||
               str_is(call_subcommand(call), "global") || str_is(call_subcommand(call), "link") ||
               call_has_word(call, "--location=global");
}

static bool in_virtual_environment(const struct sh_call *call) {
        struct str program = call->p[0].text;
        for (size_t i = 0; i + 4 <= program.n; i++)
                if (str_starts(str_skip(program, i), STR("env/")))
                        return true;
        return call->venv;
}

bool pip_without_venv(const struct sh_call *call) {
        bool module = str_starts(call->name, STR("python"));
        bool pip = str_starts(call->name, STR("pip")) && (call->name.n == 3 || ascii_is_digit(call->name.p[3]));
        bool runs_pip = call_has_word(call, "-mpip") ||
                        (call_has_word(call, "-m") && (call_has_word(call, "pip") || call_has_word(call, "pip3")));
        if (!pip && !(module && runs_pip))
                return false;
        if (!call_has_word(call, "install") && !call_has_word(call, "uninstall"))
                return false;

        return !in_virtual_environment(call) && !call_has_any(call, WORDS("--target", "-t", "--dry-run"));
}

bool edits_crontab(const struct sh_call *call) {
        return !call_has_option(call, "-l");
}

bool edits_in_place(const struct sh_call *call) {
        if (str_is(call->name, "awk") || str_is(call->name, "gawk"))
                return call_has_word(call, "inplace");

        for (size_t i = 1; i < call->n; i++) {
                struct str a = call->p[i].text;
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

bool changes_network(const struct sh_call *call) {
        static const char *const verbs[] = { "add",     "del", "delete", "set",    "flush", "change",
                                             "replace", "up",  "down",   "append", "exec",  NULL };
        for (size_t i = 1; i < call->n; i++)
                if (word_in(call->p[i].text, verbs))
                        return true;
        return false;
}

bool has_operand(const struct sh_call *call) {
        return call_operand(call, 0) != NULL;
}

bool sqlite_runs(const struct sh_call *call) {
        for (size_t i = 1; i < call->n; i++)
                if (str_starts(call->p[i].text, STR(".sh")) || str_starts(call->p[i].text, STR(".sys")))
                        return true;
        return false;
}

bool asks_version(const struct sh_call *call) {
        static const char *const version[] = { "--version", "--help", "-version", "version", NULL };
        static const char *const short_version[] = { "node",  "npm",  "python", "python3", "ruby",  "java",  "yarn",
                                                     "pnpm",  "php",  "perl",   "gcc",     "rustc", "cargo", "make",
                                                     "cmake", "deno", "bun",    "lua",     "go",    "javac", NULL };

        if (call->n != 2)
                return false;

        return word_in(call->p[1].text, version) ||
               (word_in(call->name, short_version) && (str_is(call->p[1].text, "-v") || str_is(call->p[1].text, "-V")));
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

bool only_reads(const struct sh_call *call) {
        for (size_t i = 0; i < sizeof active / sizeof active[0]; i++)
                if (word_in(call->name, active[i].programs) && call_has_any(call, active[i].options))
                        return false;

        if (str_is(call->name, "uniq") || str_is(call->name, "xxd"))
                return call_operand(call, 1) == NULL; /* the second is written */
        if (str_is(call->name, "hostname"))
                return call_operand(call, 0) == NULL;

        return true;
}

bool find_only_reads(const struct sh_call *call) {
        return !call_has_any(
            call, WORDS("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"));
}

bool find_writes(const struct sh_call *call) {
        static const char *const writing[] = { "-fprint", "-fprint0", "-fprintf", "-fls", NULL };

        for (size_t i = 1; i + 1 < call->n; i++) {
                if (!word_in(call->p[i].text, writing))
                        continue;
                enum sh_place place = place_of(call->p[i + 1]);
                if (place != PLACE_OTHER || call->p[i + 1].unknown)
                        return true;
        }

        return false;
}

/* A makefile that comes through a pipe or a descriptor, or stands on the command line, is a program nobody has seen. */
bool makes_from_input(const struct sh_call *call) {
        const struct sh_option file = { .letters = "f", .words = WORDS("--file", "--makefile") };

        for (size_t i = 1; i < call->n; i++) {
                struct sh_arg value;

                if (str_starts(call->p[i].text, STR("--eval")))
                        return true;
                if (!call_option_value(call, i, &file, &value))
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

bool archiver_runs(const struct sh_call *call) {
        const struct sh_option compressor = { .letters = "I", .words = WORDS("--use-compress-program") };

        if (call_has_any(call, WORDS("--to-command", "--rsh-command", "--info-script", "--new-volume-script", "-F")))
                return true;

        for (size_t i = 1; i < call->n; i++) {
                struct sh_arg value;

                /* --checkpoint-action=exec=COMMAND, abbreviated as far as it is unique */
                if (str_starts(call->p[i].text, STR("--checkpoint-")))
                        return true;
                if (call_option_value(call, i, &compressor, &value) && (value.unknown || !is_compressor(value.text)))
                        return true;
        }

        return false;
}

bool lists_archive(const struct sh_call *call) {
        if (str_is(call->name, "zipinfo") || str_is(call->name, "lsar"))
                return true;
        if (str_is(call->name, "unzip"))
                return call_has_option(call, "-l") || call_has_option(call, "-Z");
        if (str_is(call->name, "7z"))
                return call->n > 1 && str_is(call->p[1].text, "l");

        if (call_has_any(call, WORDS("--to-command", "--checkpoint-action", "-I", "--use-compress-program",
                                     "--rsh-command", "-F", "--info-script", "--new-volume-script")))
                return false;

        /* tar tf, tar -tzf, jar tf: t and no other action */
        struct str first = call->n > 1 ? call->p[1].text : STR("");
        bool old_style = first.n && first.p[0] != '-';
        bool list = call_has_option(call, "--list") || (old_style && str_find(first, 't') >= 0) ||
                    (!old_style && call_has_option(call, "-t"));
        bool other =
            call_has_any(call, WORDS("-x", "-c", "-r", "-u", "--extract", "--create", "--append", "--delete")) ||
            (old_style && (str_find(first, 'x') >= 0 || str_find(first, 'c') >= 0));

        return list && !other;
}

bool runs_module(const struct sh_call *call) {
        static const char *const modules[] = { "pytest", "unittest", "mypy",    "ruff",       "flake8",     "black",
                                               "pylint", "isort",    "doctest", "py_compile", "compileall", "json.tool",
                                               "build",  "coverage", "tox",     "nox",        NULL };
        return call->n > 2 && str_is(call->p[1].text, "-m") && word_in(call->p[2].text, modules);
}
