/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While building: files as C texts, so that `bailey` needs no file of its own at run time.
 *
 *     gen-texts profiles|tools|recipes FILE...
 *
 * A profile comes with the programs that its line "programs: [a, b]" names; a launch looks only there.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kind {
        const char *name, *folder, *header, *element;
        bool has_programs;
};

static const struct kind kinds[] = {
        { "profiles", "profiles", "policy/profile/profile_names.h", "profile_built_in", true },
        { "tools", "bridges", "policy/tools/tools.h", "tool_built_in", false },
        { "recipes", "recipes", "guest/recipe/recipe.h", "recipe_built_in", false },
};

static const struct kind *find_kind(const char *name) {
        for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
                if (strcmp(kinds[i].name, name) == 0)
                        return &kinds[i];
        return NULL;
}

static void print_text(const char *text, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (text[i] == '\n')
                        fputs(i + 1 < n ? "\\n\"\n        \"" : "\\n", stdout);
                else if (text[i] == '"' || text[i] == '\\')
                        printf("\\%c", text[i]);
                else
                        putchar(text[i]);
        }
}

static void print_programs(const char *text, const char *path) {
        const char *line = strstr(text, "\nprograms: [");
        const char *end = line ? strchr(line, ']') : NULL;

        if (!end) {
                fprintf(stderr, "%s: there is no line \"programs: [NAME, ...]\"\n", path);
                exit(1);
        }
        line += strlen("\nprograms: [");
        printf(" \"%.*s\" ,", (int)(end - line), line);
}

static void print_file(const struct kind *kind, const char *path) {
        static char text[65536];
        FILE *file = fopen(path, "re");
        size_t n = 0;

        if (file)
                n = fread(text, 1, sizeof text - 1, file);

        if (!file || n == 0 || n == sizeof text - 1) {
                fprintf(stderr, "%s: cannot be read, or is too long\n", path);
                exit(1);
        }
        fclose(file);
        text[n] = '\0';

        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        printf("        { \"%.*s\",", (int)(strlen(name) - strlen(".yaml")), name);
        if (kind->has_programs)
                print_programs(text, path);
        fputs("\n        \"", stdout);
        print_text(text, n);
        fputs("\" },\n", stdout);
}

int main(int argc, char **argv) {
        const struct kind *kind = find_kind(argc > 1 ? argv[1] : NULL);

        if (!kind) {
                fputs("gen-texts profiles|tools|recipes FILE...\n", stderr);
                return 2;
        }

        printf("/* Made from %s/ while building. */\n#include \"%s\"\n\nconst struct %s %s_built_in[] = {\n",
               kind->folder, kind->header, kind->element, kind->name);
        for (int i = 2; i < argc; i++)
                print_file(kind, argv[i]);
        printf("};\nconst size_t n_%s_built_in = sizeof %s_built_in / sizeof *%s_built_in;\n", kind->name, kind->name,
               kind->name);
        return 0;
}
