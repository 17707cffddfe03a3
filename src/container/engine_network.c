/* SPDX-License-Identifier: Apache-2.0 */
#include "container/engine_network.h"

#include "base/cleanup.h"
#include "conf/json.h"
#include "container/engine.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* docker writes "Internal", podman "internal". */
static const struct node *network_field(const struct node *node, const char *upper, const char *lower) {
        const struct node *found = node && node->kind == NODE_MAP ? node_get(node, str_of(upper)) : NULL;

        if (!found && node && node->kind == NODE_MAP)
                found = node_get(node, str_of(lower));
        return found;
}

static struct str text_of(const struct node *node) {
        return node && node->kind == NODE_SCALAR ? node->text : STR("");
}

static void copy_name(char ret[static 16], struct str text) {
        snprintf(ret, 16, "%.*s", STR_FMT(str_first(text, 15)));
}

/* docker names a bridge by the network's number, unless told otherwise. */
static void take_interface(const struct node *network, struct engine_network *ret) {
        struct str name = text_of(node_get(network, STR("network_interface")));
        const struct node *options = node_get(network, STR("Options"));

        if (name.n == 0 && options && options->kind == NODE_MAP)
                name = text_of(node_get(options, STR("com.docker.network.bridge.name")));

        if (name.n > 0) {
                copy_name(ret->interface, name);
                return;
        }

        struct str number = text_of(network_field(network, "Id", "id"));
        snprintf(ret->interface, sizeof ret->interface, "br-%.*s", STR_FMT(str_first(number, 12)));
}

/* The first subnet of version 4. */
static bool take_subnet(const struct node *entry, struct engine_network *ret) {
        struct cidr net;
        struct str subnet = text_of(network_field(entry, "Subnet", "subnet"));
        struct str gateway = text_of(network_field(entry, "Gateway", "gateway"));

        if (!cidr_parse(subnet, &net) || net.addr.family != ADDR_V4 || net.bits > 30)
                return false;

        ptrdiff_t slash = str_find(gateway, '/');
        if (slash > 0)
                gateway = str_first(gateway, (size_t)slash);

        ret->prefix = net.bits;
        if (gateway.n > 0 && addr_parse(gateway, &ret->gateway))
                return ret->gateway.family == ADDR_V4;

        ret->gateway = net.addr;
        ret->gateway.bytes[3] |= 1;

        return true;
}

static int network_understand(const struct node *network, struct engine_network *ret, struct err *err) {
        const struct node *subnets = node_get(network, STR("subnets"));
        const struct node *ipam = node_get(network, STR("IPAM"));

        if (!subnets && ipam && ipam->kind == NODE_MAP)
                subnets = node_get(ipam, STR("Config"));

        ret->internal = str_is(text_of(network_field(network, "Internal", "internal")), "true");
        ret->bridge = str_is(text_of(network_field(network, "Driver", "driver")), "bridge");
        take_interface(network, ret);

        for (const struct node *node = subnets && subnets->kind == NODE_LIST ? subnets->first : NULL; node;
             node = node->next)
                if (node->kind == NODE_MAP && take_subnet(node, ret))
                        return 1;

        return err_set(err, EBADMSG, "%s: the network has no subnet of IPv4", ret->engine);
}

static int ask_engine(const char *engine, const char *name, struct engine_network *ret, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };
        cleanup(buf_done) struct buf out = BUF(0);
        cleanup(document_freep) struct document *document = NULL;

        if (words_add(&argv, "%s", engine) < 0 || words_add(&argv, "network") < 0 || words_add(&argv, "inspect") < 0 ||
            words_add(&argv, "%s", name) < 0)
                return err_memory(err);

        struct err ignored = { 0 };
        if (engine_call(&argv, true, &out, &ignored) != 0)
                return 0; /* not installed, not running, or it has no such network */

        int r = json_read(buf_str(&out), str_of(engine), &document, err);
        if (r < 0)
                return r;

        const struct node *root = document_root(document);
        const struct node *network = root && root->kind == NODE_LIST ? root->first : root;
        if (!network || network->kind != NODE_MAP)
                return err_set(err, EBADMSG, "what %s says about the network %s is not understood", engine, name);

        *ret = (struct engine_network){ .engine = engine };
        return network_understand(network, ret, err);
}

int engine_network_find(const char *name, struct engine_network *ret, struct err *err) {
        static const char *const engines[] = { "docker", "podman" };
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof engines / sizeof *engines; i++)
                r = ask_engine(engines[i], name, ret, err);
        return r;
}

static void free_interfaces(struct ifaddrs **list) {
        if (*list)
                freeifaddrs(*list);
}

bool engine_network_is_up(const struct engine_network *network) {
        cleanup(free_interfaces) struct ifaddrs *list = NULL;

        if (getifaddrs(&list) < 0)
                return false;

        for (const struct ifaddrs *ifaddrs = list; ifaddrs; ifaddrs = ifaddrs->ifa_next) {
                struct addr own;
                uint16_t port;

                if (ifaddrs->ifa_addr && strcmp(ifaddrs->ifa_name, network->interface) == 0 &&
                    addr_from_sockaddr(ifaddrs->ifa_addr, &own, &port) && addr_equal(&own, &network->gateway))
                        return true;
        }

        return false;
}

/* Its place is not taken from PATH: it is run by root. */
static const char *ip_program(void) {
        static const char *const places[] = { "/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip" };

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (access(places[i], X_OK) == 0)
                        return places[i];
        return NULL;
}

static int run_ip(const char *program, const char *words, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };
        cleanup(buf_done) struct buf out = BUF(0);
        struct str rest = str_of(words), word;
        int r = words_add(&argv, "%s", program);

        while (r == 0 && str_split(&rest, ' ', &word))
                r = words_add(&argv, "%.*s", STR_FMT(word));

        if (r < 0)
                return err_memory(err);

        r = engine_call(&argv, true, &out, err);
        if (r <= 0)
                return r;

        return err_set(err, EIO, "\"ip %s\" failed (status %d)", words, r);
}

int engine_network_up(const struct engine_network *network, struct err *err) {
        const char *program = ip_program();
        char address[ADDR_TEXT_MAX];

        if (engine_network_is_up(network))
                return 0;

        if (geteuid() != 0)
                return err_set(err, EPERM,
                               "%s has not made the bridge of the network " ENGINE_NETWORK
                               ", and only root can make it. Start the gateway as root, or use \"bailey run "
                               "--container %s\", which needs "
                               "no network",
                               network->engine, network->engine);

        if (!program)
                return err_set(err, ENOENT, "ip (iproute2) is not installed");

        addr_text(&network->gateway, address);
        cleanup(free_ptr) char *make = str_format("link add name %s type bridge", network->interface);
        cleanup(free_ptr) char *give =
            str_format("address add %s/%u dev %s", address, network->prefix, network->interface);
        cleanup(free_ptr) char *up = str_format("link set dev %s up", network->interface);
        if (!make || !give || !up)
                return err_memory(err);

        int r = 0;

        if (!if_nametoindex(network->interface))
                r = run_ip(program, make, err);

        if (r == 0)
                r = run_ip(program, give, err);
        if (r < 0)
                return r;

        return run_ip(program, up, err);
}
