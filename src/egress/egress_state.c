/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/egress_state.h"

#include "base/cleanup.h"
#include "base/emit.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "conf/json.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int egress_directory(bool make, char **ret, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return err_set(err, -r, "there is no place for the gateway's state: no home directory");

        cleanup(free_ptr) char *path = path_join(state, "egress");
        if (!path)
                return err_memory(err);

        if (make)
                r = path_make_private_dir(path, err);
        else
                r = 0;
        if (r == 0)
                *ret = take_ptr(&path);

        return r;
}

int egress_read(const char *directory, const char *name, struct buf *ret, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        cleanup(buf_done) struct buf content = BUF(EGRESS_BYTES_MAX);
        struct stat st;

        if (!path)
                return err_memory(err);

        cleanup(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 && errno == ELOOP)
                return err_set(err, EPERM, "%s is a link, which is not followed here; remove it", path);
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_errno(err, "cannot open %s", path);
        if (!S_ISREG(st.st_mode))
                return err_set(err, EPERM, "%s is not a regular file", path);
        if (st.st_uid != geteuid())
                return err_set(err, EPERM, "%s belongs to another user (uid %u) and is not used", path, st.st_uid);

        if (st.st_mode & 022)
                return err_set(err, EPERM, "%s may be written by others and is not used; run \"chmod 600 %s\"", path,
                               path);

        int r = fd_read_all(fd, &content);
        if (r < 0)
                return err_set(err, -r, "cannot read %s: %s", path, strerror(-r));

        *ret = content;
        content = BUF(0);

        return 0;
}

int egress_write(const char *directory, const char *name, struct str content, struct err *err) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        int r = path ? path_make_private_dir(directory, err) : err_memory(err);
        if (r < 0)
                return r;

        return path_replace_file(path, content, 0600, err);
}

void egress_remove(const char *directory, const char *name) {
        cleanup(free_ptr) char *path = path_join(directory, name);
        if (path)
                (void)unlink(path);
}

/*
 * The stand-ins: { "openai": ["sk-...", null, ...] }, one for each part of a credential, then those of before
 * rotations.
 */
static int take_tokens(struct vault_process *process, uint32_t mapping, const struct node *row, bool rotate) {
        unsigned at = 0;
        int r = 0;

        for (const struct node *part = row->first; r == 0 && part; part = part->next, at++) {
                if (part->kind != NODE_SCALAR)
                        continue;
                if (at < PARTS && !rotate)
                        r = vault_process_keep_stand_in(process, mapping, at, part->text.p);
                else
                        r = vault_process_add_old(process, mapping, part->text);
        }

        return r;
}

int egress_tokens_load(const char *directory, const mappings *list, struct vault_process *process, bool rotate,
                       struct err *err) {
        cleanup(buf_done) struct buf text = BUF(0);
        cleanup(document_freep) struct document *document = NULL;
        int r = egress_read(directory, EGRESS_TOKENS, &text, err);
        if (r < 0) {
                if (r == -ENOENT)
                        err_clear(err);
                if (r == -ENOENT)
                        return 0;

                return r;
        }

        r = json_read(buf_str(&text), STR(EGRESS_TOKENS), &document, err);
        if (r < 0)
                return r;

        for (uint32_t i = 0; i < list->n && document_root(document); i++) {
                const struct node *row = node_get(document_root(document), str_of(list->p[i].name));
                if (row && row->kind == NODE_LIST && take_tokens(process, i, row, rotate) < 0)
                        return err_memory(err);
        }

        return 0;
}

void egress_tokens_digest(const char *directory, char ret[static DIGEST_HEX_MAX]) {
        cleanup(buf_done) struct buf text = BUF(0);
        unsigned char digest[DIGEST_BYTES];

        ret[0] = '\0';
        if (egress_read(directory, EGRESS_TOKENS, &text, NULL) < 0)
                return;

        digest_sha256(buf_str(&text), digest);
        digest_hex(digest, ret);
}

int egress_tokens_save(const char *directory, const mappings *list, const struct vault_process *process,
                       struct err *err) {
        cleanup(buf_done) struct buf text = BUF(EGRESS_BYTES_MAX);
        struct emit j = emit_to(&text);

        emit_open(&j, '{');

        for (uint32_t i = 0; i < list->n; i++) {
                emit_key(&j, list->p[i].name);
                emit_open(&j, '[');
                for (unsigned k = 0; k < PARTS; k++)
                        emit_text(&j, vault_process_stand_in(process, i, k));

                for (size_t k = 0; vault_process_old(process, i, k); k++)
                        emit_text(&j, vault_process_old(process, i, k));

                emit_close(&j);
        }

        emit_close(&j);
        int r = emit_status(&j);

        if (r < 0)
                return err_set(err, -r, "the stand-ins are too large to be kept");

        return egress_write(directory, EGRESS_TOKENS, buf_str(&text), err);
}
