/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A typed growing array.
 *
 *     VEC(struct rule) rules = { 0 };
 *     if (vec_push(&rules, rule) < 0) return -ENOMEM;
 *     for (size_t i = 0; i < rules.n; i++) use(&rules.p[i]);
 *     vec_done(&rules);
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define VEC(type)                                                                                                      \
        struct {                                                                                                       \
                type *p;                                                                                               \
                size_t n, cap;                                                                                         \
        }

static inline int vec_grow_bytes(void **p, size_t *cap, size_t wanted, size_t size) {
        size_t n = *cap ? *cap : 8;
        while (n < wanted)
                n = n > SIZE_MAX / 2 ? wanted : n * 2;
        void *grown = reallocarray(*p, n, size);
        if (!grown)
                return -ENOMEM;
        *p = grown;
        *cap = n;
        return 0;
}

#define vec_reserve(v, more)                                                                                           \
        ((v)->n + (more) <= (v)->cap ? 0 : vec_grow_bytes((void **)&(v)->p, &(v)->cap, (v)->n + (more), sizeof *(v)->p))

/* 0 or -ENOMEM. */
#define vec_push(v, value) (vec_reserve(v, 1) < 0 ? -ENOMEM : ((v)->p[(v)->n++] = (value), 0))

#define vec_done(v) (free((v)->p), (v)->p = NULL, (v)->n = (v)->cap = 0, (void)0)
