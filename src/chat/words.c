/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/words.h"

#include "conf/suggest.h"

#include <errno.h>

enum { WORDS_MAX = 5, ORDER_MAX = 600 };

static const char *const verb_names[CHAT_VERBS] = {
        [CHAT_ALLOW] = "allow", [CHAT_DENY] = "deny",     [CHAT_PENDING] = "pending", [CHAT_PS] = "ps",
        [CHAT_PAUSE] = "pause", [CHAT_RESUME] = "resume", [CHAT_KILL] = "kill",       [CHAT_HELP] = "help",
};

const char *chat_verb_name(enum chat_verb verb) {
        return verb < CHAT_VERBS ? verb_names[verb] : "?";
}

bool chat_is_code(struct str word) {
        if (word.n != CHAT_CODE_MAX - 1)
                return false;
        for (size_t i = 0; i < word.n; i++)
                if (!ascii_is_alnum(word.p[i]))
                        return false;
        return true;
}

static bool is_blank(char byte) {
        return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* How many words there are; more than WORDS_MAX count as that. */
static size_t split_words(struct str text, struct str ret[static WORDS_MAX]) {
        size_t n = 0, at = 0;

        while (n < WORDS_MAX) {
                size_t begin;

                while (at < text.n && is_blank(text.p[at]))
                        at++;

                begin = at;
                while (at < text.n && !is_blank(text.p[at]))
                        at++;

                if (at == begin)
                        break;

                ret[n++] = str_n(text.p + begin, at - begin);
        }

        return n;
}

/* "/allow", "/allow@bailey_bot" (Telegram in groups), "allow". */
static bool verb_parse(struct str word, enum chat_verb *ret) {
        ptrdiff_t at;

        if (word.n && word.p[0] == '/')
                word = str_skip(word, 1);

        if (word.n)
                at = str_find(word, '@');
        else
                at = -1;
        if (at >= 0)
                word = str_first(word, (size_t)at);

        for (size_t i = 0; i < CHAT_VERBS; i++)
                if (str_eq_nocase(word, str_of(verb_names[i]))) {
                        *ret = (enum chat_verb)i;
                        return true;
                }

        return false;
}

static void words_lower(struct str word, char *ret) {
        for (size_t i = 0; i < word.n; i++)
                ret[i] = ascii_lower(word.p[i]);
        ret[word.n] = '\0';
}

static bool scope_parse(struct str word, enum control_scope *ret) {
        char small[16];

        if (word.n >= sizeof small)
                return false;
        words_lower(word, small);
        return control_scope_parse(str_of(small), ret);
}

static int take_word(struct chat_order *order, struct str word, bool *has_scope, struct err *err) {
        enum control_scope scope;

        if (order->verb <= CHAT_DENY && scope_parse(word, &scope)) {
                if (*has_scope)
                        return err_set(err, EINVAL, "there are two scopes");
                order->scope = scope;
                *has_scope = true;
        } else if (!order->code[0] && chat_is_code(word) && (order->verb <= CHAT_DENY || order->name[0])) {
                words_lower(word, order->code);
        } else if (!order->name[0] && word.n < sizeof order->name && !str_has_nul(word)) {
                words_lower(word, order->name);
        } else {
                return err_set(err, EINVAL, "%s cannot be understood", show(word).text);
        }

        return 0;
}

static int order_check(const struct chat_order *order, struct err *err) {
        switch (order->verb) {
        case CHAT_ALLOW:
        case CHAT_DENY:
                if (!order->code[0])
                        return err_set(err, EINVAL, "the question's code is missing: /%s CODE%s",
                                       chat_verb_name(order->verb),
                                       order->verb == CHAT_ALLOW ? " [once|sandbox|workspace|always]" : "");
                return 0;
        case CHAT_PAUSE:
        case CHAT_RESUME:
        case CHAT_KILL:
                if (!order->name[0])
                        return err_set(err, EINVAL, "the sandbox is missing: /%s SANDBOX", chat_verb_name(order->verb));
                return 0;
        default:
                if (order->name[0] || order->code[0])
                        return err_set(err, EINVAL, "/%s takes no words", chat_verb_name(order->verb));

                return 0;
        }
}

int chat_order_parse(struct str text, struct chat_order *ret, struct err *err) {
        struct str words[WORDS_MAX];
        struct chat_order order = { .scope = SCOPE_ONCE };
        bool has_scope = false, has_code = false, slash;
        size_t n;
        int r;

        if (text.n > ORDER_MAX)
                return 0;

        n = split_words(text, words);
        if (n == 0 || !verb_parse(words[0], &order.verb))
                return 0;

        slash = words[0].p[0] == '/';
        for (size_t i = 1; i < n; i++)
                has_code = has_code || chat_is_code(words[i]);

        if (!slash && !(has_code && n <= 4))
                return 0;

        for (size_t i = 1; i < n; i++) {
                r = take_word(&order, words[i], &has_scope, err);
                if (r < 0)
                        return r;
        }

        r = order_check(&order, err);
        if (r < 0)
                return r;

        *ret = order;
        return 1;
}
