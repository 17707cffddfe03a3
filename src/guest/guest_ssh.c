/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest_ssh.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "base/fd.h"
#include "base/files/tree.h"
#include "base/paths/account.h"
#include "base/paths/path.h"
#include "base/processes/spawn.h"
#include "guest/guest_files.h"
#include "guest/guest_home.h"
#include "guest/guest_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY_MAX = 16 << 10 };

static const char inside_dir[] = ".bailey-ssh";

static int key_make(const char *path, const char *comment, struct err *err) {
        static char *const environment[] = { (char *)"PATH=/usr/bin:/bin", NULL };
        char *const argv[] = { (char *)"ssh-keygen", (char *)"-q", (char *)"-t", (char *)"ed25519",
                               (char *)"-N",         (char *)"",   (char *)"-C", (char *)comment,
                               (char *)"-f",         (char *)path, NULL };
        char program[PATH_MAX];
        pid_t pid = -1;

        if (access(path, F_OK) == 0)
                return 0;
        if (!spawn_find("ssh-keygen", environment, program))
                return err_set(err, ENOENT, "ssh-keygen is missing (package openssh-client)");

        const struct spawn spawn = { .program = program,
                                     .argv = argv,
                                     .environment = environment,
                                     .input = SPAWN_NULL,
                                     .output = SPAWN_NULL,
                                     .errors = SPAWN_KEEP };
        int r = spawn_start(&spawn, &pid, err);
        if (r < 0)
                return r;

        int status = spawn_wait(pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;

        return err_set(err, EIO, "ssh-keygen failed");
}

static int file_copy(const char *from, const char *to, const char *before, mode_t mode, struct err *err) {
        cleanup(buf_done) struct buf text = BUF(KEY_MAX), whole = BUF(2 * KEY_MAX);
        int r = path_read_file(from, KEY_MAX, &text, err);

        if (r < 0)
                return r;
        if (buf_add(&whole, before) < 0 || buf_append(&whole, buf_str(&text)) < 0)
                return err_set(err, ENOMEM, "out of memory");

        return path_replace_file(to, buf_str(&whole), mode, err);
}

/* By sshd's own defaults, but for what it needs to run as this user and for nobody else. */
static int config_write(const char *path, const char *home, struct err *err) {
        cleanup(free_ptr) char *text =
            str_format("HostKey %s/%s/host_key\nAuthorizedKeysFile %s/%s/authorized_keys\nUsePAM no\nStrictModes no\n"
                       "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
                       "AllowTcpForwarding local\nX11Forwarding no\nPrintMotd no\n"
                       "Subsystem sftp internal-sftp\n",
                       home, inside_dir, home, inside_dir);

        if (!text)
                return err_set(err, ENOMEM, "out of memory");

        return path_replace_file(path, str_of(text), 0600, err);
}

struct ssh_paths {
        char *dir, *key, *key_pub, *host_key, *host_key_pub, *inside, *known;
};

static void ssh_paths_done(struct ssh_paths *paths) {
        char *const all[] = { paths->dir,          paths->key,    paths->key_pub, paths->host_key,
                              paths->host_key_pub, paths->inside, paths->known };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                free(all[i]);
}

static int ssh_paths(const struct guest *guest, struct ssh_paths *paths, struct err *err) {
        paths->dir = path_join(guest->directory, "ssh");
        paths->key = paths->dir ? path_join(paths->dir, "key") : NULL;
        paths->key_pub = paths->dir ? path_join(paths->dir, "key.pub") : NULL;
        paths->inside = paths->dir ? path_join(paths->dir, inside_dir) : NULL;
        paths->host_key = paths->inside ? path_join(paths->inside, "host_key") : NULL;
        paths->host_key_pub = paths->inside ? path_join(paths->inside, "host_key.pub") : NULL;
        paths->known = paths->dir ? path_join(paths->dir, "known_hosts") : NULL;
        if (!paths->key || !paths->key_pub || !paths->host_key || !paths->host_key_pub || !paths->known)
                return err_set(err, ENOMEM, "out of memory");

        int r = path_make_private_dir(paths->inside, err);
        return r;
}

static int inside_remove(void *arg, struct err *err) {
        const struct guest *guest = arg;
        cleanup(close_fd) int home = openat(guest->fd, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r = home < 0 ? -errno : tree_remove(home, inside_dir);

        if (r < 0)
                return err_set(err, -r, "cannot replace %s: %s", inside_dir, strerror(-r));

        return 0;
}

/* What is inside is laid anew each time: the guest may have changed it. */
static int ssh_lay(const struct guest *guest, const struct ssh_paths *paths, struct err *err) {
        const struct guest_copy copy = { .inside = inside_dir, .outside = paths->inside };
        cleanup(free_ptr) char *authorized = path_join(paths->inside, "authorized_keys");
        cleanup(free_ptr) char *config = path_join(paths->inside, "sshd_config");
        cleanup(free_ptr) char *known = str_format("%s.bailey ", guest->row.name);

        if (!authorized || !config || !known)
                return err_set(err, ENOMEM, "out of memory");

        int r = file_copy(paths->key_pub, authorized, "", 0600, err);
        if (r == 0)
                r = config_write(config, path_home(), err);
        if (r == 0)
                r = file_copy(paths->host_key_pub, paths->known, known, 0600, err);
        if (r == 0)
                r = guest_inside(guest, inside_remove, (void *)guest, err);
        if (r < 0)
                return r;

        return guest_copy(guest, &copy, err);
}

int guest_ssh_config(const struct guest *guest, const char *program, struct buf *ret, struct err *err) {
        cleanup(ssh_paths_done) struct ssh_paths paths = { 0 };
        cleanup(buf_done) struct buf quoted = BUF(PATH_MAX * 2);
        struct account account;
        bool known = account_by_uid(guest->kind == GUEST_OWN ? geteuid() : guest->ids.inner_uid, &account);
        int r = ssh_paths(guest, &paths, err);

        if (r < 0)
                return r;

        if (!known || guest->kind == GUEST_ACCOUNT)
                return err_set(err, EOPNOTSUPP,
                               "ssh needs a user with a home inside: it is there for guests of an ordinary user that "
                               "have no account of their own");

        if (access("/usr/sbin/sshd", X_OK) < 0)
                return err_set(err, ENOENT, "sshd is missing on this machine (package openssh-server)");

        r = key_make(paths.key, "bailey", err);
        if (r == 0)
                r = key_make(paths.host_key, "bailey-guest", err);
        if (r == 0)
                r = ssh_lay(guest, &paths, err);
        if (r == 0 && escape_shell(&quoted, str_of(program)) < 0)
                r = err_set(err, ENOMEM, "out of memory");
        if (r < 0)
                return r;

        r = buf_printf(ret,
                       "Host %s.bailey\n    User %s\n    IdentityFile \"%s\"\n    IdentitiesOnly yes\n"
                       "    UserKnownHostsFile \"%s\"\n    StrictHostKeyChecking yes\n"
                       "    ProxyCommand %.*s guest exec %s -- /usr/sbin/sshd -i -f %s/%s/sshd_config\n",
                       guest->row.name, account.name, paths.key, paths.known, STR_FMT(buf_str(&quoted)),
                       guest->row.name, path_home(), inside_dir);
        if (r < 0)
                return err_set(err, ENOMEM, "out of memory");

        return 0;
}
