/* SPDX-License-Identifier: Apache-2.0 */
/* While building: the files of web/ as C bytes, so that the dashboard needs no file of its own at run time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_of(const char *name) {
        static const struct {
                const char *ending, *type;
        } types[] = { { ".html", "text/html; charset=utf-8" },
                      { ".css", "text/css; charset=utf-8" },
                      { ".js", "text/javascript; charset=utf-8" },
                      { ".svg", "image/svg+xml" } };

        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
                size_t n = strlen(name), m = strlen(types[i].ending);
                if (n > m && strcmp(name + n - m, types[i].ending) == 0)
                        return types[i].type;
        }
        fprintf(stderr, "%s: there is no content type for it\n", name);
        exit(1);
}

static size_t print_bytes(const char *path, int number) {
        FILE *file = fopen(path, "re");
        size_t n = 0;
        int c;

        if (!file) {
                fprintf(stderr, "%s: cannot be read\n", path);
                exit(1);
        }
        printf("static const unsigned char bytes_%d[] = {", number);
        for (; (c = getc(file)) != EOF; n++)
                printf("%s%d,", n % 24 ? "" : "\n        ", c);
        fputs("\n};\n", stdout);
        fclose(file);
        return n;
}

int main(int argc, char **argv) {
        fputs("/* Made from web/ while building. */\n#include \"ui/ui_internal.h\"\n\n", stdout);
        for (int i = 1; i < argc; i++)
                print_bytes(argv[i], i);
        fputs("\nconst struct ui_asset ui_assets[] = {\n", stdout);
        for (int i = 1; i < argc; i++) {
                const char *slash = strrchr(argv[i], '/');
                const char *name = slash ? slash + 1 : argv[i];
                printf("        { \"/%s\", \"%s\", bytes_%d, sizeof bytes_%d },\n",
                       strcmp(name, "index.html") == 0 ? "" : name, type_of(name), i, i);
        }
        fputs("};\nconst size_t n_ui_assets = sizeof ui_assets / sizeof *ui_assets;\n", stdout);
        return 0;
}
