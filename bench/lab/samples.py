# SPDX-License-Identifier: Apache-2.0
"""What was measured, part by part, in a file: the parts may be measured one after the other, and the report is made of all of them.

A part is what is compared within itself (all servers of one case, all commands of a launch): it is always of one run, and a later run replaces it whole.
"""
import datetime
import json

from .files import JOBS

PARTS = ("micro", "launch", "sandboxes", "guests", *JOBS, "end", "bridge", "git", "approval", "gateway", "idle", "connections", "memory", "files", "records")


class Samples:
    def __init__(self, path=None, facts=None):
        self.path, self.facts, self.parts = path, facts or {}, {}
        if path and path.exists():
            self.parts = json.loads(path.read_text())["parts"]

    def add(self, name, found, failed=None):
        """found: the samples; failed: {what was left out: why}. It is on disk when this returns."""
        part = {"found": found, "left out": failed or {}, "when": datetime.datetime.now().isoformat(timespec="seconds"), **self.facts}
        self.parts[name] = json.loads(json.dumps(part))  # as it will be read again
        self.save()

    def took(self, name, seconds):
        """How long a part was measured."""
        if name in self.parts:
            self.parts[name]["seconds"] = round(seconds)
            self.save()

    def fail(self, name, why):
        """The whole part failed. What an earlier run found stays."""
        if name not in self.parts:
            self.add(name, {})
        self.parts[name]["left out"][name] = why
        self.save()

    def save(self):
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"parts": self.parts}) + "\n")

    def get(self, name):
        return self.parts.get(name, {}).get("found", {})

    def cases(self):
        return {name.partition("/")[2]: part["found"] for name, part in self.parts.items() if name.startswith("case/")}

    def left_out(self):
        return {what: why for part in self.parts.values() for what, why in part["left out"].items()}

    def others(self):
        """The most that others used of the processors in any run."""
        return max((part.get("others", 0) for part in self.parts.values()), default=0)

    def rough(self):
        """The parts that were only looked at."""
        return [name for name, part in self.parts.items() if part.get("quick")]

    def disturbed(self):
        """How many samples of the gateway's cases there are, and how many of them are not the first try."""
        every = [sample for targets in self.cases().values() for each in targets.values() for sample in each]
        return {"samples": len(every), "again": sum(sample.get("again", 0) > 0 for sample in every)}
