/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/apply.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/paths/path.h"
#include "policy/check.h"
#include "policy/credential.h"
#include "policy/git/git_rules.h"
#include "policy/git/ssh_rules.h"
#include "policy/home_kind.h"
#include "policy/macos.h"
#include "policy/tools/browser.h"
#include "policy/tools/tools.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

enum slot_kind {
        SLOT_NONE,   /* tells the loader something; not part of the policy */
        SLOT_CHOICE, /* the enum's value is the place among the choices */
        SLOT_FIRST,  /* true for the first choice */
        SLOT_BOOL,
        SLOT_U64,
        SLOT_U32,
        SLOT_SECONDS, /* a duration, kept in whole seconds */
        SLOT_TEXT,
        SLOT_TEXTS,
        SLOT_PORTS,
        SLOT_FILES,
        SLOT_CREDENTIALS,
        SLOT_GIT,
        SLOT_BRIDGE,
};

struct slot {
        enum slot_kind kind;
        size_t offset;
        bool replaces;
        int (*check)(struct str text, struct err *e);
};

#define AT(field) .offset = offsetof(struct policy, field)

static const struct slot slots[POLICY_ROWS] = {
        [ROW_PRESET] = { SLOT_TEXT, AT(preset) },
        [ROW_PROFILE] = { SLOT_TEXTS, AT(profiles), .check = check_profile },
        [ROW_MODE] = { SLOT_CHOICE, AT(mode) },
        [ROW_AGENT] = { SLOT_TEXT, AT(agent), .check = check_name },
        [ROW_ALLOW] = { SLOT_TEXTS, AT(network.allow), .check = check_allowed_entry },
        [ROW_DENY] = { SLOT_TEXTS, AT(network.deny), .check = check_denied_pattern },
        [ROW_NO_INTERCEPT] = { SLOT_TEXTS, AT(network.no_intercept), .check = check_plain_pattern },
        [ROW_QUIET_HOSTS] = { SLOT_TEXTS, AT(network.quiet), .check = check_plain_pattern },
        [ROW_ALLOW_PRIVATE] = { SLOT_TEXTS, AT(network.allow_private), .check = check_private_entry },
        [ROW_ALLOW_FILE] = { SLOT_FILES, AT(network.allow_files) },
        [ROW_DENY_FILE] = { SLOT_FILES, AT(network.deny_files) },
        [ROW_DENY_CIDRS] = { SLOT_TEXTS, AT(network.deny_cidrs), .replaces = true, .check = check_network },
        [ROW_ASK] = { SLOT_CHOICE, AT(network.ask) },
        [ROW_ASK_TIMEOUT] = { SLOT_U64, AT(network.ask_timeout_ns) },
        [ROW_PUBLISH] = { SLOT_PORTS, AT(network.publish), .check = check_publish },
        [ROW_HOST_PORT] = { SLOT_PORTS, AT(network.host_ports), .check = check_port },
        [ROW_UPSTREAM_PROXY] = { SLOT_TEXT, AT(network.upstream_proxy), .check = check_proxy_url },
        [ROW_UPSTREAM_BYPASS] = { SLOT_TEXTS, AT(network.upstream_bypass), .check = check_plain_pattern },
        [ROW_DNS_SERVERS] = { SLOT_TEXTS, AT(network.dns_servers), .check = check_dns_server },
        [ROW_CA_KEY] = { SLOT_CHOICE, AT(network.ca_key) },
        [ROW_GIT] = { SLOT_GIT, .check = check_git_word },
        [ROW_SSH_GIT] = { SLOT_BOOL, AT(ssh.git) },
        [ROW_SSH_USERS] = { SLOT_TEXTS, AT(ssh.users), .check = check_ssh_user },
        [ROW_SSH_KNOWN_HOSTS] = { SLOT_TEXTS, AT(ssh.known_hosts), .check = check_ssh_path },
        [ROW_SSH_IDENTITIES] = { SLOT_TEXTS, AT(ssh.identities), .check = check_ssh_path },
        [ROW_SSH_HOSTS] = { SLOT_TEXTS, AT(ssh.hosts), .check = check_ssh_host },
        [ROW_SSH_KEYS] = { SLOT_TEXTS, AT(ssh.keys), .check = check_ssh_key },
        [ROW_SIGN_SSH] = { SLOT_BOOL, AT(signing.ssh) },
        [ROW_SIGN_GPG] = { SLOT_TEXTS, AT(signing.gpg), .check = check_gpg_key },
        [ROW_SIGN_ASK] = { SLOT_BOOL, AT(signing.ask) },
        [ROW_BRIDGE] = { SLOT_BRIDGE, .check = check_tool_word },
        [ROW_BROWSER_HOSTS] = { SLOT_TEXTS, AT(browser.hosts), .check = check_browser_host },
        [ROW_BROWSER_ASK] = { SLOT_BOOL, AT(browser.ask) },
        [ROW_BROWSER_PROGRAM] = { SLOT_TEXT, AT(browser.program), .check = check_browser_program },
        [ROW_BROWSER_CALLBACK] = { SLOT_U64, AT(browser.callback_ns) },
        [ROW_HOME] = { SLOT_TEXT, AT(filesystem.home), .check = home_check },
        [ROW_READS] = { SLOT_FIRST, AT(filesystem.reads_denied) },
        [ROW_READ] = { SLOT_TEXTS, AT(filesystem.read), .check = check_plain_path },
        [ROW_WRITE] = { SLOT_TEXTS, AT(filesystem.write), .check = check_plain_path },
        [ROW_ASK_PATH] = { SLOT_TEXTS, AT(filesystem.ask), .check = check_plain_path },
        [ROW_DENY_READ] = { SLOT_TEXTS, AT(filesystem.deny_read) },
        [ROW_DENY_WRITE] = { SLOT_TEXTS, AT(filesystem.deny_write) },
        [ROW_OVERLAY] = { SLOT_BOOL, AT(filesystem.overlay) },
        [ROW_ENV] = { SLOT_TEXTS, AT(process.env_set), .check = check_variable },
        [ROW_ENV_PASS] = { SLOT_TEXTS, AT(process.env_pass), .check = check_variable_name },
        [ROW_CREDENTIAL] = { SLOT_CREDENTIALS, .check = check_credential_word },
        [ROW_TIMEOUT] = { SLOT_U64, AT(process.timeout_ns) },
        [ROW_ALLOW_DEGRADED] = { SLOT_BOOL, AT(process.allow_degraded) },
        [ROW_BASE_URLS] = { SLOT_BOOL, AT(process.base_urls) },
        [ROW_NESTING] = { SLOT_BOOL, AT(process.nesting) },
        [ROW_MACOS_ALLOW] = { SLOT_TEXTS, AT(macos_allow), .check = macos_word_check },
        [ROW_TRACE_DENIALS] = { SLOT_BOOL, AT(process.trace_denials) },
        [ROW_AUDIT] = { SLOT_TEXT, AT(audit_path) },
        [ROW_LOG_MAX_AGE] = { SLOT_U64, AT(log.max_age_ns) },
        [ROW_LOG_MAX_SIZE] = { SLOT_U64, AT(log.max_bytes) },
        [ROW_APPROVAL_COMMAND] = { SLOT_TEXT, AT(approval.command) },
        [ROW_APPROVAL_WEBHOOK] = { SLOT_TEXT, AT(approval.webhook), .check = check_webhook },
        [ROW_CHAT_SERVICE] = { SLOT_CHOICE, AT(approval.chat.service) },
        [ROW_CHAT_URL] = { SLOT_TEXT, AT(approval.chat.url), .check = check_chat_url },
        [ROW_CHAT_TOKEN] = { SLOT_TEXT, AT(approval.chat.token), .check = check_chat_source },
        [ROW_CHAT_APP_TOKEN] = { SLOT_TEXT, AT(approval.chat.app_token), .check = check_chat_source },
        [ROW_CHAT_ACCOUNT] = { SLOT_TEXT, AT(approval.chat.account), .check = check_chat_word },
        [ROW_CHAT_ROOM] = { SLOT_TEXT, AT(approval.chat.room), .check = check_chat_word },
        [ROW_CHAT_APPROVERS] = { SLOT_TEXTS, AT(approval.chat.approvers), .check = check_chat_word },
        [ROW_CHAT_PER_MINUTE] = { SLOT_U32, AT(approval.chat.per_minute) },
        [ROW_PROCESSES] = { SLOT_U64, AT(process.limits.processes) },
        [ROW_MEMORY] = { SLOT_U64, AT(process.limits.memory) },
        [ROW_TEMPORARY] = { SLOT_U64, AT(process.limits.temporary) },
        [ROW_FILES] = { SLOT_U64, AT(process.limits.files) },
        [ROW_CPU] = { SLOT_SECONDS, AT(process.limits.cpu_seconds) },
        [ROW_CPU_PERCENT] = { SLOT_U64, AT(process.limits.cpu_percent) },
        [ROW_LIMIT_CONNECT] = { SLOT_U64, AT(network.limits.connect_ns) },
        [ROW_LIMIT_HEADER] = { SLOT_U64, AT(network.limits.header_ns) },
        [ROW_LIMIT_IDLE] = { SLOT_U64, AT(network.limits.idle_ns) },
        [ROW_LIMIT_TUNNEL_IDLE] = { SLOT_U64, AT(network.limits.tunnel_idle_ns) },
        [ROW_LIMIT_HEADER_BYTES] = { SLOT_U32, AT(network.limits.header_bytes) },
        [ROW_LIMIT_BODY_BYTES] = { SLOT_U64, AT(network.limits.body_bytes) },
        [ROW_LIMIT_CONNECTIONS] = { SLOT_U32, AT(network.limits.connections) },
        [ROW_LIMIT_CONNECTION_RATE] = { SLOT_U32, AT(network.limits.connections_per_second) },
        [ROW_LIMIT_BYTES_OUT_PER_HOST] = { SLOT_U64, AT(network.limits.bytes_out_per_host) },
        [ROW_LIMIT_BYTES_OUT] = { SLOT_U64, AT(network.limits.bytes_out) },
};

typedef VEC(struct port_map) port_maps;
typedef VEC(struct pattern_file) pattern_files;

static void *apply_field(const struct policy *policy, enum policy_row row) {
        return (char *)policy + slots[row].offset;
}

/* A path of a list: absolute and normalised; what starts with a double star holds anywhere and stays as it is. */
static int absolute_path(const struct policy *policy, struct str text, const char *base, char **ret, struct err *err) {
        cleanup(free_ptr) char *expanded = NULL;

        if (str_starts(text, STR("**/"))) {
                *ret = str_dup(text);
                if (!*ret)
                        return err_memory(err);

                return 0;
        }

        int r = path_expand_home(text, policy->home, &expanded);
        if (r == -ENOENT)
                return err_set(err, ENOENT, "'~' stands for the home directory, and there is none");
        if (r == -EINVAL)
                return err_set(err, EINVAL, "'~name' is not known here; write the path out");

        if (r >= 0)
                r = path_normalise(str_of(expanded), base, ret);
        if (r < 0)
                return err_set(err, -r, "the path cannot be made absolute");

        return 0;
}

static int set_text(char **place, struct str text, struct err *err) {
        char *copy = str_dup(text);
        if (!copy)
                return err_memory(err);
        free(*place);
        *place = copy;
        return 0;
}

static int add_ports(port_maps *list, struct str text, const char *origin, struct err *err) {
        struct port_map map = { 0 };
        int r = check_parse_ports(text, &map, err);
        if (r < 0)
                return r;

        map.origin = str_dup(str_of(origin));
        if (!map.origin || vec_push(list, map) < 0) {
                free(map.addr);
                free(map.origin);
                return err_memory(err);
        }

        return 0;
}

static int add_file(pattern_files *list, const char *path, const char *origin, struct err *err) {
        enum { PATTERN_FILE_MAX = 64 << 20 };
        cleanup(buf_done) struct buf content = BUF(PATTERN_FILE_MAX);
        int r = path_read_file(path, PATTERN_FILE_MAX, &content, err);
        if (r < 0)
                return r;

        struct pattern_file file = { .path = str_dup(str_of(path)), .origin = str_dup(str_of(origin)) };
        if (!file.path || !file.origin || vec_push(list, file) < 0) {
                free(file.path);
                free(file.origin);
                return err_memory(err);
        }

        struct pattern_file *kept = &list->p[list->n - 1];
        kept->content = content.p;
        kept->n = content.n;
        content = BUF(0);

        return 0;
}

static int add_to_list(struct policy *policy, enum policy_row row, struct str text, const char *origin,
                       struct err *err) {
        const char *shown = text_or(origin, "default");

        if (slots[row].kind == SLOT_PORTS)
                return add_ports(apply_field(policy, row), text, shown, err);
        if (slots[row].kind == SLOT_CREDENTIALS)
                return credential_add(policy, text, shown, err);
        if (slots[row].kind == SLOT_BRIDGE)
                return tool_add_word(policy, text, shown, err);
        if (slots[row].kind == SLOT_GIT)
                return git_rule_add_word(policy, text, shown, err);
        if (slots[row].replaces)
                policy->network.deny_cidrs_set = true;

        if (origin_texts_add(apply_field(policy, row), text, shown) < 0)
                return err_memory(err);

        return 0;
}

/* True when the row's value is a number of some kind and was stored. */
static bool set_number(struct policy *policy, enum policy_row row, uint64_t number) {
        void *place = apply_field(policy, row);

        switch (slots[row].kind) {
        case SLOT_CHOICE:
                *(int *)place = (int)number;
                return true;
        case SLOT_FIRST:
                *(bool *)place = number == 0;
                return true;
        case SLOT_BOOL:
                *(bool *)place = number != 0;

                return true;
        case SLOT_U64:
                *(uint64_t *)place = number;
                return true;
        case SLOT_U32:
                *(uint32_t *)place = (uint32_t)number;

                return true;
        case SLOT_SECONDS: /* never less than was asked for: a part of a second must not become "unlimited" */
                *(uint64_t *)place = number / NS_PER_SECOND + (number % NS_PER_SECOND != 0);
                return true;
        default:
                return false;
        }
}

static int apply_path(struct policy *policy, enum policy_row row, struct str text, const char *origin, const char *base,
                      struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        int r = absolute_path(policy, text, base, &path, err);
        if (r < 0)
                return r;
        if (slots[row].kind == SLOT_FILES)
                return add_file(apply_field(policy, row), path, text_or(origin, "default"), err);
        if (slots[row].kind == SLOT_TEXTS)
                return add_to_list(policy, row, str_of(path), origin, err);

        return set_text(apply_field(policy, row), str_of(path), err);
}

int policy_check_value(enum policy_row row, struct str text, struct err *err) {
        if (slots[row].check)
                return slots[row].check(text, err);

        return 0;
}

int policy_apply(struct policy *policy, enum policy_row row, struct str text, const char *origin, const char *base,
                 struct err *err) {
        const struct option *o = &policy_rows[row];
        int r = slots[row].check ? slots[row].check(text, err) : 0;
        if (r < 0 || slots[row].kind == SLOT_NONE)
                return r;

        if (o->type == OPTION_PATH || o->type == OPTION_PATHS)
                r = apply_path(policy, row, text, origin, base, err);
        else if (option_repeats(o))
                r = add_to_list(policy, row, text, origin, err);
        else if (!set_number(policy, row, option_number(o, text)))
                r = set_text(apply_field(policy, row), text, err);

        if (r < 0 || option_repeats(o) || !origin)
                return r;

        return set_text(&policy->origins[row], str_of(origin), err);
}

int policy_set_reason(struct policy *policy, struct str reason, struct err *err) {
        struct origin_text *last = &policy->network.deny.p[policy->network.deny.n - 1];
        int r = check_reason(reason, err);

        if (r < 0)
                return r;

        return set_text(&last->reason, reason, err);
}

bool policy_row_replaces(enum policy_row row) {
        return slots[row].replaces;
}

void policy_apply_start(struct policy *policy, enum policy_row row) {
        if (slots[row].replaces) {
                origin_texts_done(apply_field(policy, row));
                policy->network.deny_cidrs_set = true;
        }
}

void policy_apply_null(struct policy *policy, enum policy_row row) {
        policy_apply_start(policy, row);
        policy->network.deny_cidrs_set = false;
}

static uint64_t current_number(const struct policy *policy, enum policy_row row) {
        const void *place = apply_field(policy, row);

        switch (slots[row].kind) {
        case SLOT_CHOICE:
                return (uint64_t) * (const int *)place;
        case SLOT_FIRST:
                return *(const bool *)place ? 0 : 1;
        case SLOT_BOOL:
                return *(const bool *)place;
        case SLOT_U64:
                return *(const uint64_t *)place;
        case SLOT_U32:
                return *(const uint32_t *)place;
        case SLOT_SECONDS:
                return *(const uint64_t *)place * NS_PER_SECOND;
        default:
                return *(char *const *)place ? option_number(&policy_rows[row], str_of(*(char *const *)place)) : 0;
        }
}

/* Without a setting, plans have default limits for the whole sandbox (group_memory() in plan/build.c): a file that is
 * not trusted cannot lift them by naming a higher one. */
static uint64_t limit_unsaid(const struct policy *policy, enum policy_row row) {
        if (policy->origins[row])
                return UINT64_MAX;
        if (row == ROW_MEMORY)
                return POLICY_GROUP_MEMORY;
        if (row == ROW_PROCESSES)
                return POLICY_GROUP_PROCESSES;

        return UINT64_MAX;
}

bool policy_widens(const struct policy *policy, enum policy_row row, struct str text) {
        const struct option *o = &policy_rows[row];
        uint64_t now, then;

        switch (o->trust) {
        case TRUST_NARROWS:
                return false;
        case TRUST_LESS_NARROWS:
        case TRUST_MORE_NARROWS:
                now = current_number(policy, row);
                then = option_number(o, text);
                break;
        default:
                return true;
        }

        bool limit = o->type == OPTION_INTEGER || o->type == OPTION_SIZE || o->type == OPTION_DURATION;
        if (limit) { /* no limit is the highest one */
                if (!now)
                        now = limit_unsaid(policy, row);
                if (!then)
                        then = UINT64_MAX;
        }

        return o->trust == TRUST_LESS_NARROWS ? then > now : then < now;
}

static char *size_text(uint64_t n) {
        static const char *const units[] = { "", "KiB", "MiB", "GiB", "TiB" };
        size_t unit = 0;
        while (n && n % 1024 == 0 && unit < 4) {
                n /= 1024;
                unit++;
        }
        return str_format("%" PRIu64 "%s", n, units[unit]);
}

int policy_row_text(const struct policy *policy, enum policy_row row, char **ret) {
        const struct option *o = &policy_rows[row];
        char duration[24];
        char *text = NULL;

        if (slots[row].kind == SLOT_NONE || option_repeats(o)) {
                *ret = NULL;
                return 0;
        }

        if (slots[row].kind == SLOT_TEXT) {
                const char *value = *(char **)apply_field(policy, row);

                *ret = value ? str_dup(str_of(value)) : NULL;
                if (value && !*ret)
                        return -ENOMEM;

                return 0;
        }

        uint64_t number = current_number(policy, row);

        if (o->type == OPTION_CHOICE)
                text = str_dup(str_of(o->choices[number]));
        else if (o->type == OPTION_FLAG)
                text = str_dup(number ? STR("true") : STR("false"));
        else if (o->type == OPTION_DURATION) {
                clock_duration_text(number, duration);
                text = str_dup(str_of(duration));
        } else
                text = o->type == OPTION_SIZE ? size_text(number) : str_format("%" PRIu64, number);

        *ret = text;
        if (!text)
                return -ENOMEM;

        return 0;
}

const origin_texts *policy_row_list(const struct policy *policy, enum policy_row row) {
        return slots[row].kind == SLOT_TEXTS ? apply_field(policy, row) : NULL;
}

static void ports_done(port_maps *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].addr);
                free(list->p[i].origin);
        }
        vec_done(list);
}

static void files_done(pattern_files *list) {
        for (size_t i = 0; i < list->n; i++) {
                free(list->p[i].path);
                free(list->p[i].content);
                free(list->p[i].origin);
        }
        vec_done(list);
}

void policy_rows_done(struct policy *policy) {
        for (unsigned row = 0; row < POLICY_ROWS; row++) {
                free(policy->origins[row]);
                void *place = apply_field(policy, row);

                switch (slots[row].kind) {
                case SLOT_TEXT:
                        free(*(char **)place);
                        break;
                case SLOT_TEXTS:
                        origin_texts_done(place);
                        break;
                case SLOT_PORTS:
                        ports_done(place);
                        break;
                case SLOT_FILES:
                        files_done(place);
                        break;
                default:
                        break;
                }
        }
}
