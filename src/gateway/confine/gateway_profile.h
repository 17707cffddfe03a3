/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The Seatbelt profile of the gateway itself (gateway_confine_darwin.c), apart so that Linux can judge it. */
extern const char gateway_profile[];
