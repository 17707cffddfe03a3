/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One call of a bridged tool, judged: the words that somebody inside typed against the tool's grammar. What is run is
 * never what was typed: the words are read into values of known types, and written again in one form, options first,
 * each as --name=value. Whatever the grammar does not name is refused, with what it does name. Pure.
 */
#include "policy/policy.h"

enum tool_verdict {
        TOOL_RUN,    /* outside, as `argv` */
        TOOL_INSIDE, /* none of the bridge's: the program inside does it, without any credential */
        TOOL_REFUSED,
};

enum { TOOL_ARGS_MAX = 256, TOOL_TEXT_MAX = 65536, TOOL_WHY_MAX = 1024 };

typedef VEC(char *) tool_texts;

struct tool_call {
        enum tool_verdict verdict;
        tool_texts argv;               /* of TOOL_RUN: NULL at its end, the tool's name first */
        const char *line;              /* the verb's line in the grammar, NULL where there is none */
        const struct origin_text *ask; /* of TOOL_RUN: the entry by which a person must agree; NULL: nobody is asked */
        char why[TOOL_WHY_MAX];        /* of the other verdicts: one line for people */
};

void tool_call_done(struct tool_call *call);

/* words: behind the tool's name. -ENOMEM is the only failure: everything else is a verdict. */
/* The words as they are run, each as a shell would need it: what a person reads is what the tool gets. */
int tool_call_write(const struct tool_call *call, const char *program, struct buf *out);
int tool_call_judge(const struct bridge_tool *tool, const struct str *words, size_t n, struct tool_call *ret);
