/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_limits.h"

#include <inttypes.h>
#include <signal.h>

enum { SIGNALLED = 128 };

/* 2147483648 is "2 GiB", 100000000 is "100000000 bytes". */
static int size_text(struct buf *out, uint64_t bytes) {
        static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
        size_t unit = 0;

        while (unit + 1 < sizeof units / sizeof *units && bytes && bytes % 1024 == 0) {
                bytes /= 1024;
                unit++;
        }

        return buf_printf(out, "%" PRIu64 " %s", bytes, units[unit]);
}

static int memory_text(const struct run_limits *limits, struct buf *out) {
        uint64_t n = limits->met.memory;
        int r;

        if (n == 0 || !limits->plan->group.memory)
                return 0;

        r = buf_printf(out, "bailey: %" PRIu64 " process%s ended at the sandbox's limit of memory, ", n,
                       n == 1 ? " was" : "es were");
        if (r == 0)
                r = size_text(out, limits->plan->group.memory);
        if (r < 0)
                return r;

        return buf_add(out, "; to raise it: --limit-memory SIZE\n");
}

static int processes_text(const struct run_limits *limits, struct buf *out) {
        if (limits->met.processes == 0 || !limits->plan->group.processes)
                return 0;
        return buf_printf(out,
                          "bailey: the sandbox's limit of %" PRIu64 " processes and threads was reached %" PRIu64
                          " times; to raise it: --limit-processes NUMBER\n",
                          limits->plan->group.processes, limits->met.processes);
}

static int time_text(const struct run_limits *limits, struct buf *out) {
        uint64_t seconds = limits->policy->process.limits.cpu_seconds;

        if (!seconds || limits->status != SIGNALLED + SIGXCPU)
                return 0;

        return buf_printf(out,
                          "bailey: the command ended at its limit of processor time, %" PRIu64
                          " s; to raise it: --limit-cpu DURATION\n",
                          seconds);
}

/* Without a group nobody tells. Programs end in these ways when they are refused memory that they only reserve. */
static bool may_be_out_of_data(const struct run_limits *limits) {
        static const int signals[] = { SIGABRT, SIGSEGV, SIGTRAP, SIGBUS, SIGILL, SIGKILL };

        if (limits->plan->group.memory || !limits->policy->process.limits.memory)
                return false;

        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
                if (limits->status == SIGNALLED + signals[i])
                        return true;

        return false;
}

static int data_text(const struct run_limits *limits, struct buf *out) {
        int r;

        if (!may_be_out_of_data(limits))
                return 0;

        r = buf_add(out, "bailey: the command may have ended at its limit of memory, ");
        if (r == 0)
                r = size_text(out, limits->policy->process.limits.memory);

        return r < 0 ? r
                     : buf_add(out, " for each process, which counts what a program reserves too; to raise it: "
                                    "--limit-memory SIZE\n");
}

int run_limits_text(const struct run_limits *limits, struct buf *out) {
        int r = memory_text(limits, out);

        if (r == 0)
                r = processes_text(limits, out);
        if (r == 0)
                r = time_text(limits, out);
        if (r < 0)
                return r;

        return data_text(limits, out);
}
