/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container_mounts.h"

#include "base/cleanup.h"
#include "base/paths/account.h"
#include "base/paths/path.h"
#include "conf/dirs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REFUSED = 1 };

/* Nothing in them is for a container; and what has one of them in it is not either. */
static const char *const closed[] = {
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/var/run",
        "/boot",
        "/var/lib/docker",
        "/var/lib/containers",
        "/var/lib/containerd",
        "/var/lib/kubelet",
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/etc/ssl/private",
};
/* The root of a container is often this host's: whoever writes there has the host. Reading is usual. */
static const char *const obeyed[] = {
        "/etc",          "/usr",         "/bin",
        "/sbin",         "/lib",         "/lib32",
        "/lib64",        "/libx32",      "/var/spool/cron",
        "/var/spool/at", "/root",        "/var/lib/systemd",
        "/var/lib/dpkg", "/var/lib/rpm",
};
/* Sources of programs: people work there. */
static const char *const worked_in[] = { "/usr/src", "/usr/local/src" };
/* Usual, and harmless. */
static const char *const open_devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                            "/dev/random", "/dev/urandom", "/dev/shm" };

static int mounts_refuse(struct buf *why, const char *text) {
        int r = buf_add(why, text);

        if (r < 0)
                return r;

        return REFUSED;
}

/* Where it leads. For a missing path (engines create it) the nearest existing directory is resolved. A ".." in the
 * missing part cannot be resolved, so that directory stands for it. */
static char *real_path(struct str text) {
        cleanup(free_ptr) char *path = str_dup(text);
        cleanup(free_ptr) char *rest = path ? str_dup(STR("")) : NULL;
        char *found = NULL;

        while (rest && !(found = realpath(path, NULL))) {
                char *slash = strrchr(path, '/');
                char *longer = str_format("/%s%s", slash ? slash + 1 : path, rest);

                free(rest);
                rest = longer;
                if (slash == path)
                        slash++;

                if (!slash || strcmp(path, "/") == 0) { /* relative, and nothing of it is there */
                        found = realpath(".", NULL);
                        break;
                }

                *slash = '\0';
        }

        if (!found || !rest || !rest[0] || strstr(rest, "/.."))
                return found;

        /* Empty parts and slashes at the end would hide what it is around. */
        cleanup(free_ptr) char *directory = found, *whole = str_format("%s%s", directory, rest);
        char *plain = NULL;

        if (whole && path_normalise(str_of(whole), "/", &plain) < 0)
                return NULL;
        return plain;
}

/* Inside it, or around it. */
static bool mounts_touches(const char *path, const char *other) {
        return path_is_within(path, other) || path_is_within(other, path);
}

/* By its name, or by where that leads. It may be missing: engines make it, and whoever writes around it can. */
static bool touches_place(const char *path, const char *place) {
        cleanup(free_ptr) char *real = real_path(str_of(place));

        return !real || mounts_touches(path, place) || mounts_touches(path, real);
}

static bool is_in_place(const char *path, const char *place) {
        cleanup(free_ptr) char *real = real_path(str_of(place));

        return path_is_within(path, place) || (real && path_is_within(path, real));
}

static int judge_fixed(const char *path, struct buf *why) {
        for (size_t i = 0; i < sizeof open_devices / sizeof *open_devices; i++)
                if (strcmp(path, open_devices[i]) == 0)
                        return 0;

        for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
                if (touches_place(path, closed[i]))
                        return mounts_refuse(why, "has the system's own files, devices or sockets in it");

        return 0;
}

/* A home in such a place, as root's is, is worked in too. HOME may say anything: it must be this user's directory,
 * which for root every directory of the system is. */
static bool is_in_own_home(const char *path) {
        const char *home = getenv("HOME");
        cleanup(free_ptr) char *real = home && home[0] == '/' ? realpath(home, NULL) : NULL;
        struct stat st;

        if (!real || !path_is_within(path, real) || stat(real, &st) < 0 || st.st_uid != geteuid())
                return false;
        if (geteuid() == 0)
                return is_in_place(real, "/root");

        for (size_t i = 0; i < sizeof obeyed / sizeof *obeyed; i++) {
                cleanup(free_ptr) char *place = real_path(str_of(obeyed[i]));
                if (!place || path_is_within(obeyed[i], real) || path_is_within(place, real))
                        return false;
        }

        return true;
}

static int judge_obeyed(const char *path, struct buf *why) {
        for (size_t i = 0; i < sizeof worked_in / sizeof *worked_in; i++)
                if (is_in_place(path, worked_in[i]))
                        return 0;

        /* As a whole it is refused anyway. */
        if (is_in_own_home(path))
                return 0;

        for (size_t i = 0; i < sizeof obeyed / sizeof *obeyed; i++)
                if (touches_place(path, obeyed[i]))
                        return mounts_refuse(why,
                                             "has programs or settings of this host in it, which could be changed (it "
                                             "may be mounted read-only)");

        return 0;
}

/* A tree of Bailey's: neither it nor what is around it. */
static int judge_own(const char *path, int (*find)(char **ret), struct buf *why) {
        cleanup(free_ptr) char *directory = NULL;

        if (find(&directory) < 0)
                return 0; /* no home, so there is none */

        if (touches_place(path, directory))
                return mounts_refuse(why, "has Bailey's own files in it");

        return 0;
}

static int judge_home(const char *path, const char *home, struct buf *why) {
        cleanup(free_ptr) char *real = home ? realpath(home, NULL) : NULL;

        if (real && strcmp(real, "/") != 0 && path_is_within(real, path))
                return mounts_refuse(
                    why, "is the home directory, with its keys, or has it in it; mount the directory that is needed");
        return 0;
}

static int judge_source(struct str text, bool writable, struct container_bind *ret, struct buf *why) {
        struct stat st;
        cleanup(free_ptr) char *path = real_path(text);
        if (!path)
                return -ENOMEM;

        if (stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
                return mounts_refuse(why, "is a socket: who listens there is outside the container's confinement");

        int r = judge_fixed(path, why);
        if (r == 0 && writable)
                r = judge_obeyed(path, why);
        if (r == 0)
                r = judge_own(path, dirs_state, why);
        if (r == 0)
                r = judge_own(path, dirs_config, why);
        if (r == 0)
                r = judge_home(path, getenv("HOME"), why);

        struct account account;
        if (r == 0 && account_by_uid(geteuid(), &account))
                r = judge_home(path, account.home, why);
        if (r == 0 && ret)
                ret->source = take_ptr(&path);

        return r;
}

static int judge_destination(struct str text, const char *kept, struct buf *why) {
        if (kept && str_starts(text, str_of(kept)))
                return mounts_refuse(why, "would replace what Bailey mounts there");
        return 0;
}

static int judge_option(struct str option, struct buf *why) {
        if (str_is(option, "shared") || str_is(option, "rshared"))
                return mounts_refuse(why, "would spread to this host");
        if (str_starts(option, STR("upperdir=")) || str_starts(option, STR("workdir=")))
                return mounts_refuse(why, "would write to another directory of this host");
        return 0;
}

/* Volumes of an engine have names; what has a slash, or is "." or "..", is a path. */
static bool is_path(struct str source) {
        return str_find(source, '/') >= 0 || str_is(source, ".") || str_is(source, "..") || str_is(source, "~");
}

/* The last one counts with some engines, the first one with others: only where nothing else is said. */
static bool is_read_only(struct str options) {
        struct str option;
        bool only = false;

        while (str_split(&options, ',', &option)) {
                if (str_is(option, "rw"))
                        return false;
                only |= str_is(option, "ro");
        }

        return only;
}

/* podman's overlay is another file system, which says nothing of what it was made from. */
static int judge_overlay(struct str options, struct buf *why) {
        struct str option;

        while (str_split(&options, ',', &option))
                if (str_is(option, "O"))
                        return mounts_refuse(why, "is an overlay, which cannot be compared with its source");

        return 0;
}

static int judge_volume(struct str value, const char *kept, struct container_bind *ret, struct buf *why) {
        struct str source, destination, options = STR(""), option;
        int r = 0;

        if (!str_split(&value, ':', &source) || !str_split(&value, ':', &destination))
                return judge_destination(source, kept, why); /* an anonymous volume */
        if (value.p)
                options = value;
        if (is_path(source))
                r = judge_source(source, !is_read_only(options), ret, why);
        if (r == 0)
                r = judge_destination(destination, kept, why);
        if (r == 0 && ret && ret->source)
                r = judge_overlay(options, why);
        if (ret)
                ret->destination = destination;

        while (r == 0 && str_split(&options, ',', &option))
                r = judge_option(option, why);

        return r;
}

struct mount_text {
        struct str type, source, destination;
        bool read_only, writable; /* that is said */
};

static bool is_yes(struct str value) {
        return value.n == 0 || str_eq_nocase(value, STR("true")) || str_is(value, "1");
}

static int read_field(struct str field, struct mount_text *mount_text, struct buf *why) {
        ptrdiff_t equals = str_find(field, '=');
        struct str key = equals < 0 ? field : str_first(field, (size_t)equals);
        struct str value = equals < 0 ? STR("") : str_skip(field, (size_t)equals + 1);

        if (str_eq_nocase(key, STR("type")))
                mount_text->type = value;
        else if (str_eq_nocase(key, STR("source")) || str_eq_nocase(key, STR("src")))
                mount_text->source = value;
        else if (str_eq_nocase(key, STR("destination")) || str_eq_nocase(key, STR("dst")) ||
                 str_eq_nocase(key, STR("target")))
                mount_text->destination = value;
        else if (str_eq_nocase(key, STR("readonly")) || str_eq_nocase(key, STR("ro")))
                *(is_yes(value) ? &mount_text->read_only : &mount_text->writable) = true;
        else if (str_eq_nocase(key, STR("rw")))
                mount_text->writable = true;
        else if (str_eq_nocase(key, STR("bind-propagation")))
                return judge_option(value, why);
        else if (str_eq_nocase(key, STR("volume-opt")) || str_eq_nocase(key, STR("volume-driver")))
                return mounts_refuse(why, "makes a volume that cannot be looked at");

        return 0;
}

static int judge_long(struct str value, const char *kept, struct container_bind *ret, struct buf *why) {
        struct mount_text mount_text = { .type = STR("volume") };
        struct str field;
        int r = 0;

        /* The engines read the list as CSV: a quote can hide a comma. */
        if (str_find(value, '"') >= 0)
                return mounts_refuse(why, "has a quote in it");

        while (r == 0 && str_split(&value, ',', &field))
                r = read_field(field, &mount_text, why);

        if (r != 0)
                return r;

        if (!str_is(mount_text.type, "bind") && !str_is(mount_text.type, "volume") &&
            !str_is(mount_text.type, "tmpfs") && !str_is(mount_text.type, "image"))
                return mounts_refuse(why, "is of a kind that cannot be looked at");

        if (str_is(mount_text.type, "bind") ||
            (mount_text.source.p && is_path(mount_text.source) && str_is(mount_text.type, "volume")))
                r = judge_source(mount_text.source, !mount_text.read_only || mount_text.writable, ret, why);

        if (r != 0)
                return r;
        if (ret)
                ret->destination = mount_text.destination;

        return judge_destination(mount_text.destination, kept, why);
}

int container_mount_judge(struct str value, bool is_long, const char *kept, struct container_bind *ret,
                          struct buf *why) {
        return is_long ? judge_long(value, kept, ret, why) : judge_volume(value, kept, ret, why);
}
