/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts as other tools write them. */
#include "base/cleanup.h"
#include "import/import_source.h"
#include "policy/check.h"
#include "policy/match/pattern.h"

#include <errno.h>
#include <stdio.h>

static int add_entry(struct import_source *source, const struct node *node, enum import_list list, struct str text,
                     struct err *err) {
        cleanup(free_ptr) char *place = node_origin(source->document, node), *said = import_said(node);

        if (!place || !said)
                return err_memory(err);

        size_t before = source->model->lists[list].n;
        int r = import_add(source->model, list, text, place, str_of(said), err);
        import_entries *entries = &source->model->lists[list];

        if (r == 0 && entries->n > before)
                entries->p[entries->n - 1].by_rule = source->by_rule;

        return r;
}

/* What no other tool has in its lists: read here, it would open more than anybody meant. */
static bool is_only_ours(const struct pattern *pattern) {
        bool network = pattern->kind == PATTERN_NET && pattern->net.bits != addr_bits(&pattern->net.addr);

        return network || (pattern->has_port && pattern->port_first != pattern->port_last);
}

/* A star alone opens every host with Fence and Codex. With srt and Claude Code it is no host at all. */
static int allow_star(struct import_source *source, const struct node *node, struct err *err) {
        const char *tool = source->model->tool;

        if (strcmp(tool, "srt") == 0 || strcmp(tool, "claude") == 0)
                return import_say(source, node, false, err, "a star alone allows no host there, nor here");

        source->model->network = IMPORT_NETWORK_ANY;
        return 0;
}

static bool is_loopback(const struct pattern *pattern) {
        struct addr addr;

        if (pattern->kind == PATTERN_NAME)
                return host_is_loopback_name(&pattern->host);
        if (pattern->kind != PATTERN_NET || pattern->net.bits != addr_bits(&pattern->net.addr))
                return false;

        addr = pattern->net.addr;
        return addr_classify(&addr) == ADDR_CLASS_LOOPBACK;
}

static int allow_loopback(struct import_source *source, const struct node *node, const struct pattern *pattern,
                          struct err *err) {
        char port[8];

        if (pattern->has_port && pattern->port_first == pattern->port_last) {
                int n = snprintf(port, sizeof port, "%u", pattern->port_first);
                return add_entry(source, node, IMPORT_HOST_PORT, str_n(port, (size_t)n), err);
        }

        return import_say(source, node, false, err,
                          "the sandbox has a loopback of its own, which is free; a service of this host is opened port "
                          "by port, with network.host_port");
}

int import_allow_host(struct import_source *source, const struct node *node, struct str text, struct err *err) {
        struct pattern pattern;
        struct err why = { 0 };

        text = str_trim(text);
        if (str_is(text, "*") || str_is(text, "**"))
                return allow_star(source, node, err);

        if (pattern_parse_user(text, &pattern, &why) < 0)
                return import_say(source, node, false, err, "%s", err_text(&why));
        if (is_only_ours(&pattern))
                return import_say(source, node, false, err, "networks and ranges of ports have no meaning there");
        if (is_loopback(&pattern))
                return allow_loopback(source, node, &pattern, err);

        return add_entry(source, node, IMPORT_ALLOW, text, err);
}

int import_deny_host(struct import_source *source, const struct node *node, struct str text, struct err *err) {
        struct pattern pattern;
        struct err why = { 0 };
        int r;

        text = str_trim(text);
        if (str_is(text, "*") || str_is(text, "**")) {
                source->model->denies_all_hosts = true;
                return import_say(source, node, false, err, "every host is denied, so that none is allowed");
        }

        if (pattern_parse_refusal(text, &pattern, &why) == 0)
                return add_entry(source, node, IMPORT_DENY, text, err);

        r = import_say(source, node, true, err, "%s; whatever it may concern is not allowed at all", err_text(&why));
        if (r < 0)
                return r;

        return add_entry(source, node, IMPORT_UNSAID_DENY, text, err);
}

int import_allow_host_node(struct import_source *source, const struct node *node, struct err *err) {
        return import_allow_host(source, node, node->text, err);
}

int import_deny_host_node(struct import_source *source, const struct node *node, struct err *err) {
        return import_deny_host(source, node, node->text, err);
}
