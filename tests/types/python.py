# SPDX-License-Identifier: Apache-2.0
"""Never run: mypy reads it. What a program may write passes; lines that are marked with an ignore must be wrong (--warn-unused-ignores)."""
from typing import List

import bailey


def approve(question: bailey.Question) -> int:
    return bailey.APPROVE if question.rule == "" else bailey.DENY


def classify(command: str, verdict: bailey.Verdict) -> str:
    return bailey.FORBIDDEN if command else verdict.decision


def main() -> None:
    config = bailey.Config("default").set("network.allow", "a.test").on_approval(approve).classifier(classify)
    with bailey.Manager(config) as manager, manager.watch(lambda event: print(event["event"])):
        result = manager.exec("make", timeout=1.5, settings={"filesystem.write": ["/srv"]}, on_approval=approve)
        targets: List[str] = [violation.target for violation in result.violations]
        argv, env = manager.wrap(["make"])
        print(result.stdout.decode(), targets, argv[0], env["PATH"], manager.check(["ls"]).decision)
        with manager.gateway(socks="") as gateway:
            print(gateway.port + 1, gateway.env["HTTP_PROXY"])
    with bailey.start_network_proxy(["a.test"], on_request=lambda host, port: port == 443) as proxy:
        print(proxy.port)
    guests = bailey.Guests()
    guests.create("one", "--idle=1h")
    guests.set("one", "--disk=1G")
    guests.grant("one", "/srv", writable=True)
    guests.publish("one", "8080", 80)  # type: ignore[arg-type]
    print(guests.settings("one")[0]["value"], guests.snapshots("one")[0]["bytes"], guests.exec("one", ["make"], env={"A": "b"}).exit_code)
    number: int = guests.job("one", ["make"], directory="/")
    print(guests.exec("one", ["make"], timeout=1.5).stdout.decode(), guests.log("one", number).decode(), guests.jobs("one")[0]["status"])
    guests.exec("one", "make", shell="/bin/sh")  # type: ignore[call-arg]
    for sandbox in bailey.sandboxes():
        with bailey.Control(sandbox) as control:
            print(control.status()["pid"], [question["id"] for question in control.pending()])
    try:
        print(bailey.Filter(allow=["a.test"]).test("a.test", 443)[0], bailey.capabilities()["mode"])
    except bailey.Timeout as error:
        print(error.result.stdout if error.result else error.reason)
    bailey.Manager("default")  # type: ignore[arg-type]
    bailey.Config().set("network.allow", None)  # type: ignore[arg-type]
    manager.exec("make", on_approval=lambda: 1)  # type: ignore[arg-type,misc]
    manager.exec("make", seconds=3)  # type: ignore[call-arg]
