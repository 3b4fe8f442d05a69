"""Coverage-guided fuzzing of everything that reads a peer's bytes: frames, requests, responses, records.

    python -m pip install atheris        # needs clang's libFuzzer wheel: Python 3.11 or 3.12 on Linux
    python fuzz/fuzz_decoder.py --seconds 60 [--corpus DIR] [--keep DIR] [libFuzzer options]

An input that is neither decoded nor refused with a WireError, or that reads back differently after being
written again, is a crash: libFuzzer stores it in the folder given with --keep. Run the script with the stored
file as its only other argument to see it again. The first byte of an input says which reader gets the rest.
"""

from __future__ import annotations

import argparse
import contextlib
import struct
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["epoka.wire"]):
    from epoka.wire import codec, records
    from epoka.wire.apis import APIS
    from epoka.wire.errors import WireError
    from epoka.wire.frame import FrameReader, decode_request, decode_response, encode_request, encode_response
    from epoka.wire.messages import group_records, metadata_records

# What a message may hold; low, so that a slow input is one that is slow for its size.
MAX_ELEMENTS = 20_000
MAX_FRAME = 1 << 16

VERSIONS = [
    (api.key, version) for api in APIS.values() for version in range(api.min_version, api.max_version + 1)
]
STRUCTURES = [
    (getattr(module, name), version)
    for module in (metadata_records, group_records)
    for name in module.__all__
    if hasattr(getattr(module, name), "MIN_VERSION")
    for version in range(getattr(module, name).MIN_VERSION, getattr(module, name).MAX_VERSION + 1)
]
REQUEST, RESPONSE, STRUCTURE, FRAMES, RECORDS, SEALED_RECORDS = range(6)


def same_again(message: object, version: int) -> None:
    """What was decoded can be written, and what was written decodes to the same."""
    written = codec.encode(message, version)  # type: ignore[type-var]
    again = codec.decode(type(message), version, written)  # type: ignore[type-var]
    if again != message:
        raise AssertionError(f"{message!r} became {again!r}")


def read_request(content: bytes) -> None:
    header, message = decode_request(content, max_elements=MAX_ELEMENTS)
    same_again(message, header.api_version)


def read_response(content: bytes) -> None:
    if len(content) < 2:
        return
    key, version = VERSIONS[int.from_bytes(content[:2], "big") % len(VERSIONS)]
    _, message = decode_response(key, version, content[2:], max_elements=MAX_ELEMENTS)
    same_again(message, version)


def read_structure(content: bytes) -> None:
    if not content:
        return
    cls, version = STRUCTURES[content[0] % len(STRUCTURES)]
    same_again(codec.decode(cls, version, content[1:], max_elements=MAX_ELEMENTS), version)


def read_frames(content: bytes) -> None:
    """Frames are the same whether their bytes come at once or in two pieces."""
    if not content:
        return
    cut = content[0] % len(content)
    stream = content[1:]
    together, apart = outcome([stream]), outcome([stream[:cut], stream[cut:]])
    if together != apart:
        raise AssertionError(f"{together!r} in one piece, {apart!r} when cut at {cut}")


def outcome(pieces: list[bytes]) -> list[bytes | str]:
    reader = FrameReader(MAX_FRAME)
    found: list[bytes | str] = []
    try:
        for piece in pieces:
            found += [bytes(frame) for frame in reader.feed(piece)]
    except WireError as error:
        # The frames before a bad one may be given or not, depending on what came together with it.
        return [str(error)]
    return found


def read_records(content: bytes) -> None:
    with contextlib.suppress(WireError):
        records.validate(content, max_batch_bytes=MAX_FRAME)
    for position, header in records.headers(content):
        with contextlib.suppress(WireError):
            records.decode_batch(content, position, header, max_bytes=1 << 20)


def read_sealed_records(content: bytes) -> None:
    """As `read_records`, with the length, magic and checksum of one batch put right first."""
    batch = bytearray(content)
    if len(batch) < records.HEADER_SIZE:
        return
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[16] = 2
    header = records.read_header(batch)
    records.assign(batch, 0, header.base_offset, header.partition_leader_epoch, header.max_timestamp)
    read_records(bytes(batch))


READERS = {
    REQUEST: read_request,
    RESPONSE: read_response,
    STRUCTURE: read_structure,
    FRAMES: read_frames,
    RECORDS: read_records,
    SEALED_RECORDS: read_sealed_records,
}


def one_input(content: bytes) -> None:
    if not content:
        return
    with contextlib.suppress(WireError):
        READERS[content[0] % len(READERS)](content[1:])


def seed(corpus: Path) -> None:
    """One valid input for every request, every response and every structure, and a few record batches."""
    inputs: list[bytes] = []
    for number, (key, version) in enumerate(VERSIONS):
        request = b"".join(encode_request(key, version, 7, "fuzz", APIS[key].request()))[4:]
        response = b"".join(encode_response(key, version, 7, APIS[key].response()))[4:]
        inputs.append(bytes([REQUEST]) + request)
        inputs.append(bytes([RESPONSE]) + number.to_bytes(2, "big") + response)
    for number, (cls, version) in enumerate(STRUCTURES):
        inputs.append(bytes([STRUCTURE, number]) + codec.encode(cls(), version))
    inputs.append(bytes([FRAMES, 3]) + struct.pack(">i", 3) + b"abc" + struct.pack(">i", 0))
    for name in ("none", "gzip", "snappy", "lz4", "zstd"):
        batch = bytes(records.encode_batch([(b"key", b"value" * 20), (None, b"")], codec=name))
        inputs += [bytes([RECORDS]) + batch, bytes([SEALED_RECORDS]) + batch]
    for number, content in enumerate(inputs):
        (corpus / f"seed-{number:04}").write_bytes(content)


def instrument_compiled_decoders() -> None:
    """The decoders are made by exec, where import hooks do not see them."""
    requests = [(APIS[key].request, version) for key, version in VERSIONS]
    responses = [(APIS[key].response, version) for key, version in VERSIONS]
    for cls, version in (*requests, *responses, *STRUCTURES):
        with contextlib.suppress(WireError):
            codec.decode(cls, version, b"")
    for decoder in codec._bytes_decoders.values():
        atheris.instrument_func(decoder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long to run")
    parser.add_argument("--corpus", type=Path, help="where inputs worth keeping are kept between runs")
    parser.add_argument("--keep", type=Path, default=Path(), help="where to store an input that fails")
    options, rest = parser.parse_known_args()
    instrument_compiled_decoders()
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus or Path(scratch)
        corpus.mkdir(parents=True, exist_ok=True)
        seed(corpus)
        arguments = [
            sys.argv[0],
            f"-max_total_time={options.seconds}",
            "-max_len=4096",
            "-timeout=10",
            "-rss_limit_mb=1024",
            f"-artifact_prefix={options.keep}/",
            *rest,
            *([] if any(Path(word).is_file() for word in rest) else [str(corpus)]),
        ]
        atheris.Setup(arguments, one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
