/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/account/guest_account.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/account.h"
#include "guest/account/firewall_reader.h"
#include "guest/account/guest_firewall.h"
#include "guest/account/guest_spools.h"
#include "guest/account/guest_subordinates.h"
#include "guest/account/guest_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ACCOUNT_PREFIX "bailey_"

/* Between the command and its helper. */
enum order_kind { ORDER_MAKE, ORDER_REMOVE, ORDER_PROTECT, ORDER_RULES };
struct order {
        enum order_kind kind;
        char id[GUEST_ID_LENGTH + 1];
        char directory[PATH_MAX]; /* of the guest; for ORDER_PROTECT */
};
struct answer {
        int result;
        uint32_t uid, gid;
        struct err err;
};

static bool id_is_good(const char *id) {
        for (size_t i = 0; i < GUEST_ID_LENGTH; i++)
                if (!ascii_is_alnum(id[i]))
                        return false;
        return id[GUEST_ID_LENGTH] == '\0';
}

void guest_account_name(const char *host, const char *id, char ret[static ACCOUNT_NAME_MAX]) {
        char short_host[13] = "";
        struct str shown = str_first(str_of(host), sizeof short_host - 1);

        for (size_t i = 0; i < shown.n; i++)
                short_host[i] = ascii_is_alnum(shown.p[i]) ? ascii_lower(shown.p[i]) : '-';
        snprintf(ret, ACCOUNT_NAME_MAX, ACCOUNT_PREFIX "%s_%.*s", short_host, GUEST_ID_LENGTH, id);
}

enum { COMMENT_MAX = ACCOUNT_TEXT_MAX + 32 };

/* Whose guest it is, by root's own word. The name of the account has only the first letters of it. */
static void guest_account_comment(const char *host, char ret[static COMMENT_MAX]) {
        snprintf(ret, COMMENT_MAX, "Bailey guest of %s", host);
}

static bool guest_account_look(const char *host, const char *id, uint32_t *ret_uid, uint32_t *ret_gid) {
        char name[ACCOUNT_NAME_MAX], comment[COMMENT_MAX];
        struct account account;

        guest_account_name(host, id, name);
        guest_account_comment(host, comment);
        if (!account_by_name(name, &account) || strcmp(account.comment, comment) != 0)
                return false;

        *ret_uid = account.uid;
        *ret_gid = account.gid;

        return true;
}

bool guest_account_find(const char *id, uint32_t *ret_uid, uint32_t *ret_gid) {
        struct account own = { 0 };

        (void)account_by_uid(geteuid(), &own); /* without one its name is empty */
        return guest_account_look(own.name, id, ret_uid, ret_gid);
}

bool guest_account_is_one(const char *name) {
        size_t n = strlen(name);

        return strncmp(name, ACCOUNT_PREFIX, strlen(ACCOUNT_PREFIX)) == 0 &&
               n > strlen(ACCOUNT_PREFIX) + GUEST_ID_LENGTH && name[n - GUEST_ID_LENGTH - 1] == '_' &&
               id_is_good(name + n - GUEST_ID_LENGTH);
}

/* Those of the package passwd. */
static int tool_run(char *const *argv, struct err *err) {
        return guest_tool_run(&(struct guest_tool){ .argv = argv, .package = "passwd" }, err);
}

static int account_make(const char *host, const char *id, uint32_t *ret_uid, uint32_t *ret_gid, struct err *err) {
        char name[ACCOUNT_NAME_MAX], comment[COMMENT_MAX];

        guest_account_name(host, id, name);
        guest_account_comment(host, comment);
        char *const argv[] = { (char *)"useradd",
                               (char *)"--no-create-home",
                               (char *)"--home-dir",
                               (char *)"/nonexistent",
                               (char *)"--shell",
                               (char *)"/usr/sbin/nologin",
                               (char *)"--user-group",
                               (char *)"--comment",
                               comment,
                               (char *)"--key",
                               (char *)"SUB_UID_COUNT=0",
                               (char *)"--key",
                               (char *)"SUB_GID_COUNT=0",
                               name,
                               NULL };

        if (!guest_account_look(host, id, ret_uid, ret_gid)) {
                int r = tool_run(argv, err);
                if (r < 0)
                        return r;
                if (!guest_account_look(host, id, ret_uid, ret_gid))
                        return err_set(err, EIO, "useradd made no account %s", name);
        }

        /* The rules first: from the moment on that the host user may become the guest, they hold. */
        int r = guest_firewall_load(err);
        if (r < 0)
                return r;

        return guest_subordinate_add(host, *ret_uid, *ret_gid, err);
}

/* The rules, and who reads what they log: in the guest's directory, as the host user. */
static int account_protect(const char *host, const char *id, const char *directory, struct err *err) {
        struct account account;
        uint32_t uid, gid;

        if (!guest_account_look(host, id, &uid, &gid))
                return err_set(err, ENOENT, "the guest's account is gone");
        if (!account_by_name(host, &account))
                return err_set(err, ENOENT, "there is no account %s", host);

        int r = guest_firewall_load(err);
        if (r < 0)
                return r;

        return firewall_reader_start(&account, uid, directory, err);
}

/* Where nft is not there, no rules are either. */
static int account_unload(struct err *err) {
        struct err why = { 0 };
        int r = guest_firewall_load(&why);

        if (r < 0 && r != -ENOENT)
                return err_set(err, -r, "%s", err_text(&why));

        return 0;
}

/* Whoever was killed in between may have left the rules alone. */
static int account_remove(const char *host, const char *id, struct err *err) {
        char name[ACCOUNT_NAME_MAX];
        uint32_t uid, gid;
        int r;

        guest_account_name(host, id, name);
        if (guest_account_look(host, id, &uid, &gid)) {
                char *const argv[] = { (char *)"userdel", (char *)"--force", name, NULL };

                r = guest_subordinate_remove(host, uid, gid, err);
                if (r < 0)
                        return r;
                r = guest_spools_clear(name, uid, err);
                if (r < 0)
                        return r;
                r = tool_run(argv, err);
                if (r < 0)
                        return r;
        }

        return account_unload(err);
}

/*
 * The helper.
 */
static _Noreturn void helper_main(int fd, const char *host) {
        struct order order;

        while (fd_read_exact(fd, &order, sizeof order) == 0) {
                struct answer answer = { 0 };

                if (!id_is_good(order.id))
                        answer.result = err_set(&answer.err, EINVAL, "this is no guest's id");
                else if (order.kind == ORDER_PROTECT)
                        answer.result = account_protect(host, order.id, order.directory, &answer.err);
                else if (order.kind == ORDER_RULES)
                        answer.result = guest_firewall_load(&answer.err);
                else if (order.kind == ORDER_REMOVE)
                        answer.result = account_remove(host, order.id, &answer.err);
                else
                        answer.result = account_make(host, order.id, &answer.uid, &answer.gid, &answer.err);

                if (fd_write_all(fd, &answer, sizeof answer) < 0)
                        break;
        }

        _exit(0);
}

/* For good: nothing of root's is left in this process. */
static int become_user(const struct account *account, struct err *err) {
        static const char *const others[] = { "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME" };

        int r = account_take_groups(account);
        if (r < 0)
                return err_set(err, -r, "cannot take the groups of %s: %s", account->name, strerror(-r));

        if (setresgid(account->gid, account->gid, account->gid) < 0 ||
            setresuid(account->uid, account->uid, account->uid) < 0)
                return err_errno(err, "cannot become %s", account->name);

        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                (void)unsetenv(others[i]);

        if (setenv("HOME", account->home, 1) < 0 || setenv("USER", account->name, 1) < 0 ||
            setenv("LOGNAME", account->name, 1) < 0)
                return err_errno(err, "cannot set the environment of %s", account->name);

        (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        return 0;
}

int guest_account_helper(int *ret_helper, struct err *err) {
        const char *text = getenv("SUDO_UID");
        uint64_t uid;
        int ends[2];

        *ret_helper = 0;
        if (geteuid() != 0 || !text || !str_to_u64(str_of(text), UINT32_MAX - 1, &uid) || uid == 0)
                return 0;

        struct account account;
        if (!account_by_uid((uid_t)uid, &account))
                return err_set(err, ENOENT, "SUDO_UID is %ju, and there is no such account", (uintmax_t)uid);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return err_errno(err, "cannot make a socket");

        cleanup(close_fd) int ours = ends[0], its = ends[1];
        pid_t pid = fork();
        if (pid < 0)
                return err_errno(err, "cannot make a process");

        if (pid == 0) {
                close_fd(&ours);
                helper_main(its, account.name);
        }

        int r = become_user(&account, err);
        if (r < 0)
                return r;

        *ret_helper = take_fd(&ours);
        return 0;
}

static int helper_ask(const struct guests *guests, enum order_kind kind, const char *id, const char *directory,
                      struct answer *answer, struct err *err) {
        struct order order = { .kind = kind };

        snprintf(order.id, sizeof order.id, "%s", id);
        snprintf(order.directory, sizeof order.directory, "%s", directory);

        if (fd_write_all(guests->helper, &order, sizeof order) < 0 ||
            fd_read_exact(guests->helper, answer, sizeof *answer) < 0)
                return err_set(err, EPIPE, "the helper with root's rights is gone");

        if (answer->result < 0)
                return err_set(err, -answer->result, "%s", err_text(&answer->err));

        return 0;
}

static int need_root(const char *what, struct err *err) {
        err_blame(err, ERR_REFUSED);
        return err_set(err, EPERM, "a guest's account can be %s by root alone: sudo bailey guest ...", what);
}

int guest_account_make(const struct guests *guests, const char *id, uint32_t *ret_uid, uint32_t *ret_gid,
                       struct err *err) {
        struct answer answer = { 0 };

        if (guests->helper) {
                int r = helper_ask(guests, ORDER_MAKE, id, "", &answer, err);

                *ret_uid = answer.uid;
                *ret_gid = answer.gid;
                return r;
        }

        if (geteuid() != 0)
                return need_root("made", err);

        return account_make("root", id, ret_uid, ret_gid, err);
}

int guest_account_remove(const struct guests *guests, const char *id, struct err *err) {
        struct answer answer = { 0 };
        uint32_t uid, gid;

        if (guests->helper)
                return helper_ask(guests, ORDER_REMOVE, id, "", &answer, err);
        if (geteuid() == 0)
                return account_remove("root", id, err);
        if (guest_account_find(id, &uid, &gid))
                return need_root("removed", err);

        return 0;
}

int guest_account_protect(const struct guests *guests, const struct guest *guest, struct err *err) {
        struct answer answer = { 0 };
        struct err ignored = { 0 };
        cleanup(close_fd) int watched = -1;

        if (!guests->helper && geteuid() != 0)
                return 0;

        /* A supervisor ends its guest when the reader ends, so one that works is left alone. */
        if (guest_is_running(guest) && firewall_reader_watch(guest, &watched, &ignored) == 0) {
                if (guests->helper)
                        return helper_ask(guests, ORDER_RULES, guest->row.id, "", &answer, err);
                return guest_firewall_load(err);
        }

        firewall_reader_stop(guest);
        if (guests->helper)
                return helper_ask(guests, ORDER_PROTECT, guest->row.id, guest->directory, &answer, err);
        return account_protect("root", guest->row.id, guest->directory, err);
}

const char *guest_account_problem(const struct guest *guest) {
        uint32_t uid, gid;

        if (guest->kind != GUEST_ACCOUNT)
                return NULL;
        if (!guest_account_find(guest->row.id, &uid, &gid))
                return "its account is gone";
        if (uid == guest->row.uid)
                return NULL;

        return "its account has another id";
}
