/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a pairing: a listener on one address of the local network, opened when a person asks for it and closed
 * with the pairing. The address behind a connection is judged before a byte of it is read; then the door
 * (ipc/door_messages.h) speaks TLS with it, and what comes out is a connection like the browser's, marked as the
 * device's. The device's answers go to the sandboxes over control connections of their own, so that the record says who
 * answered.
 *
 * The local network is hostile: its connections have a small share of the places, little time without a session, and a
 * limited number of lines in the record.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/secrets/secret.h"
#include "ui/ui_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEVICE_CONNECTIONS_MAX = 16, DEVICE_CONNECTIONS_EACH = 8, NOTES_MAX = 200 };
#define FAREWELL_NS (300 * NS_PER_MS)

union any_address {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

static const char *address_text(const union any_address *address, char ret[static PAIRING_HOST_MAX]) {
        const void *bytes = address->any.sa_family == AF_INET6 ? (const void *)&address->six.sin6_addr
                                                               : (const void *)&address->four.sin_addr;

        if (!inet_ntop(address->any.sa_family, bytes, ret, PAIRING_HOST_MAX))
                snprintf(ret, PAIRING_HOST_MAX, "?");
        return ret;
}

/* Which of ours leads outside: the kernel says it of a socket that is connected, and nothing is sent for that. */
static int address_find(union any_address *ret, struct err *err) {
        cleanup(close_fd) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in outside = { .sin_family = AF_INET, .sin_port = htons(9) };
        socklen_t n = sizeof ret->four;

        inet_pton(AF_INET, "192.0.2.1", &outside.sin_addr);

        if (fd < 0 || connect(fd, (struct sockaddr *)&outside, sizeof outside) < 0 ||
            getsockname(fd, &ret->any, &n) < 0)
                return err_set(err, EADDRNOTAVAIL,
                               "this computer has no address on a network that is known to lead anywhere: name the "
                               "one that the phone can reach with --pair-address");

        ret->four.sin_port = 0;
        return 0;
}

static int address_parse(const char *text, union any_address *ret, struct err *err) {
        *ret = (union any_address){ 0 };
        if (!text || !*text)
                return address_find(ret, err);

        if (inet_pton(AF_INET, text, &ret->four.sin_addr) == 1) {
                ret->any.sa_family = AF_INET;
                if (ret->four.sin_addr.s_addr != INADDR_ANY)
                        return 0;
        } else if (inet_pton(AF_INET6, text, &ret->six.sin6_addr) == 1) {
                ret->any.sa_family = AF_INET6;
                if (!IN6_IS_ADDR_UNSPECIFIED(&ret->six.sin6_addr) && !IN6_IS_ADDR_LINKLOCAL(&ret->six.sin6_addr))
                        return 0;
        }

        return err_set(err, EINVAL, "%s is not one address of this computer that a phone could reach", text);
}

int ui_check_pair(const struct ui_pair *pair, struct err *err) {
        union any_address ignored;

        if (pair->address)
                return address_parse(pair->address, &ignored, err);

        return 0;
}

static int pair_listen(struct ui *ui, union any_address *address, struct err *err) {
        cleanup(close_fd) int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        socklen_t n = address->any.sa_family == AF_INET6 ? sizeof address->six : sizeof address->four;
        char text[PAIRING_HOST_MAX];
        int on = 1;

        if (fd < 0)
                return err_errno(err, "cannot make a socket");

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only a little slower without */

        if (bind(fd, &address->any, n) < 0 || listen(fd, DEVICE_CONNECTIONS_MAX) < 0 ||
            getsockname(fd, &address->any, &n) < 0)
                return err_errno(err, "cannot listen on %s", address_text(address, text));

        ui->pair.listener = take_fd(&fd);
        return 0;
}

static void pair_tell(struct ui *ui, enum pair_event event, const char *text) {
        const struct ui_pair *asked = ui->settings->pair;

        if (ui->pair.caller)
                caller_tell(ui->pair.caller, event, text);
        else if (asked)
                asked->on_event(asked->arg, event, text);
        ui_publish(ui, STR("{\"event\":\"pairing\"}"));
}

int pair_begin(struct ui *ui, const struct ui_pair *asked, struct caller *caller, struct err *err) {
        cleanup(free_ptr) char *link = NULL;
        unsigned char digest[DOOR_DIGEST_BYTES];
        union any_address address;
        char text[PAIRING_HOST_MAX], bare[PAIRING_HOST_MAX], host[PAIRING_HOST_MAX];
        int r;

        if (ui->pair.pairing.until_ns)
                return err_set(err, EBUSY, "a pairing is open already: end it first");

        r = address_parse(asked->address, &address, err);
        if (r < 0)
                return r;

        r = pair_listen(ui, &address, err);
        if (r < 0)
                return r;

        address_text(&address, bare);
        bool six = address.any.sa_family == AF_INET6;
        snprintf(text, sizeof text, six ? "[%.50s]" : "%.50s", bare);
        snprintf(host, sizeof host, "%.55s:%u", text, ntohs(six ? address.six.sin6_port : address.four.sin_port));
        r = door_process_start(text, asked->seconds, &ui->pair.door, digest, err);
        if (r < 0) {
                close_fd(&ui->pair.listener);
                return r;
        }

        pairing_begin(&ui->pair.pairing, digest, host, clock_ns(), asked->seconds);
        ui->pair.until_us = clock_wall_us() + asked->seconds * 1000000;
        ui->pair.caller = caller;
        ui->pair.notes = 0;
        ui_note(ui, "a pairing begins on %s, for %ju seconds at most", host, (uintmax_t)asked->seconds);
        link = pairing_link(&ui->pair.pairing);
        pair_tell(ui, PAIR_LINK, text_or(link, ""));

        return 0;
}

void pair_end(struct ui *ui, const char *why) {
        if (!ui->pair.pairing.until_ns)
                return;

        close_fd(&ui->pair.listener);
        door_process_stop(&ui->pair.door);

        for (size_t i = 0; i < ui->connections.n; i++)
                if (ui->connections.p[i]->device[0])
                        close_fd(&ui->connections.p[i]->fd);

        for (size_t i = 0; i < ui->peers.n; i++)
                ui->peers.p[i]->gone = ui->peers.p[i]->gone || ui->peers.p[i]->kind == PEER_DEVICE;

        pairing_wipe(&ui->pair.pairing);
        ui_note(ui, "the pairing ends: %s", why);
        pair_tell(ui, PAIR_ENDED, why);

        if (ui->pair.caller)
                close_fd(&ui->pair.caller->fd);

        ui->pair.caller = NULL;
        ui->pair.ending = NULL;
}

void pair_caller_left(struct ui *ui, const struct caller *caller) {
        if (ui->pair.caller != caller)
                return;
        ui->pair.caller->fd = -1;
        pair_end(ui, "it was interrupted");
}

void pair_tick(struct ui *ui) {
        uint64_t now = clock_ns();
        const char *why =
            ui->pair.ending && now >= ui->pair.ending_ns ? ui->pair.ending : pairing_over(&ui->pair.pairing, now);

        if (why)
                pair_end(ui, why);
}

/* Nobody on the network can fill the disk or the reader's day. */
void pair_note(struct ui *ui, const char *format, ...) {
        char text[512];
        va_list args;

        if (ui->pair.notes > NOTES_MAX)
                return;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);

        if (ui->pair.notes++ < NOTES_MAX)
                ui_note(ui, "%s", text);
        else
                ui_note(ui, "more is refused on the pairing's address and not recorded one by one");
}

/*
 * Connections.
 */
static bool pair_has_room(const struct ui *ui, const char *device) {
        size_t all = 0, same = 0;

        for (size_t i = 0; i < ui->connections.n; i++) {
                const struct connection *connection = ui->connections.p[i];

                all += connection->device[0] != '\0';
                same += strcmp(connection->device, device) == 0;
        }

        return all < DEVICE_CONNECTIONS_MAX && same < DEVICE_CONNECTIONS_EACH;
}

static void pair_take(struct ui *ui, int fd, const union any_address *address) {
        char device[PAIRING_HOST_MAX];
        int plain;

        address_text(address, device);

        if (!pairing_takes(&ui->pair.pairing, device)) {
                pair_note(ui, "refused a connection from %s: another device is paired", device);
                return;
        }

        if (!pair_has_room(ui, device)) {
                pair_note(ui, "refused a connection from %s: it has too many", device);
                return;
        }

        if (door_process_hand(&ui->pair.door, fd, &plain) < 0) {
                ui->pair.ending = "the process that speaks TLS with the phone is gone";
                return;
        }

        connection_open(ui, plain, device);
}

void pair_accept(struct ui *ui) {
        for (int i = 0; i < DEVICE_CONNECTIONS_MAX; i++) {
                union any_address address = { 0 };
                socklen_t n = sizeof address;
                cleanup(close_fd) int fd = accept4(ui->pair.listener, &address.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0)
                        return;

                pair_take(ui, fd, &address);
        }
}

/*
 * Requests.
 */
void pair_open_session(struct ui *ui, const struct ui_request *request, const struct node *body) {
        cleanup(buf_done) struct buf out = BUF(1024);
        struct emit j = emit_to(&out);
        struct pairing *pairing = &ui->pair.pairing;
        const char *key = control_text(body, "key"), *certificate = control_text(body, "certificate"),
                   *device = request->connection->device;
        char cookie[192];
        enum pairing_result result =
            pairing_exchange(pairing, str_of(text_or(key, "")), str_of(text_or(certificate, "")), device, clock_ns());

        if (result != PAIRING_DONE) {
                pair_note(ui, "refused the link of the pairing from %s: %s", device, pairing_text(result));
                connection_fault(request->connection, 403, pairing_text(result));
                return;
        }

        ui_note(ui, "paired with %s", device);
        watch_look(ui);
        emit_open(&j, '{');
        emit_put_text(&j, "page", pairing->session.header);
        emit_close(&j);
        snprintf(cookie, sizeof cookie,
                 "Set-Cookie: " GATE_DEVICE_COOKIE "=%s; Secure; HttpOnly; SameSite=Strict; Path=/\r\n",
                 pairing->session.cookie);
        connection_reply(request->connection, 200, "application/json", buf_str(&out), cookie);
        pair_tell(ui, PAIR_PAIRED, device);
}

/* From the device's page, or from the browser's. The session ends at once, the connection when the reply is out. */
void pair_stop(struct ui *ui, const struct ui_request *request, const struct node *body) {
        (void)body;
        connection_reply(request->connection, 200, "application/json", STR("{}"), NULL);
        ui->pair.ending = request->connection->device[0] ? "the device ended it" : "it was ended in the dashboard";
        ui->pair.ending_ns = clock_ns() + FAREWELL_NS;
        secret_wipe(&ui->pair.pairing.session, sizeof ui->pair.pairing.session);
}

void pair_emit(const struct ui *ui, bool for_device, struct emit *json) {
        const struct pairing *pairing = &ui->pair.pairing;
        char until[CLOCK_TEXT_MAX];

        clock_text(ui->pair.until_us, until);
        emit_put_bool(json, "device", for_device);
        emit_key(json, "pairing");
        emit_open(json, '{');
        emit_put_bool(json, "open", pairing->until_ns != 0);
        emit_put_text(json, "device", pairing->device[0] ? pairing->device : NULL);
        emit_put_text(json, "until", pairing->until_ns ? until : NULL);
        emit_put_text(json, "certificate", pairing->until_ns ? pairing->certificate : NULL);
        emit_close(json);
}

bool pair_allows(struct str path, bool post) {
        static const char *const shown[] = { "/api/state", "/api/events" };
        static const char *const done[] = { "/api/act", "/api/pairing/end" };

        for (size_t i = 0; i < 2; i++)
                if (str_is(path, post ? done[i] : shown[i]))
                        return true;
        return false;
}
