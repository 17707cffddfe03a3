/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the netlink batches that turn the sandbox's own network namespace into a place where every connection ends at
 * Bailey's listeners:
 *
 *   links and routes  loopback up with an address of its own; every address in the world is local to it
 *   nft table         in `nat output`: DNS to the DNS listener, every other TCP connection to the transparent listener,
 *                     but connections to the loopback addresses stay as they are (the sandbox's own servers)
 *                     in `filter output`: what is left (UDP, anything unusual) is logged to the packet listener, and
 *                     refused at once with an error
 *   without network   the same routes, and one chain that logs and refuses everything but loopback: an attempt has to
 *                     become a packet to be on record
 *
 * The namespace has no other interface: without these rules nothing would leave either. They decide what happens
 * instead of silence.
 */
#include "plan/gen/filter_emit.h"
#include "plan/plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MAX = 16384, LOOPBACK = 1 /* always the first link of a new namespace */ };

struct batch {
        _Alignas(8) char bytes[BATCH_MAX];
        size_t n;
        uint32_t seq;
        struct nlmsghdr *last;
};

static void *must_work(void *p) {
        if (!p) {
                fprintf(stderr, "netlink generator: out of memory\n");
                exit(1);
        }
        return p;
}

/* Errors are always answered; only the last message asks for an answer to success, so one reply means all is done. */
static struct nlmsghdr *chain_begin(struct batch *batch, uint16_t type, uint16_t flags) {
        struct nlmsghdr *h = mnl_nlmsg_put_header(batch->bytes + batch->n);
        h->nlmsg_type = type;
        h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
        h->nlmsg_seq = ++batch->seq;
        batch->last = h;
        return h;
}

static void chain_end(struct batch *batch) {
        batch->n += batch->last->nlmsg_len;
        if (batch->n > BATCH_MAX - 2048) {
                fprintf(stderr, "netlink generator: batch too large\n");
                exit(1);
        }
}

static void add_link_up(struct batch *batch) {
        struct nlmsghdr *h = chain_begin(batch, RTM_NEWLINK, 0);
        struct ifinfomsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
        m->ifi_index = LOOPBACK;
        m->ifi_flags = IFF_UP;
        m->ifi_change = IFF_UP;
        chain_end(batch);
}

static void add_address(struct batch *batch, int family, const void *address, size_t n) {
        struct nlmsghdr *h = chain_begin(batch, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
        struct ifaddrmsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
        m->ifa_family = (uint8_t)family;
        m->ifa_prefixlen = (uint8_t)(n * 8);
        m->ifa_index = LOOPBACK;
        m->ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0;
        mnl_attr_put(h, IFA_LOCAL, n, address);
        mnl_attr_put(h, IFA_ADDRESS, n, address);
        chain_end(batch);
}

/* A source of its own: else a client's source address would be its destination. */
static void add_route(struct batch *batch, int family, uint8_t type, uint8_t table, const void *source, size_t n) {
        struct nlmsghdr *h = chain_begin(batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
        struct rtmsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);
        m->rtm_family = (uint8_t)family;
        m->rtm_table = table;
        m->rtm_protocol = RTPROT_STATIC;
        m->rtm_scope = type == RTN_LOCAL ? RT_SCOPE_HOST : RT_SCOPE_LINK;
        m->rtm_type = type;
        mnl_attr_put_u32(h, RTA_OIF, LOOPBACK);
        mnl_attr_put(h, RTA_PREFSRC, n, source);
        chain_end(batch);
}

static void emit_batch(const char *name, struct batch *batch) {
        batch->last->nlmsg_flags |= NLM_F_ACK;
        emit_filter(name, batch->bytes, batch->n);
}

static void make_routes(const char *name, int family, const char *own) {
        static struct batch b;
        b = (struct batch){ 0 };
        unsigned char address[16];
        size_t n = family == AF_INET ? 4 : 16;
        if (inet_pton(family, own, address) != 1)
                must_work(NULL);
        if (family == AF_INET)
                add_link_up(&b);
        add_address(&b, family, address, n);
        add_route(&b, family, RTN_LOCAL, RT_TABLE_LOCAL, address, n);
        add_route(&b, family, RTN_UNICAST, RT_TABLE_MAIN, address, n);
        emit_batch(name, &b);
}

/* The packet listener: it gets each packet that a rule logs at once, with the first bytes and a serial number, which
 * shows how many did not fit into its buffer. */
static void make_packets(void) {
        static struct batch b;
        struct nfulnl_msg_config_cmd bind = { NFULNL_CFG_CMD_BIND };
        struct nfulnl_msg_config_mode mode = { htonl(PLAN_PACKET_BYTES), NFULNL_COPY_PACKET, 0 };
        struct nlmsghdr *h = chain_begin(&b, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, 0);
        struct nfgenmsg *m = mnl_nlmsg_put_extra_header(h, sizeof *m);

        *m = (struct nfgenmsg){ AF_UNSPEC, NFNETLINK_V0, htons(PLAN_PACKET_GROUP) };
        mnl_attr_put(h, NFULA_CFG_CMD, sizeof bind, &bind);
        mnl_attr_put(h, NFULA_CFG_MODE, sizeof mode, &mode);
        mnl_attr_put_u32(h, NFULA_CFG_QTHRESH, htonl(1));
        mnl_attr_put_u16(h, NFULA_CFG_FLAGS, htons(NFULNL_CFG_F_SEQ));
        chain_end(&b);

        emit_batch("embedded_packets", &b);
}

/* nft: one table, two chains. The expressions below are what `nft --debug=netlink` shows for the rule in the comment.
 */
static const char table_name[] = "bailey";

static struct nftnl_rule *rule_new(const char *chain) {
        struct nftnl_rule *r = must_work(nftnl_rule_alloc());
        nftnl_rule_set_str(r, NFTNL_RULE_TABLE, table_name);
        nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, chain);
        nftnl_rule_set_u32(r, NFTNL_RULE_FAMILY, NFPROTO_INET);
        return r;
}

static void add_meta(struct nftnl_rule *rule, uint32_t key) {
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("meta"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_META_KEY, key);
        nftnl_expr_set_u32(x, NFTNL_EXPR_META_DREG, NFT_REG_1);
        nftnl_rule_add_expr(rule, x);
}

static void add_payload(struct nftnl_rule *rule, uint32_t base, uint32_t offset, uint32_t n) {
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("payload"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
        nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_BASE, base);
        nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
        nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_LEN, n);
        nftnl_rule_add_expr(rule, x);
}

static void add_cmp(struct nftnl_rule *rule, const void *data, uint32_t n) {
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("cmp"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
        nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_OP, NFT_CMP_EQ);
        nftnl_expr_set(x, NFTNL_EXPR_CMP_DATA, data, n);
        nftnl_rule_add_expr(rule, x);
}

static void match_meta_byte(struct nftnl_rule *rule, uint32_t key, uint8_t value) {
        add_meta(rule, key);
        add_cmp(rule, &value, 1);
}

static void match_port(struct nftnl_rule *rule, uint32_t offset, uint16_t port) {
        uint16_t network_order = htons(port);
        add_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, offset, 2);
        add_cmp(rule, &network_order, 2);
}

static void add_redirect(struct nftnl_rule *rule, uint16_t port) {
        uint16_t network_order = htons(port);
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("immediate"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
        nftnl_expr_set(x, NFTNL_EXPR_IMM_DATA, &network_order, 2);
        nftnl_rule_add_expr(rule, x);
        x = must_work(nftnl_expr_alloc("redir"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
        nftnl_rule_add_expr(rule, x);
}

static void add_accept(struct nftnl_rule *rule) {
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("immediate"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
        nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_VERDICT, NF_ACCEPT);
        nftnl_rule_add_expr(rule, x);
}

static void add_log(struct nftnl_rule *rule) {
        struct nftnl_expr *x = must_work(nftnl_expr_alloc("log"));
        nftnl_expr_set_u16(x, NFTNL_EXPR_LOG_GROUP, PLAN_PACKET_GROUP);
        nftnl_rule_add_expr(rule, x);
}

/* The verdict for refused packets. */
struct refusal {
        bool logged;   /* else: for kernels that cannot */
        uint32_t type; /* NFT_REJECT_*, and with ICMPX its code: which error the program gets */
        uint8_t code;
};

static void add_refusal(struct nftnl_rule *rule, const struct refusal *how) {
        if (how->logged)
                add_log(rule);

        struct nftnl_expr *x = must_work(nftnl_expr_alloc("reject"));
        nftnl_expr_set_u32(x, NFTNL_EXPR_REJECT_TYPE, how->type);
        nftnl_expr_set_u8(x, NFTNL_EXPR_REJECT_CODE, how->code);
        nftnl_rule_add_expr(rule, x);
}

static void put_rule(struct batch *batch, struct nftnl_rule *rule) {
        struct nlmsghdr *h = nftnl_nlmsg_build_hdr(batch->bytes + batch->n, NFT_MSG_NEWRULE, NFPROTO_INET,
                                                   NLM_F_CREATE | NLM_F_APPEND, ++batch->seq);
        batch->last = h;
        nftnl_rule_nlmsg_build_payload(h, rule);
        nftnl_rule_free(rule);
        chain_end(batch);
}

static void put_table(struct batch *batch) {
        struct nftnl_table *t = must_work(nftnl_table_alloc());
        nftnl_table_set_str(t, NFTNL_TABLE_NAME, table_name);
        struct nlmsghdr *h =
            nftnl_nlmsg_build_hdr(batch->bytes + batch->n, NFT_MSG_NEWTABLE, NFPROTO_INET, NLM_F_CREATE, ++batch->seq);
        batch->last = h;
        nftnl_table_nlmsg_build_payload(h, t);
        nftnl_table_free(t);
        chain_end(batch);
}

static void put_chain(struct batch *batch, const char *name, const char *type, int32_t priority) {
        struct nftnl_chain *c = must_work(nftnl_chain_alloc());

        nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, table_name);
        nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
        nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, type);
        nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, NF_INET_LOCAL_OUT);
        nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, priority);
        nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);

        struct nlmsghdr *h =
            nftnl_nlmsg_build_hdr(batch->bytes + batch->n, NFT_MSG_NEWCHAIN, NFPROTO_INET, NLM_F_CREATE, ++batch->seq);
        batch->last = h;
        nftnl_chain_nlmsg_build_payload(h, c);
        nftnl_chain_free(c);
        chain_end(batch);
}

/* ip daddr 127.0.0.0/8 accept; ip6 daddr ::1 accept */
static void put_loopback_accept(struct batch *batch, const char *chain) {
        static const uint8_t loopback6[16] = { [15] = 1 };
        struct nftnl_rule *r = rule_new(chain);
        match_meta_byte(r, NFT_META_NFPROTO, NFPROTO_IPV4);
        add_payload(r, NFT_PAYLOAD_NETWORK_HEADER, 16, 1); /* the first byte of the destination */
        add_cmp(r, "\x7f", 1);
        add_accept(r);
        put_rule(batch, r);

        r = rule_new(chain);
        match_meta_byte(r, NFT_META_NFPROTO, NFPROTO_IPV6);
        add_payload(r, NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
        add_cmp(r, loopback6, 16);
        add_accept(r);
        put_rule(batch, r);
}

static void put_capture(struct batch *batch) {
        static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };
        put_chain(batch, "capture", "nat", -100);

        /* meta l4proto udp|tcp th dport 53 redirect to :53, whichever server was asked */
        for (size_t i = 0; i < 2; i++) {
                struct nftnl_rule *r = rule_new("capture");
                match_meta_byte(r, NFT_META_L4PROTO, protocols[i]);
                match_port(r, 2, PLAN_PORT_DNS);
                add_redirect(r, PLAN_PORT_DNS);
                put_rule(batch, r);
        }
        put_loopback_accept(batch, "capture");

        struct nftnl_rule *r = rule_new("capture"); /* meta l4proto tcp redirect to :transparent */
        match_meta_byte(r, NFT_META_L4PROTO, IPPROTO_TCP);
        add_redirect(r, PLAN_PORT_TRANSPARENT);
        put_rule(batch, r);
}

/* The errors that a reject sends back. A program that has a socket for pings can send echo requests, and only those. */
static void put_errors_accept(struct batch *batch, const char *chain) {
        static const struct { uint8_t protocol, type; } errors[] = { { IPPROTO_ICMP, 3 }, { IPPROTO_ICMPV6, 1 } };

        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
                struct nftnl_rule *r = rule_new(chain);
                match_meta_byte(r, NFT_META_L4PROTO, errors[i].protocol);
                add_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
                add_cmp(r, &errors[i].type, 1);
                add_accept(r);
                put_rule(batch, r);
        }
}

static void put_refusal(struct batch *batch, const char *chain, const struct refusal *how) {
        struct nftnl_rule *r = rule_new(chain);
        add_refusal(r, how);
        put_rule(batch, r);
}

static void put_guard(struct batch *batch, bool logged) {
        const struct refusal how = { logged, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED };

        put_chain(batch, "guard", "filter", 0);
        put_loopback_accept(batch, "guard");
        put_errors_accept(batch, "guard");

        struct nftnl_rule *r = rule_new("guard"); /* captured */
        match_meta_byte(r, NFT_META_L4PROTO, IPPROTO_TCP);
        add_accept(r);
        put_rule(batch, r);

        r = rule_new("guard"); /* udp sport 53 accept: the listener's answers */
        match_meta_byte(r, NFT_META_L4PROTO, IPPROTO_UDP);
        match_port(r, 0, PLAN_PORT_DNS);
        add_accept(r);
        put_rule(batch, r);

        put_refusal(batch, "guard", &how);
}

/* ip daddr PLAN_OWN_V4 accept; ip6 daddr PLAN_OWN_V6 accept: the sandbox itself, and where resets go. */
static void put_own_accept(struct batch *batch, const char *chain) {
        static const struct {
                uint8_t family;
                int af;
                uint32_t offset, n;
                const char *own;
        } rows[] = { { NFPROTO_IPV4, AF_INET, 16, 4, PLAN_OWN_V4 }, { NFPROTO_IPV6, AF_INET6, 24, 16, PLAN_OWN_V6 } };

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                unsigned char address[16];
                if (inet_pton(rows[i].af, rows[i].own, address) != 1)
                        must_work(NULL);
                struct nftnl_rule *r = rule_new(chain);
                match_meta_byte(r, NFT_META_NFPROTO, rows[i].family);
                add_payload(r, NFT_PAYLOAD_NETWORK_HEADER, rows[i].offset, rows[i].n);
                add_cmp(r, address, rows[i].n);
                add_accept(r);
                put_rule(batch, r);
        }
}

/* With IPv6 an ICMP error does not end connect() before the second try, a second later. */
static void put_reset_v6(struct batch *batch, const char *chain, const struct refusal *reset) {
        struct nftnl_rule *r = rule_new(chain);

        match_meta_byte(r, NFT_META_NFPROTO, NFPROTO_IPV6);
        match_meta_byte(r, NFT_META_L4PROTO, IPPROTO_TCP);
        add_refusal(r, reset);
        put_rule(batch, r);
}

/* A mode without network. DNS queries are logged even if the host's resolver is on loopback: nobody inside can listen
 * on that port. */
static void put_closed(struct batch *batch, bool logged) {
        static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };
        const struct refusal how = { logged, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_NO_ROUTE };
        const struct refusal reset = { logged, NFT_REJECT_TCP_RST, 0 };

        put_chain(batch, "guard", "filter", 0);
        put_own_accept(batch, "guard");
        for (size_t i = 0; i < sizeof protocols; i++) {
                struct nftnl_rule *r = rule_new("guard");
                match_meta_byte(r, NFT_META_L4PROTO, protocols[i]);
                match_port(r, 2, PLAN_PORT_DNS);
                add_refusal(r, protocols[i] == IPPROTO_TCP ? &reset : &how);
                put_rule(batch, r);
        }
        put_loopback_accept(batch, "guard");
        put_errors_accept(batch, "guard");
        put_reset_v6(batch, "guard", &reset);
        put_refusal(batch, "guard", &how);
}

static void make_nft(const char *name, bool captured, bool logged) {
        static struct batch b;

        b = (struct batch){ 0 };
        nftnl_batch_begin(b.bytes, ++b.seq);
        b.n = ((struct nlmsghdr *)b.bytes)->nlmsg_len;
        put_table(&b);
        if (captured) {
                put_capture(&b);
                put_guard(&b, logged);
        } else
                put_closed(&b, logged);
        b.last->nlmsg_flags |= NLM_F_ACK;
        struct nlmsghdr *h = nftnl_batch_end(b.bytes + b.n, ++b.seq);
        b.n += h->nlmsg_len;
        emit_filter(name, b.bytes, b.n);
}

int main(void) {
        printf("/* Made by src/plan/gen/netlink.c. */\n#include \"plan/embedded.h\"\n");
        make_packets();
        make_routes("embedded_routes_v4", AF_INET, PLAN_OWN_V4);
        make_routes("embedded_routes_v6", AF_INET6, PLAN_OWN_V6);
        make_nft("embedded_nft", true, true);
        make_nft("embedded_nft_silent", true, false);
        make_nft("embedded_nft_closed", false, true);
        make_nft("embedded_nft_closed_silent", false, false);
        return 0;
}
