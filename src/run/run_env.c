/* SPDX-License-Identifier: Apache-2.0 */
#include "run/run_env.h"

#include "base/cleanup.h"
#include "plan/env.h"
#include "policy/git/ssh_rules.h"
#include "policy/tools/browser.h"
#include "run/run_certificates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

enum { HELD_BACK_MAX = 2048 };

enum { OWN_MAX = 8, GIT_SETTINGS_MAX = 99 };

/* A pointer array over texts that the policy owns; NULL-terminated, with room for a few more. */
static const char **pointers_to(const origin_texts *texts) {
        const char **list = calloc(texts->n + OWN_MAX + 1, sizeof *list);
        for (size_t i = 0; list && i < texts->n; i++)
                list[i] = texts->p[i].text;
        return list;
}

/* One setting more than the host's environment gives to git. */
struct git_setting {
        char count[40], key[48], value[64];
};

static void set_git(struct git_setting *setting) {
        const char *count = getenv("GIT_CONFIG_COUNT");
        uint64_t n = 0;

        if (!count || !str_to_u64(str_of(count), GIT_SETTINGS_MAX, &n))
                n = 0;

        (void)snprintf(setting->count, sizeof setting->count, "GIT_CONFIG_COUNT=%u", (unsigned)n + 1);
        (void)snprintf(setting->key, sizeof setting->key, "GIT_CONFIG_KEY_%u=gpg.program", (unsigned)n);
        (void)snprintf(setting->value, sizeof setting->value, "GIT_CONFIG_VALUE_%u=%s", (unsigned)n, PLAN_SHIM_GPG);
}

/* What stands for the host's ssh, gpg and agent is found by these. They come last, so that they count. */
static void set_programs(const struct policy *policy, struct git_setting *setting, const char **list, size_t n) {
        if (policy->ssh.git) {
                list[n++] = "GIT_SSH_COMMAND=" PLAN_SHIM_SSH;
                list[n++] = "GIT_SSH_VARIANT=ssh";
        }

        if (policy->signing.gpg.n > 0) {
                set_git(setting);
                list[n++] = setting->count;
                list[n++] = setting->key;
                list[n++] = setting->value;
        }

        if (policy_has_browser(policy))
                list[n++] = "BROWSER=" PLAN_BRIDGE_PROGRAMS "/xdg-open";
        if (policy_has_agent(policy))
                list[n++] = "SSH_AUTH_SOCK=" PLAN_AGENT_SOCKET;
}

int run_env(const struct policy *policy, const struct plan_host *host, const struct vault_session *vault,
            const char *id, struct run_env *ret, struct err *err) {
        cleanup(free_ptr) const char **pass = pointers_to(&policy->process.env_pass);
        cleanup(free_ptr) const char **set = pointers_to(&policy->process.env_set);
        bool degraded = !host->namespaces;
        struct git_setting setting;
        struct env env = { 0 };

        if (!pass || !set)
                return err_memory(err);
        if (!degraded)
                set_programs(policy, &setting, set, policy->process.env_set.n);

        struct env_input in = {
                .host = environ,
                .sandbox_id = id,
                .transparent = !degraded,
                .inside = true,
                .tmpdir = "/tmp",
                .home = host->home.path,
                .front = host->shim ? PLAN_BRIDGE_PROGRAMS : NULL,
                .pass = pass,
                .set = set,
        };

        if (degraded) {
                in.http_port = host->http_port;
                in.socks_port = host->socks_port;
                in.tmpdir = host->tmpdir;
                in.home = host->home.files;
        } else if (plan_network(policy) != NETWORK_NONE) {
                in.http_port = PLAN_PORT_HTTP;
                in.socks_port = PLAN_PORT_SOCKS5;
        }

        vault_session_env(vault, &in);
        if (run_certificates_java(vault, host))
                in.java_trust_store = NULL; /* its own store has them; each JVM would tell of the variable */

        cleanup(buf_done) struct buf held_back = BUF(HELD_BACK_MAX);
        int s = env_build(&in, &env, err);
        if (s == 0)
                (void)env_held_back(&env, &held_back); /* of very many the first */
        if (s == 0)
                s = env_block(&env, &ret->block, err);
        if (s == 0 && held_back.n)
                ret->held_back = str_dup(buf_str(&held_back));

        env_done(&env);
        return s;
}

void run_env_done(struct run_env *env) {
        env_block_free(env->block);
        free(env->held_back);
        *env = (struct run_env){ 0 };
}
