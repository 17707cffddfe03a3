/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "gateway/load/balance.h"

#include <mach/mach_init.h>
#include <mach/thread_act.h>
#include <mach/thread_info.h>

uint64_t balance_thread_ns(pthread_t thread) {
        thread_basic_info_data_t info;
        mach_msg_type_number_t n = THREAD_BASIC_INFO_COUNT;

        if (thread_info(pthread_mach_thread_np(thread), THREAD_BASIC_INFO, (thread_info_t)&info, &n) != KERN_SUCCESS)
                return 0;

        uint64_t seconds = (uint64_t)(info.user_time.seconds + info.system_time.seconds);
        uint64_t microseconds = (uint64_t)(info.user_time.microseconds + info.system_time.microseconds);
        return seconds * NS_PER_SECOND + microseconds * 1000;
}
