# SPDX-License-Identifier: Apache-2.0
"""A DNS server that answers what it is told, records every question, and can lie, stall or change its mind."""
import ipaddress
import socket
import struct
import threading
import time
from dataclasses import dataclass

A, CNAME, AAAA = 1, 5, 28
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


@dataclass
class Question:
    name: str
    kind: int
    transport: str


@dataclass
class Answer:
    """addresses: of both families mixed, the right ones are given for A and AAAA. Everything else is misbehaviour."""
    addresses: tuple = ()
    cname: str = ""
    ttl: int = 60
    rcode: int = NOERROR
    delay: float = 0.0
    silent: bool = False
    wrong_id: bool = False
    truncate: bool = False  # over UDP: TC is set and nothing given, so that the client comes back over TCP


def encode_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".") if label) + b"\0"


def decode_question(message):
    at, labels = 12, []
    while message[at]:
        length = message[at]
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), struct.unpack("!H", message[at + 1:at + 3])[0], message[12:at + 5]


def _record(name, kind, ttl, data):
    return encode_name(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


class DnsServer:
    """`with DnsServer({"api.ok.test": Answer(("192.0.2.1",))}) as dns:`; a list of Answers is given in turn, the last one stays.

    Names that are not in the table get NXDOMAIN. dns.questions is everything that was asked.
    """

    def __init__(self, names=None, udp=None, tcp=None, address="127.0.0.1"):
        self.names = {name.lower(): answer for name, answer in (names or {}).items()}
        self.questions, self._lock, self._ended = [], threading.Lock(), False
        self.udp, self.tcp = (udp, tcp) if udp else self._same_port(address)
        self.address, self.port = self.udp.getsockname()[:2]
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _same_port(address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for _ in range(50):
            tcp = socket.create_server((address, 0), family=family)
            udp = socket.socket(family, socket.SOCK_DGRAM)
            try:
                udp.bind((address, tcp.getsockname()[1]))
                return udp, tcp
            except OSError:
                tcp.close()
                udp.close()
        raise OSError("no port is free for both UDP and TCP")

    def asked(self, name=None):
        with self._lock:
            return [q for q in self.questions if name is None or q.name.lower() == name.lower()]

    def _reply(self, message, transport):
        name, kind, question = decode_question(message)
        with self._lock:
            self.questions.append(Question(name, kind, transport))
            answer = self.names.get(name.lower(), Answer(rcode=NXDOMAIN))
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if answer.delay:
            time.sleep(answer.delay)
        if answer.silent:
            return None
        return self._encode(message, name, kind, question, answer, transport)

    @staticmethod
    def _encode(message, name, kind, question, answer, transport):
        cut = answer.truncate and transport == "udp"
        records, owner = [], name
        if answer.cname:
            records.append(_record(name, CNAME, answer.ttl, encode_name(answer.cname)))
            owner = answer.cname
        for text in answer.addresses:
            address = ipaddress.ip_address(text)
            if kind == (A if address.version == 4 else AAAA):
                records.append(_record(owner, kind, answer.ttl, address.packed))
        records = [] if cut else records
        identity = struct.unpack("!H", message[:2])[0] ^ (0x5555 if answer.wrong_id else 0)
        flags = 0x8180 | (0x0200 if cut else 0) | answer.rcode
        return struct.pack("!HHHHHH", identity, flags, 1, len(records), 0, 0) + question + b"".join(records)

    def _serve_udp(self):
        while not self._ended:
            try:
                message, peer = self.udp.recvfrom(4096)
                if self._ended:
                    return
                threading.Thread(target=self._answer_udp, args=(message, peer), daemon=True).start()
            except OSError:
                return

    def _answer_udp(self, message, peer):
        try:
            reply = self._reply(message, "udp")
            if reply:
                self.udp.sendto(reply, peer)
        except (OSError, IndexError, struct.error):
            pass  # closed meanwhile, or not a question

    def _serve_tcp(self):
        while not self._ended:
            try:
                client, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._answer_tcp, args=(client,), daemon=True).start()

    def _answer_tcp(self, client):
        with client:
            try:
                client.settimeout(10)
                while header := client.recv(2, socket.MSG_WAITALL):
                    message = client.recv(struct.unpack("!H", header)[0], socket.MSG_WAITALL)
                    reply = self._reply(message, "tcp")
                    if not reply:
                        return
                    client.sendall(struct.pack("!H", len(reply)) + reply)
            except (OSError, IndexError, struct.error):
                pass

    def close(self):
        self._ended = True
        for sock in (self.udp, self.tcp):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(5)
        self.udp.close()
        self.tcp.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
