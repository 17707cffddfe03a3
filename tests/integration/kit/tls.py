# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of the test's own, and server contexts with certificates from it."""
import datetime
import ipaddress
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Authority:
    """`ca = Authority(tmp_path)`: ca.file is the root for clients; ca.context("api.ok.test") a server's context."""

    def __init__(self, directory, name="test root"):
        self.directory, self.key = directory, ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.utcnow()
        self.certificate = (
            x509.CertificateBuilder().subject_name(_name(name)).issuer_name(_name(name)).public_key(self.key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256()))
        self.file = directory / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, *names, days=10, client=False):
        """Certificate and key for these names in one PEM file; negative days for an expired one; client: for who connects."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.utcnow()
        certificate = (
            x509.CertificateBuilder().subject_name(_name(names[0])).issuer_name(self.certificate.subject)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - 20 * _DAY).not_valid_after(now + days * _DAY)
            .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256()))
        path = self.directory / f"{names[0].replace('*', 'any').replace(':', '_')}-{certificate.serial_number:x}.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return path

    def context(self, *names, days=10, alpn=("http/1.1",)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(*names, days=days))
        context.set_alpn_protocols(list(alpn))
        context.sni_callback = lambda sock, name, _: setattr(sock, "bailey_sni", name)
        return context
