# SPDX-License-Identifier: Apache-2.0
"""Why a target is missed, as far as it is understood, and what is only supposed; said in the report where it is. Keyed by the target's words."""

LAUNCH = ("`limit` (namespaces, mounts and a filter in one static program, its own start included; no policy, capture rules, listeners, Landlock or record) leaves little below the "
          "target for all the rest. ARCHITECTURE.md says what each step costs. Whether the target can be reached is open: `limit` does not show that it cannot.")
NOTES = {
    "launch, over bwrap's agent profile": LAUNCH,
    "launch in 300,000 files, over bwrap": "As above: the size of the workspace adds nothing.",
    "processor time of a request, over HAProxy": "By less than the spread; runs of the same day gave 0.79 to 0.82.",
    "median time of a request on one connection, over HAProxy":
        "By less than the spread: the two are equal here. All on one processor, since otherwise who shares one with whom decides (spreads of 30 to 60 %).",
    "processor time of an intercepted request, over the nginx bridge":
        "The bridge looks at nothing. What Bailey takes above it is about what it takes above the bare relay in plain HTTP (parsing, judging, record), which suggests that it is "
        "this work and not TLS; it was not profiled.",
    "hosts never seen, over Squid":
        "Not understood. Client and origin take part of the processors (`direct` has no proxy at all), but by processor time alone the target should be within reach; where a "
        "host waits was not looked at.",
}
