/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervision of the vault.
 *
 * Trust: the vault is trusted with everything it holds; what it says is checked all the same, and a malformed message
 * ends it. The supervisor never sees a secret that it did not have itself: it learns stand-ins and the CA's
 * certificate.
 *
 * Ownership: the process, its two descriptors (control, pidfd), the start block's content, the stand-ins, and `keep`,
 * the memory in which the session CA outlives a vault that dies (roles/vault_keep.h); the supervisor does not map it.
 *
 * States: see roles/role.h. One that dies is replaced after the delay, whether or not somebody asks for it.
 */
#include "roles/vault_process.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/spawn.h"
#include "base/secrets/secret.h"
#include "conf/dirs.h"
#include "ipc/credentials.h"
#include "roles/helper.h"
#include "roles/vault_keep.h"
#include "roles/vault_tell.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { START_MS = 10000, LAST_WORD_MS = 250 };

struct vault_process {
        struct vault_settings settings;
        struct vault_start start;
        struct vault_mapping *mappings;
        char *program;
        char *(*stand_ins)[PARTS];        /* by mapping */
        char *(*old)[CREDENTIAL_OLD_MAX]; /* of before rotations, by mapping */
        char *ca;
        size_t ca_n;
        char *room; /* for one message */
        int keep;

        struct role role;
        bool failed; /* it said why it cannot work */
        struct err failure;
};

static void process_notice(struct vault_process *process, enum vault_notice what, const char *text) {
        if (process->settings.on_notice)
                process->settings.on_notice(process->settings.arg, what, text);
}

struct str vault_process_ca(const struct vault_process *process) {
        return str_n(process->ca, process->ca_n);
}

const char *vault_process_stand_in(const struct vault_process *process, uint32_t mapping, enum vault_part part) {
        return mapping < process->start.n_mappings ? process->stand_ins[mapping][part] : NULL;
}

int vault_process_keep_stand_in(struct vault_process *process, uint32_t mapping, enum vault_part part,
                                const char *text) {
        if (mapping >= process->start.n_mappings)
                return -EINVAL;

        char *copy = str_format("%s", text);
        if (!copy)
                return -ENOMEM;

        free(process->stand_ins[mapping][part]);
        process->stand_ins[mapping][part] = copy;

        return 0;
}

const char *vault_process_old(const struct vault_process *process, uint32_t mapping, size_t i) {
        return mapping < process->start.n_mappings && i < CREDENTIAL_OLD_MAX ? process->old[mapping][i] : NULL;
}

/* Whether some credential has this stand-in, now or before. */
static bool stand_in_is_known(const struct vault_process *process, struct str text) {
        for (uint32_t i = 0; i < process->start.n_mappings; i++) {
                for (size_t part = 0; part < PARTS; part++)
                        if (process->stand_ins[i][part] && str_is(text, process->stand_ins[i][part]))
                                return true;
                for (size_t k = 0; k < CREDENTIAL_OLD_MAX && process->old[i][k]; k++)
                        if (str_is(text, process->old[i][k]))
                                return true;
        }

        return false;
}

int vault_process_add_old(struct vault_process *process, uint32_t mapping, struct str text) {
        size_t n = 0;

        if (mapping >= process->start.n_mappings)
                return -EINVAL;
        if (stand_in_is_known(process, text))
                return 0;

        while (n < CREDENTIAL_OLD_MAX && process->old[mapping][n])
                n++;

        if (n == CREDENTIAL_OLD_MAX)
                return 0;

        process->old[mapping][n] = str_dup(text);
        if (!process->old[mapping][n])
                return -ENOMEM;

        return 0;
}

static void end_by_force(struct vault_process *process, const char *why) {
        if (!process->role.pid)
                return;
        if (!process->failure.code)
                err_set(&process->failure, EPROTO, "%s", why);
        role_kill(&process->role);
}

/*
 * Starting.
 */
static int tell_stand_ins(const struct vault_process *process, struct err *err) {
        int r = 0;

        for (uint32_t i = 0; i < process->start.n_mappings; i++)
                for (uint32_t part = 0; r == 0 && part < PARTS; part++) {
                        const struct vault_message message = { .kind = VAULT_STAND_IN_KEPT,
                                                               .mapping = i,
                                                               .part = part,
                                                               .data = { str_of(process->stand_ins[i][part]) } };
                        if (process->stand_ins[i][part])
                                r = vault_tell(process->role.control, &message, -1, err);
                }

        return r;
}

/* Of one credential: what counts now, and before each of the last rotations. */
static int tell_seeds_of(struct vault_process *process, uint32_t index, struct err *err) {
        const char *name = process->mappings[index].name;
        uint64_t rotations = stand_ins_rotations(process->settings.stand_ins, name);
        int r = 0;

        for (uint64_t ago = 0; r == 0 && ago <= VAULT_OLD_MAX && ago <= rotations; ago++) {
                unsigned char seed[DIGEST_BYTES];

                stand_ins_seed(process->settings.stand_ins, process->settings.place, name, rotations - ago, seed);

                const struct vault_message message = {
                        .kind = VAULT_SEED, .mapping = index, .number = ago, .data = { str_n(seed, sizeof seed) }
                };
                r = vault_tell(process->role.control, &message, -1, err);
                secret_wipe(seed, sizeof seed);
        }

        return r;
}

static int tell_seeds(struct vault_process *process, struct err *err) {
        int r = 0;

        for (uint32_t i = 0; r == 0 && process->settings.stand_ins && i < process->start.n_mappings; i++)
                r = tell_seeds_of(process, i, err);
        return r;
}

static int tell_all(struct vault_process *process, struct err *err) {
        const struct vault_message open = { .kind = VAULT_OPEN };
        int r =
            vault_tell_variables(process->role.control, process->settings.mappings, process->settings.environment, err);
        if (r < 0)
                return r;

        r = vault_tell_values(process->role.control, process->settings.mappings, process->settings.environment, err);
        if (r < 0)
                return r;

        r = tell_seeds(process, err);
        if (r < 0)
                return r;

        r = tell_stand_ins(process, err);
        if (r < 0)
                return r;

        return vault_tell(process->role.control, &open, -1, err);
}

/* Time for commands that fetch secrets, and for itself. */
static uint64_t start_limit_ms(const struct vault_process *process) {
        uint64_t longest = 0;
        for (uint32_t i = 0; i < process->start.n_mappings; i++)
                longest = max_of(process->mappings[i].timeout_ns, longest);
        return START_MS + longest / NS_PER_MS;
}

static int process_spawn(struct vault_process *process, struct err *err) {
        int ends[2];
        cleanup(close_fd) int block = -1;
        int r = vault_start_seal(&process->start, process->mappings, &block, err);
        if (r == 0 && !process->program)
                r = helper_program("bailey-vault", "vault", &process->program, err);
        if (r < 0)
                return r;
        r = fd_pair(ends);
        if (r < 0)
                return err_set(err, -r, "cannot create the vault's control socket: %s", strerror(-r));

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        const int fds[] = { block, its, process->keep };
        struct helper child;
        r = helper_spawn("bailey-vault", process->program, fds, 3, &child, err);
        if (r < 0)
                return r;

        process->failed = false;
        err_clear(&process->failure);
        role_started(&process->role, &child, take_fd(&ours), start_limit_ms(process));

        return 0;
}

/* Again, after a death. A message that cannot be sent now is a failure of this vault. */
static void start_again(struct vault_process *process) {
        struct err err = { 0 };
        int r = process_spawn(process, &err);
        if (r == 0 && tell_all(process, &err) < 0) {
                end_by_force(process, err_text(&err));
                return;
        }

        if (r == 0)
                return;

        process_notice(process, VAULT_NOTICE_CANNOT_START, err_text(&err));
        process->role.started_ns = clock_ns();
        role_delay(&process->role);
}

/*
 * What it says.
 */
static int take_ca(struct vault_process *process, struct str der) {
        char *copy = malloc(der.n);
        if (!copy)
                return -ENOMEM;

        memcpy(copy, der.p, der.n);
        free(process->ca);
        process->ca = copy;
        process->ca_n = der.n;

        return 0;
}

static void process_changed(struct vault_process *process, const struct vault_message *message) {
        static const enum vault_notice notices[] = { [VAULT_CHANGE_GONE] = VAULT_NOTICE_GONE,
                                                     [VAULT_CHANGE_NEW] = VAULT_NOTICE_CHANGED,
                                                     [VAULT_CHANGE_KEPT] = VAULT_NOTICE_KEPT };
        cleanup(free_ptr) char *text = str_dup(message->data[0]);
        process_notice(process, notices[message->number], text_or(text, ""));
}

static void take_stand_in(struct vault_process *process, const struct vault_message *message) {
        cleanup(free_ptr) char *text = str_dup(message->data[0]);
        const char *before = vault_process_stand_in(process, message->mapping, (enum vault_part)message->part);

        if (!text || message->mapping >= process->start.n_mappings)
                end_by_force(process, "it named a stand-in for no credential");
        else if (before && strcmp(before, text) != 0)
                end_by_force(process, "it changed a stand-in that the sandbox has");
        else if (!before)
                process->stand_ins[message->mapping][message->part] = take_ptr(&text);
}

static void process_handle(struct vault_process *process, const struct vault_message *message) {
        switch ((enum vault_kind)message->kind) {
        case VAULT_CA:
                if (process->ca && !str_eq(vault_process_ca(process), message->data[0]))
                        end_by_force(process, "it has another CA than the one before it");
                else if (take_ca(process, message->data[0]) < 0)
                        end_by_force(process, "out of memory");
                break;
        case VAULT_STAND_IN:
                take_stand_in(process, message);
                break;
        case VAULT_STAND_IN_OLD:
                if (process->role.state == ROLE_STARTING &&
                    vault_process_add_old(process, message->mapping, message->data[0]) < 0)
                        end_by_force(process, "it named a stand-in of before for no credential");
                break;
        case VAULT_READY:
                if (process->role.state != ROLE_STARTING || !process->ca)
                        break;
                role_set(&process->role, ROLE_SERVING, 0);
                process_notice(process, VAULT_NOTICE_READY, "");
                break;
        case VAULT_CHANGED:
                process_changed(process, message);
                break;
        default:
                process->failed = true;
                err_set(&process->failure, ENODATA, "%.*s", STR_FMT(message->data[0]));
                role_kill(&process->role);
        }
}

static void read_control(struct vault_process *process) {
        for (int i = 0; i < 1024 && process->role.control >= 0; i++) {
                struct vault_message message;
                cleanup(close_fd) int fd = -1;
                int r = vault_receive(process->role.control, VAULT_TO_SUPERVISOR, process->room, &message, &fd);
                if (r <= 0) {
                        if (r == 0)
                                close_fd(&process->role.control);
                        else if (r != -EAGAIN)
                                end_by_force(process, "it sent a malformed message");

                        return;
                }

                process_handle(process, &message);
        }
}

static void process_reap(struct vault_process *process) {
        char how[ROLE_END_TEXT_MAX];
        bool served = process->role.state == ROLE_SERVING;

        if (!role_reap(&process->role, how))
                return;

        read_control(process);
        role_forget(&process->role);
        if (!process->failure.code)
                err_set(&process->failure, ECHILD, "%s", how);

        role_delay(&process->role);
        process_notice(process, served && !process->failed ? VAULT_NOTICE_DIED : VAULT_NOTICE_CANNOT_START,
                       err_text(&process->failure));
}

/*
 * The loop's side.
 */
void vault_process_watch(const struct vault_process *process, struct poller *poller) {
        role_watch(&process->role, poller);
}

void vault_process_step(struct vault_process *process, const struct poller *poller) {
        bool death = poller_ready(poller, process->role.pidfd) != 0;

        if (poller_ready(poller, process->role.control))
                read_control(process);
        if (death)
                process_reap(process);

        if (!role_is_due(&process->role))
                return;

        process->role.due_ns = CLOCK_NEVER;
        if (process->role.state == ROLE_STARTING)
                end_by_force(process, "it did not become ready in time");
        else if (process->role.state == ROLE_WAITING)
                start_again(process);
}

static void start_watch(void *arg, struct poller *poller) {
        vault_process_watch(arg, poller);
}

/* What happens here is the result of the start, and no notice. */
static int start_step(void *arg, struct poller *poller, struct err *err) {
        struct vault_process *process = arg;
        void (*told)(void *, enum vault_notice, const char *) = process->settings.on_notice;

        (void)err;

        process->settings.on_notice = NULL;
        vault_process_step(process, poller);
        process->settings.on_notice = told;

        return 0;
}

int vault_process_begin(struct vault_process *process, struct err *err) {
        int r = process_spawn(process, err);
        if (r < 0)
                return err_wrap(err, r, "the vault cannot be started");

        spawn_send_away(process->role.pid);
        r = tell_all(process, err);
        if (r < 0)
                role_set(&process->role, ROLE_STOPPED, 0);

        process->settings.stand_ins = NULL; /* the next vault gets the stand-ins themselves */
        return r;
}

int vault_process_await(struct vault_process *process, struct err *err) {
        cleanup(poller_done) struct poller poller = { 0 };
        int r = 0;

        if (process->role.state == ROLE_STARTING) /* what came between does not count */
                role_set(&process->role, ROLE_STARTING, start_limit_ms(process));

        poller_add(&poller, &(struct poller_part){ start_watch, start_step, process });

        while (r == 0 && process->role.state == ROLE_STARTING)
                r = poller_round(&poller, err);

        if (r == 0 && process->role.state != ROLE_SERVING)
                r = err_set(err, process->failure.code, "%s", err_text(&process->failure));
        if (r < 0)
                role_set(&process->role, ROLE_STOPPED, 0);

        return r;
}

int vault_process_start(struct vault_process *process, struct err *err) {
        int r = vault_process_begin(process, err);

        if (r < 0)
                return r;

        return vault_process_await(process, err);
}

static int connect_one(struct vault_process *process, int *ret_fd) {
        int ends[2];

        if (process->role.state != ROLE_SERVING || process->role.control < 0)
                return -ENOTCONN;
        int r = fd_pair(ends);
        if (r < 0)
                return r;

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        const struct vault_message message = { .kind = VAULT_CONNECT };
        r = vault_tell(process->role.control, &message, its, NULL);
        if (r == 0)
                *ret_fd = take_fd(&ours);

        return r;
}

uint32_t vault_process_connect_all(struct vault_process *process, int *ret_fds, uint32_t n) {
        uint32_t made = 0;
        while (made < n && connect_one(process, &ret_fds[made]) == 0)
                made++;

        if (made == n)
                return n;

        while (made > 0)
                close_fd(&ret_fds[--made]);

        return 0;
}

void vault_process_reload(struct vault_process *process) {
        const struct vault_message message = { .kind = VAULT_RELOAD };
        if (process->role.state == ROLE_SERVING && process->role.control >= 0)
                (void)vault_tell(process->role.control, &message, -1,
                                 NULL); /* one that is gone reads everything when it is back */
}

/*
 * Birth and end of the object.
 */
static int tell_places(struct vault_process *process, char *const *places, struct err *err) {
        for (uint32_t i = 0; i < process->start.n_mappings; i++) {
                struct vault_mapping *mapping = &process->mappings[i];
                int n = snprintf(mapping->place, sizeof mapping->place, "%s", places[i]);

                if (n >= (int)sizeof mapping->place)
                        return err_set(err, ENAMETOOLONG, "the file of credential '%s' has too long a name",
                                       mapping->name);
        }

        return 0;
}

static int fill_start(struct vault_process *process, const struct vault_settings *settings, struct err *err) {
        struct vault_start *start = &process->start;

        vault_start_init(start);
        start->n_mappings = (uint32_t)settings->mappings->n;
        start->ca = settings->ca;
        start->log_level = settings->log_level;

        const char *credentials = NULL;

        for (char *const *at = settings->environment; at && *at; at++)
                if (strncmp(*at, "CREDENTIALS_DIRECTORY=", 22) == 0)
                        credentials = *at + 22;

        int a = snprintf(start->ca_dir, sizeof start->ca_dir, "%s", text_or(settings->ca_dir, ""));
        int b = snprintf(start->credentials_dir, sizeof start->credentials_dir, "%s",
                         credentials && credentials[0] == '/' ? credentials : "");
        cleanup(free_ptr) char *state = NULL; /* where sandboxes of this user lock each other out */
        if (dirs_state(&state) == 0 && strlen(state) < sizeof start->lock_dir)
                snprintf(start->lock_dir, sizeof start->lock_dir, "%s", state);

        snprintf(start->sandbox_id, sizeof start->sandbox_id, "%s", text_or(settings->sandbox_id, ""));
        if (a >= (int)sizeof start->ca_dir || b >= (int)sizeof start->credentials_dir)
                return err_set(err, ENAMETOOLONG, "the directory of the CA or of the credentials has too long a name");

        int r = vault_tell_mappings(settings->mappings, &process->mappings, err);
        if (r < 0 || !settings->places)
                return r;

        return tell_places(process, settings->places, err);
}

int vault_process_new(const struct vault_settings *settings, struct vault_process **ret, struct err *err) {
        cleanup(vault_process_freep) struct vault_process *v = calloc(1, sizeof *v);
        if (!v)
                return err_memory(err);

        *v = (struct vault_process){ .settings = *settings, .keep = -1, .role = ROLE_NONE("vault") };
        v->settings.program = v->settings.sandbox_id = v->settings.ca_dir = NULL; /* the copies count */
        v->settings.places = NULL;
        v->room = malloc(VAULT_MESSAGE_MAX);
        v->stand_ins = calloc(settings->mappings->n + 1, sizeof *v->stand_ins);
        v->old = calloc(settings->mappings->n + 1, sizeof *v->old);
        v->program = settings->program ? str_format("%s", settings->program) : NULL;
        if (!v->room || !v->stand_ins || !v->old || (settings->program && !v->program))
                return err_memory(err);

        int r = fill_start(v, settings, err);
        if (r < 0)
                return r;
        r = vault_start_check(&v->start, v->mappings, err);
        if (r < 0)
                return r;
        r = vault_keep_new(&v->keep, err);
        if (r == 0)
                *ret = take_ptr(&v);

        return r;
}

void vault_process_free(struct vault_process *process) {
        if (!process)
                return;

        if (process->role.pid) {
                const struct vault_message message = { .kind = VAULT_STOP };
                struct pollfd end = { .fd = process->role.pidfd, .events = POLLIN };

                if (process->role.control >= 0 &&
                    vault_send(process->role.control, SUPERVISOR_TO_VAULT, &message, -1) == 0)
                        (void)poll(&end, 1, LAST_WORD_MS); /* it wipes what it has */
        }

        role_end(&process->role);
        close_fd(&process->keep);

        for (uint32_t i = 0; process->stand_ins && i < process->start.n_mappings; i++)
                for (size_t part = 0; part < PARTS; part++)
                        free(process->stand_ins[i][part]);

        for (uint32_t i = 0; process->old && i < process->start.n_mappings; i++)
                for (size_t k = 0; k < CREDENTIAL_OLD_MAX; k++)
                        free(process->old[i][k]);

        free(process->stand_ins);
        free(process->old);
        free(process->mappings);
        free(process->program);
        free(process->room);
        free(process->ca);
        free(process);
}

void vault_process_freep(struct vault_process **process) {
        vault_process_free(*process);
}
