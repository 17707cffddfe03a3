/* SPDX-License-Identifier: Apache-2.0 */
/* For scripts/macos: names in the encoding of a locale, which nobody here asks libidn2 for. */
#define u8_strconv_from_locale(text) ((unsigned char *)0)
#define u8_strconv_from_encoding(text, encoding, handler) ((unsigned char *)0)
#define u8_strconv_to_encoding(text, encoding, handler) ((char *)0)
