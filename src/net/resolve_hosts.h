/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The static host file: "address name..." lines, # comments. Every name and address must be canonical; a bad line is an
 * error with its number, never skipped. */
#include "base/map.h"
#include "net/resolve.h"

/* Fills the map: name to struct resolve_answer, heap. On failure what was added stays for the caller to free. */
int resolve_hosts_load(const char *path, struct map *answers, struct err *err);
