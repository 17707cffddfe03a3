/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/vault_session.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/files/lock_file.h"
#include "base/files/tree.h"
#include "base/log.h"
#include "base/paths/path.h"
#include "conf/dirs.h"
#include "plan/build.h"
#include "policy/home_kind.h"
#include "policy/paths/home_table.h"
#include "policy/tools/tool_credentials.h"
#include "roles/trust_store.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define API_PROXY "http://127.0.0.1:3129"
static_assert(PLAN_PORT_API == 3129, "the port in the text above");

#define PLACE "certificates"

enum { LINKS_MAX = 40 }; /* as the kernel has it */

/*
 * The directory with what clients trust. It is below Bailey's own state, which the sandbox does not see; a rule opens
 * this one for reading. Those of runs that were killed are removed by the next.
 */
static void vault_session_sweep(const char *place) {
        DIR *d = opendir(place);
        struct dirent *entry;

        while (d && (entry = readdir(d))) {
                cleanup(free_ptr) char *lock_path =
                    entry->d_name[0] == '.' ? NULL : str_format("%s/%s/lock", place, entry->d_name);
                cleanup(close_fd) int lock = -1;

                if (lock_path)
                        lock = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

                if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
                        (void)tree_remove(dirfd(d), entry->d_name);
        }

        if (d)
                closedir(d);
}

static int name_kept_files(struct vault_session *session, const char *directory, struct err *err) {
        session->bundle = path_join(directory, "ca-bundle.pem");
        session->java = path_join(directory, "ca-bundle.jks");
        if (session->bundle && session->java)
                return 0;

        return err_memory(err);
}

static int name_files(struct vault_session *session, const char *id, char **ret_place, struct err *err) {
        cleanup(free_ptr) char *state = NULL;
        int r = dirs_state(&state);
        if (r < 0)
                return err_set(err, -r, "there is no place for the sandbox's certificates: no home directory");

        *ret_place = path_join(state, PLACE);
        session->bundle = str_format("%s/" PLACE "/%s/ca-bundle.pem", state, id);
        session->java = str_format("%s/" PLACE "/%s/ca-bundle.jks", state, id);

        if (*ret_place && session->bundle && session->java)
                return 0;

        return err_memory(err);
}

static int make_directory(struct vault_session *session, const char *place, const char *id, struct err *err) {
        int r = path_make_private_dir(place, err);
        if (r < 0)
                return r;

        vault_session_sweep(place);
        session->directory = path_join(place, id);
        cleanup(free_ptr) char *lock_path = session->directory ? path_join(session->directory, "lock") : NULL;
        if (!lock_path)
                return err_memory(err);

        /* A guest's identity is another. What is in it is no secret, and the directory around it is closed. */
        r = path_make_private_dir(session->directory, err);
        if (r < 0)
                return r;
        if (chmod(session->directory, 0711) < 0)
                return err_errno(err, "cannot open %s to the sandbox", session->directory);

        r = lock_file_new(AT_FDCWD, lock_path, STR(""), &session->lock);
        if (r < 0)
                return err_set(err, -r, "cannot lock %s: %s", lock_path, strerror(-r));

        return 0;
}

static int write_certificates(struct vault_session *session, struct err *err) {
        cleanup(buf_done) struct buf java = BUF(TRUST_BYTES_MAX);
        int r = 0;

        if (session->process)
                r = trust_store_add(&session->roots, vault_process_ca(session->process), err);

        if (r >= 0)
                r = trust_store_java(&session->roots, &java, err);
        if (r >= 0)
                r = path_replace_passing(session->bundle, buf_str(&session->roots.pem), 0444, err);
        if (r == 0)
                r = path_replace_passing(session->java, buf_str(&java), 0444, err);

        trust_store_done(&session->roots);
        return r;
}

/*
 * What happens to it while the command runs.
 */
static void on_notice(void *arg, enum vault_notice notice, const char *text) {
        struct vault_session *session = arg;
        struct audit *audit = session->audit ? *session->audit : NULL;

        switch (notice) {
        case VAULT_NOTICE_READY:
                log_notice("the vault is back");
                if (session->gateway && *session->gateway)
                        gateway_process_vault(*session->gateway);

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

bool vault_session_is_wanted(const struct policy *policy) {
        return (policy->credentials.n > 0 || policy->network.rules.n > 0 || policy->git.n > 0) &&
               plan_network(policy) != NETWORK_NONE;
}

static unsigned log_level_now(void) {
        unsigned level = LOG_DEBUG;
        while (level > LOG_ERROR && !log_enabled((enum log_level)level))
                level--;
        return level;
}

/* A rule by which the sandbox may read the files, and what goes into them of this host. */
static int prepare_certificates(struct vault_session *session, const struct vault_session_request *request,
                                struct err *err) {
        if (session->directory && origin_texts_add(&request->policy->filesystem.read, str_of(session->directory),
                                                   "the sandbox's certificates") < 0)
                return err_memory(err);

        session->unwritten = true;
        return trust_store_read(&session->roots, request->roots, err);
}

/* Where stand-ins are the same: in one workspace, or in all that share a home, since files with them lie there. */
static const char *place_of_stand_ins(const struct policy *policy) {
        if (home_kind(policy) == HOME_NAMED)
                return policy->filesystem.home;
        return text_or(policy->workspace, "");
}

static int vault_session_start(struct vault_session *session, const struct vault_session_request *request,
                               const char *place, struct err *err) {
        cleanup(stand_ins_closep) struct stand_ins *stand_ins = NULL;
        int r = 0;

        if (!request->place)
                r = stand_ins_open(&stand_ins, err);

        if (r < 0)
                return r;

        struct vault_settings settings = { .mappings = &session->mappings,
                                           .sandbox_id = request->id,
                                           .stand_ins = stand_ins,
                                           .place = place_of_stand_ins(request->policy),
                                           .ca = VAULT_CA_P256,
                                           .log_level = log_level_now(),
                                           .environment = request->environment,
                                           .on_notice = on_notice,
                                           .arg = session };
        if (request->place)
                settings.ca_dir = request->place->directory;
        if (!request->place && !request->service) /* those have no sandbox whose files are known */
                settings.places = session->places.p;
        if (request->policy->network.ca_key == CA_KEY_RSA4096)
                settings.ca = VAULT_CA_RSA4096;

        r = vault_process_new(&settings, &session->process, err);
        if (r == 0 && request->place)
                r = request->place->load(request->place->arg, &session->mappings, session->process, err);

        if (r < 0)
                return r;
        r = vault_process_begin(session->process, err);
        if (r == 0 && !request->place)
                r = make_directory(session, place, request->id, err);

        if (r < 0)
                return r;

        return prepare_certificates(session, request, err);
}

/* No TLS is opened, but somebody named roots of their own: they count inside too. */
static int start_plain(struct vault_session *session, const struct vault_session_request *request, struct err *err) {
        cleanup(free_ptr) char *place = NULL;
        int r = name_files(session, request->id, &place, err);

        if (r == 0 && !request->preview)
                r = make_directory(session, place, request->id, err);
        if (r < 0 || request->preview)
                return r;

        return prepare_certificates(session, request, err);
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

/* A sandbox with a home of its own sees nothing of the real one except grants and copies. A copy has the same name. */
static bool is_out_of_sight(const struct policy *policy, const char *path) {
        return home_is_own(policy) && policy->home && path_is_within(path, policy->home) &&
               !is_granted(&policy->filesystem.read, policy->home, path) &&
               !is_granted(&policy->filesystem.write, policy->home, path) && !path_is_within(path, policy->workspace) &&
               !is_laid(policy->home, path);
}

/* A file with a secret is closed to the sandbox, wherever it is. It is closed by a glob, which is judged at each call
 * and so holds for the file that replaces it; a mount would not. */
static int hide_file(struct policy *policy, const char *path, const char *glob, const char *origin, struct err *err) {
        if (is_out_of_sight(policy, path))
                return 0;

        if (origin_texts_add(&policy->filesystem.deny_read, str_of(glob), origin) < 0)
                return err_memory(err);

        return 0;
}

/* The name in its directory, where links to that are followed. NULL: the directory is missing. */
static char *name_in_place(const char *path) {
        const char *name = strrchr(path, '/');
        if (!name)
                return NULL;

        cleanup(free_ptr) char *above = str_dup(str_n(path, (size_t)(name - path) + 1));
        cleanup(free_ptr) char *directory = above ? realpath(above, NULL) : NULL;

        return directory ? path_join(directory, name + 1) : NULL;
}

/* What the link at `place` says, from its own directory. NULL: it is none. */
static char *link_target(const char *place) {
        char target[PATH_MAX];
        ssize_t n = readlink(place, target, sizeof target);

        if (n <= 0 || n == (ssize_t)sizeof target)
                return NULL;
        if (target[0] == '/')
                return str_dup(str_n(target, (size_t)n));

        return str_format("%.*s/%.*s", (int)(strrchr(place, '/') - place), place, (int)n, target);
}

/* Where a name leads, also if the file at the end of its links is missing now. NULL: nowhere. */
static char *place_of(const char *path) {
        cleanup(free_ptr) char *at = str_dup(str_of(path));

        for (int links = 0; at && links < LINKS_MAX; links++) {
                char *whole = realpath(at, NULL);
                if (whole)
                        return whole;

                cleanup(free_ptr) char *place = name_in_place(at);
                char *target = place ? link_target(place) : NULL;
                if (!target)
                        return take_ptr(&place);

                free(at);
                at = target;
        }

        return NULL;
}

/* Kubernetes replaces all files of a volume at once: they are links through "..data", a link that it points to another
 * directory, whose name begins with two dots too. So the glob is for every such directory. NULL: it is not one, or
 * there is no memory, and the place alone counts. */
static char *glob_of_volume(const char *place) {
        const char *dots = strstr(place, "/..");
        const char *rest = dots ? strchr(dots + 1, '/') : NULL;
        char target[PATH_MAX];

        if (!rest)
                return NULL;

        cleanup(free_ptr) char *link = str_format("%.*s/..data", (int)(dots - place), place);
        if (!link || readlink(link, target, sizeof target) <= 0)
                return NULL;

        cleanup(free_ptr) char *volume = glob_of(str_n(place, (size_t)(dots - place)));
        cleanup(free_ptr) char *name = glob_of(str_of(rest + 1));

        return volume && name ? str_format("%s/..*/%s", volume, name) : NULL;
}

/* By its name, and where that leads: a link to a file leaves the file open. *ret_glob is for the latter. */
static int hide_source(const char *path, struct policy *policy, const char *origin, char **ret_glob, struct err *err) {
        cleanup(free_ptr) char *place = place_of(path), *name = glob_of(str_of(path));
        cleanup(free_ptr) char *glob = place ? glob_of_volume(place) : NULL;

        if (!glob)
                glob = glob_of(str_of(place ? place : path));
        if (!glob || !name)
                return err_memory(err);

        int r = hide_file(policy, path, name, origin, err);
        if (r == 0 && place && strcmp(glob, name) != 0)
                r = hide_file(policy, place, glob, origin, err);
        if (r == 0)
                *ret_glob = take_ptr(&glob);

        return r;
}

/* A service's credential lies in a directory that systemd names. Without one it cannot be read. */
static char *systemd_file(const char *name, char *const *environment) {
        const char *directory = NULL;

        for (char *const *at = environment; at && *at; at++)
                if (strncmp(*at, "CREDENTIALS_DIRECTORY=", 22) == 0)
                        directory = *at + 22;

        if (!directory || directory[0] != '/')
                return str_dup(STR(""));

        return path_join(directory, name);
}

/* The file that a source names; empty: it is none. */
static char *source_file(const char *source, char *const *environment) {
        struct str file, pointer;

        if (strncmp(source, "file:", 5) == 0)
                return str_dup(str_of(source + 5));
        if (strncmp(source, "systemd:", 8) == 0)
                return systemd_file(source + 8, environment);

        return str_dup(source_is_member(str_of(source), &file, &pointer) ? file : STR(""));
}

/* A tool's file is read as the sandbox that calls it was started: a link that leads elsewhere since then is told. */
static int use_judged(const struct vault_session_request *request, const char *path, char **glob, struct err *err) {
        for (size_t i = 0; i + 1 < request->n_judged; i += 2) {
                if (strcmp(request->judged[i], path) != 0)
                        continue;

                free(*glob);
                *glob = str_dup(str_of(request->judged[i + 1]));
                return *glob ? 0 : err_memory(err);
        }

        return 0;
}

static int keep_pair(text_list *pairs, const char *path, const char *glob, struct err *err) {
        int r = text_list_take(pairs, str_dup(str_of(path)), err);
        if (r < 0)
                return r;

        return text_list_take(pairs, str_dup(str_of(glob)), err);
}

/* places: of each the glob, "" for what is no file. pairs: file and glob, NULL: are not wanted. */
static int hide_sources(const mappings *list, const struct vault_session_request *request, text_list *places,
                        text_list *pairs, struct err *err) {
        for (size_t i = 0; i < list->n; i++) {
                const struct mapping *mapping = &list->p[i];
                cleanup(free_ptr) char *origin = str_format("source of credential %s", mapping->name);
                cleanup(free_ptr) char *path = source_file(mapping->source, request->environment), *glob = NULL;
                int r = 0;

                if (!origin || !path)
                        return err_memory(err);

                if (path[0])
                        r = hide_source(path, request->policy, origin, &glob, err);
                else
                        glob = str_dup(STR(""));
                if (r == 0 && path[0])
                        r = use_judged(request, path, &glob, err);
                if (r == 0 && path[0] && pairs)
                        r = keep_pair(pairs, path, glob, err);
                if (r == 0)
                        r = text_list_take(places, take_ptr(&glob), err);
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Where the secrets are, the sandbox has no part in: neither in files nor in variables. */
static int keep_out(struct vault_session *session, const mappings *list, const struct vault_session_request *request,
                    text_list *places, text_list *pairs, struct err *err) {
        int r = hide_sources(list, request, places, pairs, err);

        if (r < 0)
                return r;
        return vault_env_sources(list, &session->strip, err);
}

int vault_session_begin(struct vault_session *session, const struct vault_session_request *request, struct err *err) {
        cleanup(mappings_done) mappings tools = { 0 };
        cleanup(text_list_done) text_list of_tools = { 0 };
        int r = mappings_of(request->policy, &session->mappings, err);
        if (r < 0)
                return r;

        r = keep_out(session, &session->mappings, request, &session->places, NULL, err);
        if (r < 0)
                return r;

        r = tool_sources(request->policy, &tools, err);
        if (r < 0)
                return r;
        r = keep_out(session, &tools, request, &of_tools, &session->tool_places, err);
        if (r < 0)
                return r;

        if (!vault_session_is_wanted(request->policy)) {
                if (request->roots && !request->place && plan_network(request->policy) != NETWORK_NONE)
                        return start_plain(session, request, err);
                return 0;
        }

        cleanup(free_ptr) char *place = NULL;
        if (request->place)
                r = name_kept_files(session, request->place->directory, err);
        else
                r = name_files(session, request->id, &place, err);
        if (r < 0)
                return r;

        session->wanted = true;
        if (request->preview)
                return 0;

        return vault_session_start(session, request, place, err);
}

static int await_process(struct vault_session *session, const struct vault_session_request *request, struct err *err) {
        int r = vault_process_await(session->process, err);

        if (r < 0)
                return r;
        r = vault_env_table(&session->mappings, session->process, &session->credentials, err);
        if (r == 0 && request->place)
                r = request->place->save(request->place->arg, &session->mappings, session->process, err);
        return r;
}

int vault_session_finish(struct vault_session *session, const struct vault_session_request *request, struct err *err) {
        if (session->finished)
                return 0;
        session->finished = true;

        int r = 0;

        if (session->process)
                r = await_process(session, request, err);

        if (r == 0 && session->unwritten)
                r = write_certificates(session, err);
        if (r < 0 || !session->wanted)
                return r;

        if (request->policy->process.base_urls)
                r = vault_env_base_urls(&session->mappings, request->service ? "" : API_PROXY, request->environment,
                                        &session->base_urls, err);
        if (r < 0)
                return r;

        return vault_env_stand_ins(&session->mappings, session->process, request->policy, request->environment,
                                   &session->stand_ins, err);
}

int vault_session_open(struct vault_session *session, const struct vault_session_request *request, struct err *err) {
        int r = vault_session_begin(session, request, err);

        if (r < 0)
                return r;

        return vault_session_finish(session, request, err);
}

bool vault_session_fits(const struct vault_session *session, const struct policy *newer) {
        cleanup(mappings_done) mappings m = { 0 };
        return mappings_of(newer, &m, NULL) == 0 && mappings_equal(&m, &session->mappings) &&
               (session->process != NULL) == vault_session_is_wanted(newer);
}

void vault_session_close(struct vault_session *session) {
        vault_process_free(session->process);
        if (session->directory && tree_remove(AT_FDCWD, session->directory) < 0)
                log_error("cannot remove %s", session->directory);

        close_fd(&session->lock);
        close_fd(&session->credentials);
        text_list_done(&session->stand_ins);
        text_list_done(&session->base_urls);
        text_list_done(&session->strip);
        text_list_done(&session->places);
        text_list_done(&session->tool_places);
        mappings_done(&session->mappings);
        trust_store_done(&session->roots);
        free(session->directory);
        free(session->bundle);
        free(session->java);

        struct gateway_process *const *gateway = session->gateway;
        struct audit *const *audit = session->audit;
        *session = VAULT_SESSION_NONE;
        session->gateway = gateway;
        session->audit = audit;
}

void vault_session_env(const struct vault_session *session, struct env_input *in) {
        in->ca_bundle = session->bundle;
        in->java_trust_store = session->java;
        if (in->transparent) /* the API proxy listens inside */
                in->base_urls = (const char *const *)session->base_urls.p;
        in->stand_ins = (const char *const *)session->stand_ins.p;
        in->strip = (const char *const *)session->strip.p;
}

void vault_session_gateway(const struct vault_session *session, struct gateway_settings *settings) {
        settings->vault = session->process;
        settings->credentials = session->credentials;
}

void vault_session_watch(const struct vault_session *session, struct poller *poller) {
        if (session->process)
                vault_process_watch(session->process, poller);
}

void vault_session_step(struct vault_session *session, const struct poller *poller) {
        if (session->process)
                vault_process_step(session->process, poller);
}
