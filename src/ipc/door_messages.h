/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between the dashboard and `bailey-gateway door`, which speaks TLS with a paired phone. The dashboard accepts the
 * phone's connections and decides by their address; the door gets each of them together with a plain socket that leads
 * back, and moves bytes. It has no listener, and the certificate's key is in its memory only.
 *
 *   fd 3  a SOCK_SEQPACKET socket: first "SECONDS ADDRESS" to the door, answered by the SHA-256 digest of its
 *         certificate; then one message for each connection, with two descriptors: the phone's, and the plain one
 */
enum { DOOR_FD = 3, DOOR_WORDS_MAX = 128 };
