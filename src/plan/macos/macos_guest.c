/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/macos/macos_guest.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define DSCL "/usr/bin/dscl"
#define DSEDITGROUP "/usr/sbin/dseditgroup"
#define PFCTL "/sbin/pfctl"
#define NAME_PREFIX "_bailey_"

void guest_plan_free(struct guest_plan *plan) {
        if (!plan)
                return;
        for (size_t i = 0; i < plan->strings.n; i++)
                free(plan->strings.p[i]);
        vec_done(&plan->strings);
        vec_done(&plan->steps);
        free(plan);
}

void guest_plan_freep(struct guest_plan **plan) {
        guest_plan_free(*plan);
}

static const char *plan_text(struct guest_plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *plan_text(struct guest_plan *plan, const char *format, ...) {
        char *text = NULL;
        va_list args;

        va_start(args, format);
        int n = vasprintf(&text, format, args);
        va_end(args);

        if (n >= 0 && vec_push(&plan->strings, text) == 0)
                return text;

        free(n >= 0 ? text : NULL);
        return NULL;
}

static bool is_name(const char *text, size_t most) {
        size_t n = text ? strlen(text) : 0;

        for (size_t i = 0; i < n; i++)
                if (!ascii_is_alnum(text[i]) && text[i] != '-' && text[i] != '_')
                        return false;
        return n > 0 && n <= most && text[0] != '-';
}

/* One word of a line in sudoers, which means itself. */
static bool is_launcher(const char *path) {
        return path[0] == '/' && !strpbrk(path, " \t\n,:=\\!*?[]\"'#");
}

static int check_request(const struct guest_request *request, struct err *err) {
        if (!is_name(request->name, 20))
                return err_set(err, EINVAL, "a guest's name has letters, digits, '-' and '_', at most 20");
        if (!is_name(request->user, 64))
                return err_set(err, EINVAL, "the user's name has a character that is not accepted here");

        if (request->uid < GUEST_ID_FIRST || request->uid > GUEST_ID_LAST || request->gid < GUEST_ID_FIRST ||
            request->gid > GUEST_ID_LAST)
                return err_set(err, EINVAL, "the numbers of a guest lie between %d and %d", GUEST_ID_FIRST,
                               GUEST_ID_LAST);

        if (request->launcher && !is_launcher(request->launcher))
                return err_set(err, EINVAL, "%s cannot be named in a line of sudoers", request->launcher);

        return 0;
}

/* What every step names. */
struct names {
        const char *account, *user_record, *group_record, *home, *uid, *gid, *anchor, *rules, *sudo_draft, *sudo_file;
};

static int make_names(struct guest_plan *plan, const struct guest_request *request, struct names *ret) {
        *ret = (struct names){
                .account = plan_text(plan, NAME_PREFIX "%s", request->name),
                .user_record = plan_text(plan, "/Users/" NAME_PREFIX "%s", request->name),
                .group_record = plan_text(plan, "/Groups/" NAME_PREFIX "%s", request->name),
                .home = plan_text(plan, "/Users/" NAME_PREFIX "%s", request->name),
                .uid = plan_text(plan, "%u", request->uid),
                .gid = plan_text(plan, "%u", request->gid),
                .anchor = plan_text(plan, "com.apple/bailey.%u", request->uid),
                .rules = plan_text(plan, "/var/db/bailey/pf.%u.conf", request->uid),
                .sudo_draft = plan_text(plan, "/var/db/bailey/sudoers.%u", request->uid),
                .sudo_file = plan_text(plan, "/private/etc/sudoers.d/bailey_%s", request->name),
        };

        return ret->account && ret->user_record && ret->group_record && ret->home && ret->uid && ret->gid &&
                       ret->anchor && ret->rules && ret->sudo_draft && ret->sudo_file
                   ? 0
                   : -ENOMEM;
}

static int add_step(struct guest_plan *plan, struct guest_step step) {
        return vec_push(&plan->steps, step);
}

/* One attribute of a record. The record itself is undone by the step that made it. */
static int add_attribute(struct guest_plan *plan, const char *record, const char *key, const char *value) {
        return add_step(plan, (struct guest_step){ .words = { DSCL, ".", "-create", record, key, value },
                                                   .what = "describe the account" });
}

static int add_group(struct guest_plan *plan, const struct names *names) {
        int r = add_step(plan, (struct guest_step){ .words = { DSCL, ".", "-create", names->group_record },
                                                    .undo = { DSCL, ".", "-delete", names->group_record },
                                                    .what = "make the group" });

        return r == 0 ? add_attribute(plan, names->group_record, "PrimaryGroupID", names->gid) : r;
}

/* Without a password nobody signs in as it; IsHidden keeps it off the login window. */
static int add_account(struct guest_plan *plan, const struct names *names) {
        const char *const attributes[][2] = {
                { "UniqueID", names->uid },  { "PrimaryGroupID", names->gid }, { "NFSHomeDirectory", names->home },
                { "UserShell", "/bin/zsh" }, { "RealName", "Bailey's guest" }, { "Password", "*" },
                { "IsHidden", "1" },
        };
        int r = add_step(plan, (struct guest_step){ .words = { DSCL, ".", "-create", names->user_record },
                                                    .undo = { DSCL, ".", "-delete", names->user_record },
                                                    .what = "make the account" });

        for (size_t i = 0; i < sizeof attributes / sizeof *attributes && r == 0; i++)
                r = add_attribute(plan, names->user_record, attributes[i][0], attributes[i][1]);

        /* Being in the group by number alone fails checks of access lists. */
        if (r == 0)
                r = add_step(plan, (struct guest_step){ .words = { DSEDITGROUP, "-o", "edit", "-a", names->account,
                                                                   "-t", "user", names->account },
                                                        .what = "join its own group" });

        if (r == 0)
                r = add_step(plan, (struct guest_step){ .words = { DSEDITGROUP, "-o", "edit", "-d", names->account,
                                                                   "-t", "user", "staff" },
                                                        .what = "leave the group of all users",
                                                        .may_fail = true });

        return r;
}

/* The whole set is written: on a directory, `write` would give no right to delete. */
static int add_home(struct guest_plan *plan, const struct guest_request *request, const struct names *names) {
        const char *owner = plan_text(plan, "%u:%u", request->uid, request->gid);
        const char *entry = plan_text(plan,
                                      "user:%s allow list,add_file,search,delete,add_subdirectory,delete_child,"
                                      "readattr,writeattr,readextattr,writeextattr,readsecurity,read,write,append,"
                                      "execute,file_inherit,directory_inherit",
                                      request->user);

        if (!owner || !entry)
                return -ENOMEM;

        int r = add_step(plan, (struct guest_step){ .words = { "/bin/mkdir", "-m", "0700", names->home },
                                                    .undo = { "/bin/rm", "-rf", names->home },
                                                    .what = "make the home" });
        if (r == 0)
                r = add_step(plan, (struct guest_step){ .words = { "/usr/sbin/chown", owner, names->home },
                                                        .what = "give it the home" });

        return r == 0 ? add_step(plan, (struct guest_step){ .words = { "/bin/chmod", "+a#", "0", entry, names->home },
                                                            .what = "let the user into the home" })
                      : r;
}

int guest_pf_rules(const struct guest_request *request, struct buf *out) {
        bool gateway = request->ports[0] || request->ports[1] || request->ports[2];
        int r = buf_printf(out, "# Bailey: the guest %s reaches %s.\n", request->name,
                           gateway ? "the gateway on loopback and nothing else" : "nothing");

        for (size_t i = 0; i < 3 && r == 0; i++)
                if (request->ports[i])
                        r = buf_printf(out,
                                       "pass out quick on lo0 inet proto tcp from any to 127.0.0.1 port %u user %u "
                                       "keep state\n",
                                       request->ports[i], request->uid);

        return r == 0 ? buf_printf(out,
                                   "block return out log quick inet proto { tcp, udp } from any to any user %u\n"
                                   "block return out log quick inet6 proto { tcp, udp } from any to any user %u\n",
                                   request->uid, request->uid)
                      : r;
}

/* -E counts who wants pf on, and prints a token for -X; -e would leave it on or take it from others. */
static int add_firewall(struct guest_plan *plan, const struct guest_request *request, const struct names *names) {
        cleanup(buf_done) struct buf rules = BUF(8192);

        if (guest_pf_rules(request, &rules) < 0)
                return -ENOMEM;

        const char *content = plan_text(plan, "%.*s", STR_FMT(buf_str(&rules)));
        int r = content
                    ? add_step(plan, (struct guest_step){ .words = { PFCTL, "-a", names->anchor, "-f", names->rules },
                                                          .undo = { PFCTL, "-a", names->anchor, "-F", "all" },
                                                          .file = names->rules,
                                                          .content = content,
                                                          .what = "load its rules of the firewall" })
                    : -ENOMEM;

        return r == 0 ? add_step(plan, (struct guest_step){ .words = { PFCTL, "-E" }, .what = "want the firewall on" })
                      : r;
}

/* A file there that sudo cannot read would shut everybody out: visudo reads the draft first. */
static int add_sudoers(struct guest_plan *plan, const struct guest_request *request, const struct names *names) {
        cleanup(buf_done) struct buf lines = BUF(8192);

        if (!request->launcher)
                return 0;
        if (guest_sudoers(request, request->launcher, &lines) < 0)
                return -ENOMEM;

        const char *content = plan_text(plan, "%.*s", STR_FMT(buf_str(&lines)));
        if (!content)
                return -ENOMEM;

        int r = add_step(plan, (struct guest_step){ .words = { "/usr/sbin/visudo", "-c", "-f", names->sudo_draft },
                                                    .file = names->sudo_draft,
                                                    .content = content,
                                                    .what = "see that sudo understands its lines" });
        if (r < 0)
                return r;

        return add_step(plan, (struct guest_step){ .words = { "/usr/bin/install", "-m", "0440", "-o", "root", "-g",
                                                              "wheel", names->sudo_draft, names->sudo_file },
                                                   .undo = { "/bin/rm", "-f", names->sudo_file },
                                                   .what = "let the user start programs as the guest" });
}

static int plan_new(const struct guest_request *request, struct guest_plan **ret, struct names *names,
                    struct err *err) {
        int r = check_request(request, err);

        if (r < 0)
                return r;
        *ret = calloc(1, sizeof **ret);
        return *ret ? make_names(*ret, request, names) : -ENOMEM;
}

int guest_plan_create(const struct guest_request *request, struct guest_plan **ret, struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        struct names names;
        int r = plan_new(request, &plan, &names, err);

        if (r == 0)
                r = add_group(plan, &names);
        if (r == 0)
                r = add_account(plan, &names);
        if (r == 0)
                r = add_home(plan, request, &names);
        if (r == 0)
                r = add_firewall(plan, request, &names);
        if (r == 0)
                r = add_sudoers(plan, request, &names);

        if (r == 0)
                r = add_step(plan, (struct guest_step){ .words = { "/usr/bin/id", "-u", names.account },
                                                        .what = "see that the system knows it" });

        if (r == -ENOMEM)
                return err_memory(err);
        if (r == 0)
                *ret = take_ptr(&plan);

        return r;
}

int guest_plan_firewall(const struct guest_request *request, struct guest_plan **ret, struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        struct names names;
        int r = plan_new(request, &plan, &names, err);

        if (r == 0)
                r = add_firewall(plan, request, &names);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r == 0)
                *ret = take_ptr(&plan);

        return r;
}

/* Everything is tried, so that half a guest can be removed as well. */
int guest_plan_delete(const struct guest_request *request, struct guest_plan **ret, struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        struct names names;
        int r = plan_new(request, &plan, &names, err);
        const char *domain = r == 0 ? plan_text(plan, "user/%u", request->uid) : NULL;

        if (r == 0 && !domain)
                r = -ENOMEM;

        const struct guest_step steps[] = {
                { .words = { "/bin/rm", "-f", names.sudo_file, names.sudo_draft },
                  .what = "let nobody start programs as the guest" },
                { .words = { "/bin/launchctl", "bootout", domain }, .what = "end its services", .may_fail = true },
                { .words = { "/usr/bin/pkill", "-KILL", "-U", names.uid },
                  .what = "end its processes",
                  .may_fail = true },
                { .words = { PFCTL, "-a", names.anchor, "-F", "all" }, .what = "drop its rules of the firewall" },
                { .words = { "/bin/rm", "-f", names.rules }, .what = "remove their file" },
                { .words = { DSCL, ".", "-delete", names.user_record }, .what = "remove the account" },
                { .words = { DSCL, ".", "-delete", names.group_record }, .what = "remove the group" },
                { .words = { "/bin/rm", "-rf", names.home }, .what = "remove the home" },
        };
        for (size_t i = 0; i < sizeof steps / sizeof *steps && r == 0; i++)
                r = add_step(plan, steps[i]);

        if (r == -ENOMEM)
                return err_memory(err);
        if (r == 0)
                *ret = take_ptr(&plan);

        return r;
}

/* --- texts --- */

static int add_word(struct buf *out, const char *word) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:#";
        bool quoted = !*word || word[strspn(word, plain)] != '\0' || word[0] == '#';
        int r = quoted ? buf_add_char(out, '\'') : 0;

        for (const char *c = word; *c && r == 0; c++)
                r = *c == '\'' ? buf_add(out, "'\\''") : buf_add_char(out, *c);
        return r == 0 && quoted ? buf_add_char(out, '\'') : r;
}

static int add_line(struct buf *out, const char *before, const char *const *words) {
        int r = words[0] ? buf_add(out, before) : 0;

        for (size_t i = 0; words[i] && r == 0; i++) {
                r = buf_add(out, i ? " " : "");
                if (r == 0)
                        r = add_word(out, words[i]);
        }

        return r == 0 && words[0] ? buf_add_char(out, '\n') : r;
}

int guest_plan_text(const struct guest_plan *plan, struct buf *out) {
        int r = 0;

        for (size_t i = 0; i < plan->steps.n && r == 0; i++) {
                const struct guest_step *step = &plan->steps.p[i];

                r = buf_printf(out, "# %s%s\n", step->what, step->may_fail ? " (may fail)" : "");
                if (r == 0 && step->file)
                        r = buf_printf(out, "cat > %s <<'END'\n%sEND\n", step->file, step->content);
                if (r == 0)
                        r = add_line(out, "", step->words);
                if (r == 0)
                        r = add_line(out, "#   undone by: ", step->undo);
        }

        return r;
}

/* The anchor's name is com.apple/bailey.N: the system's own file evaluates com.apple/... unless somebody changed it. */
bool guest_pf_conf_has_anchor(struct str conf) {
        struct str line;

        while (str_split(&conf, '\n', &line)) {
                line = str_trim(line);
                if (str_starts(line, STR("anchor \"com.apple/*\"")))
                        return true;
        }

        return false;
}

int guest_sudoers(const struct guest_request *request, const char *launcher, struct buf *out) {
        if (!is_launcher(launcher))
                return -EINVAL;
        return buf_printf(out,
                          "%s ALL=(" NAME_PREFIX "%s) NOPASSWD: %s\n"
                          "%s ALL=(root) NOPASSWD: /bin/launchctl bootout user/%u\n",
                          request->user, request->name, launcher, request->user, request->uid);
}

/* Lines "name   501"; names and numbers only. */
unsigned guest_free_id(struct str listing) {
        bool taken[GUEST_ID_LAST + 1] = { false };
        struct str line;
        size_t lines = 0;

        while (str_split(&listing, '\n', &line)) {
                line = str_trim(line);
                if (line.n == 0)
                        continue;

                ptrdiff_t blank = str_rfind(line, ' ');
                struct str number = str_skip(line, blank < 0 ? 0 : (size_t)blank + 1);
                bool negative = number.n > 1 && number.p[0] == '-'; /* nobody is -2 */
                uint64_t id = 0;

                if (blank < 0 || !str_to_u64(negative ? str_skip(number, 1) : number, UINT32_MAX, &id))
                        return 0;
                if (!negative && id <= GUEST_ID_LAST)
                        taken[id] = true;

                lines++;
        }

        for (unsigned id = GUEST_ID_FIRST; lines > 0 && id <= GUEST_ID_LAST; id++)
                if (!taken[id])
                        return id;

        return 0;
}
