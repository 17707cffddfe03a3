/* SPDX-License-Identifier: Apache-2.0 */
/* Names of containers, the directories that their rules are remembered for, and the lists, to be shown. */
#include "base/cleanup.h"
#include "base/emit.h"
#include "base/fd.h"
#include "base/paths/path.h"
#include "container/engine_container.h"
#include "container/engine_network.h"
#include "control/client.h"
#include "egress/containers.h"
#include "egress/egress.h"
#include "egress/egress_state.h"
#include "policy/approved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTAINERS_PLACE "containers"
enum { HOLD_TRIES = 5 };
static const char *const engines[] = { "docker", "podman" };

/*
 * Names and places.
 */
static int container_split(const char *text, char engine[static 8], char name[static ENGINE_NAME_MAX],
                           struct err *err) {
        const char *slash = strchr(text, '/'), *rest = slash ? slash + 1 : text;

        engine[0] = '\0';
        if (slash && strncmp(text, "docker/", 7) != 0 && strncmp(text, "podman/", 7) != 0)
                return err_set(err, EINVAL, "the engine before the container's name is docker or podman");
        if (slash)
                snprintf(engine, 8, "%.6s", text);

        if (!engine_name_valid(rest))
                return err_set(err, EINVAL,
                               "this is no container's name: letters, digits, '_', '.' and '-', at most %d of them",
                               ENGINE_NAME_MAX - 1);

        snprintf(name, ENGINE_NAME_MAX, "%s", rest);
        return 0;
}

int egress_container_directory(const char *engine, const char *name, bool make, char **ret, struct err *err) {
        cleanup(free_ptr) char *directory = NULL;
        int r;

        r = egress_directory(make, &directory, err);
        if (r < 0)
                return r;

        cleanup(free_ptr) char *all = path_join(directory, CONTAINERS_PLACE);
        cleanup(free_ptr) char *of_engine = all ? path_join(all, engine) : NULL;
        cleanup(free_ptr) char *own = of_engine ? path_join(of_engine, name) : NULL;
        if (!own)
                return err_memory(err);

        if (make) {
                r = path_make_private_dir(all, err);
                if (r == 0)
                        r = path_make_private_dir(of_engine, err);
                if (r == 0)
                        r = path_make_private_dir(own, err);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(&own);
        return 0;
}

static bool container_is_at(int fd, const char *place) {
        struct stat held, there;

        return fstat(fd, &held) == 0 && lstat(place, &there) == 0 && held.st_ino == there.st_ino &&
               held.st_dev == there.st_dev;
}

int egress_container_hold(const char *engine, const char *name, char **ret_place, int *ret_fd, struct err *err) {
        for (unsigned i = 0; i < HOLD_TRIES; i++) {
                cleanup(free_ptr) char *place = NULL;
                int r;

                r = egress_container_directory(engine, name, true, &place, err);
                if (r < 0)
                        return r;

                cleanup(close_fd) int fd = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd < 0 || flock(fd, LOCK_SH) < 0 || !container_is_at(fd, place))
                        continue; /* the process that had it has just left */

                *ret_place = take_ptr(&place);
                *ret_fd = take_fd(&fd);
                return 0;
        }

        return err_set(err, EBUSY, "the directory of the container %s/%s cannot be held", engine, name);
}

void egress_container_leave(const char *place, int fd) {
        cleanup(free_ptr) char *path = NULL;
        cleanup(approved_done) struct approved approved = { 0 };

        if (flock(fd, LOCK_EX | LOCK_NB) < 0) /* the next container of this name is here */
                return;
        if (approved_path(&path) < 0 || approved_read(path, &approved, NULL) < 0)
                return;

        for (size_t i = 0; i < approved.rules.n; i++)
                if (approved.rules.p[i].workspace && strcmp(approved.rules.p[i].workspace, place) == 0)
                        return;

        (void)rmdir(place); /* it holds nothing; what stays is only a name in the list */
}

static bool container_is_below(const char *place, const char *all) {
        size_t n = strlen(all);

        return strncmp(place, all, n) == 0 && place[n] == '/';
}

bool egress_containers_deny(void) {
        cleanup(free_ptr) char *path = NULL, *directory = NULL;
        cleanup(approved_done) struct approved approved = { 0 };

        if (approved_path(&path) < 0 || approved_read(path, &approved, NULL) < 0)
                return true;
        if (egress_directory(false, &directory, NULL) < 0)
                return true;

        cleanup(free_ptr) char *all = path_join(directory, CONTAINERS_PLACE);
        cleanup(free_ptr) char *real = all ? realpath(all, NULL) : NULL; /* where a link leads there */
        for (size_t i = 0; all && i < approved.rules.n; i++) {
                const struct approved_rule *rule = &approved.rules.p[i];

                if (rule->deny && rule->workspace &&
                    (container_is_below(rule->workspace, all) || (real && container_is_below(rule->workspace, real))))
                        return true;
        }

        return all == NULL;
}

/* Without a word about the engine: the one that has had a container of this name, else the one with the network. */
static int container_engine(const char *name, char engine[static 8], struct err *err) {
        struct engine_network network;
        unsigned n = 0;

        for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
                cleanup(free_ptr) char *path = NULL;
                struct stat st;

                if (egress_container_directory(engines[i], name, false, &path, err) == 0 && lstat(path, &st) == 0 &&
                    ++n)
                        snprintf(engine, 8, "%s", engines[i]);
        }

        if (n > 1)
                return err_set(err, EINVAL,
                               "docker and podman both have had a container %s: say docker/%s or podman/%s", name, name,
                               name);

        if (n == 0) {
                if (engine_network_find(ENGINE_NETWORK, &network, err) <= 0)
                        return err_set(
                            err, ENOENT,
                            "no container %s was seen behind \"bailey egress\", and no engine has the network "
                            "%s: say docker/%s or podman/%s",
                            name, ENGINE_NETWORK, name, name);

                snprintf(engine, 8, "%s", network.engine);
        }

        return 0;
}

int egress_container_place(const char *text, char **ret_place, char **ret_name, struct err *err) {
        char engine[8], name[ENGINE_NAME_MAX];
        int r;

        r = container_split(text, engine, name, err);
        if (r == 0 && !engine[0])
                r = container_engine(name, engine, err);
        if (r < 0)
                return r;

        r = egress_container_directory(engine, name, true, ret_place, err);
        if (r < 0)
                return r;

        *ret_name = str_format("%s/%s", engine, name);
        if (!*ret_name)
                return err_memory(err);

        return 0;
}

/*
 * The lists: of containers that run, and of those that only have rules that are remembered.
 */
struct listing {
        bool json;
        struct buf *out;
        struct emit j;
        struct approved approved;
};

static void list_rule(struct listing *listing, const char *list, const char *pattern, const char *origin) {
        if (listing->json) {
                emit_open(&listing->j, '{');
                emit_put_text(&listing->j, "list", list);
                emit_put_text(&listing->j, "pattern", pattern);
                emit_put_text(&listing->j, "origin", origin);
                emit_close(&listing->j);
        } else {
                (void)buf_printf(listing->out, "    %-5s %s (%s)\n", list, pattern, origin);
        }
}

static void list_remembered(struct listing *listing, const char *place) {
        for (size_t i = 0; i < listing->approved.rules.n; i++) {
                const struct approved_rule *rule = &listing->approved.rules.p[i];
                char origin[32];

                if (!rule->workspace || strcmp(rule->workspace, place) != 0)
                        continue;

                snprintf(origin, sizeof origin, "%s %s", rule->deny ? "denied" : "approved", rule->day);
                list_rule(listing, rule->deny ? "deny" : "allow", rule->pattern, origin);
        }
}

/* What judges its connections now: of the service's settings, and its own. */
static int list_live(struct listing *listing, const char *id) {
        cleanup(control_client_done) struct control_client client = { .fd = -1 };
        cleanup(control_message_done) struct control_message rules = { 0 };
        const struct control_request request = { .what = CONTROL_RULES };
        struct err err = { 0 };

        if (control_client_open(id, "bailey egress", &client, &err) < 0)
                return -ENOENT;
        if (control_client_call(&client, &request, &rules, &err) < 0)
                return -ENOENT;

        const struct node *list = node_get(rules.root, STR("rules"));
        for (const struct node *rule = list ? list->first : NULL; rule; rule = rule->next)
                list_rule(listing, control_text(rule, "list"), control_text(rule, "pattern"),
                          control_text(rule, "origin"));

        return 0;
}

/* The sandbox that serves the container now; NULL: none does. */
static char *list_find(const char *name) {
        cleanup(control_ids_done) control_ids ids = { 0 };

        if (control_list(&ids, NULL) < 0)
                return NULL;

        for (size_t i = 0; i < ids.n; i++) {
                cleanup(control_client_done) struct control_client client = { .fd = -1 };
                cleanup(control_message_done) struct control_message status = { 0 };
                const struct control_request request = { .what = CONTROL_STATUS };
                struct err err = { 0 };

                if (control_client_open(ids.p[i], "bailey egress", &client, &err) < 0 ||
                    control_client_call(&client, &request, &status, &err) < 0)
                        continue;

                const char *container = control_text(status.root, "container");
                if (container && strcmp(container, name) == 0)
                        return str_dup(str_of(ids.p[i]));
        }

        return NULL;
}

static void list_one(struct listing *listing, const char *name, const char *place) {
        cleanup(free_ptr) char *sandbox = list_find(name);

        if (listing->json) {
                emit_open(&listing->j, '{');
                emit_put_text(&listing->j, "container", name);
                emit_put_text(&listing->j, "sandbox", sandbox);
                emit_key(&listing->j, "rules");
                emit_open(&listing->j, '[');
        } else {
                (void)buf_printf(listing->out, "%s  %s\n", name, text_or(sandbox, "not connected"));
        }

        if (!sandbox || list_live(listing, sandbox) < 0)
                list_remembered(listing, place);

        if (listing->json) {
                emit_close(&listing->j);
                emit_close(&listing->j);
        }
}

static int names_of(const char *engine, text_list *ret, struct err *err) {
        cleanup(free_ptr) char *place = NULL;
        struct dirent **entries = NULL;
        int r, n;

        r = egress_container_directory(engine, ".", false, &place, err);
        if (r < 0)
                return r;

        n = scandir(place, &entries, NULL, alphasort);
        for (int i = 0; i < n; i++) {
                char *name =
                    r == 0 && engine_name_valid(entries[i]->d_name) ? str_dup(str_of(entries[i]->d_name)) : NULL;

                if (name && vec_push(ret, name) < 0) {
                        free(name);
                        r = err_memory(err);
                }

                free(entries[i]);
        }

        free(entries);
        return r;
}

int egress_containers(bool json, struct buf *out, struct err *err) {
        struct listing listing = { .json = json, .out = out, .j = emit_to(out) };
        cleanup(free_ptr) char *path = NULL;
        int r = 0;

        if (approved_path(&path) < 0)
                return err_memory(err);

        r = approved_read(path, &listing.approved, err);
        if (json)
                emit_open(&listing.j, '[');

        for (size_t e = 0; r == 0 && e < sizeof engines / sizeof *engines; e++) {
                cleanup(text_list_done) text_list names = { 0 };

                r = names_of(engines[e], &names, err);
                for (size_t i = 0; r == 0 && i < names.n; i++) {
                        cleanup(free_ptr) char *place = NULL, *shown = str_format("%s/%s", engines[e], names.p[i]);

                        if (shown)
                                r = egress_container_directory(engines[e], names.p[i], false, &place, err);
                        else
                                r = err_memory(err);
                        if (r == 0)
                                list_one(&listing, shown, place);
                }
        }

        if (json) {
                emit_close(&listing.j);
                (void)buf_add_char(out, '\n');
        }

        approved_done(&listing.approved);
        if (r == 0 && out->n == 0)
                return buf_add(out, "no container has been seen, and none has a list\n");

        return r;
}
