/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Of the vault and of its reader on macOS, in Seatbelt's language. */
extern const char vault_profile[], reader_profile[];
