/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-gate: the first program of a container that `bailey run --container` starts. It waits until the container's
 * network leads to the gateway, then becomes the command. It is mounted into images that may hold no other file, so it
 * is linked statically, and takes nothing from its environment but PATH.
 *
 *     bailey-gate FIFO COMMAND [ARG...]
 *
 * Through the FIFO comes one byte, or its end: then nothing is run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_SECONDS = 120, GO = 'g', FAILED = 125, CANNOT_EXECUTE = 126, NOT_FOUND = 127 };

static int say(const char *what, const char *why) {
        char line[512];
        int n = snprintf(line, sizeof line, "bailey: error: %s: %s\n", what, why);
        (void)!write(STDERR_FILENO, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
        return FAILED;
}

int main(int argc, char **argv) {
        char word = 0;
        if (argc < 3)
                return say("bailey-gate", "started without a command");
        alarm(WAIT_SECONDS); /* whoever should say the word may be gone */
        int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return say(argv[1], strerror(errno));
        ssize_t n;
        do
                n = read(fd, &word, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1 || word != GO)
                return say("bailey-gate", "the network was not made ready; nothing is run");
        alarm(0);
        close(fd);
        execvp(argv[2], argv + 2);
        int code = errno;
        (void)say(argv[2], strerror(code));
        return code == ENOENT || code == ENOTDIR ? NOT_FOUND : CANNOT_EXECUTE;
}
