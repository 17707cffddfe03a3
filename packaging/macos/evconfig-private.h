/* SPDX-License-Identifier: Apache-2.0 */
/* For scripts/macos: libevent asks for it; there is nothing to say beside event2/event-config.h. */
