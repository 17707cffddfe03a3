/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * `bailey export`: the records of the audit logs, to a syslog server (RFC 5424) or an OpenTelemetry collector
 * (OTLP/HTTP, JSON). A process of its own that only reads the logs: no sandbox waits for it.
 *
 * The logs themselves are the spool. Progress is a position in each log, kept in the state directory; after a failure,
 * a restart or days away the export resumes there, so that every record is delivered at least once, in the order of its
 * log. A log is known by its first line, whatever its name is after a rotation. Records carry their run and number, so
 * that a receiver can detect duplicates and gaps.
 *
 * Delivered means: OTLP, the collector confirmed it; TLS, the server closed the connection after the last record, or
 * its kernel acknowledged the bytes and no alert came; TCP, the peer's kernel acknowledged everything; UDP and Unix
 * sockets, it was sent, since they confirm nothing.
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
