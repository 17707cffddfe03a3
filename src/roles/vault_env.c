/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/vault_env.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "ipc/credentials.h"

#include <errno.h>
#include <stdlib.h>

void text_list_done(text_list *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->p[i]);
        vec_done(list);
}

int text_list_take(text_list *list, char *taken, struct err *err) {
        if (taken && vec_reserve(list, 2) == 0) {
                list->p[list->n++] = taken;
                list->p[list->n] = NULL;
                return 0;
        }
        free(taken);
        return err_memory(err);
}

/* Which part of a mapping its i-th variable holds. */
static enum vault_part part_of(const struct mapping *mapping, size_t i) {
        static const enum vault_part parts[] = { PART_KEY_ID, PART_SECRET_KEY, PART_SESSION_TOKEN };
        return mapping->sigv4 && i < 3 ? parts[i] : PART_VALUE;
}

static int check_free(const struct mapping *mapping, const char *name, const struct policy *policy, struct err *err) {
        size_t n = strlen(name);
        for (size_t i = 0; i < policy->process.env_set.n; i++) {
                const struct origin_text *set = &policy->process.env_set.p[i];
                if (strncmp(set->text, name, n) == 0 && set->text[n] == '=')
                        return err_set(err, EEXIST,
                                       "%s sets %s, which is for the stand-in of credential '%s' (%s); take one of "
                                       "them out",
                                       set->origin, name, mapping->name, mapping->origin);
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

static bool any_is_set(const struct mapping *mapping, char *const *environment) {
        for (size_t i = 0; i < mapping->env.n; i++)
                if (is_set(environment, mapping->env.p[i]))
                        return true;
        return false;
}

/* The sandbox has the variables that the host has. If the host has none of them (the value comes from a file, say), it
 * gets those of the provider, except only_as_host. A policy that names the variable wins. */
static bool variable_is_wanted(const struct mapping *mapping, size_t i, char *const *environment) {
        const char *name = mapping->env.p[i];

        if (i + mapping->n_env_also >= mapping->env.n)
                return true;
        if (!mapping->provider || mapping->sigv4 || mapping->env_given)
                return true;
        if (any_is_set(mapping, environment))
                return is_set(environment, name);

        for (const char *const *other = mapping->provider->only_as_host; other && *other; other++)
                if (strcmp(*other, name) == 0)
                        return false;

        return true;
}

static int add_variables(const mappings *list, uint32_t index, const struct vault_process *process,
                         const struct policy *policy, char *const *environment, text_list *ret, struct err *err) {
        const struct mapping *mapping = &list->p[index];
        int r = 0;
        for (size_t i = 0; r == 0 && i < mapping->env.n; i++) {
                const char *stand_in = process ? vault_process_stand_in(process, index, part_of(mapping, i)) : "";

                if (!variable_is_wanted(mapping, i, environment))
                        continue;

                r = check_free(mapping, mapping->env.p[i], policy, err);
                if (r == 0 && stand_in)
                        r = text_list_take(ret, str_format("%s=%s", mapping->env.p[i], stand_in), err);
        }

        for (const char *const *s = mapping->provider ? mapping->provider->set : NULL; s && *s && r == 0; s++)
                r = text_list_take(ret, str_dup(str_of(*s)), err);

        return r;
}

/* git asks a helper for user and password; this one answers with the stand-in, for the credential's hosts only. */
static int add_git_helper(const struct mapping *mapping, const char *variable, const char *host, unsigned *n,
                          text_list *ret, struct err *err) {
        struct str name = str_of(host);
        if (str_starts(name, STR("*")))
                return 0;
        if (str_ends(name, STR(":443")))
                name.n -= 4;

        int r =
            text_list_take(ret, str_format("GIT_CONFIG_KEY_%u=credential.https://%.*s.helper", *n, STR_FMT(name)), err);
        if (r == 0)
                r = text_list_take(ret,
                                   str_format("GIT_CONFIG_VALUE_%u=!f() { test \"$1\" = get && printf "
                                              "'username=%%s\\npassword=%%s\\n' %s \"$%s\"; }; f",
                                              *n, mapping->provider->git_user, variable),
                                   err);

        ++*n;
        return r;
}

/* Where the stand-in is found inside. */
static const char *first_variable(const struct mapping *mapping, char *const *environment) {
        for (size_t i = 0; i < mapping->env.n; i++)
                if (variable_is_wanted(mapping, i, environment))
                        return mapping->env.p[i];
        return mapping->env.p[0];
}

static unsigned git_settings(char *const *environment) {
        for (char *const *v = environment; v && *v; v++) {
                uint64_t n;
                if (strncmp(*v, "GIT_CONFIG_COUNT=", 17) == 0 && str_to_u64(str_of(*v + 17), 10000, &n))
                        return (unsigned)n;
        }
        return 0;
}

int vault_env_stand_ins(const mappings *list, const struct vault_process *process, const struct policy *policy,
                        char *const *environment, text_list *ret, struct err *err) {
        unsigned before = git_settings(environment), n = before;
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];

                r = add_variables(list, i, process, policy, environment, ret, err);
                for (size_t k = 0; r == 0 && mapping->provider && mapping->provider->git_user && k < mapping->hosts.n;
                     k++)
                        r = add_git_helper(mapping, first_variable(mapping, environment), mapping->hosts.p[k], &n, ret,
                                           err);
        }

        if (r == 0 && n > before)
                r = text_list_take(ret, str_format("GIT_CONFIG_COUNT=%u", n), err);

        return r;
}

int vault_env_base_urls(const mappings *list, const char *proxy, char *const *environment, text_list *ret,
                        struct err *err) {
        int r = 0;
        for (size_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];
                const struct provider *provider = mapping->provider;
                bool one_host = mapping->hosts.n > 0 && mapping->hosts.p[0][0] != '*';
                if (provider && provider->base_url && provider->base_path && one_host &&
                    !is_set(environment, provider->base_url))
                        r = text_list_take(
                            ret,
                            str_format("%s=%s/%s%s", provider->base_url, proxy, mapping->name, provider->base_path),
                            err);
        }

        return r;
}

int vault_env_sources(const mappings *list, text_list *ret, struct err *err) {
        int r = 0;

        for (size_t i = 0; i < list->n; i++)
                for (size_t k = 0; r == 0; k++) {
                        char *name = mapping_source_variable(&list->p[i], k);
                        if (!name)
                                break;
                        r = text_list_take(ret, name, err);
                }

        return r;
}

/* the table */

struct row_room {
        struct str hosts[MAPPING_HOSTS_MAX], old[CREDENTIAL_OLD_MAX];
};

static int fill_row(const mappings *list, uint32_t index, const struct vault_process *process,
                    struct credential_row *row, struct row_room *room, char **ret_slots) {
        const struct mapping *mapping = &list->p[index];
        cleanup(buf_done) struct buf slots = BUF(1024);
        size_t n_old = 0;
        int r = 0;
        for (size_t i = 0; i < mapping->slots.n && r == 0; i++)
                r = buf_printf(&slots, "%s%s", i ? "," : "", mapping->slots.p[i]);

        *ret_slots = r < 0 ? NULL : str_dup(buf_str(&slots));
        for (size_t i = 0; i < mapping->hosts.n; i++)
                room->hosts[i] = str_of(mapping->hosts.p[i]);

        for (const char *old; n_old < CREDENTIAL_OLD_MAX && (old = vault_process_old(process, index, n_old)); n_old++)
                room->old[n_old] = str_of(old);

        *row = (struct credential_row){ .kind = mapping->sigv4 ? MAPPING_SIGV4 : MAPPING_VALUE,
                                        .name = str_of(mapping->name),
                                        .slots = str_of(*ret_slots),
                                        .hosts = room->hosts,
                                        .n_hosts = mapping->hosts.n,
                                        .old = room->old,
                                        .n_old = n_old };
        row->answer = str_of(mapping->answer);
        if (!mapping->sigv4) /* also where no variable has it */
                row->stand_in[PART_VALUE] = str_of(vault_process_stand_in(process, index, PART_VALUE));

        for (size_t i = mapping->env.n; i-- > 0;) { /* of several variables for one part the first is named */
                enum vault_part part = part_of(mapping, i);
                const char *stand_in = vault_process_stand_in(process, index, part);

                row->stand_in[part] = str_of(stand_in);
                row->env[part] = stand_in ? str_of(mapping->env.p[i]) : STR("");
        }

        if (!*ret_slots)
                return -ENOMEM;

        return 0;
}

int vault_env_table(const mappings *list, const struct vault_process *process, int *ret_fd, struct err *err) {
        cleanup(free_ptr) struct credential_row *rows = calloc(list->n + 1, sizeof *rows);
        cleanup(free_ptr) struct row_room *rooms = calloc(list->n + 1, sizeof *rooms);
        cleanup(text_list_done) text_list slots = { 0 };
        int r = rows && rooms ? 0 : err_memory(err);
        for (uint32_t i = 0; r == 0 && i < list->n; i++) {
                char *text = NULL;

                r = fill_row(list, i, process, &rows[i], &rooms[i], &text);
                r = text_list_take(&slots, text, err);
        }

        cleanup(buf_done) struct buf bytes = BUF(CREDENTIALS_BYTES_MAX);
        if (r == 0)
                r = credentials_encode(rows, list->n, &bytes, err);
        if (r < 0)
                return r;

        return fd_sealed("bailey-credentials", buf_str(&bytes), ret_fd, err);
}
