/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Control of a run while it runs: questions and answers, rules that come and go, a new policy, freezing, ending it.
 * Orders come from the control socket, the terminal, a hook or the monitor. One object beside the supervisor's own
 * state; run.c tells it what happens and lets it take part in its loop.
 *
 * Parts: live.c (requests, freezing, life), live_rules.c (rules), live_reload.c, live_questions.c (questions and
 * answers), live_prompt.c (the terminal), live_hooks.c (commands and webhooks that are notified), live_watch.c (events,
 * the monitor).
 */
#include "conf/option.h"
#include "control/server.h"
#include "control/terminal.h"
#include "plan/build.h"
#include "policy/policy.h"
#include "roles/gateway_process.h"
#include "store/audit.h"

struct live; /* opaque */

/* Facts of a run, for display. */
struct live_facts {
        bool degraded;           /* it runs without protections that the policy counts on */
        bool learns;             /* every host that is not private is let through and noted */
        const char *const *lost; /* lines "lost: ..."; others are passed over */
        size_t n_lost;
        pid_t pid; /* the process above everything that it uses; 0: not known */
};

/* The parts of the run that it acts on; they belong to the run, and are looked at when they are needed. */
struct live_parts {
        const char *id;
        char *const *argv;                   /* the command, NULL-terminated: what people see of it */
        const struct option_values *options; /* the policy is read again from these */
        const char *guest;                   /* its name; NULL: it is none */
        const char *container;               /* ENGINE/NAME of the one behind this gateway; NULL: it is for none */
        bool brings_policies;                /* a program brings new policies itself: nothing is read again here */
        const struct link *link;             /* to that program; NULL: there is none */
        struct policy **policy;
        struct policy **network;          /* not NULL there: judges connections in the other's place */
        struct gateway_process **gateway; /* NULL there: not started */
        /* Freezes everything inside, and thaws it; the result of freezing comes as live_frozen(). NULL: nothing runs
         * yet, a command waits for approval (command_room.c). */
        int (*freeze)(void *run);
        int (*thaw)(void *run);
        bool cannot_freeze; /* no namespaces: it cannot be made to freeze, so no prompt either */
        struct terminal *terminal;
        struct audit **audit;
        /* Opens or closes a path in the sandbox ("read /PATH", "write /PATH"); NULL: it cannot. */
        int (*grant)(void *run, const char *what, struct err *e);
        int (*revoke)(void *run, const char *what, struct err *e);
        void (*end)(void *run, int status); /* ends the sandbox; `bailey run` exits with this status */
        /* The answer about a command, and who gave it; may be NULL where no command waits. */
        void (*decided)(void *run, bool allow, const char *by);
        /* The answer about a page (live_ask_page). */
        void (*page_decided)(void *run, uint64_t id, bool allow, const char *by);
        /* The answer about a call (live_ask_call); `kept`: it is the answer to every such call of this run. */
        void (*call_decided)(void *run, uint64_t id, bool allow, bool kept, const char *by);
        /* The answer to what a bridged tool's sandbox asks (live_ask_of_tool). */
        void (*tool_decided)(void *run, uint64_t id, bool allow);
        /* The answer about an open that waits (live_ask_path): opens what was agreed to, and tells who waits. *scope is
         * as far as the answer reaches, and is set to how far it does. Less than 0: nothing was opened. */
        int (*path_decided)(void *run, uint64_t id, bool allow, enum control_scope *scope, struct err *e);
        /* The network rules for the gateway, and the policy read again; NULL: as for a run. Services have listeners
         * that must stay out of reach, and policies of their own. */
        int (*compile)(void *run, const struct policy *p, void **ret, size_t *ret_n, struct err *e);
        int (*reload)(void *run, struct err *e);
        /* Further facts that people are shown; see struct live_facts. NULL: nothing. */
        void (*describe)(void *run, struct live_facts *ret);
        void *run;
};

/* Makes the directory of control sockets; *ret is NULL if that fails. For a `preview` nothing is made. */
int live_place(bool preview, char **ret, struct err *err);
/* Has the plan hide it. */
int live_hide(struct plan_host *host, const char *directory, struct err *err);

/* Without namespaces the directory cannot be hidden. Control is still possible if the kernel identifies the peer
 * reliably, so that nothing inside can give orders. Reports what is lost. */
bool live_in_sight(const struct policy *policy);

int live_new(const struct live_parts *parts, struct live **ret, struct err *err);
/* Tells subscribers the end. Everything accepts NULL: not every run without namespaces has a control. */
void live_free(struct live *live, int status);

/* The rules that were added and are kept nowhere else, laid over a policy that was read again. */
int live_keep_rules(const struct live *live, struct policy *policy, struct err *err);
/* The policy is another: the monitor's rules are its. */
int live_policy(struct live *live, struct err *err);

enum { LIVE_HOOKS_MAX = 8 };
/* Its side of a poller (base/processes/poller.h). */
void live_watch(const struct live *live, struct poller *poller);
void live_step(struct live *live, const struct poller *poller);

/* What happens to the run. */
void live_event(struct live *live, const struct event *ev, const struct snapshot_rule *rule);
void live_ask(struct live *live, uint64_t id, const struct authority *target, enum event_via via, const char *push);
/* A command that was escalated. Its answer comes by parts.decided, or never: the asker counts the time. */
struct question_command;
int live_ask_command(struct live *live, const struct question_command *command, struct err *err);
/* A page that is to be opened outside. Its answer comes by parts.page_decided, or never: the asker counts the time. */
int live_ask_page(struct live *live, uint64_t id, const struct authority *target, const char *text, struct err *err);
/* What the sandbox of a bridged tool asks (a push): on the same ways as what this sandbox asks. Its answer comes by
 * parts.tool_decided, or never. */
int live_ask_of_tool(struct live *live, uint64_t id, const char *tool, const struct authority *target, const char *text,
                     struct err *err);
/* An open that waits: "read /PATH" or "write /PATH", and who opens it. Its answer comes by parts.path_decided, or
 * never.
 */
int live_ask_path(struct live *live, uint64_t id, const char *what, struct str opener, struct err *err);
/* A page, a call, a path or a tool's question: their ids are of one kind. */
void live_own_gone(struct live *live, uint64_t id, bool expired);
struct question_call;
/* A call of a bridged tool. Its answer comes by parts.call_decided, or never. */
int live_ask_call(struct live *live, uint64_t id, const struct question_call *call, struct err *err);
/* Nobody waits for the answer any more: the time is over, or the asker goes. */
void live_command_gone(struct live *live, bool expired);
void live_ask_gone(struct live *live, uint64_t id, bool expired);
void live_notice(struct live *live, enum gateway_notice notice, const char *text);
/* A ratchet has closed. */
void live_ratchet(struct live *live, const struct event *ev, const char *origin);
void live_frozen(struct live *live, int error); /* SANDBOX_FROZEN */
/* It takes more of the disk than it may, for this reason: it is frozen, whoever resumes it. NULL: it goes on.
 * Said again it is tried again, if it could not be frozen. */
void live_disk(struct live *live, const char *why);
bool live_stands(const struct live *live);
/* The program behind the link wants it to stand still, and is told when it does (link_stood()); or to go on. */
void live_stand(struct live *live, uint64_t id, bool stand);
/* A signal for the command. True when it was meant for the supervisor: SIGHUP from somebody who wants a reload. */
bool live_signal(struct live *live, int number, bool from_kernel);
