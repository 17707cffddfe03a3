/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/processes/signals.h"
#include "export/export_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS (2 * NS_PER_SECOND)
enum { BACKOFF_MAX_S = 60 };

static bool by_courier(const struct export *export) {
        return export->kind == EXPORT_OTLP || export->kind == EXPORT_TLS;
}

/* What is only for some kinds. */
static int check_options(struct export *export, struct err *err) {
        const struct export_settings *settings = export->settings;
        struct host name;

        if (settings->token && export->kind != EXPORT_OTLP)
                return err_set(err, EINVAL, "--token is for otlp");
        if (settings->server_name && export->kind != EXPORT_TLS)
                return err_set(err, EINVAL, "--server-name is for syslog+tls://");
        if (settings->server_name && host_parse(str_of(settings->server_name), &name, NULL) < 0)
                return err_set(err, EINVAL, "--server-name: this is no name of a host");
        if (!settings->ca)
                return 0;
        if (!export->secure)
                return err_set(err, EINVAL, "--ca is for syslog+tls:// and otlp+https://");

        export->ca = realpath(settings->ca, NULL);
        if (!export->ca || access(export->ca, R_OK) < 0)
                return err_set(err, EINVAL, "--ca %s cannot be read: %s", settings->ca, strerror(errno));

        return 0;
}

/* Only the courier looks names up. */
static int read_host(struct export *export, struct str to, uint16_t port, struct err *err) {
        int r = authority_parse(to, port, &export->target, err);

        if (r < 0)
                return r;

        if (!by_courier(export) && export->target.host.kind != HOST_ADDR)
                return err_set(err, EINVAL,
                               "a syslog server is written by its address, as in syslog+tcp://192.0.2.1:601; with "
                               "syslog+tls:// it may have a name");

        bool loopback = export->target.host.kind == HOST_ADDR
                            ? addr_classify(&export->target.host.addr) == ADDR_CLASS_LOOPBACK
                            : host_is_loopback_name(&export->target.host);
        if (export->settings->token && !export->secure && !loopback)
                return err_set(err, EINVAL, "a token goes by otlp+https:// only");

        return 0;
}

static int read_target(struct export *export, struct err *err) {
        static const struct {
                struct str scheme;
                enum export_kind kind;
                bool secure;
                uint16_t port;
        } schemes[] = {
                { STR("syslog+udp://"), EXPORT_UDP, false, 514 },  { STR("syslog+tcp://"), EXPORT_TCP, false, 601 },
                { STR("syslog+tls://"), EXPORT_TLS, true, 6514 },  { STR("syslog+unix://"), EXPORT_UNIX, false, 0 },
                { STR("otlp+https://"), EXPORT_OTLP, true, 4318 }, { STR("otlp+http://"), EXPORT_OTLP, false, 4318 },
        };
        struct str to = str_of(export->settings->to);

        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
                if (!str_starts(to, schemes[i].scheme))
                        continue;

                to = str_skip(to, schemes[i].scheme.n);
                export->kind = schemes[i].kind;
                export->secure = schemes[i].secure;
                if (export->kind != EXPORT_UNIX)
                        return read_host(export, to, schemes[i].port, err);
                if (to.n < 2 || to.p[0] != '/' || to.n > 107)
                        return err_set(err, EINVAL, "a Unix socket is an absolute path of at most 107 bytes");

                export->path = str_dup(to);
                if (!export->path)
                        return err_set(err, ENOMEM, "out of memory");

                return 0;
        }

        return err_set(
            err, EINVAL,
            "where to export to is written syslog+udp://HOST:PORT, syslog+tcp://HOST:PORT, "
            "syslog+tls://HOST:PORT, syslog+unix:///dev/log, otlp+http://HOST:PORT or otlp+https://HOST:PORT");
}

void export_delivered(struct export *export) {
        if (export->away_ns)
                fprintf(stderr, "bailey: export: goes on after %ju s\n",
                        (uintmax_t)((clock_ns() - export->away_ns) / NS_PER_SECOND));
        export->away_ns = 0;
        export->failures = 0;
        files_delivered(export);
}

void export_failed(struct export *export, const char *why, uint64_t retry_s) {
        uint64_t wait_s = export->failures < 6 ? 1ULL << export->failures : BACKOFF_MAX_S;

        if (!export->away_ns) {
                export->away_ns = clock_ns();
                fprintf(stderr, "bailey: export: %s: %s; what is not delivered waits in the logs\n",
                        export->settings->to, why);
        }

        export->failures++;
        export->result->repeated += export->batch.lines.n;
        export->batch.again = true;
        export->line = 0;
        export->retry_ns = clock_ns() + max_of(retry_s, wait_s) * NS_PER_SECOND;
}

/*
 * The loop.
 */
static void export_watch(void *arg, struct poller *poller) {
        struct export *export = arg;
        bool waits = clock_ns() < export->retry_ns;

        poller_watch(poller, export->signals, POLLIN);
        poller_until(poller, export->look_ns);
        if (export->batch.there && waits)
                poller_until(poller, export->retry_ns);

        if (export->courier)
                courier_process_watch(export->courier, poller);
        else if (!waits)
                syslog_watch(export, poller);
}

static void export_go_on(struct export *export, const struct poller *poller) {
        short ready = 0;

        if (export->socket >= 0)
                ready = poller_ready(poller, export->socket);

        if (clock_ns() < export->retry_ns)
                return;
        if (!export->batch.there && !files_batch(export))
                return;

        if (export->kind == EXPORT_TLS)
                syslog_tls_step(export);
        else if (export->courier)
                otlp_step(export);
        else
                syslog_step(export, ready);

        if (!export->batch.there) /* perhaps there is more */
                export->look_ns = export->look_ns ? clock_ns() : 0;
}

static int export_step(void *arg, struct poller *poller, struct err *err) {
        struct export *export = arg;

        (void)err;
        export->ended = export->ended || poller_ready(poller, export->signals);
        if (export->courier)
                courier_process_step(export->courier, poller);

        if (clock_ns() >= export->look_ns) {
                export->look_ns = clock_ns() + LOOK_NS;
                files_look(export);
        }

        export_go_on(export, poller);
        files_save(export, false);
        if (export->settings->once && !export->batch.there && !files_batch(export))
                export->ended = true;

        return 0;
}

static int export_open(struct export *export, struct err *err) {
        int r;

        r = read_target(export, err);
        if (r == 0)
                r = check_options(export, err);
        if (r < 0)
                return r;
        if (gethostname(export->host, sizeof export->host - 1) < 0)
                export->host[0] = '\0';

        export->form = (struct export_form){ .host = export->host, .pid = (unsigned)getpid() };
        r = files_open(export, err);
        if (r < 0)
                return r;

        export->signals = signals_catch_end();
        if (export->signals < 0)
                return err_errno(err, "cannot watch signals");
        if (export->kind == EXPORT_TLS)
                return syslog_tls_open(export, err);

        if (export->kind == EXPORT_OTLP)
                return otlp_open(export, err);

        return 0;
}

static void export_close(struct export *export) {
        courier_process_free(export->courier);
        if (export->place)
                files_done(export);

        close_fd(&export->socket);
        close_fd(&export->signals);
        buf_done(&export->out);
        free(export->path);
        free(export->ca);
        free(export);
}

static void export_closep(struct export **export) {
        if (*export)
                export_close(*export);
}

int export_run(const struct export_settings *settings, struct export_result *ret, struct err *err) {
        cleanup(export_closep) struct export *export = calloc(1, sizeof *export);
        cleanup(poller_done) struct poller poller = { 0 };
        int r;

        if (!export)
                return err_set(err, ENOMEM, "out of memory");

        *ret = (struct export_result){ 0 };
        export->settings = settings;
        export->result = ret;
        export->socket = export->signals = export->lock = -1;
        export->batch.bytes = BUF(EXPORT_BATCH_BYTES + EXPORT_LINE_MAX);
        export->out = BUF(8 << 20);
        r = export_open(export, err);
        if (r < 0)
                return r;

        poller_add(&poller, &(struct poller_part){ export_watch, export_step, export });

        while (!export->ended) {
                r = poller_round(&poller, err);
                if (r < 0)
                        return r;
        }

        return 0;
}
