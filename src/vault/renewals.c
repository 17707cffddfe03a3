/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/renewals.h"

#include "base/clock.h"

struct turn *turns_add(struct turns *t, int channel, uint64_t id, uint32_t leader) {
        if (t->n == TURNS_MAX)
                return NULL;

        struct turn *turn = &t->list[t->n++];
        *turn = (struct turn){ .channel = channel, .id = id, .leader = leader, .since_ns = clock_ns() };
        return turn;
}

struct turn *turns_current(struct turns *t, uint32_t leader) {
        for (size_t i = 0; i < t->n; i++)
                if (t->list[i].leader == leader && t->list[i].state != TURN_WAITING)
                        return &t->list[i];
        return NULL;
}

struct turn *turns_next(struct turns *t, uint32_t leader) {
        if (turns_current(t, leader))
                return NULL;
        for (size_t i = 0; i < t->n; i++)
                if (t->list[i].leader == leader)
                        return &t->list[i];
        return NULL;
}

void turns_remove(struct turns *t, struct turn *turn) {
        size_t at = (size_t)(turn - t->list);

        secret_free(turn->lines);
        secret_free(turn->sent);
        memmove(turn, turn + 1, (t->n - at - 1) * sizeof *turn);
        t->n--;
}
