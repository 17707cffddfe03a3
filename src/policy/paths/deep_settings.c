/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only what starts a program or names a server, a hook or a plugin belongs here. Rules and instructions in plain text
 * are content below the top, as AGENTS.md is. So is what asks before it runs (.envrc, mise.toml, .devcontainer): there
 * the person agrees to each file.
 */
#include "policy/paths/deep_settings.h"

#include <string.h>
#include <strings.h>

#define NAME(text)                                                                                                     \
        { text, sizeof text - 1 }

struct deep_name {
        const char *text;
        size_t n;
};

/* Files, and directories with all that is in them. */
static const struct deep_name whole[] = {
        NAME(".claude"),
        NAME(".claude-plugin"),
        NAME(".codex"),
        NAME(".gemini"),
        NAME(".qwen"),
        NAME(".opencode"),
        NAME(".cursor"),
        NAME(".continue"),
        NAME(".windsurf"),
        NAME(".roo"),
        NAME(".cline"),
        NAME(".kilocode"),
        NAME(".kilo"),
        NAME(".factory"),
        NAME(".augment"),
        NAME(".amazonq"),
        NAME(".kiro"),
        NAME(".amp"),
        NAME(".pi"),
        NAME(".agents"),
        NAME(".copilot"),
        NAME(".junie"),
        NAME(".trae"),
        NAME(".qoder"),
        NAME(".rovodev"),
        NAME(".iflow"),
        NAME(".kimi"),
        NAME(".codebuddy"),
        NAME(".zencoder"),
        NAME(".codeium"),
        NAME(".antigravity"),
        NAME(".agent"),
        NAME(".clinerules"),
        NAME(".forge"),
        NAME(".goose"),
        NAME(".letta"),
        NAME(".openhands"),
        NAME(".serena"),
        NAME(".tabnine"),
        NAME(".warp"),
        NAME(".mcp.json"),
        NAME(".crush.json"),
        NAME(".continuerc.json"),
        NAME(".roomodes"),
        NAME(".kilocodemodes"),
        NAME(".aider.conf.yml"),
        NAME(".aider.model.settings.yml"),
};

/* Files without a dot in front. */
static const struct deep_name plain[] = {
        NAME("opencode.json"), NAME("opencode.jsonc"), NAME("tui.json"),   NAME("tui.jsonc"),
        NAME("crush.json"),    NAME("kilo.json"),      NAME("kilo.jsonc"),
};

/* In directories that hold much else. */
static const struct {
        struct deep_name first;
        struct deep_name second[10];
} pairs[] = {
        { NAME(".vscode"), { NAME("mcp.json"), NAME("tasks.json"), NAME("settings.json") } },
        { NAME(".zed"), { NAME("settings.json"), NAME("tasks.json") } },
        { NAME(".github"),
          { NAME("mcp.json"), NAME("lsp.json"), NAME("hooks"), NAME("agents"), NAME("extensions"), NAME("plugin"),
            NAME("skills"), NAME("copilot") } },
};

enum { PAIRS = sizeof pairs / sizeof *pairs, SECONDS = sizeof pairs[0].second / sizeof pairs[0].second[0] };

static bool name_is(const struct deep_name *name, const char *text, size_t n) {
        return n > 0 && name->n == n && (name->text[n - 1] | 32) == (text[n - 1] | 32) &&
               strncasecmp(name->text, text, n) == 0;
}

static bool names_have(const struct deep_name *names, size_t count, const char *text, size_t n) {
        for (size_t i = 0; i < count; i++)
                if (name_is(&names[i], text, n))
                        return true;
        return false;
}

/* The number of the pair that begins with it; PAIRS: none. */
static size_t pair_of(const char *text, size_t n) {
        size_t i = 0;

        while (i < PAIRS && !name_is(&pairs[i].first, text, n))
                i++;
        return i;
}

/* Of a name that begins with a dot: where the whole of it ends; NULL: it is none. */
static const char *dotted_end(const char *text, size_t n) {
        const char *end = text + n;

        if (names_have(whole, sizeof whole / sizeof *whole, text, n))
                return end;

        size_t pair = pair_of(text, n);
        if (pair == PAIRS || *end != '/')
                return NULL;

        size_t second = strcspn(end + 1, "/");
        return names_have(pairs[pair].second, SECONDS, end + 1, second) ? end + 1 + second : NULL;
}

/* The path ends with it; `dot` is the last one in the path. */
static bool is_plain(const char *path, const char *dot) {
        const char *text = dot;

        if (strncasecmp(dot, ".json", 5) != 0)
                return false;
        while (text > path && text[-1] != '/')
                text--;

        return names_have(plain, sizeof plain / sizeof *plain, text, strlen(text));
}

/* From dot to dot: there are few of them in most paths, and no such name is without. */
bool deep_settings_find(const char *path, size_t from, struct deep_found *ret) {
        for (const char *dot = strchr(path + from, '.'); dot; dot = strchr(dot + 1, '.')) {
                if (dot > path + from && dot[-1] == '/') {
                        size_t n = strcspn(dot, "/");
                        const char *end = dotted_end(dot, n);

                        if (!end)
                                continue;
                        *ret = (struct deep_found){ (size_t)(dot + n - path), (size_t)(end - path) };
                        return true;
                }

                if (is_plain(path + from, dot)) {
                        size_t n = strlen(path);

                        *ret = (struct deep_found){ n, n };
                        return true;
                }
        }

        return false;
}

bool deep_settings_begins(const char *path, size_t from) {
        const char *slash = strrchr(path + from, '/');

        return slash && slash[1] == '.' && pair_of(slash + 1, strlen(slash + 1)) < PAIRS;
}
