/* SPDX-License-Identifier: Apache-2.0 */
#include "import/model.h"

#include "base/bounds.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

enum { NOTES_MAX = 20000, WORK_MAX = 100000000 };

bool import_is_overworked(const struct import_model *model) {
        return model->work > WORK_MAX;
}

int import_check_work(const struct import_model *model, struct err *err) {
        if (import_is_overworked(model))
                return err_set(err, E2BIG, "the settings have too many entries to compare them with each other");

        return 0;
}

void import_words_done(import_words *words) {
        for (size_t i = 0; i < words->n; i++)
                free(words->p[i]);
        vec_done(words);
}

void import_entry_done(struct import_entry *entry) {
        free(entry->text);
        free(entry->place);
        free(entry->said);
        free(entry->reason);
}

static void note_done(struct import_note *note) {
        free(note->place);
        free(note->said);
        free(note->why);
}

void import_model_done(struct import_model *model) {
        for (size_t list = 0; list < IMPORT_LISTS; list++) {
                for (size_t i = 0; i < model->lists[list].n; i++)
                        import_entry_done(&model->lists[list].p[i]);
                vec_done(&model->lists[list]);
        }

        for (size_t i = 0; i < model->commands.n; i++) {
                import_words_done(&model->commands.p[i].argv);
                free(model->commands.p[i].reason);
                free(model->commands.p[i].place);
                free(model->commands.p[i].said);
        }

        vec_done(&model->commands);

        for (size_t i = 0; i < model->credentials.n; i++) {
                import_words_done(&model->credentials.p[i].hosts);
                free(model->credentials.p[i].env);
                free(model->credentials.p[i].place);
        }

        vec_done(&model->credentials);

        for (size_t i = 0; i < model->choices.n; i++) {
                free(model->choices.p[i].profile);
                free(model->choices.p[i].mode);
        }

        vec_done(&model->choices);
        free(model->profile);
        free(model->profile_place);

        for (size_t i = 0; i < model->hidden.n; i++) {
                free(model->hidden.p[i].name);
                free(model->hidden.p[i].place);
        }

        vec_done(&model->hidden);
        for (size_t i = 0; i < model->notes.n; i++)
                note_done(&model->notes.p[i]);

        vec_done(&model->notes);
        import_words_done(&model->files);
        free(model->upstream_proxy);
}

int import_hide(struct import_model *model, struct str name, const char *place, struct err *err) {
        struct import_variable variable = { .name = str_dup(name), .place = str_dup(str_of(place)) };

        model->work += model->hidden.n;
        for (size_t i = 0; variable.name && i < model->hidden.n; i++)
                if (strcmp(model->hidden.p[i].name, variable.name) == 0) {
                        free(variable.name);
                        free(variable.place);
                        return 0;
                }

        if (variable.name && variable.place && vec_push(&model->hidden, variable) == 0)
                return import_check_work(model, err);

        free(variable.name);
        free(variable.place);
        return err_memory(err);
}

bool import_model_dropped(const struct import_model *model) {
        for (size_t i = 0; i < model->notes.n; i++)
                if (model->notes.p[i].dropped)
                        return true;
        return false;
}

static struct import_entry *entry_find(struct import_model *model, const import_entries *list, struct str text) {
        enum { LOOKED_AT = 1024 }; /* a list that repeats itself is short; a long one may repeat */
        size_t n = min_of(list->n, LOOKED_AT);

        model->work += n / 8;
        for (size_t i = 0; i < n; i++)
                if (str_is(text, list->p[i].text))
                        return &list->p[i];
        return NULL;
}

int import_add_path(struct import_model *model, enum import_list list, struct str text, const char *place,
                    struct str said, bool soft, struct err *err) {
        struct import_entry *there = entry_find(model, &model->lists[list], text);

        if (!there) {
                int r = import_add(model, list, text, place, said, err);
                import_entries *entries = &model->lists[list];

                if (r == 0)
                        entries->p[entries->n - 1].soft = soft;

                return r;
        }

        if (list == IMPORT_DENY_READ)
                there->soft &= soft;
        else
                there->soft |= soft;

        return 0;
}

int import_add(struct import_model *model, enum import_list list, struct str text, const char *place, struct str said,
               struct err *err) {
        if (list != IMPORT_ALLOW && entry_find(model, &model->lists[list], text))
                return 0;
        if (import_check_work(model, err) < 0)
                return -E2BIG;

        struct import_entry entry = {
                .text = str_dup(text), .place = str_dup(str_of(place)), .said = str_dup(said), .file = model->files.n
        };
        if (!entry.text || !entry.place || !entry.said || vec_push(&model->lists[list], entry) < 0) {
                import_entry_done(&entry);
                return err_memory(err);
        }

        return 0;
}

int import_note(struct import_model *model, const char *place, struct str said, bool dropped, struct err *err,
                const char *format, ...) {
        struct import_note note = { .place = str_dup(str_of(place)), .said = str_dup(said), .dropped = dropped };
        char text[512];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        note.why = str_dup(str_of(text));
        if (!note.place || !note.said || !note.why || vec_push(&model->notes, note) < 0) {
                note_done(&note);
                return err_memory(err);
        }

        if (model->notes.n > NOTES_MAX)
                return err_set(err, E2BIG, "%s: more than %d entries cannot be said in a policy", place, NOTES_MAX);

        return 0;
}

int import_words_add(import_words *words, struct str text, struct err *err) {
        char *copy = str_dup(text);

        if (!copy || vec_push(words, copy) < 0) {
                free(copy);
                return err_memory(err);
        }
        return 0;
}

int import_drop(struct import_model *model, enum import_list list, size_t index, bool dropped, const char *why,
                struct err *err) {
        import_entries *entries = &model->lists[list];
        struct import_entry gone = entries->p[index];
        int r;

        model->work += (entries->n - index) / 8;
        memmove(&entries->p[index], &entries->p[index + 1], (entries->n - index - 1) * sizeof gone);
        entries->n--;
        r = import_note(model, gone.place, str_of(*gone.said ? gone.said : gone.text), dropped, err, "%s", why);
        import_entry_done(&gone);

        return r;
}
