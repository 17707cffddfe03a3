/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A tunnel: a client joined to an upstream that the gate opened, opaque bytes both ways. Before the client's first
 * bytes go out they are looked at: the SNI of a TLS greeting and the Host of a plain HTTP request must agree with the
 * name that was judged, else the tunnel is closed and logged as fronting. Bytes from the server pass meanwhile, so that
 * protocols in which the server speaks first work.
 */
#include "gateway/dns/synthetic.h"
#include "gateway/gate.h"

/* Joins the client to the opened call's upstream and takes both over, also when it fails (-ENOMEM: all is closed and
 * reported). The client's protocol answer (200, SOCKS reply) was already written; bytes that it sent ahead are given
 * back to the client stream with stream_unread() first. Reports EVENT_TUNNEL_OPEN now and EVENT_TUNNEL_CLOSE at the
 * end. */
int tunnel_start(const struct client *client, struct gate_call *call);
/* As tunnel_start(), for a captured connection: plain HTTP becomes an HTTP session bound to the target, and the hold on
 * the synthetic address is released at the end. */
int tunnel_start_captured(const struct client *client, struct gate_call *call, const struct synthetic_hold *hold);
/* As tunnel_start(), for a port that was handed out by the listener itself: nothing is looked at, nothing is judged
 * again. */
int tunnel_start_forward(const struct client *client, struct gate_call *call);
