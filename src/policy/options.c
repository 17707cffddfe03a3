/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/options.h"

#include "base/clock.h"

#define SECONDS(n) ((int64_t)(n) * (int64_t)NS_PER_SECOND)
#define MILLISECONDS(n) ((int64_t)(n) * (int64_t)NS_PER_MS)

/* The strictest first: an untrusted file may only go up the list. The places are those of the enums in policy/policy.h. */
static const char *const modes[] = { "read-only", "workspace-write", "workspace-write-whitelist", "full-network", NULL };
static const char *const presets[] = { "ci", "default", "development", NULL };
static const char *const ask_ways[] = { "never", "control", "tty", NULL };
static const char *const reads_ways[] = { "deny", "allow", NULL };

const struct option policy_rows[POLICY_ROWS] = {
        [ROW_POLICY] = { .flag = "policy", .env = "BAILEY_POLICY", .type = OPTION_PATH, .metavar = "FILE",
                         .help = "read this policy instead of ~/.config/bailey/config.yaml" },
        [ROW_WORKSPACE] = { .flag = "workspace", .letter = 'w', .env = "BAILEY_WORKSPACE", .type = OPTION_PATH,
                            .metavar = "DIR", .help = "the directory to work in, instead of the current one" },
        [ROW_WORKSPACE_POLICY] = { .flag = "workspace-policy", .env = "BAILEY_WORKSPACE_POLICY", .type = OPTION_FLAG,
                                   .fallback = "true", .help = "do not read the workspace's .bailey.yaml" },
        [ROW_PRESET] = { .flag = "preset", .key = "preset", .env = "BAILEY_PRESET", .type = OPTION_CHOICE, .metavar = "NAME",
                         .choices = presets, .fallback = "default", .trust = TRUST_LESS_NARROWS,
                         .help = "what everything else is laid over" },
        [ROW_PROFILE] = { .flag = "profile", .key = "profile", .env = "BAILEY_PROFILE", .type = OPTION_LIST, .metavar = "NAME",
                          .help = "add what an agent needs: claude, codex, gemini, opencode, aider" },
        [ROW_MODE] = { .flag = "mode", .letter = 'm', .key = "mode", .env = "BAILEY_MODE", .type = OPTION_CHOICE,
                       .metavar = "MODE", .choices = modes, .fallback = "workspace-write-whitelist",
                       .trust = TRUST_LESS_NARROWS, .help = "what may be written and reached" },
        [ROW_AGENT] = { .flag = "agent", .key = "agent", .env = "BAILEY_AGENT", .type = OPTION_STRING, .metavar = "NAME",
                        .help = "take the mode from this role under agents" },

        [ROW_ALLOW] = { .flag = "allow", .letter = 'a', .key = "network.allow", .env = "BAILEY_ALLOW", .type = OPTION_LIST,
                        .metavar = "PATTERN",
                        .help = "let this host be reached: name, *.name, address or network, :port, or @group" },
        [ROW_DENY] = { .flag = "deny", .key = "network.deny", .env = "BAILEY_DENY", .type = OPTION_LIST, .metavar = "PATTERN",
                       .trust = TRUST_NARROWS, .help = "refuse this host, whatever else allows it" },
        [ROW_ALLOW_PRIVATE] = { .flag = "allow-private", .key = "network.allow_private", .env = "BAILEY_ALLOW_PRIVATE",
                                .type = OPTION_LIST, .metavar = "TARGET",
                                .help = "open a private address, network or host, with its port" },
        [ROW_ALLOW_FILE] = { .flag = "allow-file", .key = "network.allow_file", .env = "BAILEY_ALLOW_FILE",
                             .type = OPTION_PATHS, .metavar = "FILE", .help = "allow the patterns in this file, one a line" },
        [ROW_DENY_FILE] = { .flag = "deny-file", .key = "network.deny_file", .env = "BAILEY_DENY_FILE", .type = OPTION_PATHS,
                            .metavar = "FILE", .trust = TRUST_NARROWS, .help = "refuse the patterns in this file, one a line" },
        [ROW_DENY_CIDRS] = { .key = "network.deny_cidrs", .type = OPTION_LIST,
                             .help = "networks that are refused, instead of the built-in private and reserved ones" },
        [ROW_ASK] = { .flag = "ask", .key = "network.ask", .env = "BAILEY_ASK", .type = OPTION_CHOICE, .metavar = "HOW",
                      .choices = ask_ways, .fallback = "never", .trust = TRUST_LESS_NARROWS,
                      .help = "ask a person about hosts that no rule names" },
        [ROW_ASK_TIMEOUT] = { .flag = "ask-timeout", .key = "network.ask_timeout", .env = "BAILEY_ASK_TIMEOUT",
                              .type = OPTION_DURATION, .metavar = "DURATION", .min = SECONDS(1), .max = SECONDS(86400),
                              .fallback = "120s", .trust = TRUST_LESS_NARROWS, .help = "no answer after this is a no" },
        [ROW_PUBLISH] = { .flag = "publish", .letter = 'p', .key = "network.publish", .env = "BAILEY_PUBLISH",
                          .type = OPTION_LIST, .metavar = "[ADDR:]PORT:PORT",
                          .help = "offer a port of the sandbox (second) on this host (first)" },
        [ROW_HOST_PORT] = { .flag = "host-port", .key = "network.host_port", .env = "BAILEY_HOST_PORT", .type = OPTION_LIST,
                            .metavar = "PORT", .help = "let the sandbox use this port of the host's loopback" },
        [ROW_UPSTREAM_PROXY] = { .flag = "upstream-proxy", .key = "network.upstream_proxy", .env = "BAILEY_UPSTREAM_PROXY",
                                 .type = OPTION_STRING, .metavar = "URL",
                                 .help = "go out through this proxy: http://HOST:PORT or socks5://HOST:PORT" },
        [ROW_UPSTREAM_BYPASS] = { .key = "network.upstream_bypass", .type = OPTION_LIST,
                                  .help = "hosts that are reached without the upstream proxy" },
        [ROW_DNS_SERVERS] = { .key = "network.dns_servers", .type = OPTION_LIST,
                              .help = "resolvers to use instead of the system's: ADDRESS or ADDRESS:PORT" },

        [ROW_READS] = { .flag = "reads", .key = "filesystem.reads", .env = "BAILEY_READS", .type = OPTION_CHOICE,
                        .metavar = "HOW", .choices = reads_ways, .fallback = "allow", .trust = TRUST_LESS_NARROWS,
                        .help = "whether files that no rule names can be read" },
        [ROW_READ] = { .flag = "read", .key = "filesystem.read", .env = "BAILEY_READ", .type = OPTION_PATHS, .metavar = "PATH",
                       .help = "let this be read, also inside a denied place" },
        [ROW_WRITE] = { .flag = "write", .key = "filesystem.write", .env = "BAILEY_WRITE", .type = OPTION_PATHS,
                        .metavar = "PATH", .help = "let this be written as well as the workspace" },
        [ROW_DENY_READ] = { .flag = "deny-read", .key = "filesystem.deny_read", .env = "BAILEY_DENY_READ",
                            .type = OPTION_PATHS, .metavar = "PATH", .trust = TRUST_NARROWS,
                            .help = "hide this path or glob" },
        [ROW_DENY_WRITE] = { .flag = "deny-write", .key = "filesystem.deny_write", .env = "BAILEY_DENY_WRITE",
                             .type = OPTION_PATHS, .metavar = "PATH", .trust = TRUST_NARROWS,
                             .help = "keep this path or glob as it is" },
        [ROW_OVERLAY] = { .flag = "overlay", .key = "filesystem.overlay", .env = "BAILEY_OVERLAY", .type = OPTION_FLAG,
                          .fallback = "false", .trust = TRUST_MORE_NARROWS,
                          .help = "write beside the workspace; see bailey diff, apply, discard" },

        [ROW_ENV] = { .flag = "env", .letter = 'e', .key = "process.env.set", .env = "BAILEY_ENV", .type = OPTION_MAP,
                      .metavar = "NAME=VALUE", .help = "set a variable inside" },
        [ROW_ENV_PASS] = { .flag = "env-pass", .key = "process.env.pass", .env = "BAILEY_ENV_PASS", .type = OPTION_LIST,
                           .metavar = "NAME", .help = "hand on a variable that would be left out" },
        [ROW_TIMEOUT] = { .flag = "timeout", .key = "process.timeout", .env = "BAILEY_TIMEOUT", .type = OPTION_DURATION,
                          .metavar = "DURATION", .fallback = "0", .trust = TRUST_LESS_NARROWS,
                          .help = "end the sandbox after this time; 0 for never" },
        [ROW_ALLOW_DEGRADED] = { .flag = "allow-degraded", .key = "process.allow_degraded", .env = "BAILEY_ALLOW_DEGRADED",
                                 .type = OPTION_FLAG, .fallback = "false", .trust = TRUST_LESS_NARROWS,
                                 .help = "run with less where this machine cannot do all; what is lost is printed" },
        [ROW_TRACE_DENIALS] = { .flag = "trace-denials", .key = "process.trace_denials", .env = "BAILEY_TRACE_DENIALS",
                                .type = OPTION_FLAG, .fallback = "false", .trust = TRUST_MORE_NARROWS,
                                .help = "record denied file and system call attempts too" },
        [ROW_AUDIT] = { .flag = "audit", .key = "audit", .env = "BAILEY_AUDIT", .type = OPTION_PATH, .metavar = "FILE",
                        .help = "write the audit log here" },

        [ROW_PROCESSES] = { .key = "process.limits.processes", .env = "BAILEY_LIMIT_PROCESSES", .type = OPTION_INTEGER,
                            .max = 4194304, .fallback = "1024", .trust = TRUST_LESS_NARROWS,
                            .help = "processes and threads; 0 for no limit" },
        [ROW_MEMORY] = { .key = "process.limits.memory", .env = "BAILEY_LIMIT_MEMORY", .type = OPTION_SIZE,
                         .fallback = "2GiB", .trust = TRUST_LESS_NARROWS, .help = "memory; 0 for no limit" },
        [ROW_FILES] = { .key = "process.limits.files", .env = "BAILEY_LIMIT_FILES", .type = OPTION_INTEGER, .max = 1048576,
                        .fallback = "1024", .trust = TRUST_LESS_NARROWS,
                        .help = "open files of each process; 0 for no limit" },
        [ROW_CPU] = { .key = "process.limits.cpu", .env = "BAILEY_LIMIT_CPU", .type = OPTION_DURATION, .fallback = "0",
                      .trust = TRUST_LESS_NARROWS, .help = "processor time of each process; 0 for no limit" },
        [ROW_LIMIT_CONNECT] = { .key = "network.limits.connect", .type = OPTION_DURATION, .min = MILLISECONDS(100),
                                .max = SECONDS(3600), .fallback = "10s", .trust = TRUST_LESS_NARROWS,
                                .help = "time to reach a host" },
        [ROW_LIMIT_HEADER] = { .key = "network.limits.header", .type = OPTION_DURATION, .min = MILLISECONDS(100),
                               .max = SECONDS(3600), .fallback = "10s", .trust = TRUST_LESS_NARROWS,
                               .help = "time for a request's header" },
        [ROW_LIMIT_IDLE] = { .key = "network.limits.idle", .type = OPTION_DURATION, .min = MILLISECONDS(100),
                             .max = SECONDS(86400), .fallback = "60s", .trust = TRUST_LESS_NARROWS,
                             .help = "time that a connection may do nothing" },
        [ROW_LIMIT_TUNNEL_IDLE] = { .key = "network.limits.tunnel_idle", .type = OPTION_DURATION, .min = MILLISECONDS(100),
                                    .max = SECONDS(86400), .fallback = "10m", .trust = TRUST_LESS_NARROWS,
                                    .help = "the same for tunnels" },
        [ROW_LIMIT_HEADER_BYTES] = { .key = "network.limits.header_bytes", .type = OPTION_SIZE, .min = 1024,
                                     .max = 1 << 20, .fallback = "64KiB", .trust = TRUST_LESS_NARROWS,
                                     .help = "size of a request's header" },
        [ROW_LIMIT_CONNECTIONS] = { .key = "network.limits.connections", .type = OPTION_INTEGER, .max = 1048576,
                                    .fallback = "4096", .trust = TRUST_LESS_NARROWS,
                                    .help = "connections at once; 0 for no limit" },
        [ROW_LIMIT_CONNECTION_RATE] = { .key = "network.limits.connections_per_second", .type = OPTION_INTEGER,
                                        .max = 1000000, .fallback = "0", .trust = TRUST_LESS_NARROWS,
                                        .help = "new connections in a second; 0 for no limit" },
        [ROW_LIMIT_BYTES_OUT_PER_HOST] = { .key = "network.limits.bytes_out_per_host", .type = OPTION_SIZE, .fallback = "0",
                                           .trust = TRUST_LESS_NARROWS, .help = "bytes sent to one host; 0 for no limit" },
        [ROW_LIMIT_BYTES_OUT] = { .key = "network.limits.bytes_out", .type = OPTION_SIZE, .fallback = "0",
                                  .trust = TRUST_LESS_NARROWS, .help = "bytes sent in all; 0 for no limit" },
};

#define TABLE(title_text, first, last) { .title = title_text, .rows = &policy_rows[first], .n = (last) - (first) + 1 }
const struct option_table policy_table_general = TABLE("Policy", ROW_POLICY, ROW_AGENT);
const struct option_table policy_table_network = TABLE("Network", ROW_ALLOW, ROW_DNS_SERVERS);
const struct option_table policy_table_files = TABLE("Files", ROW_READS, ROW_OVERLAY);
const struct option_table policy_table_process = TABLE("Process", ROW_ENV, ROW_AUDIT);
const struct option_table policy_table_limits = TABLE("Limits", ROW_PROCESSES, ROW_LIMIT_BYTES_OUT);

const struct option_table *const policy_tables[POLICY_TABLES] = {
        &policy_table_general, &policy_table_network, &policy_table_files, &policy_table_process, &policy_table_limits
};
