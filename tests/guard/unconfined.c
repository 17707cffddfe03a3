/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of gateway/confine/gateway_confine.c in the gateway whose instructions are counted: the counting machine
 * inside the process needs files and system calls that the real one gives up. Nothing else differs.
 */
#include "gateway/confine/gateway_confine.h"

int confine_gateway(struct err *e) {
        (void)e;
        return 0;
}
