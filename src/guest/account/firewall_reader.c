/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/firewall_reader.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "gateway/wire/packet_reader.h"
#include "guest/account/firewall_reader_internal.h"
#include "guest/account/guest_firewall.h"
#include "ipc/event.h"
#include "sandbox/linux/packets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS_MAX = 16, BACKLOG = 16, READS_AT_ONCE = 256, TELL_LOST_MS = 1000, BUFFER_BYTES = 1 << 20 };
enum { FD_PACKETS = 3, FD_PARENT, FD_FIRST_FREE };

struct client {
        int fd; /* -1: free */
        enum firewall_ask what;
        uint16_t port;
        uint32_t lost; /* packets that it had no room for */
};

struct reader {
        struct packet_reader packets;
        int listener, names; /* names: tells when the socket's name goes */
        struct client clients[CLIENTS_MAX];
        struct buf kept; /* events for the next who watches */
        uint32_t kept_lost;
        uint32_t uid;
};

/*
 * One packet.
 */
static bool address_is_loopback(const struct addr *addr) {
        return addr_classify(addr) == ADDR_CLASS_LOOPBACK;
}

/* Whether it is the attempt of a check, which is told. */
static bool packet_is_tried(struct reader *reader, const struct packet *packet) {
        bool tried = false;

        if (!packet->has_port || !address_is_loopback(&packet->to))
                return false;

        for (size_t i = 0; i < CLIENTS_MAX; i++) {
                struct client *client = &reader->clients[i];
                if (client->fd < 0 || client->what != FIREWALL_TRY || client->port != packet->port)
                        continue;

                const char word = packet->protocol == IPPROTO_TCP ? FIREWALL_TCP : FIREWALL_UDP;
                (void)send(client->fd, &word, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
                tried = true;
        }

        return tried;
}

static void batch_deliver(struct reader *reader, struct str batch) {
        bool watched = false;

        for (size_t i = 0; i < CLIENTS_MAX; i++) {
                struct client *client = &reader->clients[i];
                if (client->fd < 0 || client->what != FIREWALL_WATCH)
                        continue;
                watched = true;
                if (client->lost || send(client->fd, batch.p, batch.n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                        client->lost++;
        }

        if (!watched && buf_append(&reader->kept, batch) < 0)
                reader->kept_lost++;
}

static void reader_on_packet(void *arg, const struct packet_log *log) {
        struct reader *reader = arg;
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        struct packet packet;
        char address[ADDR_TEXT_MAX], detail[96], protocol[32] = "";

        if (!packet_parse(log->bytes, &packet) || packet_is_tried(reader, &packet))
                return;

        enum event_scheme scheme = event_scheme_of(packet.protocol);
        addr_text(&packet.to, address);
        if (scheme == SCHEME_IP)
                snprintf(protocol, sizeof protocol, ", IP protocol %u", packet.protocol);
        snprintf(detail, sizeof detail, "firewall: uid %u, outside the sandbox%s",
                 log->has_uid ? log->uid : reader->uid, protocol);

        const struct event event = { .wall_us = clock_wall_us(),
                                     .kind = EVENT_PACKET,
                                     .via = VIA_PACKET,
                                     .scheme = (uint16_t)scheme,
                                     .rule = RULE_NONE,
                                     .reason = REASON_TRANSPORT,
                                     .port = packet.port,
                                     .addr = packet.to,
                                     .domain = str_of(address),
                                     .method = event_scheme_word(scheme),
                                     .detail = str_of(detail) };
        if (event_encode(&batch, &event) == 0)
                batch_deliver(reader, buf_str(&batch));
}

/* True: it knows now how many were lost. */
static bool client_tell_lost(const struct client *client, uint32_t lost) {
        cleanup(buf_done) struct buf batch = BUF(EVENT_BATCH_MAX);
        const struct event event = { .wall_us = clock_wall_us(),
                                     .kind = EVENT_PACKET,
                                     .via = VIA_PACKET,
                                     .rule = RULE_NONE,
                                     .reason = REASON_TRANSPORT,
                                     .count = lost,
                                     .detail = STR("firewall: too many to be recorded one by one") };

        return event_encode(&batch, &event) == 0 &&
               send(client->fd, batch.p, batch.n, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/*
 * Clients.
 */
static void client_watch(struct reader *reader, struct client *client) {
        if (reader->kept.n && send(client->fd, reader->kept.p, reader->kept.n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                return; /* it stays for the next one */

        buf_clear(&reader->kept);
        client->lost = reader->kept_lost;
        reader->kept_lost = 0;
        if (client->lost && client_tell_lost(client, client->lost))
                client->lost = 0;
}

/* False: everything ends. */
static bool client_read(struct reader *reader, struct client *client) {
        struct firewall_request request;
        ssize_t n = recv(client->fd, &request, sizeof request, MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return true;
        if (n != (ssize_t)sizeof request) {
                reader->kept_lost += client->lost;
                close_fd(&client->fd);
                return true;
        }

        client->what = request.what;
        client->port = request.port;
        if (request.what == FIREWALL_END)
                return false;
        if (request.what == FIREWALL_WATCH)
                client_watch(reader, client);
        else
                (void)send(client->fd, &(char){ FIREWALL_READY }, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        return true;
}

static void reader_accept(struct reader *reader) {
        cleanup(close_fd) int fd = accept4(reader->listener, NULL, NULL, SOCK_CLOEXEC);

        for (size_t i = 0; i < CLIENTS_MAX && fd >= 0; i++)
                if (reader->clients[i].fd < 0)
                        reader->clients[i] = (struct client){ .fd = take_fd(&fd), .what = FIREWALL_NOTHING };
}

static void reader_tell_lost(struct reader *reader) {
        uint32_t lost = packet_reader_take_lost(&reader->packets);
        bool watched = false;

        for (size_t i = 0; i < CLIENTS_MAX; i++) {
                struct client *client = &reader->clients[i];
                if (client->fd < 0 || client->what != FIREWALL_WATCH)
                        continue;
                watched = true;
                client->lost += lost;
                if (client->lost && client_tell_lost(client, client->lost))
                        client->lost = 0;
        }

        if (!watched)
                reader->kept_lost += lost;
}

static bool reader_turn(struct reader *reader) {
        struct pollfd polled[CLIENTS_MAX + 3] = { { .fd = reader->packets.fd, .events = POLLIN },
                                                  { .fd = reader->listener, .events = POLLIN },
                                                  { .fd = reader->names, .events = POLLIN } };
        bool lost = reader->packets.lost != 0, going = true;

        for (size_t i = 0; i < CLIENTS_MAX; i++) {
                polled[3 + i] = (struct pollfd){ .fd = reader->clients[i].fd, .events = POLLIN };
                lost |= reader->clients[i].fd >= 0 && reader->clients[i].lost;
        }

        int n = poll(polled, CLIENTS_MAX + 3, lost ? TELL_LOST_MS : -1);
        if (n < 0)
                return errno == EINTR;

        for (int i = 0; polled[0].revents && i < READS_AT_ONCE; i++)
                if (!packet_reader_step(&reader->packets, reader_on_packet, reader))
                        break;
        for (size_t i = 0; i < CLIENTS_MAX && going; i++)
                if (polled[3 + i].revents)
                        going = client_read(reader, &reader->clients[i]);
        if (polled[1].revents)
                reader_accept(reader);
        if (lost)
                reader_tell_lost(reader);

        return going && !polled[2].revents;
}

/*
 * The process.
 */
static int reader_become(const struct account *host, struct err *err) {
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

        int r = account_take_groups(host);
        if (r < 0)
                return err_set(err, -r, "cannot take the groups of %s: %s", host->name, strerror(-r));
        if (setresgid(host->gid, host->gid, host->gid) < 0 || setresuid(host->uid, host->uid, host->uid) < 0)
                return err_errno(err, "cannot become %s", host->name);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0)
                return err_errno(err, "cannot give root's rights up");
        return 0;
}

/* From now on relative to the guest's directory, which is entered as the host user. */
static int reader_listen(struct reader *reader, const char *directory, struct err *err) {
        const struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = FIREWALL_SOCKET };

        if (chdir(directory) < 0)
                return err_errno(err, "cannot enter %s", directory);

        reader->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)unlink(FIREWALL_SOCKET);
        if (reader->listener < 0 || bind(reader->listener, (const struct sockaddr *)&name, sizeof name) < 0 ||
            listen(reader->listener, BACKLOG) < 0)
                return err_errno(err, "cannot listen at %s/" FIREWALL_SOCKET, directory);

        reader->names = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (reader->names < 0 || inotify_add_watch(reader->names, FIREWALL_SOCKET,
                                                   IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT) < 0)
                return err_errno(err, "cannot watch %s/" FIREWALL_SOCKET, directory);
        return 0;
}

struct start_word {
        int result;
        struct err err;
};

static _Noreturn void reader_main(const struct account *host, uint32_t uid, const char *directory) {
        struct reader reader = { .packets = { .fd = FD_PACKETS }, .kept = BUF(EVENT_BATCH_MAX), .uid = uid };
        struct start_word word = { 0 };

        for (size_t i = 0; i < CLIENTS_MAX; i++)
                reader.clients[i].fd = -1;
        (void)setsid();
        (void)signal(SIGHUP, SIG_IGN);

        word.result = reader_become(host, &word.err);
        if (word.result == 0)
                word.result = reader_listen(&reader, directory, &word.err);
        if (fd_write_all(FD_PARENT, &word, sizeof word) < 0 || word.result < 0)
                _exit(1);
        (void)close(FD_PARENT);

        while (reader_turn(&reader))
                ;
        _exit(0);
}

/* Nothing that is open in the caller is open in the reader; nobody waits for it. */
static _Noreturn void reader_fork(int packets, int parent, const struct account *host, uint32_t uid,
                                  const char *directory) {
        int null = open("/dev/null", O_RDWR);
        int high_packets = fcntl(packets, F_DUPFD, 64), high_parent = fcntl(parent, F_DUPFD, 64);

        for (int i = 0; i < 3; i++)
                if (null < 0 || dup2(null, i) < 0)
                        _exit(1);
        if (dup2(high_packets, FD_PACKETS) < 0 || dup2(high_parent, FD_PARENT) < 0 || fd_close_from(FD_FIRST_FREE) < 0)
                _exit(1);
        if (fork() == 0)
                reader_main(host, uid, directory);
        _exit(0);
}

int firewall_reader_start(const struct account *host, uint32_t uid, const char *directory, struct err *err) {
        cleanup(close_fd) int packets = -1;
        struct start_word word;
        int ends[2], size = BUFFER_BYTES;
        int r = packets_open(guest_firewall_group(uid), &packets, err);

        if (r < 0)
                return err_wrap(err, r, "the log of the guest's firewall (NFLOG group %u) cannot be read",
                                guest_firewall_group(uid));
        (void)setsockopt(packets, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_errno(err, "cannot make a pipe");

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");
        if (pid == 0)
                reader_fork(packets, its, host, uid, directory);
        close_fd(&its);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;

        if (fd_read_exact(ours, &word, sizeof word) < 0)
                return err_set(err, ECHILD, "the reader of the guest's firewall ended early");
        word.err.text[sizeof word.err.text - 1] = '\0';
        if (word.result < 0)
                return err_set(err, -word.result, "%s", err_text(&word.err));

        return 0;
}
