# SPDX-License-Identifier: Apache-2.0
"""The lab's certificate authority, and certificates of the origins. Elliptic curve keys, one for all leaves, as everybody would for speed."""
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def write_key(path, key):
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()))


class Authority:
    """ca.crt, ca.key, ca.pem (both), leaf.key, and NAME.crt for each name, all in one directory that servers may read."""

    def __init__(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.key, self.leaf_key = directory, ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Benchmark lab")])
        usage = x509.KeyUsage(key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
                              data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False)
        builder = self._builder(self.name, self.key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
        certificate = builder.add_extension(usage, critical=True).sign(self.key, hashes.SHA256())
        self.file = directory / "ca.crt"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(directory / "ca.key", self.key)
        write_key(directory / "leaf.key", self.leaf_key)
        (directory / "ca.pem").write_bytes((directory / "ca.key").read_bytes() + self.file.read_bytes())
        for path in directory.iterdir():
            path.chmod(0o644)  # servers that change their user read them; they live as long as the lab

    def _builder(self, subject, key):
        now = datetime.datetime.utcnow()
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(key.public_key())
        return builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
            now + datetime.timedelta(days=90))

    def leaf(self, name):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, self.leaf_key).add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        text = builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        (self.directory / f"{name}.crt").write_bytes(text)
        return text

    def bundle(self, name):
        """Certificate and key in one file, as HAProxy wants them."""
        path = self.directory / f"{name}.pem"
        path.write_bytes((self.directory / "leaf.key").read_bytes() + (self.directory / f"{name}.crt").read_bytes())
        return path
