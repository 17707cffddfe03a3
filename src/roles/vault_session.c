/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/vault_session.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "base/tree.h"
#include "conf/dirs.h"
#include "plan/build.h"
#include "policy/home_kind.h"
#include "policy/home_table.h"
#include "roles/trust_store.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define API_PROXY "http://127.0.0.1:3129"
static_assert(PLAN_PORT_API == 3129, "the port in the text above");

#define PLACE "certificates"

/*
 * The directory with what clients trust. It is below Bailey's own state, which the sandbox does not see; a rule opens
 * this one for reading. Those of runs that were killed are removed by the next.
 */
static void sweep(const char *place) {
        DIR *d = opendir(place);
        struct dirent *entry;
        while (d && (entry = readdir(d))) {
                cleanup(free_ptr) char *lock_path =
                    entry->d_name[0] == '.' ? NULL : str_format("%s/%s/lock", place, entry->d_name);
                cleanup(close_fd) int lock = lock_path ? open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
                if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
                        (void)tree_remove(dirfd(d), entry->d_name);
        }
        if (d)
                closedir(d);
}

static int name_kept_files(struct vault_session *v, const char *directory, struct err *e) {
        v->bundle = path_join(directory, "ca-bundle.pem");
        v->java = path_join(directory, "ca-bundle.jks");
        return v->bundle && v->java ? 0 : err_memory(e);
}

static int name_files(struct vault_session *v, const char *id, char **ret_place, struct err *e) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return err_set(e, -r, "there is no place for the sandbox's certificates: no home directory");
        *ret_place = path_join(state, PLACE);
        v->bundle = str_format("%s/" PLACE "/%s/ca-bundle.pem", state, id);
        v->java = str_format("%s/" PLACE "/%s/ca-bundle.jks", state, id);
        return *ret_place && v->bundle && v->java ? 0 : err_memory(e);
}

static int make_directory(struct vault_session *v, const char *place, const char *id, struct err *e) {
        int r = path_make_private_dir(place, e);
        if (r < 0)
                return r;
        sweep(place);
        v->directory = path_join(place, id);
        cleanup(free_ptr) char *lock_path = v->directory ? path_join(v->directory, "lock") : NULL;
        if (!lock_path)
                return err_memory(e);
        r = path_make_private_dir(v->directory, e);
        r = r < 0 ? r : path_replace_file(lock_path, STR(""), 0600, e);
        if (r < 0)
                return r;
        v->lock = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (v->lock < 0 || flock(v->lock, LOCK_SH) < 0)
                return err_errno(e, "cannot lock %s", lock_path);
        return 0;
}

static int write_certificates(struct vault_session *v, const char *roots_file, struct err *e) {
        cleanup(buf_done) struct buf roots = BUF(TRUST_BYTES_MAX), pem = BUF(TRUST_BYTES_MAX),
                                     java = BUF(TRUST_BYTES_MAX);
        int r = trust_store_roots(roots_file, &roots, e);
        if (r == 0 && v->process)
                r = trust_store_pem(buf_str(&roots), vault_process_ca(v->process), &pem, e);
        else if (r == 0 && buf_append(&pem, buf_str(&roots)) < 0)
                r = err_memory(e);
        r = r < 0 ? r : trust_store_java(buf_str(&pem), &java, e);
        r = r < 0 ? r : path_replace_file(v->bundle, buf_str(&pem), 0444, e);
        return r < 0 ? r : path_replace_file(v->java, buf_str(&java), 0444, e);
}

/*
 * What happens to it while the command runs.
 */
static void on_notice(void *arg, enum vault_notice notice, const char *text) {
        struct vault_session *v = arg;
        struct audit *audit = v->audit ? *v->audit : NULL;
        switch (notice) {
        case VAULT_NOTICE_READY:
                log_notice("the vault is back");
                if (v->gateway && *v->gateway)
                        gateway_process_vault(*v->gateway);
                text = "the vault serves again";
                break;
        case VAULT_NOTICE_CHANGED:
                log_notice("%s", text);
                break;
        case VAULT_NOTICE_DIED:
                log_error("the vault died, requests with credentials are refused until it is back: %s", text);
                break;
        case VAULT_NOTICE_CANNOT_START:
                log_error("the vault could not be started again: %s", text);
                break;
        case VAULT_NOTICE_GONE:
                log_error("requests that need it are refused: %s", text);
                break;
        case VAULT_NOTICE_KEPT:
                log_warning("not read again, the value before is used: %s", text);
                break;
        }
        if (audit)
                (void)audit_note(audit, "vault: %s", text);
}

static bool is_wanted(const struct policy *p) {
        return (p->credentials.n > 0 || p->network.rules.n > 0 || p->git.n > 0) && plan_network(p) != NETWORK_NONE;
}

static unsigned log_level_now(void) {
        unsigned level = LOG_DEBUG;
        while (level > LOG_ERROR && !log_enabled((enum log_level)level))
                level--;
        return level;
}

/* The files, and a rule by which the sandbox may read them. */
static int lay_out(struct vault_session *v, const struct vault_session_request *q, struct err *e) {
        int r = write_certificates(v, q->roots, e);

        if (r == 0 && v->directory &&
            origin_texts_add(&q->policy->filesystem.read, str_of(v->directory), "the sandbox's certificates") < 0)
                return err_memory(e);
        return r;
}

/* Where stand-ins are the same: in one workspace, or in all that share a home, since files with them lie there. */
static const char *place_of_stand_ins(const struct policy *p) {
        if (home_kind(p) == HOME_NAMED)
                return p->filesystem.home;
        return p->workspace ? p->workspace : "";
}

static int start(struct vault_session *v, const struct vault_session_request *q, const char *place, struct err *e) {
        cleanup(stand_ins_closep) struct stand_ins *stand_ins = NULL;
        int r = q->place ? 0 : stand_ins_open(&stand_ins, e);
        if (r < 0)
                return r;
        const struct vault_settings settings = { .mappings = &v->mappings,
                                                 .sandbox_id = q->id,
                                                 .stand_ins = stand_ins,
                                                 .place = place_of_stand_ins(q->policy),
                                                 .ca_dir = q->place ? q->place->directory : NULL,
                                                 .ca = q->policy->network.ca_key == CA_KEY_RSA4096 ? VAULT_CA_RSA4096
                                                                                                   : VAULT_CA_P256,
                                                 .log_level = log_level_now(),
                                                 .environment = q->environment,
                                                 .on_notice = on_notice,
                                                 .arg = v };
        r = vault_process_new(&settings, &v->process, e);
        if (r == 0 && q->place)
                r = q->place->load(q->place->arg, &v->mappings, v->process, e);
        r = r < 0 ? r : vault_process_start(v->process, e);
        r = r < 0 ? r : vault_env_table(&v->mappings, v->process, &v->credentials, e);
        if (r == 0 && q->place)
                r = q->place->save(q->place->arg, &v->mappings, v->process, e);
        else if (r == 0)
                r = make_directory(v, place, q->id, e);
        return r < 0 ? r : lay_out(v, q, e);
}

/* No TLS is opened, but somebody named roots of their own: they count inside too. */
static int start_plain(struct vault_session *v, const struct vault_session_request *q, struct err *e) {
        cleanup(free_ptr) char *place = NULL;
        int r = name_files(v, q->id, &place, e);

        if (r == 0 && !q->preview)
                r = make_directory(v, place, q->id, e);
        return r < 0 || q->preview ? r : lay_out(v, q, e);
}

/* The same path as a glob: special characters, and one that is not, in brackets. */
static char *glob_of(struct str path) {
        cleanup(buf_done) struct buf glob = BUF(4 * 4096);
        size_t last = path.n;
        while (last > 0 && !ascii_is_alnum(path.p[last - 1]))
                last--;
        for (size_t i = 0; i < path.n; i++) {
                bool bracket = i + 1 == last || strchr("*?[", path.p[i]);
                if (buf_printf(&glob, bracket ? "[%c]" : "%c", path.p[i]) < 0)
                        return NULL;
        }
        return str_dup(buf_str(&glob));
}

static bool is_granted(const origin_texts *grants, const char *home, const char *path) {
        for (size_t i = 0; i < grants->n; i++) {
                cleanup(free_ptr) char *whole = NULL, *text = NULL;
                if (path_expand_home(str_of(grants->p[i].text), home, &text) < 0 ||
                    path_normalise(str_of(text), "/", &whole) < 0 || path_is_within(path, whole))
                        return true;
        }
        return false;
}

/* Directories of programs and caches are laid into it as they are, and so is what PATH names. */
static bool is_laid(const char *home, const char *path) {
        struct str rest = str_of(getenv("PATH")), directory;

        for (size_t i = 0; i < n_home_rows; i++) {
                cleanup(free_ptr) char *row = path_join(home, home_rows[i].path);
                if (!row || path_is_within(path, row))
                        return true;
        }
        while (str_split(&rest, ':', &directory)) {
                cleanup(free_ptr) char *whole = NULL;
                if (directory.n > 0 && directory.p[0] == '/' && path_normalise(directory, "/", &whole) == 0 &&
                    strcmp(whole, "/") != 0 && path_is_within(path, whole))
                        return true;
        }
        return false;
}

/* In a home of its own the sandbox has nothing of the real one, unless it is granted or laid there: a copy has the same
 * name. */
static bool is_out_of_sight(const struct policy *p, const char *path) {
        return home_is_own(p) && p->home && path_is_within(path, p->home) &&
               !is_granted(&p->filesystem.read, p->home, path) && !is_granted(&p->filesystem.write, p->home, path) &&
               !path_is_within(path, p->workspace) && !is_laid(p->home, path);
}

/* A file that holds a secret is closed to the sandbox, wherever it is. A mount would cover the file that is there now;
 * when it is replaced, as rotation does, the mount goes with it. A glob is judged at each call, so it holds for the new
 * one too.
 */
static int hide_sources(const struct vault_session *v, struct policy *p, struct err *e) {
        for (size_t i = 0; i < v->mappings.n; i++) {
                const struct mapping *m = &v->mappings.p[i];
                struct str source = str_of(m->source), file, pointer;
                cleanup(free_ptr) char *origin = str_format("source of credential %s", m->name);
                if (str_starts(source, STR("file:")))
                        file = str_skip(source, 5);
                else if (!source_is_member(source, &file, &pointer))
                        continue;
                cleanup(free_ptr) char *path = str_dup(file);
                if (path && is_out_of_sight(p, path))
                        continue;
                cleanup(free_ptr) char *glob = glob_of(file);
                if (!origin || !glob || origin_texts_add(&p->filesystem.deny_read, str_of(glob), origin) < 0)
                        return err_memory(e);
        }
        return 0;
}

int vault_session_open(struct vault_session *v, const struct vault_session_request *q, struct err *e) {
        int r = mappings_of(q->policy, &v->mappings, e);
        r = r < 0 ? r : hide_sources(v, q->policy, e);
        r = r < 0 ? r : vault_env_sources(&v->mappings, &v->strip, e);
        if (r < 0)
                return r;
        if (!is_wanted(q->policy))
                return q->roots && !q->place && plan_network(q->policy) != NETWORK_NONE ? start_plain(v, q, e) : 0;
        cleanup(free_ptr) char *place = NULL;
        r = q->place ? name_kept_files(v, q->place->directory, e) : name_files(v, q->id, &place, e);
        if (r == 0 && !q->preview)
                r = start(v, q, place, e);
        if (r == 0 && q->policy->process.base_urls)
                r = vault_env_base_urls(&v->mappings, q->service ? "" : API_PROXY, q->environment, &v->base_urls, e);
        return r < 0 ? r : vault_env_stand_ins(&v->mappings, v->process, q->policy, q->environment, &v->stand_ins, e);
}

bool vault_session_fits(const struct vault_session *v, const struct policy *newer) {
        cleanup(mappings_done) mappings m = { 0 };
        return mappings_of(newer, &m, NULL) == 0 && mappings_equal(&m, &v->mappings) &&
               (v->process != NULL) == is_wanted(newer);
}

void vault_session_close(struct vault_session *v) {
        vault_process_free(v->process);
        if (v->directory && tree_remove(AT_FDCWD, v->directory) < 0)
                log_error("cannot remove %s", v->directory);
        close_fd(&v->lock);
        close_fd(&v->credentials);
        text_list_done(&v->stand_ins);
        text_list_done(&v->base_urls);
        text_list_done(&v->strip);
        mappings_done(&v->mappings);
        free(v->directory);
        free(v->bundle);
        free(v->java);
        *v = (struct vault_session){ .lock = -1, .credentials = -1, .gateway = v->gateway, .audit = v->audit };
}

void vault_session_env(const struct vault_session *v, struct env_input *in) {
        in->ca_bundle = v->bundle;
        in->java_trust_store = v->java;
        if (in->transparent) /* the API proxy listens inside */
                in->base_urls = (const char *const *)v->base_urls.p;
        in->stand_ins = (const char *const *)v->stand_ins.p;
        in->strip = (const char *const *)v->strip.p;
}

void vault_session_gateway(const struct vault_session *v, struct gateway_settings *s) {
        s->vault = v->process;
        s->credentials = v->credentials;
}

void vault_session_watch(const struct vault_session *v, struct poller *poller) {
        if (v->process)
                vault_process_watch(v->process, poller);
}

void vault_session_step(struct vault_session *v, const struct poller *poller) {
        if (v->process)
                vault_process_step(v->process, poller);
}
