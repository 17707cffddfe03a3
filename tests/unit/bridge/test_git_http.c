/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of git and LFS, and all the other spellings of the same paths that a server might take for them. */
#include "bridge/git_http.h"
#include "bridge/lfs_batch.h"

#include "../cmocka_all.h"

#include <errno.h>

struct row {
        const char *method, *target;
        enum git_http_kind kind;
        const char *path;
        enum git_right right;
};

static const struct row rows[] = {
        { "GET", "/acme/app.git/info/refs?service=git-upload-pack", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_FETCH },
        { "GET", "/acme/app/info/refs?service=git-receive-pack", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_PUSH },
        { "GET", "/acme/app/info/refs", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_FETCH },
        { "POST", "/acme/app/git-upload-pack", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_FETCH },
        { "POST", "/acme/app.git/git-receive-pack", GIT_HTTP_RECEIVE_PACK, "acme/app", GIT_RIGHT_PUSH },
        { "POST", "/a/b/c/d/git-receive-pack", GIT_HTTP_RECEIVE_PACK, "a/b/c/d", GIT_RIGHT_PUSH },
        { "POST", "/acme/app.git/info/lfs/objects/batch", GIT_HTTP_LFS_BATCH, "acme/app", GIT_RIGHT_FETCH },
        { "PUT", "/acme/app.git/info/lfs/objects/abc", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_PUSH },
        { "GET", "/acme/app.git/info/lfs/objects/abc", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_FETCH },
        { "GET", "/acme/app.git/info/lfs/locks?path=x", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_FETCH },
        { "POST", "/acme/app.git/info/lfs/locks/verify", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_PUSH },
        { "PUT", "/acme/app.git/gitlab-lfs/objects/abc/12", GIT_HTTP_SERVICE, "acme/app", GIT_RIGHT_PUSH },
        { "GET", "/acme/app/HEAD", GIT_HTTP_FILE, "acme/app", GIT_RIGHT_FETCH },
        { "GET", "/acme/app/objects/info/packs", GIT_HTTP_FILE, "acme/app", GIT_RIGHT_FETCH },

        { "GET", "/acme/app", GIT_HTTP_NONE, NULL, 0 },
        { "POST", "/acme/app/issues", GIT_HTTP_NONE, NULL, 0 },
        { "GET", "/acme/app/blob/main/info/refs.md", GIT_HTTP_NONE, NULL, 0 },
        { "PUT", "/acme/app/objects/info/packs", GIT_HTTP_NONE, NULL, 0 },
        { "GET", "/", GIT_HTTP_NONE, NULL, 0 },
        { "GET", "*", GIT_HTTP_NONE, NULL, 0 },

        { "POST", "/acme/app//git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "//acme/app/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/git-receive-pack/", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/./app/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/x/../app/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/..git/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/...git/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/..git/info/lfs/ok", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/%2e%2e/app/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/git%2dreceive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/git%252dreceive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/Git-Receive-Pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/git-receive-pack;x", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/git-receive-pack?x=1", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app\\git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "PUT", "/acme/app/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/.git/git-receive-pack", GIT_HTTP_SERVICE + 100, NULL, 0 },
        { "GET", "/acme/app/info/refs?service=git-receive-pack&x", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/info/refs?x&service=git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/info/refs?Service=git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/info/refs?service=git%2Dreceive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/info/./refs?service=git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/INFO/refs?service=git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app/info/refs?service=git-receive-pack", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app.git/info/lfs/objects/batch?x", GIT_HTTP_BAD, NULL, 0 },
        { "PUT", "/acme/app.git/info/lfs/objects/batch", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app.git/info/lfs//objects/batch", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app.git/info%2flfs/objects/batch", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app.git/info/lfs", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app.git/info/x/../refs", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app.git/info/refs/x/..", GIT_HTTP_BAD, NULL, 0 },
        { "POST", "/acme/app.git/info/x/%2E%2e/lfs/objects/batch", GIT_HTTP_BAD, NULL, 0 },
        { "GET", "/acme/app/../info/page", GIT_HTTP_NONE, NULL, 0 },
};

static void requests_are_recognised(void **state) {
        (void)state;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct git_http found;
                git_http_recognise(str_of(rows[i].method), str_of(rows[i].target), &found);
                if (rows[i].kind >= GIT_HTTP_KINDS) { /* any form, but never something that is not git's */
                        assert_int_not_equal(found.kind, GIT_HTTP_NONE);
                        continue;
                }
                if (found.kind != rows[i].kind)
                        fail_msg("%s %s: %d", rows[i].method, rows[i].target, (int)found.kind);
                if (!rows[i].path)
                        continue;
                assert_true(str_is(found.path, rows[i].path));
                assert_int_equal(found.right, rows[i].right);
        }
}

#define OID "0123456789012345678901234567890123456789012345678901234567890123"

static void batches_are_read(void **state) {
        struct lfs_batch b;

        (void)state;
        assert_int_equal(lfs_batch_read(STR("{\"operation\":\"upload\",\"transfers\":[\"basic\"],\"ref\":{\"name\":"
                                            "\"refs/heads/agent/x\"},\"objects\":[{\"oid\":\"" OID "\",\"size\":12}],"
                                            "\"hash_algo\":\"sha256\"}"),
                                        &b),
                         0);
        assert_true(b.upload && b.n_objects == 1 && strcmp(b.ref, "refs/heads/agent/x") == 0);
        assert_int_equal(lfs_batch_read(STR(" {\"operation\":\"download\",\"objects\":[]}"), &b), 0);
        assert_true(!b.upload && b.ref_n == 0);

        static const char *const refused[] = {
                "",
                "[]",
                "{}",
                "{\"operation\":\"other\"}",
                "{\"operation\":\"download\",\"operation\":\"upload\"}",
                "{\"operation\":\"download\",\"Operation\":\"upload\"}",
                "{\"operation\":\"download\",\"\\u006fperation\":\"upload\"}",
                "{\"operation\":\"download\",\"x\":1}",
                "{\"operation\":\"upload\",\"ref\":{\"name\":\"refs/heads/a\",\"Name\":\"refs/heads/b\"}}",
                "{\"operation\":\"upload\",\"ref\":{\"name\":\"main\"}}",
                "{\"operation\":\"upload\",\"objects\":[{\"oid\":\"12\",\"size\":1}]}",
                "{\"operation\":\"upload\"} {}",
        };
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
                if (lfs_batch_read(str_of(refused[i]), &b) != -EBADMSG)
                        fail_msg("%s", refused[i]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(requests_are_recognised),
                cmocka_unit_test(batches_are_read),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
