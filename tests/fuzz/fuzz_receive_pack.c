/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A head that is read has refs by git's rules, none twice, and does not depend on what follows it; written again line
 * by line it is the same. A refusal can be written for each of them.
 */
#include "base/cleanup.h"
#include "bridge/git_answer.h"
#include "bridge/pktline.h"
#include "fuzz.h"
#include "policy/git/git.h"

static void check_updates(const struct receive_pack *head) {
        for (size_t i = 0; i < head->updates.n; i++) {
                const struct git_update *u = &head->updates.p[i];
                FUZZ_CHECK(git_ref_is_valid(u->ref) && u->old_id.n == u->new_id.n);
                FUZZ_CHECK(u->old_id.n == (head->sha256 ? 64u : 40u) && !(u->creates && u->deletes));
                for (size_t k = 0; k < i && k < 64; k++)
                        FUZZ_CHECK(!str_eq(head->updates.p[k].ref, u->ref));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct receive_pack_scan scan = { 0 };
        cleanup(receive_pack_done) struct receive_pack head = { 0 }, again = { 0 };
        cleanup(buf_done) struct buf out = BUF(4 << 20);
        struct str bytes = str_n(data, size);
        int r = receive_pack_read(bytes, &head), scanned;

        if (r < 0) {
                FUZZ_CHECK(head.problem);
                return 0;
        }
        if (r == 0)
                return 0;
        FUZZ_CHECK(head.bytes <= size);
        check_updates(&head);
        while ((scanned = receive_pack_scan(&scan, bytes)) > 0 && scan.at < head.bytes)
                ;
        FUZZ_CHECK(scanned == 1 && scan.at == head.bytes);
        FUZZ_CHECK(receive_pack_read(str_first(bytes, head.bytes), &again) == 1);
        FUZZ_CHECK(again.updates.n == head.updates.n && again.bytes == head.bytes);
        r = git_answer_push(&out, &head, STR("policy"), STR("help\n"));
        FUZZ_CHECK(r == 0 || !(head.report_status || head.report_status_v2));
        return 0;
}
