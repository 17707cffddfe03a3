/* SPDX-License-Identifier: Apache-2.0 */
/* A repository that is recognised has one canonical path, and the same request spelled with an escape is not another.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "bridge/git_http.h"
#include "fuzz.h"
#include "policy/git/git.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct str rest = str_n(data, size), method = { 0 };
        struct git_http found, escaped;
        cleanup(buf_done) struct buf other = BUF(1 << 20);

        (void)str_split(&rest, ' ', &method);
        git_http_recognise(method, rest, &found);
        if (found.kind == GIT_HTTP_NONE || found.kind == GIT_HTTP_BAD)
                return 0;
        struct str folded;
        FUZZ_CHECK(git_path_parse(found.path, &folded));
        FUZZ_CHECK(rest.n > 1 && rest.p[0] == '/');
        if (found.kind == GIT_HTTP_FILE)
                return 0;
        ptrdiff_t mark = str_find(rest, '?');
        struct str path = mark < 0 ? rest : str_first(rest, (size_t)mark), query = str_skip(rest, path.n);
        FUZZ_CHECK(buf_printf(&other, "%.*s%%%02x%.*s", (int)path.n - 1, path.p, (unsigned char)path.p[path.n - 1],
                              STR_FMT(query)) == 0);
        git_http_recognise(method, buf_str(&other), &escaped);
        FUZZ_CHECK(escaped.kind == GIT_HTTP_BAD);
        return 0;
}
