/* SPDX-License-Identifier: Apache-2.0 */
#include "driver_vault.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ipc/credentials.h"
#include "ipc/vault_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CREDENTIALS = 112 };

struct credential {
        char name[64], hosts[512], slot[64], value[1024], stand_in[PARTS][1024];
};

struct driver_vault {
        const char *program;
        int control, keep;
        pid_t pid;
        size_t n;
        struct credential credentials[CREDENTIALS];
};

static void die(const char *what, const struct err *e) {
        fprintf(stderr, "gateway-driver: vault: %s: %s\n", what, e ? err_text(e) : strerror(errno));
        exit(2);
}

struct driver_vault *driver_vault_new(const char *program) {
        struct driver_vault *v = calloc(1, sizeof *v);
        v->program = program;
        v->control = -1;
        v->keep = memfd_create("keep", MFD_CLOEXEC);
        if (v->keep < 0 || ftruncate(v->keep, VAULT_KEEP_BYTES) < 0)
                die("memfd", NULL);
        return v;
}

static void copy(char *to, size_t size, struct str from) {
        if (from.n >= size)
                die("too long", NULL);
        memcpy(to, from.p, from.n);
        to[from.n] = '\0';
}

static bool is_signature(const struct credential *c) {
        return str_is(str_of(c->slot), "sigv4");
}

void driver_vault_credential(struct driver_vault *v, struct str text) {
        struct str part;
        if (v->n == CREDENTIALS)
                die("too many credentials", NULL);
        struct credential *c = &v->credentials[v->n++];
        const struct {
                char *to;
                size_t size;
        } fields[] = { { c->name, sizeof c->name },
                       { c->hosts, sizeof c->hosts },
                       { c->slot, sizeof c->slot },
                       { c->value, sizeof c->value } };
        for (size_t i = 0; i < 4; i++) {
                if (!str_split(&text, '|', &part))
                        die("credential", NULL);
                copy(fields[i].to, fields[i].size, part);
        }
        for (char *comma = c->value; is_signature(c) && (comma = strchr(comma, ',')); comma++)
                *comma = '\n';
}

static int start_block(const struct driver_vault *v) {
        struct vault_start start;
        cleanup(free_ptr) struct vault_mapping *mappings = calloc(CREDENTIALS, sizeof *mappings);
        struct err e = { 0 };
        int fd = -1;
        vault_start_init(&start);
        start.n_mappings = (uint32_t)v->n;
        for (size_t i = 0; i < v->n; i++) {
                struct vault_mapping *m = &mappings[i];
                struct str hosts = str_of(v->credentials[i].hosts), host;
                m->kind = is_signature(&v->credentials[i]) ? MAPPING_SIGV4 : MAPPING_VALUE;
                m->timeout_ns = NS_PER_SECOND;
                copy(m->name, sizeof m->name, str_of(v->credentials[i].name));
                snprintf(m->source, sizeof m->source, "env:%s", m->name);
                while (str_split(&hosts, ',', &host))
                        copy(m->hosts[m->n_hosts++], sizeof m->hosts[0], host);
        }
        if (vault_start_seal(&start, mappings, &fd, &e) < 0)
                die("start block", &e);
        return fd;
}

static void say(struct driver_vault *v, const struct vault_message *m, int fd) {
        if (vault_send(v->control, SUPERVISOR_TO_VAULT, m, fd) < 0)
                die(vault_kind_name(m->kind), NULL);
}

static void write_pem(const char *file, struct str der) {
        cleanup(free_ptr) char *text = malloc(base64_length(der.n) + 1);
        FILE *f = fopen(file, "we");
        if (!f)
                die(file, NULL);
        base64_encode(der, BASE64_STANDARD, text);
        fprintf(f, "-----BEGIN CERTIFICATE-----\n");
        for (size_t at = 0, n = base64_length(der.n); at < n; at += 64)
                fprintf(f, "%.*s\n", (int)(n - at < 64 ? n - at : 64), text + at);
        fprintf(f, "-----END CERTIFICATE-----\n");
        if (fclose(f) != 0)
                die(file, NULL);
}

/* What it says until it is ready. */
static void listen_to(struct driver_vault *v, const char *ca_file) {
        cleanup(free_ptr) char *room = malloc(VAULT_MESSAGE_MAX);
        for (;;) {
                struct vault_message m;
                int fd = -1;
                if (vault_receive(v->control, VAULT_TO_SUPERVISOR, room, &m, &fd) <= 0)
                        die("it ended", NULL);
                if (m.kind == VAULT_READY)
                        return;
                if (m.kind == VAULT_CA && ca_file)
                        write_pem(ca_file, m.data[0]);
                if (m.kind == VAULT_STAND_IN && m.mapping < v->n) {
                        static const char *const parts[] = { "", "", ".secret", ".token" };
                        char *stand_in = v->credentials[m.mapping].stand_in[m.part];
                        copy(stand_in, sizeof v->credentials[0].stand_in[0], m.data[0]);
                        printf("fake %s%s %s\n", v->credentials[m.mapping].name, parts[m.part], stand_in);
                }
                if (m.kind == VAULT_FAILED) {
                        fprintf(stderr, "gateway-driver: vault: %.*s\n", STR_FMT(m.data[0]));
                        exit(2);
                }
        }
}

void driver_vault_start(struct driver_vault *v, const char *ca_file) {
        int ends[2], start = start_block(v);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                die("socketpair", NULL);
        v->pid = fork();
        if (v->pid == 0) {
                int fds[] = { start, ends[1], v->keep };
                for (int i = 0; i < 3; i++)
                        fds[i] = fcntl(fds[i], F_DUPFD, 100);
                for (int i = 0; i < 3; i++)
                        if (dup2(fds[i], VAULT_FD_START + i) < 0)
                                _exit(3);
                fd_close_from(VAULT_FDS_END);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                execl(v->program, "bailey-vault", (char *)NULL);
                _exit(4);
        }
        close(start);
        close(ends[1]);
        v->control = ends[0];
        for (size_t i = 0; i < v->n; i++) {
                for (uint32_t part = 0; part < PARTS; part++)
                        if (v->credentials[i].stand_in[part][0])
                                say(v,
                                    &(struct vault_message){ .kind = VAULT_STAND_IN_KEPT,
                                                             .mapping = (uint32_t)i,
                                                             .part = part,
                                                             .data = { str_of(v->credentials[i].stand_in[part]) } },
                                    -1);
                say(v,
                    &(struct vault_message){
                        .kind = VAULT_VALUE, .mapping = (uint32_t)i, .data = { str_of(v->credentials[i].value) } },
                    -1);
        }
        say(v, &(struct vault_message){ .kind = VAULT_OPEN }, -1);
        listen_to(v, ca_file);
        printf("vault %d\n", (int)v->pid);
}

void driver_vault_kill(struct driver_vault *v) {
        kill(v->pid, SIGKILL);
        waitpid(v->pid, NULL, 0);
        close_fd(&v->control);
        v->control = -1;
        v->pid = 0;
}

/* A vault whose supervisor does not read ends. */
static void hear_news(struct driver_vault *v) {
        char any;
        while (recv(v->control, &any, sizeof any, MSG_DONTWAIT) > 0)
                ;
}

void driver_vault_value(struct driver_vault *v, struct str line) {
        struct str name;
        hear_news(v);
        str_split(&line, ' ', &name);
        for (size_t i = 0; i < v->n; i++)
                if (str_is(name, v->credentials[i].name)) {
                        copy(v->credentials[i].value, sizeof v->credentials[i].value, line);
                        say(v, &(struct vault_message){ .kind = VAULT_VALUE, .mapping = (uint32_t)i, .data = { line } },
                            -1);
                }
}

int driver_vault_connect(struct driver_vault *v) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                die("socketpair", NULL);
        say(v, &(struct vault_message){ .kind = VAULT_CONNECT }, ends[0]);
        close(ends[0]);
        return ends[1];
}

int driver_vault_table(struct driver_vault *v) {
        struct credential_row rows[CREDENTIALS] = { 0 };
        struct str hosts[CREDENTIALS][VAULT_HOSTS_MAX];
        cleanup(buf_done) struct buf out = BUF(CREDENTIALS_BYTES_MAX);
        struct err e = { 0 };
        int fd = -1;
        for (size_t i = 0; i < v->n; i++) {
                const struct credential *c = &v->credentials[i];
                struct str list = str_of(c->hosts);
                rows[i] = (struct credential_row){
                        .kind = is_signature(c) ? MAPPING_SIGV4 : MAPPING_VALUE,
                        .name = str_of(c->name),
                        .slots = str_of(c->slot),
                        .hosts = hosts[i],
                };
                for (int part = 0; part < PARTS; part++)
                        rows[i].stand_in[part] = str_of(c->stand_in[part]);
                while (rows[i].n_hosts < VAULT_HOSTS_MAX && str_split(&list, ',', &hosts[i][rows[i].n_hosts]))
                        rows[i].n_hosts++;
        }
        if (credentials_encode(rows, v->n, &out, &e) < 0 || fd_sealed("credentials", buf_str(&out), &fd, &e) < 0)
                die("credentials", &e);
        return fd;
}
