/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey export`: the records of the audit logs, to a syslog server (RFC 5424) or an OpenTelemetry collector
 * (OTLP/HTTP, JSON). A process of its own that only reads the logs: no sandbox waits for it.
 *
 * The logs themselves are the spool. What was delivered is a place in each log, kept in the state directory; after a
 * failure, a restart or days away the export goes on from there, so that every record is delivered at least once, in
 * the order of its log. A log is known by its first line, whatever its name is after a rotation. Records have their
 * run and number with them, by which a receiver knows what came twice and what is missing.
 *
 * Delivered means: OTLP, the collector said so; TLS, the server ended the connection behind the last one, or its system
 * has them and it said nothing against them; TCP, the other side's system has it (its buffer for us is empty); UDP
 * and Unix sockets, it was handed over, which is all that they can say.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct export_settings {
        const char *to;          /* syslog+udp://HOST[:PORT], syslog+tcp://..., syslog+tls://..., syslog+unix:///PATH,
                                    otlp+https://HOST[:PORT] */
        const char *ca;          /* a file with roots beside the system's, for TLS; NULL: none */
        const char *server_name; /* that the certificate of a syslog server must have; NULL: the host's */
        const char *token;       /* source of a token for OTLP; NULL: none */
        bool once;               /* end when everything is there */
        bool from_now;           /* at the first start, leave out what is there already */
};

struct export_result {
        uint64_t delivered, repeated; /* records; repeated: sent again after a failure */
        uint64_t rejected;            /* by the collector, which has them and does not want them */
};

/* Until SIGTERM or SIGINT. -EINVAL: `to` is wrong; -EBUSY: another one exports to the same place. */
int export_run(const struct export_settings *settings, struct export_result *ret, struct err *err);
