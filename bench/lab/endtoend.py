# SPDX-License-Identifier: Apache-2.0
"""`bailey run` from the command line to the end of one https request made inside, beside the same request without a sandbox."""
import random
from pathlib import Path

from .launch import once
from .peers import PORT, SECURE_HOST, TOKEN

URL = f"https://{SECURE_HOST}:{PORT['tls_origin']}/1024"
# The name is allowed and the token is not Bailey's to give: the tunnel goes end to end.
OPAQUE = """network:
  allow: ["{host}:{tls_origin}"]
  allow_private: ["127.0.0.1:{tls_origin}"]
"""
BOX = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all", "--share-net", "--new-session", "--die-with-parent"]


def commands(lab):
    run = lab.run
    (run / "opaque.conf").write_text(OPAQUE.format(host=SECURE_HOST, **PORT))
    curl = ["curl", "-sS", "--fail", "-o", "/dev/null", "--cacert", run / "end/ca.crt", "-H", f"Authorization: Bearer {TOKEN}", URL]
    ask = f'exec curl -sS --fail -o /dev/null -H "Authorization: Bearer $LAB_TOKEN" {URL}'
    bailey = [lab.build / "src/cli/bailey", "run", "--quiet", "-w", run / "end", "--no-workspace-policy", "--hosts", run / "hosts", "--ca-bundle", lab.authority.file]
    return {
        "curl alone": curl,
        "bwrap, the host's network": [*BOX, "--ro-bind", run, run, *curl],
        "bailey run, tunnel": [*bailey, "--policy", run / "opaque.conf", "--env-pass", "LAB_TOKEN", "--", "sh", "-c", f"{ask} --cacert {run / 'end/ca.crt'}"],
        "bailey run, token swapped": [*bailey, "--policy", run / "secure.conf", "--", "sh", "-c", ask],
    }


def run_end_to_end(lab, rounds, say):
    """{command: [{"ms":, "cpu_ms":}]}, and what does not work here."""
    run, results, failed = lab.run, {}, {}
    lab.start("tls-origin")
    for folder in ("end", "end-home"):
        (run / folder).mkdir(exist_ok=True)
    system = Path("/etc/ssl/certs/ca-certificates.crt")  # every client reads as many certificates: that is most of curl's time
    (run / "end/ca.crt").write_bytes((system.read_bytes() if system.exists() else b"") + lab.authority.file.read_bytes())
    env = {"PATH": "/usr/bin:/bin", "HOME": str(run / "end-home"), "LANG": "C.UTF-8", "LAB_TOKEN": TOKEN}
    all_commands = commands(lab)
    for name, argv in list(all_commands.items()):
        status = max(once(argv, env, run / "end.log")[2] for _ in range(2))
        if status != 0:
            failed[f"end to end/{name}"] = f"exit {status}: {(run / 'end.log').read_text(errors='replace').strip()[-300:]}"
            say(f"  {name}: {failed[f'end to end/{name}']}")
            del all_commands[name]
    for _ in range(rounds):
        names = list(all_commands)
        random.shuffle(names)
        for name in names:
            wall, cpu, status = once(all_commands[name], env, run / "end.log")
            if status == 0:
                results.setdefault(name, []).append({"ms": wall, "cpu_ms": cpu})
            else:
                failed[f"end to end/{name}, once"] = f"exit {status}"
    return results, failed
