/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/recipe/recipe.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "conf/suggest.h"
#include "conf/yaml.h"
#include "guest/recipe/recipe_internal.h"
#include "policy/check.h"
#include "store/guests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_STANDARD (10 * 60 * NS_PER_SECOND)
#define TIMEOUT_MAX (24 * 3600 * NS_PER_SECOND)
enum { PATH_LONGEST = 1024, TEXT_LONGEST = 64 << 10 };

void recipe_texts_done(recipe_texts *texts) {
        for (size_t i = 0; i < texts->n; i++)
                free(texts->p[i]);
        vec_done(texts);
}

void recipe_done(struct recipe *recipe) {
        free(recipe->name);
        free(recipe->title);
        recipe_texts_done(&recipe->needs);
        recipe_texts_done(&recipe->allow);

        for (size_t i = 0; i < recipe->variables.n; i++) {
                free(recipe->variables.p[i].name);
                free(recipe->variables.p[i].value);
        }

        vec_done(&recipe->variables);

        for (size_t i = 0; i < recipe->steps.n; i++) {
                free(recipe->steps.p[i].name);
                free(recipe->steps.p[i].path);
                free(recipe->steps.p[i].text);
        }

        vec_done(&recipe->steps);
        *recipe = (struct recipe){ 0 };
}

/*
 * Values.
 */
struct parse {
        const struct document *document;
        struct recipe *recipe;
        uint64_t timeout_ns;
        struct err *err;
};

static int text_get(const struct parse *parse, const struct node *node, size_t max, char **ret) {
        if (node->kind != NODE_SCALAR)
                return node_error(parse->document, node, parse->err, "a text belongs here, not %s",
                                  node_kind_name(node->kind));
        if (node->text.n > max || str_has_nul(node->text))
                return node_error(parse->document, node, parse->err,
                                  "the text is longer than %zu bytes, or has a zero byte", max);
        *ret = str_dup(node->text);
        if (!*ret)
                return err_memory(parse->err);

        return 0;
}

/* One line that can be shown as it is. */
static int line_get(const struct parse *parse, const struct node *node, size_t max, char **ret) {
        int r = text_get(parse, node, max, ret);

        if (r < 0 || !*ret)
                return r;

        for (const char *c = *ret; *c; c++)
                if ((unsigned char)*c < ' ' || *c == 127) {
                        free(*ret);
                        *ret = NULL;
                        return node_error(parse->document, node, parse->err, "control characters do not belong here");
                }

        if (!**ret) {
                free(*ret);
                *ret = NULL;
                return node_error(parse->document, node, parse->err, "the text is empty");
        }

        return 0;
}

static int kind_expect(const struct parse *parse, const struct node *node, enum node_kind kind) {
        if (node->kind == kind)
                return 0;
        return node_error(parse->document, node, parse->err, "%s belongs here, not %s", node_kind_name(kind),
                          node_kind_name(node->kind));
}

/* Each part is a name: what normalising would change is refused, so that a path says what it means. */
static const char *path_problem(struct str path) {
        struct str rest = path, part;
        size_t depth = 0;

        if (path.n == 0 || path.n > PATH_LONGEST)
                return "a path has 1 to 1024 bytes";
        if (path.p[0] == '/')
                return "a path is relative to the guest's home: write ~/...";
        if (path.p[0] == '~')
                return "only ~/ stands for a home";
        if (path.p[path.n - 1] == '/')
                return "a path has no slash at its end";

        while (str_split(&rest, '/', &part)) {
                if (part.n == 0 || str_is(part, ".") || str_is(part, ".."))
                        return "a path has no empty part, and neither '.' nor '..'";
                if (part.n > 255 || ++depth > 64)
                        return "the path is too deep, or a name in it is too long";
                for (size_t i = 0; i < part.n; i++)
                        if ((unsigned char)part.p[i] < ' ' || part.p[i] == 127)
                                return "a path has no control characters";
        }

        return NULL;
}

/* `key`: the node's key is the path, not its text. */
static int path_get(const struct parse *parse, const struct node *node, bool key, char **ret) {
        struct str text = key ? node->key : node->text;

        if (!key && node->kind != NODE_SCALAR)
                return node_error(parse->document, node, parse->err, "a path belongs here, not %s",
                                  node_kind_name(node->kind));
        if (str_starts(text, STR("~/")))
                text = str_skip(text, 2);

        const char *problem = path_problem(text);
        if (problem && key)
                return node_key_error(parse->document, node, parse->err, "%s: %s", show(text).text, problem);
        if (problem)
                return node_error(parse->document, node, parse->err, "%s: %s", show(text).text, problem);

        *ret = str_dup(text);
        if (!*ret)
                return err_memory(parse->err);

        return 0;
}

static int mode_get(const struct parse *parse, const struct node *node, mode_t *ret) {
        mode_t mode = 0;

        for (size_t i = 0; node->kind == NODE_SCALAR && i < node->text.n && i < 5; i++) {
                if (node->text.p[i] < '0' || node->text.p[i] > '7')
                        mode = 010000;
                mode = (mode_t)(mode * 8 + (mode_t)(node->text.p[i] - '0'));
        }

        if (node->kind != NODE_SCALAR || node->text.n < 3 || node->text.n > 4 || mode > 0777 || !mode)
                return node_error(parse->document, node, parse->err,
                                  "a mode has three octal digits, as 644 or 0755; set-id bits are not given");

        *ret = mode;
        return 0;
}

static int duration_get(const struct parse *parse, const struct node *node, uint64_t *ret) {
        uint64_t ns;

        if (node->kind == NODE_SCALAR && clock_parse_duration(node->text, &ns) && ns > 0 && ns <= TIMEOUT_MAX) {
                *ret = ns;
                return 0;
        }
        return node_error(parse->document, node, parse->err,
                          "a time limit is written as 30s, 10m or 2h, up to one day");
}

/*
 * Steps.
 */
static void digest_text(struct digest *digest, const char *text) {
        char size[32];
        int n = snprintf(size, sizeof size, "%zu:", text ? strlen(text) : 0);

        digest_add(digest, str_n(size, (size_t)n));
        digest_add(digest, str_of(text ? text : ""));
}

static void step_digest(struct recipe_step *step) {
        unsigned char bytes[DIGEST_BYTES];
        struct digest digest;
        char numbers[64];

        snprintf(numbers, sizeof numbers, "%d %o", (int)step->kind, (unsigned)step->mode);
        digest_begin(&digest);
        digest_text(&digest, numbers);
        digest_text(&digest, step->path);
        digest_text(&digest, step->text);
        digest_text(&digest, step->manager);
        digest_end(&digest, bytes);
        digest_hex(bytes, step->digest);
}

/* Takes the texts of the step. */
static int step_add(const struct parse *parse, const struct node *node, struct recipe_step *step) {
        int r = 0;

        if (!step->name || !step->text)
                r = err_memory(parse->err);
        else if (parse->recipe->steps.n >= RECIPE_STEPS_MAX)
                r = node_error(parse->document, node, parse->err, "a recipe has at most %d steps", RECIPE_STEPS_MAX);

        for (size_t i = 0; i < parse->recipe->steps.n && r == 0; i++)
                if (strcmp(parse->recipe->steps.p[i].name, step->name) == 0)
                        r = node_error(parse->document, node, parse->err, "%s is there twice",
                                       show(str_of(step->name)).text);

        if (r == 0) {
                step_digest(step);
                if (vec_push(&parse->recipe->steps, *step) < 0)
                        r = err_memory(parse->err);
                else
                        r = 0;
        }

        if (r < 0) {
                free(step->name);
                free(step->path);
                free(step->text);
        }

        return r;
}

static int directory_add(const struct parse *parse, const struct node *node) {
        struct recipe_step step = { .kind = RECIPE_DIRECTORY };
        int r = path_get(parse, node, false, &step.path);

        if (r < 0)
                return r;

        step.name = str_format("directory ~/%s", step.path);
        step.text = str_dup(STR(""));

        return step_add(parse, node, &step);
}

static const char *const file_keys[] = { "text", "mode", NULL };

static int keys_check(const struct parse *parse, const struct node *map, const char *const *known) {
        for (const struct node *child = map->first; child; child = child->next) {
                struct suggestion near = suggest_for(child->key);
                bool good = false;
                for (const char *const *key = known; *key && !good; key++) {
                        good = str_is(child->key, *key);
                        suggest_offer(&near, *key);
                }

                if (!good)
                        return node_key_error(parse->document, child, parse->err, "there is no key %s here%s",
                                              show(child->key).text, suggest_text(&near, "").text);
        }

        return 0;
}

static int file_add(const struct parse *parse, const struct node *node) {
        struct recipe_step step = { .kind = RECIPE_FILE };
        const struct node *text = node, *mode = NULL;
        int r = path_get(parse, node, true, &step.path);

        if (r < 0)
                return r;

        if (node->kind == NODE_MAP) {
                r = keys_check(parse, node, file_keys);
                text = node_get(node, STR("text"));
                mode = node_get(node, STR("mode"));

                if (r == 0 && !text)
                        r = node_error(parse->document, node, parse->err, "the key text is missing: what the file has");
        }

        if (r == 0 && mode)
                r = mode_get(parse, mode, &step.mode);

        if (r == 0 && text && text->kind == NODE_NULL)
                step.text = str_dup(STR(""));
        else if (r == 0 && text)
                r = text_get(parse, text, RECIPE_FILE_MAX, &step.text);

        if (r < 0) {
                free(step.path);
                return r;
        }

        step.name = str_format("file ~/%s", step.path);
        return step_add(parse, node, &step);
}

static int link_add(const struct parse *parse, const struct node *node) {
        struct recipe_step step = { .kind = RECIPE_LINK };
        int r = path_get(parse, node, true, &step.path);

        if (r == 0)
                r = path_get(parse, node, false, &step.text);

        if (r < 0) {
                free(step.path);
                return r;
        }

        step.name = str_format("link ~/%s", step.path);
        return step_add(parse, node, &step);
}

static const char *const command_keys[] = { "name", "run", "timeout", NULL };

static int command_add(const struct parse *parse, const struct node *node) {
        struct recipe_step step = { .kind = RECIPE_COMMAND, .timeout_ns = parse->timeout_ns };
        const struct node *text = node, *limit = NULL, *name = NULL;
        cleanup(free_ptr) char *called = NULL;
        int r = 0;

        if (node->kind == NODE_MAP) {
                r = keys_check(parse, node, command_keys);
                text = node_get(node, STR("run"));
                limit = node_get(node, STR("timeout"));
                name = node_get(node, STR("name"));

                if (r == 0 && !text)
                        r = node_error(parse->document, node, parse->err,
                                       "the key run is missing: what the shell is to run");
        }

        if (r == 0 && limit)
                r = duration_get(parse, limit, &step.timeout_ns);
        if (r == 0 && name)
                r = line_get(parse, name, 80, &called);
        if (r == 0 && text)
                r = text_get(parse, text, TEXT_LONGEST, &step.text);
        if (r < 0)
                return r;

        size_t number = 1;
        for (size_t i = 0; i < parse->recipe->steps.n; i++)
                number += parse->recipe->steps.p[i].kind == RECIPE_COMMAND;

        if (called)
                step.name = str_format("command %s", called);
        else
                step.name = str_format("command %zu", number);
        return step_add(parse, node, &step);
}

/* What a shell and a manager's own grammar take as one word. */
static bool tool_is_good(struct str tool) {
        for (size_t i = 0; i < tool.n; i++)
                if (!ascii_is_alnum(tool.p[i]) && !strchr("@:/._+-~#", tool.p[i]))
                        return false;
        return tool.n > 0 && tool.n <= 200 && tool.p[0] != '-';
}

static int tool_add(const struct parse *parse, const struct node *node, const char *manager) {
        struct recipe_step step = { .kind = RECIPE_TOOL, .manager = manager, .timeout_ns = parse->timeout_ns };

        if (node->kind != NODE_SCALAR || !tool_is_good(node->text))
                return node_error(
                    parse->document, node, parse->err,
                    "a tool is written as its manager knows it, as node@22: letters, digits and @:/._+-~#");

        step.name = str_format("tool %.*s by %s", STR_FMT(node->text), manager);
        step.text = str_dup(node->text);

        return step_add(parse, node, &step);
}

/*
 * Sections.
 */
typedef int section_item(const struct parse *p, const struct node *node);

static int section_each(const struct parse *parse, const struct node *section, enum node_kind kind, section_item *add) {
        int r = 0;

        if (section->kind != NODE_NULL)
                r = kind_expect(parse, section, kind);

        for (const struct node *child = section->first; child && r == 0; child = child->next)
                r = add(parse, child);
        return r;
}

static int needs_add(const struct parse *parse, const struct node *node) {
        char *text = NULL;
        int r = line_get(parse, node, 64, &text);

        if (r < 0)
                return r;

        if (!recipe_name_is_good(str_of(text)) || parse->recipe->needs.n >= RECIPE_NEEDS_MAX) {
                free(text);
                return node_error(parse->document, node, parse->err, "the name of a recipe belongs here, of at most %d",
                                  RECIPE_NEEDS_MAX);
        }

        if (vec_push(&parse->recipe->needs, text) == 0)
                return 0;

        free(text);
        return err_memory(parse->err);
}

static int allow_add(const struct parse *parse, const struct node *node) {
        struct err why = { 0 };
        char *text = NULL;
        int r = line_get(parse, node, 512, &text);

        if (r < 0)
                return r;

        if (check_allowed_entry(str_of(text), &why) < 0) {
                free(text);
                return node_error(parse->document, node, parse->err, "%s", err_text(&why));
        }

        if (vec_push(&parse->recipe->allow, text) == 0)
                return 0;

        free(text);
        return err_memory(parse->err);
}

static int variable_push(const struct parse *parse, char *name, char *value) {
        if (name && value && vec_push(&parse->recipe->variables, ((struct recipe_variable){ name, value })) == 0)
                return 0;
        free(name);
        free(value);
        return err_memory(parse->err);
}

static int variable_add(const struct parse *parse, const struct node *node) {
        char *value = NULL;
        int r = 0;

        if (check_variable_name(node->key, NULL) < 0 || node->key.n > 200)
                r = node_key_error(parse->document, node, parse->err, "%s is not the name of a variable",
                                   show(node->key).text);
        else if (str_is(node->key, "PATH") || str_is(node->key, "HOME") || str_starts(node->key, STR("LD_")) ||
                 str_starts(node->key, STR("BAILEY_")))
                r = node_key_error(parse->document, node, parse->err,
                                   "%s is not set by recipes; for PATH there is the key path", show(node->key).text);

        if (r == 0)
                r = text_get(parse, node, TEXT_LONGEST, &value);
        if (r < 0)
                return r;

        return variable_push(parse, str_dup(node->key), value);
}

static int front_add(const struct parse *parse, const struct node *node) {
        cleanup(free_ptr) char *path = NULL;
        int r = path_get(parse, node, false, &path);

        if (r == 0 && path && strchr(path, ':'))
                r = node_error(parse->document, node, parse->err, "a directory in PATH has no colon");
        if (r < 0)
                return r;

        return variable_push(parse, str_dup(STR(VARIABLE_PATH_FRONT)), str_format("~/%s", path));
}

static int tools_add(const struct parse *parse, const struct node *node) {
        const struct recipe_manager *manager = recipe_manager_find(node->key);

        if (manager) {
                int r = 0;

                if (node->kind != NODE_NULL)
                        r = kind_expect(parse, node, NODE_LIST);

                for (const struct node *child = node->first; child && r == 0; child = child->next)
                        r = tool_add(parse, child, manager->name);
                return r;
        }

        if (str_is(node->key, "debian") || str_is(node->key, "apt"))
                return node_key_error(parse->document, node, parse->err,
                                      "Debian packages need root's rights over this machine, which no guest has: "
                                      "install them on the host, where every guest sees them");

        return node_key_error(parse->document, node, parse->err, "%s is not a manager of tools: mise, pkgx, nix",
                              show(node->key).text);
}

/* The variables of a recipe are one step: they count together, from the next start on. */
static int environment_step(const struct parse *parse, const struct node *root) {
        struct recipe_step step = { .kind = RECIPE_ENVIRONMENT, .name = str_dup(STR("environment")) };
        cleanup(buf_done) struct buf text = BUF(8 << 20);
        int r = 0;

        for (size_t i = 0; i < parse->recipe->variables.n && r == 0; i++)
                r = buf_printf(&text, "%s=%s\n", parse->recipe->variables.p[i].name,
                               parse->recipe->variables.p[i].value);

        if (r < 0) {
                free(step.name);
                return err_set(parse->err, EMSGSIZE, "the variables of the recipe are too long");
        }

        step.text = str_dup(buf_str(&text));
        return step_add(parse, root, &step);
}

/* Where managers put what they install. */
static int tools_front(const struct parse *parse, const struct node *root) {
        const struct node *tools = node_get(root, STR("tools"));
        int r = 0;

        if (!tools || tools->kind != NODE_MAP)
                return 0;

        for (const struct node *child = tools->first; child && r == 0; child = child->next) {
                const struct recipe_manager *manager = recipe_manager_find(child->key);
                for (const char *const *front = manager ? manager->fronts : NULL; front && *front && r == 0; front++)
                        r = variable_push(parse, str_dup(STR(VARIABLE_PATH_FRONT)), str_dup(str_of(*front)));
        }

        return r;
}

/* In this order, wherever they stand in the file. */
static const struct {
        const char *key;
        enum node_kind kind;
        section_item *add;
} sections[] = {
        { "needs", NODE_LIST, needs_add },
        { "allow", NODE_LIST, allow_add },
        { "environment", NODE_MAP, variable_add },
        { "path", NODE_LIST, front_add },
        { "directories", NODE_LIST, directory_add },
        { "files", NODE_MAP, file_add },
        { "links", NODE_MAP, link_add },
        { "tools", NODE_MAP, tools_add },
        { "commands", NODE_LIST, command_add },
};
static const char *const top_keys[] = { "title",       "timeout", "needs", "allow", "environment", "path",
                                        "directories", "files",   "links", "tools", "commands",    NULL };

static int recipe_read(struct parse *parse, const struct node *root) {
        const struct node *title = node_get(root, STR("title")), *limit = node_get(root, STR("timeout"));
        int r = keys_check(parse, root, top_keys);

        if (r == 0 && title)
                r = line_get(parse, title, 200, &parse->recipe->title);
        else if (r == 0 && !(parse->recipe->title = str_dup(STR(""))))
                r = err_memory(parse->err);

        if (r == 0 && limit)
                r = duration_get(parse, limit, &parse->timeout_ns);

        for (size_t i = 0; i < sizeof sections / sizeof *sections && r == 0; i++) {
                const struct node *section = node_get(root, str_of(sections[i].key));
                if (section)
                        r = section_each(parse, section, sections[i].kind, sections[i].add);
                if (r == 0 && sections[i].add == front_add)
                        r = tools_front(parse, root);
                if (r == 0 && sections[i].add == front_add && parse->recipe->variables.n)
                        r = environment_step(parse, root);
        }

        return r;
}

int recipe_parse(struct str text, const char *name, struct recipe *ret, struct err *err) {
        cleanup(document_freep) struct document *document = NULL;
        cleanup(recipe_done) struct recipe recipe = { 0 };
        struct parse parse = { .recipe = &recipe, .timeout_ns = TIMEOUT_STANDARD, .err = err };

        err_blame(err, ERR_CONFIG);
        int r = yaml_read(text, str_of(name), &document, err);
        if (r < 0)
                return r;

        parse.document = document;
        const struct node *root = document_root(document);
        if (!root)
                return err_set(err, EINVAL, "%s: the recipe is empty", name);

        recipe.name = str_dup(str_of(name));
        if (!recipe.name)
                return err_memory(err);

        r = kind_expect(&parse, root, NODE_MAP);
        if (r == 0)
                r = recipe_read(&parse, root);
        if (r < 0)
                return r;

        err_blame(err, ERR_SYSTEM); /* what fails from now on is not the file's mistake */
        *ret = recipe;
        recipe = (struct recipe){ 0 };

        return 0;
}
