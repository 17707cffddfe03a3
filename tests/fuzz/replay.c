/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over every file of a directory, without libFuzzer: in ordinary builds, under sanitizers, under
 * valgrind. Each input is given from an allocation of exactly its size, so that reading one byte too many is seen.
 */
#include "base/cleanup.h"
#include "base/path.h"
#include "fuzz.h"

#include <dirent.h>
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

int main(int argc, char **argv) {
        if (argc != 2) {
                fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
                return 2;
        }
        struct dirent **names;
        int n = scandir(argv[1], &names, NULL, alphasort), replayed = 0, failed = 0;
        if (n < 0) {
                perror(argv[1]);
                return 1;
        }
        for (int i = 0; i < n; i++) {
                cleanup(free_ptr) struct dirent *entry = names[i];
                if (entry->d_name[0] == '.')
                        continue;
                cleanup(free_ptr) char *path = path_join(argv[1], entry->d_name);
                if (!path || replay_file(path) < 0)
                        failed++;
                replayed++;
        }
        free(names);
        printf("%d inputs replayed\n", replayed);
        return replayed == 0 || failed ? 1 : 0; /* an empty corpus proves nothing */
}
