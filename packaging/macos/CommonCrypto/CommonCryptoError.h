/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* For OpenSSL, scripts/macos: of Apple's header of this name, which is not at hand, what OpenSSL takes from it. */
enum { kCCSuccess = 0 };
