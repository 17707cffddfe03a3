/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/log.h"
#include "base/random.h"
#include "kept/home.h"
#include "policy/home_kind.h"
#include "policy/load.h"
#include "policy/paths/served.h"
#include "roles/vault_session.h"
#include "sandbox/darwin/darwin_job.h"
#include "sandbox/darwin/os.h"
#include "verbs/macos/macos_gateway.h"
#include "verbs/macos/macos_guards.h"
#include "verbs/macos/macos_link.h"
#include "verbs/macos/macos_plan.h"
#include "verbs/macos/macos_record.h"
#include "verbs/macos/macos_run.h"

#include <errno.h>
#include <unistd.h>

enum { MACOS_RUN_NO_STATUS = 125 };

/* The profile is compared with paths as the kernel spells them. */
static int spell_places(struct policy *policy, struct err *err) {
        cleanup(free_ptr) char *home = os_canonical(policy->home), *workspace = os_canonical(policy->workspace);
        if (!home || !workspace)
                return err_set(err, ENOENT, "the home %s or the workspace %s is not there", policy->home,
                               policy->workspace);

        free(policy->home);
        free(policy->workspace);
        policy->home = take_ptr(&home);
        policy->workspace = take_ptr(&workspace);
        return 0;
}

static char **find_command(char *const *argv) {
        size_t n = 0;
        while (argv[n])
                n++;

        char **words = calloc(n + 1, sizeof *words);
        if (!words)
                return NULL;
        memcpy(words, argv, n * sizeof *words);
        words[0] = darwin_program(argv[0]);
        return words;
}

/* --- one run --- */

struct run {
        const struct macos_run_request *request;
        struct policy *policy;
        struct macos_record record;
        struct macos_gateway gateway;
        struct vault_session vault;
        struct env_input vault_env; /* what it gives to the command */
        struct macos_guards guards;
        struct macos_link link;
        bool ran; /* the command has begun */
        struct home home;
        struct darwin_job job;
        char *home_path, *cwd;
};

static void run_done(struct run *run) {
        macos_gateway_done(&run->gateway); /* its last words are recorded */
        run->vault.gateway = NULL;
        vault_session_close(&run->vault);
        macos_guards_done(&run->guards);
        macos_record_done(&run->record);
        macos_link_done(&run->link);
        darwin_job_done(&run->job);
        home_close(&run->home);
        free(run->home_path);
        free(run->cwd);
}

static bool run_turn(void *arg) {
        struct run *run = arg;

        macos_gateway_turn(&run->gateway);
        return macos_link_hear(&run->link, &run->gateway);
}

static void run_started(void *arg, pid_t pid) {
        struct run *run = arg;

        run->ran = true;
        macos_guards_started(&run->guards, pid);
}

static void run_on_denial(void *arg, const struct violation *denial) {
        struct run *run = arg;

        macos_record_denial(&run->record, denial);
        macos_link_denial(&run->link, run->job.rules, denial);
}

/* One that is forgotten lies beside the temporary files. */
static int run_open_home(struct run *run, struct err *err) {
        enum home_kind kind = home_kind(run->policy);
        if (kind != HOME_OF_WORKSPACE && kind != HOME_NAMED)
                return 0;

        int r = home_open(run->policy, run->job.id, &run->home, err);
        if (r < 0)
                return r;

        run->home_path = os_canonical(run->home.files);
        run->job.kept_home = run->home_path;
        return run->home_path ? 0 : err_errno(err, "cannot find %s", run->home.files);
}

/* What the command gets in the place of secrets is part of its environment, and the certificates part of the profile.
 */
static int run_open_vault(struct run *run, struct err *err) {
        const struct vault_session_request request = {
                .policy = run->policy, .id = run->job.id, .roots = run->request->ca_bundle, .environment = environ
        };
        int r = vault_session_open(&run->vault, &request, err);
        if (r < 0)
                return r;

        run->vault.gateway = &run->gateway.process;
        run->vault.audit = &run->record.audit;
        run->gateway.vault = &run->vault;
        vault_session_env(&run->vault, &run->vault_env);
        run->job.vault = &run->vault_env;
        return 0;
}

/* The command starts in the workspace, or where the caller is. */
static int run_find_cwd(struct run *run, struct err *err) {
        if (!run->request->starts_here)
                return 0;

        run->cwd = os_canonical(".");
        run->job.cwd = run->cwd;
        return run->cwd ? 0 : err_errno(err, "cannot find the current directory");
}

/* The ports are part of the profile, and so is the place of the record; nothing is written or started yet. */
static int run_prepare(struct run *run, struct err *err) {
        struct darwin_job *job = &run->job;

        random_id(job->id, sizeof job->id);
        int r = macos_record_place(&run->record, run->policy, job->id, err);
        if (r < 0)
                return r;

        r = run_find_cwd(run, err);
        if (r < 0)
                return r;

        r = run_open_home(run, err);
        if (r < 0)
                return r;

        r = run_open_vault(run, err);
        if (r < 0)
                return r;

        run->gateway.quiet = run->guards.quiet = run->request->quiet;
        run->gateway.ca_bundle = run->request->ca_bundle;
        run->gateway.link = &run->link;
        r = macos_gateway_listen(&run->gateway, run->policy, err);
        if (r < 0)
                return r;

        job->port = run->gateway.http_port;
        job->socks_port = run->gateway.socks_port;
        job->secret = job->port ? run->gateway.secret : NULL;
        r = macos_guards_survey(&run->guards, run->policy, err);
        return r < 0 ? r : darwin_job_prepare(job, err);
}

/* What the command brought to protected names. What cannot be moved away is said; the command's status stays. */
static void run_sweep(struct run *run) {
        struct err err = { 0 };

        if (macos_guards_end(&run->guards, run->policy, run->job.rules, run->ran, &err) == 0)
                return;

        (void)audit_note(run->record.audit, "%s", err_text(&err));
        log_error("%s", err_text(&err));
}

/* Nothing runs before it is on record, and nobody connects before there is a gateway that judges. */
static int run_command(struct run *run, int *ret_code, struct err *err) {
        int r = macos_record_open(&run->record, run->policy, run->job.rules, run->job.id, run->request->argv, err);
        if (r < 0)
                return r;

        if (run->request->judged)
                judged_record(run->record.audit, run->request->judged, true);
        if (run->link.link)
                link_notice(run->link.link, "macOS: " MACOS_STATE);

        r = macos_guards_begin(&run->guards, run->policy, run->job.rules, run->job.id, run->record.audit, err);
        if (r == 0)
                r = macos_gateway_start(&run->gateway, run->record.audit, run->job.id, run->request->hosts_file, err);
        if (r == 0)
                r = darwin_job_run(&run->job, ret_code, err);

        macos_gateway_done(&run->gateway);
        run_sweep(run);
        if (r < 0)
                (void)audit_note(run->record.audit, "%s", err_text(err));
        if (run->job.timed_out)
                (void)audit_note(run->record.audit, "the time is over");
        macos_link_tell(&run->link);
        macos_record_end(&run->record, r < 0 ? MACOS_RUN_NO_STATUS : *ret_code);
        return r;
}

static enum macos_run_end run_end_of(const struct darwin_job *job, struct err *err) {
        if (job->timed_out) {
                err_set(err, ETIMEDOUT, "the command ran longer than its time limit and was ended");
                return MACOS_RUN_TIMED_OUT;
        }
        if (job->left) {
                err_set(err, ECANCELED, "the program that started it is gone, and the command was ended");
                return MACOS_RUN_LEFT;
        }

        return MACOS_RUN_ENDED;
}

static enum macos_run_end run_policy(const struct macos_run_request *request, struct policy *policy, int *ret_code,
                                     struct err *err) {
        cleanup(free_ptr) char **words = find_command(request->argv);
        if (!words) {
                err_memory(err);
                return MACOS_RUN_FAILED;
        }

        cleanup(free_ptr) char *program = words[0];
        cleanup(run_done) struct run run = { .request = request,
                                             .policy = policy,
                                             .gateway = MACOS_GATEWAY_NONE,
                                             .vault = VAULT_SESSION_NONE,
                                             .guards = MACOS_GUARDS_NONE,
                                             .link = { .link = request->link },
                                             .home = HOME_NONE,
                                             .job = { .policy = policy,
                                                      .argv = words,
                                                      .real_home = !home_is_own(policy),
                                                      .quiet = request->quiet,
                                                      .listened = request->link != NULL,
                                                      .timeout_ns = policy->process.timeout_ns } };
        const struct run_hooks hooks = { run_started, run_turn, run_on_denial, &run };
        if (!program) {
                err_set(err, ENOENT, "%s is not in PATH", request->argv[0]);
                return MACOS_RUN_NOT_FOUND;
        }

        run.job.hooks = &hooks;
        int r = run_prepare(&run, err);
        if (r < 0)
                return r == -EOPNOTSUPP || r == -EINVAL ? MACOS_RUN_BAD_POLICY : MACOS_RUN_FAILED;
        if (run_command(&run, ret_code, err) < 0)
                return MACOS_RUN_FAILED;
        if (request->ret_signalled)
                *request->ret_signalled = run.job.signalled;
        return run_end_of(&run.job, err);
}

enum macos_run_end macos_run(const struct macos_run_request *request, int *ret_code, struct err *err) {
        struct policy_request wanted = { .command_line = request->options };
        cleanup(policy_freep) struct policy *policy = NULL;

        if (request->policy)
                wanted = *request->policy;
        wanted.program = request->argv[0];
        int r = policy_load(&wanted, &policy, err);
        if (r < 0)
                return r == -EPERM ? MACOS_RUN_REFUSED : MACOS_RUN_BAD_POLICY;
        if (policy_check_served(policy, PLACE_MACOS, err) < 0 || spell_places(policy, err) < 0)
                return MACOS_RUN_BAD_POLICY;

        return run_policy(request, policy, ret_code, err);
}
