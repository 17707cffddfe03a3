/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/macos.h"

#include "base/escape.h"
#include "conf/suggest.h"

#include <assert.h>
#include <errno.h>

static const struct {
        const char *name, *help;
} words[] = {
        { "keychain", "the keychain's daemons and files: every password that macOS keeps for this user" },
        { "clipboard", "read and write the clipboard" },
        { "open", "start other programs by Launch Services and Apple events: they run outside the sandbox" },
        { "browser", "what Chromium needs to start: services of its own, fonts, windows" },
        { "xcode", "developer tools: their caches, and the services of the compiler" },
        { "docker", "the socket of Docker Desktop, which shows every file of this user" },
        { "localhost", "listen on this Mac, and connect to every service that listens on it" },
};
static_assert(sizeof words / sizeof *words == MACOS_WORDS, "a row for each word");

unsigned macos_word(struct str word) {
        for (unsigned i = 0; i < MACOS_WORDS; i++)
                if (str_is(word, words[i].name))
                        return 1U << i;
        return 0;
}

const char *macos_word_name(unsigned i) {
        return i < MACOS_WORDS ? words[i].name : NULL;
}

const char *macos_word_help(unsigned i) {
        return i < MACOS_WORDS ? words[i].help : NULL;
}

int macos_word_check(struct str word, struct err *err) {
        struct suggestion suggestion = suggest_for(word);

        if (macos_word(word))
                return 0;

        for (unsigned i = 0; i < MACOS_WORDS; i++)
                suggest_offer(&suggestion, words[i].name);

        return err_set(err, EINVAL, "macos.allow has no word %s%s", show(word).text,
                       suggest_text(&suggestion, "").text);
}
