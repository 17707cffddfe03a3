/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/vault_tell.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/secrets/secret.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum { ROOM_MS = 5000 };
#define TIMEOUT_NS (30 * NS_PER_SECOND)
#define REFRESH_NS (300 * NS_PER_SECOND)

int vault_tell(int control, const struct vault_message *message, int fd, struct err *err) {
        for (;;) {
                int r = vault_send(control, SUPERVISOR_TO_VAULT, message, fd);
                if (r >= 0)
                        return 0;
                if (r != -EAGAIN)
                        return err_set(err, -r, "the vault cannot be told anything: %s",
                                       r == -EPIPE ? "it has ended" : strerror(-r));

                struct pollfd room = { .fd = control, .events = POLLOUT };
                if (poll(&room, 1, ROOM_MS) == 0)
                        return err_set(err, ETIMEDOUT, "the vault does not read its messages");
        }
}

static int tell_fill(struct vault_mapping *to, const struct mapping *mapping, struct err *err) {
        to->kind = mapping->sigv4 ? MAPPING_SIGV4 : MAPPING_VALUE;
        to->timeout_ns = mapping->timeout_ns ? mapping->timeout_ns : TIMEOUT_NS;
        to->refresh_ns = mapping->refresh_ns ? mapping->refresh_ns : REFRESH_NS;

        int name = snprintf(to->name, sizeof to->name, "%s", mapping->name);
        int source = snprintf(to->source, sizeof to->source, "%s", mapping->source);
        snprintf(to->prefix, sizeof to->prefix, "%s", mapping->provider ? mapping->provider->prefix : "");

        int form = snprintf(to->form, sizeof to->form, "%s", text_or(mapping->form, ""));
        int answer = snprintf(to->answer, sizeof to->answer, "%s", text_or(mapping->answer, ""));
        int expiry = snprintf(to->expiry, sizeof to->expiry, "%s", text_or(mapping->expiry, ""));
        to->optional = mapping->answer != NULL;
        if (form >= (int)sizeof to->form || answer >= (int)sizeof to->answer || expiry >= (int)sizeof to->expiry)
                return err_set(err, ENAMETOOLONG, "%s: form, answer or expiry of credential '%s' is too long",
                               mapping->origin, mapping->name);

        if (name >= (int)sizeof to->name || source >= (int)sizeof to->source)
                return err_set(err, ENAMETOOLONG, "%s: the name or source of credential '%s' is too long",
                               mapping->origin, mapping->name);

        for (size_t i = 0; i < mapping->hosts.n && i < VAULT_HOSTS_MAX; i++)
                snprintf(to->hosts[to->n_hosts++], sizeof to->hosts[0], "%s", mapping->hosts.p[i]);

        return 0;
}

int vault_tell_mappings(const mappings *list, struct vault_mapping **ret, struct err *err) {
        static_assert((int)MAPPING_HOSTS_MAX <= (int)VAULT_HOSTS_MAX && (int)MAPPINGS_MAX <= (int)VAULT_MAPPINGS_MAX,
                      "all of them fit");
        cleanup(free_ptr) struct vault_mapping *made = calloc(list->n + 1, sizeof *made);
        if (!made)
                return err_memory(err);

        for (size_t i = 0; i < list->n; i++) {
                int r = tell_fill(&made[i], &list->p[i], err);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(&made);
        return 0;
}

static const char *value_of(char *const *environment, const char *name) {
        size_t n = strlen(name);
        for (char *const *v = environment; v && *v; v++)
                if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
                        return *v + n + 1;
        return NULL;
}

/* What to do about a credential that has no value: the origin is an option, a variable, or a place in a file. */
static const char *tell_way_out(const char *origin) {
        if (origin[0] == '-')
                return "leave the option out";
        if (strncmp(origin, "BAILEY_", 7) == 0)
                return "take the credential out of that variable";

        return "take the credential out of the policy";
}

static int tell_unset(const struct mapping *mapping, const char *name, struct err *err) {
        return err_set(err, ENODATA,
                       "%s: credential '%s' cannot be read from %s: the variable %s is not set; set it, or %s",
                       mapping->origin, mapping->name, mapping->source, name, tell_way_out(mapping->origin));
}

static int send_value(int control, uint32_t index, struct str value, struct err *err) {
        const struct vault_message message = { .kind = VAULT_VALUE, .mapping = index, .data = { value } };
        if (value.n > VAULT_SECRET_MAX)
                return err_set(err, EMSGSIZE, "the value is larger than %d bytes", VAULT_SECRET_MAX);

        return vault_tell(control, &message, -1, err);
}

/* The three of AWS as lines under their usual names, whatever theirs are. */
static int send_lines(int control, const struct mapping *mapping, uint32_t index, char *const *environment,
                      struct err *err) {
        static const char *const names[] = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN" };
        struct buf lines = BUF(VAULT_SECRET_MAX);
        int r = 0;

        if (buf_reserve(&lines, VAULT_SECRET_MAX) < 0)
                r = err_memory(err);

        for (size_t i = 0; r == 0 && i < 3; i++) {
                cleanup(free_ptr) char *name = mapping_source_variable(mapping, i);
                const char *value = name ? value_of(environment, name) : NULL;
                if ((!value || !value[0]) && i < 2)
                        r = tell_unset(mapping, name ? name : names[i], err);
                else if (value && value[0] && buf_printf(&lines, "%s=%s\n", names[i], value) < 0)
                        r = err_set(err, EMSGSIZE, "credential '%s' is too large", mapping->name);
        }

        if (r >= 0)
                r = send_value(control, index, buf_str(&lines), err);
        if (lines.p)
                secret_wipe(lines.p, lines.cap);

        buf_done(&lines);
        return r;
}

int vault_tell_values(int control, const mappings *list, char *const *environment, struct err *err) {
        int r = 0;
        for (uint32_t i = 0; r == 0 && i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];
                cleanup(free_ptr) char *name = mapping_source_variable(mapping, 0);
                if (!name)
                        continue;

                if (mapping->sigv4) {
                        r = send_lines(control, mapping, i, environment, err);
                        continue;
                }

                const char *value = value_of(environment, name);
                if (value && value[0])
                        r = send_value(control, i, str_of(value), err);
                else
                        r = tell_unset(mapping, name, err);
        }

        return r;
}

/* Without these nothing runs; with them a tool finds its own files and its agent. */
static const char *const always[] = { "PATH",
                                      "HOME",
                                      "USER",
                                      "LOGNAME",
                                      "SHELL",
                                      "LANG",
                                      "LC_ALL",
                                      "LC_CTYPE",
                                      "TZ",
                                      "TMPDIR",
                                      "TERM",
                                      "XDG_CONFIG_HOME",
                                      "XDG_DATA_HOME",
                                      "XDG_CACHE_HOME",
                                      "XDG_STATE_HOME",
                                      "XDG_RUNTIME_DIR",
                                      "DBUS_SESSION_BUS_ADDRESS",
                                      "GNUPGHOME",
                                      "SSL_CERT_FILE",
                                      "SSL_CERT_DIR",
                                      "HTTPS_PROXY",
                                      "https_proxy",
                                      "NO_PROXY",
                                      "no_proxy",
                                      NULL };

/* And the variables that tell known commands who the user is. `word` begins a command, or is the source itself. */
static const struct {
        const char *word, *prefix;
} by_tool[] = {
        { "bws", "BWS_" },
        { "bw", "BW_" },
        { "op", "OP_" },
        { "pass", "PASSWORD_STORE_" },
        { "gopass", "GOPASS_" },
        { "gh", "GH_CONFIG_" },
        { "glab", "GLAB_" },
        { "aws", "AWS_" },
        { "gcloud", "CLOUDSDK_" },
        { "vault", "VAULT_" },
        { "az", "AZURE_" },
        { "doppler", "DOPPLER_" },
        { "infisical", "INFISICAL_" },
        { "sops", "SOPS_" },
        { "secret-tool", "GNOME_KEYRING_" },
};

static bool tell_runs(const mappings *list, const char *word) {
        size_t n = strlen(word);
        for (size_t i = 0; i < list->n; i++) {
                const char *source = list->p[i].source;
                if (strncmp(source, "bws:", 4) == 0 && strcmp(word, "bws") == 0)
                        return true;
                if (strncmp(source, "exec:", 5) != 0)
                        continue;

                struct str first = str_n(source + 5, strcspn(source + 5, " \t"));
                ptrdiff_t slash = str_rfind(first, '/');
                if (slash >= 0)
                        first = str_skip(first, (size_t)slash + 1);
                if (first.n == n && memcmp(first.p, word, n) == 0)
                        return true;
        }

        return false;
}

bool vault_tell_is_for_tool(const mappings *list, struct str name) {
        for (size_t i = 0; i < sizeof by_tool / sizeof *by_tool; i++)
                if (str_starts(name, str_of(by_tool[i].prefix)) && tell_runs(list, by_tool[i].word))
                        return true;
        return false;
}

static bool is_wanted(const mappings *list, struct str variable) {
        ptrdiff_t equals = str_find(variable, '=');
        struct str name = str_first(variable, equals < 0 ? 0 : (size_t)equals);
        for (const char *const *a = always; *a; a++)
                if (str_is(name, *a))
                        return true;
        return vault_tell_is_for_tool(list, name);
}

int vault_tell_variables(int control, const mappings *list, char *const *environment, struct err *err) {
        int r = 0;
        bool needed = false;

        for (size_t i = 0; i < list->n; i++)
                needed |= strncmp(list->p[i].source, "exec:", 5) == 0 || strncmp(list->p[i].source, "bws:", 4) == 0;

        for (char *const *v = environment; needed && v && *v && r == 0; v++) {
                const struct vault_message message = { .kind = VAULT_VARIABLE, .data = { str_of(*v) } };
                if (is_wanted(list, message.data[0]) && message.data[0].n <= 8192)
                        r = vault_tell(control, &message, -1, err);
        }

        return r;
}
