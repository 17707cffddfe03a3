# SPDX-License-Identifier: Apache-2.0
"""Why a target is missed, as far as it is understood; said in the report where it is. Keyed by the target's words."""

LAUNCH = ("The kernel's part alone (`limit`: namespaces, mounts and a filter in one static program, without policy, capture rules, listeners, Landlock or record) takes half of "
          "bwrap's time on this machine, where the target was set with a third. Of the rest, the network namespace is filled with routes and capture rules, some 160 names are "
          "looked at before and after, and a record is opened: ARCHITECTURE.md says what each costs.")
NOTES = {
    "launch, over bwrap's agent profile": LAUNCH,
    "launch in 300,000 files, over bwrap": "As above: the size of the workspace adds nothing.",
    "processor time of an intercepted request, over the nginx bridge":
        "The bridge moves records and looks at nothing; the target leaves a tenth of its time, about 2.5 us, for all that Bailey does with a request: both heads parsed, judged, "
        "written anew, the token swapped, the answer searched for it, a record. The same work without TLS can be seen in plain HTTP: what Bailey takes there above the bare relay is "
        "more than that. The TLS itself costs no more than the bridge's.",
    "hosts never seen, over Squid":
        "The rate is bound by the lab's client and origin, which make two full handshakes for each host on the same two processors (`direct` has one of them and no proxy); in "
        "processor time Bailey takes less than a third of Squid's.",
}
