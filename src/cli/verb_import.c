/* SPDX-License-Identifier: Apache-2.0 */
/* bailey import: settings of other sandboxes and agents as a policy. */
#include "import/import.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "cli/verb.h"
#include "import/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_OUTPUT ".bailey.yaml"

enum { POLICY_BYTES_MAX = 8 << 20 };

enum { IMPORT_WRITE, IMPORT_OUTPUT, IMPORT_FORCE, IMPORT_CHECK, IMPORT_WORKSPACE, IMPORT_OPTIONS };
static const struct option rows[] = {
        [IMPORT_WRITE] = { .flag = "write", .letter = 'w', .type = OPTION_FLAG, .help = "write the policy to a file" },
        [IMPORT_OUTPUT] = { .flag = "output",
                            .letter = 'o',
                            .type = OPTION_PATH,
                            .metavar = "FILE",
                            .help = "the file to write, or to compare with; " DEFAULT_OUTPUT " in the project" },
        [IMPORT_FORCE] = { .flag = "force", .type = OPTION_FLAG, .help = "replace a file that is there" },
        [IMPORT_CHECK] = { .flag = "check",
                           .type = OPTION_FLAG,
                           .help = "write nothing; show what differs from the file" },
        [IMPORT_WORKSPACE] = { .flag = "workspace",
                               .type = OPTION_PATH,
                               .metavar = "DIR",
                               .help = "the project that the settings are for; the current directory" },
};
static const struct option_table table = { "Options", rows, IMPORT_OPTIONS };

static char *output_of(const struct call *call, const char *workspace) {
        const char *named = option_get(&call->options, &rows[IMPORT_OUTPUT]);

        if (named)
                return str_dup(str_of(named));
        return path_join(text_or(workspace, "."), DEFAULT_OUTPUT);
}

static void say_notes(const struct import_result *result) {
        if (result->n_notes > 0)
                fprintf(stderr,
                        "bailey: %zu %s of the source could not be said, or differently; the end of the policy lists "
                        "them.\n",
                        result->n_notes, result->n_notes == 1 ? "entry" : "entries");

        if (result->dropped)
                fprintf(stderr,
                        "bailey: some are restrictions, which are missing in the policy (marked with \"!\").\n");
}

static int write_policy(const struct call *call, const char *path, const struct import_result *result,
                        struct err *err) {
        bool force = option_get_flag(&call->options, &rows[IMPORT_FORCE]);
        struct stat st;
        int r;

        if (!force && lstat(path, &st) == 0) {
                err_set(err, EEXIST, "there is a %s already; --force replaces it, --check shows what differs",
                        show(str_of(path)).text);
                return EXIT_NO;
        }

        if (force)
                r = path_replace_file(path, buf_str(&result->text), 0644, err);
        else
                r = path_create_file(path, buf_str(&result->text), 0644, err);
        if (r < 0)
                return EXIT_SYSTEM;

        if (option_get(&call->options, &rows[IMPORT_OUTPUT]))
                fprintf(stderr, "bailey: written to %s. Read it, and use it: bailey run --policy FILE -- COMMAND\n",
                        show(str_of(path)).text);
        else
                fprintf(stderr, "bailey: written to %s. Read it; it counts when you have said: bailey trust\n",
                        show(str_of(path)).text);

        return result->dropped ? EXIT_CONFIG : EXIT_OK;
}

static int check_policy(const char *path, const struct import_result *result, struct err *err) {
        cleanup(buf_done) struct buf present = BUF(POLICY_BYTES_MAX), difference = BUF(2 * POLICY_BYTES_MAX);

        if (path_read_file(path, POLICY_BYTES_MAX, &present, err) < 0)
                return EXIT_NO;

        if (import_compare(buf_str(&present), buf_str(&result->text), &difference) < 0) {
                err_memory(err);
                return EXIT_SYSTEM;
        }

        fwrite(difference.p, 1, difference.n, stdout);
        if (difference.n > 0)
                return EXIT_NO;

        if (result->dropped)
                return EXIT_CONFIG;

        return EXIT_OK;
}

static int run_import(const struct call *call, struct err *err) {
        cleanup(import_result_done) struct import_result result = { 0 };
        const char *workspace = option_get(&call->options, &rows[IMPORT_WORKSPACE]);
        bool write = option_get_flag(&call->options, &rows[IMPORT_WRITE]);
        bool check = option_get_flag(&call->options, &rows[IMPORT_CHECK]);
        cleanup(free_ptr) char *output = output_of(call, workspace);
        int r;

        if (write && check) {
                err_set(err, EINVAL, "--write and --check exclude each other");
                return EXIT_USAGE;
        }

        const struct import_request request = {
                .tool = call->verb->name, .files = call->argv, .n_files = (size_t)call->argc, .workspace = workspace
        };
        if (output)
                r = import_make(&request, &result, err);
        else
                r = err_memory(err);
        if (r == -ENOMEM)
                return EXIT_SYSTEM;
        if (r < 0)
                return EXIT_NO;

        say_notes(&result);
        if (check)
                return check_policy(output, &result, err);
        if (write)
                return write_policy(call, output, &result, err);

        fwrite(result.text.p, 1, result.text.n, stdout);
        return result.dropped ? EXIT_CONFIG : EXIT_OK;
}

#define TOOL(tool, what, more)                                                                                         \
        {                                                                                                              \
                .name = tool, .synopsis = "[OPTIONS] [FILE...]", .help = "from " what, .about = more,                  \
                .tables = { &table }, .max_words = -1, .run = run_import,                                              \
        }
static const struct verb tools[] = {
        TOOL("claude", "the settings of Claude Code",
             "Without FILE: /etc/claude-code/managed-settings.json and managed-settings.d, .claude/settings.local.json "
             "and "
             ".claude/settings.json of "
             "the project, ~/.claude/settings.json. Their lists add up, and a denial of any of them holds. The project "
             "can "
             "be written to, unless the mode is plan. Where Claude asks about a file or a host, the policy refuses."),
        TOOL("codex", "the settings of Codex",
             "Without FILE: /etc/codex/requirements.toml, whose denials hold in any case, "
             "/etc/codex/managed_config.toml, "
             ".codex/config.toml of the project and "
             "~/.codex/config.toml, of which the first that says a "
             "sandbox_mode or default_permissions decides, and the rules in .codex/rules and ~/.codex/rules. "
             "danger-full-access is an error: there is no such policy."),
        TOOL("srt", "the settings of Anthropic's sandbox runtime", "Without FILE: ~/.srt-settings.json."),
        TOOL("fence", "the settings of Fence",
             "Without FILE: the first of fence.jsonc and fence.json in the project, ~/.config/fence/fence.jsonc, "
             "~/.config/fence/fence.json, ~/.fence.json. Files that it extends are read; templates are not known."),
        TOOL("gemini", "the settings of Gemini CLI",
             "Without FILE: /etc/gemini-cli/settings.json, .gemini/settings.json of the project, "
             "~/.gemini/settings.json, "
             "~/.gemini/policies/*.toml."),
        TOOL("devcontainer", "the firewall script of a development container",
             "Without FILE: .devcontainer/init-firewall.sh. The script is not run: the names are read from its lists."),
};
static const struct verb *const subs[] = { &tools[0], &tools[1], &tools[2], &tools[3], &tools[4], &tools[5], NULL };

const struct verb verb_import = {
        .name = "import",
        .group = GROUP_POLICY,
        .synopsis = "TOOL [OPTIONS] [FILE...]",
        .help = "make a policy from the settings of another tool",
        .about =
            "Prints a policy in which every line names the entry that it comes from. Without FILE the places are read "
            "in which the tool keeps its settings.\n\n"
            "Nothing in the result allows a host, a read or a write that the source does not. What cannot be said "
            "is listed at its end; a restriction that is missing is marked there and ends with exit code 3. Nothing "
            "in the files is run, and nothing is written without --write.\n\n"
            "Exit code 0: all of it is said; 1: a file cannot be understood or is not there, the output exists "
            "already, or (--check) it differs; 3: the policy is made, but a restriction of the source is missing in "
            "it.",
        .subs = subs,
};
