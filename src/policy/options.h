/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Every setting of a policy that has a name of its own: one row each, for the command line, the file, the variables,
 * the help and the man page. Structured parts (rules, credentials, commands, agents, monitor) are in
 * policy/judge/records.h.
 */
#include "conf/option.h"

enum policy_row {
        /* Policy */
        ROW_POLICY,
        ROW_WORKSPACE,
        ROW_WORKSPACE_POLICY,
        ROW_PRESET,
        ROW_PROFILE,
        ROW_MODE,
        ROW_AGENT,
        /* Network */
        ROW_ALLOW,
        ROW_DENY,
        ROW_NO_INTERCEPT,
        ROW_QUIET_HOSTS,
        ROW_ALLOW_PRIVATE,
        ROW_ALLOW_FILE,
        ROW_DENY_FILE,
        ROW_DENY_CIDRS,
        ROW_ASK,
        ROW_ASK_TIMEOUT,
        ROW_PUBLISH,
        ROW_HOST_PORT,
        ROW_UPSTREAM_PROXY,
        ROW_UPSTREAM_BYPASS,
        ROW_DNS_SERVERS,
        ROW_CA_KEY,
        ROW_GIT,
        ROW_SSH_GIT,
        ROW_SSH_USERS,
        ROW_SSH_KNOWN_HOSTS,
        ROW_SSH_IDENTITIES,
        ROW_SSH_HOSTS,
        ROW_SSH_KEYS,
        ROW_SIGN_SSH,
        ROW_SIGN_GPG,
        ROW_SIGN_ASK,
        ROW_BRIDGE,
        ROW_BROWSER_HOSTS,
        ROW_BROWSER_ASK,
        ROW_BROWSER_PROGRAM,
        ROW_BROWSER_CALLBACK,
        /* Files */
        ROW_HOME,
        ROW_READS,
        ROW_READ,
        ROW_WRITE,
        ROW_ASK_PATH,
        ROW_DENY_READ,
        ROW_DENY_WRITE,
        ROW_OVERLAY,
        /* Process */
        ROW_ENV,
        ROW_ENV_PASS,
        ROW_CREDENTIAL,
        ROW_BASE_URLS,
        ROW_TIMEOUT,
        ROW_ALLOW_DEGRADED,
        ROW_TRACE_DENIALS,
        ROW_NESTING,
        ROW_MACOS_ALLOW,
        ROW_AUDIT,
        ROW_LOG_MAX_AGE,
        ROW_LOG_MAX_SIZE,
        /* Approvals */
        ROW_APPROVAL_COMMAND,
        ROW_APPROVAL_WEBHOOK,
        ROW_CHAT_SERVICE,
        ROW_CHAT_URL,
        ROW_CHAT_TOKEN,
        ROW_CHAT_APP_TOKEN,
        ROW_CHAT_ACCOUNT,
        ROW_CHAT_ROOM,
        ROW_CHAT_APPROVERS,
        ROW_CHAT_PER_MINUTE,
        /* Limits */
        ROW_PROCESSES,
        ROW_MEMORY,
        ROW_TEMPORARY,
        ROW_FILES,
        ROW_CPU,
        ROW_CPU_PERCENT,
        ROW_LIMIT_CONNECT,
        ROW_LIMIT_HEADER,
        ROW_LIMIT_IDLE,
        ROW_LIMIT_TUNNEL_IDLE,
        ROW_LIMIT_HEADER_BYTES,
        ROW_LIMIT_BODY_BYTES,
        ROW_LIMIT_CONNECTIONS,
        ROW_LIMIT_CONNECTION_RATE,
        ROW_LIMIT_BYTES_OUT_PER_HOST,
        ROW_LIMIT_BYTES_OUT,
        POLICY_ROWS
};

extern const struct option policy_rows[POLICY_ROWS];

/* The same rows under headings. */
extern const struct option_table policy_table_general, policy_table_network, policy_table_files, policy_table_process,
    policy_table_credentials, policy_table_approvals, policy_table_limits;
enum { POLICY_TABLES = 6 };
extern const struct option_table *const policy_tables[POLICY_TABLES];
