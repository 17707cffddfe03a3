/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/macos/macos_guests.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "roles/helper.h"
#include "sandbox/darwin/darwin_guest.h"
#include "sandbox/darwin/os.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTES "/var/db/bailey"
#define NOTE_END ".guest"
enum { NOTE_MAX = 4096 };

static struct guest_world guests_world(void) {
        return (struct guest_world){ .tool = { .prefix = os_tools() }, .files = os_tools() };
}

static int need_root(struct err *err) {
        if (os_is_root())
                return 0;
        err_blame(err, ERR_REFUSED);
        return err_set(err, EPERM, "only root changes accounts and the firewall: use sudo");
}

/* --- notes --- */

static char *note_path(const char *name) {
        return str_format("%s" NOTES "/%s" NOTE_END, text_or(os_tools(), ""), name);
}

/* A name that could lead elsewhere belongs to no guest. */
static bool is_plain(const char *name) {
        size_t n = strlen(name);

        for (size_t i = 0; i < n; i++)
                if (!ascii_is_alnum(name[i]) && name[i] != '-' && name[i] != '_')
                        return false;
        return n > 0 && n < MACOS_GUEST_NAME_MAX;
}

static bool take_word(struct str value, char *ret, size_t size) {
        if (value.n == 0 || value.n >= size)
                return false;
        memcpy(ret, value.p, value.n);
        ret[value.n] = '\0';
        return true;
}

static bool take_number(struct str value, unsigned *ret) {
        uint64_t number = 0;

        if (!str_to_u64(value, GUEST_ID_LAST, &number))
                return false;
        *ret = (unsigned)number;
        return true;
}

/* Lines "uid 601"; the token is missing until everything is made. */
static bool note_parse(struct str text, struct macos_guest *guest) {
        struct str line;

        while (str_split(&text, '\n', &line)) {
                ptrdiff_t blank = str_find(line, ' ');
                if (line.n == 0)
                        continue;
                if (blank < 0)
                        return false;

                struct str key = str_first(line, (size_t)blank), value = str_skip(line, (size_t)blank + 1);
                bool known = (str_is(key, "user") && take_word(value, guest->user, sizeof guest->user)) ||
                             (str_is(key, "token") && take_word(value, guest->token, sizeof guest->token)) ||
                             (str_is(key, "uid") && take_number(value, &guest->uid)) ||
                             (str_is(key, "gid") && take_number(value, &guest->gid));
                if (!known)
                        return false;
        }

        return guest->user[0] && guest->uid >= GUEST_ID_FIRST && guest->gid >= GUEST_ID_FIRST;
}

static int note_write(const struct macos_guest *guest, struct err *err) {
        cleanup(free_ptr) char *folder = str_format("%s" NOTES, text_or(os_tools(), "")),
                               *path = note_path(guest->name);
        cleanup(buf_done) struct buf text = BUF(NOTE_MAX);

        if (!folder || !path ||
            buf_printf(&text, "user %s\nuid %u\ngid %u\n", guest->user, guest->uid, guest->gid) < 0 ||
            (guest->token[0] && buf_printf(&text, "token %s\n", guest->token) < 0))
                return err_memory(err);

        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
                return err_errno(err, "cannot make %s", folder);
        return path_replace_file(path, buf_str(&text), 0644, err);
}

static void note_remove(const char *name) {
        cleanup(free_ptr) char *path = note_path(name);
        if (path)
                (void)unlink(path);
}

int macos_guests_find(const char *name, struct macos_guest *ret, struct err *err) {
        cleanup(free_ptr) char *path = is_plain(name) ? note_path(name) : NULL;
        cleanup(buf_done) struct buf text = BUF(NOTE_MAX);
        struct macos_guest guest = { 0 };

        if (!path || access(path, F_OK) < 0)
                return err_set(err, ENOENT, "there is no guest %s; see `bailey guest ls`", name);

        int r = path_read_file(path, NOTE_MAX, &text, err);
        if (r < 0)
                return r;
        if (!note_parse(buf_str(&text), &guest))
                return err_set(err, EBADMSG, "%s is not a note of a guest", path);

        snprintf(guest.name, sizeof guest.name, "%s", name);
        *ret = guest;
        return 0;
}

static int compare_guests(const void *a, const void *b) {
        return strcmp(((const struct macos_guest *)a)->name, ((const struct macos_guest *)b)->name);
}

int macos_guests_list(macos_guest_list *ret, struct err *err) {
        cleanup(free_ptr) char *folder = str_format("%s" NOTES, text_or(os_tools(), ""));
        if (!folder)
                return err_memory(err);

        DIR *directory = opendir(folder);
        if (!directory)
                return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", folder);

        int r = 0;
        for (const struct dirent *entry; r == 0 && (entry = readdir(directory));) {
                struct str name = str_of(entry->d_name);
                char plain[MACOS_GUEST_NAME_MAX];
                struct macos_guest guest;

                if (!str_ends(name, STR(NOTE_END)) ||
                    !take_word(str_first(name, name.n - strlen(NOTE_END)), plain, sizeof plain))
                        continue;

                r = macos_guests_find(plain, &guest, err);
                if (r == 0 && vec_push(ret, guest) < 0)
                        r = err_memory(err);
        }

        closedir(directory);
        if (r == 0 && ret->n > 1)
                qsort(ret->p, ret->n, sizeof *ret->p, compare_guests);
        return r;
}

/* --- life --- */

/* Whoever called sudo. */
static int owner_name(char ret[static MACOS_GUEST_USER_MAX], struct err *err) {
        const char *user = getenv("SUDO_USER");

        if (!user)
                user = getenv("USER");
        if (!user || !take_word(str_of(user), ret, MACOS_GUEST_USER_MAX) || strcmp(user, "root") == 0)
                return err_set(err, EINVAL, "it is not known whose guest it is to be: use sudo as that user");
        return 0;
}

/* Beside `bailey`, or in its libexec. */
static int guest_launcher(char **ret, struct err *err) {
        return helper_program("bailey-seatbelt", "src/sandbox", ret, err);
}

static struct guest_request guest_asked(const struct macos_guest *guest, const char *launcher) {
        return (struct guest_request){
                .user = guest->user, .name = guest->name, .uid = guest->uid, .gid = guest->gid, .launcher = launcher
        };
}

static int guest_draft(const char *name, struct macos_guest *ret, struct err *err) {
        const struct guest_world world = guests_world();
        struct macos_guest guest = { 0 };

        if (!take_word(str_of(name), guest.name, sizeof guest.name) || !is_plain(name)) {
                err_blame(err, ERR_USAGE);
                return err_set(err, EINVAL, "a guest's name has letters, digits, '-' and '_', at most 20");
        }

        int r = owner_name(guest.user, err);
        if (r == 0)
                r = guest_find_id(&world, &guest.uid, err);
        if (r < 0)
                return r;

        guest.gid = guest.uid;
        *ret = guest;
        return 0;
}

int macos_guests_plan_create(const char *name, struct buf *out, struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        cleanup(free_ptr) char *launcher = NULL;
        struct macos_guest guest;
        int r = guest_draft(name, &guest, err);

        if (r == 0)
                r = guest_launcher(&launcher, err);
        if (r < 0)
                return r;

        const struct guest_request request = guest_asked(&guest, launcher);
        r = guest_plan_create(&request, &plan, err);
        return r < 0 ? r : guest_plan_text(plan, out);
}

int macos_guests_plan_delete(const char *name, struct buf *out, struct err *err) {
        cleanup(guest_plan_freep) struct guest_plan *plan = NULL;
        struct macos_guest guest;
        int r = macos_guests_find(name, &guest, err);
        if (r < 0)
                return r;

        const struct guest_request request = guest_asked(&guest, NULL);
        r = guest_plan_delete(&request, &plan, err);
        if (r == 0)
                r = guest_plan_text(plan, out);
        if (r == 0 && guest.token[0])
                r = buf_printf(out, "# want the firewall no longer\n/sbin/pfctl -X %s\n", guest.token);
        return r;
}

/* By which the firewall is switched off again. */
static int take_token(struct macos_guest *guest, const char *token, struct err *err) {
        if (!take_word(str_of(token), guest->token, sizeof guest->token))
                return err_set(err, EPROTO, "pfctl -E gave a token that is too long");

        return 0;
}

int macos_guests_create(const char *name, struct macos_guest *ret, struct err *err) {
        const struct guest_world world = guests_world();
        cleanup(free_ptr) char *launcher = NULL, *token = NULL;
        struct macos_guest guest;
        int r = need_root(err);

        if (r < 0)
                return r;
        if (macos_guests_find(name, &guest, NULL) != -ENOENT)
                return err_set(err, EEXIST, "there is a guest %s already", name);

        r = guest_draft(name, &guest, err);
        if (r == 0)
                r = guest_launcher(&launcher, err);
        if (r == 0)
                r = note_write(&guest, err);
        if (r < 0)
                return r;

        const struct guest_request request = guest_asked(&guest, launcher);
        r = guest_create(&world, &request, &token, err);
        if (r == 0)
                r = take_token(&guest, token, err);
        if (r < 0) {
                note_remove(name);
                return r;
        }

        r = note_write(&guest, err);
        if (r == 0)
                *ret = guest;
        return r;
}

static int find_as_root(const char *name, struct macos_guest *ret, struct err *err) {
        int r = need_root(err);
        if (r < 0)
                return r;

        return macos_guests_find(name, ret, err);
}

int macos_guests_start(const char *name, struct err *err) {
        const struct guest_world world = guests_world();
        cleanup(free_ptr) char *token = NULL;
        struct macos_guest guest;
        int r = find_as_root(name, &guest, err);
        if (r < 0)
                return r;

        const struct guest_request request = guest_asked(&guest, NULL);
        r = guest_load_firewall(&world, &request, &token, err);
        if (r == 0)
                r = take_token(&guest, token, err);
        if (r < 0)
                return r;

        return note_write(&guest, err);
}

/* Of half a guest some steps fail, since there is nothing to remove. What counts is whether the account is gone. */
int macos_guests_delete(const char *name, struct err *err) {
        const struct guest_world world = guests_world();
        struct macos_guest guest;
        int r = find_as_root(name, &guest, err);
        if (r < 0)
                return r;

        const struct guest_request request = guest_asked(&guest, NULL);
        r = guest_delete(&world, &request, guest.token[0] ? guest.token : NULL, err);
        if (r < 0 && (guest.token[0] || guest_check_free(&world, &request, NULL) < 0))
                return r;

        note_remove(name);
        return 0;
}

int macos_guests_exec(const char *name, char *const *argv, struct err *err) {
        cleanup(free_ptr) char *launcher = NULL, *sudo = str_format("%s/usr/bin/sudo", text_or(os_tools(), ""));
        struct macos_guest guest;
        size_t n = 0;
        int r = macos_guests_find(name, &guest, err);

        if (r == 0 && !guest.token[0])
                r = err_set(err, EBUSY, "the guest %s is not whole: delete it and create it again", name);
        if (r == 0)
                r = guest_launcher(&launcher, err);
        if (r < 0)
                return r;

        cleanup(free_ptr) char *account = str_format("_bailey_%s", name), *home = str_format("/Users/_bailey_%s", name);
        while (argv[n])
                n++;
        const char *const head[] = { "sudo", "-n",          "-H", "-u",     account, "--", launcher,
                                     "run",  "--workspace", home, "--home", "real",  "--" };
        const size_t heads = sizeof head / sizeof *head;
        cleanup(free_ptr) const char **words = calloc(heads + n + 1, sizeof *words);
        if (!sudo || !account || !home || !words)
                return err_memory(err);

        memcpy(words, head, sizeof head);
        for (size_t i = 0; i < n; i++)
                words[heads + i] = argv[i];
        execv(sudo, (char *const *)words);
        return err_errno(err, "cannot start sudo");
}
