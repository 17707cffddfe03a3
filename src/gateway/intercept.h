/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * TLS that is opened on its way through: only for targets with a credential or with rules about methods and paths, and
 * only where there is a vault to sign for them. All others stay end to end. Theory in intercept.c.
 */
#include "gateway/dns/synthetic.h"
#include "gateway/gate.h"

/* Whether it can be nothing but TLS: a credential is bound to the target, or it is https's own port. */
bool intercept_expects_tls(const struct worker *worker, const struct authority *target);

/* Opens the client's TLS and joins it to the call's upstream; takes both over, also when it fails (-ENOMEM: all is
 * closed and reported). The client's protocol answer (200, SOCKS reply) was already written; bytes that it sent ahead
 * are given back to its stream first. `hold`, when not NULL, is released at the end. */
int intercept_start(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold);

/* What becomes of a client whose tunnel the gate has opened: TLS that is to be opened is intercepted, all else is a
 * tunnel. Takes both over. */
void intercept_join(const struct client *client, struct gate_call *call);
