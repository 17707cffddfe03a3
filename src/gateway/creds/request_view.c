/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/creds/request_view.h"

size_t request_view_count(const struct request_view *view, struct str name) {
        size_t n = 0;
        for (size_t i = 0; i < view->n_headers; i++)
                n += str_eq_nocase(view->headers[i].name, name);
        return n;
}

uint32_t request_view_only(const struct request_view *view, const char *name) {
        struct str wanted = str_of(name);
        uint32_t found = VIEW_NONE;

        for (size_t i = 0; i < view->n_headers; i++) {
                if (!str_eq_nocase(view->headers[i].name, wanted))
                        continue;
                if (found != VIEW_NONE)
                        return VIEW_NONE;
                found = (uint32_t)i;
        }

        return found;
}
