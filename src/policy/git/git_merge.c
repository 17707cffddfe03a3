/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/git/git_merge.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

/* --- settings as a list --- */

struct entry {
        struct gitconfig_setting is; /* its texts are copies */
        bool gone;                   /* of the host's: taken out */
};
typedef VEC(struct entry) entries;

static void entry_done(struct entry *entry) {
        free((char *)entry->is.section.p);
        free((char *)entry->is.subsection.p);
        free((char *)entry->is.key.p);
        free((char *)entry->is.value.p);
}

static void entries_done(entries *list) {
        for (size_t i = 0; i < list->n; i++)
                entry_done(&list->p[i]);
        vec_done(list);
}

/* A NUL is a byte like any other here. */
static int copy_text(struct str from, struct str *ret) {
        char *copy;

        *ret = (struct str){ 0 };
        if (!from.p)
                return 0;

        copy = malloc(from.n + 1);
        if (!copy)
                return -ENOMEM;

        memcpy(copy, from.p, from.n);
        *ret = str_n(copy, from.n);

        return 0;
}

static int entries_add(entries *list, const struct gitconfig_setting *setting) {
        struct entry entry = { .is = { .begin = setting->begin, .end = setting->end } };

        if (copy_text(setting->section, &entry.is.section) == 0 &&
            copy_text(setting->subsection, &entry.is.subsection) == 0 && copy_text(setting->key, &entry.is.key) == 0 &&
            copy_text(setting->value, &entry.is.value) == 0 && vec_push(list, entry) == 0)
                return 0;

        entry_done(&entry);
        return -ENOMEM;
}

static int entries_each(const struct gitconfig_setting *setting, void *context) {
        entries *list = context;

        if (list->n >= GIT_MERGE_SETTINGS_MAX)
                return -E2BIG;

        return entries_add(list, setting);
}

/* Without a text is not the same as with an empty one. */
static bool same_optional(struct str a, struct str b) {
        if (!a.p || !b.p)
                return !a.p && !b.p;
        return str_eq(a, b);
}

static bool same_name(const struct gitconfig_setting *setting, const struct gitconfig_setting *gitconfig_setting) {
        return str_eq(setting->key, gitconfig_setting->key) && str_eq(setting->section, gitconfig_setting->section) &&
               same_optional(setting->subsection, gitconfig_setting->subsection);
}

static bool same_value(const struct gitconfig_setting *setting, const struct gitconfig_setting *gitconfig_setting) {
        return same_optional(setting->value, gitconfig_setting->value);
}

/* The next of this name from `at` on, or NULL. */
static const struct entry *entries_next(const entries *list, const struct gitconfig_setting *name, size_t *at) {
        while (*at < list->n) {
                const struct entry *entry = &list->p[(*at)++];
                if (!entry->gone && same_name(&entry->is, name))
                        return entry;
        }
        return NULL;
}

static bool entries_have(const entries *list, const struct gitconfig_setting *name) {
        size_t at = 0;

        return entries_next(list, name, &at) != NULL;
}

static bool same_values(const entries *a, const entries *b, const struct gitconfig_setting *name) {
        size_t at_a = 0, at_b = 0;

        for (;;) {
                const struct entry *entry = entries_next(a, name, &at_a), *y = entries_next(b, name, &at_b);

                if (!entry || !y)
                        return !entry && !y;
                if (!same_value(&entry->is, &y->is))
                        return false;
        }
}

/* --- one merge --- */

struct merging {
        const struct git_merge *request;
        entries base, inside, host;
        entries added; /* with the host's that are not gone: the result */
        git_lefts *left;
};

static void merging_done(struct merging *merging) {
        entries_done(&merging->base);
        entries_done(&merging->inside);
        entries_done(&merging->host);
        entries_done(&merging->added);
}

void git_lefts_done(git_lefts *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].name);
                free(list->p[i].value);
        }
        vec_done(list);
}

static int merge_leave(struct merging *merging, const struct gitconfig_setting *name, enum git_left_why why) {
        struct git_left left = { .why = why };
        cleanup(buf_done) struct buf text = BUF(GIT_MERGE_TEXT_MAX * 2);
        const struct entry *last = NULL, *next;
        size_t at = 0;
        int r = buf_append(&text, name->section);

        if (r == 0 && name->subsection.p)
                r = buf_printf(&text, ".%.*s", STR_FMT(name->subsection));
        if (r == 0)
                r = buf_printf(&text, ".%.*s", STR_FMT(name->key));

        while ((next = entries_next(&merging->inside, name, &at)))
                last = next;

        left.name = r == 0 ? str_dup(buf_str(&text)) : NULL;
        left.value = last && last->is.value.p ? str_dup(last->is.value) : NULL;
        if (left.name && vec_push(merging->left, left) == 0)
                return 0;

        free(left.name);
        free(left.value);

        return -ENOMEM;
}

static bool has_remote(const entries *list, struct str name) {
        for (size_t i = 0; i < list->n; i++) {
                const struct entry *entry = &list->p[i];
                if (!entry->gone && git_setting_is(&entry->is, "remote", "url") && str_eq(entry->is.subsection, name) &&
                    entry->is.value.n)
                        return true;
        }
        return false;
}

static bool is_reachable(const struct merging *merging, struct str url) {
        struct str host;
        uint16_t port;

        if (!git_harmless_address(url, &host, &port))
                return false;
        if (merging->request->may_reach(host, port, merging->request->context))
                return true;

        /* Where the host's own remotes are, the host sends to anyway. */
        for (size_t i = 0; i < merging->base.n; i++) {
                const struct gitconfig_setting *own = &merging->base.p[i].is;
                struct str own_host;
                uint16_t own_port;

                if (git_setting_is(own, "remote", "url") && git_harmless_address(own->value, &own_host, &own_port) &&
                    str_eq(own_host, host) && own_port == port)
                        return true;
        }

        return false;
}

static bool is_address(const struct gitconfig_setting *name) {
        return str_is(name->key, "url");
}

static bool will_have_remote(const struct merging *merging, struct str name) {
        return has_remote(&merging->host, name) || has_remote(&merging->added, name);
}

static bool names_remote(const struct gitconfig_setting *name) {
        return git_setting_is(name, "branch", "remote") || git_setting_is(name, "branch", "pushremote");
}

static bool is_granted(const struct merging *merging, struct str url) {
        struct str host;
        uint16_t port;

        return git_harmless_address(url, &host, &port) &&
               merging->request->may_reach(host, port, merging->request->context);
}

/* What the host pushes goes there. A remote that is new is one that the sandbox may send to itself. */
static bool may_be_sent_to(const struct merging *merging, struct str remote) {
        bool found = has_remote(&merging->host, remote);

        for (size_t i = 0; i < merging->added.n; i++) {
                const struct gitconfig_setting *is = &merging->added.p[i].is;

                if (!git_setting_is(is, "remote", "url") || !str_eq(is->subsection, remote))
                        continue;
                if (!is_granted(merging, is->value))
                        return false;

                found = true;
        }

        return found;
}

/* A branch that has a remote keeps it, and is pushed nowhere else. */
static bool has_other_remote(const struct merging *merging, const struct gitconfig_setting *branch, struct str remote) {
        struct gitconfig_setting name = *branch;
        const struct entry *own;
        size_t at = 0;

        name.key = STR("remote");
        while ((own = entries_next(&merging->base, &name, &at)))
                if (!str_eq(own->is.value, remote))
                        return true;

        return false;
}

static bool is_led_elsewhere(const struct merging *merging, const struct gitconfig_setting *name, struct str value) {
        if (!names_remote(name) || str_is(value, "."))
                return false;
        return !may_be_sent_to(merging, value) || has_other_remote(merging, name, value);
}

/* For a setting that differs and that the host has not changed: why it does not come back, or -1 if it does. */
static int merge_judge(const struct merging *merging, const struct gitconfig_setting *name) {
        const struct entry *value;
        size_t at = 0;

        if (!git_harmless_key(name, GIT_CARRIED))
                return GIT_LEFT_KIND;
        if (is_address(name) && entries_have(&merging->base, name))
                return GIT_LEFT_REMOTE;

        while ((value = entries_next(&merging->inside, name, &at))) {
                if (!git_harmless(&value->is, GIT_CARRIED))
                        return GIT_LEFT_KIND;
                if (is_address(name) && !is_reachable(merging, value->is.value))
                        return GIT_LEFT_SERVER;
                if (is_led_elsewhere(merging, name, value->is.value))
                        return GIT_LEFT_REMOTE;

                /* Git takes a remote without an address for a directory. */
                if (str_is(name->section, "remote") && !is_address(name) &&
                    !will_have_remote(merging, name->subsection))
                        return GIT_LEFT_REMOTE;
        }

        return -1;
}

static int take_over(struct merging *merging, const struct gitconfig_setting *name) {
        const struct entry *value;
        size_t at = 0;

        for (size_t i = 0; i < merging->host.n; i++)
                if (same_name(&merging->host.p[i].is, name))
                        merging->host.p[i].gone = true;

        while ((value = entries_next(&merging->inside, name, &at))) {
                int r = entries_add(&merging->added, &value->is);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int merge_name(struct merging *merging, const struct gitconfig_setting *name) {
        int why;

        if (same_values(&merging->base, &merging->inside, name) || same_values(&merging->host, &merging->inside, name))
                return 0;
        if (!same_values(&merging->base, &merging->host, name))
                return merge_leave(merging, name, GIT_LEFT_BOTH);

        why = merge_judge(merging, name);
        if (why < 0)
                return take_over(merging, name);

        return merge_leave(merging, name, (enum git_left_why)why);
}

/* Each name once: at the first setting of the list that has it. */
static int merge_list(struct merging *merging, const entries *list, const entries *before, bool addresses) {
        for (size_t i = 0; i < list->n; i++) {
                const struct gitconfig_setting *name = &list->p[i].is;
                size_t at = 0;

                if (is_address(name) != addresses || entries_next(list, name, &at) != &list->p[i])
                        continue;
                if (before && entries_have(before, name))
                        continue;

                int r = merge_name(merging, name);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* --- the text --- */

/* From the blanks before the key to the end of the line. A section on the same line stays, and so does its line. */
static void line_of(struct str text, const struct entry *entry, size_t *ret_begin, size_t *ret_end) {
        size_t begin = entry->is.begin, end = entry->is.end;

        while (begin > 0 && (text.p[begin - 1] == ' ' || text.p[begin - 1] == '\t'))
                begin--;

        if (begin > 0 && text.p[begin - 1] != '\n' && end > begin && text.p[end - 1] == '\n')
                end--;

        *ret_begin = begin;
        *ret_end = end;
}

static int put_host(const struct merging *merging, struct buf *out) {
        struct str text = merging->request->host;
        size_t done = 0;
        int r = 0;

        for (size_t i = 0; i < merging->host.n && r == 0; i++) {
                size_t begin, end;

                if (!merging->host.p[i].gone)
                        continue;

                line_of(text, &merging->host.p[i], &begin, &end);
                if (begin > done)
                        r = buf_append(out, str_n(text.p + done, begin - done));
                else
                        r = 0;
                done = end;
        }

        if (r == 0 && done < text.n)
                return buf_append(out, str_skip(text, done));

        return r;
}

static int put_added(const struct merging *merging, struct buf *out) {
        const struct gitconfig_setting *before = NULL;
        int r = 0;

        if (merging->added.n && out->n && out->p[out->n - 1] != '\n')
                r = buf_add_char(out, '\n');

        for (size_t i = 0; i < merging->added.n && r == 0; i++) {
                const struct gitconfig_setting *is = &merging->added.p[i].is;
                bool same =
                    before && str_eq(before->section, is->section) && same_optional(before->subsection, is->subsection);

                if (!same && is->subsection.p)
                        r = buf_printf(out, "[%.*s \"%.*s\"]\n", STR_FMT(is->section), STR_FMT(is->subsection));
                else if (!same)
                        r = buf_printf(out, "[%.*s]\n", STR_FMT(is->section));

                if (r == 0)
                        r = buf_printf(out, "\t%.*s = %.*s\n", STR_FMT(is->key), STR_FMT(is->value));

                before = is;
        }

        return r;
}

/* Checks that git will read what we meant: no open quote or continued line at the end of the host's text swallows a
 * line. */
static int check_text(const struct merging *merging, struct str text) {
        cleanup(entries_done) entries now = { 0 };
        size_t at = 0;
        int r = gitconfig_read(text, entries_each, &now, NULL);

        if (r < 0)
                return r;

        for (size_t i = 0; i < merging->host.n + merging->added.n; i++) {
                const struct entry *wanted =
                    i < merging->host.n ? &merging->host.p[i] : &merging->added.p[i - merging->host.n];

                if (wanted->gone)
                        continue;
                if (at >= now.n || !same_name(&now.p[at].is, &wanted->is) || !same_value(&now.p[at].is, &wanted->is))
                        return -EBADMSG;

                at++;
        }

        if (at != now.n)
                return -EBADMSG;

        return 0;
}

static int read_all(struct merging *merging) {
        int r = gitconfig_read(merging->request->base, entries_each, &merging->base, NULL);

        if (r == 0)
                r = gitconfig_read(merging->request->inside, entries_each, &merging->inside, NULL);
        if (r < 0)
                return r;

        return gitconfig_read(merging->request->host, entries_each, &merging->host, NULL);
}

int git_merge(const struct git_merge *request, struct buf *ret_text, bool *ret_changed, git_lefts *ret_left) {
        cleanup(merging_done) struct merging merging = { .request = request, .left = ret_left };
        int r = read_all(&merging);

        /* Addresses first: then it is known which remotes there will be. */
        for (int rest = 0; rest < 2 && r == 0; rest++) {
                r = merge_list(&merging, &merging.inside, NULL, rest == 0);
                if (r == 0)
                        r = merge_list(&merging, &merging.base, &merging.inside, rest == 0);
        }

        if (r == 0)
                r = put_host(&merging, ret_text);
        if (r == 0)
                r = put_added(&merging, ret_text);
        if (r == 0)
                r = check_text(&merging, buf_str(ret_text));

        *ret_changed = r == 0 && !str_eq(buf_str(ret_text), request->host);
        return r;
}
