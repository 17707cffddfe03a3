/* SPDX-License-Identifier: Apache-2.0 */
#include "store/stand_ins.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "base/random.h"
#include "base/secrets/secret.h"
#include "base/vec.h"
#include "conf/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "bailey stand-ins 1"
enum { FILE_MAX = 1 << 20, ROTATIONS_MAX = 1000000 };

struct rotated {
        char *credential; /* NULL: all */
        uint64_t times;
};

struct stand_ins {
        char *path;
        int lock; /* on a file beside it, while it is read or changed */
        unsigned char key[DIGEST_BYTES];
        VEC(struct rotated) rotated;
};

void stand_ins_close(struct stand_ins *stand_ins) {
        if (!stand_ins)
                return;

        for (size_t i = 0; i < stand_ins->rotated.n; i++)
                free(stand_ins->rotated.p[i].credential);

        vec_done(&stand_ins->rotated);
        close_fd(&stand_ins->lock);
        secret_wipe(stand_ins->key, sizeof stand_ins->key);
        free(stand_ins->path);
        free(stand_ins);
}

void stand_ins_closep(struct stand_ins **stand_ins) {
        stand_ins_close(*stand_ins);
}

static struct rotated *find_rotated(const struct stand_ins *ins, const char *credential) {
        for (size_t i = 0; i < ins->rotated.n; i++) {
                struct rotated *rotated = &ins->rotated.p[i];
                bool same = credential && rotated->credential ? strcmp(credential, rotated->credential) == 0
                                                              : credential == rotated->credential;
                if (same)
                        return rotated;
        }

        return NULL;
}

static int add_rotated(struct stand_ins *stand_ins, struct str credential, uint64_t times, struct err *err) {
        struct rotated made = { .credential = credential.n > 0 ? str_dup(credential) : NULL, .times = times };

        if ((credential.n > 0 && !made.credential) || vec_push(&stand_ins->rotated, made) < 0) {
                free(made.credential);
                return err_memory(err);
        }
        return 0;
}

/* reading */

static bool parse_key(struct str text, unsigned char ret[static DIGEST_BYTES]) {
        if (text.n != 2 * DIGEST_BYTES)
                return false;

        for (size_t i = 0; i < DIGEST_BYTES; i++) {
                int high = ascii_hex(text.p[2 * i]), low = ascii_hex(text.p[2 * i + 1]);
                if (high < 0 || low < 0)
                        return false;
                ret[i] = (unsigned char)(high << 4 | low);
        }

        return true;
}

static int parse_line(struct stand_ins *ins, struct str line, bool *has_key, struct err *err) {
        struct str word;
        uint64_t times;

        if (str_starts(line, STR("key ")) && !*has_key && parse_key(str_skip(line, 4), ins->key)) {
                *has_key = true;
                return 0;
        }

        if (str_starts(line, STR("rotated "))) {
                struct str rest = str_skip(line, 8);

                str_split(&rest, ' ', &word);
                if (str_to_u64(word, ROTATIONS_MAX, &times))
                        return add_rotated(ins, rest, times, err);
        }

        return err_set(err, EBADMSG, "not a line that Bailey wrote");
}

static int parse_file(struct stand_ins *ins, struct str text, struct err *err) {
        struct str line;
        bool has_key = false;
        size_t number = 0;

        while (text.n > 0 && str_split(&text, '\n', &line)) {
                number++;

                if (number == 1 && !str_is(line, FIRST_LINE))
                        return err_set(err, EBADMSG,
                                       "%s is of another version, or damaged: it does not begin with '%s'", ins->path,
                                       FIRST_LINE);

                if (number == 1 || line.n == 0)
                        continue;

                int r = parse_line(ins, line, &has_key, err);
                if (r < 0)
                        return err_wrap(err, r, "%s:%zu", ins->path, number);
        }

        if (!has_key)
                return err_set(err, EBADMSG,
                               "%s has no key; remove the file, and the next run makes a new one (all stand-ins "
                               "change then)",
                               ins->path);

        return 0;
}

static int read_file(const struct stand_ins *ins, struct buf *ret, struct err *err) {
        struct stat st;
        cleanup(close_fd) int fd = open(ins->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot open %s (a link is not followed)", ins->path);
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return err_set(err, EPERM, "%s is not a file of this user and is not used", ins->path);

        if (st.st_mode & 077)
                return err_set(err, EPERM, "%s is open to other users and is not used; run \"chmod 600 %s\"", ins->path,
                               ins->path);

        int r = fd_read_all(fd, ret);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", ins->path, strerror(-r));

        return 0;
}

/* writing */

static int write_file(const struct stand_ins *ins, struct err *err) {
        char hex[DIGEST_HEX_MAX];
        struct buf text = BUF(FILE_MAX);

        digest_hex(ins->key, hex);
        int r = buf_printf(&text, FIRST_LINE "\nkey %s\n", hex);
        secret_wipe(hex, sizeof hex);

        for (size_t i = 0; r == 0 && i < ins->rotated.n; i++) {
                const struct rotated *one = &ins->rotated.p[i];

                if (one->credential)
                        r = buf_printf(&text, "rotated %ju %s\n", (uintmax_t)one->times, one->credential);
                else
                        r = buf_printf(&text, "rotated %ju\n", (uintmax_t)one->times);
        }

        if (r < 0)
                err_set(err, -r, "%s would be too large", ins->path);
        else
                r = path_replace_file(ins->path, buf_str(&text), 0600, err);

        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);
        return r;
}

static int make_first(struct stand_ins *ins, struct err *err) {
        random_bytes(ins->key, sizeof ins->key);
        return write_file(ins, err);
}

/* Only the holder of the lock reads and writes. The lock goes with the process, however it ends. */
static int take_lock(struct stand_ins *ins, struct err *err) {
        cleanup(free_ptr) char *path = str_format("%s.lock", ins->path);
        if (!path)
                return err_memory(err);

        ins->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (ins->lock < 0)
                return err_errno(err, "cannot open %s", path);

        while (flock(ins->lock, LOCK_EX) < 0)
                if (errno != EINTR)
                        return err_errno(err, "cannot lock %s", path);

        return 0;
}

static int name_file(struct stand_ins *ins, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return err_set(err, -r, "there is no place for the key of stand-ins: no home directory");

        r = path_make_private_dir(state, err);
        if (r < 0)
                return r;

        ins->path = path_join(state, "stand-ins");
        if (!ins->path)
                return err_memory(err);

        return 0;
}

/* With the lock held. */
static int open_locked(struct stand_ins **ret, struct err *err) {
        cleanup(stand_ins_closep) struct stand_ins *s = calloc(1, sizeof *s);
        if (!s)
                return err_memory(err);

        s->lock = -1;

        int r = name_file(s, err);
        if (r < 0)
                return r;

        r = take_lock(s, err);
        if (r < 0)
                return r;

        struct buf text = BUF(FILE_MAX);
        r = read_file(s, &text, err);
        if (r == -ENOENT)
                r = make_first(s, err);
        else if (r == 0)
                r = parse_file(s, buf_str(&text), err);

        if (text.p)
                secret_wipe(text.p, text.cap);

        buf_done(&text);
        if (r < 0)
                return r;

        *ret = take_ptr(&s);
        return 0;
}

int stand_ins_open(struct stand_ins **ret, struct err *err) {
        int r = open_locked(ret, err);
        if (r < 0)
                return r;

        close_fd(&(*ret)->lock);
        return 0;
}

int stand_ins_rotate(const char *credential, struct err *err) {
        cleanup(stand_ins_closep) struct stand_ins *ins = NULL;
        int r = open_locked(&ins, err);
        if (r < 0)
                return r;

        struct rotated *there = find_rotated(ins, credential);
        if (there && there->times >= ROTATIONS_MAX)
                return err_set(err, ERANGE, "rotated too often; remove %s, and the next run makes a new key",
                               ins->path);

        if (there)
                there->times++;
        else
                r = add_rotated(ins, str_of(credential), 1, err);

        if (r < 0)
                return r;

        return write_file(ins, err);
}

/* deriving */

uint64_t stand_ins_rotations(const struct stand_ins *ins, const char *credential) {
        const struct rotated *all = find_rotated(ins, NULL), *one = find_rotated(ins, credential);
        uint64_t times = 0;

        if (all)
                times += all->times;
        if (one)
                times += one->times;

        return times;
}

void stand_ins_seed(const struct stand_ins *ins, const char *place, const char *credential, uint64_t rotations,
                    unsigned char ret[static DIGEST_BYTES]) {
        unsigned char inner[DIGEST_BYTES];

        /* One step for each text: nothing can be taken for the end of one and the beginning of another. */
        digest_hmac(str_n(ins->key, sizeof ins->key), str_of(place), inner);
        digest_hmac(str_n(inner, sizeof inner), str_of(credential), ret);
        digest_hmac(str_n(ret, DIGEST_BYTES), str_n(&rotations, sizeof rotations), inner);
        memcpy(ret, inner, DIGEST_BYTES);
        secret_wipe(inner, sizeof inner);
}
