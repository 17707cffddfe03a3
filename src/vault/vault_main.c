/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bailey-vault: started by the supervisor with descriptors only (ipc/vault_messages.h). Order: keep its memory to
 * itself, read the start block, make the reader while there is nothing to protect, make or load the CA, drop all rights
 * that it does not need (vault/vault_confine.h), then listen to the supervisor, which sends the first secrets. It ends
 * on request, when the supervisor goes away, or on any error.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/processes/confine.h"
#include "base/processes/spawn_os.h"
#include "vault/vault.h"
#include "vault/vault_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <unistd.h>

enum { EXIT_BROKEN = 70, SECURE_HEAP = 128 << 10, SECURE_LEAST = 32 };

static int check_descriptors(struct err *err) {
        for (int fd = VAULT_FD_START; fd < VAULT_FDS_END; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return err_errno(err, "descriptor %d, which the supervisor must pass, is missing", fd);
        return fd_close_from(VAULT_FDS_END);
}

static int set_up(struct reader *reader, struct vault **ret, struct err *err) {
        struct vault_start start;
        struct vault_mapping *mappings = NULL;
        int r = check_descriptors(err);
        if (r < 0)
                return r;

        r = vault_start_read(VAULT_FD_START, &start, &mappings, err);
        if (r < 0)
                return r;

        log_setup(&(struct log_settings){
            .level = (enum log_level)start.log_level, .fd = 2, .program = "bailey-vault", .per_second = 50 });
        r = reader_start(&start, mappings, reader, err);
        if (r < 0) {
                free(mappings);
                return r;
        }

        /* Keys of OpenSSL live in locked memory that no core file and no child has. */
        if (CRYPTO_secure_malloc_init(SECURE_HEAP, SECURE_LEAST) != 1) {
                free(mappings);
                return err_set(err, ENOMEM, "cannot lock memory for keys (see `ulimit -l`)");
        }

        r = vault_new(&start, mappings, VAULT_FD_CONTROL, VAULT_FD_KEEP, reader, ret, err);
        if (r < 0)
                return r;

        return confine_vault(err);
}

/* The vault may not be able to say why: without it, standard error is the only way. */
static void main_report(const struct err *err) {
        struct vault_message message = { .kind = VAULT_FAILED, .data = { str_of(err_text(err)) } };
        if (vault_send(VAULT_FD_CONTROL, VAULT_TO_SUPERVISOR, &message, -1) < 0)
                log_error("%s", err_text(err));
}

int main(void) {
        struct err err = { 0 };
        struct reader reader = { .sock = -1 };
        cleanup(vault_freep) struct vault *vault = NULL;

        signal(SIGPIPE, SIG_IGN);
        spawn_end_with_parent();
        int r = confine_memory(&err);
        if (r >= 0)
                r = set_up(&reader, &vault, &err);
        if (r < 0) {
                main_report(&err);
                return EXIT_BROKEN;
        }

        if (vault_run(vault, &err) < 0)
                return EXIT_BROKEN;

        return 0;
}
