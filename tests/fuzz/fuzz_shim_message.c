/* SPDX-License-Identifier: Apache-2.0 */
/* A call is read exactly or not at all; and whatever its words are, what would be run has the form of the grammar. */
#include "bridge/shim_message.h"

#include "base/cleanup.h"
#include "bridge/tool_call.h"
#include "fuzz.h"
#include "policy/load.h"
#include "policy/tools/tool_grammar.h"
#include "policy/tools/tools.h"

static struct policy *the_policy(void) {
        static struct policy *policy;
        static const char text[] =
            "bridge: { gh: { repos: [github.com/acme/app] }, git: { repos: [github.com/acme/*] }, "
            "kubectl: {}, aws: {}, gcloud: {}, docker: {} }";
        const struct policy_request request = { .only_text = text, .base = "/tmp", .network_only = true };

        if (!policy)
                FUZZ_CHECK(policy_load(&request, &policy, NULL) == 0);
        return policy;
}

static bool is_front(const struct bridge_tool *tool, const char *word) {
        for (size_t i = 0; i < tool->front.n; i++)
                if (strcmp(tool->front.p[i].text, word) == 0)
                        return true;
        return false;
}

/* Each option is one of the verb's, by its whole name; nothing behind "--" begins with a dash. */
static void check_form(const struct bridge_tool *tool, const struct tool_call *call) {
        struct tool_verb verb;
        bool places = false;

        FUZZ_CHECK(tool_verb_parse(str_of(call->line), &verb, NULL) == 0);
        FUZZ_CHECK(call->argv.n >= 1 + verb.n_words && strcmp(call->argv.p[0], tool->name) == 0);
        for (size_t i = 1; i < call->argv.n; i++) {
                struct str word = str_of(call->argv.p[i]);
                ptrdiff_t equals = str_find(word, '=');
                bool known = false;

                if (str_is(word, "--")) {
                        places = true;
                        continue;
                }
                if (word.n == 0 || word.p[0] != '-')
                        continue;
                FUZZ_CHECK(!places);
                for (size_t k = 0; k < verb.n_options; k++)
                        known =
                            known || str_eq(verb.options[k].name, equals < 0 ? word : str_first(word, (size_t)equals));
                FUZZ_CHECK(known || is_front(tool, call->argv.p[i]));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct shim_call asked;
        struct str packet = str_n(data, size);
        int number = 0;

        if (shim_signal_read(packet, &number))
                FUZZ_CHECK(number > 0 && number < 32);
        if (!shim_call_read(packet, &asked))
                return 0;
        size_t bytes = sizeof(struct shim_head) + asked.directory.n + asked.tool.n + 2;
        for (size_t i = 0; i < asked.n; i++)
                bytes += asked.words[i].n + 1;
        FUZZ_CHECK(bytes == size && asked.directory.p[0] == '/');

        const struct bridge_tool *tool = tool_find(the_policy(), asked.tool);
        cleanup(tool_call_done) struct tool_call call = { 0 };
        if (!tool)
                return 0;
        FUZZ_CHECK(tool_call_judge(tool, asked.words, asked.n, &call) == 0);
        if (call.verdict == TOOL_RUN)
                check_form(tool, &call);
        else
                FUZZ_CHECK(call.why[0] && call.argv.n == 0);
        return 0;
}
