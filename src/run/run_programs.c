/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_programs.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"
#include "bridge/ssh_command.h"
#include "policy/git/ssh_rules.h"
#include "roles/helper.h"
#include "roles/known_hosts.h"
#include "run/run_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WORDS_MAX = 96, FILE_MAX = 4 << 20, TABLE_MAX = 1 << 20 };

/* A command line or an environment while it is built. */
struct words {
        char *list[WORDS_MAX + 1];
        size_t n;
        bool failed;
};

static void words_done(struct words *words) {
        for (size_t i = 0; i < words->n; i++)
                free(words->list[i]);
}

__attribute__((format(printf, 2, 3))) static void words_add(struct words *words, const char *format, ...) {
        cleanup(buf_done) struct buf text = BUF(65536);
        va_list args;

        va_start(args, format);
        int r = buf_vprintf(&text, format, args);
        va_end(args);

        char *word = r < 0 || words->n == WORDS_MAX ? NULL : str_dup(buf_str(&text));
        if (word)
                words->list[words->n++] = word;
        else
                words->failed = true;
}

/* From nothing: what these programs need to find the user's keys and to ask for a passphrase. */
static void environment_fill(struct words *env) {
        static const char *const passed[] = { "HOME",
                                              "PATH",
                                              "USER",
                                              "LOGNAME",
                                              "LANG",
                                              "DISPLAY",
                                              "WAYLAND_DISPLAY",
                                              "XDG_RUNTIME_DIR",
                                              "TERM",
                                              "GPG_TTY",
                                              "GNUPGHOME",
                                              "SSH_AUTH_SOCK",
                                              "XAUTHORITY",
                                              "DBUS_SESSION_BUS_ADDRESS" };

        for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
                if (getenv(passed[i]))
                        words_add(env, "%s=%s", passed[i], getenv(passed[i]));

        words_add(env, "SSH_ASKPASS_REQUIRE=never");
}

/* --- ssh --- */

/* Nothing of the user's configuration, nothing that forwards, executes, asks or trusts by itself. */
static const char *const ssh_options[] = {
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "UpdateHostKeys=no",
        "VerifyHostKeyDNS=no",
        "CheckHostIP=no",
        "CanonicalizeHostname=no",
        "ClearAllForwardings=yes",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ForwardX11Trusted=no",
        "GatewayPorts=no",
        "Tunnel=no",
        "PermitLocalCommand=no",
        "ProxyCommand=none",
        "ProxyJump=none",
        "ProxyUseFdpass=no",
        "ControlMaster=no",
        "ControlPath=none",
        "ControlPersist=no",
        "RequestTTY=no",
        "EscapeChar=none",
        "AddKeysToAgent=no",
        "PreferredAuthentications=publickey",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        "GSSAPIAuthentication=no",
        "HostbasedAuthentication=no",
        "NumberOfPasswordPrompts=0",
        "ConnectTimeout=30",
        "ServerAliveInterval=30",
        "ServerAliveCountMax=4",
        "LogLevel=ERROR",
        /* Says which key the host has shown, so that a person can compare it; known to OpenSSH from 8.5 on. */
        "IgnoreUnknown=KnownHostsCommand",
        "KnownHostsCommand=/bin/sh -c 'echo bailey-host-key \"$1\" \"$2\" >&2' sh %t %f",
};

static void ssh_words(const struct policy *policy, const struct ssh_command *command, struct words *argv) {
        words_add(argv, "ssh");
        words_add(argv, "-F");
        words_add(argv, "/dev/null");
        words_add(argv, "-T");
        words_add(argv, "-x");
        words_add(argv, "-a");

        if (command->family)
                words_add(argv, "-%u", command->family);

        for (size_t i = 0; i < sizeof ssh_options / sizeof *ssh_options; i++) {
                words_add(argv, "-o");
                words_add(argv, "%s", ssh_options[i]);
        }

        if (policy->ssh.known_hosts.n > 0) {
                cleanup(buf_done) struct buf files = BUF(65536);

                for (size_t i = 0; i < policy->ssh.known_hosts.n; i++)
                        (void)buf_printf(&files, "%s%s", i ? " " : "", policy->ssh.known_hosts.p[i].text);

                words_add(argv, "-o");
                words_add(argv, "UserKnownHostsFile=%.*s", STR_FMT(buf_str(&files)));
                words_add(argv, "-o");
                words_add(argv, "GlobalKnownHostsFile=none");
        }

        if (policy->ssh.identities.n > 0) {
                words_add(argv, "-o");
                words_add(argv, "IdentitiesOnly=yes");
        }

        for (size_t i = 0; i < policy->ssh.identities.n && i < 8; i++) {
                words_add(argv, "-i");
                words_add(argv, "%s", policy->ssh.identities.p[i].text);
        }

        if (command->protocol) {
                words_add(argv, "-o");
                words_add(argv, "SendEnv=GIT_PROTOCOL");
        }

        words_add(argv, "-l");
        words_add(argv, "%s", command->user);
        words_add(argv, "-p");
        words_add(argv, "%u", command->target.port);
        words_add(argv, "--");
        words_add(argv, "%s", command->target.host.name);
        words_add(argv, "%s '%s'", ssh_service_name(command->service), command->sent_path);
}

static void run_programs_fail(struct run *run, uint64_t id, const char *why) {
        gateway_process_program_status(run->session.gateway, id, IPC_PROGRAM_NOT_RUN, why);
}

static void run_programs_refuse(struct run *run, uint64_t id, const char *why) {
        gateway_process_program_status(run->session.gateway, id, IPC_PROGRAM_REFUSED, why);
}

static void program_start(struct run *run, uint64_t id, const char *name, struct words *argv, struct words *env) {
        char program[PATH_MAX];
        cleanup(close_fd) int stdio = -1, errors = -1;
        struct err err = { 0 };

        if (argv->failed || env->failed) {
                run_programs_fail(run, id, "out of memory");
                return;
        }

        if (!spawn_find(name, environ, program)) {
                (void)err_set(&err, ENOENT, "this host has no %s", name);
                run_programs_fail(run, id, err_text(&err));
                return;
        }

        if (host_programs_start(&run->programs, id, program, argv->list, env->list, &stdio, &errors, &err) < 0) {
                run_programs_fail(run, id, err_text(&err));
                return;
        }

        gateway_process_program_fd(run->session.gateway, id, IPC_PROGRAM_FD_ERRORS, errors);
        gateway_process_program_fd(run->session.gateway, id, IPC_PROGRAM_FD_STDIO, stdio);
}

static void ssh_asked(struct run *run, const struct ipc_message *message) {
        const struct policy *policy = run->session.network ? run->session.network : run->session.policy;
        cleanup(words_done) struct words argv = { 0 }, env = { 0 };
        struct ssh_command command;

        if (ssh_request_read(str_of(message->text), &message->authority, &command) < 0 || !policy->ssh.git) {
                run_programs_refuse(run, message->id, "the policy does not let git use ssh for this");
                return;
        }

        if (!policy_ssh_user(policy, str_of(command.user))) {
                run_programs_refuse(run, message->id,
                                    "ssh.users in the policy does not name this user; without it there is only git");
                return;
        }

        struct git_verdict verdict = ssh_verdict(gateway_process_snapshot(run->session.gateway), &command.target,
                                                 command.path, ssh_service_right(command.service));
        if (verdict.verdict.decision == DECISION_DENY) {
                run_programs_refuse(run, message->id, "the policy does not let git use ssh for this");
                return;
        }

        ssh_words(policy, &command, &argv);
        environment_fill(&env);
        if (command.protocol)
                words_add(&env, "GIT_PROTOCOL=version=%u", command.protocol);

        program_start(run, message->id, "ssh", &argv, &env);
}

/* --- gpg --- */

static void gpg_asked(struct run *run, const struct ipc_message *message) {
        const struct policy *policy = run->session.network ? run->session.network : run->session.policy;
        cleanup(words_done) struct words argv = { 0 }, env = { 0 };
        const char *key = policy_gpg_key(policy, str_of(message->text));

        if (!key) {
                run_programs_refuse(
                    run, message->id,
                    "signing.gpg in the policy does not name this key; git takes it from user.signingKey");
                return;
        }

        words_add(&argv, "gpg");
        words_add(&argv, "--batch");
        words_add(&argv, "--no-tty");
        words_add(&argv, "--status-fd=2");
        words_add(&argv, "-bsau");
        words_add(&argv, "%s", key); /* as the policy writes it, not as it was asked for */
        environment_fill(&env);
        program_start(run, message->id, "gpg", &argv, &env);
}

/* --- the agent --- */

static int table_add_digest(struct buf *table, const char *kind, const struct known_key *key, const char *name) {
        char hex[DIGEST_HEX_MAX];

        digest_hex(key->digest, hex);
        return buf_printf(table, "%s %s %s\n", kind, hex, name);
}

/* "SHA256:" and base64 without padding, or a file with the public key. */
static int table_add_key(struct buf *table, const struct policy *policy, const char *text, struct err *err) {
        struct known_key key;
        const struct str mark = STR("SHA256:");

        if (str_starts(str_of(text), mark)) {
                char padded[48];
                size_t n = 0;
                int m = snprintf(padded, sizeof padded, "%s=", text + mark.n);
                char bytes[48];

                if (m < 0 || (size_t)m >= sizeof padded || !base64_decode(str_of(padded), bytes, &n) ||
                    n != DIGEST_BYTES)
                        return err_set(err, EINVAL, "%s is no fingerprint", text);

                memcpy(key.digest, bytes, DIGEST_BYTES);
                return table_add_digest(table, "key", &key, "-");
        }

        cleanup(buf_done) struct buf content = BUF(FILE_MAX);
        cleanup(free_ptr) char *path = NULL;
        int r = path_expand_home(str_of(text), policy->home, &path);
        if (r < 0)
                return err_set(err, -r, "%s: there is no home directory", text);

        r = path_read_file(path, FILE_MAX, &content, err);
        if (r < 0)
                return r;
        if (!known_key_parse(buf_str(&content), &key))
                return err_set(err, EINVAL, "%s holds no public key", text);

        return table_add_digest(table, "key", &key, "-");
}

static int known_files_read(const struct policy *policy, struct buf *text) {
        static const char *const usual[] = { "~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts",
                                             "/etc/ssh/ssh_known_hosts2" };
        size_t n = policy->ssh.known_hosts.n ? policy->ssh.known_hosts.n : sizeof usual / sizeof *usual;

        for (size_t i = 0; i < n; i++) {
                cleanup(buf_done) struct buf content = BUF(FILE_MAX);
                cleanup(free_ptr) char *path = NULL;
                const char *name = policy->ssh.known_hosts.n ? policy->ssh.known_hosts.p[i].text : usual[i];
                if (path_expand_home(str_of(name), policy->home, &path) < 0 ||
                    path_read_file(path, FILE_MAX, &content, NULL) < 0)
                        continue;

                if (buf_append(text, buf_str(&content)) < 0 || buf_add_char(text, '\n') < 0)
                        return -ENOMEM;
        }

        return 0;
}

static int table_add_host(struct buf *table, struct str known, const char *text, struct err *err) {
        known_keys keys = { 0 }, revoked = { 0 };
        struct authority target;
        char where[AUTHORITY_TEXT_MAX];
        int r = ssh_host_parse(str_of(text), &target, err);

        if (r < 0)
                return r;

        authority_text(&target, where);
        r = known_hosts_find(known, &target, &keys, &revoked);
        if (r == 0)
                known_hosts_revoke(&keys, &revoked);

        for (size_t i = 0; r == 0 && i < keys.n; i++)
                r = table_add_digest(table, "host", &keys.p[i], where);

        vec_done(&keys);
        vec_done(&revoked);

        return r < 0 ? err_set(err, -r, "out of memory") : 0;
}

static int table_fill(const struct policy *policy, struct buf *table, struct err *err) {
        cleanup(buf_done) struct buf known = BUF(4 * FILE_MAX);
        int r = 0;

        for (size_t i = 0; r == 0 && i < policy->ssh.keys.n; i++)
                r = table_add_key(table, policy, policy->ssh.keys.p[i].text, err);

        if (r == 0 && policy->ssh.hosts.n > 0 && known_files_read(policy, &known) < 0)
                r = err_memory(err);

        for (size_t i = 0; r == 0 && i < policy->ssh.hosts.n; i++)
                r = table_add_host(table, buf_str(&known), policy->ssh.hosts.p[i].text, err);

        if (r == 0 && policy->signing.ssh)
                r = buf_add(table, policy->signing.ask ? "sign ask\n" : "sign free\n");

        return r;
}

static int agent_connect(int *ret, struct err *err) {
        const char *path = getenv("SSH_AUTH_SOCK");
        struct sockaddr_un to = { .sun_family = AF_UNIX };
        cleanup(close_fd) int fd = -1;

        if (!path || !*path)
                return err_set(err, ENOENT, "no ssh-agent runs for you outside (SSH_AUTH_SOCK is not set)");
        if (strlen(path) >= sizeof to.sun_path)
                return err_set(err, ENAMETOOLONG, "the path of your ssh-agent's socket is too long");

        memcpy(to.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
                return err_errno(err, "cannot reach your ssh-agent");

        *ret = take_fd(&fd);
        return 0;
}

static void agent_asked(struct run *run, const struct ipc_message *message) {
        const struct policy *policy = run->session.network ? run->session.network : run->session.policy;
        cleanup(buf_done) struct buf table = BUF(TABLE_MAX);
        cleanup(close_fd) int fd = -1, sealed = -1;
        struct err err = { 0 };
        int s = policy_has_agent(policy) ? 0 : err_set(&err, EPERM, "the policy gives no key of an agent");

        if (s == 0)
                s = table_fill(policy, &table, &err);
        if (s == 0)
                s = agent_connect(&fd, &err);
        if (s == 0)
                s = fd_sealed("bailey-agent", buf_str(&table), &sealed, &err);

        if (s < 0) {
                run_programs_fail(run, message->id, err_text(&err));
                return;
        }

        gateway_process_program_fd(run->session.gateway, message->id, IPC_PROGRAM_FD_TABLE, sealed);
        gateway_process_program_fd(run->session.gateway, message->id, IPC_PROGRAM_FD_STDIO, fd);
}

/* --- all of them --- */

void run_programs_asked(void *run, const struct ipc_message *message) {
        struct run *r = run;

        if (message->kind == IPC_PROGRAM_GONE)
                host_programs_end(&r->programs, message->id);
        else if (message->kind == IPC_SSH)
                ssh_asked(r, message);
        else if (message->number == IPC_TOOL_GPG)
                gpg_asked(r, message);
        else
                agent_asked(r, message);
}

/* Without the gateway nobody is left to carry what they say. */
void run_programs_notice(void *run, enum gateway_notice notice, const char *text) {
        struct run *r = run;

        if (notice == NOTICE_DIED)
                host_programs_end_all(&r->programs);
        if (notice == NOTICE_CANNOT_START || notice == NOTICE_DIED || notice == NOTICE_AUDIT_FAILED)
                log_error("gateway: %s", text_or(text, "failed"));
}

static void on_ended(void *arg, uint64_t id, int status) {
        struct run *run = arg;

        if (run->session.gateway)
                gateway_process_program_status(run->session.gateway, id, status, "");
}

void run_programs_step(struct run *run) {
        host_programs_reap(&run->programs, on_ended, run);
}

static int show_program(struct plan_host *host, const char *path, const char *program, struct err *err) {
        cleanup(free_ptr) char *at = str_dup(str_of(path)), *from = str_dup(str_of(program));

        if (!at || !from || vec_push(&host->covers, ((struct plan_cover){ at, from })) < 0)
                return err_memory(err);
        (void)take_ptr(&at);
        (void)take_ptr(&from);
        return 0;
}

int run_programs_show(const struct policy *policy, struct plan_host *host, struct err *err) {
        cleanup(free_ptr) char *program = NULL;
        int r;

        if (!policy_has_shim(policy))
                return 0;

        r = helper_program("bailey-ssh", "sandbox", &program, err);
        if (r < 0)
                return r;
        if (policy->ssh.git)
                r = show_program(host, PLAN_SHIM_SSH, program, err);
        if (r == 0 && policy->signing.gpg.n > 0)
                r = show_program(host, PLAN_SHIM_GPG, program, err);

        return r;
}
