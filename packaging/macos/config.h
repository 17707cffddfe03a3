/* SPDX-License-Identifier: Apache-2.0 */
/* For scripts/macos: what libidn2's configure would find out about macOS, as far as the files that are built ask for
 * it. */
#include <string.h>
#include <strings.h>

#define PACKAGE "libidn2"
#define PACKAGE_VERSION "of Debian"
#define strverscmp strcmp /* only to tell its own version */
#define c_strcasecmp strcasecmp
#define c_strncasecmp strncasecmp
#define strchrnul find_or_end

#define _GL_ATTRIBUTE_CONST
#define _GL_ATTRIBUTE_DEALLOC(function, index)
#define _GL_ATTRIBUTE_DEALLOC_FREE
#define _GL_ATTRIBUTE_FALLTHROUGH __attribute__((fallthrough))
#define _GL_ATTRIBUTE_MALLOC
#define _GL_ATTRIBUTE_MAYBE_UNUSED
#define _GL_ATTRIBUTE_PURE

static inline char *find_or_end(const char *text, int c) {
        while (*text && *text != (char)c)
                text++;
        return (char *)text;
}
