# SPDX-License-Identifier: Apache-2.0
"""What the report says about targets that are missed: one note for all rows with the same reason, and the command that shows it. A note is printed where one
of its targets is missed, and only then. Anything that a run measures is said by report.py with that run's figures."""


class Note:
    """targets: how their words begin, in figures.py; experiment: what `bench/run BUILD` is to be told."""

    def __init__(self, targets, experiment, text):
        self.targets, self.experiment, self.text = targets, experiment, text

    def is_about(self, words):
        return words.startswith(self.targets)


NOTES = [
    Note(("launch, over", "launch in 300,000"), "--experiment launch",
         "`limit` makes the same kinds of namespaces and mounts in one static program; the table lists the calls that Bailey makes beyond it, most of them to look at files: the sandbox's own home, "
         "sockets and repositories in what the sandbox sees, what other sandboxes guard. No single step takes most of it (see the end of this page; `--experiment guards` for the protection alone)."),
    Note(("exec, over",), "--experiment warm",
         "What a sandbox that was prepared ahead would take at least: a call of `bailey` that does nothing, and the command without any sandbox, beside bwrap and a whole launch. There is none prepared "
         "ahead: it would know the host as of its making (see the end of this page)."),
    Note(("launch among",), "--experiment many",
         "The same launch with and without others at rest, call by call: what is added asks for each of them whether it still runs."),
    Note(("MiB of memory for an idle sandbox",), "--experiment memory",
         "The memory of each process, by what it is: private pages of its own, and its share of program and libraries, which two sandboxes halve and a hundred make small."),
    Note(("ms of a launch with an agent",), "--experiment profile",
         "The same launch without a profile, with one credential and with the profile, beside OpenSSL alone making a key and a certificate: the sign-in needs a vault, whose start is most of the difference."),
    Note(("one https request in a tunnel", "the same with a token"), "--experiment first-request",
         "Launch, gateway and handshakes apart: the same launch without a request, the same request through a gateway that already runs. `--trace first-request` prints the timeline."),
    Note(("us more for a connect()",), "--experiment connect",
         "The same with connect() handed over and answered at once, unjudged. Bailey then takes the caller's socket, reads the address once, opens what it names, judges that and connects the "
         "socket itself, because the caller could change the address after a look."),
    Note(("processor time of a request, workers", "processor time of a CONNECT tunnel, workers", "processor time of a SOCKS5 tunnel, workers", "processor time of an intercepted request, workers"),
         "--experiment workers", "The same tunnels with one and two workers, on one and on two processors: what two workers cost on one processor is theirs, the rest is the kernel's, which moves a "
         "connection between processors."),
    Note(("processor time of an intercepted", "intercepted requests a second", "bulk through interception"), "--experiment interception",
         "The processor time of a request by part, beside the bridge: the kernel, TLS, and Bailey's own code (parsing, judging, swapping, searching) with the record, which the bridge has not."),
    Note(("bulk through 1 tunnel", "bulk through 16 tunnels"), "--experiment bulk",
         "The processor time of a megabyte by part, beside the relay that only splices: the kernel moves the bytes for both."),
    Note(("processor time of a DNS",), "--experiment dns", "The processor time of an answer by part, beside unbound."),
    Note(("hosts never seen",), "--experiment fresh",
         "The same by part for hosts never seen: in the gateway each costs two full handshakes, with certificates that nobody has seen; client, gateway and origin share the processors."),
    Note(("processor time of a request, over", "median time of a request", "processor time of a CONNECT tunnel, over", "processor time of a SOCKS5 tunnel, over"), "--experiment request",
         "The processor time by part: of a request beside HAProxy, of tunnels beside the bare relay."),
    Note(("processor time of a fetch through", "speed of a large"), "--experiment git",
         "A fetch, a pack and a push through a tunnel, through TLS that is opened, and through the gate: what lies between the last two is the gate's own."),
    Note(("us to judge a command",), "--experiment classify",
         "Instructions of one judgement, by function: no single step takes most of it. The rules look into runners, wrappers, shells in words and the directory of the command."),
]


def note_for(words):
    return next((note for note in NOTES if note.is_about(words)), None)


# Why the curves of growth are as steep as they are.
SLOPES = {
    "rules": "A lookup is a few probes of a hash table or steps in a trie, whatever the number of rules; it rises where the table no longer fits into the processor's caches. To build it takes as long as there "
             "are rules, because each is read, hashed and sorted once.",
    "sandboxes": "Memory for each falls, because programs and libraries are shared. What rises is a launch: each sandbox that runs has a row in a table that says where it writes, and a launch looks "
                 "through all of them, under a lock. It reads the records of those in the same place, two of each kind. The kernel's own lists (processes, mounts) grow too. `bench/run BUILD --experiment many` prints the calls that are more or take longer among others.",
    "files": "A launch looks for a few names in the first directories of the workspace and walks nothing, so the number of files does not matter. To read a file takes as long however many there are: a plain "
             "rule is the kernel's to keep, at no cost for each file; with a deny glob each open() goes through the broker, a constant for each.",
    "records": "A record is appended, with a hash over the one before it: the length of the log does not matter. To verify or search a log reads all of it once, so each record costs the same.",
}
