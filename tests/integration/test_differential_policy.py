# SPDX-License-Identifier: Apache-2.0
"""The policy core held against other implementations: Python's ipaddress, curl's URL parser."""
import ipaddress
import random
import subprocess

from conftest import BUILD

# The IANA special-purpose registries (IPv4 and IPv6), with multicast, and what this project refuses beyond them.
# Everything in them must be refused, to the first and last address; what lies beside them and in none must be public.
SPECIAL_V4 = """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32
    168.63.129.16/32""".split()
SPECIAL_V6 = """::/128 ::1/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
    2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32
    2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8 ::/3 4000::/2 8000::/1""".split()
# In the registries, but globally reachable: plain public addresses.
PUBLIC = ["192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "2620:4f:8000::/48"]


def ask(lines):
    """One answer for each line."""
    data = "".join(line + "\n" for line in lines).encode()
    done = subprocess.run([BUILD / "tests/tools/policy-lines"], input=data, stdout=subprocess.PIPE, timeout=60, check=True)
    answers = done.stdout.decode().splitlines()
    assert len(answers) == len(lines)
    return answers


def edges(networks):
    for text in networks:
        net = ipaddress.ip_network(text)
        yield net[0]
        yield net[-1]
        yield net[net.num_addresses // 2]
        if int(net[0]) > 0:
            yield type(net[0])(int(net[0]) - 1)
        if int(net[-1]) + 1 < 2 ** net.max_prefixlen:
            yield type(net[0])(int(net[-1]) + 1)


def random_addresses(count, seed):
    chance = random.Random(seed)
    for _ in range(count):
        yield ipaddress.IPv4Address(chance.getrandbits(32))
        high = chance.choice([0x2000, 0x2001, 0x2002, 0x2606, 0x3fff, 0x0064, 0xfd00, 0xfe80, 0xff02, 0x4000, chance.getrandbits(16)])
        yield ipaddress.IPv6Address(high << 112 | chance.getrandbits(112))
        yield ipaddress.IPv6Address(high << 112 | chance.getrandbits(chance.choice([8, 16, 32, 64])))


SPECIAL = {4: [ipaddress.ip_network(net) for net in SPECIAL_V4], 6: [ipaddress.ip_network(net) for net in SPECIAL_V6]}


def is_special(address):
    return any(address in net for net in SPECIAL[address.version])


def carried(address):
    """IPv4 addresses inside, by Python."""
    if address.version == 4:
        return []
    found = [address.ipv4_mapped, address.sixtofour]
    if address in ipaddress.ip_network("64:ff9b::/96"):
        found.append(ipaddress.IPv4Address(int(address) & 0xffffffff))
    return [inner for inner in found if inner]


def our_text(address):
    """RFC 5952 as Python writes it, except that mapped addresses end in a dotted quad."""
    mapped = address.version == 6 and address.ipv4_mapped
    return f"::ffff:{mapped}" if mapped else str(address)


def check_all(addresses):
    addresses, inside = list(addresses), []
    for address, answer in zip(addresses, ask([f"addr {address.exploded}" if address.version == 6 else f"addr {address}"
                                               for address in addresses])):
        status, text, name = answer.split()
        assert status == "ok"
        assert text == our_text(address)
        refused = name != "public"
        assert refused == is_special(address), f"{address} is {name}"
        # What Python knows to be not global, we refuse too (Python of Debian 12 does not know all of the registry).
        if not address.is_global:
            assert refused, f"{address} is not global, but {name}"
        inside += [(address, inner, name) for inner in carried(address)]
    for (address, inner, name), answer in zip(inside, ask([f"addr {inner}" for _, inner, _ in inside])):
        assert name != "public" and answer.split()[2] in ("public", name), f"{address} is {name}, but carries {answer}"


def test_special_purpose_registries():
    check_all(edges(SPECIAL_V4 + SPECIAL_V6))


def test_registered_but_public():
    for address in edges(PUBLIC):
        assert ask([f"addr {address}"])[0].endswith(" public")


def test_random_addresses():
    check_all(random_addresses(3000, seed=1))


def test_every_ipv4_block():
    """The first address of every /16, and of every /24 in the blocks that are cut finer."""
    first = [ipaddress.IPv4Address(i << 16) for i in range(2 ** 16)]
    finer = [ipaddress.IPv4Address(block << 16 | i << 8) for block in (0xc000, 0xc058, 0xc633, 0xcb00, 0xa83f) for i in range(256)]
    check_all(first + finer)


def mutated(chance, text):
    """A few changes of the kind that parsers differ in."""
    alphabet = "0123456789abcdefx.:%[]/+- "
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        what = chance.random()
        if what < 0.4:
            text = text[:at] + chance.choice(alphabet) + text[at:]
        elif what < 0.7:
            text = text[:at] + text[at + 1:]
        else:
            text = text[:at] + chance.choice(alphabet) + text[at + 1:]
    return text


def test_address_text_as_python_reads_it():
    chance = random.Random(2)
    seeds = ["127.0.0.1", "255.255.255.255", "::1", "::ffff:1.2.3.4", "2001:db8::1:0:0:1", "1:2:3:4:5:6:7:8", "64:ff9b::a9fe:a9fe", "::"]
    texts = [mutated(chance, chance.choice(seeds)) for _ in range(20000)]
    accepted = 0
    for text, answer in zip(texts, ask([f"addr {text}" for text in texts])):
        try:
            theirs = ipaddress.ip_address(text)
            theirs = None if theirs.version == 6 and theirs.scope_id else theirs
        except ValueError:
            theirs = None
        assert (answer != "error") == (theirs is not None), text
        if theirs:
            accepted += 1
            assert answer.split()[1] == our_text(theirs)
    assert accepted > 1000


AUTHORITIES = """api.ok.test api.ok.test:443 API.OK.Test:8443 api.ok.test.:443 127.0.0.1:80 [::1]:443 [2001:DB8::1]:80 [::ffff:1.2.3.4]:80
    a_b.ok.test xn--mnchen-3ya.test localhost:3000 1.2.3.example 127.0.0.1.nip.io a-b.ok.test:65535 0x.test 3com.test:1
    api.ok.test:0443 user@api.ok.test api.ok.test:99999 api..ok.test 0x7f.1 127.1 2130706433 0177.0.0.1 127.0.0.1. [::1%25lo]:80
    [api.ok.test]:443 evil.test#.ok.test evil.test/.ok.test evil.test\\.ok.test evil.test?.ok.test api.ok.test:-1 api.ok.test:+1""".split()


def what_curl_reads(texts, make_origin, run):
    """For each text the host and port of the CONNECT that curl sends for it: nothing is resolved, nothing else is reached."""
    proxy = make_origin(answer=b"HTTP/1.1 502 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    read = []
    for text in texts:
        before = len(proxy.requests())
        done = run(["curl", "--silent", "--globoff", "--max-time", "10", "--proxytunnel", "--noproxy", "", "--proxy",
                    f"http://127.0.0.1:{proxy.port}", "--output", "/dev/null", f"http://{text}/"])
        requests = proxy.requests()[before:]
        assert len(requests) == 1, f"{text}: {done}"
        method, target, _ = requests[0].split(b"\r\n")[0].decode().split(" ")
        assert method == "CONNECT"
        host, _, port = target.rpartition(":")
        read.append((host.strip("[]").lower().removesuffix("."), int(port)))
    return read


def check_against_curl(texts, make_origin, run):
    ours = {}
    for text, answer in zip(texts, ask([f"authority 80 {text}" for text in texts])):
        if answer.startswith("ok "):
            _, _, host, port = answer.split()
            ours[text] = (host, int(port))
    for text, theirs in zip(ours, what_curl_reads(list(ours), make_origin, run)):
        host, port = ours[text]
        if ":" in theirs[0]:
            theirs = (our_text(ipaddress.ip_address(theirs[0])), theirs[1])
        assert theirs == (host, port), text
    return len(ours)


def test_authorities_as_curl_reads_them(make_origin, run):
    """What we accept, curl accepts and reads as the same host and port. We refuse more; that is on purpose."""
    assert check_against_curl(AUTHORITIES, make_origin, run) >= 15


def test_mutated_authorities_as_curl_reads_them(make_origin, run):
    chance = random.Random(3)
    texts = {mutated(chance, chance.choice(AUTHORITIES[:16])).strip() for _ in range(250)}
    assert check_against_curl(sorted(texts), make_origin, run) >= 20
