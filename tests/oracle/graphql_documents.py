#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""GraphQL documents, good ones and damaged ones, read by Bailey and by other parsers: what Bailey reads, they must read the same way.

    tests/oracle/graphql_documents.py BUILD --count 100000 [--seed N] [--node DIR]     # DIR: where graphql is; Debian's: /usr/share/nodejs
"""
import argparse
import json
import random
import subprocess
import sys

from graphql import GraphQLError, parse
from graphql.language import ast

# Debian 12 has graphql-core 2, where the nodes have shorter names.
FieldNode, FragmentDefinitionNode, InlineFragmentNode, OperationDefinitionNode = (
    getattr(ast, f"{name}Node", None) or getattr(ast, name) for name in ("Field", "FragmentDefinition", "InlineFragment", "OperationDefinition"))

CORE_IS_OLD = not hasattr(ast, "FieldNode")
NAMES = ["a", "b", "viewer", "query", "mutation", "fragment", "on", "type", "_x", "deleteRef", "__typename", "true", "null"]
NODE = """
const {parse} = require('graphql');
const documents = require('fs').readFileSync(0).toString().split('\\0').slice(0, -1);
const collect = (set, all, seen) => set.selections.flatMap(s => {
  if (s.kind === 'Field') return [s.name.value];
  if (s.kind === 'InlineFragment') return collect(s.selectionSet, all, seen);
  const name = s.name.value;
  if (seen.has(name)) return [];
  seen.add(name);
  if (!all[name]) throw new Error('no fragment');
  return collect(all[name].selectionSet, all, seen);
});
for (const text of documents) {
  try {
    const d = parse(text).definitions, all = {};
    for (const x of d) if (x.kind === 'FragmentDefinition') all[x.name.value] = x;
    const o = d.filter(x => x.kind === 'OperationDefinition');
    if (o.length !== 1) throw new Error('several');
    console.log([o[0].operation, ...collect(o[0].selectionSet, all, new Set())].join(' '));
  } catch (e) { console.log('bad'); }
}
"""


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_of(self, *choices):
        return self.random.choice(choices)

    def name(self):
        return self.random.choice(NAMES)

    def gap(self):
        return self.one_of(" ", " ", "\n", ",", "\t", " # x { } \"\n", "\r\n", "  ")

    def value(self, depth=0):
        kind = self.random.randrange(9 if depth < 3 else 7)
        texts = ["$" + self.name(), str(self.random.randrange(-9, 99)), self.one_of("1.5", "-0", "2e3", "0.1E-2"), self.name(),
                 json.dumps(self.one_of("", "}", "mutation { x }", "\\", "\"", "é", "#")),
                 '"""' + self.one_of("", " } ", '\\""" {', "\n  # x\n", '"', "é") + ' """', "true"]
        if kind < 7:
            return texts[kind]
        inner = [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        if kind == 7:
            return "[" + self.gap().join(inner) + "]"
        return "{" + self.gap().join(f"{self.name()}:{v}" for v in inner) + "}"

    def arguments(self):
        if self.random.random() < 0.6:
            return ""
        return "(" + self.gap().join(f"{self.name()}{self.gap()}:{self.value()}" for _ in range(self.random.randrange(1, 3))) + ")"

    def directives(self):
        return self.one_of("", "", "", "", " @include(if:true)", " @skip(if:$x)", " @other")

    def selections(self, depth=0):
        parts = []
        for _ in range(self.random.randrange(1, 4)):
            kind = self.random.randrange(10)
            if kind < 7 or depth > 3:
                alias = f"{self.name()}{self.gap()}:{self.gap()}" if self.random.random() < 0.3 else ""
                below = self.selections(depth + 1) if self.random.random() < 0.3 and depth < 4 else ""
                parts.append(alias + self.name() + self.arguments() + self.directives() + below)
            elif kind == 7:
                parts.append("..." + self.one_of("F", "G", "H") + self.directives())
            else:
                parts.append("..." + self.one_of("", " on Query", " on X") + self.directives() + self.selections(depth + 1))
        return "{" + self.gap() + self.gap().join(parts) + self.gap() + "}"

    def document(self):
        variables = self.one_of("", "", "($x:I)", "($x:[I!]!=[1] $y:S=\"a\")", "($x: I = {a:1} @d)")
        head = self.one_of("", "query", "query Q" + variables, "mutation", "mutation M" + variables, "subscription S")
        parts = [head + self.selections()]
        for fragment in self.random.sample(["F", "G", "H"], self.random.randrange(4)):
            parts.append(f"fragment {fragment} on {self.one_of('Query', 'X')}{self.directives()}{self.selections()}")
        if self.random.random() < 0.1:
            parts.append(self.one_of("query", "mutation") + " Z" + self.selections())
        self.random.shuffle(parts)
        return self.damage(self.gap().join(parts))

    def damage(self, text):
        if self.random.random() < 0.6:
            return text
        at = self.random.randrange(len(text) + 1)
        piece = self.one_of("", "", "{", "}", '"', '"""', "\\", "...", ":", "$", "@", "&", "|", "!", "(", ")", "0", ".", "-", "#", "é", "\ufeff", "\x01", "on", "'")
        return text[:at] + piece + text[at + self.random.randrange(3):]


def read_by_core(text):
    """None: refused."""
    try:
        definitions = parse(text).definitions
    except (GraphQLError, RecursionError):
        return None
    fragments = {d.name.value: d for d in definitions if isinstance(d, FragmentDefinitionNode)}
    operations = [d for d in definitions if isinstance(d, OperationDefinitionNode)]
    if len(operations) != 1:
        return None
    names, seen = [], set()

    def collect(selections):
        for node in selections:
            if isinstance(node, FieldNode):
                names.append(node.name.value)
            elif isinstance(node, InlineFragmentNode):
                collect(node.selection_set.selections)
            elif node.name.value not in fragments:
                raise LookupError(node.name.value)
            elif node.name.value not in seen:
                seen.add(node.name.value)
                collect(fragments[node.name.value].selection_set.selections)
    try:
        collect(operations[0].selection_set.selections)
    except LookupError:
        return None
    return " ".join([getattr(operations[0].operation, "value", operations[0].operation), *names])


def compare(build, count, seed, node=None):
    """(what Bailey reads, what of that graphql-core 2 refuses); raises at the first document that is read differently. What Bailey refuses, nobody need read."""
    maker = Maker(seed)
    documents = [maker.document() for _ in range(count)]
    said = subprocess.run([f"{build}/tests/tools/graphql-read"], input=joined(documents), capture_output=True, check=True).stdout.decode().splitlines()
    assert len(said) == count
    documents, ours = zip(*[(document, line) for document, line in zip(documents, said) if line != "bad"])
    others = [[read_by_core(d) for d in documents]]
    if node:
        done = subprocess.run(["node", "-e", NODE], input=joined(documents), stdout=subprocess.PIPE, check=True, env={"NODE_PATH": node, "PATH": "/usr/bin:/bin"})
        others.append([None if line == "bad" else line for line in done.stdout.decode().splitlines()])
    assert all(len(o) == len(ours) for o in others)
    looser = 0
    for at, document in enumerate(documents):
        for number, other in enumerate(others):
            if other[at] is None and number == 0 and CORE_IS_OLD:
                looser += 1  # it knows no block strings
            elif ours[at] != other[at]:
                raise AssertionError(f"read differently: {document!r}: {ours[at]!r}, the other: {other[at]!r}")
    return len(ours), looser


def joined(documents):
    return "".join(document + "\0" for document in documents).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--node")
    args = parser.parse_args()
    read, looser = compare(args.build, args.count, args.seed, args.node)
    print(f"{args.count} documents, {1 + bool(args.node)} others: {read} read, all in the same way; {looser} refused by graphql-core 2 alone")
    return 0 if read > args.count // 10 else 1


if __name__ == "__main__":
    sys.exit(main())
