/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault: the CA key and the real secrets, and four answers about them (a certificate, a value, a signing key, no).
 *
 * Trust: the supervisor is trusted. A gateway is not: it parses hostile bytes. It can ask only for what a message of
 * ipc/vault_messages.h can say; each release is checked here against the mapping's own hosts and ports, whatever the
 * gateway thinks it is doing. A compromised gateway gains the values of mappings for their own hosts, today's signing
 * keys, and certificates of a CA that only its own sandbox trusts.
 *
 * States: COLLECTING (the supervisor sends its values), OPENING (the reader reads all sources), SERVING. A source that
 * fails while opening ends the vault with an error. Later, if a file, key or credential is gone, the mapping has no
 * value: requests are refused until it is back. A command may then fail for many reasons (no network); the old value
 * stays, and the supervisor is notified.
 *
 * A channel is read only while its answer will fit, so nothing is queued and nothing grows. Limits: CHANNELS_MAX.
 */
#include "vault/vault.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/rest.h"
#include "base/secrets/secret.h"
#include "vault/ca.h"
#include "vault/leaf.h"
#include "vault/renewals.h"
#include "vault/source.h"
#include "vault/values.h"
#include "vault/vault_confine.h"
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
        bool rests; /* nothing has come since it gave memory back */
        int control;
        int channels[CHANNELS_MAX];
        size_t n_channels;
        bool settled[VAULT_MAPPINGS_MAX];     /* its source was read, with or without a value */
        bool apart[VAULT_MAPPINGS_MAX];       /* signed in from inside: its file is another account's now */
        struct turns turns;                   /* of those who renew a sign-in */
        uint64_t read_ns[VAULT_MAPPINGS_MAX]; /* when it was last asked for; 0: never */
        struct secret *room;                  /* for one message */
};

static void set_state(struct vault *vault, enum state state) {
        log_debug("vault: %s -> %s", state_names[vault->state], state_names[state]);
        vault->state = state;
}

/*
 * To the supervisor. It reads all the time, except while it starts a run: then it looks around first, for as long as
 * slow file systems take. If it ends, so does this process.
 */
enum { TELL_TRIES = 6000, TELL_POLL_MS = 100 };

static int supervisor_tell(struct vault *vault, const struct vault_message *message, struct err *err) {
        for (int tries = 0; tries < TELL_TRIES; tries++) {
                int r = vault_send(vault->control, VAULT_TO_SUPERVISOR, message, -1);
                if (r != -EAGAIN && r < 0)
                        return err_set(err, -r, "the supervisor cannot be told anything: %s", strerror(-r));
                if (r != -EAGAIN)
                        return 0;

                struct pollfd fd = { .fd = vault->control, .events = POLLOUT };
                (void)poll(&fd, 1, TELL_POLL_MS);
        }

        return err_set(err, ETIMEDOUT, "the supervisor does not read");
}

static void vault_printable(char *text) {
        for (char *c = text; *c; c++)
                if (*c < 0x20 || *c > 0x7e)
                        *c = '?';
}

static int tell_changed(struct vault *vault, uint32_t mapping, enum vault_change change, const char *why,
                        struct err *err) {
        char text[700], label[SOURCE_LABEL_MAX];

        source_label(vault->mappings[mapping].source, label);
        snprintf(text, sizeof text, "credential '%s' (%s): %.*s", vault->mappings[mapping].name, label, 400, why);
        vault_printable(text);

        const struct vault_message message = {
                .kind = VAULT_CHANGED, .mapping = mapping, .number = change, .data = { str_of(text) }
        };
        return supervisor_tell(vault, &message, err);
}

/*
 * Sources.
 */
static bool from_supervisor(const struct vault *vault, uint32_t mapping) {
        return strncmp(vault->mappings[mapping].source, "env:", 4) == 0;
}

/* Only a token endpoint gives it. */
static bool from_nowhere(const struct vault *vault, uint32_t mapping) {
        return strcmp(vault->mappings[mapping].source, "memory") == 0;
}

static int vault_ask(struct vault *vault, uint32_t mapping, struct err *err) {
        vault->read_ns[mapping] = clock_ns();
        if (from_supervisor(vault, mapping) || from_nowhere(vault, mapping))
                return 0;

        return reader_ask(vault->reader, mapping, err);
}

/* When this source is to be read again, since nothing tells that it changed. */
static uint64_t due_ns(const struct vault *vault, uint32_t mapping) {
        const struct vault_mapping *vault_mapping = &vault->mappings[mapping];
        if (vault_mapping->refresh_ns && source_must_be_polled(vault_mapping->source))
                return vault->read_ns[mapping] + vault_mapping->refresh_ns;

        return UINT64_MAX;
}

static int ask_all(struct vault *vault, bool only_due, struct err *err) {
        uint64_t now = clock_ns();
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < vault->start.n_mappings; i++)
                if (!only_due || due_ns(vault, i) <= now)
                        r = vault_ask(vault, i, err);
        return r;
}

static int fail_source(const struct vault *vault, uint32_t mapping, const char *why, struct err *err) {
        char label[SOURCE_LABEL_MAX];
        source_label(vault->mappings[mapping].source, label);
        return err_set(err, ENODATA, "credential '%s' cannot be read from %s: %s", vault->mappings[mapping].name, label,
                       why);
}

/* Stand-ins of before a rotation are recognised for some time, so that they are refused and not sent out. */
static int tell_old_stand_ins(struct vault *vault, struct err *err) {
        for (uint32_t i = 0; i < vault->start.n_mappings; i++)
                for (uint32_t at = 0; at < PARTS * VAULT_OLD_MAX; at++) {
                        cleanup(free_ptr) char *old = NULL;
                        int r = values_old_stand_in(vault->values, i, (enum vault_part)(at % PARTS), 1 + at / PARTS,
                                                    &old, err);
                        if (r < 0)
                                return r;
                        if (!old)
                                continue;

                        const struct vault_message message = { .kind = VAULT_STAND_IN_OLD,
                                                               .mapping = i,
                                                               .data = { str_of(old) } };
                        r = supervisor_tell(vault, &message, err);
                        if (r < 0)
                                return r;
                }

        return 0;
}

/* Everything is there: say what the sandbox is to be given, and serve. */
static int begin_serving(struct vault *vault, struct err *err) {
        int r = values_make_stand_ins(vault->values, err);
        if (r < 0)
                return r;

        r = leaves_new(vault->ca, &vault->leaves, err);
        if (r < 0)
                return r;

        const struct vault_message ca = { .kind = VAULT_CA, .data = { ca_certificate(vault->ca) } };
        r = supervisor_tell(vault, &ca, err);

        for (uint32_t i = 0; i < vault->start.n_mappings; i++)
                for (uint32_t part = 0; r == 0 && part < PARTS; part++) {
                        const struct vault_message message = { .kind = VAULT_STAND_IN,
                                                               .mapping = i,
                                                               .part = part,
                                                               .data = { values_stand_in(vault->values, i,
                                                                                         (enum vault_part)part) } };
                        if (message.data[0].n > 0)
                                r = supervisor_tell(vault, &message, err);
                }

        if (r >= 0)
                r = tell_old_stand_ins(vault, err);
        const struct vault_message ready = { .kind = VAULT_READY };
        if (r < 0)
                return r;
        r = supervisor_tell(vault, &ready, err);
        if (r == 0)
                set_state(vault, SERVING);

        return r;
}

/* All that must have a value has one, and the others were looked at. */
static bool is_opened(const struct vault *vault) {
        uint32_t missing;

        for (uint32_t i = 0; i < vault->start.n_mappings; i++)
                if (!values_has(vault->values, i) && !vault->settled[i] && !from_nowhere(vault, i))
                        return false;
        return values_has_all(vault->values, &missing);
}

static int open_sources(struct vault *vault, struct err *err) {
        set_state(vault, OPENING);

        for (uint32_t i = 0; i < vault->start.n_mappings; i++)
                if (from_supervisor(vault, i) && !values_has(vault->values, i))
                        return fail_source(vault, i, "the variable is not set", err);

        int r = ask_all(vault, false, err);
        if (r == 0 && is_opened(vault))
                r = begin_serving(vault, err);

        return r;
}

/* While opening, every failure ends the vault; later it is only reported. */
static int take_value(struct vault *vault, uint32_t mapping, struct str value, struct err *err) {
        enum value_change change;
        struct err why = { 0 };
        int r = values_set(vault->values, mapping, value, &change, &why);

        if (vault->state != SERVING && r < 0)
                return fail_source(vault, mapping, err_text(&why), err);
        if (vault->state != SERVING)
                return 0;

        if (r < 0) {
                values_drop(vault->values, mapping);
                return tell_changed(vault, mapping, VAULT_CHANGE_GONE, err_text(&why), err);
        }

        if (vault->mappings[mapping].optional)
                return 0; /* renewed every hour or so: nobody needs to be told */

        if (change == VALUE_CHANGED)
                return tell_changed(vault, mapping, VAULT_CHANGE_NEW, "a new value counts now", err);

        return 0;
}

static int take_failure(struct vault *vault, uint32_t mapping, struct str text, struct err *err) {
        char why[400];

        snprintf(why, sizeof why, "%.*s", (int)(text.n < sizeof why ? text.n : sizeof why - 1), text.p);
        if (vault->state != SERVING && vault->mappings[mapping].optional)
                return 0;
        if (vault->state != SERVING)
                return fail_source(vault, mapping, why, err);
        if (source_runs_program(vault->mappings[mapping].source) && values_has(vault->values, mapping))
                return tell_changed(vault, mapping, VAULT_CHANGE_KEPT, why, err);

        if (values_drop(vault->values, mapping))
                return tell_changed(vault, mapping, VAULT_CHANGE_GONE, why, err);

        return 0;
}

static int vault_refuse(int fd, uint64_t id, enum vault_refusal why) {
        const struct vault_message message = { .kind = VAULT_REFUSED, .id = id, .number = why };
        return vault_send(fd, VAULT_TO_GATEWAY, &message, -1);
}

/*
 * Sign-ins that are renewed. One renewal at a time for each: the gateway announces that it will send the refresh token,
 * and gets its turn when nobody else renews it (in other sandboxes, and outside). It ends its turn with the new tokens,
 * and gets its reply once they are in the user's file.
 */
static int answer_turn(const struct turn *turn, enum vault_refusal refused) {
        const struct vault_message message = { .kind = refused ? VAULT_REFUSED : VAULT_RENEWED,
                                               .id = turn->id,
                                               .number = refused };
        if (turn->channel < 0)
                return 0;

        return vault_send(turn->channel, VAULT_TO_GATEWAY, &message, -1);
}

static bool is_in_file(const struct vault *vault, uint32_t mapping) {
        char file[4096];
        renew_file(&vault->mappings[mapping], file);
        return file[0] != '\0' && vault->reader->sock >= 0 && !vault->apart[mapping];
}

static void begin_turn(struct vault *vault, uint32_t leader) {
        struct turn *turn = turns_next(&vault->turns, leader);
        if (!turn)
                return;

        turn->since_ns = clock_ns();

        if (is_in_file(vault, leader)) {
                turn->state = TURN_LOCKING;
                (void)reader_lock(vault->reader, leader, NULL); /* one that is gone is noticed in the loop */
        } else {
                turn->state = TURN_HELD;
                (void)answer_turn(turn, 0);
        }
}

static void end_turn(struct vault *vault, struct turn *turn, bool unlock) {
        uint32_t leader = turn->leader;

        if (unlock && turn->state != TURN_WAITING && is_in_file(vault, leader))
                reader_unlock(vault->reader, leader);
        turns_remove(&vault->turns, turn);
        begin_turn(vault, leader);
}

/* Each value of the answer counts from now on. */
static int take_lines(struct vault *vault, uint32_t leader, struct str lines) {
        struct str line, member;
        int r = 0;

        while (r == 0 && str_split(&lines, '\n', &line)) {
                if (!str_split(&line, ' ', &member) || !line.p)
                        continue;
                for (uint32_t i = 0; r == 0 && i < vault->start.n_mappings; i++) {
                        const struct vault_mapping *mapping = &vault->mappings[i];
                        enum value_change change;

                        if (renew_same_group(mapping, &vault->mappings[leader]) && str_is(member, mapping->answer))
                                r = values_set(vault->values, i, line, &change, NULL);
                }
        }

        return r;
}

static int on_locked(struct vault *vault, uint32_t leader) {
        struct turn *turn = turns_current(&vault->turns, leader);

        if (!turn || turn->state != TURN_LOCKING) {
                reader_unlock(vault->reader, leader); /* the requester has gone */
                return 0;
        }

        turn->state = TURN_HELD;
        turn->since_ns = clock_ns();
        struct str now = values_current(vault->values, leader); /* a gateway that has it already does not ask again */
        if (now.n > 0)
                (void)secret_new(now, &turn->sent, NULL);
        if (answer_turn(turn, 0) < 0)
                end_turn(vault, turn, true);

        return 0;
}

/* The file is written, or could not be: in memory they count in any case, unless the file has newer ones. */
static int on_written(struct vault *vault, uint32_t leader, struct str how, struct err *err) {
        struct turn *turn = turns_current(&vault->turns, leader);
        char why[400];
        int r = 0;

        if (!turn || turn->state != TURN_WRITING)
                return 0;

        why[0] = '\0';
        if (how.n > 0)
                snprintf(why, sizeof why, "%.*s; the new tokens count in this run, and are written when that works",
                         STR_FMT(str_first(how, 299)));
        if (!str_is(how, "newer"))
                r = take_lines(vault, leader, secret_value(turn->lines));

        (void)answer_turn(turn, r < 0 ? VAULT_BROKEN : 0);
        end_turn(vault, turn, false);

        if (str_is(how, "gone"))
                return tell_changed(vault, leader, VAULT_CHANGE_NEW,
                                    "its file is gone; what was renewed is kept for this run only", err);

        if (why[0] && !str_is(how, "newer"))
                return tell_changed(vault, leader, VAULT_CHANGE_NEW, why, err);

        return 0;
}

static int begin_renewal(struct vault *vault, int fd, const struct vault_message *message) {
        enum vault_refusal refused = values_renewable(vault->values, message->mapping, &message->authority);
        struct turn *current = refused ? NULL : turns_current(&vault->turns, message->mapping);

        if (refused)
                return vault_refuse(fd, message->id, refused);
        if (current && current->state == TURN_HELD && clock_ns() - current->since_ns > TURN_NS)
                end_turn(vault, current, true); /* nobody renews for that long */
        if (!turns_add(&vault->turns, fd, message->id, message->mapping))
                return vault_refuse(fd, message->id, VAULT_BROKEN);

        begin_turn(vault, message->mapping);
        return 0;
}

static int keep_renewed(struct vault *vault, int fd, const struct vault_message *message) {
        enum vault_refusal refused = values_renewable(vault->values, message->mapping, &message->authority);
        struct turn *turn = refused ? NULL : turns_current(&vault->turns, message->mapping);

        if (turn && (turn->channel != fd || turn->state != TURN_HELD))
                turn = NULL;
        if (!refused && !turn) /* a new sign-in, or the vault that gave the turn has died */
                turn = turns_add(&vault->turns, fd, message->id, message->mapping);
        if (!turn)
                return vault_refuse(fd, message->id, refused ? refused : VAULT_BROKEN);

        turn->id = message->id;
        turn->state = TURN_WRITING;
        struct str old = turn->sent ? secret_value(turn->sent) : values_current(vault->values, message->mapping);
        bool fresh = message->part == 1 || !is_in_file(vault, message->mapping);
        int r = secret_new(message->data[0], &turn->lines, NULL);
        if (r == 0 && !fresh) {
                if (reader_write(vault->reader, message->mapping, old, message->data[0], message->number, NULL) < 0)
                        return vault_refuse(fd, message->id, VAULT_BROKEN);
                return 0;
        }

        if (r >= 0)
                r = take_lines(vault, message->mapping, message->data[0]);
        (void)answer_turn(turn, r < 0 ? VAULT_BROKEN : 0);
        end_turn(vault, turn, true);

        if (r < 0 || message->part == 0)
                return 0;

        for (uint32_t i = 0; i < vault->start.n_mappings; i++)
                vault->apart[i] |= renew_same_group(&vault->mappings[i], &vault->mappings[message->mapping]);

        return tell_changed(vault, message->mapping, VAULT_CHANGE_NEW,
                            "signed in from inside; kept for this run only, outside nothing has changed", NULL);
}

static int leave_renewal(struct vault *vault, int fd, const struct vault_message *message) {
        struct turn *turn = turns_current(&vault->turns, message->mapping);

        if (turn && turn->channel == fd && turn->state != TURN_WRITING)
                end_turn(vault, turn, true);
        return 0;
}

/* A write in progress is finished; nobody gets a reply. */
static void forget_channel(struct vault *vault, int fd) {
        for (size_t i = vault->turns.n; i-- > 0;) {
                struct turn *turn = &vault->turns.list[i];
                if (turn->channel != fd)
                        continue;

                turn->channel = -1;
                if (turn->state != TURN_WRITING)
                        end_turn(vault, turn, true);
        }
}

static int read_reader(struct vault *vault, struct err *err) {
        struct reading reading;
        int r = reader_receive(vault->reader, vault->start.n_mappings, secret_bytes(vault->room), &reading);
        if (r == -EAGAIN)
                return 0;
        if (r <= 0)
                return err_set(err, ECHILD, "the process that reads the sources of credentials has died");

        if (reading.kind != READ_VALUE) {
                if (reading.kind == READ_LOCKED)
                        r = on_locked(vault, reading.mapping);
                else
                        r = on_written(vault, reading.mapping, reading.text, err);
                secret_wipe(secret_bytes(vault->room), VAULT_MESSAGE_MAX);
                return r;
        }

        vault->settled[reading.mapping] = true;
        if (vault->apart[reading.mapping]) {
                secret_wipe(secret_bytes(vault->room), VAULT_MESSAGE_MAX);
                return 0;
        }

        r = reading.found ? take_value(vault, reading.mapping, reading.text, err)
                          : take_failure(vault, reading.mapping, reading.text, err);
        secret_wipe(secret_bytes(vault->room), VAULT_MESSAGE_MAX);
        if (r == 0 && vault->state == OPENING && is_opened(vault))
                r = begin_serving(vault, err);

        return r;
}

/*
 * From the supervisor.
 */
static int connect_channel(struct vault *vault, int *fd, struct err *err) {
        if (vault->n_channels == CHANNELS_MAX)
                return err_set(err, EMFILE, "more than %d gateways are connected", CHANNELS_MAX);

        int r = fd_set_nonblocking(*fd, true);
        if (r < 0)
                return err_set(err, -r, "a gateway's channel is of no use: %s", strerror(-r));

        const struct vault_message hello = { .kind = VAULT_HELLO };
        if (vault_send(*fd, VAULT_TO_GATEWAY, &hello, values_page(vault->values)) < 0)
                return 0; /* gone already: the descriptor is closed by the caller */

        vault->channels[vault->n_channels++] = take_fd(fd);
        return 0;
}

static int vault_obey(struct vault *vault, const struct vault_message *message, int *fd, struct err *err) {
        bool collecting = vault->state == COLLECTING;

        switch ((enum vault_kind)message->kind) {
        case VAULT_CONNECT:
                return connect_channel(vault, fd, err);
        case VAULT_STOP:
                vault->stop = true;
                return 0;
        case VAULT_RELOAD:
                return vault->state == SERVING ? ask_all(vault, false, err) : 0;
        case VAULT_OPEN:
                return collecting ? open_sources(vault, err) : err_set(err, EPROTO, "told to open twice");
        case VAULT_VARIABLE:
                return reader_variable(vault->reader, message->data[0], err);
        case VAULT_SEED:
                if (!collecting || message->mapping >= vault->start.n_mappings)
                        break;
                values_seed(vault->values, message->mapping, message->number, (const uint8_t *)message->data[0].p);

                return 0;
        case VAULT_STAND_IN_KEPT:
                if (!collecting || message->mapping >= vault->start.n_mappings)
                        break;
                return values_keep_stand_in(vault->values, message->mapping, (enum vault_part)message->part,
                                            message->data[0], err);
        case VAULT_VALUE:
                if (message->mapping >= vault->start.n_mappings || !from_supervisor(vault, message->mapping))
                        break;

                return take_value(vault, message->mapping, message->data[0], err);
        default:
                break;
        }

        return err_set(err, EPROTO, "a message of the supervisor that does not belong here: %s",
                       vault_kind_name((enum vault_kind)message->kind));
}

static int read_control(struct vault *vault, struct err *err) {
        struct vault_message message;
        cleanup(close_fd) int fd = -1;
        int r = vault_receive(vault->control, SUPERVISOR_TO_VAULT, secret_bytes(vault->room), &message, &fd);
        if (r == -EAGAIN)
                return 0;

        if (r == 0) {
                vault->stop = true;
                return 0;
        }

        if (r < 0)
                return err_set(err, EPROTO, "a malformed message from the supervisor");

        r = vault_obey(vault, &message, &fd, err);
        secret_wipe(secret_bytes(vault->room), VAULT_MESSAGE_MAX);

        return r;
}

/*
 * From gateways.
 */
static int answer_sign(struct vault *vault, int fd, const struct vault_message *message) {
        struct str leaf;
        int r = leaves_get(vault->leaves, &message->authority.host, message->data[0], &leaf, NULL);
        if (r < 0)
                return vault_refuse(fd, message->id, r == -EINVAL ? VAULT_BAD_KEY : VAULT_BROKEN);
        const struct vault_message vault_message = { .kind = VAULT_CERTIFICATE, .id = message->id, .data = { leaf } };
        return vault_send(fd, VAULT_TO_GATEWAY, &vault_message, -1);
}

static int answer_release(struct vault *vault, int fd, const struct vault_message *message) {
        struct str value = { 0 };
        enum vault_refusal refused = values_release(vault->values, message->mapping, &message->authority, &value);
        if (refused)
                return vault_refuse(fd, message->id, refused);

        struct turn *renews = turns_current(&vault->turns, message->mapping);
        if (renews && renews->channel == fd && renews->state == TURN_HELD) {
                secret_free(take_ptr(&renews->sent));
                if (secret_new(value, &renews->sent, NULL) < 0)
                        return vault_refuse(fd, message->id, VAULT_BROKEN);
        }

        const struct vault_message vault_message = { .kind = VAULT_SECRET,
                                                     .id = message->id,
                                                     .number = values_serial(vault->values, message->mapping),
                                                     .data = { value } };
        return vault_send(fd, VAULT_TO_GATEWAY, &vault_message, -1);
}

static int answer_sigv4(struct vault *vault, int fd, const struct vault_message *message) {
        struct str id = { 0 }, token = { 0 };
        uint8_t key[VAULT_DIGEST_BYTES];
        enum vault_refusal refused =
            values_signing_key(vault->values, message->mapping, &message->authority, message->data[0], message->data[1],
                               message->data[2], &id, key, &token);
        if (refused)
                return vault_refuse(fd, message->id, refused);

        const struct vault_message vault_message = { .kind = VAULT_SIGNING_KEY,
                                                     .id = message->id,
                                                     .number = values_serial(vault->values, message->mapping),
                                                     .data = { id, str_n(key, sizeof key), token } };
        int r = vault_send(fd, VAULT_TO_GATEWAY, &vault_message, -1);
        secret_wipe(key, sizeof key);

        return r;
}

/* The origin refused the value: perhaps there is a newer one. */
static int on_stale(struct vault *vault, const struct vault_message *message) {
        uint64_t now = clock_ns();
        if (message->mapping >= vault->start.n_mappings ||
            message->number != values_serial(vault->values, message->mapping) ||
            now - vault->read_ns[message->mapping] < STALE_NS)
                return 0;
        (void)vault_ask(vault, message->mapping, NULL); /* a reader that is gone is noticed in the loop */
        return 0;
}

static int vault_answer(struct vault *vault, int fd, const struct vault_message *message) {
        switch ((enum vault_kind)message->kind) {
        case VAULT_SIGN:
                return answer_sign(vault, fd, message);
        case VAULT_RELEASE:
                return answer_release(vault, fd, message);
        case VAULT_SIGV4:
                return answer_sigv4(vault, fd, message);
        case VAULT_RENEW:
                return begin_renewal(vault, fd, message);
        case VAULT_KEEP:
                return keep_renewed(vault, fd, message);
        case VAULT_LEAVE:
                return leave_renewal(vault, fd, message);
        default:
                return on_stale(vault, message);
        }
}

static bool has_room(int fd) {
        struct pollfd pollfd = { .fd = fd, .events = POLLOUT };
        return poll(&pollfd, 1, 0) == 1 && (pollfd.revents & POLLOUT);
}

/* False: this channel is over. */
static bool read_channel(struct vault *vault, int fd) {
        for (int i = 0; i < REQUESTS_AT_ONCE && has_room(fd); i++) {
                struct vault_message message;
                cleanup(close_fd) int extra = -1;
                int r = vault_receive(fd, GATEWAY_TO_VAULT, secret_bytes(vault->room), &message, &extra);
                if (r == -EAGAIN)
                        return true;
                if (r == -EBADMSG)
                        log_warning("a gateway sent a malformed message; its channel is closed");

                if (r <= 0)
                        r = -EPIPE;
                else
                        r = vault_answer(vault, fd, &message);
                secret_wipe(secret_bytes(vault->room), VAULT_MESSAGE_MAX);
                if (r < 0)
                        return false;
        }

        return true;
}

/*
 * The loop.
 */
static int time_left(const struct vault *vault) {
        uint64_t now = clock_ns(), next = UINT64_MAX;
        for (uint32_t i = 0; vault->state == SERVING && i < vault->start.n_mappings; i++)
                next = due_ns(vault, i) < next ? due_ns(vault, i) : next;
        if (next == UINT64_MAX)
                return -1;
        uint64_t left = next > now ? (next - now) / NS_PER_MS + 1 : 0;
        return left > 1000000 ? 1000000 : (int)left;
}

static size_t vault_watch(const struct vault *vault, struct pollfd *fds) {
        fds[0] = (struct pollfd){ .fd = vault->control, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = vault->reader->sock, .events = POLLIN };

        for (size_t i = 0; i < vault->n_channels; i++) {
                struct pollfd *channel = &fds[2 + i];

                *channel = (struct pollfd){ .fd = -1, .events = POLLOUT };
                if (vault->state == SERVING)
                        channel->fd = vault->channels[i];
                if (has_room(vault->channels[i]))
                        channel->events = POLLIN;
        }

        return 2 + vault->n_channels;
}

static void serve_channels(struct vault *vault, const struct pollfd *fds, size_t n) {
        size_t left = 0;

        for (size_t i = 0; i < vault->n_channels; i++) {
                bool open = i >= n || !fds[i].revents || read_channel(vault, vault->channels[i]);
                if (open)
                        vault->channels[left++] = vault->channels[i];
                else {
                        forget_channel(vault, vault->channels[i]);
                        close(vault->channels[i]);
                }
        }

        vault->n_channels = left;
}

/* If nothing comes for a while, it gives back what it does not need at rest. */
static int vault_wait(struct vault *vault, struct pollfd *fds, size_t n) {
        int left = time_left(vault);
        bool tires = !vault->rests && (left < 0 || left > REST_AFTER_MS);
        int r = poll(fds, n, tires ? REST_AFTER_MS : left);

        if (r == 0 && tires) {
                process_rest();
                vault->rests = true;
        } else if (r > 0) {
                vault->rests = false;
        }

        return r;
}

static int vault_turn(struct vault *vault, struct err *err) {
        struct pollfd fds[2 + CHANNELS_MAX];
        size_t n = vault_watch(vault, fds);

        if (vault_wait(vault, fds, n) < 0 && errno != EINTR)
                return err_errno(err, "cannot wait");

        int r = 0;

        /* A change that was announced before a request is in force for it. */
        if (fds[1].revents)
                r = read_reader(vault, err);

        serve_channels(vault, fds + 2, n - 2);
        if (r == 0 && fds[0].revents)
                r = read_control(vault, err);
        if (r == 0 && vault->state == SERVING)
                r = ask_all(vault, true, err);

        return r;
}

int vault_run(struct vault *vault, struct err *err) {
        int r = 0;
        while (r == 0 && !vault->stop)
                r = vault_turn(vault, err);

        if (r < 0) {
                char text[ERR_TEXT_MAX];

                snprintf(text, sizeof text, "%.700s", err_text(err));
                vault_printable(text);
                const struct vault_message message = { .kind = VAULT_FAILED, .data = { str_of(text) } };
                (void)supervisor_tell(vault, &message, NULL);
        }

        return r;
}

int vault_new(const struct vault_start *start, struct vault_mapping *mappings, int control, int keep,
              const struct reader *reader, struct vault **ret, struct err *err) {
        cleanup(vault_freep) struct vault *v = calloc(1, sizeof *v);
        if (!v) {
                free(mappings);
                return err_set(err, ENOMEM, "no memory for the vault");
        }

        *v = (struct vault){ .start = *start, .mappings = mappings, .control = control, .reader = reader };
        int r = fd_set_nonblocking(control, true);
        if (r < 0)
                return err_set(err, -r, "the control socket cannot be made non-blocking");

        r = secret_new_empty(VAULT_MESSAGE_MAX, &v->room, err);
        if (r >= 0)
                r = values_new(mappings, start->n_mappings, &v->values, err);
        if (r == 0 && start->ca_dir[0])
                r = ca_open(start->ca_dir, (enum vault_ca)start->ca, "egress", &v->ca, err);
        else if (r == 0)
                r = ca_keep(keep, (enum vault_ca)start->ca, start->sandbox_id, &v->ca, err);

        if (r == 0)
                *ret = take_ptr(&v);

        return r;
}

void vault_free(struct vault *vault) {
        if (!vault)
                return;

        for (size_t i = 0; i < vault->n_channels; i++)
                close(vault->channels[i]);

        while (vault->turns.n > 0)
                turns_remove(&vault->turns, &vault->turns.list[vault->turns.n - 1]);

        leaves_free(vault->leaves);
        ca_free(vault->ca);
        values_free(vault->values);
        secret_free(vault->room);
        free(vault->mappings);
        free(vault);
}

void vault_freep(struct vault **vault) {
        vault_free(*vault);
}
