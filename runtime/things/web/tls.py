"""TLS: the certificate of a gateway, given or self-signed, checked when it starts and not by its first client.

A certificate is checked as a client would: by a handshake in memory with a client that trusts this certificate alone. So it is
found out here that it has expired, or that its key is another's. Costs some milliseconds, once.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Days that a self-signed certificate is valid. Its clients know it by its fingerprint, so a short life would only break them.
SELF_SIGNED_DAYS: Final = 3_650
#: Seconds for the program that makes it: it takes 0.02 s.
MAKE_S: Final = 30.0
#: Bytes of a file with certificates. A chain has some thousand.
PEM_BYTES_MAX: Final = 1 << 20
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """What a gateway shows to its clients. `fingerprint`: the SHA-256 of the certificate, as browsers and openssl write it."""

    context: ssl.SSLContext
    fingerprint: str


def loaded(certificate: str, key: str) -> TlsIdentity:
    """The certificate (PEM, with its chain after it) and its key; the same file may hold both.

    Raises `ValueError` with the file and the remedy if it cannot be read, has expired, or belongs to another key.
    """
    text = _read(certificate)
    found = _CERTIFICATE.search(text)
    if found is None:
        raise ValueError(
            f"certificate = {certificate!r}: no PEM certificate is in this file (-----BEGIN CERTIFICATE-----)"
        )
    if "ENCRYPTED" in _read(key, "key"):
        raise ValueError(f"key = {key!r} has a password: store it without one (openssl pkey -in KEY -out PLAIN_KEY)")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # or OpenSSL might ask the terminal for one
        der = ssl.PEM_cert_to_DER_cert(found[0])
    except (OSError, ValueError) as error:
        raise ValueError(f"certificate = {certificate!r}, key = {key!r}: {_because(error)}") from None
    _check_as_client(context, der, certificate)
    digest = hashlib.sha256(der).hexdigest().upper()
    return TlsIdentity(context, ":".join(digest[at : at + 2] for at in range(0, len(digest), 2)))


def self_signed(file: Path) -> TlsIdentity:
    """The certificate in this file, which also holds its key. It is made if there is none, for this user alone (mode 0600).

    Raises `ValueError` where the program openssl is missing, or the file cannot be written or used.
    """
    if not file.exists():
        _write(file, _made())
    return loaded(str(file), str(file))


def _read(file: str, setting: str = "certificate") -> str:
    try:
        with Path(file).open("rb") as stream:
            return stream.read(PEM_BYTES_MAX).decode("ascii", "replace")
    except OSError as error:
        raise ValueError(f"{setting} = {file!r} cannot be read: {error.strerror}") from None


def _because(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    if reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):  # the second: not even of the same kind
        return "this key is not that of the certificate"
    return f"not a certificate with its key in PEM ({reason})"


def _check_as_client(context: ssl.SSLContext, der: bytes, certificate: str) -> None:
    """Raises `ValueError` if no client would accept the certificate, even one that trusts it by itself."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client_context.load_verify_locations(cadata=der)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server)
    try:
        for _ in range(4):  # each side writes twice at most
            for side in (client, server):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise ValueError(f"certificate = {certificate!r}: {error.verify_message}: give the gateway a new one") from None
    except ssl.SSLError as error:
        raise ValueError(
            f"certificate = {certificate!r} is of no use ({error.reason}): give the gateway another"
        ) from None


def _made() -> bytes:
    """A new key and its certificate, as PEM, for the names of this host."""
    host = socket.gethostname()
    names = ["DNS:localhost", "IP:127.0.0.1", "IP:0:0:0:0:0:0:0:1"]
    if re.fullmatch(r"[A-Za-z0-9.-]{1,63}", host) and host != "localhost":
        names.append(f"DNS:{host}")
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", str(SELF_SIGNED_DAYS), "-subj", "/CN=AppBackplane gateway", "-addext", f"subjectAltName={','.join(names)}",
        "-addext", "extendedKeyUsage=serverAuth", "-keyout", "/dev/stdout", "-out", "/dev/stdout",
    ]  # fmt: skip
    remedy = "install it, or give the gateway a `certificate` and its `key`"
    try:
        done = subprocess.run(command, capture_output=True, timeout=MAKE_S, check=False)
    except FileNotFoundError:
        raise ValueError(f'tls = "self-signed" needs the program openssl: {remedy}') from None
    except subprocess.TimeoutExpired:
        raise ValueError(f'tls = "self-signed": openssl did not end within {MAKE_S:g} s: {remedy}') from None
    if done.returncode:
        raise ValueError(f'tls = "self-signed": openssl: {done.stderr.decode(errors="replace").strip()[-200:]}')
    return done.stdout


def _write(file: Path, pem: bytes) -> None:
    """Complete or not at all: another replica of the gateway may do the same at this moment, and the first one stays."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(pem)
        with suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
    except OSError as error:
        raise ValueError(f"the self-signed certificate {file} cannot be written: {error.strerror}") from None
