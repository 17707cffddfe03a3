/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over all that is stored for it (seeds/TARGET, grown/TARGET, findings/TARGET), without libFuzzer:
 * in ordinary builds, under sanitizers, under valgrind. Each input is given from an allocation of exactly its size, so
 * that reading one byte too many is seen.
 */
#include "base/cleanup.h"
#include "base/paths/path.h"
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

enum { INPUT_MAX = 8 << 20 };

static int replay_file(const char *path) {
        cleanup(buf_done) struct buf content = BUF(INPUT_MAX);
        struct err e = { 0 };
        if (path_read_file(path, INPUT_MAX, &content, &e) < 0) {
                fprintf(stderr, "%s\n", err_text(&e));
                return -1;
        }
        cleanup(free_ptr) uint8_t *exact = malloc(content.n ? content.n : 1);
        if (!exact)
                return -1;
        if (content.n)
                memcpy(exact, content.p, content.n);
        fprintf(stderr, "%s\n", path); /* the last name printed is the one that failed */
        LLVMFuzzerTestOneInput(exact, content.n);
        return 0;
}

/* How many inputs of one directory were replayed; -1 when one of them could not be. No directory: none. */
static int replay_directory(const char *directory) {
        struct dirent **names;
        int n = scandir(directory, &names, NULL, alphasort), replayed = 0;
        bool failed = false;
        if (n < 0 && errno == ENOENT)
                return 0;

        if (n < 0) {
                perror(directory);
                return -1;
        }

        for (int i = 0; i < n; i++) {
                cleanup(free_ptr) struct dirent *entry = names[i];
                if (entry->d_name[0] == '.')
                        continue;

                cleanup(free_ptr) char *path = path_join(directory, entry->d_name);
                if (!path || replay_file(path) < 0)
                        failed = true;

                replayed++;
        }

        free(names);
        return failed ? -1 : replayed;
}

int main(int argc, char **argv) {
        static const char *const kinds[] = { "seeds", "grown", "findings" };

        if (argc != 3) {
                fprintf(stderr, "usage: %s DIRECTORY TARGET\n", argv[0]);
                return 2;
        }

        int replayed = 0, seeds = 0;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                cleanup(free_ptr) char *kind = path_join(argv[1], kinds[i]);
                cleanup(free_ptr) char *directory = kind ? path_join(kind, argv[2]) : NULL;
                int n = directory ? replay_directory(directory) : -1;
                if (n < 0)
                        return 1;

                replayed += n;
                seeds += i == 0 ? n : 0;
        }

        printf("%d inputs replayed\n", replayed);
        return seeds ? 0 : 1; /* a target that nobody fed proves nothing */
}
