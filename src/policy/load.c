/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/load.h"

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/path.h"
#include "conf/dirs.h"
#include "conf/suggest.h"
#include "conf/trust.h"
#include "conf/yaml.h"
#include "policy/apply.h"
#include "policy/approved.h"
#include "policy/browser.h"
#include "policy/credential.h"
#include "policy/file.h"
#include "policy/forges.h"
#include "policy/home_kind.h"
#include "policy/mirrors.h"
#include "policy/moved.h"
#include "policy/presets.h"
#include "policy/profile.h"
#include "policy/ratchet.h"
#include "policy/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * One struct policy is filled layer by layer. What a value means is in policy/apply.c, how a file is read in
 * policy/file.c; here is only the order, and what each layer is trusted with.
 */

static const char workspace_file_name[] = ".bailey.yaml";

struct loader {
        const struct policy_request *request;
        struct policy *policy;
        struct option_values variables;
        char *current; /* the current directory */
        struct policy_file user, workspace;
        bool mode_by_hand; /* a variable, the command line or the call named the mode */
};

static void loader_done(struct loader *l) {
        policy_free(l->policy);
        option_values_done(&l->variables);
        free(l->current);
        policy_file_done(&l->user);
        policy_file_done(&l->workspace);
}

/* The policy is said to be this and nothing else: no variable, no file that happens to be there. */
static bool is_alone(const struct policy_request *q) {
        return q->only_file || q->only_text;
}

/* The text that the later layers (call, command line, variables) give for a row, or NULL. */
static const char *given(const struct loader *l, enum policy_row row) {
        const struct option_values *layers[] = { l->request->call, l->request->command_line, &l->variables };
        for (size_t i = 0; i < 3; i++)
                if (layers[i] && option_given(layers[i], &policy_rows[row]))
                        return option_get(layers[i], &policy_rows[row]);
        return NULL;
}

/* A directory that was removed still says where it was. */
static int current_is_unusable(const char *base, struct err *e) {
        int error = errno;
        char place[PATH_MAX] = ".";

        if (!base && readlink("/proc/self/cwd", place, sizeof place - 1) > 0)
                base = place;
        return err_set(e, error, "the current directory %s cannot be used: %s", show(str_of(base ? base : place)).text,
                       strerror(error));
}

static int find_workspace(struct loader *l, struct err *e) {
        const char *named = l->request->workspace ? l->request->workspace : given(l, ROW_WORKSPACE);
        const char *home = path_home();
        cleanup(free_ptr) char *expanded = NULL, *path = NULL;
        l->current = realpath(l->request->base ? l->request->base : ".", NULL);
        if (!l->current)
                return current_is_unusable(l->request->base, e);
        if (home && !(l->policy->home = str_dup(str_of(home))))
                return err_memory(e);
        if (named && (path_expand_home(str_of(named), home, &expanded) < 0 ||
                      !(path = expanded[0] == '/' || !expanded[0] ? str_dup(str_of(expanded))
                                                                  : path_join(l->current, expanded))))
                return err_set(e, EINVAL, "the workspace %s cannot be used", show(str_of(named)).text);
        l->policy->workspace = realpath(path ? path : l->current, NULL);
        l->policy->guest = l->request->guest;
        if (!l->policy->workspace)
                return err_errno(e, "the workspace %s cannot be used", show(str_of(named ? named : ".")).text);
        struct stat st;
        if (stat(l->policy->workspace, &st) < 0 || !S_ISDIR(st.st_mode))
                return err_set(e, ENOTDIR, "the workspace %s is not a directory",
                               show(str_of(l->policy->workspace)).text);
        return 0;
}

/* The user's file, or the one named instead; only the latter must exist. */
static int open_user_file(struct loader *l, struct err *e) {
        const char *named = l->request->only_file ? l->request->only_file : given(l, ROW_POLICY);
        if (l->request->only_text)
                return policy_file_text(&l->user, l->request->only_text, l->policy->workspace, "policy", e);
        if (named) {
                cleanup(free_ptr) char *expanded = NULL, *path = NULL;
                if (path_expand_home(str_of(named), l->policy->home, &expanded) < 0 ||
                    path_normalise(str_of(expanded), l->current, &path) < 0)
                        return err_set(e, EINVAL, "the policy file %s cannot be used", show(str_of(named)).text);
                return policy_file_open(&l->user, path, named, POLICY_FILE_REQUIRED, e);
        }
        cleanup(free_ptr) char *directory = NULL;
        int r = dirs_config(&directory);
        if (r == -ENOENT)
                return 0; /* no home, no file of the user's */
        cleanup(free_ptr) char *path = directory ? path_join(directory, "config.yaml") : NULL;
        if (!path)
                return err_memory(e);
        const char *home = l->policy->home;
        bool below = home && strlen(home) > 1 && path_is_within(path, home);
        cleanup(free_ptr) char *shown = str_format("%s%s", below ? "~" : "", below ? path + strlen(home) : path);
        r = shown ? policy_file_open(&l->user, path, shown, 0, e) : err_memory(e);
        if (r < 0 || !l->user.document)
                return r;
        /* It holds for every workspace: what is relative in it means the workspace at hand, never Bailey's own
         * directory. */
        free(l->user.base);
        l->user.base = str_dup(str_of(l->policy->workspace));
        return l->user.base ? 0 : err_memory(e);
}

static int open_workspace_file(struct loader *l, struct err *e) {
        const char *wanted = given(l, ROW_WORKSPACE_POLICY);
        if (is_alone(l->request) || l->request->guest ||
            (wanted && !option_number(&policy_rows[ROW_WORKSPACE_POLICY], str_of(wanted))))
                return 0;
        cleanup(free_ptr) char *path = path_join(l->policy->workspace, workspace_file_name);
        l->workspace.untrusted = true;
        return path ? policy_file_open(&l->workspace, path, workspace_file_name, POLICY_FILE_NO_LINK, e)
                    : err_memory(e);
}

static int apply_values(struct loader *l, const struct option_values *values, struct err *e) {
        for (size_t i = 0; values && i < values->values.n; i++) {
                const struct option_value *v = &values->values.p[i];
                if (v->option < policy_rows || v->option >= policy_rows + POLICY_ROWS)
                        continue;
                enum policy_row row = (enum policy_row)(v->option - policy_rows);
                l->mode_by_hand = l->mode_by_hand || row == ROW_MODE;
                int r = policy_apply(l->policy, row, str_of(v->text), v->origin, l->current, e);
                if (r < 0)
                        return err_wrap(e, r, "%s", v->origin);
        }
        return 0;
}

static int apply_preset_values(struct loader *l, const struct preset *preset, const char *origin, struct err *e) {
        for (size_t i = 0; i < preset->n; i++) {
                const struct preset_value *v = &preset->values[i];
                int r = policy_apply(l->policy, v->row, str_of(v->text), origin, "/", e);
                if (r < 0)
                        return err_wrap(e, r, "%s", origin);
        }
        return 0;
}

static int apply_defaults(struct loader *l, struct err *e) {
        for (unsigned row = 0; row < POLICY_ROWS; row++) {
                const char *text = policy_rows[row].fallback;
                int r = text ? policy_apply(l->policy, (enum policy_row)row, str_of(text), NULL, "/", e) : 0;
                if (r < 0)
                        return err_wrap(e, r, "default of %s", option_name(&policy_rows[row]));
        }
        return 0;
}

/* The preset lies under everything, whichever layer names it. */
static int apply_preset(struct loader *l, struct err *e) {
        const char *name = given(l, ROW_PRESET);
        struct str text = name ? str_of(name) : policy_file_preset(&l->workspace);
        if (text.n == 0)
                text = policy_file_preset(&l->user);
        if (text.n == 0)
                text = str_of(policy_rows[ROW_PRESET].fallback);
        const struct preset *preset = preset_find(text, NULL);
        if (!preset)
                return 0; /* the layer that names it is refused with its place when its turn comes */
        char origin[64];
        snprintf(origin, sizeof origin, "preset %s", preset->name);
        return apply_preset_values(l, preset, origin, e);
}

/* Nobody named a profile for this run: the program's own is taken. A person who wants none says so. */
static int choose_profile(struct loader *l, struct err *e) {
        cleanup(free_ptr) char *name = NULL;
        int r;

        if (!l->request->program || given(l, ROW_PROFILE))
                return 0;
        for (size_t i = 0; i < l->policy->profiles.n; i++)
                if (strcmp(l->policy->profiles.p[i].text, PROFILE_NONE) == 0)
                        return 0;

        r = profile_of_program(l->request->program, l->policy->workspace, &name, e);
        if (r < 0 || !name)
                return r;
        for (size_t i = 0; i < l->policy->profiles.n; i++)
                if (strcmp(l->policy->profiles.p[i].text, name) == 0)
                        return 0;
        return origin_texts_add(&l->policy->profiles, str_of(name), PROFILE_BY_PROGRAM) < 0 ? err_memory(e) : 0;
}

static bool is_named_before(const origin_texts *list, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (strcmp(list->p[k].text, list->p[i].text) == 0)
                        return true;
        return false;
}

/* What the agents' profiles add; each knows who asked for it. */
static int apply_profiles(struct loader *l, struct err *e) {
        int r = choose_profile(l, e);

        for (size_t i = 0; i < l->policy->profiles.n && r == 0; i++) {
                const struct origin_text *named = &l->policy->profiles.p[i];
                cleanup(profile_done) struct profile profile = { 0 };

                if (strcmp(named->text, PROFILE_NONE) == 0 || is_named_before(&l->policy->profiles, i))
                        continue;
                cleanup(free_ptr) char *origin = str_format("profile %s in %s", named->text, named->origin);
                if (!origin)
                        return err_memory(e);
                r = profile_open(str_of(named->text), &profile, e);
                if (r == 0)
                        r = profile_apply(&profile, l->policy, origin, e);
        }
        return r;
}

static int refuse_widening(const struct policy_file *f, struct err *e) {
        enum { SHOWN = 4 };
        cleanup(buf_done) struct buf list = BUF(2048);
        for (size_t i = 0; i < f->widenings.n && i < SHOWN; i++) {
                const struct widening *w = &f->widenings.p[i];
                buf_printf(&list, "%s %s: %s %s", i ? ";" : "", w->place, w->key, show(str_of(w->text)).text);
        }
        if (f->widenings.n > SHOWN)
                buf_printf(&list, "; and %zu more", f->widenings.n - SHOWN);
        return err_set(e, EPERM,
                       "the workspace's %s asks for more than you granted:%.*s. If you want that, run 'bailey trust'; "
                       "--no-workspace-policy leaves the file out",
                       workspace_file_name, STR_FMT(buf_str(&list)));
}

/* Content and list files together: a list that changes is a file that changes. */
static int digest_of(const struct loader *l, char ret[static DIGEST_HEX_MAX]) {
        unsigned char digest[DIGEST_BYTES];
        digest_sha256(buf_str(&l->workspace.content), digest);
        for (size_t i = l->workspace.allow_files_before; i < l->workspace.allow_files_after; i++) {
                const struct pattern_file *f = &l->policy->network.allow_files.p[i];
                digest_sha256_pair(str_n(digest, sizeof digest), str_n(f->content, f->n), digest);
        }
        digest_hex(digest, ret);
        return 0;
}

static int is_trusted(const struct loader *l, bool *ret, struct err *e) {
        cleanup(trust_list_done) struct trust_list list = { 0 };
        char digest[DIGEST_HEX_MAX];
        int r = trust_load(&list, e);
        r = r < 0 ? r : digest_of(l, digest);
        if (r == 0)
                *ret = trust_has(&list, l->workspace.path, digest);
        return r;
}

static int require_trust(const struct loader *l, struct err *e) {
        bool trusted = false;
        if (l->workspace.widenings.n == 0)
                return 0;
        int r = is_trusted(l, &trusted, e);
        return r < 0 ? r : trusted ? 0 : refuse_widening(&l->workspace, e);
}

/* What a person said yes or no to before, for this workspace or for all. */
static int apply_approved(struct loader *l, struct err *e) {
        cleanup(approved_done) struct approved rules = { 0 };
        cleanup(free_ptr) char *path = NULL;
        int r = l->request->only_file && !l->request->remembered ? -ENOENT : approved_path(&path);
        if (r < 0)
                return r == -ENOENT ? 0 : err_memory(e);
        r = approved_read(path, &rules, e);
        return r < 0 ? r : approved_apply(&rules, l->policy, e);
}

/* Layers up to and with the workspace file. */
static int load_files(struct loader *l, struct err *e) {
        l->policy = calloc(1, sizeof *l->policy);
        if (!l->policy)
                return err_memory(e);
        int r = is_alone(l->request) ? 0 : option_parse_env(policy_tables, POLICY_TABLES, &l->variables, e);
        r = r < 0 ? r : find_workspace(l, e);
        r = r < 0 ? r : open_user_file(l, e);
        r = r < 0 ? r : open_workspace_file(l, e);
        r = r < 0 ? r : apply_defaults(l, e);
        r = r < 0 ? r : apply_preset(l, e);
        r = r < 0 ? r : policy_file_apply(&l->user, l->policy, e);
        r = r < 0 ? r : apply_approved(l, e);
        return r < 0 ? r : policy_file_apply(&l->workspace, l->policy, e);
}

static const struct agent_role *find_role(const struct policy *p, struct err *e) {
        struct suggestion s = suggest_for(str_of(p->agent));
        for (size_t i = p->agents.n; i-- > 0;) { /* the last layer that describes it counts */
                if (strcmp(p->agents.p[i].name, p->agent) == 0)
                        return &p->agents.p[i];
                suggest_offer(&s, p->agents.p[i].name);
        }
        err_set(e, ENOENT, "%s: there is no role %s under agents%s",
                p->origins[ROW_AGENT] ? p->origins[ROW_AGENT] : "agent", show(str_of(p->agent)).text,
                suggest_text(&s, "").text);
        return NULL;
}

/* The role's network access is a mode, unless somebody said the mode by hand. */
static int apply_role(struct loader *l, struct err *e) {
        static const struct {
                const char *access;
                enum policy_mode mode;
        } modes[] = { { "sandboxed", MODE_WORKSPACE_WRITE },
                      { "whitelist", MODE_WORKSPACE_WRITE_WHITELIST },
                      { "full", MODE_FULL_NETWORK } };
        const struct agent_role *role = l->policy->agent ? find_role(l->policy, e) : NULL;
        if (!role || l->mode_by_hand)
                return role || !l->policy->agent ? 0 : -ENOENT;
        cleanup(free_ptr) char *origin = str_format("agents.%s in %s", role->name, role->origin);
        if (!origin)
                return err_memory(e);
        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
                if (strcmp(role->network_access, modes[i].access) == 0)
                        return policy_apply(l->policy, ROW_MODE, str_of(policy_mode_name(modes[i].mode)), origin, "/",
                                            e);
        return err_set(e, EINVAL, "%s: unknown network access", role->origin);
}

static int hide_home(struct policy *p, const char *path, struct err *e) {
        bool granted = p->workspace && strcmp(p->workspace, path) == 0;

        if (granted || !home_can_cover(path) || path_is_within(p->home_inside, path))
                return 0;
        for (size_t i = 0; i < p->filesystem.hidden_homes.n; i++)
                if (path_is_within(path, p->filesystem.hidden_homes.p[i].text))
                        return 0;
        return origin_texts_add(&p->filesystem.hidden_homes, str_of(path), "default") < 0 ? err_memory(e) : 0;
}

/* A line of /etc/passwd: name, password, uid, gid, comment, home, shell. */
static int hide_account(struct policy *p, struct str line, uid_t own, struct err *e) {
        enum { PEOPLE_FROM = 1000, NOBODY = 65534, FIELDS = 6, UID = 2, HOME = 5 };
        struct str fields[FIELDS];
        uint64_t uid;
        cleanup(free_ptr) char *path = NULL;
        int r;

        for (size_t i = 0; i < FIELDS; i++)
                if (!str_split(&line, ':', &fields[i]))
                        return 0;
        if (!str_to_u64(fields[UID], UINT32_MAX, &uid) || fields[HOME].n < 2 || fields[HOME].p[0] != '/')
                return 0;
        if (uid != own && uid != 0 && (uid < PEOPLE_FROM || uid == NOBODY))
                return 0;

        r = path_normalise(fields[HOME], NULL, &path);
        if (r == -ENOMEM)
                return err_memory(e);
        return r < 0 ? 0 : hide_home(p, path, e);
}

/* Where credentials are kept when a variable says so; a list has colons between. */
static int hide_named_places(struct policy *p, struct err *e) {
        static const char *const variables[] = { "XDG_CONFIG_HOME",    "XDG_DATA_HOME",
                                                 "XDG_STATE_HOME",     "GNUPGHOME",
                                                 "KUBECONFIG",         "AWS_SHARED_CREDENTIALS_FILE",
                                                 "AWS_CONFIG_FILE",    "CLOUDSDK_CONFIG",
                                                 "AZURE_CONFIG_DIR",   "DOCKER_CONFIG",
                                                 "GH_CONFIG_DIR",      "NETRC",
                                                 "PGPASSFILE",         "NPM_CONFIG_USERCONFIG",
                                                 "CLAUDE_CONFIG_DIR",  "CODEX_HOME",
                                                 "PASSWORD_STORE_DIR", "GOOGLE_APPLICATION_CREDENTIALS" };
        int r = 0;

        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
                struct str rest = str_of(getenv(variables[i])), part;
                while (r == 0 && str_split(&rest, ':', &part)) {
                        cleanup(free_ptr) char *path = NULL;
                        if (part.n < 2 || part.p[0] != '/')
                                continue;
                        r = path_normalise(part, NULL, &path);
                        if (r == -ENOMEM)
                                return err_memory(e);
                        r = r < 0 || path_is_within(path, p->home_inside) ? 0 : hide_home(p, path, e);
                }
        }
        return r;
}

/* Homes of people, wherever /etc/passwd says that they are, and where they usually are. */
static int find_other_homes(struct policy *p, struct err *e) {
        enum { PASSWD_MAX = 4 << 20 };
        static const char *const usual[] = { "/home", "/root" };
        cleanup(buf_done) struct buf accounts = BUF(PASSWD_MAX);
        struct str rest, line;
        int r = 0;

        for (size_t i = 0; i < sizeof usual / sizeof *usual && r == 0 && home_is_own(p); i++)
                if ((!p->workspace || strcmp(p->workspace, usual[i]) != 0) && strcmp(p->home_inside, usual[i]) != 0)
                        r = origin_texts_add(&p->filesystem.hidden_homes, str_of(usual[i]), "default");
        if (r < 0)
                return err_memory(e);

        r = home_is_own(p) ? hide_named_places(p, e) : 0;
        if (r < 0)
                return r;
        r = path_read_file("/etc/passwd", PASSWD_MAX, &accounts, NULL);
        if (r < 0)
                return r == -ENOMEM ? err_memory(e) : 0;
        r = 0;
        rest = buf_str(&accounts);
        const uid_t own = getuid();
        while (r == 0 && str_split(&rest, '\n', &line))
                r = hide_account(p, line, own, e);
        return r;
}

/* Where the home is inside: at its own path, links resolved, unless that is no place for one. */
static int place_home(struct policy *p, struct err *e) {
        struct stat st;
        cleanup(free_ptr) char *real = p->home ? realpath(p->home, NULL) : NULL;

        if (p->home && !real && errno == ENOMEM)
                return err_memory(e);
        if (real && stat(real, &st) == 0 && S_ISDIR(st.st_mode) && home_can_cover(real))
                p->home_inside = take_ptr(&real);
        else
                p->home_inside = str_dup(STR(HOME_PLACE));
        return p->home_inside ? 0 : err_memory(e);
}

static int refuse_home_grant(const struct policy *p, const origin_texts *grants, const char *flag, struct err *e) {
        for (size_t i = 0; i < grants->n; i++) {
                const char *text = grants->p[i].text;
                if (strcmp(text, p->home_inside) == 0 || (p->home && strcmp(text, p->home) == 0))
                        return err_set(e, EINVAL,
                                       "%s: %s %s is the whole home directory, and the sandbox has a home of its own; "
                                       "name what it needs below it, or add --home real to use yours",
                                       grants->p[i].origin, flag, text);
        }
        return 0;
}

static int settle_home(struct loader *l, struct err *e) {
        struct policy *p = l->policy;
        int r;

        r = place_home(p, e);
        if (r < 0)
                return r;
        if (moved_find(p) < 0)
                return err_memory(e);
        if (l->request->network_only || !home_is_own(p))
                return find_other_homes(p, e);

        if (strcmp(p->workspace, p->home_inside) == 0)
                return err_set(
                    e, EINVAL,
                    "the workspace is your home directory, so that all of it could be read and written; go "
                    "to a directory below it or name one with --workspace (--home real uses the home itself)");
        r = refuse_home_grant(p, &p->filesystem.read, "read", e);
        if (r < 0)
                return r;
        r = refuse_home_grant(p, &p->filesystem.write, "write", e);
        return r < 0 ? r : find_other_homes(p, e);
}

static int finish(struct loader *l, struct err *e) {
        int r = apply_profiles(l, e);
        r = r < 0 ? r : forges_expand(l->policy, e);
        r = r < 0 ? r : tools_complete(l->policy, e);
        r = r < 0 ? r : apply_role(l, e);
        if (r < 0)
                return r;
        bool writes = l->policy->mode != MODE_READ_ONLY;
        if (writes && !l->request->network_only && !l->request->only_file && strcmp(l->policy->workspace, "/") == 0)
                return err_set(e, EINVAL,
                               "the workspace is the root directory, so that everything could be written; "
                               "go to a directory or name one with --workspace");
        r = settle_home(l, e);
        if (r < 0)
                return r;
        r = policy_check_no_intercept(l->policy, e);
        if (r == 0)
                r = browser_settle(l->policy, e);
        if (r == 0)
                r = ratchet_settle(l->policy, e);
        if (r < 0)
                return r;
        return mirrors_find(l->policy, "", e);
}

int policy_load(const struct policy_request *request, struct policy **ret, struct err *e) {
        cleanup(loader_done) struct loader l = { .request = request };
        const struct option_values *const later[] = { [LAYER_VARIABLES] = &l.variables,
                                                      [LAYER_COMMAND_LINE] = request->command_line,
                                                      [LAYER_CALL] = request->call };
        enum policy_layer layer = LAYER_FILES;
        int r = load_files(&l, e);
        r = r < 0 ? r : require_trust(&l, e);
        while (r == 0 && layer < LAYER_CALL)
                r = apply_values(&l, later[++layer], e);
        if (request->ret_layer)
                *request->ret_layer = r < 0 ? layer : LAYER_FILES;
        r = r < 0 ? r : finish(&l, e);
        if (r < 0)
                return r;
        l.policy->file = l.user.document ? take_ptr(&l.user.path) : NULL;
        *ret = take_ptr(&l.policy);
        return 0;
}

void workspace_file_done(struct workspace_file *w) {
        free(w->path);
        for (size_t i = 0; i < w->widenings.n; i++)
                widening_done(&w->widenings.p[i]);
        vec_done(&w->widenings);
}

int policy_examine_workspace(const struct policy_request *request, struct workspace_file *ret, struct err *e) {
        cleanup(loader_done) struct loader l = { .request = request };
        cleanup(workspace_file_done) struct workspace_file w = { 0 };
        int r = load_files(&l, e);
        if (r < 0)
                return r;
        if (l.workspace.document) {
                r = digest_of(&l, w.digest);
                r = r < 0 ? r : is_trusted(&l, &w.trusted, e);
                if (r < 0)
                        return r;
                w.path = take_ptr(&l.workspace.path);
                w.widenings.p = take_ptr(&l.workspace.widenings.p);
                w.widenings.n = l.workspace.widenings.n;
                l.workspace.widenings.n = 0;
        }
        *ret = w;
        w = (struct workspace_file){ 0 };
        return 0;
}
