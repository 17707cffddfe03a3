/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of header fields: what was received, within limits, and what is sent on. */
#include "gateway/h2/h2_internal.h"

#include <stdlib.h>

enum { TEXT_MAX = 1 << 20 };

struct h2_fields *h2_fields_new(size_t max) {
        struct h2_fields *f = malloc(sizeof *f);
        if (!f)
                return NULL;
        f->text = BUF(TEXT_MAX);
        f->max = max;
        h2_fields_clear(f);
        return f;
}

void h2_fields_free(struct h2_fields *f) {
        if (!f)
                return;
        buf_done(&f->text);
        free(f);
}

void h2_fields_clear(struct h2_fields *f) {
        buf_clear(&f->text);
        f->n = f->size = 0;
        f->too_large = false;
}

void h2_fields_add(struct h2_fields *f, struct str name, struct str value, bool sensitive) {
        f->size += name.n + value.n + H2_FIELD_OVERHEAD; /* of one frame: no overflow */
        size_t before = f->text.n;
        if (f->too_large || f->size > f->max || f->n == H2_FIELDS_MAX || buf_append(&f->text, name) < 0 ||
            buf_append(&f->text, value) < 0) {
                f->text.n = before;
                f->too_large = true;
                return;
        }
        f->at[f->n++] = (struct h2_field){ .name = (uint32_t)before,
                                           .name_n = (uint32_t)name.n,
                                           .value = (uint32_t)(before + name.n),
                                           .value_n = (uint32_t)value.n,
                                           .sensitive = sensitive };
}

struct str h2_fields_find(const struct h2_fields *f, const char *name) {
        for (size_t i = 0; i < f->n; i++)
                if (str_is(h2_field_name(f, i), name))
                        return h2_field_value(f, i);
        return str_n(NULL, 0);
}

/* nghttp2 copies names and values when it is given them. */
void h2_nvs_add(struct h2_nvs *to, struct str name, struct str value, bool sensitive) {
        if (to->n == sizeof to->at / sizeof *to->at)
                return; /* cannot be: there are as many places as fields */
        to->at[to->n++] = (nghttp2_nv){ .name = (uint8_t *)name.p,
                                        .namelen = name.n,
                                        .value = (uint8_t *)(value.n ? value.p : ""),
                                        .valuelen = value.n,
                                        .flags = sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE };
}

/* The authority is said once, in its own field. What is for proxies is for us. nghttp2 has refused the rest of what may
 * not pass. */
bool h2_field_ends_here(struct str name) {
        return name.p[0] == ':' || str_is(name, "host") || str_starts(name, STR("proxy-"));
}

void h2_nvs_add_fields(struct h2_nvs *to, const struct h2_fields *f) {
        for (size_t i = 0; i < f->n; i++)
                if (!h2_field_ends_here(h2_field_name(f, i)))
                        h2_nvs_add(to, h2_field_name(f, i), h2_field_value(f, i), f->at[i].sensitive);
}
