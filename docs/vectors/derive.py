#!/usr/bin/env python3
"""Derives and checks native.txt by the rules of docs/PROTOCOL.md (N1, N6), without code of rdt.

Input: private keys, shared secrets and packets. Each Noise message is computed again and compared,
each sealed packet is opened. The values in between are written next to them.
Needs the package `cryptography`.
"""
import hashlib
import hmac
import pathlib
import zlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

FILE = pathlib.Path(__file__).with_name("native.txt")
HEADER = """\
# Three native connections, explained in docs/PROTOCOL.md, N9. Times are in microseconds after the
# start. "opened" is the body of a sealed packet. Private keys, shared secrets and packets are written by
# `cargo test -p rdt-transport --lib write_vectors -- --ignored`, all other values by `derive.py`.
"""
PATTERNS = {  # tokens of each message; the responder's static key is known before NK and IK
    "XX": (["e"], ["e", "ee", "s", "es"], ["s", "se"]),
    "NK": (["e", "es"], ["e", "ee"]),
    "IK": (["e", "es", "s", "ss"], ["e", "ee", "se"]),
}
TYPES = {4: "DATA", 6: "ACK", 7: "FIN", 8: "FIN-ACK", 9: "CLOSE", 12: "PATH"}
INPUTS = ("private key", "shared secret", "packet ")


def mac(key, text, digest="sha256"):
    return hmac.new(key, text, digest).digest()


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, other):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))


class Noise:
    """The symmetric state of Noise, revision 34, with both sides' private keys."""

    def __init__(self, name, prologue, keys, psk):
        self.hash = name.encode().ljust(32, b"\0") if len(name) <= 32 else hashlib.blake2s(name.encode()).digest()
        self.chain, self.key, self.nonce = self.hash, None, 0
        self.keys, self.psk = keys, psk
        self.mix_hash(prologue)

    def mix_hash(self, data):
        self.hash = hashlib.blake2s(self.hash + data).digest()

    def hkdf(self, data, count):
        temporary, outputs, last = mac(self.chain, data, "blake2s"), [], b""
        for n in range(1, count + 1):
            last = mac(temporary, last + bytes([n]), "blake2s")
            outputs.append(last)
        return outputs

    def mix_key(self, data):
        self.chain, self.key = self.hkdf(data, 2)
        self.nonce = 0

    def message(self, tokens, sender, text):
        """Reads a message of `sender` (i or r); returns its payload, after comparing what is known."""
        def take(n):
            nonlocal text
            part, text = text[:n], text[n:]
            return part

        def opened(sealed):
            plain = sealed
            if self.key:
                nonce = bytes(4) + self.nonce.to_bytes(8, "little")
                plain = ChaCha20Poly1305(self.key).decrypt(nonce, sealed, self.hash)
                self.nonce += 1
            self.mix_hash(sealed)
            return plain

        for token in tokens:
            if token == "e":
                key = take(32)
                assert key == public(self.keys[sender + "e"])
                self.mix_hash(key)
                if self.psk:
                    self.mix_key(key)
            elif token == "s":
                assert opened(take(48 if self.key else 32)) == public(self.keys[sender + "s"])
            elif token == "psk":
                self.chain, mixed, self.key = self.hkdf(self.psk, 3)
                self.mix_hash(mixed)
                self.nonce = 0
            else:
                ours, theirs = self.keys["i" + token[0]], self.keys["r" + token[1]]
                self.mix_key(dh(ours, public(theirs)))
        return opened(text)


def aead_of(number, key):
    return ChaCha20Poly1305(key) if number == 3 else AESGCM(key)


def derive(name, entries):
    """Returns the entries of a connection with all values in between."""
    given = dict(entries)
    keys = {}
    for side in ("initiator", "responder"):
        for kind in ("static", "ephemeral"):
            private = given.get(f"{side}'s {kind} private key")
            if private:
                keys[side[0] + kind[0]] = private
    packets = [(title.split(" "), data) for title, data in entries if title.startswith("packet ")]
    syn = next(data for _, data in packets if data[1] == 1)
    psk = mac(given["shared secret"], b"rdt2 psk") if "shared secret" in given else None
    prologue = b"rdt2" + syn[:2] + syn[8:16] + syn[18:32]
    noise = Noise(name, prologue, keys, psk)
    pattern = name[6:8]
    if pattern != "XX":
        noise.mix_hash(public(keys["rs"]))
    tokens = [list(message) for message in PATTERNS[pattern]]
    if psk:
        tokens[-1].append("psk")
        expected = int.from_bytes(mac(given["shared secret"], b"rdt2 id")[:8], "little") or 1
        assert int.from_bytes(syn[24:32], "little") == expected

    out, states, aead, numbers, first = [], {}, None, {}, None
    for title, data in entries:
        if not title.startswith("packet "):
            out.append((title, data))
            if title.endswith("private key"):
                out.append((title.replace("private", "public"), public(data)))
            if title == "shared secret":
                out.append(("psk", psk))
    out.append(("prologue", prologue))
    for (_, at, side, kind), data in packets:
        out.append((f"packet {at} {side} {kind}", data))
        assert data[0] == 0xD2
        if data[1] not in TYPES:
            assert zlib.crc32(data[:4] + bytes(4) + data[8:]) == int.from_bytes(data[4:8], "little")
        length = int.from_bytes(data[2:4], "little")
        start = {1: 32 + data[16], 3: 24, 11: 16}.get(data[1])
        message = data[start:start + length] if start else b""
        if data[1] == 1 and first:
            # The SYN with the cookie of a RETRY.
            assert message == first
        elif message:
            number = {1: 1, 3: 2, 11: 3}[data[1]]
            first = first or message
            payload = noise.message(tokens[number - 1], side[0], message)
            out.append((f"payload of message {number}", payload))
            if number == 2:
                aead = payload[1]
            if number == len(tokens):
                out.append(("handshake hash", noise.hash))
                for role, secret in zip(("initiator", "responder"), noise.hkdf(b"", 2)):
                    states[role] = secret
                    for n in (0, 1):
                        out.append((f"{role}'s secret {n}", secret))
                        out.append((f"{role}'s key {n}", mac(secret, b"rdt2 key")[:16 if aead == 1 else 32]))
                        out.append((f"{role}'s iv {n}", mac(secret, b"rdt2 iv")[:12]))
                        secret = mac(secret, b"rdt2 next")
        if data[1] in TYPES:
            secret = states[side]
            for _ in range(data[2] & 3):
                secret = mac(secret, b"rdt2 next")
            key, iv = mac(secret, b"rdt2 key")[:16 if aead == 1 else 32], mac(secret, b"rdt2 iv")[:12]
            space = 0 if data[1] in (4, 7) else 1
            # Fewer than 2^32 packets: the low 32 bits are the number, and numbers ascend.
            number = int.from_bytes(data[4:8], "little")
            assert number > numbers.get((side, space), -1)
            numbers[side, space] = number
            mask = bytes([space, 0, 0, 0]) + number.to_bytes(8, "little")
            nonce = bytes(a ^ b for a, b in zip(iv, mask))
            out.append(("opened", aead_of(aead, key).decrypt(nonce, data[16:], data[:16])))
    return out


def main():
    sections, title = [], None
    for line in FILE.read_text().splitlines():
        if line.startswith("== "):
            sections.append((line[3:], []))
        elif line.startswith("  "):
            if title:
                sections[-1][1][-1][1].extend(bytes.fromhex(line))
        elif line and not line.startswith("#"):
            title = line if any(word in line for word in INPUTS) else None
            if title:
                sections[-1][1].append((title, bytearray()))
    text = HEADER
    for name, entries in sections:
        text += f"\n== {name}\n"
        for title, data in derive(name, [(title, bytes(data)) for title, data in entries]):
            text += f"{title}\n"
            text += "".join(f"  {data[at:at + 48].hex()}\n" for at in range(0, len(data), 48))
    FILE.write_text(text)


main()
