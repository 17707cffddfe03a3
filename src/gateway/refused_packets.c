/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/refused_packets.h"

#include "base/clock.h"
#include "gateway/dns/dns_judge.h"
#include "gateway/wire/dns_wire.h"
#include "gateway/wire/packet_reader.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

enum { PER_TURN = 256, LAST_READS = 1 << 16, PORT_DNS = 53 };
#define LOST_NS NS_PER_SECOND

struct packets {
        struct worker *worker;
        struct watch watch;
        struct timer tell_lost;
        struct packet_reader reader;
};

/* Without network no packet of any kind leaves; else this kind of packet does not. */
static enum reason refusal_reason(const struct worker *worker, const struct packet *packet) {
        struct host host = { .kind = HOST_ADDR, .addr = packet->to };
        struct verdict verdict = verdict_target(worker_snapshot(worker), &host, packet->port ? packet->port : 1);

        return verdict.reason == REASON_NO_NETWORK ? REASON_NO_NETWORK : REASON_TRANSPORT;
}

/* A question for a name, in a mode without network. Programs look up their own host, and nobody refuses them that. */
static bool record_question(struct packets *packets, const struct packet *packet, enum reason reason) {
        struct worker *worker = packets->worker;
        struct dns_query query;
        enum dns_rcode rcode;
        char type[DNS_TYPE_TEXT_MAX];

        if (packet->protocol != IPPROTO_UDP || packet->port != PORT_DNS ||
            !dns_query_parse(packet->payload, &query, &rcode) || !query.has_question)
                return false;

        if (dns_is_local_name(worker, str_n(query.name, query.name_n)))
                return true;

        dns_type_text(query.type, type);
        report_event(&worker->report, &(struct event){ .kind = EVENT_DNS,
                                                       .via = VIA_DNS,
                                                       .scheme = SCHEME_UDP,
                                                       .rule = RULE_NONE,
                                                       .generation = worker->policy->generation,
                                                       .reason = (uint16_t)reason,
                                                       .domain = str_n(query.name, query.name_n),
                                                       .method = str_of(type) });

        return true;
}

static void on_packet(void *arg, const struct packet_log *log) {
        struct packets *packets = arg;
        struct worker *worker = packets->worker;
        struct packet packet;
        char address[ADDR_TEXT_MAX], detail[32] = "";

        if (!packet_parse(log->bytes, &packet))
                return;

        enum reason reason = refusal_reason(worker, &packet);
        if (record_question(packets, &packet, reason))
                return;

        enum event_scheme scheme = event_scheme_of(packet.protocol);
        addr_text(&packet.to, address);
        if (scheme == SCHEME_IP)
                snprintf(detail, sizeof detail, "IP protocol %u", packet.protocol);

        report_event(&worker->report, &(struct event){ .kind = EVENT_PACKET,
                                                       .via = VIA_PACKET,
                                                       .scheme = (uint16_t)scheme,
                                                       .rule = RULE_NONE,
                                                       .generation = worker->policy->generation,
                                                       .reason = (uint16_t)reason,
                                                       .port = packet.port,
                                                       .addr = packet.to,
                                                       .domain = str_of(address),
                                                       .method = event_scheme_word(scheme),
                                                       .detail = str_of(detail) });
}

/* One record for all that the buffer had no room for. */
static void report_lost(struct packets *packets) {
        struct worker *worker = packets->worker;

        uint32_t count = packet_reader_take_lost(&packets->reader);

        if (count == 0)
                return;

        report_event(&worker->report, &(struct event){ .kind = EVENT_PACKET,
                                                       .via = VIA_PACKET,
                                                       .rule = RULE_NONE,
                                                       .generation = worker->policy->generation,
                                                       .reason = REASON_TRANSPORT,
                                                       .count = count > 1 ? count : 0,
                                                       .detail = STR("too many to be recorded one by one") });
}

static void on_tell_lost(struct timer *timer) {
        report_lost(link_owner(timer, struct packets, tell_lost));
}

static bool read_once(struct packets *packets) {
        bool more = packet_reader_step(&packets->reader, on_packet, packets);

        if (packets->reader.lost && !timer_is_running(&packets->tell_lost))
                timer_start(&packets->tell_lost, LOST_NS);
        return more;
}

static void on_packets(struct watch *watch, unsigned ready) {
        struct packets *packets = link_owner(watch, struct packets, watch);
        (void)ready;

        for (int i = 0; i < PER_TURN && read_once(packets); i++)
                ;
}

int packets_new(struct worker *worker, int fd, struct packets **ret, struct err *err) {
        struct packets *packets = calloc(1, sizeof *packets);
        if (!packets)
                return err_set(err, ENOMEM, "no memory for the packet listener");

        packets->worker = worker;
        packets->reader.fd = fd;
        timer_init(&packets->tell_lost, worker->loop, on_tell_lost);

        int r = watch_start_level(worker->loop, &packets->watch, fd, WATCH_READ, on_packets);
        if (r < 0) {
                free(packets);
                return err_set(err, -r, "the packet listener cannot be watched");
        }

        *ret = packets;
        return 0;
}

void packets_free(struct packets *packets) {
        if (!packets)
                return;

        watch_stop(&packets->watch);
        timer_stop(&packets->tell_lost);
        for (int i = 0; i < LAST_READS && packet_reader_step(&packets->reader, on_packet, packets); i++)
                ;

        packet_reader_end(&packets->reader);
        report_lost(packets);
        free(packets);
}
