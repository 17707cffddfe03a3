/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Parts: ui.c (life, loop), connection.c (HTTP), ui_gate.c (who is let in), links.c (one-time links and sessions),
 * callers.c (other `bailey ui`), pairing.c and pair.c (a phone), routes.c (requests), history.c (answers from the
 * index), overlay_view.c, watch.c (the sandboxes), silent.c (answers while nobody wants to be asked), tool.c (verbs in
 * children).
 *
 * One thread, one poll(). Nothing waits: a request whose response comes later (from a sandbox, from a child) has a
 * ticket. The response goes to the ticket, whether its connection still lives or not.
 */
#include "base/buf.h"
#include "base/emit.h"
#include "base/vec.h"
#include "control/client.h"
#include "gateway/wire/http1.h"
#include "roles/door_process.h"
#include "store/audit.h"
#include "store/audit_index.h"
#include "ui/pairing.h"
#include "ui/ring.h"
#include "ui/ui.h"
#include "ui/ui_gate.h"

#include <poll.h>

enum {
        UI_BODY_MAX = 65536,
        UI_REPLY_MAX = 36 << 20,
        UI_CONNECTIONS_MAX = 64,
        UI_LINKS_MAX = 4,
        UI_CALLERS_MAX = 8,
        UI_POLL_MAX = 512,
        UI_TOOLS_MAX = 8
};

struct connection {
        int fd;
        struct buf in, out;
        size_t sent;
        uint64_t ticket;      /* 0: none; a reply is awaited */
        uint64_t deadline_ns; /* ends when nothing happens until then */
        bool stream;          /* of events, from `event` on */
        uint64_t event;
        bool closing;
        bool known;                    /* a request of it had a session */
        char device[PAIRING_HOST_MAX]; /* where it comes from when it is a paired device's, or one that wants to be; ""
                                        */
};

/* Another `bailey ui`. */
struct caller {
        int fd;
        struct buf in;
        uint64_t deadline_ns;
};

/* Somebody waits for the reply to a request. */
struct peer_waiting {
        uint64_t id, ticket;
};

/* A control connection to one sandbox. Who only answers has one of his own, since the record names it. */
enum peer_kind { PEER_PAGE, PEER_SILENT, PEER_DEVICE };
struct peer {
        struct control_client client;
        enum peer_kind kind;
        bool gone;
        struct buf status, pending, rules; /* the latest replies, as JSON */
        char *audit;                       /* where its log is */
        uint64_t status_id, pending_id, rules_id, status_ns;
        VEC(struct peer_waiting) waiting;
};

/* What silent mode allowed. */
struct silent_host {
        char *host;
        uint64_t count;
};

/* A verb in a child. */
struct tool {
        int pid, out, errors;
        uint64_t ticket, deadline_ns;
        struct buf text, error_text;
        const char *type; /* of the reply */
};

struct ui {
        const struct ui_settings *settings;
        uint16_t port;
        int listener, caller_listener, signals, places; /* places: the directory of control sockets is watched */
        char *caller_path;
        struct {
                char key[UI_KEY_MAX];
                uint64_t until_ns;
        } links[UI_LINKS_MAX];
        struct gate_session sessions[UI_SESSIONS_MAX];
        size_t next_session;

        struct {
                struct pairing pairing;
                int listener;
                struct door_process door;
                struct caller *caller; /* who asked for it; NULL: this process itself did */
                const char *ending;    /* it ends in a moment, for this reason; the last reply goes out before */
                uint64_t ending_ns, until_us;
                unsigned notes;
        } pair;

        VEC(struct connection *) connections;
        VEC(struct caller *) callers;
        VEC(struct peer *) peers;
        VEC(struct tool *) tools;
        struct ring ring;
        char epoch[16]; /* events are numbered within it */
        struct audit *audit;
        struct audit_index *index;
        uint64_t last_ticket, look_ns, index_look_ns;
        bool indexing;
        struct {
                uint64_t until_us; /* 0: off */
                VEC(struct silent_host) hosts;
        } silent;
        bool ended;
};

/* One request that was let in. */
struct ui_request {
        struct str path, query, body;
        bool post;
        struct connection *connection;
};

/* connection.c */
void connection_open(struct ui *ui, int fd, const char *device);
void connection_free(struct connection *connection);
void connection_step(struct ui *ui, struct connection *connection, short events);
void connection_pump(struct ui *ui, struct connection *connection); /* events for a stream, bytes for the socket */
void connection_reply(struct connection *connection, unsigned status, const char *type, struct str body,
                      const char *more_headers);
void connection_fault(struct connection *connection, unsigned status, const char *text);
/* A reply to the request with this ticket. */
void ui_reply(struct ui *ui, uint64_t ticket, unsigned status, const char *type, struct str body);
void ui_reply_fault(struct ui *ui, uint64_t ticket, unsigned status, const char *text);
uint64_t ui_ticket(struct ui *ui, struct connection *connection);

/* links.c */
int links_make(struct ui *ui, char **ret);
/* The link's key is worth a session, once. */
struct gate_session *links_exchange(struct ui *ui, struct str key);

/* callers.c */
int callers_listen(struct ui *ui, struct err *err);
void callers_accept(struct ui *ui);
void callers_sweep(struct ui *ui);
void caller_step(struct ui *ui, struct caller *caller);
void caller_tell(const struct caller *caller, enum pair_event event, const char *text);
void caller_free(struct caller *caller);

/* pair.c */
int pair_begin(struct ui *ui, const struct ui_pair *asked, struct caller *caller, struct err *err);
void pair_end(struct ui *ui, const char *why);
void pair_tick(struct ui *ui);
void pair_accept(struct ui *ui);
void pair_caller_left(struct ui *ui, const struct caller *caller);
void pair_open_session(struct ui *ui, const struct ui_request *request, const struct node *body);
void pair_stop(struct ui *ui, const struct ui_request *request, const struct node *body);
void pair_emit(const struct ui *ui, bool for_device, struct emit *json);
/* What a device may ask for. */
bool pair_allows(struct str path, bool post);
__attribute__((format(printf, 2, 3))) void pair_note(struct ui *ui, const char *format, ...);

/* routes.c */
void routes_dispatch(struct ui *ui, const struct ui_request *request);
/* A parameter of the query, decoded; NULL when it is missing or malformed. The text lives in `into`. */
const char *query_get(struct str query, const char *name, struct buf *into);

/* history.c, overlay_view.c */
void history_records(struct ui *ui, const struct ui_request *request);
void history_sums(struct ui *ui, const struct ui_request *request, enum audit_sums what);
void overlay_view_list(struct ui *ui, const struct ui_request *request);
void overlay_view_file(struct ui *ui, const struct ui_request *request);

/* watch.c */
void watch_look(struct ui *ui);
void watch_step(struct ui *ui, struct peer *peer);
int watch_connect(struct ui *ui, const char *id, enum peer_kind kind);
void watch_sweep(struct ui *ui);
/* Sends the request; its reply goes to the ticket (0: to nobody). */
int watch_send(struct peer *peer, struct control_request *request, uint64_t ticket);
struct peer *watch_find(struct ui *ui, const char *id, enum peer_kind kind);
void watch_emit_state(struct ui *ui, bool with_rules, struct emit *json);
void peer_free(struct peer *peer);
void ui_publish(struct ui *ui, struct str text);

/* silent.c */
void silent_begin(struct ui *ui, uint64_t minutes);
void silent_end(struct ui *ui, const char *why);
void silent_tick(struct ui *ui);
void silent_message(struct ui *ui, struct peer *peer, const struct control_message *message);
void silent_emit(const struct ui *ui, struct emit *json);
void silent_done(struct ui *ui);

/* tool.c */
void tool_start(struct ui *ui, const struct ui_request *request, const char *const *words, const char *type);
void tool_step(struct ui *ui, struct tool *tool);
void tool_free(struct tool *tool);

/* ui.c */
__attribute__((format(printf, 2, 3))) void ui_note(struct ui *ui, const char *format, ...);

/* The page: made from web/ while building. */
struct ui_asset {
        const char *path, *type;
        const unsigned char *bytes;
        size_t n;
};
extern const struct ui_asset ui_assets[];
extern const size_t n_ui_assets;
