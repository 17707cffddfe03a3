/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* True in a build whose sanitizer stands between the program and the system: there mlock, for one, does nothing. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif
