/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that are usable by themselves: filter, patterns, proxy environment, gateway. */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct person {
        char host[64]; /* who asked first; read when `asked` is not 0 */
        atomic_int asked;
};

static int yes_to_443(void *arg, const char *host, uint16_t port) {
        struct person *p = arg;
        if (atomic_load(&p->asked) == 0)
                snprintf(p->host, sizeof p->host, "%s", host);
        atomic_fetch_add(&p->asked, 1);
        return port == 443;
}

static void filter_order(void **state) {
        struct fixture *f = *state;
        static const char *const allow[] = { "api.ok.test", "*.ok.test:443", "93.184.216.34", NULL };
        static const char *const deny[] = { "bad.ok.test", NULL };
        const struct bailey_filter_rules rules = { allow, deny };
        static const struct {
                const char *host;
                uint16_t port;
                int allowed;
                const char *reason;
        } cases[] = {
                { "api.ok.test", 80, 1, "allowed" },
                { "API.OK.TEST.", 80, 1, "allowed" },
                { "deep.sub.ok.test", 443, 1, "allowed" },
                { "sub.ok.test", 80, 0, "not-allowed" },
                { "ok.test", 443, 0, "not-allowed" },
                { "evilok.test", 443, 0, "not-allowed" },
                { "bad.ok.test", 443, 0, "deny-rule" },
                { "93.184.216.34", 443, 1, "allowed" },
                { "127.0.0.1", 443, 0, "address-class" },
                { "::1", 443, 0, "address-class" },
                { "[::ffff:169.254.169.254]", 80, 0, "address-class" },
                { "0x7f.1", 443, 0, "bad-name" },
                { "api.ok.test", 0, 0, "bad-name" },
                { "a b.test", 443, 0, "bad-name" },
        };
        bailey_filter *filter = NULL;
        assert_ok(bailey_filter_new(&rules, NULL, NULL, &filter, &f->e));
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
                struct bailey_filter_verdict v;
                assert_int_equal(bailey_filter_test(filter, cases[i].host, cases[i].port, &v), cases[i].allowed);
                assert_int_equal(v.allowed, cases[i].allowed);
                assert_string_equal(v.reason, cases[i].reason);
                assert_true(v.detail[0]);
        }
        struct bailey_filter_verdict v;
        bailey_filter_test(filter, "x.ok.test", 443, &v);
        assert_string_equal(v.rule, "*.ok.test:443");
        static const char *const broken[] = { "http://a.test", NULL };
        const struct bailey_filter_rules wrong = { broken, NULL };
        assert_code(bailey_filter_update(filter, &wrong, &f->e), BAILEY_E_CONFIG);
        assert_int_equal(bailey_filter_test(filter, "api.ok.test", 80, NULL), 1); /* the old rules stay */
        assert_ok(bailey_filter_update(filter, NULL, &f->e));
        assert_int_equal(bailey_filter_test(filter, "api.ok.test", 80, NULL), 0); /* an empty list refuses */
        bailey_filter_free(filter);
        assert_int_equal(bailey_filter_test(NULL, "api.ok.test", 80, &v), 0);
        assert_code(bailey_filter_new(&wrong, NULL, NULL, &filter, &f->e), BAILEY_E_CONFIG);
}

static void filter_callback(void **state) {
        struct fixture *f = *state;
        static const char *const deny[] = { "bad.test", NULL };
        const struct bailey_filter_rules rules = { NULL, deny };
        bailey_filter *filter = NULL;
        struct person person = { 0 };
        struct bailey_filter_verdict v;
        assert_ok(bailey_filter_new(&rules, yes_to_443, &person, &filter, &f->e));
        assert_int_equal(bailey_filter_test(filter, "New.test", 443, &v), 1);
        assert_string_equal(person.host, "new.test");
        assert_string_equal(v.reason, "asked");
        assert_int_equal(bailey_filter_test(filter, "new.test", 80, NULL), 0);
        assert_int_equal(bailey_filter_test(filter, "bad.test", 443, NULL), 0);
        assert_int_equal(bailey_filter_test(filter, "10.0.0.1", 443, NULL), 0);
        assert_int_equal(person.asked, 2); /* nobody is asked about what is refused */
        bailey_filter_free(filter);
}

static void patterns(void **state) {
        struct fixture *f = *state;
        static const char *const good[] = { "a.test", "*.a.test", "a.test:443", "*.a.test:8000-8999", "10.0.0.0/8" };
        static const char *const bad[] = { "",   "http://a.test", "a.test/path", "*.test.*", "a.*.test", "*",
                                           "*.", "single",        "a.test:0",    "a.test:x", "a..test" };
        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                assert_ok(bailey_pattern_validate(good[i], &f->e));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
                f->e.message[0] = '\0';
                assert_code(bailey_pattern_validate(bad[i], &f->e), BAILEY_E_CONFIG);
                assert_true(f->e.message[0]);
        }
        assert_code(bailey_pattern_validate(NULL, &f->e), BAILEY_E_ARGUMENT);
}

static bool has(char **environment, const char *text) {
        for (size_t i = 0; environment[i]; i++)
                if (strcmp(environment[i], text) == 0)
                        return true;
        return false;
}

static void proxy_environment(void **state) {
        struct fixture *f = *state;
        struct bailey_proxy proxy = { .http_port = 3128, .socks_port = 1080, .tmpdir = "/tmp/x" };
        static const char *const expected[] = {
                "SANDBOX_RUNTIME=1",
                "TMPDIR=/tmp/x",
                "HTTP_PROXY=http://127.0.0.1:3128",
                "https_proxy=http://127.0.0.1:3128",
                "FTP_PROXY=http://127.0.0.1:3128",
                "ALL_PROXY=socks5h://127.0.0.1:1080",
                "no_proxy=localhost,127.0.0.1,::1,*.local,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
        };
        char **environment = NULL;
        assert_ok(bailey_proxy_environment(&proxy, &environment, &f->e));
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
                assert_true(has(environment, expected[i]));
        bailey_proxy_environment_free(environment);
        proxy = (struct bailey_proxy){ 0 };
        assert_ok(bailey_proxy_environment(&proxy, &environment, &f->e));
        assert_true(has(environment, "SANDBOX_RUNTIME=1"));
        for (size_t i = 0; environment[i]; i++)
                assert_null(strstr(environment[i], "http://"));
        bailey_proxy_environment_free(environment);
}

/*
 * The gateway.
 */
static int listen_on(uint16_t *port) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(*port) };
        socklen_t n = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 8) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
                close(fd);
                return -1;
        }
        *port = ntohs(at.sin_port);
        return fd;
}

/* The status line of an answer to CONNECT, through the gateway. */
static void connect_through(uint16_t proxy, const char *target, char answer[64]) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(proxy) };
        char request[256];
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval limit = { .tv_sec = 30 };
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        memset(answer, 0, 64);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
                int n = snprintf(request, sizeof request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target);
                if (write(fd, request, (size_t)n) == n)
                        (void)!read(fd, answer, 12);
        }
        close(fd);
}

static void name_hosts(struct fixture *f) {
        FILE *hosts = fopen("hosts", "w");
        assert_non_null(hosts);
        fputs("127.0.0.1 origin.test other.test\n", hosts);
        fclose(hosts);
        assert_ok(bailey_config_hosts_file(f->config, "hosts", &f->e));
}

struct updater {
        bailey_manager *manager;
        bailey_config *config;
        atomic_int asked, failed;
};

static int update_and_say_no(void *arg, const char *host, uint16_t port) {
        struct updater *u = arg;
        (void)host, (void)port;
        atomic_fetch_add(&u->asked, 1);
        if (bailey_manager_update(u->manager, u->config, NULL) != BAILEY_OK)
                atomic_fetch_add(&u->failed, 1);
        return 0;
}

/* Whoever is asked may change the rules: the gateway that asked takes them while it waits for the answer. */
static void update_in_a_callback(void **state) {
        struct fixture *f = *state;
        bailey_gateway *g = NULL;
        char answer[64];
        struct updater updater = { 0 };
        struct timespec began, ended;

        name_hosts(f);
        assert_ok(bailey_config_on_request(f->config, update_and_say_no, &updater, &f->e));
        fixture_start(f);
        updater.manager = f->manager;
        updater.config = f->config;
        assert_ok(bailey_config_deny(f->config, "other.test", &f->e));
        assert_ok(bailey_gateway_start(f->manager, NULL, &g, &f->e));

        clock_gettime(CLOCK_MONOTONIC, &began);
        for (int i = 0; i < 2; i++) { /* the second time the new rules refuse it, and nobody is asked */
                connect_through(bailey_gateway_http_port(g), "other.test:81", answer);
                assert_string_equal(answer, "HTTP/1.1 403");
                assert_int_equal(atomic_load(&updater.asked), 1);
                assert_int_equal(atomic_load(&updater.failed), 0);
        }
        clock_gettime(CLOCK_MONOTONIC, &ended);
        assert_true(ended.tv_sec - began.tv_sec < 30);
        assert_int_equal(bailey_gateway_running(g), 1);
        bailey_gateway_stop(g);
}

static void gateway_life(void **state) {
        struct fixture *f = *state;
        bailey_gateway *g = NULL;
        char answer[64], target[64];
        struct person person = { 0 };
        uint16_t origin_port = 0;
        int origin = listen_on(&origin_port);
        assert_true(origin >= 0);
        name_hosts(f);
        fixture_start(f);
        assert_ok(bailey_gateway_start(f->manager, NULL, &g, &f->e));
        assert_true(bailey_gateway_http_port(g) && bailey_gateway_socks_port(g));
        assert_string_equal(bailey_gateway_address(g), "127.0.0.1");
        assert_int_equal(bailey_gateway_running(g), 1);
        snprintf(target, sizeof target, "origin.test:%u", origin_port);
        connect_through(bailey_gateway_http_port(g), target, answer);
        assert_string_equal(answer, "HTTP/1.1 403");
        /* The running one has switched when the call returns. */
        assert_ok(bailey_config_allow(f->config, target, &f->e));
        assert_ok(bailey_config_set(f->config, "network.allow_private", target, &f->e));
        assert_ok(bailey_manager_update(f->manager, f->config, &f->e));
        connect_through(bailey_gateway_http_port(g), target, answer);
        assert_string_equal(answer, "HTTP/1.1 200");
        /* Who is asked about the rest, from an update on. */
        assert_ok(bailey_config_on_request(f->config, yes_to_443, &person, &f->e));
        assert_ok(bailey_manager_update(f->manager, f->config, &f->e));
        connect_through(bailey_gateway_http_port(g), "other.test:81", answer);
        assert_true(atomic_load(&person.asked));
        assert_string_equal(person.host, "other.test");
        assert_string_equal(answer, "HTTP/1.1 403");
        struct timespec began, ended;
        clock_gettime(CLOCK_MONOTONIC, &began);
        bailey_gateway_stop(g);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        assert_true(ended.tv_sec - began.tv_sec <= 6);
        close(origin);
}

static void gateway_halves(void **state) {
        struct fixture *f = *state;
        bailey_gateway *g = NULL;
        uint16_t taken = 0, other = 0;
        char http[32], socks[32];
        int fd = listen_on(&taken), probe = listen_on(&other);
        assert_true(fd >= 0 && probe >= 0);
        close(probe);
        snprintf(http, sizeof http, "127.0.0.1:%u", other);
        snprintf(socks, sizeof socks, "127.0.0.1:%u", taken);
        const struct bailey_gateway_addresses at = { http, socks }, alone = { http, "" }, none = { "", "" };
        fixture_start(f);
        assert_code(bailey_gateway_start(f->manager, &at, &g, &f->e), BAILEY_E_PROXY);
        assert_null(g);
        int again = listen_on(&other); /* the other half was given back */
        assert_true(again >= 0);
        close(again);
        assert_ok(bailey_gateway_start(f->manager, &alone, &g, &f->e));
        assert_int_equal(bailey_gateway_http_port(g), other);
        assert_int_equal(bailey_gateway_socks_port(g), 0);
        assert_code(bailey_gateway_start(f->manager, &none, &g, &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_manager_cleanup(f->manager, &f->e)); /* ends it */
        assert_int_equal(bailey_gateway_running(g), 0);
        assert_string_equal(bailey_gateway_address(g), "");
        bailey_gateway_stop(g);
        close(fd);
}

static const char *test_executable(void) {
        const char *executable = getenv("BAILEY_TEST_EXECUTABLE");

        return executable ? executable : BAILEY_BUILT;
}

static void assert_guest_says(struct fixture *f, bailey_guests *guests, const char *script, int code,
                              const char *expected) {
        const char *const argv[] = { "sh", "-c", script, NULL };
        bailey_result *result = NULL;

        assert_ok(bailey_guest_exec(guests, "one", argv, NULL, &result, &f->e));
        assert_int_equal(bailey_result_exit_code(result), code);
        assert_string_equal(bailey_result_stdout(result, NULL), expected);
        bailey_result_free(result);
}

static void guest_life(void **state) {
        struct fixture *f = *state;
        bailey_guests *guests = NULL;
        bailey_rows *rows = NULL;
        const char *const idle[] = { "--idle=1h", "--disk=1G", NULL }, *const wrong[] = { "--no-such-option", NULL };

        assert_code(bailey_guests_new("/nowhere/bailey", &guests, &f->e), BAILEY_E_DEPENDENCY);
        assert_ok(bailey_guests_new(test_executable(), &guests, &f->e));
        assert_code(bailey_guest_create(guests, "one", wrong, &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_guest_create(guests, "one", idle, &f->e));
        assert_code(bailey_guest_create(guests, "one", NULL, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_create(guests, "a b", NULL, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_start(guests, "two", &f->e), BAILEY_E_ARGUMENT);

        assert_guest_says(f, guests, "echo kept > note; exit 3", 3, "");
        assert_guest_says(f, guests, "cat note; exit 125", 125, "kept\n");

        assert_ok(bailey_guests_list(guests, &rows, &f->e));
        assert_int_equal(bailey_rows_size(rows), 1);
        assert_string_equal(bailey_rows_get(rows, 0, "name"), "one");
        assert_string_equal(bailey_rows_get(rows, 0, "state"), "running");
        assert_string_equal(bailey_rows_get(rows, 0, "idle_seconds"), "3600");
        assert_string_equal(bailey_rows_get(rows, 0, "disk.limit"), "1073741824");
        assert_string_equal(bailey_rows_get(rows, 0, "disk.state"), "well");
        assert_null(bailey_rows_get(rows, 0, "limit"));
        assert_null(bailey_rows_get(rows, 0, "no such field"));
        assert_null(bailey_rows_get(rows, 1, "name"));
        bailey_rows_free(rows);

        assert_ok(bailey_guest_stop(guests, "one", &f->e));
        assert_ok(bailey_guest_delete(guests, "one", &f->e));
        assert_ok(bailey_guests_list(guests, &rows, &f->e));
        assert_int_equal(bailey_rows_size(rows), 0);
        bailey_rows_free(rows);
        bailey_guests_free(guests);
}

static void guest_jobs(void **state) {
        struct fixture *f = *state;
        bailey_guests *guests = NULL;
        bailey_rows *rows = NULL;
        bailey_result *result = NULL;
        bailey_options *options = NULL;
        uint64_t number = 0;
        const char *const job[] = { "sh", "-c", "pwd; exit 4", NULL }, *const slow[] = { "sleep", "600", NULL };

        assert_ok(bailey_guests_new(test_executable(), &guests, &f->e));
        assert_ok(bailey_guest_create(guests, "one", NULL, &f->e));
        assert_ok(bailey_options_new(&options, &f->e));
        assert_ok(bailey_options_directory(options, "/usr", &f->e));
        assert_ok(bailey_guest_job(guests, "one", job, options, &number, &f->e));
        assert_int_equal(number, 1);
        assert_code(bailey_guest_job(guests, "two", job, options, &number, &f->e), BAILEY_E_ARGUMENT);
        for (int i = 0; i < 600; i++) {
                assert_ok(bailey_guest_jobs(guests, "one", &rows, &f->e));
                assert_int_equal(bailey_rows_size(rows), 1);
                if (strcmp(bailey_rows_get(rows, 0, "state"), "running") != 0)
                        break;
                bailey_rows_free(rows);
                rows = NULL;
                usleep(50000);
        }
        assert_string_equal(bailey_rows_get(rows, 0, "status"), "4");
        bailey_rows_free(rows);
        assert_ok(bailey_guest_log(guests, "one", 1, NULL, &result, &f->e));
        assert_string_equal(bailey_result_stdout(result, NULL), "/usr\n");
        bailey_result_free(result);
        result = NULL;

        assert_ok(bailey_options_timeout(options, 300, &f->e));
        assert_code(bailey_guest_exec(guests, "one", slow, options, &result, &f->e), BAILEY_E_TIMEOUT);
        assert_int_equal(bailey_result_exit_code(result), -1);
        bailey_result_free(result);
        result = NULL;
        assert_ok(bailey_options_set(options, "network.allow", "a.test", &f->e));
        assert_code(bailey_guest_exec(guests, "one", slow, options, &result, &f->e), BAILEY_E_CONFIG);
        assert_null(result);
        assert_ok(bailey_guest_delete(guests, "one", &f->e));
        bailey_options_free(options);
        bailey_guests_free(guests);
}

static size_t rows_count(bailey_rows **rows) {
        size_t n = bailey_rows_size(*rows);

        bailey_rows_free(*rows);
        *rows = NULL;
        return n;
}

static void guest_settings(void **state) {
        struct fixture *f = *state;
        bailey_guests *guests = NULL;
        bailey_rows *rows = NULL;
        const char *const limits[] = { "--limit-processes=60", "--disk=64M", "--idle=2h", NULL };
        const char *const half[] = { "--disk=1M", "--unset=no-such-option", NULL };
        const char *const wrong[] = { "--disk=much", NULL };

        assert_ok(bailey_guests_new(test_executable(), &guests, &f->e));
        assert_ok(bailey_guest_create(guests, "one", NULL, &f->e));
        assert_ok(bailey_guest_set(guests, "one", limits, &f->e));
        assert_code(bailey_guest_set(guests, "one", wrong, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_set(guests, "one", half, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_set(guests, "two", limits, &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_set(guests, NULL, limits, &f->e), BAILEY_E_ARGUMENT);

        assert_ok(bailey_guests_list(guests, &rows, &f->e));
        assert_string_equal(bailey_rows_get(rows, 0, "disk.limit"), "67108864");
        assert_string_equal(bailey_rows_get(rows, 0, "idle_seconds"), "7200");
        assert_int_equal(rows_count(&rows), 1);
        assert_ok(bailey_guest_settings(guests, "one", &rows, &f->e));
        assert_string_equal(bailey_rows_get(rows, 0, "option"), "limit-processes");
        assert_string_equal(bailey_rows_get(rows, 0, "value"), "60");
        assert_null(bailey_rows_get(rows, 0, "name"));
        assert_int_equal(rows_count(&rows), 1);
        assert_ok(bailey_guest_steps(guests, "one", &rows, &f->e));
        assert_non_null(bailey_rows_get(rows, 0, "step"));
        assert_true(rows_count(&rows) >= 1);

        assert_ok(bailey_guest_rename(guests, "one", "two", &f->e));
        assert_code(bailey_guest_rename(guests, "one", "two", &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_guest_fix(guests, "two", &f->e));
        assert_ok(bailey_guest_delete(guests, "two", &f->e));
        bailey_guests_free(guests);
}

static void guest_data(void **state) {
        struct fixture *f = *state;
        bailey_guests *guests = NULL;
        bailey_rows *rows = NULL;

        assert_ok(bailey_guests_new(test_executable(), &guests, &f->e));
        assert_ok(bailey_guest_create(guests, "one", NULL, &f->e));
        assert_ok(bailey_guest_copy_in(guests, "one", "/etc/hostname", "a:b", &f->e));
        assert_code(bailey_guest_copy_in(guests, "one", "/etc/hostname", "a:b", &f->e), BAILEY_E_ARGUMENT);
        assert_code(bailey_guest_copy_in(guests, "one:x", "/etc/hostname", "c", &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_guest_snapshot(guests, "one", "first", &f->e));
        assert_ok(bailey_guest_snapshot(guests, "one", NULL, &f->e));
        assert_ok(bailey_guest_snapshots(guests, "one", &rows, &f->e));
        assert_string_equal(bailey_rows_get(rows, 0, "label"), "first");
        assert_int_equal(rows_count(&rows), 2);
        assert_guest_says(f, guests, "test -s a:b && rm a:b", 0, "");
        assert_ok(bailey_guest_stop(guests, "one", &f->e));
        assert_ok(bailey_guest_restore(guests, "one", "first", &f->e));
        assert_code(bailey_guest_restore(guests, "one", "none", &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_guest_snapshot_remove(guests, "one", "first", &f->e));
        assert_ok(bailey_guest_snapshots(guests, "one", &rows, &f->e));
        assert_int_equal(rows_count(&rows), 1);

        assert_ok(bailey_guest_archive(guests, "one", &f->e));
        assert_ok(bailey_guest_unarchive(guests, "one", &f->e));
        assert_ok(bailey_guest_publish(guests, "one", 18080, 80, &f->e));
        assert_code(bailey_guest_publish(guests, "one", 18080, 0, &f->e), BAILEY_E_ARGUMENT);
        assert_ok(bailey_guest_ports(guests, "one", &rows, &f->e));
        assert_string_equal(bailey_rows_get(rows, 0, "outside"), "18080");
        assert_string_equal(bailey_rows_get(rows, 0, "state"), "closed");
        assert_int_equal(rows_count(&rows), 1);
        assert_ok(bailey_guest_unpublish(guests, "one", 18080, &f->e));
        assert_ok(bailey_guest_ports(guests, "one", &rows, &f->e));
        assert_int_equal(rows_count(&rows), 0);
        assert_guest_says(f, guests, "test -s a:b && echo there", 0, "there\n");
        assert_ok(bailey_guest_delete(guests, "one", &f->e));
        bailey_guests_free(guests);
}

int main(void) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
                TEST(filter_order), TEST(filter_callback),      TEST(patterns),       TEST(proxy_environment),
                TEST(gateway_life), TEST(update_in_a_callback), TEST(gateway_halves), TEST(guest_life),
                TEST(guest_jobs),   TEST(guest_settings),       TEST(guest_data),
        };
        return cmocka_run_group_tests_name("parts of libbailey", tests, NULL, NULL);
}
