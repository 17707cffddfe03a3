/* SPDX-License-Identifier: Apache-2.0 */
/* bailey secrets: the credentials of the policy, and proof that they work. */
#include "verbs/secrets.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/log.h"
#include "cli/verb.h"
#include "verbs/policy_options.h"

#include <stdio.h>

enum { SECRETS_JSON, SECRETS_OPTIONS };
static const struct option rows[] = {
        [SECRETS_JSON] = { .flag = "json", .type = OPTION_FLAG, .help = "print JSON" },
};
static const struct option_table table = { "Output", rows, SECRETS_OPTIONS };

static int run_list(const struct call *call, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(1 << 20);
        bool json = option_get_flag(&call->options, &rows[SECRETS_JSON]);
        if (secrets_list(&call->options, json, &out, err) < 0)
                return exit_of_error(err);
        if (buf_str(&out).n == 0)
                log_notice("the policy has no credentials; --credential NAME adds one, as github or openai");
        printf("%.*s", STR_FMT(buf_str(&out)));
        return EXIT_OK;
}

static int print_json(const char *name, const struct secrets_proof *proof) {
        cleanup(buf_done) struct buf out = BUF(65536);
        struct emit j = emit_to(&out);

        emit_open(&j, '{');
        emit_put_text(&j, "name", name);
        emit_put_text(&j, "target", proof->target);
        emit_put_text(&j, "slot", proof->slot);
        emit_key(&j, "swapped");
        emit_bool(&j, proof->swapped);
        emit_key(&j, "hidden");
        emit_bool(&j, proof->hidden);
        emit_put_text(&j, "why", proof->why);
        emit_close(&j);

        if (emit_status(&j) == 0)
                printf("%.*s\n", STR_FMT(buf_str(&out)));

        return proof->swapped && proof->hidden ? EXIT_OK : EXIT_NO;
}

static int run_test(const struct call *call, struct err *err) {
        struct secrets_proof proof;

        if (secrets_test(&call->options, call->argv[0], &proof, err) < 0)
                return exit_of_error(err);
        if (option_get_flag(&call->options, &rows[SECRETS_JSON]))
                return print_json(call->argv[0], &proof);

        bool good = proof.swapped && proof.hidden;
        printf("%s: %s\n", call->argv[0], good ? "works" : "does not work");
        printf("  as %s to %s, played by an origin on loopback\n", proof.slot, proof.target);
        printf("  the origin got the value, not the stand-in: %s\n", proof.swapped ? "yes" : "no");

        if (proof.swapped)
                printf("  what the origin repeated of it was hidden from the client: %s\n",
                       proof.hidden ? "yes" : "no");

        if (proof.why[0])
                printf("  %s\n", proof.why);

        return good ? EXIT_OK : EXIT_NO;
}

static const struct verb verb_list = {
        .name = "list",
        .synopsis = "[OPTIONS]",
        .help = "what the policy's credentials are for",
        .about =
            "One line for each: its name, the variables that hold the stand-in inside, where the secret is read from, "
            "the hosts it goes to and the places in a request. Nothing is read.",
        .tables = { &table, &policy_table_general, &policy_table_credentials },
        .max_words = 0,
        .run = run_list,
};

static const struct verb verb_test = {
        .name = "test",
        .synopsis = "[OPTIONS] NAME",
        .help = "prove that a credential works, without showing it",
        .about =
            "Reads the secret from its source and sends one request with the stand-in through a vault and a gateway, "
            "as "
            "a sandbox would, to an origin on loopback that plays the credential's first host. The service itself is "
            "not contacted, so this does not say whether it accepts the secret.\n\n"
            "Exit code 0: the origin got the value, and the client did not see it; 1: not so; 3: the policy is not "
            "valid, or the source has no value; 4: there is no such credential.",
        .tables = { &table, &policy_table_general, &policy_table_credentials },
        .min_words = 1,
        .max_words = 1,
        .run = run_test,
};

static int run_rotate(const struct call *call, struct err *err) {
        const char *name = call->argc > 0 ? call->argv[0] : NULL;

        if (secrets_rotate(&call->options, name, err) < 0)
                return exit_of_error(err);

        printf("rotated %s: the next run gets other stand-ins; what runs now keeps its own until it ends\n",
               text_or(name, "all"));
        return EXIT_OK;
}

static const struct verb verb_rotate = {
        .name = "rotate",
        .synopsis = "[OPTIONS] [NAME]",
        .help = "give other stand-ins from the next run on",
        .about =
            "Stand-ins are the same in each run of one workspace, because agents store, compare and approve what they "
            "take for a key. This makes others, for one credential or for all. One of before a rotation is recognised "
            "for the next four: a request with it is refused. The secrets themselves stay as they are.\n\n"
            "Exit code 0: done; 3: the policy is not valid; 4: there is no such credential and no such provider.",
        .tables = { &policy_table_general, &policy_table_credentials },
        .max_words = 1,
        .run = run_rotate,
};

static const struct verb *const subs[] = { &verb_list, &verb_test, &verb_rotate, NULL };

const struct verb verb_secrets = {
        .name = "secrets",
        .group = GROUP_POLICY,
        .synopsis = "list|test NAME|rotate [NAME]",
        .help = "list credentials; prove that one works; change stand-ins",
        .about = "The credentials of the policy: secrets that the gateway puts into requests, while the sandbox holds "
                 "stand-ins. No value is ever shown.",
        .subs = subs,
};
