/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mcp_tools.h"

#include "base/bounds.h"
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"
#include "verbs/command_check.h"
#include "verbs/inspect/inspect.h"
#include "verbs/mcp_ask.h"
#include "verbs/policy_options.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OUTPUT_MAX = 2 << 20, RUN_SECONDS = 120, ASK_SECONDS = 50, TEXT_MAX = 65536, AGREED_MAX = 1024 };

/* --- arguments ---------------------------------------------------------------------------------------------------- */

/* A text argument; NULL when it is not there. -EINVAL: it is something else. */
static int take_text(const struct node *arguments, const char *key, const char **ret, struct err *err) {
        const struct node *node = arguments ? node_get(arguments, str_of(key)) : NULL;

        *ret = NULL;
        if (!node || node->kind == NODE_NULL)
                return 0;
        if (node->kind != NODE_SCALAR || !node->quoted || str_has_nul(node->text) || node->text.n > TEXT_MAX)
                return err_set(err, EINVAL, "%s must be a text without a NUL, of at most %d bytes", key, TEXT_MAX);

        *ret = node->text.p;
        return 0;
}

static int need_text(const struct node *arguments, const char *key, const char **ret, struct err *err) {
        int r = take_text(arguments, key, ret, err);

        if (r == 0 && (!*ret || !**ret))
                r = err_set(err, EINVAL, "%s is missing", key);
        return r;
}

static int take_seconds(const struct node *arguments, unsigned most, unsigned *seconds, struct err *err) {
        const struct node *node = arguments ? node_get(arguments, STR("timeout_seconds")) : NULL;
        uint64_t given;

        if (!node || node->kind == NODE_NULL)
                return 0;
        if (node->kind != NODE_SCALAR || node->quoted || !str_to_u64(node->text, most, &given) || given == 0)
                return err_set(err, EINVAL, "timeout_seconds must be a whole number from 1 to %u", most);

        *seconds = (unsigned)given;
        return 0;
}

static int only_keys(const struct node *arguments, const char *const *keys, struct err *err) {
        for (const struct node *node = arguments ? arguments->first : NULL; node; node = node->next) {
                bool known = false;

                for (const char *const *key = keys; *key; key++)
                        known = known || str_is(node->key, *key);
                if (!known)
                        return err_set(err, EINVAL, "there is no argument '%.*s'", (int)min_of(node->key.n, 64),
                                       node->key.p);
        }

        return 0;
}

/* --- check and why ------------------------------------------------------------------------------------------------ */

static int tools_say(struct buf *ret, const char *outcome, const char *text) {
        struct emit j = emit_to(ret);

        emit_open(&j, '{');
        emit_put_text(&j, "outcome", outcome);
        emit_put_text(&j, "text", text);
        emit_close(&j);
        if (emit_status(&j) < 0)
                return -ENOMEM;

        return 0;
}

static int check_text(struct mcp_toolbox *box, const char *command, struct check_verdict *verdict, struct err *err) {
        const struct check_question question = { .words = (char *const[]){ (char *)command },
                                                 .n = 1,
                                                 .looks_back = true };

        return check_command(box->options, &question, verdict, err);
}

static int tool_check(struct mcp_toolbox *box, const struct node *arguments, struct buf *ret, bool *ret_failed,
                      struct err *err) {
        cleanup(check_verdict_done) struct check_verdict verdict = { 0 };
        struct emit j = emit_to(ret);
        const char *command;
        int r = only_keys(arguments, (const char *const[]){ "command", NULL }, err);

        if (r >= 0)
                r = need_text(arguments, "command", &command, err);
        if (r < 0)
                return r;

        if (check_text(box, command, &verdict, err) < 0) {
                *ret_failed = true;
                return tools_say(ret, "failed", err_text(err));
        }

        emit_open(&j, '{');
        emit_put_text(&j, "decision", verdict.name);
        emit_put_text(&j, "rule", *verdict.rule ? verdict.rule : NULL);
        emit_put_text(&j, "reason", verdict.reason);
        emit_put_text(&j, "segment", verdict.segment);
        emit_put_text(&j, "detail", verdict.detail);

        if (verdict.agreed)
                emit_put_bool(&j, "agreed", true);

        emit_close(&j);
        if (emit_status(&j) < 0)
                return -ENOMEM;

        return 0;
}

/* The policy's word about a host or a path. */
static int look_up(struct mcp_toolbox *box, const char *target, struct inspect_verdict *verdict, struct err *err) {
        cleanup(inspector_freep) struct inspector *inspector = NULL;
        const struct inspect_question question = { .target = target };
        int r = inspector_new(box->options, NULL, &inspector, err);

        if (r < 0)
                return r;

        if (inspect_is_path(target))
                return inspect_path(inspector, target, verdict, err);

        return inspect_host(inspector, &question, verdict, err);
}

static void emit_verdict(struct emit *json, const struct inspect_verdict *verdict) {
        emit_put_bool(json, "allowed", verdict->allowed);
        emit_put_text(json, "target", verdict->target);
        emit_put_text(json, "decision", verdict->decision);
        emit_put_text(json, "reason", verdict->reason);
        emit_put_text(json, "rule", verdict->rule);
        emit_put_text(json, "because", verdict->because);
        emit_put_text(json, "why", verdict->text);
        emit_put_text(json, "change", verdict->change);
}

static int tool_why(struct mcp_toolbox *box, const struct node *arguments, struct buf *ret, bool *ret_failed,
                    struct err *err) {
        cleanup(inspect_verdict_done) struct inspect_verdict verdict = { 0 };
        struct emit j = emit_to(ret);
        const char *target;
        int r = only_keys(arguments, (const char *const[]){ "target", NULL }, err);

        if (r >= 0)
                r = need_text(arguments, "target", &target, err);
        if (r < 0)
                return r;

        r = look_up(box, target, &verdict, err);
        if (r < 0 && !box->inside) {
                *ret_failed = true;
                return tools_say(ret, "failed", err_text(err));
        }

        emit_open(&j, '{');

        if (r == 0)
                emit_verdict(&j, &verdict);
        else /* a person's own policy is hidden in here */
                emit_put_text(&j, "why",
                              inspect_is_path(target) ? "the policy cannot be seen from inside; this is what holds here"
                                                      : "the policy cannot be seen from inside: request_access "
                                                        "asks the gateway, which knows it");

        if (box->inside && inspect_is_path(target)) { /* what holds here and now */
                emit_put_bool(&j, "readable_here", access(target, R_OK) == 0);
                emit_put_bool(&j, "writable_here", access(target, W_OK) == 0);
        }

        emit_close(&j);
        if (emit_status(&j) < 0)
                return -ENOMEM;

        return 0;
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

static int64_t now_ms(void) {
        struct timespec timespec;
        clock_gettime(CLOCK_MONOTONIC, &timespec);
        return (int64_t)timespec.tv_sec * 1000 + timespec.tv_nsec / 1000000;
}

/* What it prints, until its end or the limit of time; *ret_status as wait() gives it. */
static int tools_collect(int fd, pid_t child, int64_t until, struct buf *into, int *ret_status, bool *ret_late) {
        char bytes[16384];

        for (;;) {
                struct pollfd pollfd = { .fd = fd, .events = POLLIN };
                int64_t left = until - now_ms();
                int n = 0;

                if (left > 0)
                        n = poll(&pollfd, 1, (int)left);

                if (n < 0 && errno == EINTR)
                        continue;

                if (n <= 0) {
                        *ret_late = true;
                        kill(child, SIGTERM);
                        break;
                }

                ssize_t got = read(fd, bytes, sizeof bytes);
                if (got <= 0)
                        break;

                if (buf_append(into, str_n(bytes, (size_t)got)) < 0) {
                        kill(child, SIGTERM);
                        break;
                }
        }

        while (waitpid(child, ret_status, 0) < 0 && errno == EINTR)
                ;

        return 0;
}

static int spawn_self(struct mcp_toolbox *box, char *const *argv, int *ret_fd, pid_t *ret_child, struct err *err) {
        int pipe_fds[2];

        if (pipe2(pipe_fds, O_CLOEXEC) < 0)
                return err_errno(err, "no pipe");

        cleanup(close_fd) int from = pipe_fds[0], to = pipe_fds[1];
        const struct spawn spawn = { .program = box->program,
                                     .argv = argv,
                                     .environment = environ,
                                     .input = SPAWN_NULL,
                                     .output = to,
                                     .errors = SPAWN_KEEP };
        int r = spawn_start(&spawn, ret_child, err);
        if (r < 0)
                return r;

        *ret_fd = from;
        from = -1;
        return 0;
}

/* The words of a command line. */
typedef VEC(char *) tool_words;

static void tool_words_done(tool_words *words) {
        for (size_t i = 0; i < words->n; i++)
                free(words->p[i]);
        vec_done(words);
}

/* NULL ends them. */
static int add_words(tool_words *words, const char *const *more, size_t n) {
        for (size_t i = 0; i < n; i++) {
                char *copy = more[i] ? str_dup(str_of(more[i])) : NULL;

                if ((more[i] && !copy) || vec_push(words, copy) < 0) {
                        free(copy);
                        return -ENOMEM;
                }
        }

        return 0;
}
#define ADD_WORDS(words, ...)                                                                                          \
        add_words(words, (const char *const[]){ __VA_ARGS__ },                                                         \
                  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* What the server was told on its command line holds for what it starts. Variables are handed on as they are. */
static int add_policy_options(const struct mcp_toolbox *box, tool_words *words) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < box->options->values.n; i++) {
                const struct option_value *value = &box->options->values.p[i];
                const struct option *option = value->option;
                bool of_policy =
                    option >= policy_table_general.rows && option < policy_table_general.rows + policy_table_general.n;

                if (!of_policy || !option->flag || value->origin[0] != '-')
                        continue;

                cleanup(free_ptr) char *word = NULL;
                if (option->type == OPTION_FLAG)
                        word = str_format("--%s%s", strcmp(value->text, "true") == 0 ? "" : "no-", option->flag);
                else
                        word = str_format("--%s=%s", option->flag, value->text);

                r = word ? ADD_WORDS(words, word) : -ENOMEM;
        }

        return r;
}

/* Here, by request_access: what is remembered, bailey exec finds by itself. */
static bool was_agreed(const struct mcp_toolbox *box, const char *command) {
        for (size_t i = 0; i < box->agreed.n; i++)
                if (strcmp(box->agreed.p[i], command) == 0)
                        return true;
        return false;
}

static void keep_agreed(struct mcp_toolbox *box, const char *command) {
        cleanup(free_ptr) char *copy = str_dup(str_of(command));

        if (copy && box->agreed.n < AGREED_MAX && !was_agreed(box, command) && vec_push(&box->agreed, copy) == 0)
                (void)take_ptr(&copy);
}

static int run_words(const struct mcp_toolbox *box, const char *command, unsigned seconds, tool_words *words) {
        char limit[32];
        int r;

        snprintf(limit, sizeof limit, "%us", seconds);
        r = ADD_WORDS(words, "bailey", "exec", "--json", "--output-limit", "256KiB", "--timeout", limit);
        if (r == 0)
                r = add_policy_options(box, words);
        if (r == 0 && was_agreed(box, command))
                r = ADD_WORDS(words, "--approved");
        if (r == 0)
                r = ADD_WORDS(words, "--", command, NULL);

        return r;
}

static int tool_run(struct mcp_toolbox *box, const struct node *arguments, struct buf *ret, bool *ret_failed,
                    struct err *err) {
        unsigned seconds = RUN_SECONDS;
        cleanup(tool_words_done) tool_words words = { 0 };
        const char *command;
        int status = 0, r = only_keys(arguments, (const char *const[]){ "command", "timeout_seconds", NULL }, err);
        bool late = false;
        pid_t child;

        if (r >= 0)
                r = need_text(arguments, "command", &command, err);
        if (r >= 0)
                r = take_seconds(arguments, 3600, &seconds, err);
        if (r < 0)
                return r;

        if (box->inside) {
                *ret_failed = true;
                return tools_say(ret, "inside",
                                 "this agent runs in a sandbox already: use its own tool to run the command");
        }

        if (run_words(box, command, seconds, &words) < 0)
                return err_memory(err);

        cleanup(close_fd) int fd = -1;
        r = spawn_self(box, words.p, &fd, &child, err);
        if (r < 0) {
                *ret_failed = true;
                return tools_say(ret, "failed", err_text(err));
        }

        cleanup(buf_done) struct buf output = BUF(OUTPUT_MAX);
        tools_collect(fd, child, now_ms() + (int64_t)seconds * 1000 + 200000, &output, &status, &late);
        struct str said = str_trim(buf_str(&output));
        while (said.n && said.p[said.n - 1] == '\n')
                said = str_first(said, said.n - 1);

        *ret_failed = status != 0;
        if (said.n < 2 || said.p[0] != '{' || said.p[said.n - 1] != '}')
                return tools_say(ret, "failed", late ? "it did not end" : "bailey exec said nothing; see its messages");

        if (buf_append(ret, said) < 0)
                return -ENOMEM;

        return 0;
}

/* --- request_access ----------------------------------------------------------------------------------------------- */

static int say_answered(struct buf *ret, const struct mcp_question *question, const struct mcp_answered *said,
                        const char *agreed, bool *ret_failed) {
        static const char *const outcomes[] = { "allowed", "refused", "unanswered" };
        const char *const texts[] = { agreed,
                                      question->wants ? "it is refused: by a person, or since nobody may be asked here"
                                                      : "the host is refused",
                                      "nobody answered in time; the question may still be open" };
        struct emit j = emit_to(ret);

        *ret_failed = said->what != MCP_ALLOWED;
        emit_open(&j, '{');
        emit_put_text(&j, "outcome", outcomes[said->what]);
        if (question->wants)
                emit_put_text(&j, "asked", question->wants);
        else
                emit_put_text(&j, "host", question->target);
        emit_put_text(&j, "text", texts[said->what]);

        if (!question->wants)
                emit_put_text(&j, "gateway", said->what == MCP_ALLOWED ? NULL : said->text);

        emit_close(&j);
        if (emit_status(&j) < 0)
                return -ENOMEM;

        return 0;
}

/* Outside of a sandbox there is no gateway to ask: a small sandbox is made for the question. */
static int ask_from_outside(struct mcp_toolbox *box, const struct mcp_question *question, struct mcp_answered *said,
                            struct err *err) {
        cleanup(buf_done) struct buf output = BUF(TEXT_MAX);
        cleanup(tool_words_done) tool_words words = { 0 };
        cleanup(close_fd) int fd = -1;
        bool late = false;
        int status = 0;
        pid_t child = -1;
        char limit[32];
        int r;

        snprintf(limit, sizeof limit, "%u", question->timeout_seconds);
        r = ADD_WORDS(&words, "bailey", "run");
        if (r == 0)
                r = add_policy_options(box, &words);
        if (r == 0) /* the program may lie where a sandbox does not look: below /tmp, in a home */
                r = ADD_WORDS(&words, "--read", box->program, "--", box->program, "mcp", "--wait", limit, "--reason",
                              text_or(question->reason, ""), question->wants ? "--want" : "--ask",
                              text_or(question->wants, question->target), NULL);
        if (r < 0)
                return err_memory(err);

        r = spawn_self(box, words.p, &fd, &child, err);
        if (r < 0)
                return r;

        tools_collect(fd, child, now_ms() + (int64_t)(question->timeout_seconds + 10) * 1000, &output, &status, &late);
        said->what = MCP_UNANSWERED;
        if (!late && WIFEXITED(status) && WEXITSTATUS(status) <= MCP_UNANSWERED)
                said->what = (enum mcp_asked)WEXITSTATUS(status);

        snprintf(said->text, sizeof said->text, "%.*s", STR_FMT(str_first(buf_str(&output), 900)));
        return 0;
}

static int ask_person(struct mcp_toolbox *box, const struct mcp_question *question, struct mcp_answered *said,
                      struct err *err) {
        return box->inside ? mcp_ask(question, said, err) : ask_from_outside(box, question, said, err);
}

static int say_failed(struct buf *ret, const struct err *why, bool *ret_failed) {
        *ret_failed = true;
        return tools_say(ret, "failed", err_text(why));
}

static int access_host(struct mcp_toolbox *box, const char *host, const struct mcp_question *question, struct buf *ret,
                       bool *ret_failed, struct err *err) {
        struct mcp_question about_host = *question;
        struct mcp_answered said = { 0 };
        char target[300];

        if (!mcp_target(str_of(host), target, sizeof target))
                return err_set(err, EINVAL, "host must be HOST or HOST:PORT, without a scheme");

        about_host.target = target;
        if (ask_person(box, &about_host, &said, err) < 0)
                return say_failed(ret, err, ret_failed);

        return say_answered(ret, &about_host, &said, "the host may be reached", ret_failed);
}

static int absolute_path(const char *path, char **ret, struct err *err) {
        cleanup(free_ptr) char *here = realpath(".", NULL), *expanded = NULL;
        int r = here ? path_expand_home(str_of(path), getenv("HOME"), &expanded) : -errno;

        if (r >= 0)
                r = path_normalise(str_of(expanded), here, ret);
        if (r < 0)
                return err_set(err, EINVAL, "'%s' is not a path", path);

        return 0;
}

/* By the policy as it is now; what was remembered meanwhile is part of it. */
static bool path_is_open_outside(struct mcp_toolbox *box, const char *path, bool write) {
        cleanup(inspect_verdict_done) struct inspect_verdict verdict = { 0 };
        struct err unseen = { 0 };

        return look_up(box, path, &verdict, &unseen) == 0 && verdict.allowed &&
               (!write || strcmp(verdict.decision, "write") == 0);
}

/* Most paths are opened in the sandbox that runs. Others are remembered for the next one, or reported as an option. */
static bool path_is_open_here(const char *path, bool write) {
        return access(path, write ? W_OK : R_OK) == 0;
}

static char *path_agreed(struct mcp_toolbox *box, const struct mcp_question *question, const char *path, bool write) {
        bool kept = box->inside ? mcp_agreed(question->wants) : path_is_open_outside(box, path, write);

        if (box->inside && path_is_open_here(path, write))
                return str_format("a person agreed: the path is open%s",
                                  kept ? ", and in later runs too" : ", in this run");

        if (kept && !box->inside)
                return str_format("a person agreed, and it is remembered: commands that run from now on have it");

        if (kept)
                return str_format("a person agreed, and it is remembered: the next run has it. In this run the path "
                                  "stays closed: it cannot be opened while a sandbox runs");

        return str_format(
            "a person agreed, but it is not remembered, and in this run the path stays closed: it cannot be "
            "opened while a sandbox runs. A new start needs --%s",
            question->wants);
}

static int access_path(struct mcp_toolbox *box, const char *path, bool write, struct mcp_question *question,
                       struct buf *ret, bool *ret_failed, struct err *err) {
        cleanup(free_ptr) char *whole = NULL, *wants = NULL, *agreed = NULL;
        struct mcp_answered said = { 0 };

        if (!inspect_is_path(path))
                return err_set(err, EINVAL, "path must have a slash in it");

        int r = absolute_path(path, &whole, err);
        if (r < 0)
                return r;
        if (box->inside ? path_is_open_here(whole, write) : path_is_open_outside(box, whole, write))
                return tools_say(ret, "allowed", "nobody has to be asked: the path is open");

        wants = str_format("%s %s", write ? "write" : "read", whole);
        if (!wants)
                return -ENOMEM;

        question->wants = wants;
        if (ask_person(box, question, &said, err) < 0)
                return say_failed(ret, err, ret_failed);
        if (said.what == MCP_ALLOWED && !(agreed = path_agreed(box, question, whole, write)))
                return -ENOMEM;

        return say_answered(ret, question, &said, agreed, ret_failed);
}

static int ask_for_command(struct mcp_toolbox *box, const char *command, struct mcp_question *question, struct buf *ret,
                           bool *ret_failed, struct err *err) {
        cleanup(free_ptr) char *wants = str_format("run %s", command);
        struct mcp_answered said = { 0 };

        if (!wants)
                return -ENOMEM;

        question->wants = wants;
        if (ask_person(box, question, &said, err) < 0)
                return say_failed(ret, err, ret_failed);
        if (said.what == MCP_ALLOWED)
                keep_agreed(box, command);

        return say_answered(ret, question, &said, "a person agreed to this very command: run it; it is not asked again",
                            ret_failed);
}

static int access_command(struct mcp_toolbox *box, const char *command, struct mcp_question *question, struct buf *ret,
                          bool *ret_failed, struct err *err) {
        cleanup(check_verdict_done) struct check_verdict verdict = { 0 };
        struct emit j = emit_to(ret);

        if (check_text(box, command, &verdict, err) < 0)
                return say_failed(ret, err, ret_failed);
        if (verdict.decision == CHECK_ESCALATED && !verdict.agreed && !was_agreed(box, command))
                return ask_for_command(box, command, question, ret, ret_failed, err);

        *ret_failed = verdict.decision == CHECK_FORBIDDEN;
        emit_open(&j, '{');
        emit_put_text(&j, "outcome", *ret_failed ? "refused" : "allowed");
        emit_put_text(&j, "decision", verdict.name);
        emit_put_text(&j, "rule", *verdict.rule ? verdict.rule : NULL);
        emit_put_text(&j, "reason", verdict.reason);
        emit_put_text(&j, "text",
                      *ret_failed ? "it is never run, and nobody is asked" : "nobody has to be asked: run it");
        emit_close(&j);

        if (emit_status(&j) < 0)
                return -ENOMEM;

        return 0;
}

static int tool_request(struct mcp_toolbox *box, const struct node *arguments, struct buf *ret, bool *ret_failed,
                        struct err *err) {
        static const char *const keys[] = { "host", "path", "access", "command", "reason", "timeout_seconds", NULL };
        const char *host, *path, *access, *command;
        struct mcp_question question = { .timeout_seconds = ASK_SECONDS };
        int r = only_keys(arguments, keys, err);

        if (r >= 0)
                r = need_text(arguments, "reason", &question.reason, err);
        if (r >= 0)
                r = take_text(arguments, "host", &host, err);
        if (r >= 0)
                r = take_text(arguments, "path", &path, err);
        if (r >= 0)
                r = take_text(arguments, "access", &access, err);
        if (r >= 0)
                r = take_text(arguments, "command", &command, err);
        if (r >= 0)
                r = take_seconds(arguments, 600, &question.timeout_seconds, err);
        if (r < 0)
                return r;
        if (!!host + !!path + !!command != 1)
                return err_set(err, EINVAL, "exactly one of host, path and command must be there");

        bool write = access && strcmp(access, "write") == 0;
        if (access && (!path || (!write && strcmp(access, "read") != 0)))
                return err_set(err, EINVAL, "access is read or write, and goes with a path");
        if (host)
                return access_host(box, host, &question, ret, ret_failed, err);
        if (path)
                return access_path(box, path, write, &question, ret, ret_failed, err);

        return access_command(box, command, &question, ret, ret_failed, err);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static int call_tool(void *arg, struct str name, const struct node *arguments, struct buf *ret, bool *ret_failed,
                     struct err *err) {
        static const struct {
                const char *name;
                int (*call)(struct mcp_toolbox *box, const struct node *arguments, struct buf *ret, bool *ret_failed,
                            struct err *err);
        } tools[] = {
                { "run", tool_run }, { "check", tool_check }, { "why", tool_why }, { "request_access", tool_request }
        };

        for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++)
                if (str_is(name, tools[i].name))
                        return tools[i].call(arg, arguments, ret, ret_failed, err);

        return -ENOENT;
}

void mcp_toolbox_done(struct mcp_toolbox *box) {
        for (size_t i = 0; i < box->agreed.n; i++)
                free(box->agreed.p[i]);
        vec_done(&box->agreed);
}

struct mcp_tools mcp_tools(struct mcp_toolbox *box) {
        return (struct mcp_tools){ .call = call_tool, .arg = box };
}
