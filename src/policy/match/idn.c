/* SPDX-License-Identifier: Apache-2.0 */
/*
 * International names, as people write them in files and on the command line. On the wire they are refused: there a
 * name has one spelling. The conversion is IDNA2008, non-transitional.
 */
#include "base/cleanup.h"
#include "conf/suggest.h"
#include "policy/match/host.h"

#include <errno.h>
#include <idn2.h>

enum { USER_TEXT_MAX = 1024 };

static bool is_ascii(struct str s) {
        for (size_t i = 0; i < s.n; i++)
                if ((unsigned char)s.p[i] >= 0x80)
                        return false;
        return true;
}

static void free_idn(char **p) {
        idn2_free(*p);
}

static bool has_ace_label(struct str name) {
        struct str label;
        while (str_split(&name, '.', &label))
                if (str_starts(label, STR("xn--")))
                        return true;
        return false;
}

int host_parse_user(struct str s, struct host *ret, struct err *err) {
        int r = host_parse(s, ret, err);
        if (r == 0 || is_ascii(s))
                return r;

        cleanup(free_ptr) char *text = s.n <= USER_TEXT_MAX ? str_dup(s) : NULL;
        if (!text)
                return err_set(err, EINVAL, "the host name is too long or holds a NUL byte");

        cleanup(free_idn) char *ascii = NULL;
        r = idn2_to_ascii_8z(text, &ascii, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
        if (r != IDN2_OK)
                return err_set(err, EINVAL, "%s is not a valid international name: %s", show(s).text, idn2_strerror(r));

        struct host host; /* the library passes on bytes that no name has */
        r = host_parse(str_of(ascii), &host, err);
        if (r < 0)
                return err_wrap(err, r, "%s, which is %s", show(s).text, show(str_of(ascii)).text);

        /* Full-width letters and other dots turn into plain ASCII: such a name is not what its author sees. */
        if (!has_ace_label(host_str(&host)))
                return err_set(err, EINVAL,
                               "%s only looks like %s: it is written with other characters; write it plainly",
                               show(s).text, show(host_str(&host)).text);

        *ret = host;
        return 0;
}
