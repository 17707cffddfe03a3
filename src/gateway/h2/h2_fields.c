/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of header fields: what was received, within limits, and what is sent on. */
#include "gateway/h2/h2_internal.h"

#include <stdlib.h>

enum { TEXT_MAX = 1 << 20 };

struct h2_fields *h2_fields_new(size_t max) {
        struct h2_fields *fields = malloc(sizeof *fields);
        if (!fields)
                return NULL;
        fields->text = BUF(TEXT_MAX);
        fields->max = max;
        h2_fields_clear(fields);
        return fields;
}

void h2_fields_free(struct h2_fields *fields) {
        if (!fields)
                return;
        buf_done(&fields->text);
        free(fields);
}

void h2_fields_clear(struct h2_fields *fields) {
        buf_clear(&fields->text);
        fields->n = fields->size = 0;
        fields->too_large = false;
}

void h2_fields_add(struct h2_fields *fields, struct str name, struct str value, bool sensitive) {
        fields->size += name.n + value.n + H2_FIELD_OVERHEAD; /* of one frame: no overflow */
        size_t before = fields->text.n;

        if (fields->too_large || fields->size > fields->max || fields->n == H2_FIELDS_MAX ||
            buf_append(&fields->text, name) < 0 || buf_append(&fields->text, value) < 0) {
                fields->text.n = before;
                fields->too_large = true;
                return;
        }

        fields->at[fields->n++] = (struct h2_field){ .name = (uint32_t)before,
                                                     .name_n = (uint32_t)name.n,
                                                     .value = (uint32_t)(before + name.n),
                                                     .value_n = (uint32_t)value.n,
                                                     .sensitive = sensitive };
}

struct str h2_fields_find(const struct h2_fields *fields, const char *name) {
        for (size_t i = 0; i < fields->n; i++)
                if (str_is(h2_field_name(fields, i), name))
                        return h2_field_value(fields, i);
        return str_n(NULL, 0);
}

/* nghttp2 copies names and values when it is given them. */
void h2_nvs_add(struct h2_nvs *to, struct str name, struct str value, bool sensitive) {
        if (to->n == sizeof to->at / sizeof *to->at)
                return; /* cannot be: there are as many places as fields */
        if (value.n == 0)
                value = STR(""); /* nghttp2 takes no NULL */

        to->at[to->n++] = (nghttp2_nv){ .name = (uint8_t *)name.p,
                                        .namelen = name.n,
                                        .value = (uint8_t *)value.p,
                                        .valuelen = value.n,
                                        .flags = sensitive ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE };
}

/* The authority is said once, in its own field. What is for proxies is for us. nghttp2 has refused the rest of what may
 * not pass. */
bool h2_field_ends_here(struct str name) {
        return name.p[0] == ':' || str_is(name, "host") || str_starts(name, STR("proxy-"));
}

void h2_nvs_add_fields(struct h2_nvs *to, const struct h2_fields *fields) {
        for (size_t i = 0; i < fields->n; i++)
                if (!h2_field_ends_here(h2_field_name(fields, i)))
                        h2_nvs_add(to, h2_field_name(fields, i), h2_field_value(fields, i), fields->at[i].sensitive);
}
