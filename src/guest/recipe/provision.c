/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/recipe/provision.h"
#include "guest/guest_home.h"
#include "guest/guest_points.h"

#include "base/cleanup.h"
#include "guest/guest_exec.h"
#include "guest/recipe/provision_files.h"
#include "policy/options.h"

#include <errno.h>
#include <string.h>

#define NOTE_STARTED "started"
enum { TAIL_MAX = 4096, IDLE_S = 60, GRACE_S = 5, HOLD_MS = 30000 };

struct provision {
        struct guests *guests;
        struct guest *guest;
        const struct provision_wish *wish;
        struct provision_result *result;
        size_t number, of;
        bool started; /* by us, for this recipe */
        char tail[TAIL_MAX + 1];
        size_t n_tail;
};

static void provision_output(void *arg, struct str bytes) {
        struct provision *provision = arg;

        if (provision->wish->watch->output)
                provision->wish->watch->output(provision->wish->watch->arg, bytes);
        if (bytes.n > TAIL_MAX)
                bytes = str_skip(bytes, bytes.n - TAIL_MAX);

        if (provision->n_tail + bytes.n > TAIL_MAX) {
                size_t drop = provision->n_tail + bytes.n - TAIL_MAX;

                memmove(provision->tail, provision->tail + drop, provision->n_tail - drop);
                provision->n_tail -= drop;
        }

        memcpy(provision->tail + provision->n_tail, bytes.p, bytes.n);
        provision->n_tail += bytes.n;
}

/* For the database, whose texts end at a zero byte. */
static const char *tail_text(struct provision *provision) {
        for (size_t i = 0; i < provision->n_tail; i++)
                if (provision->tail[i] == '\0')
                        provision->tail[i] = ' ';
        provision->tail[provision->n_tail] = '\0';
        return provision->tail;
}

/*
 * Kinds of steps.
 */
static int step_environment(const struct provision *provision, const struct recipe *recipe, struct err *err) {
        struct guests_db *db = provision->guests->db;
        const char *id = provision->guest->row.id;
        int r = guests_db_begin(db, err);

        if (r < 0)
                return r;

        r = guests_db_clear_variables(db, id, recipe->name, err);
        for (size_t i = 0; i < recipe->variables.n && r == 0; i++)
                r = guests_db_add_variable(db, id, recipe->name, recipe->variables.p[i].name,
                                           recipe->variables.p[i].value, err);

        if (r == 0)
                r = guests_db_commit(db, err);

        if (r < 0) {
                guests_db_rollback(db);
                return r;
        }

        provision->result->restart = provision->guest->state == GUEST_RUNNING;
        return 0;
}

static int allow_options(const struct provision *provision, const struct recipe *recipe, struct option_values *ret,
                         struct err *err) {
        const struct option_values *given = provision->wish->extra.options;
        int r = 0;

        for (size_t i = 0; given && i < given->values.n && r == 0; i++)
                r = option_set(ret, given->values.p[i].option, str_of(given->values.p[i].text),
                               given->values.p[i].origin, err);

        for (size_t i = 0; i < recipe->allow.n && r == 0; i++)
                r = option_set(ret, &policy_rows[ROW_ALLOW], str_of(recipe->allow.p[i]), recipe->name, err);

        return r;
}

/* A start with the recipe's own list. It ends by itself soon after whoever asked for it is gone. */
static int recipe_start(struct provision *provision, const struct recipe *recipe, struct err *err) {
        cleanup(option_values_done) struct option_values options = { 0 };
        struct guest_extra extra = provision->wish->extra;
        uint64_t idle_s = provision->guest->row.idle_s;
        int r;

        if (provision->started || provision->guest->state == GUEST_RUNNING)
                return 0;

        r = allow_options(provision, recipe, &options, err);
        if (r < 0)
                return r;

        extra.options = &options;
        extra.doing = guest_step_name(STEP_PROVISION);
        extra.note = NOTE_STARTED;
        provision->started = true;
        provision->guest->row.idle_s = IDLE_S;
        r = guest_start(provision->guests, provision->guest, &extra, err);
        provision->guest->row.idle_s = idle_s;

        return r;
}

/* Its supervisor writes down the end, and must be able to hold the guest for that. */
static int recipe_stop(struct provision *provision, struct err *err) {
        if (!provision->started)
                return 0;

        provision->started = false;
        guest_let_go(provision->guest);
        int r = guest_stop(provision->guest, GRACE_S, err);
        if (r < 0)
                return r;

        return guest_hold(provision->guests, provision->guest, HOLD_MS, err);
}

/* Each time: `fix` opens everything to the host user again. */
static int step_seclude(const struct provision *provision, const struct recipe_step *step, struct err *err) {
        const char *path = step->kind == RECIPE_TOOL ? recipe_manager_secluded(step->manager) : NULL;

        if (!path || provision->guest->kind == GUEST_OWN)
                return 0;

        int r = guest_point_make(provision->guest, path, true, err);
        if (r < 0)
                return r;

        return guest_home_seclude(provision->guest, path, err);
}

static int step_inside(struct provision *provision, const struct recipe *recipe, const struct recipe_step *step,
                       struct err *err) {
        const char *script = step->kind == RECIPE_TOOL ? recipe_manager_script(step->manager) : step->text;
        char *argv[] = { (char *)"sh", (char *)"-c", (char *)script, (char *)"sh", step->text, NULL };
        int status = 0;

        if (step->kind == RECIPE_COMMAND)
                argv[3] = NULL;

        const struct guest_command command = { .argv = argv,
                                               .input = -1,
                                               .output = -1,
                                               .errors = -1,
                                               .timeout_ns = step->timeout_ns,
                                               .on_output = provision_output,
                                               .on_output_arg = provision };
        int r = step_seclude(provision, step, err);
        if (r == 0)
                r = recipe_start(provision, recipe, err);
        if (r == 0)
                r = guest_exec(provision->guest, &command, NULL, NULL, &status, err);
        if (r < 0)
                return r;

        if (status)
                return err_set(err, EIO, "it ended with status %d", status);

        return 0;
}

static int step_do(struct provision *provision, const struct recipe *recipe, const struct recipe_step *step,
                   struct err *err) {
        switch (step->kind) {
        case RECIPE_ENVIRONMENT:
                return step_environment(provision, recipe, err);
        case RECIPE_TOOL:
        case RECIPE_COMMAND:
                return step_inside(provision, recipe, step, err);
        default:
                return provision_file_step(provision->guest, step, err);
        }
}

/*
 * All of them.
 */
static int step_is_done(const struct provision *provision, const struct recipe *recipe, const struct recipe_step *step,
                        struct err *err) {
        const struct guest_provision row = { .recipe = recipe->name, .step = step->name, .digest = step->digest };

        if (provision->wish->again)
                return 0;

        return guests_db_is_provisioned(provision->guests->db, provision->guest->row.id, &row, err);
}

static int step_run(struct provision *provision, const struct recipe *recipe, const struct recipe_step *step,
                    struct err *err) {
        const struct provision_watch *watch = provision->wish->watch;
        struct err why = { 0 };
        int r = step_is_done(provision, recipe, step, err);

        if (r < 0)
                return r;

        if (r > 0) {
                provision->result->skipped++;
                return 0;
        }

        provision->n_tail = 0;
        watch->begins(watch->arg, recipe, step, ++provision->number, provision->of);
        int done = step_do(provision, recipe, step, &why);
        watch->ended(watch->arg, step, done, str_n(provision->tail, provision->n_tail));

        const struct guest_provision row = { .recipe = recipe->name,
                                             .step = step->name,
                                             .digest = step->digest,
                                             .tail = tail_text(provision),
                                             .ok = done == 0 };
        r = guests_db_set_provision(provision->guests->db, provision->guest->row.id, &row, err);
        if (r == 0 && done < 0)
                r = err_set(err, EIO,
                            "the recipe %s failed at \"%s\": %s. The guest %s can be used as it is; `bailey guest "
                            "provision %s` tries again",
                            recipe->name, step->name, err_text(&why), provision->guest->row.name,
                            provision->guest->row.name);

        provision->result->done += r == 0;
        return r;
}

static int provision_recipes(struct provision *provision, struct err *err) {
        int r = 0;

        for (size_t i = 0; i < provision->wish->recipes->n && r == 0; i++) {
                const struct recipe *recipe = &provision->wish->recipes->p[i];
                struct err ended = { 0 };

                for (size_t k = 0; k < recipe->steps.n && r == 0; k++)
                        r = step_run(provision, recipe, &recipe->steps.p[k], err);

                int stopped = recipe_stop(provision, r < 0 ? &ended : err);
                if (r == 0)
                        r = stopped;
        }

        return r;
}

/* How many steps there are to do; refuses what cannot be done to a guest that runs. */
static int provision_count(struct provision *provision, struct err *err) {
        for (size_t i = 0; i < provision->wish->recipes->n; i++) {
                const struct recipe *recipe = &provision->wish->recipes->p[i];
                for (size_t k = 0; k < recipe->steps.n; k++) {
                        const struct recipe_step *step = &recipe->steps.p[k];
                        int r = step_is_done(provision, recipe, step, err);
                        if (r < 0)
                                return r;

                        provision->of += r == 0;
                        if (r == 0 && recipe->allow.n && provision->guest->state == GUEST_RUNNING &&
                            (step->kind == RECIPE_TOOL || step->kind == RECIPE_COMMAND))
                                return err_set(err, EBUSY,
                                               "the recipe %s has an allow list, which must hold for nothing else: "
                                               "stop the guest first (bailey guest stop %s)",
                                               recipe->name, provision->guest->row.name);
                }
        }

        return 0;
}

int guest_provision(struct guests *guests, struct guest *guest, const struct provision_wish *wish,
                    struct provision_result *ret, struct err *err) {
        struct provision provision = { .guests = guests, .guest = guest, .wish = wish, .result = ret };
        int r = provision_count(&provision, err);

        *ret = (struct provision_result){ 0 };
        if (r < 0)
                return r;

        if (provision.of == 0) {
                for (size_t i = 0; i < wish->recipes->n; i++)
                        ret->skipped += wish->recipes->p[i].steps.n;
                return 0;
        }

        r = guest_begin(guests, guest, STEP_PROVISION, "", err);
        if (r < 0)
                return r;

        r = provision_recipes(&provision, err);
        if (r < 0) {
                struct err ignored = { 0 };

                (void)guest_move(guests, guest, STEP_PROVISION, err_text(err), NULL, NULL, &ignored);
                return r;
        }

        return guest_move(guests, guest, STEP_PROVISION, "", NULL, NULL, err);
}

int guest_provision_mend(struct guests *guests, struct guest *guest, struct err *err) {
        int r = 0;

        if (strcmp(guest->row.note, NOTE_STARTED) == 0 && guest_is_running(guest)) {
                guest_let_go(guest);
                r = guest_stop(guest, GRACE_S, err);
                if (r == 0)
                        r = guest_hold(guests, guest, HOLD_MS, err);
        }

        if (r == 0 && guest->row.doing[0])
                r = guest_move(guests, guest, STEP_PROVISION, "provisioning was interrupted", NULL, NULL, err);

        return r;
}
