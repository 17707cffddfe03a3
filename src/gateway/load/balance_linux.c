/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "gateway/load/balance.h"

#include <time.h>

uint64_t balance_thread_ns(pthread_t thread) {
        clockid_t clock;
        struct timespec used;

        if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) < 0)
                return 0;
        return (uint64_t)used.tv_sec * NS_PER_SECOND + (uint64_t)used.tv_nsec;
}
