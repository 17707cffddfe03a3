/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/load.h"

#include "base/cleanup.h"
#include "base/paths/path.h"
#include "base/secrets/digest.h"
#include "conf/dirs.h"
#include "conf/suggest.h"
#include "conf/trust.h"
#include "conf/yaml.h"
#include "policy/apply.h"
#include "policy/approved.h"
#include "policy/credential.h"
#include "policy/file.h"
#include "policy/git/forges.h"
#include "policy/home_kind.h"
#include "policy/judge/ratchet.h"
#include "policy/paths/mirrors.h"
#include "policy/paths/moved.h"
#include "policy/presets.h"
#include "policy/profile/profile.h"
#include "policy/tools/browser.h"
#include "policy/tools/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Fills one struct policy layer by layer. policy/apply.c interprets values and policy/file.c reads files; this file has
 * only the order, and the trust in each layer.
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

static void loader_done(struct loader *loader) {
        policy_free(loader->policy);
        option_values_done(&loader->variables);
        free(loader->current);
        policy_file_done(&loader->user);
        policy_file_done(&loader->workspace);
}

/* The policy is said to be this and nothing else: no variable, no file that happens to be there. */
static bool is_alone(const struct policy_request *request) {
        return request->only_file || request->only_text;
}

/* The text that the later layers (call, command line, variables) give for a row, or NULL. */
static const char *load_given(const struct loader *loader, enum policy_row row) {
        const struct option_values *layers[] = { loader->request->call, loader->request->command_line,
                                                 &loader->variables };
        for (size_t i = 0; i < 3; i++)
                if (layers[i] && option_given(layers[i], &policy_rows[row]))
                        return option_get(layers[i], &policy_rows[row]);
        return NULL;
}

/* A directory that was removed still says where it was. */
static int current_is_unusable(const char *base, struct err *err) {
        int error = errno;
        char place[PATH_MAX] = ".";

        if (!base && readlink("/proc/self/cwd", place, sizeof place - 1) > 0)
                base = place;
        return err_set(err, error, "the current directory %s cannot be used: %s",
                       show(str_of(base ? base : place)).text, strerror(error));
}

static int find_workspace(struct loader *loader, struct err *err) {
        const char *named = loader->request->workspace ? loader->request->workspace : load_given(loader, ROW_WORKSPACE);
        const char *home = path_home();
        cleanup(free_ptr) char *expanded = NULL, *path = NULL;

        loader->current = realpath(text_or(loader->request->base, "."), NULL);
        if (!loader->current)
                return current_is_unusable(loader->request->base, err);
        if (home && !(loader->policy->home = str_dup(str_of(home))))
                return err_memory(err);

        if (named && (path_expand_home(str_of(named), home, &expanded) < 0 ||
                      !(path = expanded[0] == '/' || !expanded[0] ? str_dup(str_of(expanded))
                                                                  : path_join(loader->current, expanded))))
                return err_set(err, EINVAL, "the workspace %s cannot be used", show(str_of(named)).text);

        loader->policy->workspace = realpath(path ? path : loader->current, NULL);
        loader->policy->guest = loader->request->guest;
        if (!loader->policy->workspace)
                return err_errno(err, "the workspace %s cannot be used", show(str_of(text_or(named, "."))).text);

        struct stat st;

        if (stat(loader->policy->workspace, &st) < 0 || !S_ISDIR(st.st_mode))
                return err_set(err, ENOTDIR, "the workspace %s is not a directory",
                               show(str_of(loader->policy->workspace)).text);

        return 0;
}

/* The user's file, or the one named instead; only the latter must exist. */
static int open_user_file(struct loader *loader, struct err *err) {
        const char *named = loader->request->only_file ? loader->request->only_file : load_given(loader, ROW_POLICY);

        if (loader->request->only_text)
                return policy_file_text(&loader->user, loader->request->only_text, loader->policy->workspace, "policy",
                                        err);

        if (named) {
                cleanup(free_ptr) char *expanded = NULL, *path = NULL;
                if (path_expand_home(str_of(named), loader->policy->home, &expanded) < 0 ||
                    path_normalise(str_of(expanded), loader->current, &path) < 0)
                        return err_set(err, EINVAL, "the policy file %s cannot be used", show(str_of(named)).text);
                return policy_file_open(&loader->user, path, named, POLICY_FILE_REQUIRED, err);
        }

        cleanup(free_ptr) char *directory = NULL;
        int r = dirs_config(&directory);
        if (r == -ENOENT)
                return 0; /* no home, no file of the user's */

        cleanup(free_ptr) char *path = directory ? path_join(directory, "config.yaml") : NULL;
        if (!path)
                return err_memory(err);

        const char *home = loader->policy->home;
        bool below = home && strlen(home) > 1 && path_is_within(path, home);
        cleanup(free_ptr) char *shown = below ? str_format("~%s", path + strlen(home)) : str_dup(str_of(path));
        if (shown)
                r = policy_file_open(&loader->user, path, shown, 0, err);
        else
                r = err_memory(err);
        if (r < 0 || !loader->user.document)
                return r;

        /* It holds for every workspace: what is relative in it means the workspace at hand, never Bailey's own
         * directory. */
        free(loader->user.base);
        loader->user.base = str_dup(str_of(loader->policy->workspace));

        if (!loader->user.base)
                return err_memory(err);

        return 0;
}

static int open_workspace_file(struct loader *loader, struct err *err) {
        const char *wanted = load_given(loader, ROW_WORKSPACE_POLICY);

        if (is_alone(loader->request) || loader->request->guest ||
            (wanted && !option_number(&policy_rows[ROW_WORKSPACE_POLICY], str_of(wanted))))
                return 0;

        cleanup(free_ptr) char *path = path_join(loader->policy->workspace, workspace_file_name);
        loader->workspace.untrusted = true;

        if (!path)
                return err_memory(err);

        return policy_file_open(&loader->workspace, path, workspace_file_name, POLICY_FILE_NO_LINK, err);
}

static int apply_values(struct loader *loader, const struct option_values *values, struct err *err) {
        for (size_t i = 0; values && i < values->values.n; i++) {
                const struct option_value *value = &values->values.p[i];
                if (value->option < policy_rows || value->option >= policy_rows + POLICY_ROWS)
                        continue;

                enum policy_row row = (enum policy_row)(value->option - policy_rows);
                loader->mode_by_hand = loader->mode_by_hand || row == ROW_MODE;
                int r = policy_apply(loader->policy, row, str_of(value->text), value->origin, loader->current, err);
                if (r < 0)
                        return err_wrap(err, r, "%s", value->origin);
        }

        return 0;
}

static int apply_preset_values(struct loader *loader, const struct preset *preset, const char *origin,
                               struct err *err) {
        for (size_t i = 0; i < preset->n; i++) {
                const struct preset_value *value = &preset->values[i];
                int r = policy_apply(loader->policy, value->row, str_of(value->text), origin, "/", err);
                if (r < 0)
                        return err_wrap(err, r, "%s", origin);
        }

        return 0;
}

static int apply_defaults(struct loader *loader, struct err *err) {
        for (unsigned row = 0; row < POLICY_ROWS; row++) {
                const char *text = policy_rows[row].fallback;
                int r = 0;

                if (text)
                        r = policy_apply(loader->policy, (enum policy_row)row, str_of(text), NULL, "/", err);

                if (r < 0)
                        return err_wrap(err, r, "default of %s", option_name(&policy_rows[row]));
        }
        return 0;
}

/* The preset lies under everything, whichever layer names it. */
static int apply_preset(struct loader *loader, struct err *err) {
        const char *name = load_given(loader, ROW_PRESET);
        struct str text = name ? str_of(name) : policy_file_preset(&loader->workspace);
        if (text.n == 0)
                text = policy_file_preset(&loader->user);
        if (text.n == 0)
                text = str_of(policy_rows[ROW_PRESET].fallback);

        const struct preset *preset = preset_find(text, NULL);
        if (!preset)
                return 0; /* the layer that names it is refused with its place when its turn comes */

        char origin[64];
        snprintf(origin, sizeof origin, "preset %s", preset->name);

        return apply_preset_values(loader, preset, origin, err);
}

/* Nobody named a profile for this run: the program's own is taken. A person who wants none says so. */
static int choose_profile(struct loader *loader, struct err *err) {
        cleanup(free_ptr) char *name = NULL;
        int r;

        if (!loader->request->program || load_given(loader, ROW_PROFILE))
                return 0;

        for (size_t i = 0; i < loader->policy->profiles.n; i++)
                if (strcmp(loader->policy->profiles.p[i].text, PROFILE_NONE) == 0)
                        return 0;

        r = profile_of_program(loader->request->program, loader->policy->workspace, &name, err);
        if (r < 0 || !name)
                return r;

        for (size_t i = 0; i < loader->policy->profiles.n; i++)
                if (strcmp(loader->policy->profiles.p[i].text, name) == 0)
                        return 0;

        if (origin_texts_add(&loader->policy->profiles, str_of(name), PROFILE_BY_PROGRAM) < 0)
                return err_memory(err);

        return 0;
}

static bool is_named_before(const origin_texts *list, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (strcmp(list->p[k].text, list->p[i].text) == 0)
                        return true;
        return false;
}

/* Adds the agents' profiles; each entry records who asked for it. */
static int apply_profiles(struct loader *loader, struct err *err) {
        int r = choose_profile(loader, err);

        for (size_t i = 0; i < loader->policy->profiles.n && r == 0; i++) {
                const struct origin_text *named = &loader->policy->profiles.p[i];
                cleanup(profile_done) struct profile profile = { 0 };

                if (strcmp(named->text, PROFILE_NONE) == 0 || is_named_before(&loader->policy->profiles, i))
                        continue;

                cleanup(free_ptr) char *origin = str_format("profile %s in %s", named->text, named->origin);
                if (!origin)
                        return err_memory(err);

                r = profile_open(str_of(named->text), &profile, err);
                if (r == 0)
                        r = profile_apply(&profile, loader->policy, origin, err);
        }

        return r;
}

static int refuse_widening(const struct policy_file *file, struct err *err) {
        enum { SHOWN = 4 };
        cleanup(buf_done) struct buf list = BUF(2048);

        for (size_t i = 0; i < file->widenings.n && i < SHOWN; i++) {
                const struct widening *widening = &file->widenings.p[i];
                buf_printf(&list, "%s %s: %s %s", i ? ";" : "", widening->place, widening->key,
                           show(str_of(widening->text)).text);
        }

        if (file->widenings.n > SHOWN)
                buf_printf(&list, "; and %zu more", file->widenings.n - SHOWN);

        return err_set(err, EPERM,
                       "the workspace's %s asks for more than you granted:%.*s. If you want that, run 'bailey trust'; "
                       "--no-workspace-policy leaves the file out",
                       workspace_file_name, STR_FMT(buf_str(&list)));
}

/* Content and list files together: a list that changes is a file that changes. */
static int digest_of(const struct loader *loader, char ret[static DIGEST_HEX_MAX]) {
        unsigned char digest[DIGEST_BYTES];

        digest_sha256(buf_str(&loader->workspace.content), digest);

        for (size_t i = loader->workspace.allow_files_before; i < loader->workspace.allow_files_after; i++) {
                const struct pattern_file *file = &loader->policy->network.allow_files.p[i];
                digest_sha256_pair(str_n(digest, sizeof digest), str_n(file->content, file->n), digest);
        }

        digest_hex(digest, ret);
        return 0;
}

static int is_trusted(const struct loader *loader, bool *ret, struct err *err) {
        cleanup(trust_list_done) struct trust_list list = { 0 };
        char digest[DIGEST_HEX_MAX];
        int r = trust_load(&list, err);
        if (r < 0)
                return r;
        r = digest_of(loader, digest);
        if (r == 0)
                *ret = trust_has(&list, loader->workspace.path, digest);
        return r;
}

static int require_trust(const struct loader *loader, struct err *err) {
        bool trusted = false;

        if (loader->workspace.widenings.n == 0)
                return 0;

        int r = is_trusted(loader, &trusted, err);
        if (r < 0)
                return r;

        if (trusted)
                return 0;

        return refuse_widening(&loader->workspace, err);
}

/* Earlier answers of a person, for this workspace or for all. */
static int apply_approved(struct loader *loader, struct err *err) {
        cleanup(approved_done) struct approved rules = { 0 };
        cleanup(free_ptr) char *path = NULL;
        int r = loader->request->only_file && !loader->request->remembered ? -ENOENT : approved_path(&path);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return err_memory(err);

        r = approved_read(path, &rules, err);
        if (r < 0)
                return r;

        return approved_apply(&rules, loader->policy, err);
}

/* Layers up to and with the workspace file. */
static int load_files(struct loader *loader, struct err *err) {
        loader->policy = calloc(1, sizeof *loader->policy);
        if (!loader->policy)
                return err_memory(err);

        int r = 0;

        if (!is_alone(loader->request))
                r = option_parse_env(policy_tables, POLICY_TABLES, &loader->variables, err);

        if (r < 0)
                return r;

        r = find_workspace(loader, err);
        if (r < 0)
                return r;

        r = open_user_file(loader, err);
        if (r < 0)
                return r;

        r = open_workspace_file(loader, err);
        if (r < 0)
                return r;

        r = apply_defaults(loader, err);
        if (r < 0)
                return r;

        r = apply_preset(loader, err);
        if (r < 0)
                return r;

        r = policy_file_apply(&loader->user, loader->policy, err);
        if (r < 0)
                return r;

        r = apply_approved(loader, err);
        if (r < 0)
                return r;

        return policy_file_apply(&loader->workspace, loader->policy, err);
}

static const struct agent_role *find_role(const struct policy *policy, struct err *err) {
        struct suggestion suggestion = suggest_for(str_of(policy->agent));

        for (size_t i = policy->agents.n; i-- > 0;) { /* the last layer that describes it counts */
                if (strcmp(policy->agents.p[i].name, policy->agent) == 0)
                        return &policy->agents.p[i];
                suggest_offer(&suggestion, policy->agents.p[i].name);
        }

        err_set(err, ENOENT, "%s: there is no role %s under agents%s", text_or(policy->origins[ROW_AGENT], "agent"),
                show(str_of(policy->agent)).text, suggest_text(&suggestion, "").text);
        return NULL;
}

/* The role's network access is a mode, unless somebody said the mode by hand. */
static int apply_role(struct loader *loader, struct err *err) {
        static const struct {
                const char *access;
                enum policy_mode mode;
        } modes[] = { { "sandboxed", MODE_WORKSPACE_WRITE },
                      { "whitelist", MODE_WORKSPACE_WRITE_WHITELIST },
                      { "full", MODE_FULL_NETWORK } };
        const struct agent_role *role = loader->policy->agent ? find_role(loader->policy, err) : NULL;
        if (!role || loader->mode_by_hand) {
                if (role || !loader->policy->agent)
                        return 0;
                return -ENOENT;
        }

        cleanup(free_ptr) char *origin = str_format("agents.%s in %s", role->name, role->origin);
        if (!origin)
                return err_memory(err);

        for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
                if (strcmp(role->network_access, modes[i].access) == 0)
                        return policy_apply(loader->policy, ROW_MODE, str_of(policy_mode_name(modes[i].mode)), origin,
                                            "/", err);

        return err_set(err, EINVAL, "%s: unknown network access", role->origin);
}

static int hide_home(struct policy *policy, const char *path, struct err *err) {
        bool granted = policy->workspace && strcmp(policy->workspace, path) == 0;

        if (granted || !home_can_cover(path) || path_is_within(policy->home_inside, path))
                return 0;

        for (size_t i = 0; i < policy->filesystem.hidden_homes.n; i++)
                if (path_is_within(path, policy->filesystem.hidden_homes.p[i].text))
                        return 0;

        if (origin_texts_add(&policy->filesystem.hidden_homes, str_of(path), "default") < 0)
                return err_memory(err);

        return 0;
}

/* A line of /etc/passwd: name, password, uid, gid, comment, home, shell. */
static int hide_account(struct policy *policy, struct str line, uid_t own, struct err *err) {
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
                return err_memory(err);

        if (r < 0)
                return 0;

        return hide_home(policy, path, err);
}

/* Where credentials are kept when a variable says so; a list has colons between. */
static int hide_named_places(struct policy *policy, struct err *err) {
        static const char *const variables[] = { "XDG_CONFIG_HOME",
                                                 "XDG_DATA_HOME",
                                                 "XDG_STATE_HOME",
                                                 "GNUPGHOME",
                                                 "KUBECONFIG",
                                                 "AWS_SHARED_CREDENTIALS_FILE",
                                                 "AWS_CONFIG_FILE",
                                                 "CLOUDSDK_CONFIG",
                                                 "AZURE_CONFIG_DIR",
                                                 "DOCKER_CONFIG",
                                                 "GH_CONFIG_DIR",
                                                 "NETRC",
                                                 "PGPASSFILE",
                                                 "NPM_CONFIG_USERCONFIG",
                                                 "CLAUDE_CONFIG_DIR",
                                                 "CODEX_HOME",
                                                 "GEMINI_CLI_HOME",
                                                 "QWEN_HOME",
                                                 "COPILOT_HOME",
                                                 "PI_CODING_AGENT_DIR",
                                                 "CONTINUE_GLOBAL_DIR",
                                                 "PASSWORD_STORE_DIR",
                                                 "GOOGLE_APPLICATION_CREDENTIALS" };
        int r = 0;

        for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
                struct str rest = str_of(getenv(variables[i])), part;
                while (r == 0 && str_split(&rest, ':', &part)) {
                        cleanup(free_ptr) char *path = NULL;

                        if (part.n < 2 || part.p[0] != '/')
                                continue;

                        r = path_normalise(part, NULL, &path);
                        if (r == -ENOMEM)
                                return err_memory(err);

                        if (r < 0 || path_is_within(path, policy->home_inside))
                                r = 0;
                        else
                                r = hide_home(policy, path, err);
                }
        }

        return r;
}

/* Homes of people, wherever /etc/passwd says that they are, and where they usually are. */
static int find_other_homes(struct policy *policy, struct err *err) {
        enum { PASSWD_MAX = 4 << 20 };
        static const char *const usual[] = { "/home", "/root" };
        cleanup(buf_done) struct buf accounts = BUF(PASSWD_MAX);
        struct str rest, line;
        int r = 0;

        for (size_t i = 0; i < sizeof usual / sizeof *usual && r == 0 && home_is_own(policy); i++)
                if ((!policy->workspace || strcmp(policy->workspace, usual[i]) != 0) &&
                    strcmp(policy->home_inside, usual[i]) != 0)
                        r = origin_texts_add(&policy->filesystem.hidden_homes, str_of(usual[i]), "default");

        if (r < 0)
                return err_memory(err);

        if (home_is_own(policy))
                r = hide_named_places(policy, err);
        else
                r = 0;
        if (r < 0)
                return r;

        r = path_read_file("/etc/passwd", PASSWD_MAX, &accounts, NULL);
        if (r == -ENOMEM)
                return err_memory(err);
        if (r < 0)
                return 0;

        r = 0;
        rest = buf_str(&accounts);
        const uid_t own = getuid();

        while (r == 0 && str_split(&rest, '\n', &line))
                r = hide_account(policy, line, own, err);

        return r;
}

/* Where the home is inside: at its own path, links resolved, unless that is no place for one. */
static int place_home(struct policy *policy, struct err *err) {
        struct stat st;
        cleanup(free_ptr) char *real = policy->home ? realpath(policy->home, NULL) : NULL;

        if (policy->home && !real && errno == ENOMEM)
                return err_memory(err);

        if (real && stat(real, &st) == 0 && S_ISDIR(st.st_mode) && home_can_cover(real))
                policy->home_inside = take_ptr(&real);
        else
                policy->home_inside = str_dup(STR(HOME_PLACE));

        if (!policy->home_inside)
                return err_memory(err);

        return 0;
}

static int refuse_home_grant(const struct policy *policy, const origin_texts *grants, const char *flag,
                             struct err *err) {
        for (size_t i = 0; i < grants->n; i++) {
                const char *text = grants->p[i].text;
                if (strcmp(text, policy->home_inside) == 0 || (policy->home && strcmp(text, policy->home) == 0))
                        return err_set(err, EINVAL,
                                       "%s: %s %s is the whole home directory, and the sandbox has a home of its own; "
                                       "name what it needs below it, or add --home real to use yours",
                                       grants->p[i].origin, flag, text);
        }

        return 0;
}

static int settle_home(struct loader *loader, struct err *err) {
        struct policy *policy = loader->policy;
        int r;

        r = place_home(policy, err);
        if (r < 0)
                return r;
        if (moved_find(policy) < 0)
                return err_memory(err);
        if (loader->request->network_only || !home_is_own(policy))
                return find_other_homes(policy, err);

        if (strcmp(policy->workspace, policy->home_inside) == 0)
                return err_set(
                    err, EINVAL,
                    "the workspace is your home directory, so that all of it could be read and written; go "
                    "to a directory below it or name one with --workspace (--home real uses the home itself)");

        r = refuse_home_grant(policy, &policy->filesystem.read, "read", err);
        if (r < 0)
                return r;

        r = refuse_home_grant(policy, &policy->filesystem.write, "write", err);
        if (r < 0)
                return r;

        return find_other_homes(policy, err);
}

static int load_finish(struct loader *loader, struct err *err) {
        int r = apply_profiles(loader, err);
        if (r < 0)
                return r;

        r = forges_expand(loader->policy, err);
        if (r < 0)
                return r;

        r = tools_complete(loader->policy, err);
        if (r < 0)
                return r;

        r = apply_role(loader, err);
        if (r < 0)
                return r;

        bool writes = loader->policy->mode != MODE_READ_ONLY;
        if (writes && !loader->request->network_only && !loader->request->only_file &&
            strcmp(loader->policy->workspace, "/") == 0)
                return err_set(err, EINVAL,
                               "the workspace is the root directory, so that everything could be written; "
                               "go to a directory or name one with --workspace");

        r = settle_home(loader, err);
        if (r < 0)
                return r;

        r = policy_check_no_intercept(loader->policy, err);
        if (r == 0)
                r = browser_settle(loader->policy, err);
        if (r == 0)
                r = ratchet_settle(loader->policy, err);
        if (r < 0)
                return r;

        return mirrors_find(loader->policy, "", err);
}

int policy_load(const struct policy_request *request, struct policy **ret, struct err *err) {
        cleanup(loader_done) struct loader l = { .request = request };
        const struct option_values *const later[] = { [LAYER_VARIABLES] = &l.variables,
                                                      [LAYER_COMMAND_LINE] = request->command_line,
                                                      [LAYER_CALL] = request->call };
        enum policy_layer layer = LAYER_FILES;
        int r = load_files(&l, err);

        if (r >= 0)
                r = require_trust(&l, err);
        while (r == 0 && layer < LAYER_CALL)
                r = apply_values(&l, later[++layer], err);

        if (request->ret_layer)
                *request->ret_layer = r < 0 ? layer : LAYER_FILES;

        if (r >= 0)
                r = load_finish(&l, err);
        if (r < 0)
                return r;

        l.policy->file = l.user.document ? take_ptr(&l.user.path) : NULL;
        *ret = take_ptr(&l.policy);

        return 0;
}

void workspace_file_done(struct workspace_file *file) {
        free(file->path);
        for (size_t i = 0; i < file->widenings.n; i++)
                widening_done(&file->widenings.p[i]);
        vec_done(&file->widenings);
}

int policy_examine_workspace(const struct policy_request *request, struct workspace_file *ret, struct err *err) {
        cleanup(loader_done) struct loader l = { .request = request };
        cleanup(workspace_file_done) struct workspace_file file = { 0 };
        int r = load_files(&l, err);
        if (r < 0)
                return r;

        if (l.workspace.document) {
                r = digest_of(&l, file.digest);
                if (r >= 0)
                        r = is_trusted(&l, &file.trusted, err);
                if (r < 0)
                        return r;

                file.path = take_ptr(&l.workspace.path);
                file.widenings.p = take_ptr(&l.workspace.widenings.p);
                file.widenings.n = l.workspace.widenings.n;
                l.workspace.widenings.n = 0;
        }

        *ret = file;
        file = (struct workspace_file){ 0 };

        return 0;
}
