/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/darwin/darwin_guest.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PF_CONF_MAX = 256 << 10 };

char *guest_pf_token(struct str printed) {
        struct str line;

        while (str_split(&printed, '\n', &line)) {
                struct str text = str_trim(line);
                uint64_t number = 0;

                if (!str_starts(text, STR("Token : ")))
                        continue;

                text = str_trim(str_skip(text, 8));
                return str_to_u64(text, UINT64_MAX, &number) ? str_dup(text) : NULL;
        }

        return NULL;
}

/* For root alone, new: nobody else may have laid a link there. */
static int write_rules(const struct guest_world *world, const struct guest_step *step, struct err *err) {
        cleanup(free_ptr) char *path = str_format("%s%s", text_or(world->files, ""), step->file);
        cleanup(free_ptr) char *folder = path ? str_dup(str_of(path)) : NULL;
        size_t n = strlen(step->content), done = 0;

        if (!path || !folder)
                return err_memory(err);

        *strrchr(folder, '/') = '\0';
        (void)mkdir(folder, 0755); /* root's: who the guests are is no secret */
        (void)unlink(path);

        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_errno(err, "cannot write %s", path);

        while (done < n) {
                ssize_t written = write(fd, step->content + done, n - done);
                if (written <= 0)
                        break;
                done += (size_t)written;
        }

        int r = done < n ? err_errno(err, "cannot write %s", path) : 0;
        close(fd);

        return r;
}

static void remove_rules(const struct guest_world *world, const struct guest_step *step) {
        cleanup(free_ptr) char *path = str_format("%s%s", text_or(world->files, ""), step->file);

        if (path)
                (void)unlink(path);
}

/* Later errors do not matter: the first one is reported. */
static void guest_undo(const struct guest_world *world, const struct guest_plan *plan, size_t n) {
        while (n-- > 0) {
                const struct guest_step *step = &plan->steps.p[n];
                cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);

                if (step->undo[0])
                        (void)tool_run(&world->tool, step->undo, &out, NULL);
                if (step->file)
                        remove_rules(world, step);
        }
}

/* Without this line of the system's own file all rules of a guest would be ignored in silence. */
static int check_anchor(const struct guest_world *world, struct err *err) {
        static const char *const words[] = { "/bin/cat", "/etc/pf.conf", NULL };
        cleanup(buf_done) struct buf out = BUF(PF_CONF_MAX);
        int r = tool_run(&world->tool, words, &out, err);

        if (r < 0)
                return r;

        if (!guest_pf_conf_has_anchor(buf_str(&out)))
                return err_set(err, EOPNOTSUPP,
                               "/etc/pf.conf has no line `anchor \"com.apple/*\"`: the guest's firewall would be "
                               "ignored in silence; put the line back");

        return 0;
}

static int run_step(const struct guest_world *world, const struct guest_step *step, char **token, struct err *err) {
        cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);
        int r = step->file ? write_rules(world, step, err) : 0;

        if (r == 0)
                r = tool_run(&world->tool, step->words, &out, err);

        if (r == -EPROTO && memmem(text_or(out.p, ""), out.n, "eDSPermissionError", 18))
                r = err_set(err, EPERM,
                            "macOS refused to change the account (eDSPermissionError): give the terminal Full Disk "
                            "Access in the privacy settings and try again");

        if (r == 0 && !*token)
                *token = guest_pf_token(buf_str(&out));
        if (r < 0 && step->file)
                remove_rules(world, step);

        return r;
}

/* dscl changes a record that exists as gladly as it makes one, and undoing would then remove somebody's account. */
int guest_check_free(const struct guest_world *world, const struct guest_request *request, struct err *err) {
        static const char *const words[] = { "/usr/bin/dscl", ".", "-list", "/Users", "UniqueID", NULL };
        cleanup(free_ptr) char *account = str_format("_bailey_%s", request->name);
        cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);
        int r = account ? tool_run(&world->tool, words, &out, err) : -ENOMEM;
        struct str rest = buf_str(&out), line;
        size_t lines = 0;

        while (r == 0 && str_split(&rest, '\n', &line)) {
                ptrdiff_t blank = str_find(line, ' ');
                uint64_t uid = 0;

                if (blank < 0)
                        continue;

                lines++;
                bool taken =
                    str_to_u64(str_trim(str_skip(line, (size_t)blank)), UINT32_MAX, &uid) && uid == request->uid;
                if (taken || str_is(str_first(line, (size_t)blank), account))
                        r = err_set(err, EEXIST, "an account with the name %s or the number %u exists already", account,
                                    request->uid);
        }

        if (r == 0 && lines == 0)
                r = err_set(err, EPROTO, "dscl lists no accounts: it is not known which are taken");

        return r;
}

int guest_find_id(const struct guest_world *world, unsigned *ret, struct err *err) {
        static const char *const lists[][6] = { { "/usr/bin/dscl", ".", "-list", "/Users", "UniqueID", NULL },
                                                { "/usr/bin/dscl", ".", "-list", "/Groups", "PrimaryGroupID", NULL } };
        cleanup(buf_done) struct buf taken = BUF(2 * TOOL_OUTPUT_MAX);

        for (size_t i = 0; i < 2; i++) {
                cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);
                int r = tool_run(&world->tool, lists[i], &out, err);

                if (r == 0 && str_trim(buf_str(&out)).n == 0)
                        r = err_set(err, EPROTO, "dscl lists nothing in %s: it is not known which numbers are taken",
                                    lists[i][3]);
                if (r == 0 && (buf_append(&taken, buf_str(&out)) < 0 || buf_add_char(&taken, '\n') < 0))
                        r = err_memory(err);
                if (r < 0)
                        return r;
        }

        *ret = guest_free_id(buf_str(&taken));
        if (*ret == 0)
                return err_set(err, EPROTO, "no number between %d and %d is free, or dscl lists something else",
                               GUEST_ID_FIRST, GUEST_ID_LAST);
        return 0;
}

int guest_load_firewall(const struct guest_world *world, const struct guest_request *request, char **ret_token,
                        struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        cleanup(free_ptr) char *token = NULL;
        int r = guest_plan_firewall(request, &plan, err);

        if (r == 0)
                r = check_anchor(world, err);
        for (size_t i = 0; r == 0 && i < plan->steps.n; i++)
                r = run_step(world, &plan->steps.p[i], &token, err);
        if (r == 0 && !token)
                r = err_set(err, EPROTO, "pfctl -E gave no token: nobody could switch the firewall off again");
        if (r == 0)
                *ret_token = take_ptr(&token);
        return r;
}

/* dscl and id answer with status 0 for much; what `id` says is compared. */
static int check_known(const struct guest_world *world, const struct guest_request *request, struct err *err) {
        cleanup(free_ptr) char *account = str_format("_bailey_%s", request->name);
        const char *words[] = { "/usr/bin/id", "-u", account, NULL };
        cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);
        uint64_t uid = 0;
        int r = account ? tool_run(&world->tool, words, &out, err) : -ENOMEM;

        if (r < 0)
                return r;

        while (out.n > 0 && (out.p[out.n - 1] == '\n' || out.p[out.n - 1] == ' '))
                out.n--;

        if (!str_to_u64(buf_str(&out), UINT32_MAX, &uid) || uid != request->uid)
                return err_set(err, EPROTO, "the system does not know the account %s by the number %u", account,
                               request->uid);

        return 0;
}

int guest_create(const struct guest_world *world, const struct guest_request *request, char **ret_token,
                 struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        cleanup(free_ptr) char *token = NULL;
        int r = guest_plan_create(request, &plan, err);
        size_t done = 0;

        if (r == 0)
                r = check_anchor(world, err);
        if (r == 0)
                r = guest_check_free(world, request, err);
        if (r < 0)
                return r;

        for (; done < plan->steps.n && r == 0; done++) {
                r = run_step(world, &plan->steps.p[done], &token, plan->steps.p[done].may_fail ? NULL : err);
                if (r < 0 && plan->steps.p[done].may_fail)
                        r = 0;
        }

        if (r == -EPROTO)
                done--; /* it said no, and has done nothing: what is there was there before */
        if (r == 0)
                r = check_known(world, request, err);
        if (r == 0 && !token)
                r = err_set(err, EPROTO, "pfctl -E gave no token: nobody could switch the firewall off again");

        if (r < 0) {
                guest_undo(world, plan, done);
                return r;
        }

        *ret_token = take_ptr(&token);
        return 0;
}

int guest_delete(const struct guest_world *world, const struct guest_request *request, const char *token,
                 struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        const char *release[] = { "/sbin/pfctl", "-X", token, NULL };
        cleanup(buf_done) struct buf out = BUF(TOOL_OUTPUT_MAX);
        cleanup(free_ptr) char *ignored = NULL;
        int first = guest_plan_delete(request, &plan, err);

        if (first < 0)
                return first;

        for (size_t i = 0; i < plan->steps.n; i++) {
                const struct guest_step *step = &plan->steps.p[i];
                int r = run_step(world, step, &ignored, first == 0 && !step->may_fail ? err : NULL);

                if (r < 0 && !step->may_fail && first == 0)
                        first = r;
        }

        if (token) {
                int r = tool_run(&world->tool, release, &out, first == 0 ? err : NULL);
                if (first == 0)
                        first = r;
        }

        return first;
}
