/* SPDX-License-Identifier: Apache-2.0 */
#include "import/import.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/jsonc.h"
#include "conf/starlark.h"
#include "conf/suggest.h"
#include "conf/toml.h"
#include "import/import_internal.h"
#include "import/import_source.h"
#include "policy/load.h"
#include "policy/paths/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 64, SCRIPT_BYTES_MAX = 1 << 20 };

/* Where settings are: below the project (with no link on the way, since the project is not trusted), below the home, or
 * in the system. Those that count most come first. */
struct import_place {
        const char *tool, *path;
        enum { BELOW_WORKSPACE, BELOW_HOME, ABSOLUTE } base;
        const char *directory_of; /* every file in it with this ending */
        bool alone;               /* if it is there, the tool's other places do not count */
};
static const struct import_place places[] = {
        { "claude", "/etc/claude-code/managed-settings.json", ABSOLUTE, NULL, false },
        { "claude", "/etc/claude-code/managed-settings.d", ABSOLUTE, ".json", false },
        { "claude", ".claude/settings.local.json", BELOW_WORKSPACE, NULL, false },
        { "claude", ".claude/settings.json", BELOW_WORKSPACE, NULL, false },
        { "claude", ".claude/settings.json", BELOW_HOME, NULL, false },
        { "codex", "/etc/codex/requirements.toml", ABSOLUTE, NULL, false },
        { "codex", "/etc/codex/managed_config.toml", ABSOLUTE, NULL, false },
        { "codex", ".codex/config.toml", BELOW_WORKSPACE, NULL, false },
        { "codex", ".codex/config.toml", BELOW_HOME, NULL, false },
        { "codex", ".codex/rules", BELOW_WORKSPACE, ".rules", false },
        { "codex", ".codex/rules", BELOW_HOME, ".rules", false },
        { "srt", ".srt-settings.json", BELOW_HOME, NULL, false },
        { "fence", "fence.jsonc", BELOW_WORKSPACE, NULL, true },
        { "fence", "fence.json", BELOW_WORKSPACE, NULL, true },
        { "fence", ".config/fence/fence.jsonc", BELOW_HOME, NULL, true },
        { "fence", ".config/fence/fence.json", BELOW_HOME, NULL, true },
        { "fence", ".fence.json", BELOW_HOME, NULL, true },
        { "gemini", "/etc/gemini-cli/settings.json", ABSOLUTE, NULL, false },
        { "gemini", ".gemini/settings.json", BELOW_WORKSPACE, NULL, false },
        { "gemini", ".gemini/settings.json", BELOW_HOME, NULL, false },
        { "gemini", ".gemini/policies", BELOW_HOME, ".toml", false },
        { "devcontainer", ".devcontainer/init-firewall.sh", BELOW_WORKSPACE, NULL, true },
};

void import_result_done(struct import_result *result) {
        buf_done(&result->text);
}

/* --- reading --- */

static int read_open(int fd, const char *path, struct buf *ret, struct err *err) {
        struct stat st;
        int r;

        if (fstat(fd, &st) < 0)
                return err_errno(err, "cannot examine %s", show_path(path).text);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EINVAL, "%s is not a regular file", show_path(path).text);

        if (st.st_size > (off_t)ret->max)
                r = -EMSGSIZE;
        else
                r = fd_read_all(fd, ret);
        if (r == -EMSGSIZE)
                return err_set(err, EFBIG, "%s has more than %zu MiB: these are no settings", show_path(path).text,
                               ret->max >> 20);

        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", show_path(path).text, strerror(-r));

        return 0;
}

static int read_path(const char *path, bool no_links, struct buf *ret, struct err *err) {
        const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        cleanup(close_fd) int fd =
            no_links ? path_open_at(AT_FDCWD, path, flags, 0, PATH_NO_SYMLINKS) : open(path, flags);

        if (fd < 0 && !no_links)
                return err_errno(err, "cannot open %s", show_path(path).text);

        if (fd == -ELOOP)
                return err_set(err, ELOOP,
                               "%s is a symbolic link, or below one; settings of a project are files of its own. Name "
                               "the file to have it read all the same",
                               show_path(path).text);

        if (fd < 0)
                return err_set(err, -fd, "cannot open %s: %s", show_path(path).text, strerror(-fd));

        return read_open(fd, path, ret, err);
}

int import_open_jsonc(const char *path, struct document **ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(DOCUMENT_BYTES_MAX);
        cleanup(document_freep) struct document *document = NULL;
        int r;

        r = read_path(path, true, &text, err);
        if (r < 0)
                return r;
        r = jsonc_read(buf_str(&text), str_of(path), &document, err);
        if (r < 0)
                return r;
        r = import_check_words(document, err);
        if (r < 0)
                return r;

        *ret = document;
        document = NULL;

        return 0;
}

/* --- one file --- */

enum file_kind { KIND_JSONC, KIND_TOML, KIND_REQUIREMENTS, KIND_RULES, KIND_SCRIPT };

static enum file_kind kind_of(const char *tool, const char *path) {
        struct str name = str_of(path);

        if (strcmp(tool, "devcontainer") == 0)
                return KIND_SCRIPT;
        if (strcmp(tool, "codex") == 0 && str_is(path_basename(path), "requirements.toml"))
                return KIND_REQUIREMENTS;
        if (strcmp(tool, "codex") == 0)
                return str_ends(name, STR(".rules")) ? KIND_RULES : KIND_TOML;
        if (strcmp(tool, "gemini") == 0 && str_ends(name, STR(".toml")))
                return KIND_TOML;

        return KIND_JSONC;
}

static import_handler *reader_of(const struct import_model *model, enum file_kind kind) {
        const char *tool = model->tool;

        if (model->looking)
                return import_codex_look;
        if (strcmp(tool, "claude") == 0)
                return import_claude;
        if (strcmp(tool, "srt") == 0)
                return import_srt;
        if (strcmp(tool, "fence") == 0)
                return import_fence;
        if (kind == KIND_REQUIREMENTS)
                return import_codex_requirements;
        if (strcmp(tool, "codex") == 0)
                return kind == KIND_RULES ? import_codex_rules : import_codex;

        if (kind == KIND_TOML)
                return import_gemini_policy;

        return import_gemini;
}

static int import_parse(enum file_kind kind, struct str text, const char *name, struct document **ret,
                        struct err *err) {
        switch (kind) {
        case KIND_TOML:
        case KIND_REQUIREMENTS:
                return toml_read(text, str_of(name), ret, err);
        case KIND_RULES:
                return starlark_read(text, str_of(name), ret, err);
        case KIND_SCRIPT:
                return document_new(str_of(name), ret, err);
        default:
                return jsonc_read(text, str_of(name), ret, err);
        }
}

/* As people name it: from the project, or from the home. */
static char *name_of(const struct import_model *model, const char *path) {
        size_t workspace = strlen(model->workspace), home = strlen(model->home);

        if (workspace > 1 && path_is_within(path, model->workspace) && path[workspace] == '/')
                return str_dup(str_of(path + workspace + 1));
        if (home > 1 && path_is_within(path, model->home) && path[home] == '/')
                return str_format("~%s", path + home);
        return str_dup(str_of(path));
}

static int read_text(struct import_source *source, enum file_kind kind, struct str text, struct err *err) {
        cleanup(document_freep) struct document *document = NULL;
        cleanup(free_ptr) char *name = name_of(source->model, source->path);
        int r;

        if (!name)
                return err_memory(err);
        if (source->model->looking && kind != KIND_TOML)
                return 0;

        r = import_parse(kind, text, name, &document, err);
        if (r < 0)
                return r;
        if (kind == KIND_SCRIPT && str_has_nul(text))
                return err_set(err, EINVAL, "%s: this is no script: it holds a zero byte", document_name(document));
        r = import_check_words(document, err);
        if (r < 0)
                return r;

        source->document = document;

        if (kind == KIND_SCRIPT)
                r = import_devcontainer(source, text, err);
        else
                r = reader_of(source->model, kind)(source, document_root(document), err);

        if (r < 0 || source->model->looking)
                return r;

        return import_words_add(&source->model->files, str_of(source->path), err);
}

/* The last "/.claude/" of a path, if this directory is not around the one that has `around` bytes: Claude keeps
 * projects of its own in it. */
static const char *last_claude(const char *path, size_t around) {
        static const char name[] = "/.claude";
        const char *found = NULL;

        for (const char *p = path; (p = strstr(p, "/.claude/")); p += strlen(name))
                found = p;

        if (found && (size_t)(found - path) + strlen(name) < around)
                return NULL;

        return found;
}

/* What Claude's settings mean by "/x" and, elsewhere in them, by "x" hangs on where the file is. In a project it is the
 * project; for a file of the home it may be the home, ~/.claude or the project, for one of a directory below the
 * project that directory. *ret_own is what the file's name leads to. */
static int claude_roots(struct import_source *source, const char *in_home, char **ret_own, struct err *err) {
        const struct import_model *model = source->model;
        bool inside = path_is_within(source->path, model->workspace);
        const char *settings = last_claude(source->path, inside ? strlen(model->workspace) : 0);
        size_t n = 0;

        if (inside && !settings)
                return 0;
        if (settings) {
                *ret_own = str_dup(str_n(source->path, (size_t)(settings - source->path)));
                if (!*ret_own)
                        return err_memory(err);
        }

        if (inside && strcmp(*ret_own, model->workspace) == 0)
                return 0;

        source->other_roots[n++] = model->workspace;
        if (*ret_own)
                source->other_roots[n++] = *ret_own;

        if (!inside) {
                source->root = in_home;
                source->other_roots[n++] = path_is_within(source->path, model->home) ? model->home : NULL;
        }

        return 0;
}

static int read_file(struct import_model *model, const char *path, bool no_links, struct err *err) {
        enum file_kind kind = kind_of(model->tool, path);
        cleanup(buf_done) struct buf text = BUF(kind == KIND_SCRIPT ? SCRIPT_BYTES_MAX : DOCUMENT_BYTES_MAX);
        cleanup(free_ptr) char *in_home = path_join(model->home, ".claude"), *own = NULL;
        struct import_source source = { .model = model, .path = path, .root = model->workspace };
        int r;

        if (!in_home)
                return err_memory(err);

        if (strcmp(model->tool, "claude") == 0) {
                r = claude_roots(&source, in_home, &own, err);
                if (r < 0)
                        return r;
        }

        r = read_path(path, no_links, &text, err);
        if (r < 0)
                return r;

        return read_text(&source, kind, buf_str(&text), err);
}

/* --- all files --- */

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_directory(const char *path, const char *ending, import_words *ret, struct err *err) {
        DIR *directory = opendir(path);
        const struct dirent *entry;
        int r = 0;

        if (!directory)
                return err_errno(err, "cannot read the directory %s", show_path(path).text);

        while (r == 0 && (entry = readdir(directory))) {
                cleanup(free_ptr) char *file = NULL;

                if (!str_ends(str_of(entry->d_name), str_of(ending)) || entry->d_name[0] == '.')
                        continue;

                file = path_join(path, entry->d_name);
                if (file)
                        r = import_words_add(ret, str_of(file), err);
                else
                        r = err_memory(err);
                if (r == 0 && ret->n > FILES_MAX)
                        r = err_set(err, E2BIG, "%s has more than %d files", show_path(path).text, FILES_MAX);
        }

        closedir(directory);
        if (ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, compare_names);

        return r;
}

/* What cannot be examined may hold restrictions: it is not taken for nothing. */
static int place_exists(const char *path, bool *ret, struct err *err) {
        struct stat st;

        *ret = lstat(path, &st) == 0;
        if (!*ret && errno != ENOENT && errno != ENOTDIR)
                return err_errno(err, "cannot examine %s", show_path(path).text);

        return 0;
}

static int read_place(struct import_model *model, const struct import_place *place, bool *ret_found, struct err *err) {
        const char *base = place->base == BELOW_WORKSPACE ? model->workspace : model->home;
        cleanup(free_ptr) char *path =
            place->base == ABSOLUTE ? str_dup(str_of(place->path)) : path_join(base, place->path);
        bool no_links = place->base == BELOW_WORKSPACE;
        import_words files = { 0 };
        bool exists = false;
        int r;

        if (!path)
                return err_memory(err);
        r = place_exists(path, &exists, err);
        if (r < 0 || !exists)
                return r;

        if (place->directory_of)
                r = list_directory(path, place->directory_of, &files, err);
        else
                r = import_words_add(&files, str_of(path), err);
        for (size_t i = 0; r == 0 && i < files.n; i++) {
                *ret_found = true;
                r = read_file(model, files.p[i], no_links, err);
        }

        import_words_done(&files);
        return r;
}

static int read_places(struct import_model *model, struct err *err) {
        bool found = false, same_home = strcmp(model->home, model->workspace) == 0;
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof places / sizeof *places; i++) {
                if (strcmp(places[i].tool, model->tool) != 0 || (same_home && places[i].base == BELOW_WORKSPACE))
                        continue;
                if (places[i].alone && found)
                        continue;
                r = read_place(model, &places[i], &found, err);
        }

        if (r == 0 && !found)
                return err_set(err, ENOENT, "there are no settings of %s here; name the files that are to be read",
                               model->tool);

        return r;
}

static int read_named(struct import_model *model, const struct import_request *request, struct err *err) {
        cleanup(free_ptr) char *here = NULL;
        int r = 0;

        if (request->n_files > FILES_MAX)
                return err_set(err, E2BIG, "more than %d files", FILES_MAX);

        here = realpath(".", NULL);

        for (size_t i = 0; r == 0 && i < request->n_files; i++) {
                cleanup(free_ptr) char *path = NULL;
                if (path_normalise(str_of(request->files[i]), here, &path) < 0)
                        return err_set(err, EINVAL, "%s is not a path", show_path(request->files[i]).text);
                r = read_file(model, path, false, err);
        }

        return r;
}

/* --- the result --- */

/* What is given away has been loaded once, as a run would. */
static int import_prove(const struct import_model *model, const struct buf *text, struct err *err) {
        cleanup(free_ptr) char *copy = str_dup(buf_str(text));
        cleanup(free_ptr) void *bytes = NULL;
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(path_rules_freep) struct path_rules *paths = NULL;
        const struct policy_request request = { .workspace = model->workspace,
                                                .only_text = copy,
                                                .base = model->workspace };
        struct err why = { 0 };
        size_t n;
        int r = copy ? 0 : -ENOMEM;

        if (r == 0)
                r = policy_load(&request, &policy, &why);
        if (r == 0)
                r = policy_compile_network(policy, NULL, 0, &bytes, &n, &why);
        if (r == 0)
                r = path_rules_compile(policy, &paths, &why);

        if (r < 0)
                return err_set(err, -r, "no policy can say this: %s", err_text(&why));

        return 0;
}

static int import_finish(struct import_model *model, struct import_result *ret, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(DOCUMENT_BYTES_MAX);
        int r;

        r = import_codex_settle(model, err);
        if (r == 0)
                r = import_resolve(model, err);
        if (r == 0)
                r = import_write(model, &text, err);
        if (r == 0)
                r = import_prove(model, &text, err);
        if (r < 0)
                return r;

        *ret =
            (struct import_result){ .text = text, .n_notes = model->notes.n, .dropped = import_model_dropped(model) };
        text = BUF(0);

        return 0;
}

static int read_all(struct import_model *model, const struct import_request *request, struct err *err) {
        if (request->n_files > 0)
                return read_named(model, request, err);

        return read_places(model, err);
}

int import_make(const struct import_request *request, struct import_result *ret, struct err *err) {
        cleanup(free_ptr) char *workspace = realpath(text_or(request->workspace, "."), NULL);
        cleanup(free_ptr) char *home = path_home() ? realpath(path_home(), NULL) : NULL;
        cleanup(import_model_done) struct import_model model = { .tool = request->tool, .workspace = workspace };
        int r = 0;

        if (!workspace)
                return err_errno(err, "cannot find the directory %s",
                                 show(str_of(text_or(request->workspace, "."))).text);

        model.home = text_or(home, "/nonexistent");
        model.looking = strcmp(model.tool, "codex") == 0;
        if (model.looking)
                r = read_all(&model, request, err);

        model.looking = false;
        if (r == 0)
                r = read_all(&model, request, err);
        if (r < 0)
                return r;

        return import_finish(&model, ret, err);
}

int import_make_text(const char *tool, const char *kind, struct str text, const char *workspace, const char *home,
                     struct import_result *ret, struct err *err) {
        cleanup(import_model_done) struct import_model model = { .tool = tool, .workspace = workspace, .home = home };
        struct import_source source = { .model = &model, .path = "input", .root = workspace };
        enum file_kind which = KIND_JSONC;
        int r = 0;

        if (strcmp(kind, "toml") == 0)
                which = KIND_TOML;
        else if (strcmp(kind, "requirements") == 0)
                which = KIND_REQUIREMENTS;
        else if (strcmp(kind, "rules") == 0)
                which = KIND_RULES;
        else if (strcmp(kind, "sh") == 0)
                which = KIND_SCRIPT;

        model.looking = strcmp(tool, "codex") == 0;
        if (model.looking)
                r = read_text(&source, which, text, err);

        model.looking = false;
        if (r == 0)
                r = read_text(&source, which, text, err);
        if (r < 0)
                return r;

        return import_finish(&model, ret, err);
}
