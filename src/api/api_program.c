/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_program.h"

#include "api/api_report.h"
#include "base/cleanup.h"
#include "base/paths/path.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* From the directory of the library or the program. */
static const char *const places[] = {
        "bailey",            /* beside it: unpacked somewhere */
        "../bin/bailey",     /* installed: lib and bin */
        "../../bin/bailey",  /* installed: lib/aarch64-linux-gnu and bin */
        "../cli/bailey",     /* the build tree: the library */
        "../src/cli/bailey", /* the build tree: examples */
};

/* 1: usable, 0: not there, or what is wrong with it. */
static int check_program(const char *path, struct bailey_error *error) {
        struct stat st;

        if (stat(path, &st) < 0) {
                if (errno == ENOENT || errno == ENOTDIR)
                        return 0;
                return report(error, BAILEY_E_DEPENDENCY, "%s cannot be used: %s", path, strerror(errno));
        }

        if (S_ISDIR(st.st_mode))
                return 0;
        if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
                return report(error, BAILEY_E_DEPENDENCY, "%s is not an executable file", path);
        if (st.st_mode & S_IWOTH)
                return report(error, BAILEY_E_DEPENDENCY, "%s is not used: everybody may change it", path);

        return 1;
}

static int look_from(const char *directory, const char *const *list, size_t n, char **ret, struct bailey_error *error) {
        for (size_t i = 0; i < n; i++) {
                cleanup(free_ptr) char *path = NULL;
                if (path_normalise(str_of(list[i]), directory, &path) < 0)
                        return report_memory(error);

                int r = check_program(path, error);
                if (r < 0)
                        return r;

                if (r > 0) {
                        *ret = take_ptr(&path);
                        return 1;
                }
        }

        return 0;
}

/* The real place of a file, without its name. */
static char *directory_of(const char *file) {
        char *real = realpath(file, NULL);
        char *slash = real ? strrchr(real, '/') : NULL;
        if (slash)
                slash[slash == real] = '\0';
        return real;
}

static char *own_directory(void) {
        Dl_info info;
        if (dladdr((const void *)(uintptr_t)&program_find, &info) && info.dli_fname && info.dli_fname[0] == '/')
                return directory_of(info.dli_fname);

        return NULL;
}

int program_find(const char *named, const char *base, char **ret, struct bailey_error *error) {
        enum { PLACES = sizeof places / sizeof *places };

        if (named) {
                int r = look_from(base, &named, 1, ret, error);
                if (r > 0)
                        return BAILEY_OK;

                if (r < 0)
                        return r;

                return report(error, BAILEY_E_DEPENDENCY, "there is no bailey executable at %s", named);
        }

        cleanup(free_ptr) char *library = own_directory(), *program = directory_of("/proc/self/exe");
        const char *installed = program_installed();
        int r = 0;

        if (library)
                r = look_from(library, places, PLACES, ret, error);

        if (r == 0 && program)
                r = look_from(program, places, PLACES, ret, error);
        if (r == 0)
                r = look_from("/", &installed, 1, ret, error);

        if (r > 0)
                return BAILEY_OK;

        if (r < 0)
                return r;

        return report(error, BAILEY_E_DEPENDENCY,
                      "the bailey executable is neither beside libbailey nor in its installation; name it "
                      "with bailey_config_executable()");
}

int program_find_gateway(const char *program, char **ret, struct bailey_error *error) {
        static const char *const gateways[] = { "../libexec/bailey/bailey-gateway", "bailey-gateway",
                                                "../gateway/bailey-gateway" };
        cleanup(free_ptr) char *directory = directory_of(program);
        int r = 0;

        if (directory)
                r = look_from(directory, gateways, sizeof gateways / sizeof *gateways, ret, error);

        if (r > 0)
                return BAILEY_OK;

        if (r < 0)
                return r;

        return report(error, BAILEY_E_DEPENDENCY, "bailey-gateway is not installed beside %s", program);
}
