/* SPDX-License-Identifier: Apache-2.0 */
/* While building: the files of recipes/ as C texts, so that `bailey` needs no file of its own at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_recipe(const char *path) {
        static char text[65536];
        FILE *file = fopen(path, "re");
        size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;

        if (!file || n == 0 || n == sizeof text - 1) {
                fprintf(stderr, "%s: cannot be read, or is too long\n", path);
                exit(1);
        }
        fclose(file);
        printf("        { \"%.*s\",\n        \"", (int)(strlen(name) - strlen(".yaml")), name);
        print_text(text, n);
        fputs("\" },\n", stdout);
}

int main(int argc, char **argv) {
        fputs("/* Made from recipes/ while building. */\n#include \"guest/recipe.h\"\n\n"
              "const struct recipe_built_in recipes_built_in[] = {\n",
              stdout);
        for (int i = 1; i < argc; i++)
                print_recipe(argv[i]);
        fputs("};\nconst size_t n_recipes_built_in = sizeof recipes_built_in / sizeof *recipes_built_in;\n", stdout);
        return 0;
}
