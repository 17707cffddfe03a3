# SPDX-License-Identifier: Apache-2.0
"""`bailey gateway` as a user starts it, with its audit log, and what a client needs to know about it."""
import json
import signal
import socket
import struct

from .process import PATIENCE, Child, wait_until


class Service:
    """Service(["bailey", "gateway"], tmp_path, environment, {"allow": ["*.ok.test"]}, names=["api.ok.test"])

    network: the network section of the policy. names: led to loopback, or pairs of name and address. before: words put in front
    of the command, for another machine around it. audit: its file, when not in tmp_path.
    """

    def __init__(self, command, directory, environment, network, names=(), before=(), audit=None, more=()):
        self.policy, self.hosts = directory / "policy.yaml", directory / "hosts"
        self.audit = audit or directory / "audit.jsonl"
        self.write_policy(network)
        pairs = [(name, "127.0.0.1") if isinstance(name, str) else name for name in names]
        self.hosts.write_text("".join(f"{address} {name}\n" for name, address in pairs))
        self.child = Child([*before, *command, "--no-workspace-policy", "--policy", self.policy, "--hosts", self.hosts,
                            *(word for kind in ("http", "socks", "dns") for word in (f"--{kind}", "127.0.0.1:0")),
                            "--audit", self.audit, "--json", *more], env=environment, cwd=directory)
        try:
            wait_until(lambda: b"\n" in self.child.output() or not self.child.running(), PATIENCE, "the gateway's start")
            assert b"\n" in self.child.output(), self.child.errors()
        except BaseException:
            self.child.stop()
            raise
        self.ready = json.loads(self.child.output())
        self.port = {kind: int(self.ready[kind][0].rpartition(":")[2]) for kind in ("http", "socks", "dns")}
        self.http = f"http://127.0.0.1:{self.port['http']}"
        self.socks = f"127.0.0.1:{self.port['socks']}"

    def write_policy(self, network):
        """The new file appears at once, as an editor would do it."""
        text = network if isinstance(network, str) else json.dumps({"network": network})
        fresh = self.policy.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.policy)

    def reload(self, network, says="reloaded"):
        before = self.child.errors().count(says)
        self.write_policy(network)
        self.child.signal(signal.SIGHUP)
        wait_until(lambda: self.child.errors().count(says) > before, PATIENCE, f'a line with "{says}"')

    @property
    def gateway_pid(self):
        return self.ready["gateway_pid"]

    def records(self, **fields):
        """The audit log so far; a last line that is being written is left out."""
        lines = self.audit.read_bytes().split(b"\n")[:-1]
        records = [json.loads(line) for line in lines]
        return [r for r in records if all(r.get(name) == value for name, value in fields.items())]

    def wait_record(self, timeout=PATIENCE, **fields):
        return wait_until(lambda: self.records(**fields), timeout, f"a record with {fields}")[-1]

    def connect(self, kind="http", timeout=PATIENCE):
        sock = socket.create_connection(("127.0.0.1", self.port[kind]), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def tunnel(self, host, port):
        """CONNECT: the socket and the status."""
        sock = self.connect()
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head and (byte := sock.recv(1)):
            head += byte
        return sock, int(head.split()[1]) if head else 0

    def socks_tunnel(self, host, port):
        """SOCKS5 by name: the socket and the reply code, -1 where it was closed without one."""
        return self.socks_request(b"\3" + bytes([len(host)]) + host.encode(), port)

    def socks_request(self, address, port):
        sock = self.connect("socks")
        sock.sendall(b"\5\1\0\5\1\0" + address + struct.pack("!H", port))
        got = b""
        while len(got) < 12 and (data := sock.recv(12 - len(got))):
            got += data
        return sock, got[3] if len(got) > 3 else -1

    def memory(self):
        """Resident KiB of the gateway."""
        with open(f"/proc/{self.gateway_pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def close(self):
        """It ends when asked, with status 0."""
        if self.child.running():
            self.child.signal(signal.SIGTERM)
            result = self.child.wait(PATIENCE)
            assert result.status == 0, str(result)
        self.child.stop()
