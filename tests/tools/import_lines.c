/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey import by lines, for a test that judges both sides. Arguments: the workspace and the home. Reads
 *
 *     source TOOL KIND BYTES     and then so many bytes: made | dropped | error TEXT
 *     host NAME PORT             of the policy that was made last: yes | no
 *     read PATH, write PATH      the same
 *
 * and answers each with one line.
 */
#include "base/cleanup.h"
#include "import/import.h"
#include "policy/load.h"
#include "policy/paths/paths.h"

#include <stdio.h>
#include <stdlib.h>

struct judged {
        struct policy *policy;
        struct path_rules *paths;
        struct snapshot *snapshot;
        void *bytes;
};

static void judged_done(struct judged *j) {
        snapshot_close(j->snapshot);
        path_rules_free(j->paths);
        policy_free(j->policy);
        free(j->bytes);
        *j = (struct judged){ 0 };
}

static int judged_load(struct judged *j, const struct import_result *result, const char *workspace, struct err *err) {
        cleanup(free_ptr) char *text = str_dup(buf_str(&result->text));
        const struct policy_request request = { .workspace = workspace, .only_text = text, .base = workspace };
        size_t n;
        int r = policy_load(&request, &j->policy, err);

        r = r < 0 ? r : policy_compile_network(j->policy, NULL, 0, &j->bytes, &n, err);
        r = r < 0 ? r : snapshot_open(j->bytes, n, &j->snapshot, err);
        return r < 0 ? r : path_rules_compile(j->policy, &j->paths, err);
}

static void take_source(struct judged *j, char *words, const char *workspace, const char *home) {
        cleanup(import_result_done) struct import_result result = { 0 };
        struct err err = { 0 };
        char tool[32] = "", kind[32] = "";
        size_t n = 0;

        judged_done(j);
        if (sscanf(words, "%31s %31s %zu", tool, kind, &n) != 3 || n > 1 << 20)
                exit(2);
        cleanup(free_ptr) char *bytes = malloc(n + 1);
        if (!bytes || fread(bytes, 1, n, stdin) != n)
                exit(2);
        if (import_make_text(tool, kind, str_n(bytes, n), workspace, home, &result, &err) < 0 ||
            judged_load(j, &result, workspace, &err) < 0)
                printf("error %s\n", err_text(&err));
        else
                puts(result.dropped ? "dropped" : "made");
}

static bool host_is_open(const struct judged *j, char *words) {
        char name[300] = "";
        unsigned port = 0;
        struct host host;

        if (sscanf(words, "%299s %u", name, &port) != 2 || host_parse(str_of(name), &host, NULL) < 0)
                exit(2);
        return verdict_target(j->snapshot, &host, (uint16_t)port).decision == DECISION_ALLOW;
}

int main(int argc, char **argv) {
        struct judged j = { 0 };
        char line[4096];

        if (argc != 3)
                return 2;
        while (fgets(line, sizeof line, stdin)) {
                line[strcspn(line, "\n")] = '\0';
                if (strncmp(line, "source ", 7) == 0)
                        take_source(&j, line + 7, argv[1], argv[2]);
                else if (!j.paths)
                        puts("none");
                else if (strncmp(line, "host ", 5) == 0)
                        puts(host_is_open(&j, line + 5) ? "yes" : "no");
                else if (strncmp(line, "read ", 5) == 0)
                        puts(path_rules_host_access(j.paths, line + 5, NULL) >= PATH_READ ? "yes" : "no");
                else if (strncmp(line, "write ", 6) == 0)
                        puts(path_rules_host_access(j.paths, line + 6, NULL) == PATH_WRITE ? "yes" : "no");
                else
                        return 2;
                fflush(stdout);
        }
        judged_done(&j);
        return 0;
}
