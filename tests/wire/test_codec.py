"""The codec on a schema of its own, with every kind of field, against bytes written by hand."""

import sys
import types
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from epoka.wire import codec, decoder, encoder, generate, guessing
from epoka.wire.errors import EncodeError, Malformed, TooLarge, Truncated, UnsupportedVersion
from epoka.wire.notation import parse

SCHEMA = """\
api 99 Sample

request 0-4 flexible 2+
  flag: bool
  tiny: int8
  small: int16
  unsigned: uint16
  wide: uint32
  long: int64
  real: float64
  id: uuid
  name: string
  nick: string?1+
  blob: bytes
  batches: records?
  numbers: [int32]
  names: [string]
  ids: [uuid]
  flags: [bool]
  inner: Inner
    a: int16
    b: string 1+
  maybe: Maybe?
    x: int32
    later: string 3+ @1
  parts: [Part]?1+
    index: int32
    replicas: [int32]
    epoch: int64 1+ = -1
    isr: [int16]
  kept: int32 3+! = 7
  kept_list: [int32] 4+!
  dropped: int32 3+ = 7
  tag_text: string? 2+ @5 = null
  tag_number: int32 2+ @0 = 9
  tag_parts: [Part] 3+ @2
  tag_inner: Inner 2+ @300

response 0-4 flexible 2+
  empties: [Empty]
    late: int8 4+

struct Loose 0-1
  wide: Wide
    a: [int32]
    b: [int64]
"""


def build() -> types.ModuleType:
    schema = parse(SCHEMA, "sample.msg")
    module = types.ModuleType("sample_messages")
    sys.modules[module.__name__] = module
    exec(generate.module_source(schema, "sample"), module.__dict__)
    codec.adopt(module.__name__, schema)
    return module


S: Any = build()
VERSIONS = range(5)


def part(rng: Random) -> Any:
    lengths = rng.choice([(3, 3), (3, 2), (0, 0), (1, 130), (127, 0)])
    return S.Part(
        rng.randrange(1 << 20),
        tuple(rng.randrange(1000) for _ in range(lengths[0])),
        -1,
        tuple(rng.randrange(1000) for _ in range(lengths[1])),
    )


def full(seed: int = 0) -> Any:
    """A message in which no field has its default, but for those that not every version can carry."""
    rng = Random(seed)
    return S.SampleRequest(
        flag=True,
        tiny=-128,
        small=-32768,
        unsigned=65535,
        wide=4294967295,
        long=-(1 << 63),
        real=1.5,
        id=uuid.UUID(int=rng.getrandbits(128)),
        name="Grüße" * 40,
        nick="n",
        blob=b"\0\1\2" * rng.choice([1, 100]),
        batches=b"batch" * 300,
        numbers=tuple(range(-3, 300)),
        names=("", "a", "b" * 200),
        ids=(uuid.UUID(int=1), uuid.UUID(int=rng.getrandbits(128))),
        flags=(True, False, True),
        inner=S.Inner(5),
        maybe=S.Maybe(6),
        parts=tuple(part(rng) for _ in range(40)),
    )


def test_bytes_of_an_inflexible_version() -> None:
    message = S.SampleResponse(empties=(S.Empty(), S.Empty()))
    assert codec.encode(message, 0) == b"\0\0\0\2"
    loose = S.Loose(S.Wide((1, -1), (2,)))
    written = bytes.fromhex("00000002 00000001 ffffffff 00000001 0000000000000002")
    assert codec.encode(loose, 0) == written
    assert codec.decode(S.Loose, 0, written) == loose


def test_bytes_of_a_flexible_version() -> None:
    message = S.SampleRequest(
        flag=True,
        name="ab",
        nick=None,
        numbers=(1,),
        maybe=None,
        parts=(S.Part(1, (2,), 3, (4, 5)),),
        tag_text="x",
        tag_number=9,
        tag_inner=S.Inner(1, "y"),
    )
    expected = (
        "01 00 0000 0000 00000000 0000000000000000 0000000000000000" + "00" * 16 + "03 6162"
        "00 01 01"  # nick null, blob empty, records empty
        "02 00000001 01 01 01"  # numbers, names, ids, flags
        "0000 01 00"  # inner with its tags
        "ff"  # maybe null
        "02 00000001 02 00000002 0000000000000003 03 0004 0005 00"  # one part
        "02 05 02 02 78 ac02 05 0001 02 79 00"  # two tagged fields, 5 before 300
    )
    written = bytes.fromhex(expected)
    assert codec.encode(message, 2) == written
    assert codec.decode(S.SampleRequest, 2, written) == message


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_was_written_is_read_again(version: int, kind: type) -> None:
    message = full()
    again = codec.decode(S.SampleRequest, version, kind(codec.encode(message, version)))
    # A version without null reads and writes the rest all the same; fields it lacks are at their defaults.
    assert again == message


def test_lists_are_written_like_tuples() -> None:
    listed = S.SampleRequest(numbers=[1, 2], parts=[S.Part(replicas=[1], isr=[])], names=["a"])
    tupled = S.SampleRequest(numbers=(1, 2), parts=(S.Part(replicas=(1,), isr=()),), names=("a",))
    for version in VERSIONS:
        assert codec.encode(listed, version) == codec.encode(tupled, version)


def test_records_are_views_of_what_was_received_and_bytes_are_not() -> None:
    frame = bytearray(codec.encode(full(), 4))
    message = codec.decode(S.SampleRequest, 4, frame)
    assert isinstance(message.batches, memoryview)
    assert not message.batches.readonly
    assert message.batches.obj is frame
    assert type(message.blob) is bytes


def test_any_byte_but_zero_is_true() -> None:
    written = bytearray(codec.encode(S.SampleRequest(), 0))
    written[0] = 2
    assert codec.decode(S.SampleRequest, 0, written).flag is True


def test_a_prefix_is_read_where_it_lies() -> None:
    one, two = full(1), full(2)
    stream = b"###" + codec.encode(one, 3) + codec.encode(two, 3) + b"tail"
    for buffer in (stream, bytearray(stream)):
        first, position = codec.decode_prefix(S.SampleRequest, 3, buffer, 3)
        second, end = codec.decode_prefix(S.SampleRequest, 3, buffer, position)
        assert (first, second, buffer[end:]) == (one, two, b"tail")
    with pytest.raises(Truncated):
        codec.decode_prefix(S.SampleRequest, 3, stream, len(stream) + 1)


def test_a_struct_inside_a_message_can_stand_alone() -> None:
    assert codec.decode(S.Part, 2, codec.encode(S.Part(1, (2,)), 2)) == S.Part(1, (2,))


# Versions


def test_a_field_the_version_lacks_is_dropped_unless_it_must_be_kept() -> None:
    assert codec.decode(S.SampleRequest, 2, codec.encode(S.SampleRequest(dropped=1), 2)).dropped == 7
    codec.encode(S.SampleRequest(kept=7), 2)
    with pytest.raises(EncodeError, match=r"SampleRequest\.kept is set but version 2 cannot carry it"):
        codec.encode(S.SampleRequest(kept=8), 2)
    with pytest.raises(EncodeError, match="kept_list"):
        codec.encode(S.SampleRequest(kept_list=(1,)), 3)
    assert codec.decode(S.SampleRequest, 3, codec.encode(S.SampleRequest(kept=8), 3)).kept == 8


def test_null_is_refused_in_versions_without_it() -> None:
    message = S.SampleRequest(parts=None, nick=None)
    assert codec.decode(S.SampleRequest, 1, codec.encode(message, 1)) == message
    with pytest.raises(EncodeError, match="nick is None, but version 0 has no null there"):
        codec.encode(message, 0)
    with pytest.raises(EncodeError, match="name is None"):
        codec.encode(S.SampleRequest(name=None), 4)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(EncodeError, match="no version 5"):
        codec.encode(S.SampleRequest(), 5)
    with pytest.raises(UnsupportedVersion):
        codec.decode(S.SampleRequest, 5, b"")


def test_a_class_without_a_schema_is_refused() -> None:
    class Stranger(S.Inner):  # type: ignore[misc,name-defined]
        pass

    with pytest.raises(EncodeError, match="not a message class"):
        codec.encode(Stranger(), 0)


# Tagged fields


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    plain = codec.encode(S.SampleRequest(), 4)
    assert plain.endswith(b"\0")
    defaults = S.SampleRequest(tag_number=9, tag_parts=[], tag_inner=S.Inner())
    assert codec.encode(defaults, 4) == plain


def test_a_tagged_field_that_is_not_there_has_its_default() -> None:
    message = codec.decode(S.SampleRequest, 4, codec.encode(S.SampleRequest(), 4))
    assert (message.tag_text, message.tag_number, message.tag_parts) == (None, 9, ())


def test_tagged_fields_may_come_in_any_order_with_strangers_between() -> None:
    body = codec.encode(S.SampleRequest(), 2)[:-1]
    tags = b"\x04" + b"\x05\x02\x02x" + b"\x63\x03???" + b"\x00\x04\0\0\0\x01" + b"\x63\x00"
    message = codec.decode(S.SampleRequest, 2, body + tags)
    assert (message.tag_text, message.tag_number) == ("x", 1)


def test_a_tagged_field_inside_a_nullable_struct() -> None:
    message = S.SampleRequest(maybe=S.Maybe(1, "later"), tag_parts=(S.Part(1, (1, 2), 3, ()),))
    assert codec.decode(S.SampleRequest, 3, codec.encode(message, 3)) == message


# What does not fit


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tiny": 128}, "tiny is 128, which does not fit int8"),
        ({"unsigned": -1}, "unsigned is -1, which does not fit uint16"),
        ({"long": 1 << 63}, "does not fit int64"),
        ({"small": "1"}, "small is str, not int16"),
        ({"name": "x" * 32768}, "name has 32768 bytes; the most is 32767"),
        ({"name": "\ud800"}, "name cannot be written as UTF-8"),
        ({"name": b"bytes"}, "name is bytes, not string"),
        ({"blob": "text"}, "blob is str, not bytes"),
        ({"blob": None}, "blob is None"),
        ({"id": 5}, "id is int, not uuid"),
        ({"numbers": (1, 1 << 31)}, r"numbers\[1\] is 2147483648, which does not fit int32"),
        ({"numbers": 5}, "numbers is int, not a sequence"),
        ({"ids": (1,)}, r"ids\[0\] is int, not uuid"),
        ({"inner": S.Maybe()}, "inner is Maybe, not Inner"),
        ({"parts": (S.Part(), S.Part(isr=(1 << 15,)))}, r"parts\[1\]\.isr\[0\] is 32768"),
        ({"real": "x"}, "real is str, not float64"),
    ],
)
def test_a_value_that_does_not_fit_is_named(version: int, values: dict[str, Any], words: str) -> None:
    for write in (codec.encode, codec.encode_parts):
        with pytest.raises(EncodeError, match=words) as caught:
            write(S.SampleRequest(**values), version)
        assert str(caught.value).startswith(f"SampleRequest v{version}: ")


def test_the_longest_string_is_written_and_a_longer_one_is_refused() -> None:
    longest = S.SampleRequest(name="x" * 32767)
    for version in (0, 4):
        assert codec.decode(S.SampleRequest, version, codec.encode(longest, version)) == longest
    flexible = codec.encode(longest, 4).replace(b"\x80\x80\x02xx", b"\x81\x80\x02xxx")
    with pytest.raises(Malformed, match="32768 bytes"):
        codec.decode(S.SampleRequest, 4, flexible)


def test_structs_without_fields_are_bounded_by_the_budget_alone() -> None:
    claim = (1 << 20).to_bytes(4, "big")
    with pytest.raises(TooLarge):
        codec.decode(S.SampleResponse, 0, claim, max_elements=1000)
    assert len(codec.decode(S.SampleResponse, 0, b"\0\0\0\5", max_elements=5).empties) == 5


# Parts


def test_large_byte_strings_stay_the_objects_they_are() -> None:
    batches, blob = memoryview(bytes(5000)), b"b" * 3000
    for version in VERSIONS:
        message = S.SampleRequest(name="n", batches=batches, blob=blob)
        parts = codec.encode_parts(message, version)
        assert b"".join(parts) == codec.encode(message, version)
        assert [part for part in parts if len(part) > 1024] == [blob, batches]
        assert any(part is batches for part in parts)
        assert any(part is blob for part in parts)
        assert len(parts) <= 5


def test_small_messages_are_one_part() -> None:
    message = S.SampleRequest(batches=b"x" * 1024)
    for version in VERSIONS:
        assert codec.encode_parts(message, version) == [codec.encode(message, version)]
    assert codec.encode_parts(S.SampleResponse(), 0) == [b"\0\0\0\0"]


# Guessed arrays


@pytest.fixture
def fresh_decoders() -> Iterator[None]:
    """Decoders that have not learnt anything yet, before and after."""

    def forget() -> None:
        for known in (codec._bytes_decoders, codec._any_decoders):
            for key in [key for key in known if key[0].__module__ == S.__name__]:
                del known[key]

    forget()
    yield
    forget()


def parts_like(rng: Random, shapes: list[tuple[int, int]], count: int, ids: int) -> Any:
    def numbers(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(ids) for _ in range(length))

    made = []
    for number in range(count):
        replicas, isr = rng.choice(shapes)
        made.append(S.Part(number, numbers(replicas), rng.randrange(9), numbers(isr)))
    return S.SampleRequest(parts=tuple(made))


MIXES = {
    "one shape, few ids": ([(3, 3)], 500, 3),
    "one shape, many ids": ([(3, 3)], 12_000, 30_000),
    "two shapes of one size": ([(2, 1), (1, 3)], 300, 5),
    "many shapes": ([(a, b) for a in range(9) for b in range(9)], 2_000, 5),
    "shapes too large to guess": ([(40, 1), (200, 200)], 50, 5),
    "empty arrays": ([(0, 0)], 100, 1),
}


@pytest.mark.usefixtures("fresh_decoders")
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("mix", MIXES)
def test_arrays_are_read_right_whatever_was_guessed(mix: str, version: int) -> None:
    shapes, count, ids = MIXES[mix]
    for seed in range(3):
        message = parts_like(Random(seed), shapes, count, ids)
        if version == 0:
            message = S.SampleRequest(
                parts=tuple(S.Part(p.index, p.replicas, -1, p.isr) for p in message.parts)
            )
        assert codec.decode(S.SampleRequest, version, codec.encode(message, version)) == message


@pytest.mark.usefixtures("fresh_decoders")
def test_guesses_take_over_once_a_shape_has_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[guessing.Guesses] = []
    original = decoder.Guesses

    def watched(*arguments: Any) -> guessing.Guesses:
        made.append(original(*arguments))
        return made[-1]

    monkeypatch.setattr(decoder, "Guesses", watched)
    written = codec.encode(parts_like(Random(0), [(3, 3)], 100, 3), 2)
    codec.decode(S.SampleRequest, 2, written)
    assert max(guesses.read for guesses in made) == 100 - (guessing.SIGHTINGS_BEFORE_COMPILING - 1)
    codec.decode(S.SampleRequest, 2, codec.encode(parts_like(Random(0), [(3, 3)], 30_000, 30_000), 2))
    assert not all(guesses.remembers for guesses in made), "arrays that never come back are not remembered"
    for guesses in made:
        assert all(len(memory) <= guessing.MAX_REMEMBERED for memory in guesses.known)


@pytest.mark.usefixtures("fresh_decoders")
def test_what_a_peer_can_make_a_decoder_remember_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[guessing.Guesses] = []
    original = decoder.Guesses
    monkeypatch.setattr(decoder, "Guesses", lambda *a: made.append(original(*a)) or made[-1])
    shapes = [(a, b) for a in range(33) for b in range(33)]
    for seed in range(3):
        message = parts_like(Random(seed), shapes, 20_000, 3)
        written = codec.encode(message, 2)
        assert codec.decode(S.SampleRequest, 2, written, max_elements=10**7) == message
    for guesses in made:
        assert len(guesses.shapes) <= guessing.MAX_COMPILED_SHAPES
        assert len(guesses.sightings) <= guessing.MAX_WATCHED_SHAPES
        assert all(len(memory) <= guessing.MAX_REMEMBERED for memory in guesses.known)


@pytest.mark.usefixtures("fresh_decoders")
def test_a_tag_or_a_cut_inside_a_guessed_array_is_seen() -> None:
    message = parts_like(Random(0), [(3, 3)], 50, 3)
    written = codec.encode(message, 2)
    assert codec.decode(S.SampleRequest, 2, written) == message
    last = codec.encode(message.parts[-1], 2)
    at = written.rindex(last) + len(last) - 1
    tagged = written[:at] + b"\x01\x07\x02??" + written[at + 1 :]
    assert codec.decode(S.SampleRequest, 2, tagged) == message
    for cut in range(len(written) - 3 * len(last), len(written)):
        with pytest.raises(Truncated):
            codec.decode(S.SampleRequest, 2, written[:cut])


@pytest.mark.usefixtures("fresh_decoders")
def test_guessed_elements_are_paid_from_the_same_budget() -> None:
    message = parts_like(Random(0), [(3, 3)], 100, 3)
    written = codec.encode(message, 2)
    needed = 100 + 600
    for _ in range(3):
        assert codec.decode(S.SampleRequest, 2, written, max_elements=needed) == message
        with pytest.raises(TooLarge):
            codec.decode(S.SampleRequest, 2, written, max_elements=needed - 1)


def test_packers_for_long_lengths_are_not_kept() -> None:
    packers = encoder.ShapePackers(["i", "x"], ["i"], flexible=True)
    assert packers[1](7, 2, 5) == b"\0\0\0\7\2\0\0\0\5\0"
    assert packers[200](7, 201, *range(200))[4:6] == b"\xc9\x01"
    assert list(packers) == [1]
