/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/gateway_changes.h"

#include "base/cleanup.h"
#include "policy/mappings.h"
#include "roles/gateway_config.h"

static bool changes_has(const origin_texts *list, const char *text) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i].text, text) == 0)
                        return true;
        return false;
}

static int put_new(const origin_texts *before, const origin_texts *after, const char *what, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < after->n; i++)
                if (!changes_has(before, after->p[i].text))
                        r = buf_printf(out, "%s: %s\n", what, after->p[i].text);
        return r;
}

static int put_lists(const struct policy *a, const struct policy *b, struct buf *out) {
        const struct {
                const origin_texts *before, *after;
                const char *more, *less;
        } lists[] = {
                { &a->network.allow, &b->network.allow, "allowed now", "no longer allowed" },
                { &a->network.deny, &b->network.deny, "denied now", "no longer denied" },
                { &a->network.allow_private, &b->network.allow_private, "private, allowed now",
                  "private, no longer allowed" },
                { &a->network.no_intercept, &b->network.no_intercept, "never opened now", "no longer sealed" },
                { &a->network.deny_cidrs, &b->network.deny_cidrs, "network, denied now", "network, no longer denied" },
        };
        int r = 0;
        for (size_t i = 0; r == 0 && i < sizeof lists / sizeof *lists; i++) {
                r = put_new(lists[i].before, lists[i].after, lists[i].more, out);
                if (r >= 0)
                        r = put_new(lists[i].after, lists[i].before, lists[i].less, out);
        }

        if (r == 0 && a->network.deny_cidrs_set != b->network.deny_cidrs_set)
                r = buf_printf(out, "denied networks: %s\n",
                               b->network.deny_cidrs_set ? "a list of your own now" : "the built-in list again");

        return r;
}

static const struct mapping *changes_named(const mappings *list, const char *name) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->p[i].name, name) == 0)
                        return &list->p[i];
        return NULL;
}

static bool changes_same(const struct mapping *a, const struct mapping *b) {
        const mappings x = { .p = (struct mapping *)(uintptr_t)a, .n = 1 };
        const mappings y = { .p = (struct mapping *)(uintptr_t)b, .n = 1 };
        return mappings_equal(&x, &y);
}

static int put_credentials(const mappings *a, const mappings *b, struct buf *out) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < b->n; i++) {
                const struct mapping *before = changes_named(a, b->p[i].name);
                if (!before || !changes_same(before, &b->p[i]))
                        r = buf_printf(out, "credential %s: %s\n", b->p[i].name, before ? "changed" : "new");
        }

        for (size_t i = 0; r == 0 && i < a->n; i++)
                if (!changes_named(b, a->p[i].name))
                        r = buf_printf(out, "credential %s: removed\n", a->p[i].name);

        return r;
}

int gateway_changes(const struct policy *before, const struct policy *after, struct buf *out) {
        cleanup(mappings_done) mappings a = { 0 }, b = { 0 };
        int r = mappings_of(before, &a, NULL);

        if (r < 0)
                return r;
        r = mappings_of(after, &b, NULL);
        if (r < 0)
                return r;
        r = put_lists(before, after, out);
        if (r < 0)
                return r;
        r = put_credentials(&a, &b, out);
        if (r == 0 && before->git.n != after->git.n)
                r = buf_printf(out, "repositories: %zu, %zu before\n", after->git.n, before->git.n);

        if (r == 0 && before->network.rules.n != after->network.rules.n)
                r = buf_printf(out, "rules about requests: %zu, %zu before\n", after->network.rules.n,
                               before->network.rules.n);

        if (r == 0 && !gateway_config_equal(before, after))
                r = buf_printf(out, "limits, name servers or the upstream proxy: changed\n");

        return r;
}
