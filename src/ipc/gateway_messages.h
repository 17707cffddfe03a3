/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Between supervisor and gateway. bailey-gateway is started with descriptors only, no arguments that matter:
 *
 *   fd 3  start block: a sealed anonymous file holding struct gateway_start
 *   fd 4  control: SOCK_SEQPACKET, both ways, struct ipc_message (descriptors attached where noted)
 *   fd 5  events: SOCK_SEQPACKET, gateway to supervisor, batches of ipc/event.h records, non-blocking
 *   fd 6  policy snapshot, sealed
 *   fd 7+ listeners, in the order of gateway_start.listeners
 *   then, with gateway_start.intercept, the credential table (ipc/credentials.h), sealed, and n_vaults connections
 *         to the vault (ipc/vault_messages.h), one per worker in their order
 *
 * Either side takes a malformed message as the other's failure: the supervisor ends the gateway, the gateway ends
 * itself.
 *
 * The supervisor closing its end of the control socket means stop at once. When the events socket is full, the gateway
 * queues a bounded number of records. Then it refuses new work (REASON_AUDIT) until the queue drains: nothing happens
 * unrecorded.
 */
#include "base/err.h"
#include "base/str.h"
#include "policy/judge/verdict.h"
#include "policy/match/host.h"
#include "policy/policy.h"

#define IPC_VERSION 1
enum { GATEWAY_FD_START = 3, GATEWAY_FD_CONTROL, GATEWAY_FD_EVENTS, GATEWAY_FD_SNAPSHOT, GATEWAY_FD_LISTENERS };

enum listener_kind {
        LISTENER_HTTP,
        LISTENER_SOCKS5,
        LISTENER_DNS_UDP,
        LISTENER_DNS_TCP,
        LISTENER_TRANSPARENT, /* TCP redirected by nft: SO_ORIGINAL_DST */
        LISTENER_FORWARD,     /* a host loopback port offered inside, or a sandbox port published outside */
        LISTENER_API,         /* the API proxy: /NAME/PATH for the credential NAME */
        LISTENER_PACKETS,     /* netlink: what the sandbox's network namespace refused (gateway/refused_packets.h) */
        LISTENER_SHIM,        /* a Unix socket: what stands for ssh and gpg inside (bridge/ssh_message.h) */
        LISTENER_AGENT,       /* a Unix socket: the ssh-agent inside */
        LISTENER_HANDED, /* SOCK_SEQPACKET: connections that the supervisor's side accepted, one descriptor each; HTTP
                          */
        LISTENER_KINDS
};
#define GATEWAY_LISTENERS_MAX 32
#define GATEWAY_WORKERS_MAX 64

struct gateway_listener {
        uint16_t kind;
        uint16_t forward_port; /* LISTENER_FORWARD: dial 127.0.0.1:port on the gateway's side */
};

enum dns_mode { DNS_SYNTHETIC, DNS_REAL, DNS_MODES };
enum upstream_kind { UPSTREAM_NONE, UPSTREAM_HTTP, UPSTREAM_SOCKS5, UPSTREAM_KINDS };
#define GATEWAY_SERVERS_MAX 8
#define GATEWAY_CLIENTS_MAX 16

struct gateway_server {
        struct addr addr;
        uint16_t port;
};

/* Fixed size, native byte order (both ends are the same build; `version` and `size` are checked). */
struct gateway_start {
        uint32_t version, size;
        uint32_t workers;    /* 0: number of processors */
        uint32_t generation; /* of the first snapshot */
        uint32_t audit;      /* 1: the audit can be written, as IPC_AUDIT */
        uint32_t intercept;  /* 1: there is a vault, so TLS can be opened where credentials or rules ask for it */
        uint32_t waits;      /* 1: started ahead; it accepts nothing before IPC_GO */
        uint32_t n_vaults;   /* `workers`, or 0 while no vault runs: IPC_VAULT brings it */
        uint32_t n_listeners;
        struct gateway_listener listeners[GATEWAY_LISTENERS_MAX];
        uint32_t n_clients; /* networks of the clients that it is for; 0: anyone who can reach a listener */
        struct cidr clients[GATEWAY_CLIENTS_MAX];
        uint32_t dns_mode;    /* enum dns_mode */
        uint32_t can_ask;     /* DECISION_ASK is held and sent as IPC_ASK; else refused */
        uint32_t ask_signing; /* 1: a person must agree to each signature */
        uint64_t ask_timeout_ns, connect_ns, header_ns, idle_ns, tunnel_idle_ns;
        uint64_t body_bytes, bytes_out_per_host, bytes_out;
        uint32_t header_bytes, connections, connections_per_second;
        uint32_t n_servers; /* upstream resolvers; 0: those of /etc/resolv.conf */
        struct gateway_server servers[GATEWAY_SERVERS_MAX];
        uint32_t upstream_kind; /* enum upstream_kind; HTTP means its CONNECT */
        uint32_t log_level;
        struct authority upstream;
        char upstream_user[256], upstream_password[256];
        char client_secret[PROXY_SECRET_MAX +
                           1];      /* every client must bring it (gateway/wire/proxy_auth.h); "": none does */
        char upstream_bypass[4096]; /* patterns, comma-separated */
        char ca_bundle[4096];       /* PEM file with roots besides the system's, "" for none */
        char hosts_file[4096];      /* static names for tests and overrides, "" for none: "address name..." lines */
        char sandbox_id[32];
};

/* A client's own words about its request, from CONNECT's header bailey-ask; text of IPC_ASK. A reason ("because
 * WORDS"), or, at this name, which no host can have, what it wants beside hosts ("wants N KIND WHAT WORDS": N bytes are
 * KIND and WHAT). */
#define ASK_BECAUSE "because "
#define ASK_WANTS "wants "
#define ASK_AGREED "agreed " /* the same, to learn whether it was agreed to; nobody is asked */
#define ASK_ACCESS_NAME "access.bailey.invalid"
/* Text of IPC_ASK: the host is a trigger of a ratchet (policy/judge/ratchet.h). Nobody is asked; the answer comes when
 * the ratchet has closed and nothing is judged by wider rules any more. */
#define ASK_RATCHET "ratchet"

enum ipc_kind {
        /* supervisor to gateway */
        IPC_SNAPSHOT = 1,   /* one descriptor: judge by this from now on; `number` is its generation */
        IPC_AUDIT,          /* number 1: the audit can be written; 0: it cannot, refuse new work */
        IPC_ANSWER,         /* id of a question; number: DECISION_ALLOW or DECISION_DENY */
        IPC_STOP,           /* finish: accept nothing more, end what is open, exit */
        IPC_VAULT,          /* one descriptor: the vault, for worker `number`; it replaces the one before */
        IPC_LIMITS,         /* one descriptor: a start block; its limits count for what begins from now on */
        IPC_PROGRAM_FD,     /* id of a program, one descriptor; number: enum ipc_program_fd */
        IPC_PROGRAM_STATUS, /* id; number: its exit status, or IPC_PROGRAM_NOT_RUN, _REFUSED: it was not started, text
                               says why */
        IPC_GO,             /* to one that was started ahead: accept from now on */
        /* gateway to supervisor */
        IPC_READY,   /* confined and accepting, or waiting for IPC_GO */
        IPC_SWAPPED, /* number: the generation that judges now; tunnels that it refuses are closed */
        IPC_ASK, /* id, authority, number: enum event_via; text: about what at it, "" the host itself. Hold it, ask a
                    person, IPC_ANSWER */
        IPC_ASK_GONE, /* id: nobody waits for the answer any more; number 1: it did not come in time */
        IPC_FAILED,   /* text says why; the gateway ends */
        IPC_SSH,  /* id, authority, text (bridge/ssh_command.h): run the host's ssh; IPC_PROGRAM_FD, _STATUS follow */
        IPC_TOOL, /* id, number: enum ipc_tool, text: the same for another program */
        IPC_PROGRAM_GONE, /* id: nobody needs it any more */
        IPC_KINDS
};

/* Programs of the host, which the supervisor starts when the gateway has judged that they may. */
enum ipc_tool {
        IPC_TOOL_GPG,   /* text: the key */
        IPC_TOOL_AGENT, /* the user's ssh-agent: connected to, not started */
        IPC_TOOLS
};
enum ipc_program_fd {
        IPC_PROGRAM_FD_STDIO,  /* its input and output, one socket */
        IPC_PROGRAM_FD_ERRORS, /* what it says to people; comes first */
        IPC_PROGRAM_FD_TABLE,  /* of the agent: keys and hosts (bridge/agent_keys.h), sealed; comes first */
        IPC_PROGRAM_FDS
};
enum { IPC_PROGRAM_NOT_RUN = 256, IPC_PROGRAM_REFUSED = 257 };

struct ipc_message {
        uint32_t version, kind; /* version is set by ipc_send() */
        uint64_t id, number;
        struct authority authority;
        char text[256]; /* terminated */
};

enum ipc_side { IPC_SUPERVISOR, IPC_GATEWAY };

const char *ipc_kind_name(enum ipc_kind kind); /* NULL for no kind */

/* One message, with the descriptor when it is not -1 (it stays the caller's). -EAGAIN on a full non-blocking socket,
 * -EPIPE when the other side is gone, -EINVAL for a message that the other side would not accept. */
int ipc_send(int sock, enum ipc_side from, const struct ipc_message *message, int fd);
/* One message that `from` may send: every field checked, fields that the kind does not use are zero. *ret_fd is -1 or a
 * descriptor that is now the caller's. 1: got one, 0: the other side closed, -EAGAIN: nothing there, -EBADMSG:
 * malformed. */
int ipc_receive(int sock, enum ipc_side from, struct ipc_message *ret, int *ret_fd);

/* Every limit at its default, no listener, nothing configured. */
void gateway_start_init(struct gateway_start *start);
int gateway_start_check(const struct gateway_start *start, struct err *err);
/* The limits in it, as a policy has them. */
struct gateway_limits gateway_start_limits(const struct gateway_start *start);
void gateway_start_set_limits(struct gateway_start *start, const struct gateway_limits *limits);
/* The block as a sealed file, checked before; and read back in the gateway, seals, size and content checked. */
int gateway_start_seal(const struct gateway_start *start, int *ret_fd, struct err *err);
int gateway_start_read(int fd, struct gateway_start *ret, struct err *err);
