/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Recipes (guest/recipe/recipe.h) done to a guest: only steps that are new, changed or failed. Files are put into the
 * home from outside; commands run inside. A recipe with an allow list gets a start of the guest of its own, for which
 * the list holds, and which ends with the recipe: nothing else of the guest runs with it.
 *
 * A step that fails ends the provisioning. The guest stays as it is, and can be used. A command that is killed leaves
 * the rest for the next one.
 */
#include "guest/guest_start.h"
#include "guest/recipe/recipe.h"

struct provision_watch {
        void *arg;
        void (*begins)(void *arg, const struct recipe *recipe, const struct recipe_step *step, size_t number,
                       size_t of);
        void (*output)(void *arg, struct str bytes); /* hostile */
        /* `tail`: the end of the output, hostile; "" where there was none. */
        void (*ended)(void *arg, const struct recipe_step *step, int result, struct str tail);
};

struct provision_wish {
        const recipe_list *recipes;
        bool again; /* also what was done */
        struct guest_extra extra;
        const struct provision_watch *watch;
};

struct provision_result {
        size_t done, skipped;
        bool restart; /* variables were set; the guest runs without them */
};

/* The caller holds the guest. -EIO: a step failed, and err says which. */
int guest_provision(struct guests *guests, struct guest *guest, const struct provision_wish *wish,
                    struct provision_result *ret, struct err *err);
/* What a provisioner that was killed left: a guest that it started is stopped. The caller holds the guest. */
int guest_provision_mend(struct guests *guests, struct guest *guest, struct err *err);
