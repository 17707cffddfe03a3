/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts about a Mac that this machine is not: where temporary files and the sandbox's own home would be, and which
 * ports the gateway would have. All else is the policy's, with this machine's paths.
 */
#include "verbs/macos/macos_plan.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "plan/build.h"
#include "plan/macos/macos_launch.h"
#include "policy/home_kind.h"
#include "policy/load.h"

#include <errno.h>
#include <unistd.h>

extern char **environ;

const struct macos_difference macos_differences[] = {
        { "connections", "every one is captured, whatever the program does",
          "none is captured: by the proxy variables, or not at all" },
        { "names", "the gateway answers them", "cannot be looked up inside; the proxy looks them up" },
        { "gateway", "in the sandbox's own network", "on the Mac's loopback; it wants the run's secret" },
        { "TLS", "opened where a credential or rule needs it",
          "the same; programs that trust the keychain alone fail then" },
        { "vault", "a filter on its calls; memory of its own", "a Seatbelt profile; root can read its memory" },
        { "compressed answers", "are searched for secrets", "are refused where a credential is used" },
        { "questions", "wait for a person", "are refused, but for programs that use libbailey" },
        { "servers on loopback", "just work", "closed, or open to the whole Mac" },
        { "hard links", "can be made where files can be written", "are refused" },
        { "bridged tools, base URLs", "as options", "refused" },
        { "denied files", "are not there", "answer `Operation not permitted`" },
        { "/tmp and home", "the sandbox has its own in their place",
          "$TMPDIR and $HOME lead elsewhere; the real ones are closed" },
        { "caches", "the user's below the sandbox's own", "start empty" },
        { "processes outside", "are invisible", "are visible by number; signals are refused" },
        { "end of a run", "nothing outlives it", "a program that forks twice may, unless it is a guest" },
        { "denials", "all are on record", "some are lost in the system log" },
        { "overlay, nesting, ask-path", "as options", "refused" },
        { "limits", "of all processes together", "of each process; none of memory" },
        { "moved directories", "bring no protected name along", "do; it is moved away when the run has ended" },
        { "repositories", "protected, new ones as they are made",
          "those that a search before and after the run finds" },
        { "spellings", "names as they are written", "protected names in every case" },
};
const size_t n_macos_differences = sizeof macos_differences / sizeof macos_differences[0];

#define PREVIEW "preview"
#define PREVIEW_TMPDIR "/private/var/folders/zz/user/T/bailey-" PREVIEW
#define PREVIEW_HOME ".local/state/bailey/homes/" PREVIEW "/files"

static int macos_plan_build(const struct macos_plan_request *macos_plan_request, const struct policy *policy,
                            struct macos_launch **ret, struct err *err) {
        cleanup(path_rules_freep) struct path_rules *rules = NULL;
        cleanup(free_ptr) char *own_home = NULL, *cwd = getcwd(NULL, 0);
        int r = path_rules_compile(policy, &rules, err);

        if (r < 0)
                return r;

        if (home_is_own(policy)) {
                own_home = path_join(policy->home, PREVIEW_HOME);
                if (!own_home)
                        return err_memory(err);
        }

        struct seatbelt_host host = {
                .home = policy->home,
                .own_home = own_home,
                .tmpdir = PREVIEW_TMPDIR,
                .tag = "bailey-" PREVIEW,
        };
        if (plan_network(policy) != NETWORK_NONE) {
                host.http_port = PLAN_PORT_HTTP;
                host.socks_port = PLAN_PORT_SOCKS5;
                host.api_port = policy->credentials.n > 0 ? PLAN_PORT_API : 0;
        }

        const struct macos_request request = {
                .policy = policy,
                .rules = rules,
                .host = &host,
                .environment = environ,
                .argv = macos_plan_request->argv,
                .cwd = cwd && path_is_within(cwd, policy->workspace) ? cwd : policy->workspace,
                .id = PREVIEW,
                .secret = PREVIEW,
        };

        return macos_launch_build(&request, ret, err);
}

enum macos_plan_end macos_plan_show(const struct macos_plan_request *macos_plan_request, struct buf *out,
                                    struct err *err) {
        const struct policy_request request = { .command_line = macos_plan_request->options,
                                                .program = macos_plan_request->argv[0] };
        cleanup(policy_freep) struct policy *policy = NULL;
        cleanup(macos_launch_freep) struct macos_launch *launch = NULL;
        int r = policy_load(&request, &policy, err);

        if (r < 0)
                return r == -EPERM ? MACOS_PLAN_REFUSED : MACOS_PLAN_BAD_POLICY;

        r = macos_plan_build(macos_plan_request, policy, &launch, err);
        if (r < 0)
                return r == -ENOMEM ? MACOS_PLAN_FAILED : MACOS_PLAN_BAD_POLICY;

        r = macos_plan_request->json ? macos_launch_json(launch, out) : macos_launch_text(launch, out);
        if (r < 0)
                err_set(err, -r, "the plan is too large to print");

        return r < 0 ? MACOS_PLAN_FAILED : MACOS_PLAN_SHOWN;
}
