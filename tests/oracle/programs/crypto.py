# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""cryptography, hashlib and compression: OpenSSL's assembler, Rust, cffi."""
import bz2
import hashlib
import lzma
import zlib

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

data = bytes(range(256)) * 64
rsa_key = rsa.generate_private_key(65537, 1024)
ec_key = ec.generate_private_key(ec.SECP256R1())
ed_key = ed25519.Ed25519PrivateKey.generate()
fernet = Fernet(Fernet.generate_key())
aes = AESGCM(b"0" * 32)
chacha = ChaCha20Poly1305(b"0" * 32)

while True:
    sig = rsa_key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    rsa_key.public_key().verify(sig, data, padding.PKCS1v15(), hashes.SHA256())
    sig = ec_key.sign(data, ec.ECDSA(hashes.SHA256()))
    ec_key.public_key().verify(sig, data, ec.ECDSA(hashes.SHA256()))
    ed_key.public_key().verify(ed_key.sign(data), data)
    fernet.decrypt(fernet.encrypt(data))
    aes.encrypt(b"1" * 12, data, b"")
    chacha.encrypt(b"1" * 12, data, b"")
    for name in ("md5", "sha1", "sha224", "sha256", "sha512", "sha3_256", "blake2b", "blake2s"):
        hashlib.new(name, data).digest()
    hashlib.pbkdf2_hmac("sha256", b"p", b"s", 50)
    zlib.decompress(zlib.compress(data))
    bz2.compress(data[:2000])
    lzma.compress(data[:2000])
