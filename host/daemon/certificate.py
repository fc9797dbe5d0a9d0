"""Certificates that a daemon shows, so that rows and token are encrypted on the network."""

from __future__ import annotations

import datetime
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muntin.host.errors import DaemonError

#: The name in certificates that are made here: clients ask for it, whatever the daemon's address.
NAME = "daemon.muntin.invalid"
YEARS = 10  # a query cannot change its certificate while it runs


@dataclass(frozen=True)
class Certificate:
    """What a daemon shows to its clients, and what they trust.

    Attributes
    ----------
    chain : bytes
        The certificate, and those that lead to its authority, PEM. Clients trust these and no others.
    key : bytes
        Its private key, PEM.
    name : str
        A name that it is for; clients ask for that one, not for the host they connect to.
    """

    chain: bytes
    key: bytes = field(repr=False)
    name: str = NAME

    @classmethod
    def make(cls) -> Certificate:
        """A new one with a new key, for `NAME`, which it signs itself.

        Raises
        ------
        DaemonError
            The package `cryptography` is missing.
        """
        x509 = _x509()
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(own)
            .issuer_name(own)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
            .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        plain = serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        return cls(made.public_bytes(pem), private)

    @classmethod
    def from_files(cls, cert: str | Path, key: str | Path) -> Certificate:
        """From PEM files.

        Raises
        ------
        DaemonError
            As of `read_certificate`; the certificate has no DNS name; the package `cryptography` is missing.
        """
        chain, private = read_certificate(Path(cert), Path(key))
        x509 = _x509()
        try:
            names = x509.load_pem_x509_certificate(chain).extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            )
            name = names.value.get_values_for_type(x509.DNSName)[0]
        except (ValueError, x509.ExtensionNotFound, IndexError) as error:
            raise DaemonError(
                f"the certificate in {cert} has no DNS name in its subject alternative names, which clients ask for: "
                "make one with -addext subjectAltName=DNS:..."
            ) from error
        return cls(chain, private, name)

    @property
    def trust(self) -> tuple[bytes, str]:
        """For `DaemonClient(..., tls_ca=...)`."""
        return self.chain, self.name


def read_certificate(cert: Path, key: Path) -> tuple[bytes, bytes]:
    """A certificate chain and its private key, PEM.

    Raises
    ------
    DaemonError
        A file cannot be read, or these are not the two.
    """
    read = read_file(cert), read_file(key)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise DaemonError(
            f"{cert} and {key} are not a certificate and its private key, in PEM, without a passphrase: {error}"
        ) from error
    return read


def read_file(path: Path) -> bytes:
    """A file's bytes; `DaemonError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DaemonError(f"cannot read {path}: {error.strerror}") from error


def check_trusted(certificates: bytes, source: str) -> bytes:
    """The same PEM text; `DaemonError` where it holds no certificate."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates.decode(errors="replace"))
    except (ssl.SSLError, ValueError) as error:
        raise DaemonError(f"{source} holds no certificate to trust, in PEM: {error}") from error
    return certificates


def unnamed_file(content: bytes) -> int:
    """A file that has no name and lies in memory, of this user alone: a handle for `pass_fds`. Nothing is left of it
    once the processes that hold it have ended, however that happens."""
    handle = os.memfd_create("muntin")
    os.fchmod(handle, 0o600)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(content)
    return handle


def _x509() -> Any:
    try:
        from cryptography import x509
    except ImportError as error:
        raise DaemonError(
            "the certificate of a query's daemons is made with the package cryptography, which is missing here: "
            "pip install 'muntin[spark]', or window_join(..., tls=False) where rows and token may go unencrypted"
        ) from error
    return x509
