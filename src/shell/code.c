/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs for interpreters: python -c, perl -e, node -e, a here-document for ruby. They are not understood, only
 * searched for words: what starts a program, what deletes, what fetches, what runs text. A string behind such a word is
 * judged as what it is: a command, a path. What follows from words alone is a question for a person, and only where
 * the code stands on the command line: people write here-documents to be read.
 */
#include "shell/call.h"

struct language {
        const char *const *names; /* beginnings */
        const char *letters;
        const char *const *words;
        const char *valued;            /* letters whose value may follow directly: -MFile::Path */
        const char *next;              /* letters of settings whose value may be the next word: -W ignore */
        const char *const *next_words; /* the same, long: --require x */
        const char *const *starts;
        const char *const *evals;
};

static const struct language languages[] = {
        { WORDS("python", "pypy", "ipython", "jython"), "c", NULL, "WXm", "WX", WORDS("--check-hash-based-pycs"),
          WORDS("os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "subprocess", "pty.spawn", "Popen",
                "system('", "system(\"", "check_output(", "check_call(", "ctypes", "getoutput("),
          WORDS("exec(", "eval(", "compile(", "runpy", "marshal.loads", "pickle.loads") },
        { WORDS("perl"), "eE", NULL, "MmIiFDxCV", "I", NULL,
          WORDS("system(", "system \"", "system '", "system $", "system{", "exec(", "exec \"", "exec '", "exec $",
                "exec{", "exec {", "`", "qx", "open3", "fork", "syscall"),
          WORDS("eval(", "eval $", "eval \"", "eval get", "eval `", "eval LWP", "eval HTTP", "eval decode",
                "eval unpack", "eval pack", "eval join", "eval <", "do $") },
        { WORDS("node", "tsx", "ts-node"), "ep", WORDS("--eval", "--print"), "r", "rC",
          WORDS("--require", "--import", "--loader", "--experimental-loader", "--conditions", "--env-file", "--title",
                "--input-type", "--disable-warning", "--icu-data-dir", "--openssl-config", "--unhandled-rejections",
                "--redirect-warnings", "--report-dir", "--diagnostic-dir", "--tsconfig", "--project"),
          WORDS("child_process", "execSync", "spawnSync", "process.binding", "worker_threads", "process.dlopen"),
          WORDS("eval(", "(eval)", "new Function", "Function(", "vm.run", "runInThisContext", "runInNewContext") },
        { WORDS("bun"), "e", WORDS("--eval"), "r", "rdcl",
          WORDS("--require", "--preload", "--import", "--define", "--config", "--cwd", "--env-file", "--conditions"),
          WORDS("child_process", "Bun.spawn", "Bun.$", "dlopen("), WORDS("eval(", "(eval)", "new Function") },
        { WORDS("deno"), "", WORDS("eval"), "", "", NULL,
          WORDS("Deno.Command", "Deno.run", "Deno.dlopen", "child_process"),
          WORDS("eval(", "(eval)", "new Function", "import(\"http", "import('http") },
        { WORDS("ruby"), "e", NULL, "rIECTxS", "rIEC",
          WORDS("--enable", "--disable", "--encoding", "--external-encoding", "--internal-encoding"),
          WORDS("system(", "system \"", "system '", "exec(", "exec \"", "exec '", "`", "%x", "popen", "spawn", "Open3",
                "fork", "open(\"|", "open('|"),
          WORDS("eval(", "eval URI", "eval STDIN", "eval $stdin", "eval gets", "eval ARGF", "eval Net", "eval open",
                "eval(open", "instance_eval", "class_eval", "eval \"", "eval Base64", "eval [") },
        { WORDS("php"), "rBRE", WORDS("--run", "--process-code", "--process-begin"), "", "dczt",
          WORDS("--define", "--php-ini", "--zend-extension", "--docroot"),
          WORDS("system(", "exec(", "passthru(", "shell_exec(", "pcntl_exec(", "popen(", "proc_open(", "`", "dl(",
                "mail("),
          WORDS("eval(", "assert(", "create_function", "include ", "include(", "require ", "call_user_func") },
        { WORDS("lua", "texlua"), "e", NULL, "l", "l", NULL, WORDS("os.execute", "io.popen", "package.loadlib"),
          WORDS("loadstring", "load(", "dofile") },
        { WORDS("Rscript", "R"), "e", NULL, "", "", NULL, WORDS("system(", "system2(", "shell("),
          WORDS("eval(", "source(") },
        { WORDS("julia"), "eE", WORDS("--eval", "--print"), "", "LtpJCH", NULL, WORDS("run(`", "`"),
          WORDS("eval(", "include(") },
        { WORDS("elixir"), "e", WORDS("--eval"), "r", "r", NULL,
          WORDS("System.cmd", "System.shell", ":os.cmd", "Port.open"), WORDS("Code.eval") },
        { WORDS("groovy"), "e", NULL, "", "", WORDS("-cp", "--classpath"), WORDS(".execute()", "ProcessBuilder"),
          WORDS("evaluate(", "Eval.me") },
        { WORDS("tclsh"), "", NULL, "", "", NULL, WORDS("exec ", "open \"|", "open |"), WORDS("eval ", "source ") },
};

/* In any language. The first ones delete whole trees. */
static const char *const deletes_tree[] = { "rmtree",      "rm_rf",          "rm_r",           "rmSync",
                                            "rmdirSync",   ".rm(",           "removeSync",     "Deno.remove",
                                            "remove_tree", "rimraf",         "remove_dir",     "RemoveAll",
                                            "promises.rm", ".rm(",           "remove_entry",   "recursive = TRUE",
                                            "deleteDir(",  "recursive=TRUE", "recursive=true", NULL };
static const char *const deletes_file[] = { "os.remove",     "os.unlink",   ".unlink(",   "unlink ",     "unlink(",
                                            "unlinkSync",    "\"unlink\"",  "'unlink'",   "File.delete", "os.rename",
                                            "os.replace",    "shutil.move", "renameSync", "rename ",     "rename(",
                                            "os.removedirs", NULL };
static const char *const writes[] = {
        "open(",       "open ",          "write_text",   "write_bytes",       "writeFile",         "writeFileSync",
        "appendFile",  "appendFileSync", "File.write",   "IO.write",          "file_put_contents", "fopen(",
        "io.open",

        "shutil.copy", "copyfile",       "copyFileSync",

        "os.symlink",  "symlinkSync",    "Path(",        "writeTextFileSync", "Bun.write",         NULL
};
/* Where a word above only may write: how it was opened, or what is done with the path. */
static const char *const writing[] = { "\"w",     "'w",           "\"a",         "'a",        "\"x",
                                       "'x",      "\"r+",         "'r+",         "mode=",     "\">",
                                       "'>",      "write_text",   "write_bytes", "writeFile", "appendFile",
                                       "write",   "rename",       "replace",     "move",      "copy",
                                       "symlink", "put_contents", "unlink",      "touch",     NULL };
static const char *const homes[] = { "expanduser", "Path.home", "homedir", "Dir.home", "HOME", NULL };
static const char *const downloads[] = { "urlopen",
                                         "urlretrieve",
                                         "requests.get",
                                         "httpx.get",
                                         "http.get(",
                                         "https.get(",
                                         "MLWP",
                                         "https\").get",
                                         "https').get",
                                         "http\").get",
                                         "http').get",
                                         "fetch(",
                                         "LWP",
                                         "HTTP::Tiny",
                                         "URI.open",
                                         "open-uri",
                                         "ropen-uri",
                                         "Net::HTTP",
                                         "curl_exec",
                                         "socket.http",
                                         "axios",
                                         "file_get_contents(\"http",
                                         "file_get_contents('http",
                                         "import(\"http",
                                         "import('http",
                                         "include \"http",
                                         "include 'http",
                                         "include(\"http",
                                         "Mojo::UserAgent",
                                         NULL };
static const char *const hides[] = { "b64decode",    "a85decode",     "unhexlify",     "fromhex",
                                     "fromCharCode", "atob(",         "base64",        "decode64",
                                     "unpack",       "codecs.decode", "decompress",    "inflate",
                                     "str_rot13",    "Buffer.from(",  "decode_base64", NULL };

static const char *const inputs[] = { "stdin", "STDIN",       "<>",   "input(", "io.read", "readFileSync(0",
                                      "gets",  "php://stdin", "fd/0", "$<",     NULL };
/* Methods that start a program if the object in front of them does: judged by the command that stands behind them. */
static const char *const started_by[] = { "run(", "call(", "popen(", "system(", "spawn(", "create_subprocess_shell(",
                                          NULL };

/* --- words -------------------------------------------------------------------------------------------------------- */

static bool is_word(char c) {
        return ascii_is_alnum(c) || c == '_';
}

/* Where one of the words stands behind `from`, not inside a longer one; -1: nowhere. */
static ptrdiff_t find_any(struct str code, size_t from, const char *const *words, size_t *ret_n) {
        for (size_t i = from; i < code.n; i++) {
                if (i > 0 && is_word(code.p[i]) && is_word(code.p[i - 1]))
                        continue;
                for (const char *const *w = words; *w; w++)
                        if (code.p[i] == **w && str_starts(str_skip(code, i), str_of(*w))) {
                                *ret_n = strlen(*w);
                                return (ptrdiff_t)i;
                        }
        }

        return -1;
}

/* One of the words, and not as the method of something: re.compile(, model.eval(. */
static bool has_free(struct str code, const char *const *words) {
        size_t n;

        for (ptrdiff_t at = find_any(code, 0, words, &n); at >= 0; at = find_any(code, (size_t)at + n, words, &n))
                if (at == 0 || code.p[at - 1] != '.')
                        return true;

        return false;
}

static bool has_any(struct str code, const char *const *words) {
        size_t n;
        return find_any(code, 0, words, &n) >= 0;
}

/* The string that begins at i, without its quotes; *ret_end is behind it. */
static struct str string_at(struct str code, size_t i, size_t *ret_end) {
        ptrdiff_t end = str_find(str_skip(code, i + 1), code.p[i]);
        *ret_end = end < 0 ? code.n : i + (size_t)end + 2;
        return str_n(code.p + i + 1, end < 0 ? 0 : (size_t)end);
}

static bool is_quote(char c) {
        return c == '"' || c == '\'' || c == '`';
}

/* --- what it deletes ---------------------------------------------------------------------------------------------- */

static enum sh_place place_named(struct judge *judge, struct str text) {
        struct sh_arg arg = judge_arg(judge, text);

        for (size_t i = 0; i < text.n; i++)
                arg.pattern = arg.pattern || memchr("*?[", text.p[i], 3);
        if (text.n > 0)
                return place_of(arg);

        return PLACE_OTHER;
}

/* Behind a word that deletes, as far as the statement goes. */
struct target {
        bool known; /* a string stands there */
        bool root, special;
};
static struct target target_behind(struct judge *judge, struct str code, size_t i) {
        struct target found = { 0 };
        size_t from = i;
        bool inside = i < code.n && code.p[i] == '(';
        int depth = 0;

        while (i < code.n && depth >= 0 && code.p[i] != ';' && code.p[i] != '\n') {
                if (is_quote(code.p[i])) {
                        enum sh_place place = place_named(judge, string_at(code, i, &i));

                        found.known = true;
                        found.root = found.root || place == PLACE_ROOT;
                        found.special = found.special || (place != PLACE_OTHER && place != PLACE_SHARED);
                        continue;
                }

                depth += (code.p[i] == '(') - (code.p[i] == ')');
                i++;
                if (inside && depth == 0)
                        break;
        }

        found.root = found.root || has_any(str_n(code.p + from, i - from), homes);
        return found;
}

/* A string anywhere in the code that is the root, the home or all of it. */
static bool mentions_root(struct judge *judge, struct str code) {
        for (size_t i = 0; i < code.n;)
                if (is_quote(code.p[i])) {
                        if (place_named(judge, string_at(code, i, &i)) == PLACE_ROOT)
                                return true;
                } else
                        i++;
        return false;
}

static void judge_deletes(struct judge *judge, struct str code, const char *const *words, bool tree, bool quiet) {
        static const char *const lists[] = { "listdir", "glob",    "walk",  "iterdir", "readdir",
                                             "Dir[",    "scandir", "rglob", NULL };
        size_t n;

        for (ptrdiff_t at = find_any(code, 0, words, &n); at >= 0; at = find_any(code, (size_t)at + n, words, &n)) {
                struct target target = target_behind(judge, code, (size_t)at + n);
                bool listed = has_any(code, lists) && (mentions_root(judge, code) || has_any(code, homes));

                if (target.root)
                        judge_find(judge, FINDING_CODE_DELETES_ROOT);
                else if (target.special || (!quiet && (listed || (tree && !target.known))))
                        judge_find(judge, FINDING_CODE_DELETES);
        }
}

/* --- what it writes ----------------------------------------------------------------------------------------------- */

/* A file that programs outside run or obey, or one of the system's, as the path of something that is written. */
static void judge_writes(struct judge *judge, struct str code) {
        size_t n;

        if (!has_any(code, writing))
                return;

        for (ptrdiff_t at = find_any(code, 0, writes, &n); at >= 0; at = find_any(code, (size_t)at + n, writes, &n)) {
                for (size_t i = (size_t)at + n; i < code.n && code.p[i] != ';' && code.p[i] != '\n';) {
                        if (!is_quote(code.p[i])) {
                                i++;
                                continue;
                        }

                        struct str text = str_trim(string_at(code, i, &i));
                        while (text.n && strchr("<>+ ", text.p[0])) /* perl: open(F, ">/etc/passwd") */
                                text = str_skip(text, 1);

                        enum sh_place place = place_named(judge, text);
                        if (place == PLACE_PROTECTED || place == PLACE_SYSTEM || place == PLACE_DISK)
                                judge_find(judge, FINDING_CODE_WRITES);
                }
        }
}

/* --- what it starts ----------------------------------------------------------------------------------------------- */

/* ["rm", "-rf", "/"] or "rm", "-rf", "/": the words of a command; a single string is text for a shell. */
static void judge_started(struct judge *judge, const struct sh_call *call, struct str code, size_t i) {
        struct sh_args words = { 0 };
        bool list = false;

        if (i > 0 && i < code.n && is_word(code.p[i - 1]) && is_quote(code.p[i]))
                i++; /* require("child_process"): a quote that ends */

        while (i < code.n && !is_quote(code.p[i]) && !strchr(");\n", code.p[i])) {
                list = list || code.p[i] == '[';
                i++;
        }

        while (i < code.n && is_quote(code.p[i])) {
                struct str text = string_at(code, i, &i);
                if (sh_args_add(judge, &words, judge_arg(judge, text)) < 0)
                        return;
                while (i < code.n && strchr(" \t\n,", code.p[i]))
                        i++;
        }

        if (words.n > 1 || (list && words.n == 1))
                judge_call(judge, words.p, words.n);
        else if (words.n == 1 && words.p[0].text.n > 0)
                judge_program(judge, call, words.p, 1);
}

static void judge_starts(struct judge *judge, const struct sh_call *call, struct str code,
                         const struct language *language, bool quiet) {
        unsigned left = 16; /* so many are looked at */
        size_t n;

        for (ptrdiff_t at = find_any(code, 0, language->starts, &n); at >= 0 && left-- > 0;
             at = find_any(code, (size_t)at + n, language->starts, &n)) {
                bool open = is_quote(code.p[(size_t)at + n - 1]); /* the word has the first quote in it */

                judge_started(judge, call, code, (size_t)at + n - open);
                if (!quiet)
                        judge_find(judge, FINDING_OPTION_RUNS);
        }
}

/* `import subprocess as s; s.run("rm -rf /", shell=True)`: only what the command itself says counts. */
static void judge_methods(struct judge *judge, const struct sh_call *call, struct str code) {
        unsigned left = 16;
        size_t n;

        for (ptrdiff_t at = find_any(code, 0, started_by, &n); at >= 0 && left-- > 0;
             at = find_any(code, (size_t)at + n, started_by, &n))
                if (at > 0 && code.p[at - 1] == '.')
                        judge_started(judge, call, code, (size_t)at + n);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static bool names_secret(struct judge *judge, struct str code) {
        for (size_t i = 0; i < code.n;)
                if (is_quote(code.p[i])) {
                        struct str text = str_trim(string_at(code, i, &i));
                        while (text.n && strchr("<>+ ", text.p[0])) /* perl: open(F, "</etc/shadow") */
                                text = str_skip(text, 1);
                        if (names_credential(judge_arg(judge, text)))
                                return true;
                } else
                        i++;

        return false;
}

static void judge_source(struct judge *judge, const struct sh_call *call, struct str code,
                         const struct language *language, bool quiet) {
        bool evals = has_any(code, language->evals), fetches = has_any(code, downloads);
        bool runs_input = !quiet && has_free(code, language->evals) && has_any(code, inputs);

        for (size_t i = 1; i < call->n && !fetches; i++) /* perl -MLWP::Simple */
                fetches = has_any(call->p[i].text, downloads);

        judge_starts(judge, call, code, language, quiet);
        judge_methods(judge, call, code);
        judge_deletes(judge, code, deletes_tree, true, quiet);
        judge_deletes(judge, code, deletes_file, false, quiet);

        if (!quiet)
                judge_writes(judge, code);

        if ((evals && fetches) || (runs_input && (call->pipe_facts & FACT_DOWNLOADS)))
                judge_find(judge, FINDING_PIPE_DOWNLOAD);
        else if (runs_input && (call->pipe_facts & FACT_PIPED))
                judge_find(judge, FINDING_PIPE_PROGRAM);
        else if (evals && !quiet && has_any(code, hides))
                judge_find(judge, FINDING_CODE_HIDDEN);

        if (names_secret(judge, code))
                judge_find(judge, FINDING_REDIRECT_CREDENTIAL);
}

static bool is_valued(const struct language *language, struct str arg) {
        return arg.n > 2 && arg.p[1] != '-' && language->valued[0] && strchr(language->valued, arg.p[1]);
}

/* -W ignore, --require x: a setting whose value is the word behind it. */
static bool takes_next(const struct language *language, const struct sh_call *call, size_t i) {
        struct str arg = call->p[i].text;
        bool next = i + 1 < call->n && call->p[i + 1].text.n > 0 && call->p[i + 1].text.p[0] != '-';
        if (!next || arg.n < 2)
                return false;

        return (arg.n == 2 && arg.p[1] && strchr(language->next, arg.p[1])) ||
               (language->next_words && word_in(arg, language->next_words));
}

/* node -pe CODE: letters that would each take it. */
static bool is_cluster_of(const struct sh_call *call, size_t i, const char *letters) {
        struct str arg = call->p[i].text;

        for (size_t k = 1; k < arg.n; k++)
                if (!arg.p[k] || !strchr(letters, arg.p[k]))
                        return false;
        return arg.n > 2 && i + 1 < call->n;
}

/* Code behind options; true when there was any. */
static bool judge_options(struct judge *judge, const struct sh_call *call, const struct language *language) {
        const struct sh_option option = { .letters = language->letters, .words = language->words };
        struct sh_arg code;
        bool any = false;

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                bool verb =
                    i == 1 && language->words && word_in(arg, language->words) && i + 1 < call->n; /* deno eval CODE */
                if (!verb && (arg.n == 0 || arg.p[0] != '-'))
                        break;

                if (!verb && (is_valued(language, arg) || !call_option_value(call, i, &option, &code))) {
                        i += takes_next(language, call, i); /* python -W ignore -c CODE */
                        continue;
                }

                if (verb || is_cluster_of(call, i, language->letters))
                        code = call->p[i + 1];

                judge_source(judge, call, code.text, language, false);
                any = true;
                i += i + 1 < call->n && code.text.p == call->p[i + 1].text.p;
        }

        return any;
}

static void judge_here(struct judge *judge, const struct sh_call *call, const struct language *language) {
        const struct sh_arg *script = code_script(call);

        if (script && !str_is(script->text, "-") && !str_is(script->text, "/dev/stdin"))
                return;

        for (const struct sh_redirect *redirect = call->redirects; redirect; redirect = redirect->next)
                if (redirect->kind == SH_HERE_DOCUMENT || redirect->kind == SH_HERE_STRING)
                        judge_source(judge, call, sh_word_to_arg(judge, redirect->target).text, language,
                                     redirect->kind == SH_HERE_DOCUMENT);
}

static const struct language *language_of(struct str name) {
        for (size_t k = 0; k < sizeof languages / sizeof languages[0]; k++)
                for (const char *const *begin = languages[k].names; *begin; begin++)
                        if (name.n && name.p[0] == **begin && str_starts(name, str_of(*begin)))
                                return &languages[k];
        return NULL;
}

void judge_code(struct judge *judge, const struct sh_call *call) {
        const struct language *language = language_of(call->name);

        if (language && !judge_options(judge, call, language))
                judge_here(judge, call, language);
}

/* Options that say how an interpreter runs, and not what. */
static bool is_mode(const struct language *language, struct str arg) {
        if (arg.n == 2 && arg.p[1] && strchr("uBEIsSqwxOb", arg.p[1]))
                return true;
        if (arg.p[1] && strchr(language->next, arg.p[1])) /* -W ignore, -Wignore */
                return true;

        ptrdiff_t equals = str_find(arg, '=');
        return language->next_words && word_in(equals < 0 ? arg : str_first(arg, (size_t)equals), language->next_words);
}

const struct sh_arg *code_script(const struct sh_call *call) {
        const struct language *language = language_of(call->name);
        bool all = false;

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (all || arg.n < 2 || arg.p[0] != '-')
                        return &call->p[i];

                all = str_is(arg, "--");
                i += language && takes_next(language, call, i);
        }

        return NULL;
}

bool code_in_options(const struct sh_call *call) {
        const struct language *language = language_of(call->name);

        for (size_t i = 1; i < call->n; i++) {
                struct str arg = call->p[i].text;
                if (arg.n > 1 && arg.p[0] == '-' && !(language && is_mode(language, arg)))
                        return true;
        }

        return false;
}

bool code_is_unknown(const struct sh_call *call) {
        const struct language *language = language_of(call->name);
        bool code = false;
        if (!language)
                return false;

        const struct sh_option option = { .letters = language->letters, .words = language->words };
        for (size_t i = 1; i < call->n; i++) {
                const struct sh_arg *arg = &call->p[i];
                bool verb = i == 1 && language->words && word_in(arg->text, language->words); /* deno eval CODE */
                struct sh_arg value = { 0 };

                if (!verb && !is_valued(language, arg->text) && call_option_value(call, i, &option, &value)) {
                        if (is_cluster_of(call, i, language->letters))
                                value = call->p[i + 1];
                        if (value.unknown)
                                return true;

                        code = true;
                        i += i + 1 < call->n && value.text.p == call->p[i + 1].text.p;
                } else if (arg->unknown)
                        return !code; /* behind code that is known, it is data */
                else if (!verb && (arg->text.n == 0 || arg->text.p[0] != '-'))
                        return false;
                else if (takes_next(language, call, i) && !call->p[i + 1].unknown)
                        i++;
        }

        return false;
}
