/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The smaller and the larger of two numbers. Each is read twice: only for what has no effect. */
#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define max_of(a, b) ((a) > (b) ? (a) : (b))
