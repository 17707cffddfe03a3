/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While building: the files of profiles/ as C texts, so that `bailey` needs no file of its own at run time. Each comes
 * with the programs that its line "programs: [a, b]" names; a launch looks only there.
 */
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

static void print_programs(const char *text, const char *path) {
        const char *line = strstr(text, "\nprograms: [");
        const char *end = line ? strchr(line, ']') : NULL;

        if (!end) {
                fprintf(stderr, "%s: there is no line \"programs: [NAME, ...]\"\n", path);
                exit(1);
        }
        line += strlen("\nprograms: [");
        printf(" \"%.*s\" ", (int)(end - line), line);
}

static void print_profile(const char *path) {
        static char text[65536];
        FILE *file = fopen(path, "re");
        size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;

        if (!file || n == 0 || n == sizeof text - 1) {
                fprintf(stderr, "%s: cannot be read, or is too long\n", path);
                exit(1);
        }
        fclose(file);
        text[n] = '\0';

        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        printf("        { \"%.*s\",", (int)(strlen(name) - strlen(".yaml")), name);
        print_programs(text, path);
        fputs(",\n        \"", stdout);
        print_text(text, n);
        fputs("\" },\n", stdout);
}

int main(int argc, char **argv) {
        fputs("/* Made from profiles/ while building. */\n#include \"policy/profile.h\"\n\n"
              "const struct profile_built_in profiles_built_in[] = {\n",
              stdout);
        for (int i = 1; i < argc; i++)
                print_profile(argv[i]);
        fputs("};\nconst size_t n_profiles_built_in = sizeof profiles_built_in / sizeof *profiles_built_in;\n", stdout);
        return 0;
}
