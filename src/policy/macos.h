/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Words of `macos.allow`: what a sandbox on macOS has closed unless a person opens it. Linux has none of them. */
#include "base/err.h"
#include "base/str.h"

enum macos_word {
        MACOS_KEYCHAIN = 1 << 0,
        MACOS_CLIPBOARD = 1 << 1,
        MACOS_OPEN = 1 << 2,
        MACOS_BROWSER = 1 << 3,
        MACOS_XCODE = 1 << 4,
        MACOS_DOCKER = 1 << 5,
        MACOS_LOCALHOST = 1 << 6,
};
enum { MACOS_WORDS = 7 };

/* The bit of a word, 0 when there is no such word. */
unsigned macos_word(struct str word);
/* Of bit i; NULL from MACOS_WORDS on. */
const char *macos_word_name(unsigned i);
const char *macos_word_help(unsigned i);
/* -EINVAL with "did you mean" in e. */
int macos_word_check(struct str word, struct err *err);
