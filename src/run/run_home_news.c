/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_home_news.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/names.h"
#include "base/log.h"
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
        "BASH_FUNC_*",
        "ZDOTDIR",
        "PROMPT_COMMAND",
        "PATH",
        "HOME",
        "XDG_*",
        "SHELL",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "LESSOPEN",
        "NODE_OPTIONS",
        "NODE_PATH",
        "NODE_EXTRA_CA_CERTS",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "npm_config_*",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "RUBYLIB",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "_JAVA_OPTIONS",
        "GOFLAGS",
        "MAKEFLAGS",
        "RUSTC*",
        "CARGO_*",
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
        "QWEN_HOME",
        "CONTINUE_GLOBAL_DIR",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
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
        return name.n + 1 >= text.n && str_eq_nocase(str_first(name, text.n - 1), str_first(text, text.n - 1));
}

static bool env_name_tells(struct str name) {
        if (str_starts(name, STR("GIT_AUTHOR_")) || str_starts(name, STR("GIT_COMMITTER_")))
                return false;

        for (size_t i = 0; i < sizeof env_rows / sizeof *env_rows; i++)
                if (env_row_fits(env_rows[i], name))
                        return true;

        return false;
}

static bool is_name_char(char c) {
        return ascii_is_alnum(c) || c == '_' || c == '.' || c == '-';
}

/* Takes the next word of name characters off the front; false when there is none. */
static bool env_word(struct str *text, struct str *ret_word) {
        size_t n = 0;

        while (text->n && !is_name_char(text->p[0]))
                *text = str_skip(*text, 1);
        while (n < text->n && is_name_char(text->p[n]))
                n++;

        *ret_word = str_first(*text, n);
        *text = str_skip(*text, n);
        return n > 0;
}

static struct str env_find(struct str words) {
        struct str word;

        while (env_word(&words, &word))
                if (env_name_tells(word))
                        return word;

        return STR("");
}

static bool is_line_end(struct str text) {
        return text.p[0] == '\n' || text.p[0] == '\r' || str_starts(text, STR("\xe2\x80\xa8")) ||
               str_starts(text, STR("\xe2\x80\xa9"));
}

/* Takes a line off the front. Loaders end one at a lone carriage return too, and those in JavaScript at U+2028 and
 * U+2029. */
static bool env_split(struct str *text, struct str *ret_line) {
        size_t n = 0;

        if (text->n == 0)
                return false;
        while (n < text->n && !is_line_end(str_skip(*text, n)))
                n++;

        *ret_line = str_first(*text, n);
        *text = str_skip(*text, n + 1);
        return true;
}

/*
 * The variable that the line sets, if it is one of those; else empty. Loaders differ in what they skip before and
 * around a name (`export`, quotes, a byte order mark, any space), so every word before the first `=` or `:` counts.
 * Some take the name from a line above the `=`: *above has what may be one.
 */
static struct str env_line_name(struct str line, struct str *above) {
        struct str words, rest, word;
        size_t n = 0;

        if (str_starts(str_trim(line), STR("#"))) {
                *above = STR("");
                return STR("");
        }

        while (n < line.n && line.p[n] != '=' && line.p[n] != ':')
                n++;
        words = rest = str_first(line, n);
        if (env_word(&rest, &word))
                *above = words;
        if (n == line.n)
                return STR("");

        words = *above;
        *above = STR("");
        return env_find(words);
}

static int env_names(struct str text, struct buf *ret) {
        enum { NAME_SHOWN_MAX = 64 };
        struct str above = STR(""), line;
        size_t n = 0;
        int r = 0;

        while (r == 0 && n <= NEWS_NAMES_MAX && env_split(&text, &line)) {
                struct str name = str_first(env_line_name(line, &above), NAME_SHOWN_MAX);

                if (name.n == 0)
                        continue;
                if (n++ == NEWS_NAMES_MAX)
                        r = buf_add(ret, " and more");
                else
                        r = buf_printf(ret, "%s%.*s", n > 1 ? ", " : "sets ", STR_FMT(name));
        }

        return r;
}

static uint64_t changed_us(const struct stat *st) {
        return (uint64_t)st->st_ctim.tv_sec * 1000000 + (uint64_t)st->st_ctim.tv_nsec / 1000;
}

/* What is to be said of .env, if it was written since then; empty: nothing. Either the link is new or what it leads to.
 */
static int env_news(const char *workspace, uint64_t since_us, struct buf *ret) {
        cleanup(buf_done) struct buf text = BUF(NEWS_FILE_MAX);
        cleanup(close_fd) int dir = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
        cleanup(close_fd) int fd = -1;
        struct stat itself, st;

        if (dir < 0 || fstatat(dir, ".env", &itself, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;

        fd = path_open_at(dir, ".env", O_RDONLY | O_NONBLOCK, 0, PATH_BENEATH);
        if (fd < 0 && S_ISLNK(itself.st_mode) && changed_us(&itself) >= since_us)
                return buf_add(ret, "is a link that Bailey does not follow");
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0;

        if (changed_us(&itself) < since_us && changed_us(&st) < since_us)
                return 0;
        if (fd_read_all(fd, &text) < 0)
                return buf_add(ret, "holds more than can be looked through");

        return env_names(buf_str(&text), ret);
}

void run_env_tell(const char *workspace, uint64_t since_us) {
        cleanup(buf_done) struct buf news = BUF(4096);

        if (env_news(workspace, since_us, &news) == 0 && news.n)
                log_notice(
                    ".env was written and %.*s: programs outside that load it (Gemini CLI, Continue, aider) obey "
                    "that; look at it first",
                    STR_FMT(buf_str(&news)));
}
