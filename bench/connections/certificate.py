"""A certificate of this machine's loopback, made for one run. Belongs here: making it. Never: who uses it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

HOST = "localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the server's chain and key, and the authority that signed it, which no other machine trusts."""

    chain: Path
    key: Path
    authority: Path

    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts this authority alone and checks the name."""
        return ssl.create_default_context(cafile=str(self.authority))


def make(folder: Path) -> Certificate:
    """Writes the three files; the key is this user's alone."""
    authority = trustme.CA()
    issued = authority.issue_cert(HOST, "127.0.0.1")
    made = Certificate(folder / "vllm.crt", folder / "vllm.key", folder / "ca.crt")
    made.key.touch(mode=0o600)
    issued.private_key_pem.write_to_path(made.key)
    made.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(made.authority)
    return made
