/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The inside of struct run_control, for the files that make it up (see run_control.h). */
#include "control/monitor.h"
#include "control/prompt.h"
#include "control/questions.h"
#include "manager/run_control.h"
#include "store/state.h"

#include <termios.h>

/* Who wants the sandbox to stand still. */
enum hold { HOLD_PAUSE = 1, HOLD_PROMPT = 2 };
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
        bool told_only; /* whoever answers it may be the sandbox itself */
};

struct run_control {
        struct run_parts parts;
        struct control_server *server; /* NULL: it could not be made */
        uint64_t started_us;
        enum policy_mode launched; /* what the sandbox was made for; a reload changes the policy's */
        uint64_t allowed, refused;
        struct questions questions;
        VEC(struct live_rule) live;
        struct monitor monitor;

        unsigned holds; /* enum hold */
        enum freeze_state freeze;
        VEC(struct waiting_reply) pausing;
        char paused_by[96];

        enum prompt_state prompt;
        uint64_t prompt_question;
        uint64_t prompt_retry_ns; /* when the terminal is looked at again; 0: not */
        struct termios terminal_before;
        pid_t foreground_before;
        struct buf typed;

        struct hook hooks[RUN_HOOKS_MAX];
        size_t polled; /* descriptors of the server in the last poll: they come first */
};

/* run_control.c */
void run_hold(struct run_control *c, enum hold who);
void run_release(struct run_control *c, enum hold who);
void run_control_pause(struct run_control *c, const char *by);
/* An event for subscribers, if there are any: open, add members, send. */
#define RUN_EVENT_MAX 65536
void run_publish(struct run_control *c, struct emit *j);
void run_publish_text(struct run_control *c, const char *event, const char *key, const char *text);

/* run_rules.c */
struct rule_change {
        bool deny;
        const char *pattern;
        enum control_scope scope;
        const char *by;
};
/* What the gateway is to judge by. */
int run_compile(const struct run_control *c, const struct policy *p, void **ret, size_t *ret_n, struct err *e);
int run_rules_add(struct run_control *c, const struct rule_change *change, struct err *e);
int run_rules_forget(struct run_control *c, const char *pattern, struct err *e); /* how many */
void run_rules_emit(const struct run_control *c, struct emit *j);
/* run_reload.c: ret_later: settings that differ and count only for commands that begin later; "" if there are none. */
#define RUN_LATER_MAX 160
int run_rules_reload(struct run_control *c, char ret_later[static RUN_LATER_MAX], struct err *e);
void run_rules_done(struct run_control *c);
/* Into the state database; where it happened is filled in. */
void run_rules_decided(struct run_control *c, const struct state_decision *decision);

/* run_questions.c */
/* The gateway died, and with it everybody who waited; the next one counts its questions anew. */
void run_questions_drop(struct run_control *c);
int run_answer(struct run_control *c, uint64_t number, enum control_answer answer, enum control_scope scope,
               const char *by, struct err *e);
/* Questions that a pattern covers, each answered once. */
int run_answer_covered(struct run_control *c, const char *pattern, enum control_answer answer, const char *by,
                       unsigned *ret_n, struct err *e);

/* run_prompt.c */
void run_prompt_consider(struct run_control *c);
void run_prompt_frozen(struct run_control *c, int error);
void run_prompt_gone(struct run_control *c, uint64_t question);
void run_prompt_read(struct run_control *c);
void run_prompt_interrupted(struct run_control *c);
void run_prompt_end(struct run_control *c);

/* run_hooks.c */
void run_hooks_tell(struct run_control *c, uint64_t question, struct str json);
size_t run_hooks_poll(struct run_control *c, struct pollfd *ret, int *timeout_ms);
void run_hooks_step(struct run_control *c, const struct pollfd *fds, size_t n);
void run_hooks_gone(struct run_control *c, uint64_t question);
void run_hooks_end(struct run_control *c);
