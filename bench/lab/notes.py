# SPDX-License-Identifier: Apache-2.0
"""What the report says about figures that are not as they should be: what is known, and what is only supposed. A note about a target is printed where the
target is missed, and only then; its key is the target's words in figures.py. Anything that a run measures is said by report.py with that run's figures."""
from .files import JOBS

LAUNCH = ("`bench/run BUILD --experiment launch` sets a launch beside `limit` and bwrap, in time and in what each asks of the kernel. Version 0.1 took 0.78 of bwrap's time; a build of it whose supervisor "
          "got the finished plan took 0.75, so the target was out of reach even then. What came since is work before the command starts: the sandbox's own home with its mounts and "
          "records, the look for Unix sockets and repositories in the directories that the sandbox sees, and what other sandboxes guard. No single step takes most of it. The end of this "
          "page says where the time goes.")
JUDGED = ("The counter-experiment is `bench/run BUILD --experiment protection`: the same work with its calls answered at once, and nothing read, judged or performed. Its rows are in the tables of "
          "this work (\"handed over, unjudged\"). `lab-notify` (a table below) shows the least that a call costs if another process performs it. The files here are small and in memory, so a "
          "call takes 1 to 4 us without a sandbox, and the round trip alone is more than the target allows. On a disk, with larger files or with decompression, the same microseconds are a smaller share.")
SHORT = ("Its reads are not handed over: \"changes handed over, unjudged\" in the table of this work says what the "
         "protection of files costs it at least, `bwrap` what the mounts and namespaces of a sandbox do.")
REQUEST = ("`bench/run BUILD --trace first-request` prints the timeline, and the end of this page explains it. The launch is half of what the tunnel adds (bwrap with the host's network adds 3 ms). "
           "The vault and the gateway are programs of their own, whose libraries take 2 ms each to load, beside the command where there is a second processor.")
PROCESSES = ("With a deny glob or a trace every open() goes through the broker, some of them in the start of each program: \"every open() handed over, unjudged\" is what that costs at least.")
CONNECT = ("The row \"every connect() handed over, unjudged\" is what it costs to hand the call over. Bailey then takes the caller's socket, reads the address once, opens what it names, judges that and connects "
           "the socket itself, because the caller could change the address after a look.")
WORKERS = ("Supposed, not measured apart: a second worker takes a connection when the first one is busy. The two run on two processors, between which the kernel moves what belongs to a connection "
           "that lives for one small exchange. Requests on connections that are kept do not pay for it.")
NOTES = {
    **{f"{JOBS['find'][0]}{words}, over no sandbox": SHORT for words in ("", ", with a deny glob", ", with a trace")},
    **{f"{JOBS['processes'][0]}{words}, over no sandbox": PROCESSES for words in ("", ", with a deny glob", ", with a trace")},
    **{f"processor time of {what} tunnel, workers as by default, over one worker": WORKERS for what in ("a CONNECT", "a SOCKS5")},
    "us more for a connect() to a Unix socket inside": CONNECT,
    "one https request in a tunnel, launch included, over curl alone": REQUEST,
    "the same with a token swapped": REQUEST + " With a token the vault also makes a leaf certificate, and there are two handshakes in place of one.",
    "ms of a launch with an agent's profile": "The profile's sign-in needs a vault, which takes 6 ms of processor time to start (OpenSSL's own start, a key, a certificate), most of it beside the launch.",
    "us to judge a command of 200 bytes": "Version 0.1 took 43. Since then the rules look into runners, wrappers, shells in words and the directory of the command. No single step takes most of it.",
    **{f"{JOBS[job][0]}, over no sandbox": SHORT for job in ("grep", "ripgrep", "status", "python")},
    **{f"{JOBS[job][0]}, over bwrap": JUDGED for job in ("checkout", "unpack", "npm", "kernel")},
    **{f"{JOBS[job][0]}, with {words}, over no sandbox": JUDGED for words in ("a deny glob", "a trace") for job in ("grep", "ripgrep", "npm", "write")},
    **{f"{JOBS[job][0]}, over no sandbox": JUDGED for job in ("npm", "write")},
    "launch, over bwrap's agent profile": LAUNCH,
    "launch in 300,000 files, over bwrap": "As above. The directories of the workspace add a look for two names in the first of them.",
    "processor time of a request, over HAProxy": "The kernel takes two thirds of it, for two calls to send and two to receive; the record takes a tenth.",
    "median time of a request on one connection, over HAProxy":
        "All processes run on one processor. Otherwise the result depends on which of them share one (spreads of 30 to 60 %).",
    "processor time of an intercepted request, over the nginx bridge":
        "The bridge looks at nothing. A profile shows that TLS and the kernel cost Bailey no more than the bridge. The rest is parsing, judging, swapping and searching, and the "
        "record in a separate process.",
    "hosts never seen, over Squid":
        "Client, gateway and origin have one thread each and share the processors: if two hosts are in flight, one waits for the other wherever they meet (`direct` has no proxy at "
        "all). In the gateway a host costs two full handshakes, each with a certificate that was never seen. A profile shows that a fifth of it is key exchange and signatures, a "
        "fifth the kernel, and most of the rest OpenSSL's work around them.",
}
# Printed where a sandbox among 200 costs Bailey more than a sandbox among 100.
SANDBOXES = ("A profile of the whole machine, with and without 200 running sandboxes, shows what a launch pays for them. It is work of the kernel: it writes the "
             "list of all Unix sockets, which Bailey reads to mask those of the host (0.36 ms of processor time with 200), and, for root only, it finds `pid_max` among those of all "
             "process namespaces (0.17 ms).")
