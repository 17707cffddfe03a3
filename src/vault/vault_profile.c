/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/vault_profile.h"

/* What is open stays: the sockets to the supervisor, to the gateways and to the reader. */
const char vault_profile[] = "(version 1)\n"
                             "(deny default)\n"
                             "(allow sysctl-read (sysctl-name \"hw.pagesize\"))\n";

/* Without programs of the user's it reads files and writes those of sign-ins. */
const char reader_profile[] = "(version 1)\n"
                              "(deny default)\n"
                              "(allow file-read*)\n"
                              "(allow file-write*)\n"
                              "(allow process-fork)\n"
                              "(allow signal (target same-sandbox))\n"
                              "(allow sysctl-read (sysctl-name \"hw.pagesize\"))\n";
