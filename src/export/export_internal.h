/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Parts: export.c (life, loop), export_files.c (logs and places in them), export_syslog.c, export_otlp.c, form.c. */
#include "base/processes/poller.h"
#include "base/vec.h"
#include "export/export.h"
#include "export/record_form.h"
#include "policy/match/host.h"
#include "roles/courier_process.h"

#include <sys/socket.h>
#include <sys/types.h>

enum { EXPORT_BATCH = 200, EXPORT_BATCH_BYTES = 400000, EXPORT_LINE_MAX = 262144 };

/* A log, or a rotated part of one. */
struct export_file {
        char identity[33]; /* of its first line */
        char *path;        /* NULL: not there now */
        ino_t inode;
        uint64_t offset; /* everything before was delivered */
};

enum export_kind { EXPORT_UDP, EXPORT_TCP, EXPORT_UNIX, EXPORT_TLS, EXPORT_OTLP };

struct export {
        const struct export_settings *settings;
        struct export_result *result;
        struct export_form form;
        char host[256];
        enum export_kind kind;
        struct authority target;
        char *path; /* of a Unix socket */
        char *ca;   /* absolute: roots beside the system's; NULL: none */
        bool secure;

        VEC(struct export_file) files;
        char *place; /* where the places are kept */
        int lock;
        bool unsaved;
        uint64_t look_ns, save_ns;
        size_t next_file;

        /* What is under way; `file` is an index, since the list may grow. */
        struct {
                bool there;
                size_t file;
                uint64_t end; /* the file's offset, once it is delivered */
                struct buf bytes;
                VEC(struct str) lines;
                bool again;
        } batch;
        uint64_t retry_ns, away_ns;
        unsigned failures;

        int socket;
        bool connected;
        struct buf out;
        size_t sent, line; /* bytes of out; lines of a datagram service */
        uint64_t deadline_ns;
        struct courier_process *courier;
        uint64_t request, last_request;

        int signals;
        bool ended;
};

/* export_files.c */
int files_open(struct export *export, struct err *err);
void files_look(struct export *export);
/* Makes the next batch; false: there is nothing. */
bool files_batch(struct export *export);
void files_delivered(struct export *export);
void files_save(struct export *export, bool now);
void files_done(struct export *export);

/* export_syslog.c, export_otlp.c: called with a batch until it is delivered or failed. */
void syslog_step(struct export *export, short ready);
void syslog_watch(struct export *export, struct poller *poller);
/* The batch's messages, framed, into export->out. */
int syslog_fill_stream(struct export *export);
/* export_tls.c */
int syslog_tls_open(struct export *export, struct err *err);
void syslog_tls_step(struct export *export);
int otlp_open(struct export *export, struct err *err);
void otlp_step(struct export *export);

/* export.c */
void export_delivered(struct export *export);
void export_failed(struct export *export, const char *why, uint64_t retry_s);
