/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From now on fallocate() reserves nothing for this process and what it starts: it says that it is not supported, and
 * libraries write zeros instead. One call could take the whole disk at once, before anybody who watches can look. Holes
 * may still be made. 0 or a negative errno. */
int agent_refuse_reservations(void);
