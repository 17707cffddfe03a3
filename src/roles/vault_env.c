/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/vault_env.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/credentials.h"

#include <errno.h>
#include <stdlib.h>

void text_list_done(text_list *l) {
        for (size_t i = 0; i < l->n; i++)
                free(l->p[i]);
        vec_done(l);
}

int text_list_take(text_list *l, char *taken, struct err *e) {
        if (taken && vec_reserve(l, 2) == 0) {
                l->p[l->n++] = taken;
                l->p[l->n] = NULL;
                return 0;
        }
        free(taken);
        return err_memory(e);
}

/* Which part of a mapping its i-th variable holds. */
static enum vault_part part_of(const struct mapping *m, size_t i) {
        static const enum vault_part parts[] = { PART_KEY_ID, PART_SECRET_KEY, PART_SESSION_TOKEN };
        return m->sigv4 && i < 3 ? parts[i] : PART_VALUE;
}

static int check_free(const struct mapping *m, const char *name, const struct policy *p, struct err *e) {
        size_t n = strlen(name);
        for (size_t i = 0; i < p->process.env_set.n; i++) {
                const struct origin_text *set = &p->process.env_set.p[i];
                if (strncmp(set->text, name, n) == 0 && set->text[n] == '=')
                        return err_set(e, EEXIST,
                                       "%s sets %s, which is for the stand-in of credential '%s' (%s); take one of "
                                       "them out",
                                       set->origin, name, m->name, m->origin);
        }
        return 0;
}

static bool is_set(char *const *environment, const char *name) {
        size_t n = strlen(name);
        for (char *const *v = environment; v && *v; v++)
                if (strncmp(*v, name, n) == 0 && (*v)[n] == '=' && (*v)[n + 1] != '\0')
                        return true;
        return false;
}

static bool any_is_set(const struct mapping *m, char *const *environment) {
        for (size_t i = 0; i < m->env.n; i++)
                if (is_set(environment, m->env.p[i]))
                        return true;
        return false;
}

/* The sandbox has the variables that the host has. Where the host has none of them (the value comes from a file, say)
 * it gets those by which any client finds it. A policy that names the variable has the last word. */
static bool variable_is_wanted(const struct mapping *m, size_t i, char *const *environment) {
        const char *name = m->env.p[i];

        if (i + m->n_env_also >= m->env.n)
                return true;
        if (!m->provider || m->sigv4 || m->env_given)
                return true;
        if (any_is_set(m, environment))
                return is_set(environment, name);

        for (const char *const *other = m->provider->only_as_host; other && *other; other++)
                if (strcmp(*other, name) == 0)
                        return false;
        return true;
}

static int add_variables(const mappings *list, uint32_t index, const struct vault_process *v, const struct policy *p,
                         char *const *environment, text_list *ret, struct err *e) {
        const struct mapping *m = &list->p[index];
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->env.n; i++) {
                const char *fake = v ? vault_process_fake(v, index, part_of(m, i)) : "";
                if (!variable_is_wanted(m, i, environment))
                        continue;
                r = check_free(m, m->env.p[i], p, e);
                if (r == 0 && fake)
                        r = text_list_take(ret, str_format("%s=%s", m->env.p[i], fake), e);
        }
        for (const char *const *s = m->provider ? m->provider->set : NULL; s && *s && r == 0; s++)
                r = text_list_take(ret, str_dup(str_of(*s)), e);
        return r;
}

/* git asks a helper for user and password; this one answers with the stand-in, for the credential's hosts only. */
static int add_git_helper(const struct mapping *m, const char *variable, const char *host, unsigned *n, text_list *ret,
                          struct err *e) {
        struct str name = str_of(host);
        if (str_starts(name, STR("*")))
                return 0;
        if (str_ends(name, STR(":443")))
                name.n -= 4;
        int r =
            text_list_take(ret, str_format("GIT_CONFIG_KEY_%u=credential.https://%.*s.helper", *n, STR_FMT(name)), e);
        if (r == 0)
                r = text_list_take(ret,
                                   str_format("GIT_CONFIG_VALUE_%u=!f() { test \"$1\" = get && printf "
                                              "'username=%%s\\npassword=%%s\\n' %s \"$%s\"; }; f",
                                              *n, m->provider->git_user, variable),
                                   e);
        ++*n;
        return r;
}

/* Where the stand-in is found inside. */
static const char *first_variable(const struct mapping *m, char *const *environment) {
        for (size_t i = 0; i < m->env.n; i++)
                if (variable_is_wanted(m, i, environment))
                        return m->env.p[i];
        return m->env.p[0];
}

static unsigned git_settings(char *const *environment) {
        for (char *const *v = environment; v && *v; v++) {
                uint64_t n;
                if (strncmp(*v, "GIT_CONFIG_COUNT=", 17) == 0 && str_to_u64(str_of(*v + 17), 10000, &n))
                        return (unsigned)n;
        }
        return 0;
}

int vault_env_stand_ins(const mappings *list, const struct vault_process *v, const struct policy *p,
                        char *const *environment, text_list *ret, struct err *e) {
        unsigned before = git_settings(environment), n = before;
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *m = &list->p[i];
                r = add_variables(list, i, v, p, environment, ret, e);
                for (size_t k = 0; r == 0 && m->provider && m->provider->git_user && k < m->hosts.n; k++)
                        r = add_git_helper(m, first_variable(m, environment), m->hosts.p[k], &n, ret, e);
        }
        if (r == 0 && n > before)
                r = text_list_take(ret, str_format("GIT_CONFIG_COUNT=%u", n), e);
        return r;
}

int vault_env_base_urls(const mappings *list, const char *proxy, char *const *environment, text_list *ret,
                        struct err *e) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *m = &list->p[i];
                const struct provider *p = m->provider;
                bool one_host = m->hosts.n > 0 && m->hosts.p[0][0] != '*';
                if (p && p->base_url && p->base_path && one_host && !is_set(environment, p->base_url))
                        r = text_list_take(ret, str_format("%s=%s/%s%s", p->base_url, proxy, m->name, p->base_path), e);
        }
        return r;
}

int vault_env_sources(const mappings *list, text_list *ret, struct err *e) {
        int r = 0;
        for (size_t i = 0; i < list->n; i++)
                for (size_t k = 0; r == 0; k++) {
                        char *name = mapping_source_variable(&list->p[i], k);
                        if (!name)
                                break;
                        r = text_list_take(ret, name, e);
                }
        return r;
}

/* the table */

struct row_room {
        struct str hosts[MAPPING_HOSTS_MAX], old[CREDENTIAL_OLD_MAX];
};

static int fill_row(const mappings *list, uint32_t index, const struct vault_process *v, struct credential_row *row,
                    struct row_room *room, char **ret_slots) {
        const struct mapping *m = &list->p[index];
        cleanup(buf_done) struct buf slots = BUF(1024);
        size_t n_old = 0;
        int r = 0;
        for (size_t i = 0; i < m->slots.n && r == 0; i++)
                r = buf_printf(&slots, "%s%s", i ? "," : "", m->slots.p[i]);
        *ret_slots = r < 0 ? NULL : str_dup(buf_str(&slots));
        for (size_t i = 0; i < m->hosts.n; i++)
                room->hosts[i] = str_of(m->hosts.p[i]);
        for (const char *old; n_old < CREDENTIAL_OLD_MAX && (old = vault_process_old(v, index, n_old)); n_old++)
                room->old[n_old] = str_of(old);
        *row = (struct credential_row){ .kind = m->sigv4 ? MAPPING_SIGV4 : MAPPING_VALUE,
                                        .name = str_of(m->name),
                                        .slots = str_of(*ret_slots),
                                        .hosts = room->hosts,
                                        .n_hosts = m->hosts.n,
                                        .old = room->old,
                                        .n_old = n_old };
        row->answer = str_of(m->answer);
        if (!m->sigv4) /* also where no variable has it */
                row->fake[PART_VALUE] = str_of(vault_process_fake(v, index, PART_VALUE));
        for (size_t i = m->env.n; i-- > 0;) { /* of several variables for one part the first is named */
                enum vault_part part = part_of(m, i);
                const char *fake = vault_process_fake(v, index, part);
                row->fake[part] = str_of(fake);
                row->env[part] = fake ? str_of(m->env.p[i]) : STR("");
        }
        return *ret_slots ? 0 : -ENOMEM;
}

int vault_env_table(const mappings *list, const struct vault_process *v, int *ret_fd, struct err *e) {
        cleanup(free_ptr) struct credential_row *rows = calloc(list->n + 1, sizeof *rows);
        cleanup(free_ptr) struct row_room *rooms = calloc(list->n + 1, sizeof *rooms);
        cleanup(text_list_done) text_list slots = { 0 };
        int r = rows && rooms ? 0 : err_memory(e);
        for (uint32_t i = 0; r == 0 && i < list->n; i++) {
                char *text = NULL;
                r = fill_row(list, i, v, &rows[i], &rooms[i], &text);
                r = text_list_take(&slots, text, e);
        }
        cleanup(buf_done) struct buf bytes = BUF(CREDENTIALS_BYTES_MAX);
        if (r == 0)
                r = credentials_encode(rows, list->n, &bytes, e);
        return r < 0 ? r : fd_sealed("bailey-credentials", buf_str(&bytes), ret_fd, e);
}
