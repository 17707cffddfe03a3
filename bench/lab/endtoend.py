# SPDX-License-Identifier: Apache-2.0
"""`bailey run` from the command line to the end of one https request made inside, beside the same request without a sandbox."""
from pathlib import Path

from .launch import AGENT, environment, interleaved, try_out
from .machine import installed
from .peers import PORT, SECURE_HOST, TOKEN

URL = f"https://{SECURE_HOST}:{PORT['tls_origin']}/1024"
# The name is allowed and the token is not Bailey's to give: the tunnel goes end to end.
OPAQUE = """network:
  allow: ["{host}:{tls_origin}"]
  allow_private: ["127.0.0.1:{tls_origin}"]
"""


def commands(lab):
    run = lab.run
    (run / "opaque.conf").write_text(OPAQUE.format(host=SECURE_HOST, **PORT))
    curl = ["curl", "-sS", "--fail", "-o", "/dev/null", "--cacert", run / "end/ca.crt", "-H", f"Authorization: Bearer {TOKEN}", URL]
    ask = f'exec curl -sS --fail -o /dev/null -H "Authorization: Bearer $LAB_TOKEN" {URL}'
    bailey = [installed(lab.build), "run", "--quiet", "-w", run / "end", "--no-workspace-policy", "--hosts", run / "hosts", "--ca-bundle", lab.authority.file]
    return {
        "curl alone": curl,
        "bwrap, the host's network": [*AGENT, "--share-net", "--ro-bind", run, run, *curl],
        "bailey run, tunnel": [*bailey, "--policy", run / "opaque.conf", "--env-pass", "LAB_TOKEN", "--", "sh", "-c", f"{ask} --cacert {run / 'end/ca.crt'}"],
        "bailey run, token swapped": [*bailey, "--policy", run / "secure.conf", "--", "sh", "-c", ask],
    }


def make_place(lab):
    """The workspace, with the roots that curl alone reads."""
    place = lab.run / "end"
    place.mkdir(exist_ok=True)
    system = Path("/etc/ssl/certs/ca-certificates.crt")  # every client reads as many certificates: that is most of curl's time
    (place / "ca.crt").write_bytes((system.read_bytes() if system.exists() else b"") + lab.authority.file.read_bytes())


def run_end_to_end(lab, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    run = lab.run
    lab.start("tls-origin")
    env = environment(run / "end-place", LAB_TOKEN=TOKEN)
    make_place(lab)
    all_commands = {name: lambda argv=argv: argv for name, argv in commands(lab).items()}
    failed = try_out(all_commands, env, run / "end.log")
    results, later = interleaved(all_commands, env, run / "end.log", rounds)
    failed = {f"end to end/{name}": why for name, why in (failed | later).items()}
    for name, why in failed.items():
        say(f"  {name}: {why}")
    return results, failed
