/* SPDX-License-Identifier: Apache-2.0 */
#include "seatbelt_kit.h"

#include "../cmocka_all.h"
#include "base/cleanup.h"
#include "base/paths/path.h"

#include <stdio.h>

int made_make(struct made *made, const struct policy *policy, const struct path_rules *rules,
              const struct seatbelt_host *host, struct err *e) {
        const struct seatbelt_request request = { .policy = policy, .rules = rules, .host = host };
        cleanup(buf_done) struct buf text = BUF(4 << 20);
        struct err why = { 0 };

        *made = (struct made){ 0 };
        int r = seatbelt_build(&request, &made->data, e);
        if (r < 0)
                return r;
        assert_int_equal(seatbelt_text(made->data, &text), 0);
        made->text = str_dup(buf_str(&text));
        made->parameters = calloc(made->data->parameters.n + 1, sizeof *made->parameters);
        assert_non_null(made->text);
        assert_non_null(made->parameters);
        for (size_t i = 0; i < made->data->parameters.n; i++)
                made->parameters[i] =
                    (struct sbpl_parameter){ made->data->parameters.p[i].name, made->data->parameters.p[i].value };
        if (sbpl_parse(str_of(made->text), made->parameters, &made->sbpl, &why) < 0)
                fail_msg("%s in\n%s", err_text(&why), made->text);
        return 0;
}

void made_done(struct made *made) {
        sbpl_free(made->sbpl);
        seatbelt_free(made->data);
        free(made->parameters);
        free(made->text);
        *made = (struct made){ 0 };
}

bool made_allows(const struct made *made, struct sbpl_question question) {
        return sbpl_ask(made->sbpl, &question).verdict == SBPL_ALLOW;
}

/* The first of them, and with `only` just one of the others beside it. */
static bool agree(const struct made *made, const char *path, const char *const *operations, size_t only) {
        bool first = made_allows(made, (struct sbpl_question){ .operation = operations[0], .path = path });

        for (size_t i = 1; operations[i]; i++)
                if ((only == 0 || only == i) &&
                    made_allows(made, (struct sbpl_question){ .operation = operations[i], .path = path }) != first)
                        fail_msg("%s: %s and %s have different answers in\n%s", path, operations[0], operations[i],
                                 made->text);
        return first;
}

static enum path_access find_access(const struct made *made, const char *path, size_t only) {
        static const char *const reading[] = { "file-read-data", "file-read-xattr",          "file-map-executable",
                                               "process-exec",   "process-exec-interpreter", NULL };
        static const char *const writing[] = { "file-write-data",   "file-write-create",
                                               "file-write-unlink", "file-write-mode",
                                               "file-write-xattr",  "file-write-times",
                                               "file-write-flags",  NULL };
        bool reads = agree(made, path, reading, only), writes = agree(made, path, writing, only);

        if (writes && !reads)
                fail_msg("%s may be written and not read", path);
        if (reads && !made_allows(made, (struct sbpl_question){ .operation = "file-read-metadata", .path = path }))
                fail_msg("%s may be read, and its attributes may not", path);
        if (writes)
                return PATH_WRITE;
        return reads ? PATH_READ : PATH_DENIED;
}

enum path_access made_access(const struct made *made, const char *path) {
        return find_access(made, path, 0);
}

enum path_access made_access_quickly(const struct made *made, const char *path, unsigned turn) {
        return find_access(made, path, 1 + turn % 4);
}

enum path_access expected_access(const struct path_rules *rules, const struct path_rules *closed, const char *path) {
        static const char *const places[] = { "/private/tmp", "/private/var/tmp", "/private/var/folders", "/Volumes",
                                              "/Network" };

        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                if (path_is_within(path, places[i]))
                        return path_rules_host_access(closed, path, NULL);
        return path_rules_host_access(rules, path, NULL);
}

static size_t longest_string(const char *text) {
        size_t longest = 0;

        for (const char *at = strchr(text, '"'); at; at = strchr(at + 1, '"')) {
                const char *end = strchr(at + 1, '"');

                assert_non_null(end);
                if ((size_t)(end - at) > longest)
                        longest = (size_t)(end - at);
                at = end;
        }
        return longest;
}

/* Nothing that a program of another user or project could be reached by. */
static void check_closed(const struct made *made) {
        static const char *const services[] = { "com.apple.dnssd.service",
                                                "com.apple.SystemConfiguration.configd",
                                                "com.apple.SecurityServer",
                                                "com.apple.coreservices.launchservicesd",
                                                "com.apple.tccd",
                                                "com.apple.pasteboard.1",
                                                "com.apple.windowserver.active" };
        static const char *const sysctls[] = { "kern.procargs2", "kern.proc.all", "kern.bootargs",
                                               "net.inet.tcp.pcblist" };

        for (size_t i = 0; i < sizeof services / sizeof *services; i++)
                assert_false(
                    made_allows(made, (struct sbpl_question){ .operation = "mach-lookup", .name = services[i] }));
        for (size_t i = 0; i < sizeof sysctls / sizeof *sysctls; i++)
                assert_false(
                    made_allows(made, (struct sbpl_question){ .operation = "sysctl-read", .name = sysctls[i] }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "signal", .target = "others" }));
        assert_false(
            made_allows(made, (struct sbpl_question){ .operation = "process-info-pidinfo", .target = "others" }));
        assert_false(made_allows(
            made, (struct sbpl_question){ .operation = "network-outbound", .path = "/private/var/run/mDNSResponder" }));
        assert_false(made_allows(
            made, (struct sbpl_question){ .operation = "network-outbound", .address = "93.184.216.34", .port = 443 }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "mach-register", .name = "x" }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "lsopen" }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "mach-priv-task-port" }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "job-creation" }));
}

static void check_devices(const struct made *made) {
        static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/tty", "/dev/fd/1" };

        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
                assert_true(
                    made_allows(made, (struct sbpl_question){ .operation = "file-write-data", .path = devices[i] }));
        assert_true(made_allows(made, (struct sbpl_question){ .operation = "file-read-data", .path = "/dev/urandom" }));
        assert_false(
            made_allows(made, (struct sbpl_question){ .operation = "file-write-data", .path = "/dev/ttys004" }));
        assert_true(made_allows(made, (struct sbpl_question){ .operation = "file-write-data",
                                                              .path = "/dev/ttys004",
                                                              .extension = "com.apple.sandbox.pty" }));
        assert_true(made_allows(made, (struct sbpl_question){ .operation = "file-ioctl", .path = "/dev/ttys004" }));
        assert_false(made_allows(made, (struct sbpl_question){ .operation = "file-write-data", .path = "/dev/disk0" }));
}

void made_check_text(const struct made *made) {
        for (const char *c = made->text; *c; c++)
                assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
        assert_true(longest_string(made->text) <= 1025);
        assert_true(sbpl_rules(made->sbpl) < 17000);
        assert_false(sbpl_has_default(made->sbpl, "sysctl-read"));
        assert_false(sbpl_has_default(made->sbpl, "mach-lookup"));
        assert_false(sbpl_has_default(made->sbpl, "network-outbound"));
        assert_false(sbpl_has_default(made->sbpl, "file-write*"));
        assert_false(sbpl_can_nest(made->sbpl));
        if (!sbpl_can_start(made->sbpl, "/usr/bin/true"))
                fail_msg("no program starts under\n%s", made->text);
        check_closed(made);
        check_devices(made);
}
