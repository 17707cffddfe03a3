/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_firewall.h"

#include "base/cleanup.h"
#include "container/engine.h"

#include <errno.h>
#include <unistd.h>

#define TABLE "inet bailey_egress"

/* Its place is not taken from PATH: it is run by root. */
static const char *firewall_nft(void) {
        static const char *const places[] = { "/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/usr/local/sbin/nft" };
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (access(places[i], X_OK) == 0)
                        return places[i];
        return NULL;
}

static int firewall_run(const char *program, const char *rules, struct err *err) {
        cleanup(text_list_done) text_list argv = { 0 };
        cleanup(buf_done) struct buf out = BUF(0);
        if (words_add(&argv, "%s", program) < 0 || words_add(&argv, "%s", rules) < 0)
                return err_memory(err);
        int r = engine_call(&argv, true, &out, err);
        if (r <= 0)
                return r;

        return err_set(err, EIO, "nft refuses the rules (status %d)", r);
}

int egress_firewall_up(const char *bridge, const char *address, uint16_t port, struct err *err) {
        const char *program = firewall_nft();

        if (geteuid() != 0)
                return err_set(err, EPERM, "only root can set rules for the bridge");
        if (!program)
                return err_set(err, ENOENT, "nft is not installed");

        cleanup(free_ptr) char *rules =
            str_format("add table " TABLE "; delete table " TABLE "; add table " TABLE "; "
                       "add chain " TABLE " input { type filter hook input priority -150 ; policy accept ; }; "
                       "add chain " TABLE " forward { type filter hook forward priority -150 ; policy accept ; }; "
                       "add rule " TABLE " input iifname \"%s\" ip daddr %s tcp dport %u accept; "
                       "add rule " TABLE " input iifname \"%s\" reject; "
                       "add rule " TABLE " forward iifname \"%s\" reject; "
                       "add rule " TABLE " forward oifname \"%s\" reject",
                       bridge, address, port, bridge, bridge, bridge);
        if (!rules)
                return err_memory(err);

        return firewall_run(program, rules, err);
}

void egress_firewall_down(void) {
        const char *program = firewall_nft();
        if (program && geteuid() == 0)
                (void)firewall_run(program, "add table " TABLE "; delete table " TABLE, NULL);
}
