/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Strings from outside are pointer and length, never terminated, and may contain any byte.
 * A struct str does not own its bytes. A C string is used only for text that this program made itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
        const char *p;
        size_t n;
};

#define STR(literal) ((struct str){ "" literal, sizeof(literal) - 1 })
/* For printf("%.*s"): the caller has escaped or validated the bytes. */
#define STR_FMT(s) (int)(s).n, (s).p

static inline struct str str_of(const char *c_string) {
        return (struct str){ c_string, c_string ? strlen(c_string) : 0 };
}
static inline struct str str_n(const void *p, size_t n) {
        return (struct str){ p, n };
}
static inline bool str_eq(struct str a, struct str b) {
        return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_is(struct str a, const char *c_string) {
        return str_eq(a, str_of(c_string));
}

/* The text, or what stands for it where there is none (NULL). */
static inline const char *text_or(const char *text, const char *otherwise) {
        return text ? text : otherwise;
}

/* ASCII only: locale never changes what a protocol byte means. */
static inline bool ascii_is_digit(char c) {
        return c >= '0' && c <= '9';
}
static inline char ascii_lower(char c) {
        return (c >= 'A' && c <= 'Z') ? (char)(c + ('a' - 'A')) : c;
}
static inline bool ascii_is_alnum(char c) {
        return ascii_is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}
/* The value of a hexadecimal digit, or -1. */
int ascii_hex(char c);

bool str_eq_nocase(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
/* Position of the byte, or -1. */
ptrdiff_t str_find(struct str s, char c);
ptrdiff_t str_rfind(struct str s, char c);
bool str_has_nul(struct str s);
/* Drops spaces and tabs at both ends. */
struct str str_trim(struct str s);
struct str str_skip(struct str s, size_t n);
struct str str_first(struct str s, size_t n);
/* Takes the part up to the separator off the front; false when nothing is left. */
bool str_split(struct str *rest, char separator, struct str *ret_part);

/* Plain decimal digits only: no sign, no space, no empty text. False on overflow or above max. */
bool str_to_u64(struct str s, uint64_t max, uint64_t *ret);

/* Heap copies, NUL-terminated; NULL when out of memory. str_dup refuses (NULL, EINVAL) text with a NUL inside. */
char *str_dup(struct str s);
char *str_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Edit distance up to a limit, for "did you mean": values above the limit are returned as limit + 1. */
unsigned str_distance(struct str a, struct str b, unsigned limit);
