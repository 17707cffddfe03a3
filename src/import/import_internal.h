/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files of src/import: from the model to the policy. */
#include "base/buf.h"
#include "conf/node.h"
#include "import/model.h"

/* Another settings file that one names: regular, no link, not too large. */
int import_open_jsonc(const char *path, struct document **ret, struct err *err);

/* Settles overlaps: after it, Bailey's order of rules allows nothing that the source does not. */
int import_resolve(struct import_model *model, struct err *err);

/* The policy as YAML. */
int import_write(const struct import_model *model, struct buf *out, struct err *err);
