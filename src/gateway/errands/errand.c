/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/errands/errand.h"

#include "base/str.h"
#include "gateway/errands/callback.h"
#include "gateway/errands/courier.h"
#include "gateway/errands/door.h"
#include "gateway/errands/webhook.h"

#include <errno.h>

static int run_webhook(const char *word, struct err *err) {
        (void)word;
        return webhook_main(err);
}

static int run_door(const char *word, struct err *err) {
        (void)word;
        return door_main(err);
}

static int run_callback(const char *word, struct err *err) {
        (void)word;
        return callback_main(err);
}

static int run_courier(const char *word, struct err *err) {
        return courier_main(text_or(word, ""), err);
}

static const struct errand {
        const char *name;
        int (*run)(const char *word, struct err *err);
        bool takes_word;
} errands[] = {
        { "webhook", run_webhook, false },
        { "courier", run_courier, true },
        { "door", run_door, false },
        { "callback", run_callback, false },
};

static const struct errand *errand_find(const char *name) {
        for (size_t i = 0; i < sizeof errands / sizeof *errands; i++)
                if (strcmp(errands[i].name, name) == 0)
                        return &errands[i];
        return NULL;
}

bool errand_is_named(int argc, char **argv) {
        const struct errand *errand = argc > 1 ? errand_find(argv[1]) : NULL;

        return errand && argc <= (errand->takes_word ? 3 : 2);
}

int errand_run(char **argv, struct err *err) {
        const struct errand *errand = errand_find(argv[1]);

        if (!errand)
                return err_set(err, EINVAL, "there is no such errand");

        return errand->run(argv[2], err);
}
