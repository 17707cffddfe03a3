/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-time links. The key is 256 bits, stands in the fragment of the link (which no browser sends, and no log has), and
 * is dead after its use or a minute. A second `bailey ui` asks the first for a new one over a Unix socket in the
 * directory of the control sockets, which is closed to others and to sandboxes.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/random.h"
#include "base/secret.h"
#include "ui/ui_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LINK_NS (60 * NS_PER_SECOND)
static const char link_socket[] = "dashboard";

static void make_key(char ret[static UI_KEY_MAX]) {
        unsigned char bytes[DIGEST_BYTES];

        random_bytes(bytes, sizeof bytes);
        digest_hex(bytes, ret);
        secret_wipe(bytes, sizeof bytes);
}

int links_make(struct ui *ui, char **ret) {
        size_t oldest = 0;

        for (size_t i = 1; i < UI_LINKS_MAX; i++)
                if (ui->links[i].until_ns < ui->links[oldest].until_ns)
                        oldest = i;
        make_key(ui->links[oldest].key);
        ui->links[oldest].until_ns = clock_ns() + LINK_NS;
        *ret = str_format("http://127.0.0.1:%u/#key=%s", ui->port, ui->links[oldest].key);
        return *ret ? 0 : -ENOMEM;
}

struct gate_session *links_exchange(struct ui *ui, struct str key) {
        uint64_t now = clock_ns();
        bool good = false;

        for (size_t i = 0; i < UI_LINKS_MAX; i++) {
                bool same = ui->links[i].key[0] && secret_equal(str_of(ui->links[i].key), key);
                bool dead = now >= ui->links[i].until_ns;

                good = good || (same && !dead);
                if (same || dead)
                        secret_wipe(&ui->links[i], sizeof ui->links[i]);
        }
        if (!good)
                return NULL;

        struct gate_session *session = &ui->sessions[ui->next_session++ % UI_SESSIONS_MAX];
        make_key(session->cookie);
        make_key(session->header);
        return session;
}

/*
 * The socket.
 */
static int link_place(char **ret, bool make, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        int r;

        r = make ? control_make_directory(&directory, err) : control_directory(&directory, err);
        if (r < 0)
                return r;
        *ret = path_join(directory, link_socket);
        return *ret ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int link_address(const char *path, struct sockaddr_un *ret, struct err *err) {
        *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof ret->sun_path)
                return err_set(err, ENAMETOOLONG, "%s is too long for a socket", path);
        memcpy(ret->sun_path, path, strlen(path) + 1);
        return 0;
}

int links_listen(struct ui *ui, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        cleanup(close_fd) int fd = -1;
        struct sockaddr_un address;
        int r;

        r = link_place(&path, true, err);
        if (r < 0)
                return r;
        r = link_address(path, &address, err);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_errno(err, "cannot make a socket");
        unlink(path); /* whoever had it is gone: the lock on the record says so */
        if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || chmod(path, 0600) < 0 || listen(fd, 8) < 0)
                return err_errno(err, "cannot listen on %s", path);
        ui->link_listener = take_fd(&fd);
        ui->link_path = take_ptr(&path);
        return 0;
}

void links_answer(struct ui *ui) {
        cleanup(close_fd) int fd = accept4(ui->link_listener, NULL, NULL, SOCK_CLOEXEC);
        cleanup(free_ptr) char *link = NULL;

        if (fd < 0 || control_check_peer(fd, NULL) < 0 || links_make(ui, &link) < 0)
                return;
        (void)send(fd, link, strlen(link), MSG_NOSIGNAL | MSG_DONTWAIT); /* who does not read has no link */
        ui_note(ui, "a new link was asked for");
}

int ui_ask_link(char **ret, struct err *err) {
        cleanup(free_ptr) char *path = NULL;
        cleanup(close_fd) int fd = -1;
        cleanup(buf_done) struct buf text = BUF(4096);
        struct sockaddr_un address;
        int r;

        r = link_place(&path, false, err);
        if (r < 0)
                return r;
        r = link_address(path, &address, err);
        if (r < 0)
                return r;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return err_errno(err, "cannot make a socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
                return err_set(err, ENOENT, "no dashboard is running");
        struct timeval limit = { .tv_sec = 10 };
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit); /* without it the user waits */
        r = fd_read_all(fd, &text);
        if (r < 0 || !text.n)
                return err_set(err, r < 0 ? -r : EPERM, "the dashboard that is running gives no link");
        *ret = str_dup(buf_str(&text));
        return *ret ? 0 : err_set(err, ENOMEM, "out of memory");
}
