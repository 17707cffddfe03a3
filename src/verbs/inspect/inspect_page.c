/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/inspect/inspect_page.h"

#include "base/cleanup.h"
#include "bridge/page.h"
#include "policy/tools/browser.h"

#include <errno.h>
#include <stdlib.h>

static int page_refused(struct inspect_verdict *answer, const char *reason, const char *text, const char *detail,
                        const char *change) {
        answer->decision = "deny";
        answer->reason = reason;
        answer->text = text;
        answer->detail = detail ? str_dup(str_of(detail)) : NULL;
        answer->change = change ? str_dup(str_of(change)) : NULL;
        if ((detail && !answer->detail) || (change && !answer->change))
                return -ENOMEM;

        return 0;
}

static int page_allowed(const struct policy *policy, const struct page *page, const struct origin_text *entry,
                        struct inspect_verdict *answer) {
        answer->allowed = true;
        answer->decision = policy->browser.ask ? "ask" : "allow";
        answer->reason = "rule";
        answer->text = policy->browser.ask ? "It is opened in your browser, once a person has agreed."
                                           : "It is opened in your browser.";
        answer->rule = str_dup(str_of(entry->text));
        answer->origin = str_dup(str_of(entry->origin));

        if (page->callback.wanted)
                answer->detail = str_format("its callback to http://%s:%u%s is carried inside, once",
                                            page->callback.host, page->callback.port, page->callback.path);

        if (!answer->rule || !answer->origin || (page->callback.wanted && !answer->detail))
                return -ENOMEM;

        return 0;
}

int inspect_page_judge(const struct policy *policy, const char *text, struct inspect_verdict *ret, struct err *err) {
        cleanup(inspect_verdict_done) struct inspect_verdict answer = { 0 };
        cleanup(free_ptr) struct page *page = calloc(1, sizeof *page);
        const struct origin_text *entry = NULL;
        struct err why = { 0 };
        int r;

        if (!page)
                return err_memory(err);

        if (page_parse(str_of(text), page, &why) < 0) {
                answer.target = str_dup(str_of(text));
                r = page_refused(&answer, "bad-page", "It is not opened in your browser.", err_text(&why), NULL);
        } else {
                answer.target = str_dup(str_of(page->url));
                answer.port = page->target.port;

                if (browser_allows(policy, &page->target, &entry)) {
                        r = page_allowed(policy, page, entry, &answer);
                } else {
                        cleanup(free_ptr) char *change =
                            str_format("to have its pages opened: --browser %s", page->target.host.name);
                        if (change)
                                r = page_refused(&answer, "not-allowed", "browser.hosts does not name its host.", NULL,
                                                 change);
                        else
                                r = -ENOMEM;
                }
        }

        if (r < 0 || !answer.target)
                return err_memory(err);

        *ret = answer;
        answer = (struct inspect_verdict){ 0 };

        return 0;
}
