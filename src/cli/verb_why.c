/* SPDX-License-Identifier: Apache-2.0 */
/* bailey why: which rule decides about a host or a path, and what to do about it. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "cli/frame.h"
#include "cli/verb_inspect.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <unistd.h>

static const struct option rows[] = {
        { .flag = "json", .type = OPTION_FLAG, .help = "print a JSON object" },
};
static const struct option_table table = { "Output", rows, 1 };

static int print_answer(const struct call *call, const struct inspect_verdict *verdict, struct err *err) {
        if (!option_get_flag(&call->options, &rows[0])) {
                inspect_print(call->argv[0], verdict, frame_color(call, STDOUT_FILENO));
                return EXIT_OK;
        }

        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);
        inspect_emit(&j, call->argv[0], verdict);
        return inspect_write_json(&j, &out, err);
}

static int run_why(const struct call *call, struct err *err) {
        cleanup(inspector_freep) struct inspector *i = NULL;
        cleanup(inspect_verdict_done) struct inspect_verdict v = { 0 };
        const char *asked = call->argv[0];
        int status = inspect_open(call, NULL, &i, err);
        if (status != EXIT_OK)
                return status;

        struct inspect_question q = { .target = asked };
        int r;
        if (inspect_is_tool(i, asked))
                return inspect_tool_call(call, asked, option_get_flag(&call->options, &rows[0]), err);

        if (inspect_is_file(asked))
                r = inspect_path(i, asked, &v, err);
        else if (inspect_is_repository(i, asked))
                r = inspect_repository(i, asked, &v, err);
        else if (inspect_is_page(asked))
                r = inspect_page(i, asked, &v, err);
        else
                r = inspect_is_path(asked) ? inspect_path(i, asked, &v, err) : inspect_host(i, &q, &v, err);

        if (r < 0)
                return r == -ENOMEM ? EXIT_SYSTEM : EXIT_USAGE;

        status = print_answer(call, &v, err);
        if (status != EXIT_OK)
                return status;

        if (v.allowed)
                return EXIT_OK;

        return EXIT_NO;
}

const struct verb verb_why = {
        .name = "why",
        .group = GROUP_POLICY,
        .synopsis = "[OPTIONS] HOST[:PORT] | PATH | REPO[=REF] | URL | 'TOOL ...'",
        .help = "say which rule decides about a host, a path or a repository, and why",
        .about = "Explains a verdict without running anything: the rule that decides, where it stands, and what would "
                 "change it. "
                 "A word with a slash in it, or that begins with ~ or a dot, is a path (./Makefile, .envrc); "
                 "everything else is a host. "
                 "Links in a path are resolved, "
                 "since rules hold for what is reached. A word that begins with a host that the policy names under "
                 "git, as github.com/acme/app, is a repository: is it fetched from; with =REF (a branch, or refs/...): "
                 "is it pushed to. So is an address as git writes it for ssh, ssh://git@github.com/a/b or "
                 "git@github.com:a/b, "
                 "whatever the policy names; a file that is there and has such a name is meant first. A word that "
                 "begins with the name of a bridged tool, as 'gh pr view 5', is a call of "
                 "it. Any other address with :// is a page that would be opened in your browser. Ratchets "
                 "that a host or path would close, or that would close it, are named, and so is what is still decided "
                 "behind "
                 "an answer: by what a GraphQL document asks for, and by ssh.hosts about a login.\n\nExit code 0: "
                 "allowed (a path: "
                 "readable); 1: not.",
        .tables = { &table, &policy_table_general, &policy_table_network, &policy_table_files },
        .min_words = 1,
        .max_words = 1,
        .run = run_why,
};
