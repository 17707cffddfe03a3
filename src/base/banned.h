/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Included before every source file by the build. base/ has safe replacements for these functions, which write without
 * a bound, keep hidden state, start shells, or hand text to resolvers and name service modules. The system headers that
 * declare them come first, so that only uses are caught.
 */
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some of them are macros in some libraries; a macro cannot be poisoned before it is gone. */
#undef alloca
#undef strcat
#undef strcpy
#undef strncat
#undef strncpy
#undef stpcpy
#undef sprintf
#undef vsprintf
#undef strtok_r

#pragma GCC poison strcpy strcat stpcpy strncpy strncat sprintf vsprintf gets strtok strtok_r
#pragma GCC poison atoi atol atoll system popen alloca
#pragma GCC poison getaddrinfo gethostbyname gethostbyname2
#pragma GCC poison getpwnam getpwuid getpwnam_r getpwuid_r getpwent setpwent endpwent
