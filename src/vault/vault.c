/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault: the CA key and the real secrets, and four answers about them (a certificate, a value, a signing key, no).
 *
 * Trust: the supervisor is trusted. A gateway is not: it parses hostile bytes. It can ask only for what a message of
 * ipc/vault.h can say; each release is checked here against the mapping's own hosts and ports, whatever the gateway
 * thinks it is doing. What a gateway in hostile hands gains are the values of mappings for their own hosts, signing
 * keys of today, and certificates for a CA that nobody but its own sandbox trusts.
 *
 * States: COLLECTING (the supervisor tells what it has), OPENING (the reader reads all sources), SERVING. A source that
 * fails while opening is the end, told loudly. Later a file, key or credential that is gone means that the mapping has
 * no value: requests are refused until it is back. A command that fails then may fail for many reasons (no network);
 * the value before stays, and the supervisor is told.
 *
 * A channel is read only while its answer will fit, so nothing is queued and nothing grows. Limits: CHANNELS_MAX.
 */
#include "vault/vault.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "vault/ca.h"
#include "vault/confine.h"
#include "vault/leaf.h"
#include "vault/renewals.h"
#include "vault/source.h"
#include "vault/values.h"
#include "vault/write_back.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { CHANNELS_MAX = 128, REQUESTS_AT_ONCE = 32 };
#define TURN_NS (120 * NS_PER_SECOND)
#define STALE_NS (5 * NS_PER_SECOND) /* a source is not read again sooner because an origin refused its value */

enum state { COLLECTING, OPENING, SERVING, STATES };
static const char *const state_names[] = { [COLLECTING] = "collecting", [OPENING] = "opening", [SERVING] = "serving" };
static_assert(sizeof state_names / sizeof *state_names == STATES, "a name for each state");

struct vault {
        struct vault_start start;
        struct vault_mapping *mappings;
        struct values *values;
        struct ca *ca;
        struct leaves *leaves;
        const struct reader *reader;
        enum state state;
        bool stop;
        int control;
        int channels[CHANNELS_MAX];
        size_t n_channels;
        bool settled[VAULT_MAPPINGS_MAX];     /* its source was read, with or without a value */
        bool apart[VAULT_MAPPINGS_MAX];       /* signed in from inside: its file is another account's now */
        struct turns turns;                   /* of those who renew a sign-in */
        uint64_t read_ns[VAULT_MAPPINGS_MAX]; /* when it was last asked for; 0: never */
        struct secret *room;                  /* for one message */
};

static void set_state(struct vault *v, enum state s) {
        log_debug("vault: %s -> %s", state_names[v->state], state_names[s]);
        v->state = s;
}

/*
 * To the supervisor. It reads all the time; one that does not is gone.
 */
static int tell(struct vault *v, const struct vault_message *m, struct err *e) {
        for (int tries = 0; tries < 100; tries++) {
                int r = vault_send(v->control, VAULT_TO_SUPERVISOR, m, -1);
                if (r != -EAGAIN)
                        return r < 0 ? err_set(e, -r, "the supervisor cannot be told anything: %s", strerror(-r)) : 0;
                struct pollfd fd = { .fd = v->control, .events = POLLOUT };
                (void)poll(&fd, 1, 100);
        }
        return err_set(e, ETIMEDOUT, "the supervisor does not read");
}

static void printable(char *text) {
        for (char *c = text; *c; c++)
                if (*c < 0x20 || *c > 0x7e)
                        *c = '?';
}

static int tell_changed(struct vault *v, uint32_t mapping, enum vault_change change, const char *why, struct err *e) {
        char text[700], label[SOURCE_LABEL_MAX];
        source_label(v->mappings[mapping].source, label);
        snprintf(text, sizeof text, "credential '%s' (%s): %.*s", v->mappings[mapping].name, label, 400, why);
        printable(text);
        const struct vault_message m = {
                .kind = VAULT_CHANGED, .mapping = mapping, .number = change, .data = { str_of(text) }
        };
        return tell(v, &m, e);
}

/*
 * Sources.
 */
static bool from_supervisor(const struct vault *v, uint32_t mapping) {
        return strncmp(v->mappings[mapping].source, "env:", 4) == 0;
}

/* Only a token endpoint gives it. */
static bool from_nowhere(const struct vault *v, uint32_t mapping) {
        return strcmp(v->mappings[mapping].source, "memory") == 0;
}

static int ask(struct vault *v, uint32_t mapping, struct err *e) {
        v->read_ns[mapping] = clock_ns();
        return from_supervisor(v, mapping) || from_nowhere(v, mapping) ? 0 : reader_ask(v->reader, mapping, e);
}

/* When this source is to be read again, since nothing tells that it changed. */
static uint64_t due_ns(const struct vault *v, uint32_t mapping) {
        const struct vault_mapping *m = &v->mappings[mapping];
        return m->refresh_ns && source_must_be_polled(m->source) ? v->read_ns[mapping] + m->refresh_ns : UINT64_MAX;
}

static int ask_all(struct vault *v, bool only_due, struct err *e) {
        uint64_t now = clock_ns();
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < v->start.n_mappings; i++)
                if (!only_due || due_ns(v, i) <= now)
                        r = ask(v, i, e);
        return r;
}

static int fail_source(const struct vault *v, uint32_t mapping, const char *why, struct err *e) {
        char label[SOURCE_LABEL_MAX];
        source_label(v->mappings[mapping].source, label);
        return err_set(e, ENODATA, "credential '%s' cannot be read from %s: %s", v->mappings[mapping].name, label, why);
}

/* Stand-ins of before a rotation are recognised for some time, so that they are refused and not sent out. */
static int tell_old_fakes(struct vault *v, struct err *err) {
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                for (uint32_t at = 0; at < PARTS * VAULT_OLD_MAX; at++) {
                        cleanup(free_ptr) char *old = NULL;
                        int r = values_old_fake(v->values, i, (enum vault_part)(at % PARTS), 1 + at / PARTS, &old, err);
                        if (r < 0)
                                return r;
                        if (!old)
                                continue;

                        const struct vault_message m = { .kind = VAULT_FAKE_OLD,
                                                         .mapping = i,
                                                         .data = { str_of(old) } };
                        r = tell(v, &m, err);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* Everything is there: say what the sandbox is to be given, and serve. */
static int begin_serving(struct vault *v, struct err *e) {
        int r = values_make_fakes(v->values, e);
        r = r < 0 ? r : leaves_new(v->ca, &v->leaves, e);
        if (r < 0)
                return r;
        const struct vault_message ca = { .kind = VAULT_CA, .data = { ca_certificate(v->ca) } };
        r = tell(v, &ca, e);
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                for (uint32_t part = 0; r == 0 && part < PARTS; part++) {
                        const struct vault_message m = { .kind = VAULT_FAKE,
                                                         .mapping = i,
                                                         .part = part,
                                                         .data = { values_fake(v->values, i, (enum vault_part)part) } };
                        if (m.data[0].n > 0)
                                r = tell(v, &m, e);
                }
        r = r < 0 ? r : tell_old_fakes(v, e);
        const struct vault_message ready = { .kind = VAULT_READY };
        r = r < 0 ? r : tell(v, &ready, e);
        if (r == 0)
                set_state(v, SERVING);
        return r;
}

/* All that must have a value has one, and the others were looked at. */
static bool is_opened(const struct vault *v) {
        uint32_t missing;

        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                if (!values_has(v->values, i) && !v->settled[i] && !from_nowhere(v, i))
                        return false;
        return values_has_all(v->values, &missing);
}

static int open_sources(struct vault *v, struct err *e) {
        set_state(v, OPENING);
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                if (from_supervisor(v, i) && !values_has(v->values, i))
                        return fail_source(v, i, "the variable is not set", e);
        int r = ask_all(v, false, e);
        if (r == 0 && is_opened(v))
                r = begin_serving(v, e);
        return r;
}

/* While opening every failure is the end; later only what is told. */
static int take_value(struct vault *v, uint32_t mapping, struct str value, struct err *e) {
        enum value_change change;
        struct err why = { 0 };
        int r = values_set(v->values, mapping, value, &change, &why);
        if (v->state != SERVING)
                return r < 0 ? fail_source(v, mapping, err_text(&why), e) : 0;
        if (r < 0) {
                values_drop(v->values, mapping);
                return tell_changed(v, mapping, VAULT_CHANGE_GONE, err_text(&why), e);
        }
        if (v->mappings[mapping].optional)
                return 0; /* renewed every hour or so: nobody needs to be told */
        return change == VALUE_CHANGED ? tell_changed(v, mapping, VAULT_CHANGE_NEW, "a new value counts now", e) : 0;
}

static int take_failure(struct vault *v, uint32_t mapping, struct str text, struct err *e) {
        char why[400];
        snprintf(why, sizeof why, "%.*s", (int)(text.n < sizeof why ? text.n : sizeof why - 1), text.p);
        if (v->state != SERVING && v->mappings[mapping].optional)
                return 0;
        if (v->state != SERVING)
                return fail_source(v, mapping, why, e);
        if (source_runs_program(v->mappings[mapping].source) && values_has(v->values, mapping))
                return tell_changed(v, mapping, VAULT_CHANGE_KEPT, why, e);
        return values_drop(v->values, mapping) ? tell_changed(v, mapping, VAULT_CHANGE_GONE, why, e) : 0;
}

static int refuse(int fd, uint64_t id, enum vault_refusal why) {
        const struct vault_message m = { .kind = VAULT_REFUSED, .id = id, .number = why };
        return vault_send(fd, VAULT_TO_GATEWAY, &m, -1);
}

/*
 * Sign-ins that are renewed. One at a time for each: the gateway says that it is about to send the refresh token, gets
 * its turn when nobody else renews it (in other sandboxes, and outside), and ends it with the tokens that came, which
 * are in the user's file before it hears so.
 */
static int answer_turn(const struct turn *turn, enum vault_refusal refused) {
        const struct vault_message m = { .kind = refused ? VAULT_REFUSED : VAULT_RENEWED,
                                         .id = turn->id,
                                         .number = refused };
        return turn->channel < 0 ? 0 : vault_send(turn->channel, VAULT_TO_GATEWAY, &m, -1);
}

static bool is_in_file(const struct vault *v, uint32_t mapping) {
        char file[4096];
        renew_file(&v->mappings[mapping], file);
        return file[0] != '\0' && v->reader->sock >= 0 && !v->apart[mapping];
}

static void begin_turn(struct vault *v, uint32_t leader) {
        struct turn *turn = turns_next(&v->turns, leader);
        if (!turn)
                return;

        turn->since_ns = clock_ns();
        if (is_in_file(v, leader)) {
                turn->state = TURN_LOCKING;
                (void)reader_lock(v->reader, leader, NULL); /* one that is gone is noticed in the loop */
        } else {
                turn->state = TURN_HELD;
                (void)answer_turn(turn, 0);
        }
}

static void end_turn(struct vault *v, struct turn *turn, bool unlock) {
        uint32_t leader = turn->leader;

        if (unlock && turn->state != TURN_WAITING && is_in_file(v, leader))
                reader_unlock(v->reader, leader);
        turns_remove(&v->turns, turn);
        begin_turn(v, leader);
}

/* Each value of the answer counts from now on. */
static int take_lines(struct vault *v, uint32_t leader, struct str lines) {
        struct str line, member;
        int r = 0;

        while (r == 0 && str_split(&lines, '\n', &line)) {
                if (!str_split(&line, ' ', &member) || !line.p)
                        continue;
                for (uint32_t i = 0; r == 0 && i < v->start.n_mappings; i++) {
                        const struct vault_mapping *m = &v->mappings[i];
                        enum value_change change;
                        if (renew_same_group(m, &v->mappings[leader]) && str_is(member, m->answer))
                                r = values_set(v->values, i, line, &change, NULL);
                }
        }
        return r;
}

static int on_locked(struct vault *v, uint32_t leader) {
        struct turn *turn = turns_current(&v->turns, leader);

        if (!turn || turn->state != TURN_LOCKING) {
                reader_unlock(v->reader, leader); /* whoever wanted it has gone */
                return 0;
        }
        turn->state = TURN_HELD;
        turn->since_ns = clock_ns();
        struct str now = values_current(v->values, leader); /* a gateway that has it already does not ask again */
        if (now.n > 0)
                (void)secret_new(now, &turn->sent, NULL);
        if (answer_turn(turn, 0) < 0)
                end_turn(v, turn, true);
        return 0;
}

/* The file is written, or could not be: in memory they count in any case, unless the file has newer ones. */
static int on_written(struct vault *v, uint32_t leader, struct str how, struct err *err) {
        struct turn *turn = turns_current(&v->turns, leader);
        char why[300];
        int r = 0;

        if (!turn || turn->state != TURN_WRITING)
                return 0;
        snprintf(why, sizeof why, "%.*s", (int)(how.n < sizeof why ? how.n : sizeof why - 1), how.n ? how.p : "");
        if (!str_is(how, "newer"))
                r = take_lines(v, leader, secret_value(turn->lines));
        (void)answer_turn(turn, r < 0 ? VAULT_BROKEN : 0);
        end_turn(v, turn, false);
        if (str_is(how, "gone"))
                return tell_changed(v, leader, VAULT_CHANGE_NEW,
                                    "its file is gone; what was renewed is kept for this run only", err);
        if (why[0] && !str_is(how, "newer"))
                return tell_changed(v, leader, VAULT_CHANGE_NEW, why, err);
        return 0;
}

static int begin_renewal(struct vault *v, int fd, const struct vault_message *q) {
        enum vault_refusal refused = values_renewable(v->values, q->mapping, &q->authority);
        struct turn *current = refused ? NULL : turns_current(&v->turns, q->mapping);

        if (refused)
                return refuse(fd, q->id, refused);
        if (current && current->state == TURN_HELD && clock_ns() - current->since_ns > TURN_NS)
                end_turn(v, current, true); /* nobody renews for that long */
        if (!turns_add(&v->turns, fd, q->id, q->mapping))
                return refuse(fd, q->id, VAULT_BROKEN);
        begin_turn(v, q->mapping);
        return 0;
}

static int keep_renewed(struct vault *v, int fd, const struct vault_message *q) {
        enum vault_refusal refused = values_renewable(v->values, q->mapping, &q->authority);
        struct turn *turn = refused ? NULL : turns_current(&v->turns, q->mapping);

        if (turn && (turn->channel != fd || turn->state != TURN_HELD))
                turn = NULL;
        if (!refused && !turn) /* a new sign-in, or the vault that gave the turn has died */
                turn = turns_add(&v->turns, fd, q->id, q->mapping);
        if (!turn)
                return refuse(fd, q->id, refused ? refused : VAULT_BROKEN);
        turn->id = q->id;
        turn->state = TURN_WRITING;
        struct str old = turn->sent ? secret_value(turn->sent) : values_current(v->values, q->mapping);
        bool fresh = q->part == 1 || !is_in_file(v, q->mapping);
        int r = secret_new(q->data[0], &turn->lines, NULL);
        if (r == 0 && !fresh)
                return reader_write(v->reader, q->mapping, old, q->data[0], q->number, NULL) < 0
                           ? refuse(fd, q->id, VAULT_BROKEN)
                           : 0;
        r = r < 0 ? r : take_lines(v, q->mapping, q->data[0]);
        (void)answer_turn(turn, r < 0 ? VAULT_BROKEN : 0);
        end_turn(v, turn, true);
        if (r < 0 || q->part == 0)
                return 0;
        for (uint32_t i = 0; i < v->start.n_mappings; i++)
                v->apart[i] |= renew_same_group(&v->mappings[i], &v->mappings[q->mapping]);
        return tell_changed(v, q->mapping, VAULT_CHANGE_NEW,
                            "signed in from inside; kept for this run only, outside nothing has changed", NULL);
}

static int leave_renewal(struct vault *v, int fd, const struct vault_message *q) {
        struct turn *turn = turns_current(&v->turns, q->mapping);

        if (turn && turn->channel == fd && turn->state != TURN_WRITING)
                end_turn(v, turn, true);
        return 0;
}

/* What is being written is written; nobody is told. */
static void forget_channel(struct vault *v, int fd) {
        for (size_t i = v->turns.n; i-- > 0;) {
                struct turn *turn = &v->turns.list[i];
                if (turn->channel != fd)
                        continue;
                turn->channel = -1;
                if (turn->state != TURN_WRITING)
                        end_turn(v, turn, true);
        }
}

static int read_reader(struct vault *v, struct err *e) {
        struct reading reading;
        int r = reader_receive(v->reader, v->start.n_mappings, secret_bytes(v->room), &reading);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return err_set(e, ECHILD, "the process that reads the sources of credentials has died");
        if (reading.kind != READ_VALUE) {
                r = reading.kind == READ_LOCKED ? on_locked(v, reading.mapping)
                                                : on_written(v, reading.mapping, reading.text, e);
                secret_wipe(secret_bytes(v->room), VAULT_MESSAGE_MAX);
                return r;
        }
        v->settled[reading.mapping] = true;
        if (v->apart[reading.mapping]) {
                secret_wipe(secret_bytes(v->room), VAULT_MESSAGE_MAX);
                return 0;
        }
        r = reading.found ? take_value(v, reading.mapping, reading.text, e)
                          : take_failure(v, reading.mapping, reading.text, e);
        secret_wipe(secret_bytes(v->room), VAULT_MESSAGE_MAX);
        if (r == 0 && v->state == OPENING && is_opened(v))
                r = begin_serving(v, e);
        return r;
}

/*
 * From the supervisor.
 */
static int connect_channel(struct vault *v, int *fd, struct err *e) {
        if (v->n_channels == CHANNELS_MAX)
                return err_set(e, EMFILE, "more than %d gateways are connected", CHANNELS_MAX);
        int r = fd_set_nonblocking(*fd, true);
        if (r < 0)
                return err_set(e, -r, "a gateway's channel is of no use: %s", strerror(-r));
        const struct vault_message hello = { .kind = VAULT_HELLO };
        if (vault_send(*fd, VAULT_TO_GATEWAY, &hello, values_page(v->values)) < 0)
                return 0; /* gone already: the descriptor is closed by the caller */
        v->channels[v->n_channels++] = take_fd(fd);
        return 0;
}

static int obey(struct vault *v, const struct vault_message *m, int *fd, struct err *e) {
        bool collecting = v->state == COLLECTING;
        switch ((enum vault_kind)m->kind) {
        case VAULT_CONNECT:
                return connect_channel(v, fd, e);
        case VAULT_STOP:
                v->stop = true;
                return 0;
        case VAULT_RELOAD:
                return v->state == SERVING ? ask_all(v, false, e) : 0;
        case VAULT_OPEN:
                return collecting ? open_sources(v, e) : err_set(e, EPROTO, "told to open twice");
        case VAULT_VARIABLE:
                return reader_variable(v->reader, m->data[0], e);
        case VAULT_SEED:
                if (!collecting || m->mapping >= v->start.n_mappings)
                        break;
                values_seed(v->values, m->mapping, m->number, (const uint8_t *)m->data[0].p);
                return 0;
        case VAULT_FAKE_KEPT:
                if (!collecting || m->mapping >= v->start.n_mappings)
                        break;
                return values_keep_fake(v->values, m->mapping, (enum vault_part)m->part, m->data[0], e);
        case VAULT_VALUE:
                if (m->mapping >= v->start.n_mappings || !from_supervisor(v, m->mapping))
                        break;
                return take_value(v, m->mapping, m->data[0], e);
        default:
                break;
        }
        return err_set(e, EPROTO, "a message of the supervisor that does not belong here: %s",
                       vault_kind_name((enum vault_kind)m->kind));
}

static int read_control(struct vault *v, struct err *e) {
        struct vault_message m;
        cleanup(close_fd) int fd = -1;
        int r = vault_receive(v->control, SUPERVISOR_TO_VAULT, secret_bytes(v->room), &m, &fd);
        if (r == -EAGAIN)
                return 0;
        if (r == 0) {
                v->stop = true;
                return 0;
        }
        if (r < 0)
                return err_set(e, EPROTO, "a malformed message from the supervisor");
        r = obey(v, &m, &fd, e);
        secret_wipe(secret_bytes(v->room), VAULT_MESSAGE_MAX);
        return r;
}

/*
 * From gateways.
 */
static int answer_sign(struct vault *v, int fd, const struct vault_message *q) {
        struct str leaf;
        int r = leaves_get(v->leaves, &q->authority.host, q->data[0], &leaf, NULL);
        if (r < 0)
                return refuse(fd, q->id, r == -EINVAL ? VAULT_BAD_KEY : VAULT_BROKEN);
        const struct vault_message m = { .kind = VAULT_CERTIFICATE, .id = q->id, .data = { leaf } };
        return vault_send(fd, VAULT_TO_GATEWAY, &m, -1);
}

static int answer_release(struct vault *v, int fd, const struct vault_message *q) {
        struct str value = { 0 };
        enum vault_refusal refused = values_release(v->values, q->mapping, &q->authority, &value);
        if (refused)
                return refuse(fd, q->id, refused);
        struct turn *renews = turns_current(&v->turns, q->mapping);
        if (renews && renews->channel == fd && renews->state == TURN_HELD) {
                secret_free(take_ptr(&renews->sent));
                if (secret_new(value, &renews->sent, NULL) < 0)
                        return refuse(fd, q->id, VAULT_BROKEN);
        }
        const struct vault_message m = {
                .kind = VAULT_SECRET, .id = q->id, .number = values_serial(v->values, q->mapping), .data = { value }
        };
        return vault_send(fd, VAULT_TO_GATEWAY, &m, -1);
}

static int answer_sigv4(struct vault *v, int fd, const struct vault_message *q) {
        struct str id = { 0 }, token = { 0 };
        uint8_t key[VAULT_DIGEST_BYTES];
        enum vault_refusal refused = values_signing_key(v->values, q->mapping, &q->authority, q->data[0], q->data[1],
                                                        q->data[2], &id, key, &token);
        if (refused)
                return refuse(fd, q->id, refused);
        const struct vault_message m = { .kind = VAULT_SIGNING_KEY,
                                         .id = q->id,
                                         .number = values_serial(v->values, q->mapping),
                                         .data = { id, str_n(key, sizeof key), token } };
        int r = vault_send(fd, VAULT_TO_GATEWAY, &m, -1);
        secret_wipe(key, sizeof key);
        return r;
}

/* The origin refused the value: perhaps there is a newer one. */
static int on_stale(struct vault *v, const struct vault_message *q) {
        uint64_t now = clock_ns();
        if (q->mapping >= v->start.n_mappings || q->number != values_serial(v->values, q->mapping) ||
            now - v->read_ns[q->mapping] < STALE_NS)
                return 0;
        (void)ask(v, q->mapping, NULL); /* a reader that is gone is noticed in the loop */
        return 0;
}

static int answer(struct vault *v, int fd, const struct vault_message *q) {
        switch ((enum vault_kind)q->kind) {
        case VAULT_SIGN:
                return answer_sign(v, fd, q);
        case VAULT_RELEASE:
                return answer_release(v, fd, q);
        case VAULT_SIGV4:
                return answer_sigv4(v, fd, q);
        case VAULT_RENEW:
                return begin_renewal(v, fd, q);
        case VAULT_KEEP:
                return keep_renewed(v, fd, q);
        case VAULT_LEAVE:
                return leave_renewal(v, fd, q);
        default:
                return on_stale(v, q);
        }
}

static bool has_room(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };
        return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* False: this channel is over. */
static bool read_channel(struct vault *v, int fd) {
        for (int i = 0; i < REQUESTS_AT_ONCE && has_room(fd); i++) {
                struct vault_message m;
                cleanup(close_fd) int extra = -1;
                int r = vault_receive(fd, GATEWAY_TO_VAULT, secret_bytes(v->room), &m, &extra);
                if (r == -EAGAIN)
                        return true;
                if (r == -EBADMSG)
                        log_warning("a gateway sent a malformed message; its channel is closed");
                r = r <= 0 ? -EPIPE : answer(v, fd, &m);
                secret_wipe(secret_bytes(v->room), VAULT_MESSAGE_MAX);
                if (r < 0)
                        return false;
        }
        return true;
}

/*
 * The loop.
 */
static int time_left(const struct vault *v) {
        uint64_t now = clock_ns(), next = UINT64_MAX;
        for (uint32_t i = 0; v->state == SERVING && i < v->start.n_mappings; i++)
                next = due_ns(v, i) < next ? due_ns(v, i) : next;
        if (next == UINT64_MAX)
                return -1;
        uint64_t left = next > now ? (next - now) / NS_PER_MS + 1 : 0;
        return left > 1000000 ? 1000000 : (int)left;
}

static size_t watch(const struct vault *v, struct pollfd *fds) {
        fds[0] = (struct pollfd){ .fd = v->control, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = v->reader->sock, .events = POLLIN };
        for (size_t i = 0; i < v->n_channels; i++)
                fds[2 + i] = (struct pollfd){ .fd = v->state == SERVING ? v->channels[i] : -1,
                                              .events = has_room(v->channels[i]) ? POLLIN : POLLOUT };
        return 2 + v->n_channels;
}

static void serve_channels(struct vault *v, const struct pollfd *fds, size_t n) {
        size_t left = 0;
        for (size_t i = 0; i < v->n_channels; i++) {
                bool open = i >= n || !fds[i].revents || read_channel(v, v->channels[i]);
                if (open)
                        v->channels[left++] = v->channels[i];
                else {
                        forget_channel(v, v->channels[i]);
                        close(v->channels[i]);
                }
        }
        v->n_channels = left;
}

static int turn(struct vault *v, struct err *e) {
        struct pollfd fds[2 + CHANNELS_MAX];
        size_t n = watch(v, fds);
        if (poll(fds, n, time_left(v)) < 0 && errno != EINTR)
                return err_errno(e, "cannot wait");
        int r = 0;
        /* A change that was told before a request is in force for it. */
        if (fds[1].revents)
                r = read_reader(v, e);
        serve_channels(v, fds + 2, n - 2);
        if (r == 0 && fds[0].revents)
                r = read_control(v, e);
        if (r == 0 && v->state == SERVING)
                r = ask_all(v, true, e);
        return r;
}

int vault_run(struct vault *v, struct err *e) {
        int r = 0;
        while (r == 0 && !v->stop)
                r = turn(v, e);
        if (r < 0) {
                char text[ERR_TEXT_MAX];
                snprintf(text, sizeof text, "%.700s", err_text(e));
                printable(text);
                const struct vault_message m = { .kind = VAULT_FAILED, .data = { str_of(text) } };
                (void)tell(v, &m, NULL);
        }
        return r;
}

int vault_new(const struct vault_start *start, struct vault_mapping *mappings, int control, int keep,
              const struct reader *reader, struct vault **ret, struct err *e) {
        cleanup(vault_freep) struct vault *v = calloc(1, sizeof *v);
        if (!v) {
                free(mappings);
                return err_set(e, ENOMEM, "no memory for the vault");
        }
        *v = (struct vault){ .start = *start, .mappings = mappings, .control = control, .reader = reader };
        int r = fd_set_nonblocking(control, true);
        if (r < 0)
                return err_set(e, -r, "the control socket cannot be made non-blocking");
        r = secret_new_empty(VAULT_MESSAGE_MAX, &v->room, e);
        r = r < 0 ? r : values_new(mappings, start->n_mappings, &v->values, e);
        if (r == 0 && start->ca_dir[0])
                r = ca_open(start->ca_dir, (enum vault_ca)start->ca, "egress", &v->ca, e);
        else if (r == 0)
                r = ca_keep(keep, (enum vault_ca)start->ca, start->sandbox_id, &v->ca, e);
        if (r == 0)
                *ret = take_ptr(&v);
        return r;
}

void vault_free(struct vault *v) {
        if (!v)
                return;
        for (size_t i = 0; i < v->n_channels; i++)
                close(v->channels[i]);
        while (v->turns.n > 0)
                turns_remove(&v->turns, &v->turns.list[v->turns.n - 1]);
        leaves_free(v->leaves);
        ca_free(v->ca);
        values_free(v->values);
        secret_free(v->room);
        free(v->mappings);
        free(v);
}

void vault_freep(struct vault **v) {
        vault_free(*v);
}
