/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The internals of struct live, for the files that make it up (see live.h). */
#include "control/live.h"
#include "control/monitor.h"
#include "control/prompt.h"
#include "control/questions.h"
#include "store/state.h"

#include <termios.h>

/* Who wants the sandbox to freeze. */
enum hold { HOLD_PAUSE = 1, HOLD_PROMPT = 2, HOLD_DISK = 4, HOLD_LINK = 8 };
enum freeze_state { FREEZE_OFF, FREEZE_ASKED, FREEZE_ON };

enum prompt_state {
        PROMPT_OFF,
        PROMPT_FREEZING, /* the sandbox is brought to a stand first */
        PROMPT_SHOWN,    /* the terminal is ours, and a person reads */
};

struct live_rule {
        bool deny;
        bool remembered; /* in the state database: a reload finds it there */
        char *pattern, *origin;
};

struct waiting_reply {
        uint64_t ticket, id;
};

struct hook {
        pid_t pid;         /* 0: free */
        int output;        /* what it prints: an answer, or nothing */
        uint64_t question; /* 0: it was told of something else */
        uint64_t deadline_ns;
        struct buf text;
        bool told_only; /* the responder may be the sandbox itself */
};

struct live {
        struct live_parts parts;
        struct control_server *server; /* NULL: it could not be made */
        uint64_t started_us;
        enum policy_mode launched; /* what the sandbox was made for; a reload changes the policy's */
        bool opens_tls;            /* a vault was started with it */
        uint64_t allowed, refused;
        struct questions questions;
        VEC(struct live_rule) live;
        VEC(char *) agreed; /* commands that a person said yes to, as an agent asked for them */
        struct monitor monitor;
        unsigned alarms;   /* of the monitor */
        char alarm[160];   /* the last one, in words; "": none */
        char disk[160];    /* why it stands still until it takes less of the disk; "": it need not */
        bool audit_failed; /* nothing new is let through until it can be written again */

        unsigned holds; /* enum hold */
        uint64_t stand; /* the last word of the link about that (SUPERVISE_STAND) */
        enum freeze_state freeze;
        VEC(struct waiting_reply) pausing;
        char paused_by[96];

        enum prompt_state prompt;
        uint64_t prompt_question;
        uint64_t prompt_retry_ns; /* when the terminal is looked at again; 0: not */
        struct termios terminal_before;
        pid_t foreground_before;
        struct buf typed;

        struct hook hooks[LIVE_HOOKS_MAX];
};

/* live.c */
void live_hold(struct live *live, enum hold who);
void live_release(struct live *live, enum hold who);
void live_pause(struct live *live, const char *by);
/* An event for subscribers, if there are any: open, add members, send. */
#define LIVE_EVENT_MAX 65536
void live_publish(struct live *live, struct emit *json);
void live_publish_text(struct live *live, const char *event, const char *key, const char *text);

/* live_rules.c */
struct rule_change {
        bool deny;
        const char *pattern;
        enum control_scope scope;
        const char *by;
};
/* What the gateway is to judge by. */
int live_compile(const struct live *live, const struct policy *policy, void **ret, size_t *ret_n, struct err *err);
int live_rules_add(struct live *live, const struct rule_change *change, struct err *err);
/* How many. SCOPE_ALWAYS: what a guest has for itself stays. */
int live_rules_forget(struct live *live, const char *pattern, enum control_scope scope, struct err *err);
/* From the state database, a rule or a path; how many. */
int live_forget_remembered(const struct live *live, const char *what, enum control_scope scope, struct err *err);
void live_rules_emit(const struct live *live, struct emit *json);
/* live_reload.c: ret_later: settings that differ and count only for commands that begin later; "" if there are none. */
#define LIVE_LATER_MAX 512
int live_rules_reload(struct live *live, char ret_later[static LIVE_LATER_MAX], struct err *err);
/* live_reload_later.c */
void live_reload_later(const struct live *live, const struct policy *fresh, char ret[static LIVE_LATER_MAX]);
void live_rules_done(struct live *live);
/* Into the state database; where it happened is filled in. */
void live_rules_decided(struct live *live, const struct state_decision *decision);

/* live_questions.c */
/* The gateway died, and with it everybody who waited; the next one counts its questions anew. */
void live_questions_drop(struct live *live);
int live_answer(struct live *live, uint64_t number, enum control_answer answer, enum control_scope scope,
                const char *by, struct err *err);
/* Questions that a pattern covers, each answered once. */
int live_answer_covered(struct live *live, const char *pattern, enum control_answer answer, enum control_scope scope,
                        const char *by, unsigned *ret_n, struct err *err);

/* A path was opened otherwise: whoever waits for it, or for something below it, goes on. How many questions, or the
 * first error of one, which does not keep the others waiting. */
int live_answer_opened(struct live *live, const char *what, const char *by, struct err *err);

/* live_access.c */
/* A question in the form of ASK_WANTS. False: it is none, or there are too many. */
bool live_access_ask(struct live *live, uint64_t id, const struct authority *target, enum event_via via,
                     const char *text, struct question **ret);
/* Whether what this asks for, in the form of ASK_AGREED, was agreed to: here, or for later runs. */
bool live_access_agreed(const struct live *live, const char *text);
/* Keeps the answer about "read /PATH", "write /PATH" or "run COMMAND", as far as its scope reaches. */
/* Opens a path in the sandbox; nothing to do for a command. */
int live_access_open(struct live *live, const char *what, enum control_scope scope, struct err *err);
/* Opens a path now, and remembers it where the scope says so. */
int live_access_grant(struct live *live, const char *what, enum control_scope scope, const char *by, struct err *err);
/* Closes it, and forgets it; how many. */
int live_access_forget(struct live *live, const char *what, enum control_scope scope, struct err *err);
int live_access_decided(struct live *live, const char *what, enum control_answer answer, enum control_scope scope,
                        struct err *err);
void live_access_done(struct live *live);

/* live_prompt.c */
void live_prompt_consider(struct live *live);
void live_prompt_frozen(struct live *live, int error);
void live_prompt_gone(struct live *live, uint64_t question);
void live_prompt_read(struct live *live);
void live_prompt_interrupted(struct live *live);
void live_prompt_end(struct live *live);

/* live_hooks.c */
void live_hooks_tell(struct live *live, uint64_t question, struct str json);
void live_hooks_watch(const struct live *live, struct poller *poller);
void live_hooks_step(struct live *live, const struct poller *poller);
void live_hooks_gone(struct live *live, uint64_t question);
void live_hooks_end(struct live *live);
