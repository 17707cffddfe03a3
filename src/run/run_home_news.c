/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_home_news.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/names.h"
#include "base/paths/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { NEWS_FILE_MAX = 1 << 20, NEWS_NAMES_MAX = 4 };

/* A directory, or a file without words: any change counts. Agents keep rewriting their settings, so a file with words
 * counts only if one of them is in it. */
static const struct {
        const char *path;
        const char *words[4];
} later[] = {
        { ".bashrc", { NULL } },
        { ".bash_profile", { NULL } },
        { ".profile", { NULL } },
        { ".zshrc", { NULL } },
        { ".zshenv", { NULL } },
        { ".zprofile", { NULL } },
        { ".config/fish/config.fish", { NULL } },
        { ".local/bin", { NULL } },
        { "bin", { NULL } },
        { ".gitconfig", { "hooksPath", "fsmonitor", "sshCommand", "= !" } },
        { ".config/git/config", { "hooksPath", "fsmonitor", "sshCommand", "= !" } },
        { ".claude/settings.json", { "\"hooks\"", "\"mcpServers\"", "\"apiKeyHelper\"", "\"statusLine\"" } },
        { ".claude.json", { "\"command\"" } },
        { ".claude/commands", { NULL } },
        { ".claude/skills", { NULL } },
        { ".codex/config.toml", { "mcp_servers", "notify", "hooks" } },
        { ".codex/hooks.json", { NULL } },
        { ".gemini/settings.json", { "\"mcpServers\"", "\"hooks\"" } },
        { ".gemini/extensions", { NULL } },
        { ".qwen/settings.json", { "\"mcpServers\"", "\"hooks\"" } },
        { ".config/opencode/opencode.json", { "\"mcp\"", "\"plugin\"" } },
        { ".config/opencode/plugin", { NULL } },
        { ".copilot/mcp-config.json", { "\"command\"" } },
        { ".pi/agent/extensions", { NULL } },
        { ".continue/config.yaml", { "mcpServers" } },
};
enum { LATER = sizeof later / sizeof *later };

static bool text_has(struct str text, const char *word) {
        return memmem(text_or(text.p, ""), text.n, word, strlen(word)) != NULL;
}

/* The sandbox made it: no link is followed, and nothing but an ordinary file is read. */
static bool has_word(int dir, const char *path, const char *const *words) {
        cleanup(buf_done) struct buf text = BUF(NEWS_FILE_MAX);
        cleanup(close_fd) int fd = path_open_at(dir, path, O_RDONLY | O_NONBLOCK, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return false;
        if (fd_read_all(fd, &text) < 0)
                return true; /* too much to look through: then it is said */

        for (size_t i = 0; i < 4 && words[i]; i++)
                if (text_has(buf_str(&text), words[i]))
                        return true;

        return false;
}

/* Most homes have few of them, and one look at what there is answers for all others. */
static bool lacks_row(const struct names *names, const char *path) {
        char first[NAME_MAX + 1];
        size_t n = strcspn(path, "/");

        if (n > NAME_MAX)
                return false;

        memcpy(first, path, n);
        first[n] = '\0';
        return names_lack(names, first);
}

static bool is_news(int dir, size_t row, uint64_t since_us) {
        cleanup(close_fd) int fd = path_open_at(dir, later[row].path, O_PATH, 0, PATH_BENEATH | PATH_NO_SYMLINKS);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return false;
        if ((uint64_t)st.st_mtim.tv_sec * 1000000 + (uint64_t)st.st_mtim.tv_nsec / 1000 < since_us)
                return false;

        return !later[row].words[0] || has_word(dir, later[row].path, later[row].words);
}

int run_home_news(const char *files, uint64_t since_us, struct buf *ret) {
        cleanup(close_fd) int dir = open(files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct names names;
        size_t n = 0;
        int r = 0;

        if (dir < 0)
                return 0;
        names_read(&names, dir);

        for (size_t i = 0; i < LATER && r == 0; i++) {
                if (lacks_row(&names, later[i].path) || !is_news(dir, i, since_us))
                        continue;
                if (n++ < NEWS_NAMES_MAX)
                        r = buf_printf(ret, "%s~/%s", n > 1 ? ", " : "", later[i].path);
        }

        return r == 0 && n > NEWS_NAMES_MAX ? buf_printf(ret, " and %zu more", n - NEWS_NAMES_MAX) : r;
}

/* --- .env of the workspace --- */

/* A name that ends in * stands for all that begin so. */
static const char *const env_rows[] = {
        "BASH_ENV",
        "PROMPT_COMMAND",
        "PATH",
        "SHELL",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "NODE_OPTIONS",
        "NODE_PATH",
        "NODE_EXTRA_CA_CERTS",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "SSL_CERT_FILE",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "LD_*",
        "DYLD_*",
        "GIT_*",
        "AIDER_*",
        "GEMINI_CLI_*",
        "GEMINI_SANDBOX*",
        "QWEN_CODE_*",
        "CODE_ASSIST_ENDPOINT",
        "ANTHROPIC_BASE_URL",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "GEMINI_BASE_URL",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
};

static bool env_row_fits(const char *row, struct str name) {
        struct str text = str_of(row);

        if (text.p[text.n - 1] != '*')
                return str_eq_nocase(name, text);
        return name.n >= text.n && str_eq_nocase(str_first(name, text.n - 1), str_first(text, text.n - 1));
}

/* The variable that the line sets, if it is one of those; else empty. Loaders take `export A=b` and `A: b` as well. */
static struct str env_line_name(struct str line) {
        struct str rest = str_trim(line);
        size_t n = 0;

        if (str_starts(rest, STR("export ")))
                rest = str_trim(str_n(rest.p + 7, rest.n - 7));
        while (n < rest.n && !strchr("=: \t", rest.p[n]))
                n++;

        struct str name = str_first(rest, n);
        if (n == rest.n || str_starts(name, STR("GIT_AUTHOR_")) || str_starts(name, STR("GIT_COMMITTER_")))
                return STR("");
        for (size_t i = 0; i < sizeof env_rows / sizeof *env_rows; i++)
                if (env_row_fits(env_rows[i], name))
                        return name;

        return STR("");
}

static int env_names(struct str text, struct buf *ret) {
        struct str line;
        size_t n = 0;
        int r = 0;

        while (r == 0 && n < NEWS_NAMES_MAX && str_split(&text, '\n', &line)) {
                struct str name = env_line_name(line);

                if (name.n == 0 || name.n > 64)
                        continue;
                n++;
                if (ret->n)
                        r = buf_add(ret, ", ");
                for (size_t i = 0; i < name.n && r == 0; i++) /* the program wrote it */
                        r = buf_add_char(ret, name.p[i] > ' ' && name.p[i] < 0x7f ? name.p[i] : '?');
        }

        return r;
}

int run_env_news(const char *workspace, uint64_t since_us, struct buf *ret) {
        cleanup(buf_done) struct buf text = BUF(NEWS_FILE_MAX);
        cleanup(close_fd) int dir = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
        cleanup(close_fd) int fd = -1;
        struct stat st;

        if (dir >= 0)
                fd = path_open_at(dir, ".env", O_RDONLY | O_NONBLOCK, 0, PATH_BENEATH);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0;
        if ((uint64_t)st.st_ctim.tv_sec * 1000000 + (uint64_t)st.st_ctim.tv_nsec / 1000 < since_us)
                return 0;
        if (fd_read_all(fd, &text) < 0)
                return buf_add(ret, "more than can be looked through");

        return env_names(buf_str(&text), ret);
}
