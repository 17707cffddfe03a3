/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/renewals.h"

#include "base/clock.h"

struct turn *turns_add(struct turns *turns, int channel, uint64_t id, uint32_t leader) {
        if (turns->n == TURNS_MAX)
                return NULL;

        struct turn *turn = &turns->list[turns->n++];
        *turn = (struct turn){ .channel = channel, .id = id, .leader = leader, .since_ns = clock_ns() };
        return turn;
}

struct turn *turns_current(struct turns *turns, uint32_t leader) {
        for (size_t i = 0; i < turns->n; i++)
                if (turns->list[i].leader == leader && turns->list[i].state != TURN_WAITING)
                        return &turns->list[i];
        return NULL;
}

struct turn *turns_next(struct turns *turns, uint32_t leader) {
        if (turns_current(turns, leader))
                return NULL;
        for (size_t i = 0; i < turns->n; i++)
                if (turns->list[i].leader == leader)
                        return &turns->list[i];
        return NULL;
}

void turns_remove(struct turns *turns, struct turn *turn) {
        size_t at = (size_t)(turn - turns->list);

        secret_free(turn->lines);
        secret_free(turn->sent);
        memmove(turn, turn + 1, (turns->n - at - 1) * sizeof *turn);
        turns->n--;
}
