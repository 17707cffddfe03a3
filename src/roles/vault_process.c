/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision of the vault.
 *
 * Trust: the vault is trusted with everything it holds; what it says is checked all the same, and a malformed message
 * ends it. The supervisor never sees a secret that it did not have itself: it learns stand-ins and the CA's
 * certificate.
 *
 * Ownership: the process, its two descriptors (control, pidfd), the start block's content, the stand-ins, and `keep`,
 * the memory in which the session CA outlives a vault that dies. Where the kernel has memfd_secret it is of that kind:
 * it cannot be read through a descriptor, only mapped, and the supervisor does not map it.
 *
 * States: see roles/role.h. One that dies is replaced after the delay, whether or not somebody asks for it.
 */
#include "roles/vault_process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "conf/dirs.h"
#include "ipc/credentials.h"
#include "roles/helper.h"
#include "roles/vault_tell.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 10000, LAST_WORD_MS = 250 };

struct vault_process {
        struct vault_settings settings;
        struct vault_start start;
        struct vault_mapping *mappings;
        char *program;
        char *(*fakes)[PARTS];            /* by mapping */
        char *(*old)[CREDENTIAL_OLD_MAX]; /* of before rotations, by mapping */
        char *ca;
        size_t ca_n;
        char *room; /* for one message */
        int keep;

        struct role role;
        bool failed; /* it said why it cannot work */
        struct err failure;
};

static void notice(struct vault_process *v, enum vault_notice what, const char *text) {
        if (v->settings.on_notice)
                v->settings.on_notice(v->settings.arg, what, text);
}

bool vault_process_serves(const struct vault_process *v) {
        return v->role.state == ROLE_SERVING;
}

pid_t vault_process_pid(const struct vault_process *v) {
        return v->role.pid;
}

struct str vault_process_ca(const struct vault_process *v) {
        return str_n(v->ca, v->ca_n);
}

const char *vault_process_fake(const struct vault_process *v, uint32_t mapping, enum vault_part part) {
        return mapping < v->start.n_mappings ? v->fakes[mapping][part] : NULL;
}

int vault_process_keep_fake(struct vault_process *v, uint32_t mapping, enum vault_part part, const char *text) {
        if (mapping >= v->start.n_mappings)
                return -EINVAL;
        char *copy = str_format("%s", text);
        if (!copy)
                return -ENOMEM;
        free(v->fakes[mapping][part]);
        v->fakes[mapping][part] = copy;
        return 0;
}

const char *vault_process_old(const struct vault_process *v, uint32_t mapping, size_t i) {
        return mapping < v->start.n_mappings && i < CREDENTIAL_OLD_MAX ? v->old[mapping][i] : NULL;
}

/* Whether some credential has this stand-in, now or before. */
static bool fake_is_known(const struct vault_process *v, struct str text) {
        for (uint32_t i = 0; i < v->start.n_mappings; i++) {
                for (size_t part = 0; part < PARTS; part++)
                        if (v->fakes[i][part] && str_is(text, v->fakes[i][part]))
                                return true;
                for (size_t k = 0; k < CREDENTIAL_OLD_MAX && v->old[i][k]; k++)
                        if (str_is(text, v->old[i][k]))
                                return true;
        }
        return false;
}

int vault_process_add_old(struct vault_process *v, uint32_t mapping, struct str text) {
        size_t n = 0;

        if (mapping >= v->start.n_mappings)
                return -EINVAL;
        if (fake_is_known(v, text))
                return 0;
        while (n < CREDENTIAL_OLD_MAX && v->old[mapping][n])
                n++;
        if (n == CREDENTIAL_OLD_MAX)
                return 0;

        v->old[mapping][n] = str_dup(text);
        return v->old[mapping][n] ? 0 : -ENOMEM;
}

static void end_by_force(struct vault_process *v, const char *why) {
        if (!v->role.pid)
                return;
        if (!v->failure.code)
                err_set(&v->failure, EPROTO, "%s", why);
        role_kill(&v->role);
}

/*
 * Starting.
 */
static int tell_fakes(const struct vault_process *v, struct err *e) {
        int r = 0;
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                for (uint32_t part = 0; r == 0 && part < PARTS; part++) {
                        const struct vault_message m = { .kind = VAULT_FAKE_KEPT,
                                                         .mapping = i,
                                                         .part = part,
                                                         .data = { str_of(v->fakes[i][part]) } };
                        if (v->fakes[i][part])
                                r = vault_tell(v->role.control, &m, -1, e);
                }
        return r;
}

/* Of one credential: what counts now, and before each of the last rotations. */
static int tell_seeds_of(struct vault_process *v, uint32_t index, struct err *err) {
        const char *name = v->mappings[index].name;
        uint64_t rotations = stand_ins_rotations(v->settings.stand_ins, name);
        int r = 0;

        for (uint64_t ago = 0; r == 0 && ago <= VAULT_OLD_MAX && ago <= rotations; ago++) {
                unsigned char seed[DIGEST_BYTES];
                stand_ins_seed(v->settings.stand_ins, v->settings.place, name, rotations - ago, seed);

                const struct vault_message m = {
                        .kind = VAULT_SEED, .mapping = index, .number = ago, .data = { str_n(seed, sizeof seed) }
                };
                r = vault_tell(v->role.control, &m, -1, err);
                secret_wipe(seed, sizeof seed);
        }
        return r;
}

static int tell_seeds(struct vault_process *v, struct err *err) {
        int r = 0;

        for (uint32_t i = 0; r == 0 && v->settings.stand_ins && i < v->start.n_mappings; i++)
                r = tell_seeds_of(v, i, err);
        return r;
}

static int tell_all(struct vault_process *v, struct err *e) {
        const struct vault_message open = { .kind = VAULT_OPEN };
        int r = vault_tell_variables(v->role.control, v->settings.mappings, v->settings.environment, e);
        r = r < 0 ? r : vault_tell_values(v->role.control, v->settings.mappings, v->settings.environment, e);
        r = r < 0 ? r : tell_seeds(v, e);
        r = r < 0 ? r : tell_fakes(v, e);
        return r < 0 ? r : vault_tell(v->role.control, &open, -1, e);
}

/* Time for commands that fetch secrets, and for itself. */
static uint64_t start_limit_ms(const struct vault_process *v) {
        uint64_t longest = 0;
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                longest = v->mappings[i].timeout_ns > longest ? v->mappings[i].timeout_ns : longest;
        return START_MS + longest / NS_PER_MS;
}

static int spawn(struct vault_process *v, struct err *e) {
        int ends[2];
        cleanup(close_fd) int block = -1;
        int r = vault_start_seal(&v->start, v->mappings, &block, e);
        if (r == 0 && !v->program)
                r = helper_program("bailey-vault", "vault", &v->program, e);
        if (r < 0)
                return r;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return err_errno(e, "cannot create the vault's control socket");
        cleanup(close_fd) int ours = ends[0], its = ends[1];
        const int fds[] = { block, its, v->keep };
        struct helper child;
        r = helper_spawn("bailey-vault", v->program, fds, 3, &child, e);
        if (r < 0)
                return r;
        v->failed = false;
        err_clear(&v->failure);
        role_started(&v->role, &child, take_fd(&ours), start_limit_ms(v));
        return 0;
}

/* Again, after a death. What cannot be told now is a failure of this one. */
static void start_again(struct vault_process *v) {
        struct err e = { 0 };
        int r = spawn(v, &e);
        if (r == 0 && tell_all(v, &e) < 0) {
                end_by_force(v, err_text(&e));
                return;
        }
        if (r == 0)
                return;
        notice(v, VAULT_NOTICE_CANNOT_START, err_text(&e));
        v->role.started_ns = clock_ns();
        role_delay(&v->role);
}

/*
 * What it says.
 */
static int take_ca(struct vault_process *v, struct str der) {
        char *copy = malloc(der.n);
        if (!copy)
                return -ENOMEM;
        memcpy(copy, der.p, der.n);
        free(v->ca);
        v->ca = copy;
        v->ca_n = der.n;
        return 0;
}

static void changed(struct vault_process *v, const struct vault_message *m) {
        static const enum vault_notice notices[] = { [VAULT_CHANGE_GONE] = VAULT_NOTICE_GONE,
                                                     [VAULT_CHANGE_NEW] = VAULT_NOTICE_CHANGED,
                                                     [VAULT_CHANGE_KEPT] = VAULT_NOTICE_KEPT };
        cleanup(free_ptr) char *text = str_dup(m->data[0]);
        notice(v, notices[m->number], text ? text : "");
}

static void take_fake(struct vault_process *v, const struct vault_message *m) {
        cleanup(free_ptr) char *text = str_dup(m->data[0]);
        const char *before = vault_process_fake(v, m->mapping, (enum vault_part)m->part);
        if (!text || m->mapping >= v->start.n_mappings)
                end_by_force(v, "it named a stand-in for no credential");
        else if (before && strcmp(before, text) != 0)
                end_by_force(v, "it changed a stand-in that the sandbox has");
        else if (!before)
                v->fakes[m->mapping][m->part] = take_ptr(&text);
}

static void handle(struct vault_process *v, const struct vault_message *m) {
        switch ((enum vault_kind)m->kind) {
        case VAULT_CA:
                if (v->ca && !str_eq(vault_process_ca(v), m->data[0]))
                        end_by_force(v, "it has another CA than the one before it");
                else if (take_ca(v, m->data[0]) < 0)
                        end_by_force(v, "out of memory");
                break;
        case VAULT_FAKE:
                take_fake(v, m);
                break;
        case VAULT_FAKE_OLD:
                if (v->role.state == ROLE_STARTING && vault_process_add_old(v, m->mapping, m->data[0]) < 0)
                        end_by_force(v, "it named a stand-in of before for no credential");
                break;
        case VAULT_READY:
                if (v->role.state != ROLE_STARTING || !v->ca)
                        break;
                role_set(&v->role, ROLE_SERVING, 0);
                notice(v, VAULT_NOTICE_READY, "");
                break;
        case VAULT_CHANGED:
                changed(v, m);
                break;
        default:
                v->failed = true;
                err_set(&v->failure, ENODATA, "%.*s", STR_FMT(m->data[0]));
                role_kill(&v->role);
        }
}

static void read_control(struct vault_process *v) {
        for (int i = 0; i < 1024 && v->role.control >= 0; i++) {
                struct vault_message m;
                cleanup(close_fd) int fd = -1;
                int r = vault_receive(v->role.control, VAULT_TO_SUPERVISOR, v->room, &m, &fd);
                if (r <= 0) {
                        if (r == 0)
                                close_fd(&v->role.control);
                        else if (r != -EAGAIN)
                                end_by_force(v, "it sent a malformed message");
                        return;
                }
                handle(v, &m);
        }
}

static void reap(struct vault_process *v) {
        char how[ROLE_END_TEXT_MAX];
        bool served = v->role.state == ROLE_SERVING;

        if (!role_reap(&v->role, how))
                return;

        read_control(v);
        role_forget(&v->role);
        if (!v->failure.code)
                err_set(&v->failure, ECHILD, "%s", how);
        role_delay(&v->role);
        notice(v, served && !v->failed ? VAULT_NOTICE_DIED : VAULT_NOTICE_CANNOT_START, err_text(&v->failure));
}

/*
 * The loop's side.
 */
void vault_process_watch(const struct vault_process *v, struct poller *poller) {
        role_watch(&v->role, poller);
}

void vault_process_step(struct vault_process *v, const struct poller *poller) {
        bool death = poller_ready(poller, v->role.pidfd) != 0;

        if (poller_ready(poller, v->role.control))
                read_control(v);
        if (death)
                reap(v);

        if (!role_is_due(&v->role))
                return;
        v->role.due_ns = CLOCK_NEVER;
        if (v->role.state == ROLE_STARTING)
                end_by_force(v, "it did not become ready in time");
        else if (v->role.state == ROLE_WAITING)
                start_again(v);
}

static void start_watch(void *arg, struct poller *poller) {
        vault_process_watch(arg, poller);
}

/* What happens here is the result of the start, and no notice. */
static int start_step(void *arg, struct poller *poller, struct err *err) {
        struct vault_process *v = arg;
        void (*told)(void *, enum vault_notice, const char *) = v->settings.on_notice;
        (void)err;

        v->settings.on_notice = NULL;
        vault_process_step(v, poller);
        v->settings.on_notice = told;
        return 0;
}

int vault_process_start(struct vault_process *v, struct err *e) {
        int r = spawn(v, e);
        if (r < 0)
                return err_wrap(e, r, "the vault cannot be started");
        r = tell_all(v, e);
        cleanup(poller_done) struct poller poller = { 0 };
        poller_add(&poller, &(struct poller_part){ start_watch, start_step, v });
        while (r == 0 && v->role.state == ROLE_STARTING)
                r = poller_round(&poller, e);
        if (r == 0 && v->role.state != ROLE_SERVING)
                r = err_set(e, v->failure.code, "%s", err_text(&v->failure));
        if (r < 0)
                role_set(&v->role, ROLE_STOPPED, 0);
        v->settings.stand_ins = NULL; /* the next vault is told the stand-ins themselves */
        return r;
}

static int connect_one(struct vault_process *v, int *ret_fd) {
        int ends[2];
        if (v->role.state != ROLE_SERVING || v->role.control < 0)
                return -ENOTCONN;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -errno;
        cleanup(close_fd) int ours = ends[0], its = ends[1];
        const struct vault_message m = { .kind = VAULT_CONNECT };
        int r = vault_tell(v->role.control, &m, its, NULL);
        if (r == 0)
                *ret_fd = take_fd(&ours);
        return r;
}

uint32_t vault_process_connect_all(struct vault_process *v, int *ret_fds, uint32_t n) {
        uint32_t made = 0;
        while (made < n && connect_one(v, &ret_fds[made]) == 0)
                made++;
        if (made == n)
                return n;
        while (made > 0)
                close_fd(&ret_fds[--made]);
        return 0;
}

void vault_process_reload(struct vault_process *v) {
        const struct vault_message m = { .kind = VAULT_RELOAD };
        if (v->role.state == ROLE_SERVING && v->role.control >= 0)
                (void)vault_tell(v->role.control, &m, -1, NULL); /* one that is gone reads everything when it is back */
}

/*
 * Birth and end of the object.
 */
static int make_keep(int *ret, struct err *e) {
        cleanup(close_fd) int fd = -1;
#ifdef SYS_memfd_secret
        fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
#endif
        if (fd < 0)
                fd = memfd_create("bailey-vault-keep", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, VAULT_KEEP_BYTES) < 0)
                return err_errno(e, "cannot make memory for the vault's CA");
        *ret = take_fd(&fd);
        return 0;
}

static int fill_start(struct vault_process *v, const struct vault_settings *s, struct err *e) {
        struct vault_start *start = &v->start;
        vault_start_init(start);
        start->n_mappings = (uint32_t)s->mappings->n;
        start->ca = s->ca;
        start->log_level = s->log_level;
        const char *credentials = NULL;
        for (char *const *at = s->environment; at && *at; at++)
                if (strncmp(*at, "CREDENTIALS_DIRECTORY=", 22) == 0)
                        credentials = *at + 22;
        int a = snprintf(start->ca_dir, sizeof start->ca_dir, "%s", s->ca_dir ? s->ca_dir : "");
        int b = snprintf(start->credentials_dir, sizeof start->credentials_dir, "%s",
                         credentials && credentials[0] == '/' ? credentials : "");
        cleanup(free_ptr) char *state = NULL; /* where sandboxes of this user lock each other out */
        if (dirs_state(&state) == 0 && strlen(state) < sizeof start->lock_dir)
                snprintf(start->lock_dir, sizeof start->lock_dir, "%s", state);
        snprintf(start->sandbox_id, sizeof start->sandbox_id, "%s", s->sandbox_id ? s->sandbox_id : "");
        if (a >= (int)sizeof start->ca_dir || b >= (int)sizeof start->credentials_dir)
                return err_set(e, ENAMETOOLONG, "the directory of the CA or of the credentials has too long a name");
        return vault_tell_mappings(s->mappings, &v->mappings, e);
}

int vault_process_new(const struct vault_settings *s, struct vault_process **ret, struct err *e) {
        cleanup(vault_process_freep) struct vault_process *v = calloc(1, sizeof *v);
        if (!v)
                return err_memory(e);
        *v = (struct vault_process){ .settings = *s, .keep = -1, .role = ROLE_NONE("vault") };
        v->settings.program = v->settings.sandbox_id = v->settings.ca_dir = NULL; /* the copies count */
        v->room = malloc(VAULT_MESSAGE_MAX);
        v->fakes = calloc(s->mappings->n + 1, sizeof *v->fakes);
        v->old = calloc(s->mappings->n + 1, sizeof *v->old);
        v->program = s->program ? str_format("%s", s->program) : NULL;
        if (!v->room || !v->fakes || !v->old || (s->program && !v->program))
                return err_memory(e);
        int r = fill_start(v, s, e);
        r = r < 0 ? r : vault_start_check(&v->start, v->mappings, e);
        r = r < 0 ? r : make_keep(&v->keep, e);
        if (r == 0)
                *ret = take_ptr(&v);
        return r;
}

void vault_process_free(struct vault_process *v) {
        if (!v)
                return;
        if (v->role.pid) {
                const struct vault_message m = { .kind = VAULT_STOP };
                struct pollfd end = { .fd = v->role.pidfd, .events = POLLIN };
                if (v->role.control >= 0 && vault_send(v->role.control, SUPERVISOR_TO_VAULT, &m, -1) == 0)
                        (void)poll(&end, 1, LAST_WORD_MS); /* it wipes what it has */
        }
        role_end(&v->role);
        close_fd(&v->keep);
        for (uint32_t i = 0; v->fakes && i < v->start.n_mappings; i++)
                for (size_t part = 0; part < PARTS; part++)
                        free(v->fakes[i][part]);
        for (uint32_t i = 0; v->old && i < v->start.n_mappings; i++)
                for (size_t k = 0; k < CREDENTIAL_OLD_MAX; k++)
                        free(v->old[i][k]);
        free(v->fakes);
        free(v->old);
        free(v->mappings);
        free(v->program);
        free(v->room);
        free(v->ca);
        free(v);
}

void vault_process_freep(struct vault_process **v) {
        vault_process_free(*v);
}
