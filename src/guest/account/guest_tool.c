/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_tool.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static int tool_status(const char *name, int status, struct err *err) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFEXITED(status))
                return err_set(err, EIO, "%s failed (status %d)", name, WEXITSTATUS(status));
        return err_set(err, EIO, "%s was ended by a signal", name);
}

int guest_tool_run(const struct guest_tool *tool, struct err *err) {
        static char *const environment[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C", NULL };
        cleanup(close_fd) int input = -1, from = -1, to = -1;
        char path[PATH_MAX];
        int ends[2], r;
        pid_t pid = -1;

        if (!spawn_find(tool->argv[0], environment, path))
                return err_set(err, ENOENT, "%s is missing (package %s)", tool->argv[0], tool->package);

        if (tool->input.n) {
                r = fd_sealed("input", tool->input, &input, err);
                if (r < 0)
                        return r;
        }
        if (tool->output) {
                if (pipe2(ends, O_CLOEXEC) < 0)
                        return err_errno(err, "cannot make a pipe");
                from = ends[0];
                to = ends[1];
        }

        /* Whoever is killed with all of its group, or interrupted at the terminal, must not take with it a program that
         * is about to change several files of the system, as useradd does. */
        struct spawn spawn = { .program = path,
                               .argv = tool->argv,
                               .environment = environment,
                               .input = SPAWN_NULL,
                               .output = SPAWN_NULL,
                               .errors = tool->quiet ? SPAWN_NULL : SPAWN_KEEP,
                               .flags = SPAWN_AT_ROOT | SPAWN_OWN_SESSION };
        if (input >= 0)
                spawn.input = input;
        if (to >= 0)
                spawn.output = to;

        r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        close_fd(&to);
        int read = 0;

        if (tool->output)
                read = fd_read_all(from, tool->output);

        close_fd(&from); /* one that says more than there is room for ends */
        r = tool_status(tool->argv[0], spawn_wait(pid), err);
        if (r == 0 && read < 0)
                return err_set(err, -read, "what %s says cannot be read", tool->argv[0]);
        return r;
}
