# SPDX-License-Identifier: Apache-2.0
"""Why a target is missed, as far as it is understood; said in the report where it is. Keyed by the target's words."""

NOTES = {
}
